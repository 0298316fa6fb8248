/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is held: kept by a majority, doubted when there is nobody to spare, made whole again.
 *
 * A renewal is answered as soon as one more than the majority has kept it. If it is the bare
 * majority, those who are silent are waited for first, and then the holder is told that it is in
 * doubt: one server more and it is lost. It stays in doubt, with each renewal, until there is one
 * to spare again. So many servers that have lost it that the rest is no majority: it is lost, at
 * once. Too few answers: nothing is known, and our own deadline decides.
 *
 * A server that has not got it is asked for it, under the same id and with the same token, as long
 * as the majority's lease is valid: soon after the grant, and after each renewal. (A round ends
 * with the majority; the others may still have had the lock of whoever was before us.)
 */
#include "engines/redlock/renewals.h"

#include "engines/redlock/servers.h"
#include "engines/redlock/waits.h"

#include <stdio.h>
#include <string.h>

#define COMPLETE_MS 50 /* after the grant; then again, twice, each time after longer */
#define COMPLETIONS 3
#define WHILE_NS (500 * SNIB__MS) /* held for so long, it wants to hear of breaks */

static void answer(struct snib__redlock_bid *b, const struct snib__result *result)
{
    bool asked = b->renewing;
    b->renewing = b->by_itself = false;
    b->due_ns = SNIB__NEVER;
    if (asked) {
        snib__answer(b->claim, SNIB__RENEW, result);
    } else if (result->status == SNIB__LOST) {
        snib__report(b->claim, SNIB_LOST, result->reason);
    } else if (b->doubtful) {
        snib__report(b->claim, SNIB_DOUBTFUL, result->reason);
    }
}

static void explain(struct snib__redlock *r, const struct snib__redlock_bid *b, char *out,
                    size_t size)
{
    bool missing[SNIB__SERVERS_MOST] = {false};
    char which[300];
    unsigned count = 0;
    for (unsigned i = 0; i < r->count; i++) {
        const struct snib__seat *seat = &b->round.seats[i];
        missing[i] = seat->state != SNIB__SEAT_HAS || !seat->proven;
        count += !missing[i];
    }
    snib__servers_explain(which, sizeof which, r, missing);
    snprintf(out, size, "%u of %u servers keep it, %u are needed; not %s", count, r->count,
             snib__redlock_quorum(r), which);
}

/* ---- Making it whole -------------------------------------------------------------------- */

static bool retake(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    bool asked = false;
    for (unsigned i = 0; i < r->count; i++) {
        struct snib__server *s = &r->servers[i];
        const struct snib__seat *seat = &b->round.seats[i];
        bool lacks = seat->state == SNIB__SEAT_EMPTY || seat->state == SNIB__SEAT_BUSY ||
                     seat->state == SNIB__SEAT_OUT;
        if (lacks && snib__round_may_retake(&b->round, snib__now()) && snib__server_votes(s) &&
            snib__redlock_ask_attempt(s, b, NULL)) {
            snib__node_flush(&s->node);
            asked = true;
        }
    }
    return asked;
}

static void retake_later(struct snib__redlock_bid *b, int64_t after_ms)
{
    b->again_ns = snib__later(snib__now().boot_ns, after_ms * SNIB__MS);
}

static void doubt(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    char why[420];
    explain(r, b, why, sizeof why);
    b->doubtful = true;
    snib__report(b->claim, SNIB_DOUBTFUL, why);
}

/* A moment after the grant, or after a server was asked for what it lacked. */
void snib__redlock_complete(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    b->again_ns = SNIB__NEVER;
    if (b->renewing || b->by_itself) {
        return; /* its end does the same */
    }
    bool bare = snib__round_margin(&b->round) <= 0;
    if (b->agains < COMPLETIONS) {
        b->agains++;
        if (retake(r, b) || bare) {
            retake_later(b, (int64_t)COMPLETE_MS << b->agains);
        }
    } else if (bare && !b->doubtful) {
        doubt(r, b);
    }
}

/* ---- Renewing --------------------------------------------------------------------------- */

static void consider(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    char why[420];
    struct snib__result result = {.status = SNIB__HELD};
    enum snib__verdict verdict = snib__round_renewed(&b->round);
    if (verdict == SNIB__PENDING || (!b->renewing && !b->by_itself)) {
        return;
    }
    if (verdict == SNIB__GRANTED || verdict == SNIB__BARELY) {
        (void)snib__round_lease(&b->round, &result.since, &result.lease_ms);
        b->doubtful = verdict == SNIB__BARELY;
        if (b->doubtful) {
            explain(r, b, why, sizeof why);
            result.code = SNIB_EUNSAFE;
            result.reason = why;
        }
        b->agains = COMPLETIONS - 1;
        if (retake(r, b)) {
            retake_later(b, COMPLETE_MS);
        }
    } else {
        explain(r, b, why, sizeof why);
        result.status = verdict == SNIB__DENIED ? SNIB__LOST : SNIB__UNKNOWN;
        result.reason = why;
    }
    if (verdict == SNIB__DENIED && b->breaker[0]) {
        snprintf(why, sizeof why, "taken away by %.110s", b->breaker);
    } else if (verdict == SNIB__GRANTED) {
        b->breaker[0] = '\0'; /* whoever broke something, it was not this */
    }
    answer(b, &result);
}

void snib__redlock_renew(struct snib__redlock *r, struct snib__redlock_bid *b, bool by_itself)
{
    if (b->renewing && !by_itself) {
        struct snib__result unknown = {.status = SNIB__UNKNOWN, .reason = "no answer in time"};
        snib__answer(b->claim, SNIB__RENEW, &unknown);
        return;
    }
    if (b->renewing || (b->by_itself && by_itself)) {
        return;
    }
    if (b->by_itself) { /* it is being asked already */
        b->by_itself = false;
        b->renewing = true;
        return;
    }
    b->renewing = !by_itself;
    b->by_itself = by_itself;
    int64_t now_ns = snib__now().boot_ns;
    b->due_ns = snib__redlock_long_due_ns(r); /* there is time: the lease before goes on */
    snib__round_renew(&b->round);
    for (unsigned i = 0; i < r->count; i++) {
        struct snib__server *s = &r->servers[i];
        if (b->round.seats[i].pending && !snib__redlock_ask_renew(s, b, NULL)) {
            snib__round_unheard(&b->round, i);
        } else if (b->round.seats[i].pending) {
            snib__node_flush(&s->node);
            if (snib__server_is_gone(s, b->due_ns - now_ns) && !snib__servers_scarce(r)) {
                snib__round_unheard(&b->round, i); /* if it answers, that counts */
            }
        }
    }
    consider(r, b);
    snib__redlock_rearm(r, b);
}

void snib__redlock_on_renew(struct snib__server *s, struct snib__redlock_bid *b,
                            const struct snib__redis_call *call,
                            const struct snib__layout_answer *a)
{
    struct snib__redlock *r = s->session;
    char why[160];
    if (a->now_ms) {
        (void)snib__server_learn_time(s, call, a->now_ms); /* whoever kept it has lost nothing */
    }
    if (b->phase != SNIB__REDLOCK_HELD) {
        return;
    }
    if (a->word == SNIB__ANSWER_BROKEN) { /* it stays until we release it */
        snprintf(why, sizeof why, "broken by %.120s", a->holder);
        struct snib__result lost = {.status = SNIB__LOST, .reason = why};
        answer(b, &lost);
        return;
    }
    if (a->word == SNIB__ANSWER_HELD) {
        s->trouble[0] = '\0';
        snib__round_kept(&b->round, s->index, call->sent, call->ttl_ms);
    } else {
        snprintf(s->trouble, sizeof s->trouble, "has lost it");
        snib__round_gone(&b->round, s->index);
    }
    consider(r, b);
}

void snib__redlock_on_renew_lost(struct snib__server *s, struct snib__redlock_bid *b)
{
    if (b->phase == SNIB__REDLOCK_HELD) {
        snib__round_unheard(&b->round, s->index);
        consider(s->session, b);
    }
}

void snib__redlock_renew_late(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    b->due_ns = SNIB__NEVER;
    for (unsigned i = 0; i < r->count; i++) {
        struct snib__seat *seat = &b->round.seats[i];
        if (seat->pending || seat->state == SNIB__SEAT_ASKED) {
            snib__server_unheard(&r->servers[i], "no answer in time");
            seat->pending = false;
        }
    }
    snib__round_late(&b->round);
    consider(r, b);
}

/* ---- Breaks ----------------------------------------------------------------------------- */

void snib__redlock_listen(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    if (!b->claim->listens || b->listens) {
        return;
    }
    int64_t now_ns = snib__now().boot_ns;
    if (b->listen_ns == 0) {
        b->listen_ns = snib__later(now_ns, WHILE_NS);
    } else if (now_ns >= b->listen_ns) {
        b->listens = true;
        r->listening++;
        snib__waits_await(r);
        snib__redlock_renew(r, b, true); /* what was said before */
    }
}

void snib__redlock_unlisten(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    b->listen_ns = 0;
    if (b->listens) {
        b->listens = false;
        r->listening--;
        snib__waits_await(r);
    }
}

/* "WHO KEY". It proves nothing: those who have that key ask. */
void snib__redlock_broken(struct snib__server *s, const char *text)
{
    struct snib__redlock *r = s->session;
    const char *space = strchr(text, ' ');
    for (struct snib__list *l = r->bids.after; space && l != &r->bids; l = l->after) {
        struct snib__redlock_bid *b = SNIB__OF(l, struct snib__redlock_bid, in_session);
        char key[SNIB__KEY_MAX];
        if (b->phase != SNIB__REDLOCK_HELD || !b->claim->listens) {
            continue;
        }
        r->layout->key(key, s->settings.prefix, b->claim->name);
        if (strcmp(space + 1, key) == 0) {
            snprintf(b->breaker, sizeof b->breaker, "%.*s", (int)(space - text), text);
            snib__redlock_renew(r, b, true);
            snib__redlock_rearm(r, b);
        }
    }
}
