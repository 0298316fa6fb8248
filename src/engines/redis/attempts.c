/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attempts: what the server says to them, and what becomes of the bid.
 */
#include "engines/redis/attempts.h"

#include "engines/redis/asks.h"
#include "engines/redis/bid.h"
#include "engines/redis/breaks.h"
#include "engines/redis/debts.h"
#include "engines/redis/watches.h"

#include <stdio.h>

#define SHORT_PAUSE_MS 250 /* after a grant that too few replicas acknowledged */
#define ROUNDS_MOST 100    /* of a line that one script cannot clear */

static void answer(struct snib__bid *b, const struct snib__result *result)
{
    snib__answer(b->claim, SNIB__ATTEMPT, result);
}

/* An attempt has its answer, or does not get any: the core decides what comes next. */
static void set_idle(struct snib__redis *r, struct snib__bid *b)
{
    snib__redis_line_leave(r, b);
    snib__watches_leave(r, b);
    b->phase = SNIB__BID_IDLE;
}

static void answer_unknown(struct snib__redis *r, struct snib__bid *b, const char *why)
{
    struct snib__result unknown = {.status = SNIB__UNKNOWN, .reason = why};
    set_idle(r, b);
    answer(b, &unknown);
}

void snib__attempts_fail(struct snib__redis *r, struct snib__bid *b, int code, int sys,
                         const char *why)
{
    char reason[520];
    snprintf(reason, sizeof reason, "%.200s: %.300s", r->settings.where, why);
    set_idle(r, b);
    struct snib__result failed = {
        .status = SNIB__FAILED, .code = code, .sys = sys, .reason = reason};
    answer(b, &failed);
}

/* ---- Trying ----------------------------------------------------------------------------- */

static void answer_quarantine(struct snib__redis *r, struct snib__bid *b)
{
    int64_t left_ms = snib__node_quarantine_left_ms(&r->node);
    char reason[520];
    snib__quarantine_text(reason, sizeof reason, r->settings.where, left_ms);
    set_idle(r, b);
    struct snib__result busy = {
        .status = SNIB__BUSY,
        .retry_ms = left_ms < 1000 ? left_ms + 1 : 1000,
        .holder_left_ms = left_ms,
        .code = SNIB_EUNSAFE,
        .reason = reason,
    };
    answer(b, &busy);
}

static void answer_not_yet(struct snib__redis *r, struct snib__bid *b, int64_t retry_ms)
{
    char reason[520];
    snprintf(reason, sizeof reason, "%.200s: %s", r->settings.where, r->witness->why);
    set_idle(r, b);
    struct snib__result busy = {
        .status = SNIB__BUSY,
        .retry_ms = retry_ms < 1000 ? retry_ms + 1 : 1000,
        .holder_left_ms = retry_ms,
        .code = SNIB_EUNSAFE,
        .reason = reason,
    };
    answer(b, &busy);
}

void snib__attempts_try(struct snib__redis *r, struct snib__bid *b)
{
    int64_t blocked_ms;
    if (snib__node_quarantine_left_ms(&r->node) > 0) {
        answer_quarantine(r, b);
    } else if (r->witness && (blocked_ms = snib__witness_blocked_ms(r->witness, b->life > 0)) > 0) {
        answer_not_yet(r, b, blocked_ms);
    } else if (!snib__ask_attempt(r, b, NULL)) {
        snib__attempts_fail(r, b, SNIB_ENOMEM, 0, "out of memory");
    }
}

static int64_t within(int64_t number, int64_t least, int64_t most)
{
    return number < least ? least : number > most ? most : number;
}

/* Behind the first few nothing happens but by message, unless the holder's lease ends. Where there
 * is no line, whoever asks when that ends has it. */
int64_t snib__attempts_recheck_ms(const struct snib__redis *r, const struct snib__bid *b)
{
    int64_t third = b->claim->ttl_ms / 3;
    int64_t soon = third < r->layout->recheck_ms ? third : r->layout->recheck_ms;
    if (b->watch) {
        int64_t most = b->stranger || !snib__watches_hears(b) ? r->layout->strangers_ms : soon;
        return b->holder_left_ms ? within(b->holder_left_ms + 2, 2, most) : most;
    }
    return b->patient ? within(b->holder_left_ms, soon, r->layout->behind_ms) : soon;
}

/* ---- Answers ---------------------------------------------------------------------------- */

/* Granted: told at once, or when enough replicas have it. */
static void hold(struct snib__redis *r, struct snib__bid *b)
{
    snib__redis_line_leave(r, b);
    snib__watches_leave(r, b);
    b->sent = true;
    if (r->witness) {
        b->phase = SNIB__BID_PROVING;
        snib__witness_prove(r->witness, &b->proof);
    } else {
        snib__attempts_proven(r, b);
    }
}

static void on_held(struct snib__redis *r, struct snib__bid *b, const struct snib__redis_call *call,
                    const struct snib__layout_answer *a)
{
    int64_t ttl_ms = b->claim->ttl_ms;
    struct snib__instant since = call->sent;
    /* "Yours already": what is left of a lease that began earlier. */
    if (a->left_ms < ttl_ms) {
        int64_t gone_ns = (ttl_ms - a->left_ms) * SNIB__MS;
        since.boot_ns -= gone_ns;
        since.raw_ns -= gone_ns;
    }
    snib__witness_drop(&b->proof);
    b->proof.verb = SNIB__ATTEMPT;
    b->proof.token = a->token;
    b->proof.span = a->span;
    b->proof.since = since;
    b->proof.lease_ms = ttl_ms;
    hold(r, b);
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

static void on_queued(struct snib__redis *r, struct snib__bid *b,
                      const struct snib__redis_call *call, const struct snib__layout_answer *a)
{
    b->phase = SNIB__BID_QUEUED;
    b->asked = call->sent;
    b->queued_turn = call->turn;
    b->place = a->place;
    b->holder_left_ms = a->holder_left_ms;
    snib__redis_line_join(r, b, snib__attempts_recheck_ms(r, b));
    struct snib__result queued = rival(SNIB__QUEUED, a);
    answer(b, &queued);
}

/* There is no line at the server: it listens, and asks. */
static void watch(struct snib__redis *r, struct snib__bid *b, const struct snib__redis_call *call,
                  const struct snib__layout_answer *a)
{
    bool known = b->phase == SNIB__BID_QUEUED && b->holder_token == a->holder_token;
    snib__watches_join(r, b);
    (void)snib__node_open_inbox(&r->node);
    b->phase = SNIB__BID_QUEUED;
    b->stranger = a->holder_token == 0;
    b->holder_token = a->holder_token;
    b->holder_left_ms = a->holder_left_ms;
    snib__redis_line_join(r, b, snib__attempts_recheck_ms(r, b));
    if (snib__watches_told_since(b, call->sent)) {
        snib__redis_line_now(r, b);
    }
    if (!known) {
        struct snib__result queued = rival(SNIB__QUEUED, a);
        answer(b, &queued);
    }
}

/* If it is willing to wait, it was asked without an inbox because there was none: open one. Asked
 * with one, the line is full. */
static void on_busy(struct snib__redis *r, struct snib__bid *b, const struct snib__redis_call *call,
                    const struct snib__layout_answer *a)
{
    if (b->claim->may_queue && r->lineless) {
        watch(r, b, call, a);
        return;
    }
    if (b->claim->may_queue && !call->in_line) {
        if (snib__redis_inbox(r, b)) { /* since the attempt was sent */
            snib__attempts_try(r, b);
            return;
        }
        if (snib__redis_open_inbox(r, b)) {
            /* No word until we stand in line: nobody may believe that we already do. */
            b->phase = SNIB__BID_WANTS;
            snib__redis_line_join(r, b, snib__attempts_recheck_ms(r, b));
            return;
        }
    }
    set_idle(r, b);
    struct snib__result busy = rival(SNIB__BUSY, a);
    answer(b, &busy);
}

/* The server was in no state to grant anything: give it back, and go on under another id. What is
 * still under way has the former one, which the release makes void: "yours" would be said of
 * something that is another's by now. */
static void undo(struct snib__redis *r, struct snib__bid *b)
{
    unsigned char id[SNIB__ID_SIZE];
    snib__bid_id(b, id);
    if (b->under_way > 0) {
        snib__bid_note_loose(b, b->not_after_ms);
    }
    (void)snib__debts_add(r, b->claim->name, id, b->loose_ms, false);
    b->life++;
    b->loose_ms = 0;
    b->undone_turn = b->turn;
}

static void on_kind(struct snib__redis *r, struct snib__bid *b, unsigned permits)
{
    char why[80];
    snprintf(why, sizeof why, "in use as a counted lock with %u permits", permits);
    snib__attempts_fail(r, b, SNIB_EKIND, 0, permits ? why : "in use as an exclusive lock");
}

/* Arrived after its time: the server's clock has jumped, and is known now. Or after its release. */
static void on_late(struct snib__redis *r, struct snib__bid *b, struct snib__redis_call *call)
{
    if (call->trials < 3) {
        call->trials++;
        if (!snib__ask_attempt(r, b, call)) {
            snib__attempts_fail(r, b, SNIB_ENOMEM, 0, "out of memory");
        }
        return;
    }
    answer_unknown(r, b, "the request was late");
}

/* May this server grant anything? If not, the attempt is answered here. */
static bool is_granted_by_a_fit_node(struct snib__redis *r, struct snib__bid *b)
{
    struct snib__node *node = &r->node;
    if (node->standing == SNIB__NODE_UNFIT) {
        snib__attempts_fail(r, b, SNIB_EUNSAFE, 0, node->why);
    } else if (node->standing != SNIB__NODE_FIT) {
        /* Whatever it granted is found, or given back, by the next connection. If we have asked
         * again meanwhile, that answer counts: told now, the core would rest and ask once more
         * before it was read, and this connection, which goes when nothing is asked on it, would
         * stay. */
        if (b->under_way == 0) {
            answer_unknown(r, b, node->why);
        }
    } else if (snib__node_quarantine_left_ms(node) > 0) {
        undo(r, b);
        answer_quarantine(r, b);
    } else {
        return true;
    }
    return false;
}

void snib__attempts_answer(struct snib__redis *r, struct snib__bid *b,
                           struct snib__redis_call *call, const struct snib__layout_answer *a)
{
    if (b->phase != SNIB__BID_ASKED && b->phase != SNIB__BID_QUEUED) {
        return; /* granted by message meanwhile, or given up */
    }
    if (!is_granted_by_a_fit_node(r, b)) {
        return;
    }
    if (a->unfinished && b->rounds < ROUNDS_MOST && snib__ask_attempt(r, b, NULL)) {
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

/* ---- No answers ------------------------------------------------------------------------- */

void snib__attempts_error(struct snib__redis *r, struct snib__bid *b,
                          const struct snib__error *error, const char *text)
{
    if (b->phase == SNIB__BID_HELD || b->phase == SNIB__BID_PROVING) {
        return;
    }
    char foreign[SNIB__FOREIGN_SIZE];
    if (error->kind == SNIB__ERROR_KIND) { /* the server's text does not name the key */
        text = snib__foreign_text(foreign, r->layout, r->settings.prefix, b->claim->name);
    }
    bool moved = error->kind == SNIB__ERROR_MOVED;
    if (moved && snib__node_is_replica(&r->node)) {
        text = r->node.why;
    }
    if (b->claim->may_queue && (error->kind == SNIB__ERROR_LATER || b->phase == SNIB__BID_QUEUED ||
                                (moved && r->node.was_fit))) {
        answer_unknown(r, b, text);
    } else {
        snib__attempts_fail(r, b, error->code, 0, text);
    }
}

void snib__attempts_lost(struct snib__redis *r, struct snib__bid *b, enum snib__loss how)
{
    const struct snib__connection *c = &r->node.connection;
    if (b->phase == SNIB__BID_HELD || b->phase == SNIB__BID_PROVING) {
        return;
    }
    if (how == SNIB__LOSS_DENIED) {
        snib__attempts_error(r, b, &r->node.greeting.error, c->why);
    } else if ((how == SNIB__LOSS_UNREACHED && !b->sent) ||
               (how == SNIB__LOSS_CUT && !r->node.clock.known && !r->node.was_fit)) {
        /* Hung up twice without ever a word: a port for TLS, or one that wants a certificate. */
        snib__attempts_fail(r, b, SNIB_EUNREACH, c->sys, c->why);
    } else if (how == SNIB__LOSS_ALIEN && !b->sent) {
        snib__attempts_fail(r, b, SNIB_EPROTO, 0, c->why);
    } else {
        answer_unknown(r, b, snib__node_why(&r->node, how));
    }
}

/* ---- Those that wait -------------------------------------------------------------------- */

void snib__attempts_granted(struct snib__redis *r, struct snib__bid *b,
                            const struct snib__layout_grant *grant)
{
    int64_t ttl_ms = b->claim->ttl_ms;
    snib__witness_drop(&b->proof);
    b->proof.verb = SNIB__ATTEMPT;
    b->proof.token = grant->token;
    b->proof.span = grant->span;
    b->proof.since = b->asked;
    b->proof.lease_ms = grant->left_ms < ttl_ms ? grant->left_ms : ttl_ms;
    hold(r, b);
}

/* ---- What became of a proof ------------------------------------------------------------- */

void snib__attempts_proven(struct snib__redis *r, struct snib__bid *b)
{
    char note[200];
    b->phase = SNIB__BID_HELD;
    b->held = b->proof.since;
    b->held_ms = b->proof.lease_ms;
    b->epoch = r->witness ? r->witness->epoch : 0;
    snib__breaks_listen(r, b);
    struct snib__result held = {
        .status = SNIB__HELD,
        .token = b->proof.token,
        .span = b->proof.span,
        .since = b->proof.since,
        .lease_ms = b->proof.lease_ms,
        .reason = snib__node_held(&r->node, note),
    };
    answer(b, &held);
}

/* Not granted, and undone: the next attempt has another id. */
void snib__attempts_unproven(struct snib__redis *r, struct snib__bid *b, enum snib__verdict verdict)
{
    if (b->life == UINT16_MAX) { /* no more ids */
        verdict = SNIB__VERDICT_REFUSED;
        r->witness->code = SNIB_EUNSAFE;
    } else {
        undo(r, b);
    }
    switch (verdict) {
    case SNIB__VERDICT_REFUSED:
        snib__attempts_fail(r, b, r->witness->code, 0, r->witness->why);
        break;
    case SNIB__VERDICT_SHORT:
    case SNIB__VERDICT_QUARANTINED: {
        int64_t left_ms = snib__witness_blocked_ms(r->witness, true);
        answer_not_yet(r, b, left_ms ? left_ms : SHORT_PAUSE_MS);
        break;
    }
    default:
        answer_unknown(r, b, r->witness->why);
        break;
    }
}

void snib__attempts_turned_away(struct snib__redis *r, struct snib__bid *b)
{
    static const struct snib__result busy = {.status = SNIB__BUSY};
    set_idle(r, b);
    answer(b, &busy);
}
