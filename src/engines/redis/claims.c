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

#include "engines/redis/bid.h"
#include "engines/redis/debts.h"
#include "engines/redis/errors.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS_MOST 100 /* of a line that one script cannot clear */

static void answer(struct snib__bid *b, enum snib__verb verb, const struct snib__result *result)
{
    snib__answer(b->claim, verb, result); /* a release's: the bid may be gone */
}

static void answer_unknown(struct snib__bid *b, enum snib__verb verb, const char *why)
{
    struct snib__result unknown = {.status = SNIB__UNKNOWN, .reason = why};
    answer(b, verb, &unknown);
}

/* An attempt has its answer, or does not get any: the core decides what comes next. */
static void set_idle(struct snib__redis *r, struct snib__bid *b)
{
    snib__line_leave(r, b);
    b->phase = SNIB__BID_IDLE;
}

static void fail_attempt(struct snib__redis *r, struct snib__bid *b, int code, int sys,
                         const char *why)
{
    char reason[520];
    snprintf(reason, sizeof reason, "%s: %.200s", r->settings.where, why);
    set_idle(r, b);
    struct snib__result failed = {
        .status = SNIB__FAILED, .code = code, .sys = sys, .reason = reason};
    answer(b, SNIB__ATTEMPT, &failed);
}

/* The last word about a claim. */
static void end_release(struct snib__redis *r, struct snib__bid *b, enum snib__status status)
{
    struct snib__result result = {.status = status};
    if (b->under_way) {
        snib__node_drop(&r->node, b);
    }
    snib__bid_forget(r, b);
    answer(b, SNIB__RELEASE, &result);
}

/* ---- Asking ----------------------------------------------------------------------------- */

/* A call for a bid; `before` is the one that it repeats, or NULL. */
static struct snib__call begin_call(const struct snib__redis *r, enum snib__call_kind kind,
                                    struct snib__bid *b, const struct snib__call *before)
{
    struct snib__call call = snib__node_call(&r->node, (int)kind, b);
    if (before) {
        call.by_text = before->by_text;
        call.trials = before->trials;
        call.due_ns = before->due_ns;
    }
    return call;
}

static bool ask(struct snib__redis *r, struct snib__bid *b, const struct snib__call *call,
                const struct snib__command *command)
{
    if (!snib__node_ask(&r->node, call, command)) {
        return false;
    }
    b->under_way++;
    return true;
}

static bool ask_attempt(struct snib__redis *r, struct snib__bid *b, const struct snib__call *before)
{
    const struct snib__claim *claim = b->claim;
    struct snib__command command;
    char id[SNIB__ID_MAX];
    struct snib__call call = begin_call(r, SNIB__CALL_ATTEMPT, b, before);
    struct snib__wish wish = snib__wish_for(r, claim->name, id);
    snib__bid_id(b, id);
    call.not_after_ms =
        snib__server_clock_latest_ms(&r->node.clock, call.sent, r->session->timeout_ms);
    wish.by_text = call.by_text;
    wish.mode = claim->mode;
    wish.permits = claim->permits;
    wish.span = claim->span;
    wish.ttl_ms = claim->ttl_ms;
    wish.inbox = claim->may_queue ? snib__node_inbox(&r->node) : NULL;
    wish.not_after_ms = call.not_after_ms;
    wish.who = r->session->who;
    wish.label = claim->label;
    call.in_line = wish.inbox != NULL;
    r->layout->attempt(&command, &wish);
    if (!ask(r, b, &call, &command)) {
        return false;
    }
    if (call.in_line && b->asked.boot_ns == 0) {
        b->asked = call.sent; /* no grant can be older than the first request for it */
    }
    return true;
}

static bool ask_renew(struct snib__redis *r, struct snib__bid *b, const struct snib__call *before)
{
    struct snib__command command;
    char id[SNIB__ID_MAX];
    struct snib__call call = begin_call(r, SNIB__CALL_RENEW, b, before);
    struct snib__wish wish = snib__wish_for(r, b->claim->name, id);
    snib__bid_id(b, id);
    wish.by_text = call.by_text;
    wish.ttl_ms = b->claim->ttl_ms;
    r->layout->renew(&command, &wish);
    b->renewing = ask(r, b, &call, &command);
    return b->renewing;
}

static bool ask_release(struct snib__redis *r, struct snib__bid *b, const struct snib__call *before)
{
    struct snib__command command;
    char id[SNIB__ID_MAX];
    struct snib__call call = begin_call(r, SNIB__CALL_RELEASE, b, before);
    struct snib__wish wish = snib__wish_for(r, b->claim->name, id);
    snib__bid_id(b, id);
    wish.by_text = call.by_text;
    wish.loose_ms = b->loose_ms;
    r->layout->release(&command, &wish);
    return ask(r, b, &call, &command);
}

static bool ask_again(struct snib__redis *r, const struct snib__call *call)
{
    struct snib__bid *b = call->subject;
    switch (call->kind) {
    case SNIB__CALL_ATTEMPT:
        return ask_attempt(r, b, call);
    case SNIB__CALL_RENEW:
        return ask_renew(r, b, call);
    default:
        return ask_release(r, b, call);
    }
}

/* ---- Submitting ------------------------------------------------------------------------- */

static void answer_quarantine(struct snib__redis *r, struct snib__bid *b)
{
    int64_t left_ms = snib__node_quarantine_left_ms(&r->node);
    char reason[520];
    snprintf(reason, sizeof reason,
             "%s: quarantine for another %.1f s: this server was restarted and may have lost locks "
             "that are still held; quarantine=no if it keeps its data",
             r->settings.where, (double)left_ms / 1000);
    set_idle(r, b);
    struct snib__result busy = {
        .status = SNIB__BUSY,
        .retry_ms = left_ms < 1000 ? left_ms + 1 : 1000,
        .holder_left_ms = left_ms,
        .holder = "nobody: quarantine after a restart of the server",
        .reason = reason,
    };
    answer(b, SNIB__ATTEMPT, &busy);
}

void snib__claims_try(struct snib__redis *r, struct snib__bid *b)
{
    if (snib__node_quarantine_left_ms(&r->node) > 0) {
        answer_quarantine(r, b);
    } else if (!ask_attempt(r, b, NULL)) {
        fail_attempt(r, b, SNIB_ENOMEM, 0, "out of memory");
    }
}

bool snib__claims_recheck(struct snib__redis *r, struct snib__bid *b)
{
    return ask_attempt(r, b, NULL);
}

int64_t snib__claims_recheck_ms(const struct snib__redis *r, const struct snib__bid *b)
{
    int64_t third = b->claim->ttl_ms / 3;
    return third < r->layout->recheck_ms ? third : r->layout->recheck_ms;
}

/* Whoever submits sends. A driver that sleeps waits for answers already if others are on their way,
 * and no later than for theirs. */
static void dispatch(struct snib__redis *r, bool idle)
{
    snib__node_flush(&r->node);
    r->session->quiet = !idle && snib__node_clear(&r->node);
}

void snib__claims_attempt(struct snib__claim *claim)
{
    struct snib__redis *r = snib__redis_of(claim->session);
    struct snib__bid *b = claim->state;
    bool idle = snib__node_idle(&r->node);
    b->claim = claim;
    snib__line_leave(r, b);
    b->phase = SNIB__BID_ASKED;
    if (claim->may_queue && !snib__bid_know(r, b)) {
        fail_attempt(r, b, SNIB_ENOMEM, 0, "out of memory");
        return;
    }
    snib__claims_try(r, b);
    dispatch(r, idle);
}

void snib__claims_renew(struct snib__claim *const claims[], size_t n)
{
    struct snib__redis *r = snib__redis_of(claims[0]->session);
    bool idle = snib__node_idle(&r->node);
    for (size_t i = 0; i < n; i++) {
        struct snib__bid *b = claims[i]->state;
        if (b->renewing) { /* the one before is overdue: a server that is behind is not helped */
            answer_unknown(b, SNIB__RENEW, "no answer in time");
        } else if (!ask_renew(r, b, NULL)) {
            answer_unknown(b, SNIB__RENEW, "out of memory");
        }
    }
    dispatch(r, idle);
}

void snib__claims_release(struct snib__claim *claim)
{
    struct snib__redis *r = snib__redis_of(claim->session);
    struct snib__bid *b = claim->state;
    bool idle = snib__node_idle(&r->node);
    b->claim = claim; /* an adopted one was never attempted here */
    snib__line_leave(r, b);
    b->was_held = b->phase == SNIB__BID_HELD || claim->adopted;
    b->phase = SNIB__BID_RELEASING;
    if (!b->sent && b->under_way == 0 && !claim->adopted) {
        end_release(r, b, SNIB__FREED); /* the server has never heard of it */
    } else if (!ask_release(r, b, NULL)) {
        end_release(r, b, SNIB__UNKNOWN);
    } else {
        dispatch(r, idle);
    }
}

/* ---- Answers to an attempt -------------------------------------------------------------- */

static void on_held(struct snib__redis *r, struct snib__bid *b, const struct snib__call *call,
                    const struct snib__layout_answer *a)
{
    char note[200];
    int64_t ttl_ms = b->claim->ttl_ms;
    snib__line_leave(r, b);
    b->phase = SNIB__BID_HELD;
    struct snib__result held = {
        .status = SNIB__HELD,
        .token = a->token,
        .span = a->span,
        .since = call->sent,
        .lease_ms = ttl_ms,
    };
    /* "Yours already": what is left of a lease that began earlier. */
    if (a->left_ms < ttl_ms) {
        int64_t gone_ns = (ttl_ms - a->left_ms) * SNIB__MS;
        held.since.boot_ns -= gone_ns;
        held.since.raw_ns -= gone_ns;
    }
    held.reason = snib__node_held(&r->node, note);
    answer(b, SNIB__ATTEMPT, &held);
}

/* BUSY and QUEUED: who is in the way. */
static struct snib__result rival(enum snib__status status, const struct snib__layout_answer *a)
{
    return (struct snib__result){
        .status = status,
        .place = a->place,
        .holder_token = a->holder_token,
        .holder_left_ms = a->holder_left_ms,
        .holder = a->holder[0] ? a->holder : NULL,
    };
}

static void on_queued(struct snib__redis *r, struct snib__bid *b, const struct snib__call *call,
                      const struct snib__layout_answer *a)
{
    b->phase = SNIB__BID_QUEUED;
    b->asked = call->sent;
    b->queued_ms = a->now_ms;
    snib__line_join(r, b, snib__claims_recheck_ms(r, b));
    struct snib__result queued = rival(SNIB__QUEUED, a);
    answer(b, SNIB__ATTEMPT, &queued);
}

/* If it is willing to wait, it was asked without an inbox because there was none: open one. Asked
 * with one, the line is full. */
static void on_busy(struct snib__redis *r, struct snib__bid *b, const struct snib__call *call,
                    const struct snib__layout_answer *a)
{
    if (b->claim->may_queue && !call->in_line) {
        if (snib__node_inbox(&r->node)) { /* since the attempt was sent */
            snib__claims_try(r, b);
            return;
        }
        if (snib__node_open_inbox(&r->node)) {
            /* No word until we stand in line: nobody may believe that we already do. */
            b->phase = SNIB__BID_WANTS;
            snib__line_join(r, b, snib__claims_recheck_ms(r, b));
            return;
        }
    }
    set_idle(r, b);
    struct snib__result busy = rival(SNIB__BUSY, a);
    answer(b, SNIB__ATTEMPT, &busy);
}

/* The server was in no state to grant anything: give it back, and go on under another id. */
static void undo(struct snib__redis *r, struct snib__bid *b)
{
    char id[SNIB__ID_MAX];
    snib__bid_id(b, id);
    (void)snib__debts_add(r, b->claim->name, id, b->loose_ms, b->claim->ttl_ms, false);
    b->life++;
    b->loose_ms = 0;
}

static void on_kind(struct snib__redis *r, struct snib__bid *b, unsigned permits)
{
    char why[80];
    snprintf(why, sizeof why, "in use as a counted lock with %u permits", permits);
    fail_attempt(r, b, SNIB_EKIND, 0, permits ? why : "in use as an exclusive lock");
}

/* Arrived after its time: the server's clock has jumped, and is known now. Or after its release. */
static void on_late(struct snib__redis *r, struct snib__bid *b, struct snib__call *call)
{
    if (call->trials < 3) {
        call->trials++;
        if (!ask_attempt(r, b, call)) {
            fail_attempt(r, b, SNIB_ENOMEM, 0, "out of memory");
        }
        return;
    }
    set_idle(r, b);
    answer_unknown(b, SNIB__ATTEMPT, "the request was late");
}

/* May this server grant anything? If not, the attempt is answered here. */
static bool is_granted_by_a_fit_node(struct snib__redis *r, struct snib__bid *b)
{
    struct snib__node *node = &r->node;
    if (node->standing == SNIB__NODE_UNFIT) {
        fail_attempt(r, b, SNIB_EUNSAFE, 0, node->why);
    } else if (node->standing != SNIB__NODE_FIT) {
        set_idle(r, b); /* whatever it granted is found, or given back, by the next connection */
        answer_unknown(b, SNIB__ATTEMPT, node->why);
    } else if (snib__node_quarantine_left_ms(node) > 0) {
        undo(r, b);
        answer_quarantine(r, b);
    } else {
        return true;
    }
    return false;
}

static void on_attempt(struct snib__redis *r, struct snib__bid *b, struct snib__call *call,
                       const struct snib__layout_answer *a)
{
    if (b->phase != SNIB__BID_ASKED && b->phase != SNIB__BID_QUEUED) {
        return; /* granted by message meanwhile, or given up */
    }
    if (!is_granted_by_a_fit_node(r, b)) {
        return;
    }
    if (a->unfinished && b->rounds < ROUNDS_MOST && ask_attempt(r, b, NULL)) {
        b->rounds++; /* the dead are being cleared away in front of us */
        return;
    }
    b->rounds = 0;
    switch (a->word) {
    case SNIB__ANSWER_HELD:
        on_held(r, b, call, a);
        break;
    case SNIB__ANSWER_QUEUED:
        on_queued(r, b, call, a);
        break;
    case SNIB__ANSWER_BUSY:
        on_busy(r, b, call, a);
        break;
    case SNIB__ANSWER_KIND:
        on_kind(r, b, a->permits);
        break;
    default:
        on_late(r, b, call);
        break;
    }
}

/* ---- Answers to a renewal and a release ------------------------------------------------- */

static void on_renew(struct snib__redis *r, struct snib__bid *b, const struct snib__call *call,
                     const struct snib__layout_answer *a)
{
    struct snib__server_clock *clock = &r->node.clock;
    char jumped[80];
    if (b->phase == SNIB__BID_RELEASING) {
        return;
    }
    if (a->word != SNIB__ANSWER_HELD) {
        struct snib__result lost = {.status = SNIB__LOST, .reason = "the server no longer has it"};
        answer(b, SNIB__RENEW, &lost);
        return;
    }
    struct snib__result held = {
        .status = SNIB__HELD,
        .token = a->token,
        .since = call->sent,
        .lease_ms = b->claim->ttl_ms,
    };
    if (clock->jump_ms) { /* worth a word; but whoever could renew has lost nothing */
        snprintf(jumped, sizeof jumped, "the server's clock jumped by %+.1f s",
                 (double)clock->jump_ms / 1000);
        clock->jump_ms = 0;
        held.reason = jumped;
    }
    answer(b, SNIB__RENEW, &held);
}

/* `repeated`: another release for it may have been executed before, without an answer. */
static enum snib__status status_of_release(const struct snib__bid *b, bool repeated,
                                           const struct snib__layout_answer *a)
{
    if (a->word != SNIB__ANSWER_NONE) {
        return SNIB__FREED;
    }
    if (repeated) {
        return SNIB__UNKNOWN; /* the first may have done it, too long ago to be remembered */
    }
    return b->was_held ? SNIB__LOST : SNIB__FREED;
}

static void on_release(struct snib__redis *r, struct snib__bid *b, const struct snib__call *call,
                       const struct snib__layout_answer *a)
{
    if (a->unfinished) { /* those who wait would find out by themselves, only later */
        char id[SNIB__ID_MAX];
        snib__bid_id(b, id);
        (void)snib__debts_add(r, b->claim->name, id, 0, b->claim->ttl_ms, false);
    }
    end_release(r, b, status_of_release(b, call->trials > 0, a));
}

void snib__claims_settled(struct snib__redis *r, struct snib__bid *b,
                          const struct snib__layout_answer *a)
{
    end_release(r, b, a ? status_of_release(b, false, a) : SNIB__UNKNOWN);
}

/* Refused, and not executed: go on asking for as long as there is something to release. */
static void owe_release(struct snib__redis *r, struct snib__bid *b, const struct snib__call *call)
{
    char id[SNIB__ID_MAX];
    snib__bid_id(b, id);
    struct snib__debt *d =
        snib__debts_add(r, b->claim->name, id, b->loose_ms, b->claim->ttl_ms, true);
    if (!d) {
        end_release(r, b, SNIB__UNKNOWN);
        return;
    }
    d->bid = b;
    d->answer_by_ns = call->due_ns;
}

/* ---- Errors ----------------------------------------------------------------------------- */

static void on_attempt_error(struct snib__redis *r, struct snib__bid *b,
                             const struct snib__error *error, const char *text)
{
    if (b->phase == SNIB__BID_HELD) {
        return;
    }
    if (b->claim->may_queue && (error->kind == SNIB__ERROR_LATER || b->phase == SNIB__BID_QUEUED)) {
        set_idle(r, b);
        answer_unknown(b, SNIB__ATTEMPT, text);
    } else {
        fail_attempt(r, b, error->code, 0, text);
    }
}

static void on_error(struct snib__redis *r, struct snib__bid *b, struct snib__call *call,
                     const char *text)
{
    struct snib__error error = snib__error_read(text);
    bool releasing = b->phase == SNIB__BID_RELEASING;
    if (error.kind == SNIB__ERROR_MOVED) {
        snib__node_retire(&r->node, text); /* not the master any more */
    }
    if (releasing && call->kind != SNIB__CALL_RELEASE) {
        return;
    }
    if (error.kind == SNIB__ERROR_NO_SCRIPT && !call->by_text) {
        call->by_text = true;
        if (ask_again(r, call)) {
            return;
        }
    }
    if (releasing && error.undone && error.kind != SNIB__ERROR_DENIED) {
        owe_release(r, b, call);
    } else if (releasing) {
        end_release(r, b, SNIB__UNKNOWN);
    } else if (call->kind == SNIB__CALL_RENEW) {
        answer_unknown(b, SNIB__RENEW, text);
    } else {
        on_attempt_error(r, b, &error, text);
    }
}

/* ---- Calls that were lost --------------------------------------------------------------- */

static void lose_attempt(struct snib__redis *r, struct snib__bid *b, enum snib__loss how)
{
    const struct snib__connection *c = &r->node.connection;
    if (b->phase == SNIB__BID_HELD) {
        return;
    }
    if (how == SNIB__LOSS_DENIED) {
        on_attempt_error(r, b, &r->node.greeting.error, c->why);
    } else if (how == SNIB__LOSS_UNREACHED && !b->sent) {
        fail_attempt(r, b, SNIB_EUNREACH, c->sys, c->why);
    } else if (how == SNIB__LOSS_ALIEN && !b->sent) {
        fail_attempt(r, b, SNIB_EPROTO, 0, c->why);
    } else {
        set_idle(r, b);
        answer_unknown(b, SNIB__ATTEMPT, snib__node_why(&r->node, how));
    }
}

/* The call will say no more. */
static void leave_ring(struct snib__bid *b, const struct snib__call *call)
{
    b->under_way--;
    if (call->kind == SNIB__CALL_RENEW) {
        b->renewing = false;
    }
}

/* An attempt may still arrive until then; 0: at any time. */
static void note_loose(struct snib__bid *b, int64_t not_after_ms)
{
    if (not_after_ms == 0) {
        b->loose_ms = -1;
    } else if (b->loose_ms >= 0 && not_after_ms > b->loose_ms) {
        b->loose_ms = not_after_ms;
    }
}

/* Within its time, and for the first time: once more, on the next connection. */
static bool repeat(struct snib__redis *r, struct snib__call *call, enum snib__loss how)
{
    bool may = how == SNIB__LOSS_CUT || how == SNIB__LOSS_UNSENT;
    if (!may || call->trials > 0 || snib__now().boot_ns >= call->due_ns) {
        return false;
    }
    call->trials = how == SNIB__LOSS_CUT;
    call->by_text = false;
    return ask_again(r, call);
}

void snib__claims_lost(struct snib__redis *r, struct snib__call *call, enum snib__loss how)
{
    struct snib__bid *b = call->subject;
    if (how == SNIB__LOSS_TOO_LATE && call->kind == SNIB__CALL_RENEW) {
        if (b->phase != SNIB__BID_RELEASING) {
            answer_unknown(b, SNIB__RENEW, "no answer in time");
        }
        return; /* if it still comes, it counts from when it was sent, and is welcome */
    }
    leave_ring(b, call);
    call->subject = how == SNIB__LOSS_TOO_LATE ? NULL : b;
    if (how >= SNIB__LOSS_CUT) {
        b->sent = true;
        if (call->kind == SNIB__CALL_ATTEMPT) {
            note_loose(b, call->not_after_ms);
        }
    }
    if (b->phase == SNIB__BID_RELEASING && call->kind != SNIB__CALL_RELEASE) {
        return;
    }
    if (repeat(r, call, how)) {
        return;
    }
    switch (call->kind) {
    case SNIB__CALL_ATTEMPT:
        lose_attempt(r, b, how);
        break;
    case SNIB__CALL_RENEW:
        answer_unknown(b, SNIB__RENEW, snib__node_why(&r->node, how));
        break;
    default:
        end_release(r, b, SNIB__UNKNOWN);
        break;
    }
}

/* ---- Replies ---------------------------------------------------------------------------- */

void snib__claims_reply(struct snib__redis *r, struct snib__call *call,
                        const struct snib__reply *reply)
{
    struct snib__bid *b = call->subject;
    struct snib__layout_answer a;
    if (!b) {
        return; /* too late */
    }
    leave_ring(b, call);
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
    snib__node_learn_time(&r->node, call, a.now_ms);
    switch (call->kind) {
    case SNIB__CALL_ATTEMPT:
        on_attempt(r, b, call, &a);
        break;
    case SNIB__CALL_RENEW:
        on_renew(r, b, call, &a);
        break;
    default:
        on_release(r, b, call, &a);
        break;
    }
}

/* ---- Those that wait -------------------------------------------------------------------- */

void snib__claims_granted(struct snib__redis *r, struct snib__bid *b,
                          const struct snib__layout_grant *grant)
{
    char note[200];
    int64_t ttl_ms = b->claim->ttl_ms;
    snib__line_leave(r, b);
    b->phase = SNIB__BID_HELD;
    b->sent = true;
    struct snib__result held = {
        .status = SNIB__HELD,
        .token = grant->token,
        .span = grant->span,
        .since = b->asked,
        .lease_ms = grant->left_ms < ttl_ms ? grant->left_ms : ttl_ms,
        .reason = snib__node_held(&r->node, note),
    };
    answer(b, SNIB__ATTEMPT, &held);
}

void snib__claims_turned_away(struct snib__redis *r, struct snib__bid *b)
{
    static const struct snib__result busy = {.status = SNIB__BUSY};
    set_idle(r, b);
    answer(b, SNIB__ATTEMPT, &busy);
}
