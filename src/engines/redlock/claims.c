/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims: attempts and renewals as servers answer them (attempts.c, renewals.c), and releases.
 *
 * A release goes to every server that may have heard of the claim, down the same connection as the
 * attempt, from a record that outlives the claim (debts.c). It is answered when a majority has
 * given it back and the others have answered, or were silent: they are undone by themselves. It was
 * lost if so many did not have it any more that the others are no majority.
 */
#include "engines/redlock/claims.h"

#include "engines/redis/errors.h"
#include "engines/redlock/attempts.h"
#include "engines/redlock/debts.h"
#include "engines/redlock/renewals.h"
#include "engines/redlock/servers.h"
#include "engines/redlock/waits.h"

#include <stdio.h>
#include <string.h>

#define GONE_NS (500 * SNIB__MS) /* silent for so long: it is not waited for */

/* ---- Submitting ------------------------------------------------------------------------- */

void snib__redlock_claim(struct snib__claim *claim)
{
    struct snib__redlock *r = snib__redlock_of(claim->session);
    struct snib__redlock_bid *b = claim->state;
    const char *refused = r->layout->refuses(r->servers[0].settings.prefix, claim->name);
    b->claim = claim;
    b->owes = true;
    if (refused) {
        snib__redlock_fail(r, b, SNIB_EINVAL, refused);
        return;
    }
    snib__redlock_try(r, b);
    snib__redlock_rearm(r, b);
}

void snib__redlock_claims_renew(struct snib__claim *const claims[], size_t n)
{
    struct snib__redlock *r = snib__redlock_of(claims[0]->session);
    for (size_t i = 0; i < n; i++) {
        struct snib__redlock_bid *b = claims[i]->state;
        snib__redlock_listen(r, b);
        snib__redlock_renew(r, b, false);
        snib__redlock_rearm(r, b);
    }
}

/* ---- Releasing -------------------------------------------------------------------------- */

/* The last word about a claim. */
static void end_release(struct snib__redlock *r, struct snib__redlock_bid *b,
                        enum snib__status status)
{
    struct snib__result result = {.status = status};
    for (unsigned i = 0; i < r->count; i++) {
        if (b->owed[i]) {
            snib__redlock_debt_tell(b->owed[i], NULL, NULL);
        }
        snib__node_drop(&r->servers[i].node, b);
    }
    snib__redlock_delist(r, b);
    snib__answer(b->claim, SNIB__RELEASE, &result);
}

/* Enough answers? */
static void consider_release(struct snib__redlock *r, struct snib__redlock_bid *b, bool late)
{
    unsigned quorum = snib__redlock_quorum(r), outstanding = 0, awaited = 0;
    for (unsigned i = 0; i < r->count; i++) {
        outstanding += b->owed[i] != NULL;
        awaited += b->owed[i] && !snib__server_is_gone(&r->servers[i], GONE_NS);
    }
    unsigned open = b->unheard + (late ? outstanding : 0);
    bool most = b->freed >= quorum || (!b->was_held && b->freed + b->unfreed >= quorum);
    if (most && (awaited == 0 || late)) {
        end_release(r, b, SNIB__FREED);
    } else if (b->was_held && b->freed + b->unheard + outstanding < quorum) {
        /* With one that was given back before, without an answer, it may not have been lost. */
        end_release(r, b, b->repeated ? SNIB__UNKNOWN : SNIB__LOST);
    } else if (outstanding == 0 || late) {
        bool all = open == 0;
        end_release(r, b, b->was_held || !all ? SNIB__UNKNOWN : SNIB__FREED);
    }
}

static void on_freed(struct snib__redlock_bid *b, unsigned server, bool loss,
                     enum snib__answer_word word, bool repeated)
{
    struct snib__redlock *r = snib__redlock_of(b->claim->session);
    b->owed[server] = NULL;
    if (loss) {
        b->unheard++;
    } else if (word == SNIB__ANSWER_NONE ||
               (word == SNIB__ANSWER_DONE && b->claim->adopted && !repeated)) {
        b->unfreed++;
        b->repeated = b->repeated || repeated;
    } else {
        b->freed++;
    }
    if (!b->submitting) {
        consider_release(r, b, false);
    }
}

void snib__redlock_release(struct snib__claim *claim)
{
    struct snib__redlock *r = snib__redlock_of(claim->session);
    struct snib__redlock_bid *b = claim->state;
    unsigned char id[SNIB__ID_SIZE];
    bool any = false;
    b->claim = claim; /* an adopted one was never attempted here */
    snib__waits_leave(r, b);
    snib__redlock_unlisten(r, b);
    b->was_held = b->phase == SNIB__REDLOCK_HELD || claim->adopted;
    b->phase = SNIB__REDLOCK_RELEASING;
    b->renewing = b->by_itself = false;
    b->submitting = true;
    b->again_ns = SNIB__NEVER;
    b->agains = 0;
    b->due_ns = snib__redlock_due_ns(r);
    (void)snib__redlock_enlist(r, b); /* without memory the debts answer it */
    snib__redlock_id(b, id);
    for (unsigned i = 0; i < r->count; i++) {
        const struct snib__seat *seat = &b->round.seats[i];
        bool may = seat->state == SNIB__SEAT_HAS || seat->flying > 0 || claim->adopted;
        if (!may) {
            b->unfreed += b->was_held; /* it has nothing */
            continue;
        }
        any = true;
        b->owed[i] = snib__redlock_owe(&r->servers[i], claim->name, id, seat->loose_ms,
                                       r->session->max_lease_ms);
        if (b->owed[i]) {
            snib__redlock_debt_tell(b->owed[i], b, on_freed);
        } else {
            b->unheard++;
        }
    }
    b->submitting = false;
    if (any) {
        snib__redlock_rearm(r, b);
        consider_release(r, b, false);
    } else {
        end_release(r, b, b->was_held ? SNIB__LOST : SNIB__FREED);
    }
}

/* ---- Replies ---------------------------------------------------------------------------- */

static bool ask_again(struct snib__server *s, struct snib__redlock_bid *b,
                      const struct snib__redis_call *call)
{
    if (b->phase == SNIB__REDLOCK_RELEASING || call->turn != b->turn) {
        return false; /* nothing more is asked for it */
    }
    switch (call->kind) {
    case SNIB__VOTE_ATTEMPT:
        return b->phase != SNIB__REDLOCK_IDLE && b->phase != SNIB__REDLOCK_WAITING &&
               snib__redlock_ask_attempt(s, b, call);
    case SNIB__VOTE_RENEW:
        return snib__redlock_ask_renew(s, b, call);
    default:
        return snib__redlock_ask_agree(s, b, call);
    }
}

static void on_refusal(struct snib__server *s, struct snib__redlock_bid *b,
                       struct snib__redis_call *call, int code)
{
    if (call->kind == SNIB__VOTE_RENEW) {
        snib__redlock_on_renew_lost(s, b);
    } else {
        snib__redlock_on_refusal(s, b, call, code);
    }
}

static void on_error(struct snib__server *s, struct snib__redlock_bid *b,
                     struct snib__redis_call *call, const char *text)
{
    struct snib__error error = snib__error_read(text);
    char said[SNIB__ERROR_SAID], foreign[SNIB__FOREIGN_SIZE];
    if (call->kind == SNIB__VOTE_ATTEMPT && call->turn == b->turn) {
        snib__round_landed(&b->round, s->index);
    }
    if (error.kind == SNIB__ERROR_MOVED) {
        snib__node_leave(&s->node, text); /* not a master any more */
    }
    if (error.kind == SNIB__ERROR_NO_SCRIPT && !call->by_text) {
        call->by_text = true;
        if (ask_again(s, b, call)) {
            return;
        }
    }
    snib__error_say(said, text);
    if (error.kind == SNIB__ERROR_KIND) {
        (void)snib__foreign_text(foreign, s->session->layout, s->settings.prefix, b->claim->name);
    }
    snprintf(s->trouble, sizeof s->trouble, "%.239s",
             error.kind == SNIB__ERROR_KIND ? foreign : said);
    bool passes = error.kind == SNIB__ERROR_LATER || error.kind == SNIB__ERROR_MOVED;
    on_refusal(s, b, call, passes ? 0 : error.code);
}

static void on_reply(struct snib__server *s, struct snib__redis_call *call,
                     const struct snib__reply *reply)
{
    struct snib__redlock_bid *b = call->subject;
    struct snib__layout_answer a;
    if (reply->type == REDIS_REPLY_ERROR) {
        on_error(s, b, call, reply->text);
        return;
    }
    if (!s->session->layout->answer(&a, reply)) {
        snib__node_end(&s->node, "the server answered something else than was asked");
        snprintf(s->trouble, sizeof s->trouble, "answered something else than was asked");
        on_refusal(s, b, call, 0);
        return;
    }
    switch (call->kind) {
    case SNIB__VOTE_ATTEMPT:
        snib__redlock_on_attempt(s, b, call, &a);
        break;
    case SNIB__VOTE_AGREE:
        snib__redlock_on_agree(s, b, call, &a);
        break;
    default:
        snib__redlock_on_renew(s, b, call, &a);
        break;
    }
}

void snib__redlock_reply(struct snib__server *s, struct snib__redis_call *call,
                         const struct snib__reply *reply)
{
    struct snib__redlock_bid *b = call->subject;
    if (b) {
        on_reply(s, call, reply);
        snib__redlock_rearm(s->session, b);
    }
}

/* What was lost with a connection is asked once more on the next one. */
void snib__redlock_lost(struct snib__server *s, struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__redlock_bid *b = call->subject;
    if (!b) {
        return;
    }
    if (how == SNIB__LOSS_TOO_LATE) {
        return; /* if it still comes, it is welcome: nobody waits for it any more */
    }
    call->subject = NULL;
    if (call->kind == SNIB__VOTE_ATTEMPT && call->turn == b->turn && how < SNIB__LOSS_CUT) {
        snib__round_landed(&b->round, s->index);
    }
    bool may = (how == SNIB__LOSS_CUT || how == SNIB__LOSS_UNSENT) && call->trials == 0;
    if (may) {
        call->trials = 1;
        call->by_text = false;
        if (ask_again(s, b, call)) {
            return;
        }
    }
    snib__server_unheard(s, snib__node_why(&s->node, how));
    on_refusal(s, b, call,
               how == SNIB__LOSS_DENIED  ? s->node.greeting.error.code
               : how == SNIB__LOSS_ALIEN ? SNIB_EPROTO
                                         : 0);
}

/* ---- Time ------------------------------------------------------------------------------- */

static void on_due(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    switch (b->phase) {
    case SNIB__REDLOCK_ASKING:
    case SNIB__REDLOCK_AGREEING:
        snib__redlock_attempt_late(r, b);
        break;
    case SNIB__REDLOCK_HELD:
        snib__redlock_renew_late(r, b);
        break;
    default:
        b->due_ns = SNIB__NEVER;
        break;
    }
}

static void on_time(struct snib__redlock *r, struct snib__redlock_bid *b, int64_t now_ns)
{
    if (b->phase == SNIB__REDLOCK_RELEASING) {
        for (unsigned i = 0; i < r->count; i++) {
            if (b->owed[i]) {
                snib__server_unheard(&r->servers[i], "no answer in time");
            }
        }
        bool late = b->agains == 2; /* first those that are slow, then those that are needed */
        int64_t timeout_ns = r->session->timeout_ms * SNIB__MS;
        b->due_ns = snib__later(now_ns, b->agains++ == 0 ? GONE_NS : timeout_ns);
        snib__redlock_rearm(r, b);
        consider_release(r, b, late); /* it may be gone */
        return;
    }
    if (b->phase == SNIB__REDLOCK_HELD) {
        snib__redlock_listen(r, b);
    }
    if (b->due_ns <= now_ns) {
        on_due(r, b);
    }
    if (b->again_ns <= now_ns && b->phase == SNIB__REDLOCK_HELD) {
        snib__redlock_complete(r, b);
    } else if (b->again_ns <= now_ns) {
        snib__redlock_attempt_again(r, b);
    }
    snib__redlock_rearm(r, b);
}

/* Whether those who are asked are silent is known when what has arrived was read. */
int64_t snib__redlock_claims_keep_time(struct snib__redlock *r, int64_t now_ns)
{
    int64_t limit_ns = now_ns < r->polled_ns ? now_ns : r->polled_ns;
    struct snib__timer *timer;
    while ((timer = snib__timers_due(&r->timers, limit_ns)) != NULL) {
        on_time(r, SNIB__OF(timer, struct snib__redlock_bid, timer), limit_ns);
    }
    return snib__timers_next(&r->timers);
}
