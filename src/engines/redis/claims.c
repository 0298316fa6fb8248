/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims on one Redis server.
 *
 *   attempt --> HELD                          the answer to a fresh request
 *           --> QUEUED --message--> HELD      handed over by whoever released it (handover.c)
 *           --> BUSY                          and no inbox yet: open one, then attempt again
 *   renew   --> HELD | LOST
 *   release --> FREED | LOST
 *
 * Safety. At most one exclusive holder at the server at any time, by its clock: scripts are atomic,
 * and an entry goes only when its time is over, its owner gives it back, or somebody breaks it. A
 * holder's own deadline, counted by the core from before its request was sent, ends before the
 * server's. That assumes a server whose clock does not jump forward by more than the drift allowed
 * for, that keeps its data, does not evict, and is not a replica. The node looks at what can be
 * looked at when a connection begins. A holder that stops past its deadline can still write late:
 * the token is for that.
 *
 * When a connection is lost, what was asked is asked once more on the next one, within its time:
 * attempts and renewals count once however often they are sent, and the server remembers the last
 * releases. What remains unanswered is UNKNOWN. An attempt that may still be on its way when its
 * release is sent on another connection cannot be granted later: it carries a not-after time, and
 * the release leaves the id behind as dead until then. A release that the server refused without
 * executing it becomes a debt (debts.c).
 */
#include "engines/redis/claims.h"

#include "engines/redis/asks.h"
#include "engines/redis/attempts.h"
#include "engines/redis/bid.h"
#include "engines/redis/breaks.h"
#include "engines/redis/debts.h"
#include "engines/redis/steps.h"
#include "engines/redis/watches.h"

#include <stdio.h>

static void answer(struct snib__bid *b, enum snib__verb verb, const struct snib__result *result)
{
    snib__answer(b->claim, verb, result); /* a release's: the bid may be gone */
}

/* To a renewal. */
static void answer_unknown(struct snib__bid *b, const char *why)
{
    struct snib__result unknown = {.status = SNIB__UNKNOWN, .reason = why};
    if (b->by_itself) {
        b->by_itself = false; /* nobody has asked */
        return;
    }
    answer(b, SNIB__RENEW, &unknown);
}

/* The last word about a claim; `why`: or NULL. */
static void end_release_because(struct snib__redis *r, struct snib__bid *b,
                                enum snib__status status, const char *why)
{
    struct snib__result result = {.status = status, .reason = why};
    if (b->under_way) {
        snib__node_drop(&r->node, b);
        snib__steps_drop(r, b);
    }
    snib__bid_forget(r, b);
    answer(b, SNIB__RELEASE, &result);
}

static void end_release(struct snib__redis *r, struct snib__bid *b, enum snib__status status)
{
    end_release_because(r, b, status, NULL);
}

/* ---- Submitting ------------------------------------------------------------------------- */

/* Nobody waits for answers yet, of this server or of another one. */
static bool is_idle(const struct snib__redis *r)
{
    return snib__node_idle(&r->node) && !(r->router && r->router->busy(r));
}

static void flush(struct snib__redis *r)
{
    snib__node_flush(&r->node);
    r->session->afloat = snib__node_clear(&r->node);
}

/* Whoever submits sends, unless others come at once and it can leave with theirs. A driver that
 * sleeps waits for answers already if others are on their way, and no later than for theirs. */
static void dispatch(struct snib__redis *r, bool idle)
{
    struct snib__session *session = r->session;
    if (session->more && !idle && snib__node_up(&r->node)) {
        session->afloat = false;
        session->quiet = true;
        return;
    }
    flush(r);
    session->quiet = !idle && session->afloat && snib__node_up(&r->node);
}

void snib__claims_flush(struct snib__session *session)
{
    flush(snib__redis_of(session));
}

void snib__claims_attempt_at(struct snib__redis *r, struct snib__claim *claim)
{
    struct snib__bid *b = claim->state;
    bool idle = is_idle(r);
    b->claim = claim;
    const char *refused = r->layout->refuses(r->settings.prefix, claim->name);
    if (refused) {
        snib__attempts_fail(r, b, SNIB_EINVAL, 0, refused);
        return;
    }
    int64_t watchdog_ms = claim->session->values[SNIB__REDIS_WATCHDOG].number;
    if (r->layout->watched && claim->mode == SNIB_SHARED && claim->ttl_ms > watchdog_ms) {
        char why[200];
        snprintf(
            why, sizeof why,
            "a ttl of %lld ms is too long for a shared lock: the watchdogs of Redisson shorten "
            "it to theirs, %lld ms by watchdog=",
            (long long)claim->ttl_ms, (long long)watchdog_ms);
        snib__attempts_fail(r, b, SNIB_EINVAL, 0, why);
        return;
    }
    snib__redis_line_leave(r, b);
    b->phase = SNIB__BID_ASKED;
    b->place = 0;
    if (claim->may_queue && !snib__bid_know(r, b)) {
        snib__attempts_fail(r, b, SNIB_ENOMEM, 0, "out of memory");
        return;
    }
    snib__attempts_try(r, b);
    dispatch(r, idle);
}

void snib__claims_renew_at(struct snib__redis *r, struct snib__claim *const claims[], size_t n)
{
    bool idle = is_idle(r);
    for (size_t i = 0; i < n; i++) {
        struct snib__bid *b = claims[i]->state;
        if (b->renewing && b->by_itself) {
            b->by_itself = false;                     /* it is being asked already */
        } else if (b->renewing || b->proof.pending) { /* the one before is overdue: a server that is
                                     behind is not helped */
            answer_unknown(b, "no answer in time");
        } else if (!snib__ask_renew(r, b, NULL)) {
            answer_unknown(b, "out of memory");
        }
    }
    dispatch(r, idle);
}

void snib__claims_release_at(struct snib__redis *r, struct snib__claim *claim)
{
    struct snib__bid *b = claim->state;
    bool idle = is_idle(r);
    b->claim = claim; /* an adopted one was never attempted here */
    snib__redis_line_leave(r, b);
    snib__watches_leave(r, b);
    snib__breaks_unlisten(r, b);
    snib__witness_drop(&b->proof);
    b->was_held = b->phase == SNIB__BID_HELD || claim->adopted;
    b->phase = SNIB__BID_RELEASING;
    if (!b->sent && b->under_way == 0 && !claim->adopted) {
        end_release(r, b, SNIB__FREED); /* the server has never heard of it */
    } else if (!snib__ask_release(r, b, NULL)) {
        end_release(r, b, SNIB__UNKNOWN);
    } else {
        dispatch(r, idle);
    }
}

void snib__claims_attempt(struct snib__claim *claim)
{
    snib__claims_attempt_at(snib__redis_of(claim->session), claim);
}

void snib__claims_renew(struct snib__claim *const claims[], size_t n)
{
    snib__claims_renew_at(snib__redis_of(claims[0]->session), claims, n);
}

void snib__claims_release(struct snib__claim *claim)
{
    snib__claims_release_at(snib__redis_of(claim->session), claim);
}

/* ---- Answers to a renewal and a release ------------------------------------------------- */

static void on_renew_lost(struct snib__bid *b, const struct snib__layout_answer *a)
{
    char why[160] = "the server no longer has it";
    if (a->word == SNIB__ANSWER_BROKEN) { /* it stays there until we release it */
        snprintf(why, sizeof why, "broken by %.120s", a->holder);
    } else if (b->breaker) {
        snprintf(why, sizeof why, "taken away by %.120s", b->breaker);
    }
    struct snib__result lost = {.status = SNIB__LOST, .reason = why};
    answer(b, SNIB__RENEW, &lost);
}

static void on_renew(struct snib__redis *r, struct snib__bid *b,
                     const struct snib__redis_call *call, const struct snib__layout_answer *a)
{
    b->proof.unasked = b->by_itself;
    b->by_itself = false;
    if (b->phase == SNIB__BID_RELEASING) {
        return;
    }
    if (a->word != SNIB__ANSWER_HELD && snib__node_is_replica(&r->node)) {
        answer_unknown(b, r->node.why);
        return;
    }
    if (a->word != SNIB__ANSWER_HELD) {
        on_renew_lost(b, a);
        return;
    }
    snib__breaks_listen(r, b);
    if (b->doubts) {
        snib__breaks_ask(r, b);
    } else {
        snib__breaks_deny(b);
    }
    b->proof.verb = SNIB__RENEW;
    b->proof.token = a->token;
    b->proof.since = call->sent;
    b->proof.lease_ms = call->ttl_ms;
    if (r->witness) {
        snib__witness_prove(r->witness, &b->proof);
    } else {
        snib__claims_proven(r, b);
    }
}

/* In a copy that lags, what nobody seems to have taken may have been taken at the master before: it
 * counts only if it has not ended meanwhile. */
static bool is_revived(const struct snib__redis *r, const struct snib__bid *b)
{
    int64_t span_ns = b->held_ms * SNIB__MS / 10 * 9;
    return r->witness && b->epoch != r->witness->epoch &&
           snib__elapsed_ns(b->held, snib__now()) >= span_ns;
}

void snib__claims_proven(struct snib__redis *r, struct snib__bid *b)
{
    struct snib__server_clock *clock = &r->node.clock;
    char jumped[80];
    if (is_revived(r, b)) {
        struct snib__result lost = {.status = SNIB__LOST,
                                    .reason = "it ended before the new master renewed it"};
        answer(b, SNIB__RENEW, &lost);
        return;
    }
    b->held = b->proof.since;
    b->held_ms = b->proof.lease_ms;
    b->epoch = r->witness ? r->witness->epoch : 0;
    struct snib__result held = {
        .status = SNIB__HELD,
        .token = b->proof.token,
        .since = b->proof.since,
        .lease_ms = b->proof.lease_ms,
    };
    if (clock->jump_ms) { /* worth a word; but whoever could renew has lost nothing */
        snprintf(jumped, sizeof jumped, "the server's clock jumped by %+.1f s",
                 (double)clock->jump_ms / 1000);
        clock->jump_ms = 0;
        held.reason = jumped;
    }
    answer(b, SNIB__RENEW, &held);
}

/* What the core believed before goes on to count, until it ends. */
void snib__claims_unproven(struct snib__redis *r, struct snib__bid *b)
{
    struct snib__result unknown = {.status = SNIB__UNKNOWN, .reason = r->witness->why};
    if (!b->proof.unasked) {
        answer(b, SNIB__RENEW, &unknown);
    }
}

/* `repeated`: another release for it may have been executed before, without an answer. */
static enum snib__status status_of_release(const struct snib__bid *b, bool repeated,
                                           const struct snib__layout_answer *a)
{
    if (a->word == SNIB__ANSWER_DONE && b->claim->adopted && !repeated) {
        return SNIB__LOST; /* by the one who is dead, or by another who gave it back for him */
    }
    if (a->word != SNIB__ANSWER_NONE) {
        return SNIB__FREED;
    }
    if (repeated) {
        return SNIB__UNKNOWN; /* the first may have done it, too long ago to be remembered */
    }
    return b->was_held ? SNIB__LOST : SNIB__FREED;
}

/* Refused, and not executed: go on asking for as long as there is something to release. */
static void owe_release(struct snib__redis *r, struct snib__bid *b,
                        const struct snib__redis_call *call)
{
    unsigned char id[SNIB__ID_SIZE];
    snib__bid_id(b, id);
    struct snib__debt *d = snib__debts_add(r, b->claim->name, id, b->loose_ms, true);
    if (!d) {
        end_release(r, b, SNIB__UNKNOWN);
        return;
    }
    d->bid = b;
    d->answer_by_ns = call->due_ns;
}

static void on_release(struct snib__redis *r, struct snib__bid *b,
                       const struct snib__redis_call *call, const struct snib__layout_answer *a)
{
    if (a->word == SNIB__ANSWER_NONE && snib__node_is_replica(&r->node)) {
        owe_release(r, b, call); /* its master may have it */
        return;
    }
    if (a->unfinished) { /* those who wait would find out by themselves, only later */
        unsigned char id[SNIB__ID_SIZE];
        snib__bid_id(b, id);
        (void)snib__debts_add(r, b->claim->name, id, 0, false);
    }
    end_release(r, b, status_of_release(b, call->trials > 0, a));
}

void snib__claims_settled(struct snib__redis *r, struct snib__bid *b,
                          const struct snib__layout_answer *a)
{
    end_release(r, b, a ? status_of_release(b, false, a) : SNIB__UNKNOWN);
}

/* ---- Errors ----------------------------------------------------------------------------- */

static void on_error(struct snib__redis *r, struct snib__bid *b, struct snib__redis_call *call,
                     const char *text)
{
    struct snib__error error = snib__error_read(text);
    bool releasing = b->phase == SNIB__BID_RELEASING;
    if (error.kind == SNIB__ERROR_MOVED) {
        snib__node_leave(&r->node, text); /* not the master any more */
    }
    if (releasing && call->kind != SNIB__CALL_RELEASE) {
        return;
    }
    if (error.kind == SNIB__ERROR_NO_SCRIPT && !call->by_text) {
        call->by_text = true;
        if (snib__ask_again(r, call)) {
            return;
        }
    }
    char said[SNIB__ERROR_SAID];
    snib__error_say(said, text);
    if (releasing && error.undone && error.kind != SNIB__ERROR_DENIED) {
        owe_release(r, b, call);
    } else if (releasing) {
        end_release_because(r, b, SNIB__UNKNOWN, said);
    } else if (call->kind == SNIB__CALL_RENEW) {
        answer_unknown(b, said);
    } else {
        snib__attempts_error(r, b, &error, said);
    }
}

/* ---- Calls that were lost --------------------------------------------------------------- */

void snib__claims_leave_ring(struct snib__bid *b, const struct snib__redis_call *call)
{
    b->under_way--;
    if (call->kind == SNIB__CALL_RENEW) {
        b->renewing = false;
    }
}

void snib__claims_note_loss(struct snib__bid *b, const struct snib__redis_call *call,
                            enum snib__loss how)
{
    if (how >= SNIB__LOSS_CUT) {
        b->sent = true;
        if (call->kind == SNIB__CALL_ATTEMPT) {
            snib__bid_note_loose(b, call->not_after_ms);
        }
    }
}

/* Within its time, and for the first time: once more, on the next connection. */
static bool repeat(struct snib__redis *r, struct snib__redis_call *call, enum snib__loss how)
{
    bool may = how == SNIB__LOSS_CUT || how == SNIB__LOSS_UNSENT;
    if (!may || call->trials > 0 || snib__now().boot_ns >= call->due_ns) {
        return false;
    }
    call->trials = how == SNIB__LOSS_CUT;
    call->by_text = false;
    return snib__ask_again(r, call);
}

void snib__claims_lost(struct snib__redis *r, struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__bid *b = call->subject;
    if (how == SNIB__LOSS_TOO_LATE && call->kind == SNIB__CALL_RENEW) {
        if (b->phase != SNIB__BID_RELEASING) {
            answer_unknown(b, "no answer in time");
        }
        return; /* if it still comes, it counts from when it was sent, and is welcome */
    }
    snib__claims_leave_ring(b, call);
    call->subject = how == SNIB__LOSS_TOO_LATE ? NULL : b;
    if (snib__bid_has_undone(b, call)) {
        return; /* the release of that id allows for it */
    }
    snib__claims_note_loss(b, call, how);
    if (b->phase == SNIB__BID_RELEASING && call->kind != SNIB__CALL_RELEASE) {
        return;
    }
    if (repeat(r, call, how)) {
        return;
    }
    switch (call->kind) {
    case SNIB__CALL_ATTEMPT:
        snib__attempts_lost(r, b, how);
        break;
    case SNIB__CALL_RENEW:
        answer_unknown(b, snib__node_why(&r->node, how));
        break;
    default:
        end_release(r, b, SNIB__UNKNOWN);
        break;
    }
}

/* ---- Replies ---------------------------------------------------------------------------- */

void snib__claims_reply(struct snib__redis *r, struct snib__redis_call *call,
                        const struct snib__reply *reply)
{
    struct snib__bid *b = call->subject;
    struct snib__layout_answer a;
    if (!b) {
        return; /* too late */
    }
    snib__claims_leave_ring(b, call);
    if (snib__bid_has_undone(b, call)) {
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        on_error(r, b, call, reply->text);
        return;
    }
    b->sent = true;
    if (!r->layout->answer(&a, reply)) {
        snib__node_end(&r->node, "the server answered something else than was asked");
        b->under_way++;
        call->trials = 1;
        snib__claims_lost(r, call, SNIB__LOSS_CUT);
        return;
    }
    if (a.now_ms) {
        snib__node_learn_time(&r->node, call, a.now_ms);
    }
    switch (call->kind) {
    case SNIB__CALL_ATTEMPT:
        snib__attempts_answer(r, b, call, &a);
        break;
    case SNIB__CALL_RENEW:
        on_renew(r, b, call, &a);
        break;
    default:
        on_release(r, b, call, &a);
        break;
    }
}
