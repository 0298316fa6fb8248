/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reply, or the lack of one, means to a claim or a query.
 *
 * Upcalls never come back into the engine, so the list of requests may be walked while they are
 * answered; but a claim that was released, and a query that is finished, are gone with the upcall.
 */
#include "tcp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 8 };

/* ---- Answers ---------------------------------------------------------------------------- */

void tcp_drop(struct request *r)
{
    snib__list_remove(&r->place);
    free(r);
}

static void answer(struct request *r, const struct snib__result *result)
{
    struct snib__claim *claim = r->claim;
    enum snib__verb verb = r->kind == ATTEMPT ? SNIB__ATTEMPT
                           : r->kind == RENEW ? SNIB__RENEW
                                              : SNIB__RELEASE;
    tcp_drop(r);
    snib__answer(claim, verb, result);
}

static void found(struct snib__query *query, int verdict, const char *about, const char *text,
                  const char *remedy)
{
    snib_finding finding = {
        .size = sizeof finding, .verdict = verdict, .about = about, .text = text, .remedy = remedy};
    snib__found(query, &finding);
}

static void finish(struct request *r, int code, int sys, const char *reason)
{
    struct snib__query *query = r->query;
    tcp_drop(r);
    snib__finish(query, code, sys, reason);
}

/* What becomes of a request whose connection is no more, or never was. */
void tcp_abandon(struct tcp *t, struct request *r, int sys, const char *why)
{
    struct snib__result unknown = {.status = SNIB__UNKNOWN, .sys = sys, .reason = why};
    struct snib__result failed = {
        .status = SNIB__FAILED, .code = SNIB_EUNREACH, .sys = sys, .reason = why};
    switch (r->kind) {
    case ATTEMPT:
        /* FAILED would say that nothing is at the server: an earlier attempt may be. */
        answer(r, ((struct tcp_claim *)r->claim->state)->sent ? &unknown : &failed);
        break;
    case RENEW:
        answer(r, &unknown);
        break;
    case RELEASE: { /* the same line is sent again when somebody is there */
        struct snib__claim *claim = r->claim;
        r->kind = UNDO;
        r->claim = NULL;
        r->sent = false;
        r->due_ns = snib__later(snib__now().boot_ns, claim->ttl_ms * SNIB__MS);
        t->session->undoing++;
        snib__answer(claim, SNIB__RELEASE, &unknown);
        break;
    }
    case INSPECT:
    case EVICT:
        finish(r, r->sent ? SNIB_EUNKNOWN : SNIB_EUNREACH, sys, why);
        break;
    case EXAMINE:
        found(r->query, SNIB_BAD, "reach", why, "start the server, or mend the URL");
        finish(r, SNIB_OK, 0, NULL);
        break;
    case FORGOTTEN:
        tcp_drop(r);
        break;
    case UNDO:
        r->sent = false;
        break;
    case NAMING:
        break;
    }
}

/* ---- Replies ---------------------------------------------------------------------------- */

static void on_held(struct request *r, char *w[])
{
    int64_t age_ns = strtoll(w[4], NULL, 10) * SNIB__MS;
    struct snib__result held = {
        .status = SNIB__HELD,
        .token = strtoull(w[2], NULL, 10),
        .lease_ms = strtoll(w[3], NULL, 10),
        .since = {.boot_ns = r->since.boot_ns - age_ns, .raw_ns = r->since.raw_ns - age_ns}};
    ((struct tcp_claim *)r->claim->state)->held = true;
    answer(r, &held);
}

static void on_busy(struct tcp *t, struct request *r, char *w[])
{
    struct snib__result busy = {.status = SNIB__BUSY,
                                .retry_ms = t->session->values[TCP_POLL].number,
                                .holder_token = strtoull(w[2], NULL, 10),
                                .holder_left_ms = strtoll(w[3], NULL, 10),
                                .holder = tcp_from_hex(w[4])};
    answer(r, &busy);
}

static void on_seen(struct request *r, char *w[])
{
    snib_seen seen = {.size = sizeof seen,
                      .name = tcp_from_hex(w[2]),
                      .token = strtoull(w[3], NULL, 10),
                      .left_ms = strtoll(w[4], NULL, 10),
                      .who = tcp_from_hex(w[5]),
                      .label = tcp_from_hex(w[6]),
                      .mode = SNIB_EXCLUSIVE,
                      .permits = 1,
                      .since_unix_ms = strtoll(w[7], NULL, 10)};
    snib__seen(r->query, &seen);
}

/* The server answers: how fast, and has its host still the address that we know? */
static void on_hello(struct tcp *t, struct request *r)
{
    char text[64];
    snprintf(text, sizeof text, "answers in %" PRId64 " us",
             snib__elapsed_ns(r->since, snib__now()) / 1000);
    found(r->query, SNIB_GOOD, "reach", text, NULL);
    r->kind = NAMING;
    r->work = tcp_name(t->session, &r->naming, true);
    if (!r->work) {
        finish(r, SNIB_ENOMEM, 0, "no thread to resolve the host with");
    }
}

/* LOST to a release of what was never held means that there was nothing to give back. */
static void on_word(struct tcp *t, struct request *r, const char *word)
{
    struct snib__result lost = {.status = SNIB__LOST}, freed = {.status = SNIB__FREED};
    switch (r->kind) {
    case RENEW:
        answer(r, &lost);
        break;
    case RELEASE: {
        const struct tcp_claim *own = r->claim->state;
        bool ours = own->held || r->claim->adopted;
        answer(r, strcmp(word, "FREED") == 0 || !ours ? &freed : &lost);
        break;
    }
    case UNDO:
        t->session->undoing--;
        tcp_drop(r);
        break;
    case EVICT:
        finish(r, strcmp(word, "GONE") == 0 ? SNIB_OK : SNIB_ELOST, 0, NULL);
        break;
    default:
        finish(r, SNIB_OK, 0, NULL);
        break;
    }
}

static struct request *find(struct tcp *t, uint64_t number)
{
    for (struct snib__list *l = t->requests.after; l != &t->requests; l = l->after) {
        struct request *r = SNIB__OF(l, struct request, place);
        if (r->number == number && r->sent) {
            return r;
        }
    }
    return NULL;
}

/* Does this word answer that request, with so many words behind it? */
static bool fits(const struct request *r, char *const w[], int count)
{
    switch (r->kind) {
    case ATTEMPT:
        return count == 5 && (strcmp(w[1], "HELD") == 0 || strcmp(w[1], "BUSY") == 0);
    case RENEW:
        return (count == 5 && strcmp(w[1], "HELD") == 0) || strcmp(w[1], "LOST") == 0;
    case RELEASE:
    case UNDO:
        return strcmp(w[1], "FREED") == 0 || strcmp(w[1], "LOST") == 0;
    case INSPECT:
        return (count == 8 && strcmp(w[1], "SEEN") == 0) || strcmp(w[1], "END") == 0;
    case EVICT:
        return strcmp(w[1], "GONE") == 0 || strcmp(w[1], "LOST") == 0;
    case EXAMINE:
        return strcmp(w[1], "HELLO") == 0;
    default:
        return r->kind == FORGOTTEN;
    }
}

/* False: not what we speak. */
bool tcp_reply(struct tcp *t, char *line)
{
    char none[1] = "";
    char *w[WORDS];
    int count = 0;
    for (int i = 0; i < WORDS; i++) {
        w[i] = none;
    }
    for (char *word; count < WORDS && (word = strsep(&line, " ")) != NULL;) {
        w[count++] = word;
    }
    struct request *r = count > 1 ? find(t, strtoull(w[0], NULL, 10)) : NULL;
    if (!r || !fits(r, w, count)) {
        return false;
    }
    if (r->kind == FORGOTTEN) {
        tcp_drop(r);
    } else if (strcmp(w[1], "HELD") == 0) {
        on_held(r, w);
    } else if (strcmp(w[1], "BUSY") == 0) {
        on_busy(t, r, w);
    } else if (strcmp(w[1], "SEEN") == 0) {
        on_seen(r, w);
    } else if (r->kind == EXAMINE) {
        on_hello(t, r);
    } else {
        on_word(t, r, w[1]);
    }
    return true;
}

void tcp_named(struct request *r)
{
    if (atomic_load(&r->naming->ready)) {
        struct snib__query *query = r->query;
        snib__work_end(r->work);
        found(query, SNIB_GOOD, "name", "the host can be resolved", NULL);
        finish(r, SNIB_OK, 0, NULL);
    }
}
