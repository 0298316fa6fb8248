/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mode=session: attempt, renew, release, by locks that belong to a connection.
 *
 * Safety
 * ------
 * Exclusion is the server's lock manager: a lock is one session's until it gives it back or ends.
 * A link is that session, and a lease: the server ends it when it was silent for the ttl, and
 * counts from later than we do, who count from before the last request that was answered was sent.
 * So a holder that is stopped or cut off stops believing before the server lets the next one in, if
 * both clocks run alike, within what the core allows for.
 *
 * What was sent on a link that we have left cannot do harm: whatever it takes goes with that
 * session, which ends when the server sees the end of the connection or after the ttl, and no other
 * link can be made to own it.
 *
 * Locks are re-entrant per session. So a link is never asked for a key that it has, or may get, for
 * another claim; and one claim never has two requests under way. A request that is not answered in
 * time stays the claim's: the next attempt waits for the same answer.
 *
 * A statement that fails may have locked before it failed, and a rollback does not undo that:
 * behind every failure the lock is given back on the same link, or the link is closed. A grant that
 * comes after a wait is proved by one more trip, which draws the token, before anybody is told.
 *
 * What breaks it: a server that forgets its sessions (a restart, a failover) while a holder cannot
 * be told; against that is the quarantine of whoever greets it. And a holder that goes on writing
 * after its deadline; against that is the token.
 *
 * Not done: cancelling a wait on its link. The link is closed: the server notices within a quarter
 * of a second, and a grant in between ends with it.
 */
#include "engines/sql/bids.h"

#include "base/hash.h"
#include "engines/sql/bid.h"
#include "engines/sql/proofs.h"
#include "engines/sql/strands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES_MOST = 6, LOOKS_MOST = 50, AGAIN_MS = 50 };

static void begin(struct sql_bid *);
static void wait_for_it(struct sql_bid *);
static void on_sight(struct sql_request *, const char *const columns[SQL_COLUMNS]);
static void on_looked(struct sql_request *, enum sql_outcome);

/* ---- Bids ------------------------------------------------------------------------------- */

static void row_of(struct sql_request *, const char *const columns[SQL_COLUMNS]);
static void ended(struct sql_request *, enum sql_outcome);

static void ask(struct sql_bid *b, enum sql_statement statement)
{
    struct sql_request *r = &b->request;
    struct sql *s = b->sql;
    bool brief = statement == SQL_UNLOCK;
    bool bare = statement == SQL_SETUP || statement == SQL_PROVE;
    *r = (struct sql_request){.statement = statement,
                              .link = &b->strand->link,
                              .count = bare    ? 0
                                       : brief ? 2
                                               : 6,
                              .row = row_of,
                              .ended = ended,
                              .parameters = {b->key, brief ? b->mode : b->name, b->mode,
                                             s->session->who, b->label, b->ttl}};
    b->asking = true;
    b->answered = b->got = false;
    b->sent = true;
    if (statement == SQL_TRY || statement == SQL_WAIT || statement == SQL_TOOK) {
        b->token = 0;
    }
    s->driver->send(r);
}

/* ---- Answers ---------------------------------------------------------------------------- */

static void hold(struct sql_bid *b)
{
    struct snib__result held = {.status = SNIB__HELD,
                                .token = b->token,
                                .since = b->since,
                                .lease_ms = b->strand->link.idle_ms};
    sql_bid_phase(b, SQL_HOLDING);
    sql_bid_answer(b, &held);
}

static bool is_quarantined(struct sql_bid *b, const struct sql_strand *strand)
{
    int64_t left_ms = sql_strand_quarantine_ms(strand);
    char reason[400];
    if (strand->link.unfit) {
        sql_bid_fail(b, SNIB_EDENIED, 0, strand->link.unfit);
        return true;
    }
    if (left_ms == 0) {
        return false;
    }
    snprintf(reason, sizeof reason,
             "%.200s: quarantine for another %.1f s: it was restarted, and locks end with it that "
             "their holders may still believe in; quarantine=no if there are none",
             b->sql->where, (double)left_ms / 1000);
    struct snib__result result = {.status = SNIB__BUSY,
                                  .retry_ms = left_ms < 1000 ? left_ms + 1 : 1000,
                                  .holder_left_ms = left_ms,
                                  .code = SNIB_EUNSAFE,
                                  .reason = reason};
    sql_bid_answer(b, &result);
    return true;
}

/* ---- Giving back ------------------------------------------------------------------------ */

static void unlock(struct sql_bid *b)
{
    sql_bid_phase(b, SQL_LEAVING);
    ask(b, SQL_UNLOCK);
}

/* ---- Attempt ---------------------------------------------------------------------------- */

/* Another of ours that has, or may get, the same on the main link. */
static const struct sql_bid *in_the_way(const struct sql_bid *b, const struct sql_strand *strand)
{
    struct snib__entry *e = snib__table_first(&b->sql->keys, snib__hash_text(b->key));
    for (; e; e = snib__entry_next(e)) {
        const struct sql_bid *other = SNIB__OF(e, struct sql_bid, entry);
        if (other != b && other->strand == strand && other->phase != SQL_LEAVING &&
            strcmp(other->key, b->key) == 0) {
            return other;
        }
    }
    return NULL;
}

static void try_on(struct sql_bid *b, struct sql_strand *strand)
{
    if (!sql_bid_join(b, strand)) {
        sql_bid_phase(b, SQL_IDLE);
        sql_bid_fail(b, SNIB_ENOMEM, 0, "out of memory");
        return;
    }
    sql_bid_phase(b, SQL_TRYING);
    ask(b, SQL_TRY);
}

static void begin(struct sql_bid *b)
{
    struct sql *s = b->sql;
    snib__list_remove(&b->on_strand);
    sql_bid_phase(b, SQL_WANTING);
    snib__list_append(&s->wanting, &b->on_strand);
    struct sql_strand *strand = sql_strand_main(s);
    if (!strand || b->phase != SQL_WANTING) {
        return;
    }
    snib__list_remove(&b->on_strand);
    const struct sql_bid *other = in_the_way(b, strand);
    b->holder[0] = '\0';
    b->holder_token = 0;
    if (other) {
        snprintf(b->holder, sizeof b->holder, "%s%s%s", s->session->who, other->label[0] ? " " : "",
                 other->label);
        b->holder_token = other->token;
    }
    if (is_quarantined(b, strand)) {
        sql_bid_rest(b);
    } else if (!other) {
        try_on(b, strand);
    } else if (b->claim->may_queue || (other->mode[0] == '1' && b->mode[0] == '1')) {
        wait_for_it(b);
    } else {
        sql_bid_rest(b);
        sql_bid_busy(b);
    }
}

/* On the strand that is there for it alone. */
static void go_and_wait(struct sql_bid *b)
{
    if (is_quarantined(b, b->strand)) {
        sql_bid_rest(b);
    } else if (b->claim->may_queue) {
        sql_bid_phase(b, SQL_ENTERING);
        ask(b, SQL_ENTER);
    } else {
        sql_bid_phase(b, SQL_TRYING);
        ask(b, SQL_TRY);
    }
}

static void wait_for_it(struct sql_bid *b)
{
    struct sql_strand *strand = sql_strand_extra(b->sql);
    if (!strand || strand->lost || !sql_bid_join(b, strand)) {
        sql_bid_rest(b);
        sql_bid_busy(b); /* as many wait as may: asked again, and again */
        return;
    }
    sql_bid_phase(b, SQL_WANTING);
    if (strand->ready) {
        go_and_wait(b);
    }
}

void sql_session_attempt(struct snib__claim *claim)
{
    struct sql_ticket *ticket = claim->state;
    if (!ticket->bid && !(ticket->bid = sql_bid_new(claim))) {
        struct snib__result failed = {
            .status = SNIB__FAILED, .code = SNIB_ENOMEM, .reason = "out of memory"};
        snib__answer(claim, SNIB__ATTEMPT, &failed);
        return;
    }
    struct sql_bid *b = ticket->bid;
    b->owes_attempt = true;
    sql_bid_owe(b);
    if (b->phase == SQL_IDLE) {
        begin(b);
    } else if (b->phase == SQL_HOLDING) {
        hold(b);
    } else if (b->phase == SQL_WAITING) {
        sql_bid_queued(b);
    }
}

/* ---- What comes back -------------------------------------------------------------------- */

static void row_of(struct sql_request *r, const char *const columns[SQL_COLUMNS])
{
    struct sql_bid *b = SNIB__OF(r, struct sql_bid, request);
    const char *token = NULL;
    b->answered = true;
    switch (r->statement) {
    case SQL_TRY:
        b->got = columns[0] && columns[0][0] != 'f' && columns[0][0] != '0';
        token = columns[1];
        snprintf(b->holder, sizeof b->holder, "%s", columns[2] ? columns[2] : "");
        b->holder_token = columns[3] ? strtoull(columns[3], NULL, 10) : 0;
        break;
    case SQL_WAIT:
        b->got = columns[0] && columns[0][0] == '1';
        token = columns[1];
        break;
    case SQL_TOOK:
        token = columns[0];
        break;
    case SQL_UNLOCK:
        b->got = columns[0] && (columns[0][0] == 't' || columns[0][0] == '1');
        break;
    default:
        break;
    }
    if (token) {
        b->token = strtoull(token, NULL, 10);
    }
}

/* The statement that might have locked has failed: to be sure, unlock. */
static void undo(struct sql_bid *b, enum sql_outcome failure, int code, const char *why)
{
    b->failure = failure;
    b->code = code;
    snprintf(b->reason, sizeof b->reason, "%s", why);
    sql_bid_phase(b, SQL_UNDOING);
    ask(b, SQL_UNLOCK);
}

/* At once, a few times; who can wait does so after a pause. */
static void again(struct sql_bid *b)
{
    int tries = b->tries;
    bool pause = b->queued || (b->claim->may_queue && tries > 2);
    struct snib__result busy = {.status = SNIB__BUSY, .retry_ms = AGAIN_MS};
    sql_bid_rest(b);
    if (pause) {
        sql_bid_answer(b, &busy);
    } else {
        b->tries = tries;
        begin(b);
    }
}

static void on_undone(struct sql_bid *b)
{
    if (b->owes_release || !b->claim) {
        sql_bid_released(b, SNIB__FREED, NULL);
        sql_bid_rest(b);
    } else if (b->failure == SQL_ABSENT && b->tries++ < TRIES_MOST) {
        sql_bid_phase(b, SQL_MAKING);
        ask(b, SQL_SETUP);
    } else if (b->failure == SQL_AGAIN && (b->queued || b->tries++ < TRIES_MOST)) {
        again(b);
    } else {
        int code = b->failure == SQL_REFUSED ? b->code : SNIB_EPROTO;
        char why[sizeof b->reason];
        snprintf(why, sizeof why, "%s", b->reason);
        sql_bid_rest(b);
        sql_bid_fail(b, code, 0, why);
    }
}

static void on_tried(struct sql_bid *b)
{
    if (b->owes_release || !b->claim) {
        if (b->got) {
            unlock(b);
        } else {
            sql_bid_released(b, SNIB__FREED, NULL);
            sql_bid_rest(b);
        }
    } else if (b->got && b->token == 0) {
        undo(b, SQL_REFUSED, SNIB_EINVAL, "another name has the same key there: take another name");
    } else if (b->got) {
        b->since = b->request.sent;
        hold(b);
    } else if (b->claim->may_queue && !b->strand->link.waits) {
        sql_bid_leave(b);
        wait_for_it(b);
    } else {
        sql_bid_rest(b);
        sql_bid_busy(b);
    }
}

static void on_unlocked(struct sql_bid *b)
{
    bool was_held = b->was_held;
    sql_bid_released(b, b->got || !was_held ? SNIB__FREED : SNIB__LOST,
                     b->got ? NULL : "its session had not got it any more");
    sql_bid_rest(b);
}

/* Sent is not yet in line: who is told that it waits must be before whoever comes then. */
static void look(struct sql_bid *b)
{
    struct sql *s = b->sql;
    struct sql_strand *main = s->looks && b->looks++ < LOOKS_MOST ? sql_strand_main(s) : NULL;
    if (!main || b->looking) {
        sql_bid_queued(b);
        return;
    }
    snprintf(b->number, sizeof b->number, "%lu", b->strand->link.number);
    b->look = (struct sql_request){.statement = SQL_STANDS,
                                   .link = &main->link,
                                   .count = 1,
                                   .parameters = {b->number},
                                   .row = on_sight,
                                   .ended = on_looked};
    b->looking = true;
    b->seen = false;
    s->driver->send(&b->look);
}

static void on_sight(struct sql_request *r, const char *const columns[SQL_COLUMNS])
{
    (void)columns;
    SNIB__OF(r, struct sql_bid, look)->seen = true;
}

static void on_looked(struct sql_request *r, enum sql_outcome outcome)
{
    struct sql_bid *b = SNIB__OF(r, struct sql_bid, look);
    b->looking = false;
    if (!b->claim && b->phase == SQL_IDLE) {
        sql_bid_rest(b);
    } else if (b->phase == SQL_WAITING && b->owes_attempt) {
        if (b->seen || outcome != SQL_ANSWERED) {
            sql_bid_queued(b);
        } else {
            look(b);
        }
    }
}

static void take(struct sql_bid *b)
{
    if (b->token == 0) {
        undo(b, SQL_REFUSED, SNIB_EINVAL, "another name has the same key there: take another name");
    } else {
        b->since = b->request.sent;
        hold(b);
    }
}

/* The lock is ours. The server counts the silence of this link from now on, and we from before the
 * wait was sent: as long as that is recent it is proof enough. */
static void on_waited(struct sql_bid *b)
{
    int64_t age_ns = snib__elapsed_ns(b->request.sent, snib__now());
    if (b->got && (b->token == 0 || age_ns < b->strand->link.idle_ms * SNIB__MS / 3)) {
        take(b);
        return;
    }
    enum sql_statement next = b->got ? SQL_PROVE : SQL_TOOK;
    sql_bid_phase(b, SQL_TAKING);
    ask(b, next);
}

/* That may have lasted. The link on which it was tried need not be the main one any more, and
 * others live by it: nobody waits there. */
static void on_made(struct sql_bid *b)
{
    if (b->owes_release || !b->claim) {
        sql_bid_released(b, SNIB__FREED, NULL);
        sql_bid_rest(b);
    } else if (b->strand->link.waits) {
        go_and_wait(b);
    } else if (b->strand == b->sql->main) {
        sql_bid_phase(b, SQL_TRYING);
        ask(b, SQL_TRY);
    } else {
        sql_bid_rest(b);
        begin(b);
    }
}

static void on_answered(struct sql_bid *b)
{
    switch (b->phase) {
    case SQL_TRYING:
        on_tried(b);
        return;
    case SQL_UNDOING:
        on_undone(b);
        return;
    case SQL_MAKING:
        on_made(b);
        return;
    case SQL_ENTERING:
        sql_bid_phase(b, SQL_WAITING);
        ask(b, SQL_WAIT);
        b->looks = 0;
        look(b);
        return;
    case SQL_WAITING:
        on_waited(b);
        return;
    case SQL_TAKING:
        take(b);
        return;
    case SQL_LEAVING:
        on_unlocked(b);
        return;
    default:
        return;
    }
}

static void on_refused(struct sql_bid *b, enum sql_outcome outcome)
{
    char why[sizeof b->request.reason];
    int code = b->request.code;
    snprintf(why, sizeof why, "%s", b->request.reason);
    if (b->phase == SQL_UNDOING || b->phase == SQL_LEAVING) {
        sql_strand_doom(b->strand); /* it may hold what nobody knows of: end it */
        if (b->phase == SQL_LEAVING) {
            sql_bid_released(b, SNIB__UNKNOWN, why);
            sql_bid_rest(b);
        } else {
            on_undone(b);
        }
    } else if (b->phase == SQL_MAKING) {
        bool over = b->owes_release || !b->claim;
        if (outcome == SQL_AGAIN && b->tries++ < TRIES_MOST && !over) {
            ask(b, SQL_SETUP);
        } else if (over) {
            sql_bid_released(b, SNIB__FREED, NULL);
            sql_bid_rest(b);
        } else {
            sql_bid_rest(b);
            sql_bid_fail(b, outcome == SQL_REFUSED ? code : SNIB_EPROTO, 0, why);
        }
    } else {
        undo(b, outcome, code, why);
    }
}

/* Its link is over, or it could not be sent; whoever owns the link tells the rest. */
static void on_unanswered(struct sql_bid *b)
{
    const char *why = b->strand ? b->strand->link.why : b->sql->why;
    bool was_held = b->was_held;
    if (b->owes_release || !b->claim) {
        bool gone = b->phase == SQL_LEAVING && was_held;
        sql_bid_released(b, gone ? SNIB__UNKNOWN : SNIB__FREED, why);
        sql_bid_rest(b);
        return;
    }
    sql_bid_rest(b);
    if (b->queued) {
        sql_bid_say(b, SNIB__BUSY, why); /* nothing is left there: it went with the link */
    } else if (b->owes_attempt) {
        sql_bid_say(b, SNIB__UNKNOWN, why);
    }
}

static void ended(struct sql_request *r, enum sql_outcome outcome)
{
    struct sql_bid *b = SNIB__OF(r, struct sql_bid, request);
    b->asking = false;
    if (outcome == SQL_ANSWERED) {
        on_answered(b);
    } else if (outcome == SQL_LOST || outcome == SQL_UNSENT) {
        on_unanswered(b);
    } else {
        on_refused(b, outcome);
    }
}

/* ---- Strands ---------------------------------------------------------------------------- */

static void on_opened(struct sql_strand *strand)
{
    struct sql *s = strand->sql;
    if (strand != s->main) {
        if (!snib__list_empty(&strand->bids)) {
            go_and_wait(SNIB__OF(strand->bids.after, struct sql_bid, on_strand));
        }
        return;
    }
    struct snib__list all;
    snib__list_init(&all);
    while (!snib__list_empty(&s->wanting)) {
        struct snib__list *l = s->wanting.after;
        snib__list_remove(l);
        snib__list_append(&all, l);
    }
    while (!snib__list_empty(&all)) {
        begin(SNIB__OF(all.after, struct sql_bid, on_strand));
    }
}

static void fail(struct sql_bid *b, bool main)
{
    struct sql *s = b->sql;
    bool sent = b->sent;
    sql_bid_rest(b);
    if (!main) {
        sql_bid_busy(b); /* no room for one more that waits; what was tried works */
    } else if (sent) {
        sql_bid_say(b, SNIB__UNKNOWN, s->why);
    } else {
        sql_bid_fail(b, s->code, s->sys, s->why);
    }
}

static void on_failed(struct sql_strand *strand)
{
    struct sql *s = strand->sql;
    while (!snib__list_empty(&strand->bids)) {
        fail(SNIB__OF(strand->bids.after, struct sql_bid, on_strand), false);
    }
    while (!strand->link.waits && !s->main && !snib__list_empty(&s->wanting)) {
        fail(SNIB__OF(s->wanting.after, struct sql_bid, on_strand), true);
    }
}

static void on_lost(struct sql_strand *strand)
{
    struct snib__result lost = {.status = SNIB__LOST, .reason = strand->link.why};
    while (!snib__list_empty(&strand->bids)) {
        struct sql_bid *b = SNIB__OF(strand->bids.after, struct sql_bid, on_strand);
        bool held = b->phase == SQL_HOLDING;
        if (b->asking || !held) {
            sql_bid_leave(b); /* its request says it */
            snib__list_remove(&b->on_strand);
            continue;
        }
        if (b->owes_renewal) {
            sql_proof_answer(b, &lost);
        } else if (b->claim) {
            snib__report(b->claim, SNIB_LOST, strand->link.why);
        }
        sql_bid_rest(b);
    }
}

const struct sql_strand_upcalls sql_session_upcalls = {
    .opened = on_opened, .failed = on_failed, .lost = on_lost, .rung = sql_proof_rung};

/* ---- Release ---------------------------------------------------------------------------- */

/* Its link, which is its own, goes; whatever is there goes with it. */
static void cut(struct sql_bid *b)
{
    struct sql_strand *strand = b->strand;
    bool asking = b->asking;
    sql_bid_leave(b);
    sql_bid_released(b, SNIB__FREED, NULL);
    sql_bid_phase(b, SQL_IDLE);
    if (!asking) {
        sql_bid_rest(b);
    } /* else its request ends with the link, and it with that */
    if (strand) {
        sql_strand_end(strand);
    }
}

void sql_session_release(struct snib__claim *claim)
{
    struct sql_bid *b = ((struct sql_ticket *)claim->state)->bid;
    if (!b) {
        struct snib__result none = {.status = claim->adopted ? SNIB__LOST : SNIB__FREED,
                                    .reason = "its session is over, and the lock with it"};
        snib__answer(claim, SNIB__RELEASE, &none);
        return;
    }
    b->owes_release = true;
    b->owes_renewal = false;
    switch (b->phase) {
    case SQL_IDLE:
        sql_bid_released(b, b->was_held ? SNIB__LOST : SNIB__FREED, "its session is over");
        sql_bid_rest(b);
        return;
    case SQL_WANTING:
    case SQL_ENTERING:
    case SQL_WAITING:
    case SQL_TAKING:
        cut(b);
        return;
    case SQL_HOLDING:
        sql_bid_owe(b);
        unlock(b);
        return;
    default: /* what is under way comes first */
        sql_bid_owe(b);
        return;
    }
}

/* ---- Time ------------------------------------------------------------------------------- */

static void overdue(struct sql_bid *b)
{
    struct sql *s = b->sql;
    snib__list_remove(&b->in_owing);
    if (b->owes_release) {
        if (!b->undoing && b->phase != SQL_IDLE) {
            b->undoing = true;
            s->session->undoing++;
        }
        sql_bid_released(b, SNIB__UNKNOWN, "no answer in time");
    } else if (b->owes_attempt && b->sent) {
        sql_bid_say(b, SNIB__UNKNOWN, "no answer in time");
    } else if (b->owes_attempt) {
        sql_bid_rest(b);
        sql_bid_fail(b, s->code ? s->code : SNIB_EUNREACH, s->sys,
                     s->why[0] ? s->why : "no answer in time");
    }
}

int64_t sql_bids_keep_time(struct sql *s, int64_t now_ns)
{
    int64_t next = SNIB__NEVER;
    while (!snib__list_empty(&s->owing)) {
        struct sql_bid *b = SNIB__OF(s->owing.after, struct sql_bid, in_owing);
        if (b->due_ns > now_ns) {
            next = b->due_ns;
            break;
        }
        overdue(b);
    }
    for (struct snib__list *l = s->broken.after, *after; l != &s->broken; l = after) {
        struct sql_bid *b = SNIB__OF(l, struct sql_bid, in_broken);
        after = l->after;
        if (b->until_ns > now_ns) {
            next = b->until_ns < next ? b->until_ns : next;
        } else {
            snib__list_remove(&b->in_broken);
            if (b->phase == SQL_HOLDING) {
                unlock(b); /* nobody believes in it any more */
            }
        }
    }
    int64_t proofs = sql_proofs_keep_time(s, now_ns);
    next = proofs < next ? proofs : next;
    if (!snib__list_empty(&s->wanting)) {
        sql_strand_main(s); /* after a pause */
    }
    return next;
}
