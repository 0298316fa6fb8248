/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mode=lease: renewals, many in one request. One that has no link, or whose link broke, is kept
 * until there is one or its time is over; one that is not answered in time is UNKNOWN, and its
 * answer still counts if it comes.
 *
 * A bid is part of one renewal at a time, and forgets it when it goes.
 */
#include "engines/sql/renewals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 200 };

/* Renewals under way. */
struct sql_renewal {
    struct sql_request request;
    struct snib__list place;
    int64_t due_ns;
    bool kept; /* until there is a link */
    size_t count;
    struct sql_bid *bids[BATCH];
    char keys[BATCH * 22], owners[BATCH * 33], ttls[BATCH * 21];
};

static void answer_renewal(struct sql_bid *b, const struct snib__result *result)
{
    bool owed = b->owes_renewal;
    b->owes_renewal = false;
    if (!b->claim || b->leaving) {
        return;
    }
    if (owed) {
        snib__answer(b->claim, SNIB__RENEW, result);
    } else if (result->status == SNIB__LOST) {
        snib__report(b->claim, SNIB_LOST, result->reason);
    }
}

static void on_renewal_row(struct sql_request *r, const char *const columns[SQL_COLUMNS])
{
    struct sql_renewal *renewal = SNIB__OF(r, struct sql_renewal, request);
    for (size_t i = 0; columns[0] && columns[1] && i < renewal->count; i++) {
        struct sql_bid *b = renewal->bids[i];
        char why[200] = "its lease was over";
        if (!b || strcmp(b->owner, columns[0]) != 0) {
            continue;
        }
        if (strcmp(columns[1], "broken") == 0) {
            snprintf(why, sizeof why, "broken by %.150s", columns[3] ? columns[3] : "somebody");
        }
        struct snib__result result = {.status = SNIB__LOST, .reason = why};
        if (strcmp(columns[1], "held") == 0) {
            result = (struct snib__result){.status = SNIB__HELD,
                                           .token = columns[2] ? strtoull(columns[2], NULL, 10) : 0,
                                           .since = r->sent,
                                           .lease_ms = b->asked_ms};
        }
        b->renewal = NULL;
        renewal->bids[i] = NULL;
        answer_renewal(b, &result);
        return;
    }
}

/* Those that were not spoken of. */
static void leave_unknown(struct sql_renewal *renewal, const char *why, bool detach)
{
    struct snib__result unknown = {.status = SNIB__UNKNOWN, .reason = why};
    for (size_t i = 0; i < renewal->count; i++) {
        struct sql_bid *b = renewal->bids[i];
        if (b && detach) {
            renewal->bids[i] = NULL;
            b->renewal = NULL;
        }
        if (b && b->owes_renewal) {
            answer_renewal(b, &unknown);
        }
    }
}

static void on_renewed(struct sql_request *r, enum sql_outcome outcome)
{
    struct sql_renewal *renewal = SNIB__OF(r, struct sql_renewal, request);
    bool absent = outcome == SQL_ABSENT;
    if ((outcome == SQL_LOST || outcome == SQL_UNSENT) && snib__now().boot_ns < renewal->due_ns) {
        renewal->kept = true; /* twice does no harm: by the next link */
        return;
    }
    for (size_t i = 0; absent && i < renewal->count; i++) {
        struct snib__result lost = {.status = SNIB__LOST, .reason = "its table is gone"};
        struct sql_bid *b = renewal->bids[i];
        if (b) {
            b->renewal = NULL;
            renewal->bids[i] = NULL;
            answer_renewal(b, &lost);
        }
    }
    leave_unknown(renewal, r->reason[0] ? r->reason : "no answer", true);
    snib__list_remove(&renewal->place);
    free(renewal);
}

static struct sql_renewal *renewal_new(struct sql *s)
{
    struct sql_renewal *renewal = calloc(1, sizeof *renewal);
    if (renewal) {
        renewal->due_ns = snib__now().boot_ns + s->session->timeout_ms * SNIB__MS;
        snib__list_append(&s->renewals, &renewal->place);
    }
    return renewal;
}

/* `strand` NULL: as soon as there is one. */
static void send_renewal(struct sql *s, struct sql_renewal *renewal, struct sql_strand *strand)
{
    renewal->kept = !strand;
    if (strand) {
        renewal->request = (struct sql_request){
            .statement = SQL_RENEW,
            .link = &strand->link,
            .count = 4,
            .row = on_renewal_row,
            .ended = on_renewed,
            .parameters = {strand->number, renewal->keys, renewal->owners, renewal->ttls}};
        s->driver->send(&renewal->request);
    }
}

void sql_renewals_send(struct sql_strand *strand)
{
    struct sql *s = strand->sql;
    for (struct snib__list *l = s->renewals.after; l != &s->renewals; l = l->after) {
        struct sql_renewal *renewal = SNIB__OF(l, struct sql_renewal, place);
        if (renewal->kept) {
            send_renewal(s, renewal, strand);
        }
    }
}

static void add(struct sql_renewal *renewal, struct sql_bid *b)
{
    const char *comma = renewal->count ? "," : "";
    size_t keys = strlen(renewal->keys), owners = strlen(renewal->owners);
    size_t ttls = strlen(renewal->ttls);
    b->asked_ms = b->claim->ttl_ms;
    snprintf(renewal->keys + keys, sizeof renewal->keys - keys, "%s%s", comma, b->key);
    snprintf(renewal->owners + owners, sizeof renewal->owners - owners, "%s%s", comma, b->owner);
    snprintf(renewal->ttls + ttls, sizeof renewal->ttls - ttls, "%s%lld", comma,
             (long long)b->asked_ms);
    b->renewal = renewal;
    b->renewal_at = renewal->count;
    renewal->bids[renewal->count++] = b;
}

void sql_renewals_start(struct sql *s, struct sql_strand *strand,
                        struct snib__claim *const claims[], size_t n)
{
    struct sql_renewal *renewal = NULL;
    for (size_t i = 0; i < n; i++) {
        struct sql_bid *b = ((struct sql_ticket *)claims[i]->state)->bid;
        struct snib__result result = {.status = SNIB__UNKNOWN, .reason = "out of memory"};
        if (!b || b->phase != SQL_HOLDING) {
            result = (struct snib__result){.status = SNIB__LOST, .reason = "it was not held"};
            snib__answer(claims[i], SNIB__RENEW, &result);
            continue;
        }
        b->owes_renewal = true;
        if (b->renewal) {
            continue; /* its answer will do */
        }
        renewal = renewal ? renewal : renewal_new(s);
        if (!renewal) {
            answer_renewal(b, &result);
            continue;
        }
        add(renewal, b);
        if (renewal->count == BATCH) {
            send_renewal(s, renewal, strand);
            renewal = NULL;
        }
    }
    if (renewal) {
        send_renewal(s, renewal, strand);
    }
}

void sql_renewals_look(struct sql_strand *strand, struct sql_bid *b)
{
    struct sql_renewal *renewal = b->renewal ? NULL : renewal_new(strand->sql);
    if (renewal) {
        add(renewal, b);
        send_renewal(strand->sql, renewal, strand);
    }
}

void sql_renewals_forget(struct sql_bid *b)
{
    if (b->renewal) {
        b->renewal->bids[b->renewal_at] = NULL;
        b->renewal = NULL;
    }
}

bool sql_renewals_kept(const struct sql *s)
{
    for (struct snib__list *l = s->renewals.after; l != &s->renewals; l = l->after) {
        if (SNIB__OF(l, struct sql_renewal, place)->kept) {
            return true;
        }
    }
    return false;
}

int64_t sql_renewals_keep_time(struct sql *s, int64_t now_ns)
{
    int64_t next = SNIB__NEVER;
    for (struct snib__list *l = s->renewals.after, *after; l != &s->renewals; l = after) {
        struct sql_renewal *renewal = SNIB__OF(l, struct sql_renewal, place);
        after = l->after;
        if (renewal->due_ns <= now_ns) {
            leave_unknown(renewal, s->why[0] ? s->why : "no answer in time", renewal->kept);
            if (renewal->kept) {
                snib__list_remove(&renewal->place);
                free(renewal);
            }
        } else {
            next = renewal->due_ns < next ? renewal->due_ns : next;
        }
    }
    return next;
}

void sql_renewals_close(struct sql *s)
{
    for (struct snib__list *l = s->renewals.after, *after; l != &s->renewals; l = after) {
        after = l->after;
        free(SNIB__OF(l, struct sql_renewal, place));
    }
}
