/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those that wait: their re-checks, and the grants that come by message.
 *
 * A ticket at the server has a short lease of its own. A re-check, the same script as the attempt,
 * renews it, with jitter; it also finds out what a lost message would have said, and that the
 * holder's lease has ended. The first few in line do that about once a second, those behind them
 * seldom: many who wait cost the server next to nothing. Re-checks that are due close together
 * travel together. They go on without an inbox while
 * one is being opened: nobody is kept in line then, but what is free is found.
 *
 * A grant by message counts from the sending of the last request that was answered "queued": the
 * server granted it after that, for at least as long as the message says. If that was long ago,
 * because we were stopped, the core asks before it believes.
 */
#include "engines/redis/handover.h"

#include "engines/redis/asks.h"
#include "engines/redis/attempts.h"
#include "engines/redis/bid.h"
#include "engines/redis/debts.h"

static void recheck(struct snib__redis *r, struct snib__bid *b, int64_t now_ns)
{
    int64_t every_ns = snib__attempts_recheck_ms(r, b) * SNIB__MS;
    bool waits = b->phase == SNIB__BID_QUEUED || b->phase == SNIB__BID_WANTS;
    if (waits && b->under_way == 0 && b->recheck_ns <= now_ns + every_ns / 8) {
        b->recheck_ns = now_ns + every_ns;
        if (b->phase == SNIB__BID_WANTS) {
            b->phase = SNIB__BID_ASKED; /* the inbox takes its time: is it free meanwhile? */
        }
        (void)snib__ask_attempt(r, b, NULL); /* no memory: the next tick asks */
    } else if (b->recheck_ns <= now_ns) {
        b->recheck_ns = now_ns + every_ns; /* an answer, or the inbox, is awaited */
    }
}

void snib__handover_keep_time(struct snib__redis *r, int64_t now_ns)
{
    struct snib__redis_line *line = &r->line;
    struct snib__list *after;
    if (now_ns < line->tick_ns) {
        return;
    }
    line->tick_ns = SNIB__NEVER;
    for (struct snib__list *l = line->bids.after; l != &line->bids; l = after) {
        struct snib__bid *b = SNIB__OF(l, struct snib__bid, in_line);
        after = l->after;
        recheck(r, b, now_ns);
        if (b->recheck_ns < line->tick_ns) {
            line->tick_ns = b->recheck_ns;
        }
    }
    snib__node_flush(&r->node);
}

/* ---- The inbox -------------------------------------------------------------------------- */

void snib__handover_ready(struct snib__redis *r)
{
    struct snib__list *all = &r->line.bids, *after;
    for (struct snib__list *l = all->after; l != all; l = after) {
        struct snib__bid *b = SNIB__OF(l, struct snib__bid, in_line);
        after = l->after;
        if (b->phase == SNIB__BID_WANTS) {
            snib__redis_line_leave(r, b);
            b->phase = SNIB__BID_ASKED;
            snib__attempts_try(r, b);
        }
    }
    snib__redis_line_hurry(r); /* tickets name the old inbox */
}

void snib__handover_slot(struct snib__redis *r, unsigned slot, bool hears)
{
    struct snib__list *all = &r->line.bids, *after;
    for (struct snib__list *l = all->after; l != all; l = after) {
        struct snib__bid *b = SNIB__OF(l, struct snib__bid, in_line);
        after = l->after;
        if (b->slot != slot) {
            continue;
        }
        if (hears && b->phase == SNIB__BID_WANTS) {
            snib__redis_line_leave(r, b);
            b->phase = SNIB__BID_ASKED;
            snib__attempts_try(r, b);
        } else if (!hears) {
            snib__redis_line_now(r, b); /* the slot has gone: ask, and be told where */
        }
    }
    snib__node_flush(&r->node);
}

/* Without an inbox there is no line to stand in: those who wait try again, now and then. */
void snib__handover_failed(struct snib__redis *r)
{
    while (!r->lineless && !snib__list_empty(&r->line.bids)) {
        snib__attempts_turned_away(r, SNIB__OF(r->line.bids.after, struct snib__bid, in_line));
    }
}

/* Whoever can publish can forge a message; but not the id, which is a secret. Messages come on
 * another connection than answers: one from before the last attempt that was answered "queued" is
 * about a grant that has lapsed since. The server's clock could not tell: it may be set back. */
void snib__handover_message(struct snib__redis *r, const char *message, size_t size)
{
    struct snib__layout_grant grant;
    if (!r->layout->grant(&grant, r->settings.prefix, message, size)) {
        return;
    }
    struct snib__bid *b = snib__bid_find(r, grant.id);
    if (!b) { /* nobody here wants it */
        (void)snib__debts_add(r, grant.name, grant.id, 0, false);
        snib__node_flush(&r->node);
        return;
    }
    /* While releasing, the release that is under way gives it back. */
    if (b->phase < SNIB__BID_PROVING && b->asked.boot_ns != 0 && grant.turn >= b->queued_turn) {
        snib__attempts_granted(r, b, &grant);
    }
}
