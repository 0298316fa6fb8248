/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting bids into calls. Attempts carry a not-after time, as soon as the server's clock is known.
 */
#include "engines/redis/asks.h"

#include "engines/redis/bid.h"
#include "engines/redis/steps.h"

/* In line; they ask often, so that if one of them is dead the next one looks. */
#define FIRST_FEW 3

/* A call for a bid; `before` is the one that it repeats, or NULL. */
static struct snib__redis_call begin_call(const struct snib__redis *r, enum snib__call_kind kind,
                                          struct snib__bid *b,
                                          const struct snib__redis_call *before)
{
    struct snib__redis_call call = snib__node_call(&r->node, (int)kind, b);
    call.asking = b->asking;
    if (before) {
        call.by_text = before->by_text;
        call.trials = before->trials;
        call.due_ns = before->due_ns;
    }
    return call;
}

static bool ask(struct snib__redis *r, struct snib__bid *b, enum snib__plan_verb verb,
                const struct snib__redis_call *call, const struct snib__wish *wish)
{
    if (!snib__steps_ask(r, verb, call, wish)) {
        return false;
    }
    b->under_way++;
    return true;
}

bool snib__ask_attempt(struct snib__redis *r, struct snib__bid *b,
                       const struct snib__redis_call *before)
{
    const struct snib__claim *claim = b->claim;
    unsigned char id[SNIB__ID_SIZE];
    if (b->asking && !(before && before->asking)) {
        r = r->router->whom(r, b); /* that server had it for one question */
    }
    struct snib__redis_call call = begin_call(r, SNIB__CALL_ATTEMPT, b, before);
    struct snib__wish wish = snib__wish_for(r, claim->name, id);
    snib__bid_id(b, id);
    call.not_after_ms =
        snib__server_clock_latest_ms(&r->node.clock, call.sent, r->session->timeout_ms);
    wish.by_text = call.by_text;
    wish.mode = claim->mode;
    wish.permits = claim->permits;
    wish.span = claim->span;
    wish.ttl_ms = claim->ttl_ms;
    wish.inbox = claim->may_queue ? snib__redis_inbox(r, b) : NULL;
    wish.patient = b->patient = b->place > FIRST_FEW;
    wish.not_after_ms = call.not_after_ms;
    wish.turn = call.turn = ++b->turn;
    wish.who = r->session->who;
    wish.label = claim->label;
    call.in_line = wish.inbox != NULL;
    if (!ask(r, b, SNIB__PLAN_ATTEMPT, &call, &wish)) {
        return false;
    }
    b->not_after_ms = call.not_after_ms;
    if (call.in_line && b->asked.boot_ns == 0) {
        b->asked = call.sent; /* no grant can be older than the first request for it */
    }
    return true;
}

/* It may have become longer since it was attempted. */
static int64_t lease_ms(const struct snib__redis *r, const struct snib__claim *claim)
{
    int64_t most = r->session->values[SNIB__REDIS_WATCHDOG].number;
    bool limited = r->layout->watched && claim->mode == SNIB_SHARED;
    return limited && claim->ttl_ms > most ? most : claim->ttl_ms;
}

bool snib__ask_renew(struct snib__redis *r, struct snib__bid *b,
                     const struct snib__redis_call *before)
{
    unsigned char id[SNIB__ID_SIZE];
    struct snib__redis_call call = begin_call(r, SNIB__CALL_RENEW, b, before);
    struct snib__wish wish = snib__wish_for(r, b->claim->name, id);
    snib__bid_id(b, id);
    wish.by_text = call.by_text;
    wish.ttl_ms = call.ttl_ms = lease_ms(r, b->claim);
    b->renewing = ask(r, b, SNIB__PLAN_RENEW, &call, &wish);
    return b->renewing;
}

bool snib__ask_release(struct snib__redis *r, struct snib__bid *b,
                       const struct snib__redis_call *before)
{
    unsigned char id[SNIB__ID_SIZE];
    struct snib__redis_call call = begin_call(r, SNIB__CALL_RELEASE, b, before);
    struct snib__wish wish = snib__wish_for(r, b->claim->name, id);
    snib__bid_id(b, id);
    wish.by_text = call.by_text;
    wish.loose_ms = b->loose_ms;
    return ask(r, b, SNIB__PLAN_RELEASE, &call, &wish);
}

bool snib__ask_again(struct snib__redis *r, const struct snib__redis_call *call)
{
    struct snib__bid *b = call->subject;
    switch (call->kind) {
    case SNIB__CALL_ATTEMPT:
        return snib__ask_attempt(r, b, call);
    case SNIB__CALL_RENEW:
        return snib__ask_renew(r, b, call);
    default:
        return snib__ask_release(r, b, call);
    }
}
