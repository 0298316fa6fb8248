/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asks: inspect, list, break, examine. All by the main link, one statement at a time each.
 *
 * A break marks the holder's note and rings its link, and then looks until that token holds no
 * longer. Forced, it ends the holder's session, and with it whatever else that has: the session's
 * notice names it.
 *
 * What can go wrong: a query may be over, for lack of time, before its statement is answered; so
 * the statement is a record of its own. Tables that are not there are no locks.
 */
#include "engines/sql/queries.h"

#include "engines/sql/strands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 25 };

/* A statement that is under way for a query. */
struct sql_asked {
    struct sql_request request;
    struct sql_query *query; /* NULL: it is over */
    char key[SQL_KEY_MAX], name[SNIB__NAME_MAX + 1], token[24], by[128];
};

static void go(struct sql_query *);

static void finish(struct sql_query *q, int code, int sys, const char *why)
{
    struct sql *s = sql_of(q->query->session);
    char reason[480];
    if (q->asked) {
        q->asked->query = NULL;
    }
    snib__list_remove(&q->place);
    snprintf(reason, sizeof reason, "%.200s: %.260s", s->where, why ? why : "");
    snib__finish(q->query, code, sys, why ? reason : NULL);
}

/* ---- Sight ------------------------------------------------------------------------------ */

static int64_t number(const char *text, int64_t none)
{
    return text ? strtoll(text, NULL, 10) : none;
}

static const char *text(const char *t)
{
    return t ? t : "";
}

static void see(struct sql_query *q, const char *const columns[SQL_COLUMNS])
{
    snib_seen seen = {.size = sizeof seen,
                      .name = text(columns[0]),
                      .mode = (int)number(columns[1], 0),
                      .place = (int)number(columns[2], 0),
                      .token = (uint64_t)number(columns[3], 0),
                      .who = text(columns[4]),
                      .label = text(columns[5]),
                      .since_unix_ms = number(columns[6], 0),
                      .left_ms = number(columns[7], -1),
                      .permits = (unsigned)number(columns[8], 1)};
    snib__seen(q->query, &seen);
}

static void on_row(struct sql_request *r, const char *const columns[SQL_COLUMNS])
{
    struct sql_asked *a = SNIB__OF(r, struct sql_asked, request);
    struct sql_query *q = a->query;
    if (!q) {
        return;
    }
    switch (r->statement) {
    case SQL_MARK:
    case SQL_SEVER:
        q->marked = q->there = true;
        snprintf(q->who, sizeof q->who, "%s", text(columns[0]));
        if (r->statement == SQL_MARK) {
            q->left_ms = number(columns[1], 0);
        } else {
            snprintf(q->others, sizeof q->others, "%s", text(columns[1]));
        }
        return;
    case SQL_ASK:
        q->marked = q->there = true;
        snprintf(q->who, sizeof q->who, "%s", text(columns[1]));
        q->left_ms = number(columns[2], 0);
        return;
    case SQL_LOOK:
    case SQL_SIGHT:
        if (q->query->token == 0) {
            see(q, columns);
        } else if (number(columns[2], 0) == 0 &&
                   (uint64_t)number(columns[3], 0) == q->query->token) {
            q->there = true;
        }
        return;
    default:
        q->examination->row(q->query, q->step, columns);
        return;
    }
}

static void on_looked(struct sql_query *q, bool absent)
{
    if (q->query->token == 0) {
        finish(q, SNIB_OK, 0, NULL);
    } else if (!q->marked) {
        finish(q, SNIB_ELOST, 0, "that token holds nothing there now");
    } else if (!q->there || absent) {
        if (q->others[0]) {
            snprintf(q->query->session->notice, sizeof q->query->session->notice,
                     "the session of %.60s was ended; it also had: %.120s", q->who, q->others);
        }
        finish(q, SNIB_OK, 0, NULL);
    } else {
        q->look_ns = snib__now().boot_ns + LOOK_MS * SNIB__MS;
    }
}

static void on_ended(struct sql_request *r, enum sql_outcome outcome)
{
    struct sql_asked *a = SNIB__OF(r, struct sql_asked, request);
    struct sql_query *q = a->query;
    if (!q) {
        free(a);
        return;
    }
    q->asked = NULL;
    if (outcome == SQL_LOST || outcome == SQL_UNSENT || outcome == SQL_AGAIN) {
        q->look_ns = snib__now().boot_ns + LOOK_MS * SNIB__MS; /* once more, while there is time */
    } else if (q->examination) {
        q->examination->ended(q->query, q->step++, outcome, r);
        go(q);
    } else if (outcome == SQL_REFUSED) {
        char why[sizeof r->reason];
        snprintf(why, sizeof why, "%s", r->reason);
        finish(q, r->code, 0, why);
    } else {
        on_looked(q, outcome == SQL_ABSENT);
    }
    free(a);
}

/* ---- Asking ----------------------------------------------------------------------------- */

static void send(struct sql_query *q, struct sql_strand *strand)
{
    struct sql *s = strand->sql;
    struct sql_asked *a = calloc(1, sizeof *a);
    if (!a) {
        finish(q, SNIB_ENOMEM, 0, "out of memory");
        return;
    }
    a->query = q;
    q->asked = a;
    q->look_ns = 0;
    q->began = true;
    a->request = (struct sql_request){.link = &strand->link, .row = on_row, .ended = on_ended};
    snprintf(a->name, sizeof a->name, "%s", q->query->name);
    if (q->examination) {
        a->request.statement = q->examination->statements[q->step];
    } else if (q->query->token == 0 || q->marked) {
        q->there = false;
        a->request.statement = s->lease ? SQL_LOOK : SQL_SIGHT;
        a->request.count = 2;
        a->request.parameters[0] = a->name;
        a->request.parameters[1] = q->query->prefix ? "1" : "0";
    } else {
        s->driver->key(&strand->link, a->name, a->key);
        snprintf(a->token, sizeof a->token, "%llu", (unsigned long long)q->query->token);
        snprintf(a->by, sizeof a->by, "%s", s->session->who);
        a->request.statement = q->query->force ? SQL_SEVER : SQL_MARK;
        a->request.count = q->query->force ? 2 : 3;
        a->request.parameters[0] = a->key;
        a->request.parameters[1] = a->token;
        a->request.parameters[2] = a->by;
        if (s->lease) {
            a->request.statement = SQL_ASK;
            a->request.count = 4;
            a->request.parameters[3] = q->query->force ? "1" : "0";
        }
    }
    s->driver->send(&a->request);
}

static void go(struct sql_query *q)
{
    struct sql *s = sql_of(q->query->session);
    if (q->examination && q->examination->statements[q->step] == SQL_STATEMENTS) {
        finish(q, SNIB_OK, 0, NULL);
        return;
    }
    struct sql_strand *strand = sql_strand_main(s);
    if (strand && !q->asked) {
        send(q, strand);
    }
}

static void start(struct snib__query *query)
{
    struct sql *s = sql_of(query->session);
    struct sql_query *q = query->state;
    int64_t span = s->greeted ? s->session->timeout_ms : s->session->connect_ms;
    q->query = query;
    q->due_ns = snib__now().boot_ns + (span ? span : s->session->timeout_ms) * SNIB__MS;
    snib__list_init(&q->place);
    snib__list_append(&s->queries, &q->place);
    s->code = s->greeted ? s->code : 0;
    s->session->notice[0] = '\0';
    go(q);
}

void sql_inspect(struct snib__query *query)
{
    start(query);
}

void sql_evict(struct snib__query *query)
{
    start(query);
}

void sql_examine(struct snib__query *query, const struct sql_examination *examination)
{
    ((struct sql_query *)query->state)->examination = examination;
    start(query);
}

/* ---- Time ------------------------------------------------------------------------------- */

static void give_up(struct sql_query *q, int code, int sys, const char *why)
{
    char reason[300];
    if (q->examination) {
        q->examination->unreachable(q->query, code, why);
        finish(q, SNIB_OK, 0, NULL);
    } else if (q->marked) {
        snprintf(reason, sizeof reason,
                 "%s has not given it up yet; its lease lasts at most %.1f s without a renewal",
                 q->who, (double)q->left_ms / 1000);
        finish(q, SNIB_EBUSY, 0, reason);
    } else {
        finish(q, q->began ? SNIB_EUNKNOWN : code, sys, why);
    }
}

int64_t sql_queries_keep_time(struct sql *s, int64_t now_ns)
{
    int64_t next = SNIB__NEVER;
    for (struct snib__list *l = s->queries.after, *after; l != &s->queries; l = after) {
        struct sql_query *q = SNIB__OF(l, struct sql_query, place);
        after = l->after;
        /* A server that refuses us does so for good. */
        bool refused = !q->began && !s->main && s->code && s->code != SNIB_EUNREACH;
        bool alone = !q->began && !s->main && s->code && !s->greeted;
        if (refused || alone || now_ns >= q->due_ns) {
            give_up(q, s->code ? s->code : SNIB_EUNREACH, s->sys,
                    s->why[0] ? s->why : "no answer in time");
            continue;
        }
        if (!q->asked && now_ns >= q->look_ns) {
            go(q);
        }
        next = q->due_ns < next ? q->due_ns : next;
        next = !q->asked && q->look_ns && q->look_ns < next ? q->look_ns : next;
    }
    return next;
}

void sql_queries_close(struct sql *s)
{
    while (!snib__list_empty(&s->queries)) {
        struct sql_query *q = SNIB__OF(s->queries.after, struct sql_query, place);
        snib__list_remove(&q->place);
        if (q->asked) {
            q->asked->query = NULL;
        }
    }
}

void sql_queries_drop(struct sql_link *link)
{
    for (struct snib__list *l = link->requests.after, *after; l != &link->requests; l = after) {
        struct sql_request *r = SNIB__OF(l, struct sql_request, place);
        after = l->after;
        if (r->ended == on_ended) {
            snib__list_remove(&r->place);
            free(SNIB__OF(r, struct sql_asked, request));
        }
    }
}
