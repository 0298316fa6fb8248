/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims: attempt, renew, release.
 *
 * Safety. At most one exclusive holder at any time, as long as the service keeps its word: a node
 * that ends with its session, numbers that grow, and one order of writes for everybody. What a
 * holder believes is bounded by its own clock: the session is proved by a transaction, which the
 * leader and a majority took part in, and counts from before that was sent, for as long as the
 * leader keeps a session it has heard of (session.c). Pings and plain reads prove nothing: a
 * follower that is cut off from the leader answers them long after the leader has ended the session
 * and let the next one in. Nor does a sync: a leader that is cut off from the others answers it by
 * itself until it misses them, while they have elected another, and that one has ended the session.
 *
 * A renewal of many claims is one transaction that changes nothing and then a read of each node:
 * still there, of this session, and nobody has asked for it to be given up. A server that is cut
 * off, or without a quorum, does not answer the former: UNKNOWN, and the lease runs out on our side
 * first. A session that the service ended is told for all at once. How it fails: a service that
 * loses data it has acknowledged, or whose leader's clock runs more than a tenth faster than ours,
 * may let a second one in; the token, the number of the transaction that made the node, tells them
 * apart.
 */
#include "engines/zookeeper/claims.h"

#include "engines/zookeeper/steps.h"

#include <stdio.h>
#include <stdlib.h>

void snib__zk_dispatch(struct snib__zk *z, bool idle)
{
    struct snib__zk_link *l = &z->at.link;
    if (z->at.ready) {
        snib__zk_link_flush(l);
        z->session->quiet = !idle && !l->ending && snib__buffer_left(&l->out) == 0;
    }
}

static bool idle(const struct snib__zk *z)
{
    return z->at.link.count == 0;
}

/* ---- Attempt ------------------------------------------------------------------------------ */

static void fail_attempt(struct snib__claim *claim, int code, const char *why)
{
    struct snib__result failed = {.status = SNIB__FAILED, .code = code, .reason = why};
    snib__answer(claim, SNIB__ATTEMPT, &failed);
}

void snib__zk_attempt(struct snib__claim *claim)
{
    struct snib__zk *z = snib__zk_of(claim->session);
    struct snib__zk_ticket *ticket = claim->state;
    bool was_idle = idle(z);
    if (!ticket->contender) {
        ticket->contender = snib__contender_new(z, claim);
        if (!ticket->contender) {
            fail_attempt(claim, SNIB_ENOMEM, "out of memory");
            return;
        }
    }
    struct snib__contender *c = ticket->contender;
    snib__contender_owe(c, SNIB__ATTEMPT);
    if (c->aim == SNIB__ZK_LEAVE) {
        c->again = true; /* when what is left of the last one is gone */
    } else {
        c->aim = SNIB__ZK_HOLD;
        if (c->standing == SNIB__ZK_WAITING || c->standing == SNIB__ZK_HELD) {
            c->standing = SNIB__ZK_UNPLACED; /* the core was told something else: look again */
        }
        snib__contender_step(c);
    }
    snib__zk_dispatch(z, was_idle);
}

/* ---- Renew -------------------------------------------------------------------------------- */

static void answer_renewal(struct snib__contender *c, enum snib__status status, const char *why)
{
    struct snib__result result = {.status = status, .reason = why};
    c->renewing = false;
    snib__answer(c->claim, SNIB__RENEW, &result);
}

static void renew_one(struct snib__zk *z, struct snib__contender *c, struct snib__instant now)
{
    char path[SNIB__ZK_PATH_ROOM];
    if (c->presence != SNIB__ZK_PRESENT || c->standing != SNIB__ZK_HELD) {
        answer_renewal(c, SNIB__LOST, "its session, or its node, is gone");
        return;
    }
    if (c->claim->listens) {
        snib__contender_listen(c, true);
    }
    snib__contender_path(c, c->node, path);
    if (!snib__zk_ask_since(&z->at, SNIB__ZK_ASK_RENEW, c, SNIB__ZK_GET_DATA, path,
                            c->claim->listens, now)) {
        answer_renewal(c, SNIB__UNKNOWN, "out of memory");
        return;
    }
    c->renewing = true;
    c->calls++;
}

void snib__zk_renew(struct snib__claim *const claims[], size_t n)
{
    struct snib__zk *z = snib__zk_of(claims[0]->session);
    struct snib__instant now = snib__now();
    bool was_idle = idle(z);
    bool asks = z->at.ready && !z->at.link.ending &&
                snib__zk_ask_proof(&z->at, z->base[0] ? z->base : "/", now);
    for (size_t i = 0; i < n; i++) {
        struct snib__contender *c = ((struct snib__zk_ticket *)claims[i]->state)->contender;
        if (asks) {
            renew_one(z, c, now);
        } else if (c->presence == SNIB__ZK_ABSENT) {
            answer_renewal(c, SNIB__LOST, "its session, or its node, is gone");
        } else {
            answer_renewal(c, SNIB__UNKNOWN, z->at.why[0] ? z->at.why : "no connection");
        }
    }
    snib__zk_dispatch(z, was_idle);
}

static void on_renew(struct snib__zk *z, struct snib__contender *c,
                     const struct snib__zk_call *call, struct snib__zk_answer *answer)
{
    struct snib__zk_text data;
    struct snib__zk_stat stat;
    struct snib__zk_owner owner;
    c->calls--;
    if (!c->renewing || !c->claim || c->aim != SNIB__ZK_HOLD) {
        c->renewing = false; /* given back meanwhile */
        return;
    }
    c->renewing = false;
    if (answer->error == SNIB__ZK_NO_NODE) {
        c->presence = SNIB__ZK_ABSENT;
        c->standing = SNIB__ZK_UNPLACED;
        c->aim = SNIB__ZK_IDLE;
        answer_renewal(c, SNIB__LOST, "its node is gone");
        return;
    }
    if (answer->error != SNIB__ZK_OK || !snib__zk_get_data(&answer->body, &data, &stat)) {
        answer_renewal(c, SNIB__UNKNOWN, "its node cannot be read");
        return;
    }
    if (stat.owner != z->at.id) {
        answer_renewal(c, SNIB__LOST, "its node is another session's");
        return;
    }
    if (c->claim->listens) {
        snib__contender_watch(c, c->node);
    }
    snib__zk_owner_read(&owner, data);
    if (owner.broken) {
        snib__contender_break(c, &owner, true);
        return;
    }
    c->proved = call->sent;
    c->lease_ms = snib__zk_session_lease_ms(&z->at, call->sent);
    snib__contender_lease(c);
    struct snib__result held = {
        .status = SNIB__HELD, .token = c->token, .since = c->proved, .lease_ms = c->lease_ms};
    snib__answer(c->claim, SNIB__RENEW, &held);
}

/* ---- Release ------------------------------------------------------------------------------ */

static void answer_release(struct snib__claim *claim, enum snib__status status)
{
    struct snib__result result = {.status = status};
    snib__answer(claim, SNIB__RELEASE, &result);
}

void snib__zk_release(struct snib__claim *claim)
{
    struct snib__zk *z = snib__zk_of(claim->session);
    struct snib__zk_ticket *ticket = claim->state;
    bool was_idle = idle(z);
    if (!ticket->contender && claim->adopted) {
        ticket->contender = snib__contender_new(z, claim);
        if (!ticket->contender) {
            answer_release(claim, SNIB__UNKNOWN);
            return;
        }
        ticket->contender->foreign = true;
        ticket->contender->presence = SNIB__ZK_ASTRAY;
    }
    struct snib__contender *c = ticket->contender;
    if (!c) {
        answer_release(claim, SNIB__FREED); /* the service has never heard of it */
        return;
    }
    snib__contender_unwatch(c);
    snib__contender_listen(c, false);
    snib__contender_owe(c, SNIB__RELEASE);
    snib__contender_queue(c, false);
    c->again = c->renewing = false;
    c->refusal = (struct snib__result){.status = SNIB__UNKNOWN};
    if (c->presence == SNIB__ZK_ABSENT) {
        c->end = c->was_held ? SNIB__LOST : SNIB__FREED;
    }
    c->aim = SNIB__ZK_LEAVE;
    snib__contender_step(c);
    if (!was_idle) {
        snib__zk_dispatch(z, false);
    } /* else whoever drives next sends it: who takes another lock at once mostly sends both
       * together, so that the servers can write both to their disks in one go */
}

/* ---- What the service says ---------------------------------------------------------------- */

void snib__zk_claims_answered(struct snib__zk *z, const struct snib__zk_call *call,
                              struct snib__zk_answer *answer)
{
    if (!call->subject) {
        return;
    }
    if (call->kind == SNIB__ZK_ASK_RENEW) {
        on_renew(z, call->subject, call, answer);
    } else {
        snib__contender_reply(call->subject, call, answer);
    }
}

void snib__zk_claims_lost(struct snib__zk *z, const struct snib__zk_call *call)
{
    struct snib__contender *c = call->subject;
    if (!c) {
        return;
    }
    if (call->kind != SNIB__ZK_ASK_RENEW) {
        snib__contender_lost(c, call);
        return;
    }
    c->calls--;
    if (c->renewing && c->claim) {
        answer_renewal(c, SNIB__UNKNOWN, z->at.link.why);
    }
}

void snib__zk_claims_event(struct snib__zk *z, const struct snib__zk_event *event)
{
    struct snib__contender *next = snib__contender_watching(z, event->path, NULL);
    while (next) {
        struct snib__contender *c = next;
        next = snib__contender_watching(z, event->path, c);
        snib__contender_event(c, event);
    }
}

/* Each contender, one of which may go meanwhile. */
#define EACH(z, c, l, after)                                                                       \
    for (struct snib__list *l = (z)->contenders.after, *after = l->after;                          \
         l != &(z)->contenders && ((c) = SNIB__OF(l, struct snib__contender, in_all), true);       \
         l = after, after = l->after)

void snib__zk_claims_ready(struct snib__zk *z)
{
    struct snib__contender *c;
    EACH(z, c, l, after)
    {
        if (c->listening && c->standing == SNIB__ZK_HELD) {
            struct snib__zk_event again = {.type = SNIB__ZK_CHANGED};
            snib__contender_event(c, &again); /* the watch was lost: look */
        } else {
            snib__contender_step(c);
        }
    }
}

void snib__zk_claims_down(struct snib__zk *z)
{
    struct snib__contender *c;
    EACH(z, c, l, after)
    {
        snib__contender_cut(c);
    }
}

void snib__zk_claims_over(struct snib__zk *z, const char *why)
{
    struct snib__contender *c;
    EACH(z, c, l, after)
    {
        snib__contender_bereave(c);
    }
    snib__report_session(z->session, SNIB_LOST, why);
    EACH(z, c, l, after)
    {
        snib__contender_step(c); /* those that wanted nothing more */
    }
}

void snib__zk_claims_unreachable(struct snib__zk *z, int code)
{
    struct snib__contender *c;
    char why[sizeof z->at.why + 20];
    snprintf(why, sizeof why, "%s; trying again", z->at.why);
    EACH(z, c, l, after)
    {
        if (c->owed && c->verb == SNIB__ATTEMPT && !c->sent && c->presence == SNIB__ZK_ABSENT) {
            struct snib__result failed = {
                .status = SNIB__FAILED, .code = code, .sys = z->at.link.sys, .reason = z->at.why};
            c->aim = SNIB__ZK_IDLE;
            snib__contender_answer(c, &failed);
        } else if (c->queued && !c->owed) { /* its place is kept for as long as the session is */
            struct snib__result queued = {.status = SNIB__QUEUED, .code = code, .reason = why};
            snib__contender_answer(c, &queued);
        }
    }
}

/* ---- Time --------------------------------------------------------------------------------- */

/* Nobody may need the session any more. */
static void step_stuck(struct snib__zk *z)
{
    struct snib__contender *c;
    z->stuck = false;
    EACH(z, c, l, after)
    {
        if (c->stuck) {
            z->stuck = true;
            snib__contender_step(c);
        }
    }
}

void snib__zk_claims_tick(struct snib__zk *z, int64_t now_ns)
{
    while (!snib__list_empty(&z->owed)) {
        struct snib__contender *c = SNIB__OF(z->owed.after, struct snib__contender, in_owed);
        if (c->due_ns > now_ns) {
            break;
        }
        snib__contender_answer_unknown(c, c->stuck      ? c->reason
                                          : z->at.ready ? "no answer in time"
                                                        : z->at.why);
    }
    if (z->stuck) {
        step_stuck(z);
    }
    struct snib__timer *over;
    while ((over = snib__timers_due(&z->timers, now_ns)) != NULL) {
        over->fire(over);
    }
}

int64_t snib__zk_claims_next(const struct snib__zk *z)
{
    int64_t next = snib__timers_next(&z->timers);
    if (!snib__list_empty(&z->owed)) {
        int64_t due = SNIB__OF(z->owed.after, struct snib__contender, in_owed)->due_ns;
        next = due < next ? due : next;
    }
    return next;
}

void snib__zk_claims_end(struct snib__zk *z)
{
    while (!snib__list_empty(&z->contenders)) {
        snib__contender_free(SNIB__OF(z->contenders.after, struct snib__contender, in_all));
    }
    snib__table_free(&z->watched);
    free(z->timers.heap);
    z->timers = (struct snib__timers){0};
}
