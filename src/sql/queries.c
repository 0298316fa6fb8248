/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking: inspect, break, examine.
 *
 * A break is asked for again and again until the holder has gone or time is up: the first time its
 * row is marked, which the holder's next renewal finds, and later ones only look. To seize makes
 * the row a note for who held it; sessions are left alone, so nothing else is lost by it.
 */
#include "sql/queries.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVICT_AGAIN_MS = 50 };

enum verb { INSPECT, EVICT, EXAMINE };

struct query {
    struct sql_request request;
    struct sql *sql;
    enum verb verb;
    struct snib__query *query;
};

static struct query *query_of(struct sql_request *r)
{
    return SNIB__OF(r, struct query, request);
}

static void query_free(struct query *q)
{
    sql_words_free(&q->request.words);
    free(q);
}

static void finish(struct query *q, int code, int sys, const char *reason)
{
    struct snib__query *query = q->query;
    query_free(q);
    snib__finish(query, code, sys, reason);
}

void sql_found(struct snib__query *query, int verdict, const char *about, const char *remedy,
               const char *format, ...)
{
    char text[SQL_WHY];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text[strcspn(text, "\n")] = '\0';
    snib__found(query, &(snib_finding){.size = sizeof(snib_finding),
                                       .verdict = verdict,
                                       .about = about,
                                       .text = text,
                                       .remedy = remedy});
}

/* ---- Answers ---------------------------------------------------------------------------- */

static void on_inspect(struct query *q, const struct sql_answer *answer)
{
    size_t rows = answer->count ? answer->sets[0].rows : 0;
    for (size_t i = 0; i < rows; i++) {
        char name[SNIB__NAME_MAX + 1], who[128], label[SNIB__LABEL_MAX + 1];
        sql_bytes(name, sizeof name, answer, 0, i, 0);
        sql_bytes(who, sizeof who, answer, 0, i, 7);
        sql_bytes(label, sizeof label, answer, 0, i, 8);
        snib__seen(q->query, &(snib_seen){.size = sizeof(snib_seen),
                                          .name = name,
                                          .who = who,
                                          .label = label,
                                          .place = (int)sql_number(answer, 0, i, 1),
                                          .mode = (int)sql_number(answer, 0, i, 2),
                                          .permits = (unsigned)sql_number(answer, 0, i, 3),
                                          .token = (uint64_t)sql_number(answer, 0, i, 4),
                                          .left_ms = sql_number(answer, 0, i, 5),
                                          .since_unix_ms = sql_number(answer, 0, i, 6)});
    }
    finish(q, SNIB_OK, 0, NULL);
}

static void on_evict(struct query *q, const struct sql_answer *answer)
{
    enum { GONE, TAKEN, ASKED };
    struct sql_query *own = q->query->state;
    int64_t now = snib__now().boot_ns;
    char holder[128], reason[240];
    switch (sql_number(answer, 0, 0, 0)) {
    case GONE:
        finish(q, own->asked ? SNIB_OK : SNIB_ELOST, 0,
               own->asked ? NULL : "nobody holds it with this token");
        return;
    case ASKED:
        break;
    default:
        finish(q, SNIB_OK, 0, NULL);
        return;
    }
    own->asked = true;
    if (now + EVICT_AGAIN_MS * SNIB__MS < q->request.due_ns) {
        q->request.not_before_ns = now + EVICT_AGAIN_MS * SNIB__MS;
        sql_link_ask(&q->sql->link, &q->request);
        return;
    }
    sql_bytes(holder, sizeof holder, answer, 0, 0, 1);
    snprintf(reason, sizeof reason,
             "%s was asked to give it up, and has it for %" PRId64 " ms more at most", holder,
             sql_number(answer, 0, 0, 2));
    finish(q, SNIB_EBUSY, 0, reason);
}

static void answered(struct sql_request *r, const struct sql_answer *answer)
{
    struct query *q = query_of(r);
    switch (q->verb) {
    case INSPECT:
        on_inspect(q, answer);
        break;
    case EVICT:
        on_evict(q, answer);
        break;
    case EXAMINE:
        q->sql->dialect->examined(q->query, &q->sql->link.target, answer,
                                  snib__elapsed_ns(r->since, snib__now()) / 1000);
        finish(q, SNIB_OK, 0, NULL);
        break;
    }
}

static void refused(struct sql_request *r, const struct sql_error *error)
{
    struct query *q = query_of(r);
    enum sql_sense sense = q->sql->dialect->sense(error);
    if (sense == SQL_AGAIN && snib__now().boot_ns < r->due_ns) {
        r->not_before_ns = snib__now().boot_ns + snib__jitter(SNIB__MS);
        sql_link_ask(&q->sql->link, r);
    } else if (q->verb == EXAMINE) {
        sql_found(q->query, SNIB_BAD, "rights", q->sql->dialect->remedy, "%s", error->text);
        finish(q, SNIB_OK, 0, NULL);
    } else {
        finish(q, sense == SQL_DENIED ? SNIB_EDENIED : SNIB_EPROTO, error->sys, error->text);
    }
}

static void abandoned(struct sql_request *r, int code, int sys, const char *why)
{
    struct query *q = query_of(r);
    if (q->verb == EXAMINE) {
        sql_found(q->query, SNIB_BAD, code == SNIB_EUNREACH ? "reach" : "fitness",
                  code == SNIB_EUNREACH ? "start the server, or mend the URL" : NULL, "%s", why);
        finish(q, SNIB_OK, 0, NULL);
    } else {
        finish(q, r->sent ? SNIB_EUNKNOWN : code, sys, why);
    }
}

static const struct sql_fate fate = {answered, refused, abandoned};

/* ---- Asking ----------------------------------------------------------------------------- */

static struct query *query_new(struct snib__query *query, enum verb verb)
{
    struct sql *s = sql_of(query->session);
    struct query *q = calloc(1, sizeof *q);
    if (!q) {
        snib__finish(query, SNIB_ENOMEM, 0, "out of memory");
        return NULL;
    }
    q->sql = s;
    q->verb = verb;
    q->query = query;
    q->request.fate = &fate;
    q->request.due_ns = snib__later(snib__now().boot_ns, s->session->timeout_ms * SNIB__MS);
    return q;
}

void sql_inspect(struct snib__query *query)
{
    struct query *q = query_new(query, INSPECT);
    if (q) {
        sql_say_call(&q->request.words, &q->sql->dialect->style, q->sql->mode, "look", "bbfm",
                     q->sql->space, query->name, (int)query->prefix);
        sql_link_ask(&q->sql->link, &q->request);
    }
}

void sql_evict(struct snib__query *query)
{
    struct query *q = query_new(query, EVICT);
    if (q) {
        sql_say_call(&q->request.words, &q->sql->dialect->style, q->sql->mode, "evict", "bbnmfb",
                     q->sql->space, query->name, (int64_t)query->token, (int)query->force,
                     q->sql->session->who);
        sql_link_ask(&q->sql->link, &q->request);
    }
}

void sql_examine(struct snib__query *query)
{
    struct query *q = query_new(query, EXAMINE);
    if (q) {
        sql_say(&q->request.words, q->sql->dialect->examination);
        sql_link_ask(&q->sql->link, &q->request);
    }
}

void sql_queries_drop(struct sql *s)
{
    struct snib__list *next;
    for (struct snib__list *p = s->link.requests.after; p != &s->link.requests; p = next) {
        struct sql_request *r = SNIB__OF(p, struct sql_request, place);
        next = p->after;
        if (r->fate == &fate) {
            snib__list_remove(p);
            query_free(query_of(r));
        }
    }
}
