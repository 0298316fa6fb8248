/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims on one Redis server: one lock is one hash, and a script does each step.
 *
 *   attempt --> HELD                          the answer to a fresh request
 *           --> QUEUED --message--> HELD      handed over by whoever released it (waiting.c)
 *           --> BUSY                          and no inbox yet: open one, then attempt again
 *   renew   --> HELD | GONE
 *   release --> GONE | LOST_BEFORE
 *
 * Safety. At most one exclusive holder at the server at any time, by its clock: scripts are atomic,
 * and an entry goes only when its time is over, its owner gives it back, or somebody breaks it. A
 * holder's own deadline, counted by the core from before its request was sent, ends before the
 * server's. That assumes a server whose clock does not jump forward by more than the drift allowed
 * for, that keeps its data, does not evict, and is not a replica. birth.c looks at what can be
 * looked at when a connection begins. A holder that stops past its deadline can still write late:
 * the token is for that.
 *
 * When a connection is lost, what was asked is asked once more on the next one, within its time:
 * attempts and renewals count once however often they are sent, and the server remembers the last
 * releases. What remains unanswered is UNKNOWN. An attempt that may still be on its way when its
 * release is sent on another connection cannot be granted later: it carries a not-after time, and
 * the release leaves the id behind as dead until then.
 */
#include "engines/redis/redis.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void snib__redis_answer(struct snib__ticket *t, enum snib__verb verb,
                        const struct snib__result *result)
{
    snib__answer(t->claim, verb, result); /* a release's: the ticket may be gone */
}

static void answer_unknown(struct snib__ticket *t, enum snib__verb verb, const char *why)
{
    struct snib__result unknown = {.status = SNIB__UNKNOWN, .reason = why};
    snib__redis_answer(t, verb, &unknown);
}

static void fail_attempt(struct snib__redis *r, struct snib__ticket *t, int code, int sys,
                         const char *why)
{
    char reason[400];
    snprintf(reason, sizeof reason, "%s: %s", r->where, why);
    snib__waiting_remove(r, t);
    t->phase = SNIB__TICKET_IDLE;
    struct snib__result failed = {
        .status = SNIB__FAILED, .code = code, .sys = sys, .reason = reason};
    snib__redis_answer(t, SNIB__ATTEMPT, &failed);
}

/* The last word about a claim. */
static void end_release(struct snib__redis *r, struct snib__ticket *t, enum snib__status status)
{
    struct snib__result result = {.status = status};
    if (t->under_way) {
        snib__link_drop(&r->link, t);
    }
    snib__owners_remove(r, t);
    snib__redis_answer(t, SNIB__RELEASE, &result);
}

/* ---- Submitting ------------------------------------------------------------------------- */

static void answer_quarantine(struct snib__redis *r, struct snib__ticket *t)
{
    int64_t left_ms = snib__quarantine_left_ms(r);
    snib__waiting_remove(r, t);
    t->phase = SNIB__TICKET_IDLE;
    struct snib__result busy = {
        .status = SNIB__BUSY,
        .retry_ms = left_ms < 1000 ? left_ms + 1 : 1000,
        .holder_left_ms = left_ms,
        .holder = "nobody: quarantine after a restart of the server",
    };
    snib__redis_answer(t, SNIB__ATTEMPT, &busy);
}

void snib__redis_try(struct snib__redis *r, struct snib__ticket *t)
{
    if (snib__quarantine_left_ms(r) > 0) {
        answer_quarantine(r, t);
    } else if (!snib__ask_attempt(r, t, NULL)) {
        fail_attempt(r, t, SNIB_ENOMEM, 0, "out of memory");
    }
}

/* Whoever submits sends. A driver that sleeps waits for answers already if others are on their way,
 * and no later than for theirs. */
static void dispatch(struct snib__redis *r, bool idle)
{
    snib__link_flush(&r->link);
    r->session->quiet = !idle && snib__link_clear(&r->link);
}

void snib__redis_attempt_claim(struct snib__claim *claim)
{
    struct snib__redis *r = snib__redis_of(claim->session);
    struct snib__ticket *t = claim->state;
    bool idle = snib__link_idle(&r->link);
    t->claim = claim;
    snib__waiting_remove(r, t);
    t->phase = SNIB__TICKET_ASKED;
    if (claim->may_queue && !snib__owners_add(r, t)) {
        fail_attempt(r, t, SNIB_ENOMEM, 0, "out of memory");
        return;
    }
    snib__redis_try(r, t);
    dispatch(r, idle);
}

void snib__redis_renew_claims(struct snib__claim *const claims[], size_t n)
{
    struct snib__redis *r = snib__redis_of(claims[0]->session);
    bool idle = snib__link_idle(&r->link);
    for (size_t i = 0; i < n; i++) {
        struct snib__ticket *t = claims[i]->state;
        if (t->renewing) { /* the one before is overdue: a server that is behind is not helped */
            answer_unknown(t, SNIB__RENEW, "no answer in time");
        } else if (!snib__ask_renew(r, t, NULL)) {
            answer_unknown(t, SNIB__RENEW, "out of memory");
        }
    }
    dispatch(r, idle);
}

void snib__redis_release_claim(struct snib__claim *claim)
{
    struct snib__redis *r = snib__redis_of(claim->session);
    struct snib__ticket *t = claim->state;
    bool idle = snib__link_idle(&r->link);
    snib__waiting_remove(r, t);
    t->was_held = t->phase == SNIB__TICKET_HELD;
    t->phase = SNIB__TICKET_RELEASING;
    if (!t->sent && t->under_way == 0) {
        end_release(r, t, SNIB__FREED); /* the server has never heard of it */
    } else if (!snib__ask_release(r, t, NULL)) {
        end_release(r, t, SNIB__UNKNOWN);
    } else {
        dispatch(r, idle);
    }
}

/* ---- Replies ---------------------------------------------------------------------------- */

static void on_held(struct snib__redis *r, struct snib__ticket *t,
                    const struct snib__redis_request *request, const struct snib__reply *reply)
{
    snib__waiting_remove(r, t);
    t->phase = SNIB__TICKET_HELD;
    struct snib__result held = {
        .status = SNIB__HELD,
        .token = (uint64_t)snib__reply_number(reply, 1),
        .span = (unsigned)snib__reply_number(reply, 3),
        .since = request->sent,
        .lease_ms = snib__reply_number(reply, 2),
    };
    /* "Yours already": what is left of a lease that began earlier. */
    int64_t gone_ns = (t->claim->ttl_ms - held.lease_ms) * SNIB__MS;
    if (gone_ns > 0) {
        held.since.boot_ns -= gone_ns;
        held.since.raw_ns -= gone_ns;
        held.lease_ms = t->claim->ttl_ms;
    }
    char note[sizeof r->birth.note];
    if (r->birth.note[0]) { /* once for each connection that gave cause */
        strcpy(note, r->birth.note);
        r->birth.note[0] = '\0';
        held.reason = note;
    }
    snib__redis_answer(t, SNIB__ATTEMPT, &held);
}

/* BUSY and QUEUED: who is in the way. */
static struct snib__result rival(const struct snib__reply *reply, char holder[120])
{
    const char *info = snib__reply_text(reply, 5); /* "SINCE WHO LABEL" */
    const char *who = strchr(info, ' ');
    snprintf(holder, 120, "%s", who ? who + 1 : "");
    size_t size = strlen(holder);
    if (size > 0 && holder[size - 1] == ' ') {
        holder[size - 1] = '\0';
    }
    return (struct snib__result){
        .place = (int)snib__reply_number(reply, 1),
        .holder_token = (uint64_t)snib__reply_number(reply, 2),
        .holder_left_ms = snib__reply_number(reply, 3),
        .holder = holder[0] ? holder : NULL,
    };
}

static void on_queued(struct snib__redis *r, struct snib__ticket *t,
                      const struct snib__redis_request *request, const struct snib__reply *reply)
{
    char holder[120];
    struct snib__result queued = rival(reply, holder);
    queued.status = SNIB__QUEUED;
    t->phase = SNIB__TICKET_QUEUED;
    t->asked = request->sent;
    t->queued_ms = snib__reply_number(reply, 4);
    snib__waiting_add(r, t, snib__recheck_ms(t->claim));
    snib__redis_answer(t, SNIB__ATTEMPT, &queued);
}

static void on_busy(struct snib__redis *r, struct snib__ticket *t, const struct snib__reply *reply)
{
    char holder[120];
    if (t->claim->may_queue) {
        if (r->inbox.state == SNIB__INBOX_READY) { /* since the attempt was sent */
            snib__redis_try(r, t);
            return;
        }
        snib__inbox_want(r);
        if (r->inbox.state == SNIB__INBOX_OPENING) {
            /* No word until we stand in line: nobody may believe that we already do. */
            t->phase = SNIB__TICKET_WANTS;
            snib__waiting_add(r, t, snib__recheck_ms(t->claim));
            return;
        }
    }
    struct snib__result busy = rival(reply, holder);
    busy.status = SNIB__BUSY;
    t->phase = SNIB__TICKET_IDLE;
    snib__redis_answer(t, SNIB__ATTEMPT, &busy);
}

/* The server was in no state to grant anything: give it back, and go on under another id. */
static void undo(struct snib__redis *r, struct snib__ticket *t)
{
    char key[SNIB__KEY_MAX], id[SNIB__ID_MAX];
    snib__redis_key(r, t->claim->name, key);
    snib__ticket_id(t, id);
    snib__ask_clean_up(r, key, id, t->loose_ms);
    t->life++;
    t->loose_ms = 0;
}

static void on_attempt(struct snib__redis *r, struct snib__ticket *t,
                       struct snib__redis_request *request, const struct snib__reply *reply)
{
    const char *word = snib__reply_text(reply, 0);
    char why[80];
    if (t->phase != SNIB__TICKET_ASKED && t->phase != SNIB__TICKET_QUEUED) {
        return; /* granted by message meanwhile, or given up */
    }
    if (r->birth.unfit) {
        fail_attempt(r, t, SNIB_EUNSAFE, 0, r->birth.why);
    } else if (snib__quarantine_left_ms(r) > 0) {
        undo(r, t);
        answer_quarantine(r, t);
    } else if (strcmp(word, "HELD") == 0) {
        on_held(r, t, request, reply);
    } else if (strcmp(word, "QUEUED") == 0) {
        on_queued(r, t, request, reply);
    } else if (strcmp(word, "BUSY") == 0) {
        on_busy(r, t, reply);
    } else if (strcmp(word, "KIND") == 0) {
        long long permits = snib__reply_number(reply, 1);
        snprintf(why, sizeof why, "in use as a counted lock with %lld permits", permits);
        fail_attempt(r, t, SNIB_EKIND, 0, permits ? why : "in use as an exclusive lock");
    } else if (strcmp(word, "LATE") == 0 && request->trials < 3) {
        request->trials++; /* the server's clock has jumped, and is known now */
        if (!snib__ask_attempt(r, t, request)) {
            fail_attempt(r, t, SNIB_ENOMEM, 0, "out of memory");
        }
    } else {
        snib__waiting_remove(r, t);
        t->phase = SNIB__TICKET_IDLE;
        answer_unknown(t, SNIB__ATTEMPT, "the request was late");
    }
}

static void on_renew(struct snib__redis *r, struct snib__ticket *t,
                     const struct snib__redis_request *request, const struct snib__reply *reply)
{
    char jumped[80];
    if (t->phase == SNIB__TICKET_RELEASING) {
        return;
    }
    if (strcmp(snib__reply_text(reply, 0), "HELD") != 0) {
        struct snib__result lost = {.status = SNIB__LOST, .reason = "the server no longer has it"};
        snib__redis_answer(t, SNIB__RENEW, &lost);
        return;
    }
    struct snib__result held = {
        .status = SNIB__HELD,
        .token = (uint64_t)snib__reply_number(reply, 1),
        .since = request->sent,
        .lease_ms = t->claim->ttl_ms,
    };
    if (r->clock.jump_ms) { /* worth a word; but whoever could renew has lost nothing */
        snprintf(jumped, sizeof jumped, "the server's clock jumped by %+.1f s",
                 (double)r->clock.jump_ms / 1000);
        r->clock.jump_ms = 0;
        held.reason = jumped;
    }
    snib__redis_answer(t, SNIB__RENEW, &held);
}

static void on_release(struct snib__redis *r, struct snib__ticket *t,
                       const struct snib__redis_request *request, const struct snib__reply *reply)
{
    bool none = strcmp(snib__reply_text(reply, 0), "NONE") == 0;
    enum snib__status status = SNIB__FREED;
    if (none && request->trials > 0) {
        status = SNIB__UNKNOWN; /* the first one may have done it, too long ago to be remembered */
    } else if (none && t->was_held) {
        status = SNIB__LOST;
    }
    end_release(r, t, status);
}

static bool ask_again(struct snib__redis *r, struct snib__redis_request *request)
{
    struct snib__ticket *t = request->subject;
    switch (request->kind) {
    case SNIB__ASK_ATTEMPT:
        return snib__ask_attempt(r, t, request);
    case SNIB__ASK_RENEW:
        return snib__ask_renew(r, t, request);
    default:
        return snib__ask_release(r, t, request);
    }
}

static void on_error(struct snib__redis *r, struct snib__ticket *t,
                     struct snib__redis_request *request, const char *error)
{
    int code;
    bool releasing = t->phase == SNIB__TICKET_RELEASING;
    if (releasing && request->kind != SNIB__ASK_RELEASE) {
        return;
    }
    enum snib__error_kind kind = snib__redis_error(error, &code);
    if (kind == SNIB__NO_SCRIPT && !request->by_text) {
        request->by_text = true;
        if (ask_again(r, request)) {
            return;
        }
    }
    if (code == SNIB_EUNSAFE && strncmp(error, "READONLY", 8) == 0) {
        r->link.retires = true; /* not the master any more: look again */
    }
    if (releasing) {
        end_release(r, t, SNIB__UNKNOWN);
    } else if (request->kind == SNIB__ASK_RENEW) {
        answer_unknown(t, SNIB__RENEW, error);
    } else if (t->phase == SNIB__TICKET_HELD) {
        return;
    } else if (t->claim->may_queue && (kind == SNIB__LATER || t->phase == SNIB__TICKET_QUEUED)) {
        snib__waiting_remove(r, t);
        t->phase = SNIB__TICKET_IDLE;
        answer_unknown(t, SNIB__ATTEMPT, error);
    } else {
        fail_attempt(r, t, code, 0, error);
    }
}

static void lose_attempt(struct snib__redis *r, struct snib__ticket *t, enum snib__redis_loss how)
{
    if (t->phase == SNIB__TICKET_HELD) {
        return;
    }
    if (how == SNIB__UNREACHED && !t->sent) {
        fail_attempt(r, t, SNIB_EUNREACH, r->link.sys, r->link.why);
        return;
    }
    snib__waiting_remove(r, t);
    t->phase = SNIB__TICKET_IDLE;
    answer_unknown(t, SNIB__ATTEMPT, how == SNIB__TOO_LATE ? "no answer in time" : r->link.why);
}

/* The request will say no more. */
static void leave_ring(struct snib__ticket *t, struct snib__redis_request *request)
{
    t->under_way--;
    if (request->kind == SNIB__ASK_RENEW) {
        t->renewing = false;
    }
}

/* An attempt may still arrive until then; 0: at any time. */
static void note_loose(struct snib__ticket *t, int64_t not_after_ms)
{
    if (not_after_ms == 0) {
        t->loose_ms = -1;
    } else if (t->loose_ms >= 0 && not_after_ms > t->loose_ms) {
        t->loose_ms = not_after_ms;
    }
}

static void on_lost_ticket(struct snib__redis *r, struct snib__redis_request *request,
                           enum snib__redis_loss how)
{
    struct snib__ticket *t = request->subject;
    if (how == SNIB__TOO_LATE && request->kind == SNIB__ASK_RENEW) {
        if (t->phase != SNIB__TICKET_RELEASING) {
            answer_unknown(t, SNIB__RENEW, "no answer in time");
        }
        return; /* if it still comes, it counts from when it was sent, and is welcome */
    }
    leave_ring(t, request);
    request->subject = how == SNIB__TOO_LATE ? NULL : t;
    if (how >= SNIB__CUT) {
        t->sent = true;
        if (request->kind == SNIB__ASK_ATTEMPT) {
            note_loose(t, request->not_after_ms);
        }
    }
    if (t->phase == SNIB__TICKET_RELEASING && request->kind != SNIB__ASK_RELEASE) {
        return;
    }
    if ((how == SNIB__CUT || how == SNIB__UNSENT) && request->trials == 0 &&
        snib__now().boot_ns < request->due_ns) {
        request->trials = how == SNIB__CUT;
        request->by_text = false;
        if (ask_again(r, request)) {
            return;
        }
    }
    switch (request->kind) {
    case SNIB__ASK_ATTEMPT:
        lose_attempt(r, t, how);
        break;
    case SNIB__ASK_RENEW:
        answer_unknown(t, SNIB__RENEW, how == SNIB__TOO_LATE ? "no answer in time" : r->link.why);
        break;
    default:
        end_release(r, t, SNIB__UNKNOWN);
        break;
    }
}

static void on_ticket(struct snib__redis *r, struct snib__redis_request *request,
                      const struct snib__reply *reply)
{
    struct snib__ticket *t = request->subject;
    if (!t) {
        return; /* too late */
    }
    leave_ring(t, request);
    if (reply->type == REDIS_REPLY_ERROR) {
        on_error(r, t, request, reply->text);
        return;
    }
    t->sent = true;
    if (reply->type != REDIS_REPLY_ARRAY || reply->count < 2) {
        r->link.alien = true; /* ends the connection, as soon as this one is answered */
        t->under_way++;
        request->trials = 1;
        on_lost_ticket(r, request, SNIB__CUT);
        return;
    }
    size_t last = reply->count - (reply->count == 6 ? 2 : 1);
    snib__clock_learn(r, request->sent, snib__reply_number(reply, last));
    switch (request->kind) {
    case SNIB__ASK_ATTEMPT:
        on_attempt(r, t, request, reply);
        break;
    case SNIB__ASK_RENEW:
        on_renew(r, t, request, reply);
        break;
    default:
        on_release(r, t, request, reply);
        break;
    }
}

/* ---- What the link says ----------------------------------------------------------------- */

static void hand_to(struct snib__redis *r, struct snib__redis_request *request,
                    const struct snib__reply *reply)
{
    if (request->kind <= SNIB__ASK_RELEASE) {
        on_ticket(r, request, reply);
    } else if (request->kind != SNIB__ASK_CLEAN_UP) {
        snib__look_reply(r, request, reply);
    }
}

/* Done as another user, or in another database. */
static void on_denied(struct snib__redis *r, struct snib__redis_request *request,
                      const struct snib__reply *reply)
{
    const struct snib__reply denied = {.type = REDIS_REPLY_ERROR, .text = r->birth.why};
    if (request->kind == SNIB__ASK_ATTEMPT && request->subject &&
        reply->type != REDIS_REPLY_ERROR) {
        undo(r, request->subject);
    }
    hand_to(r, request, &denied);
}

static void on_reply(struct snib__redis_link *link, struct snib__redis_request *request,
                     const struct snib__reply *reply)
{
    struct snib__redis *r = link->owner;
    if (r->birth.trusts) {
        r->birth.trusted_ns = link->heard_ns;
    }
    if (request->kind < SNIB__ASK_ATTEMPT) {
        snib__birth_reply(r, request, reply);
    } else if (r->birth.denied) {
        on_denied(r, request, reply);
    } else {
        hand_to(r, request, reply);
    }
}

static void on_lost(struct snib__redis_link *link, struct snib__redis_request *request,
                    enum snib__redis_loss how)
{
    struct snib__redis *r = link->owner;
    if (!request->subject) {
        return;
    }
    if (request->kind <= SNIB__ASK_RELEASE) {
        on_lost_ticket(r, request, how);
    } else {
        snib__look_lost(r, request, how);
    }
}

static void on_down(struct snib__redis_link *link)
{
    struct snib__redis *r = link->owner;
    r->birth.unfit = false;
    snib__waiting_hurry(r); /* those that stand in line ask where they are */
}

static void greet(struct snib__redis_link *link)
{
    snib__birth_greet(link->owner, link);
}

const struct snib__redis_link_calls snib__redis_calls = {
    .greet = greet,
    .reply = on_reply,
    .lost = on_lost,
    .down = on_down,
};
