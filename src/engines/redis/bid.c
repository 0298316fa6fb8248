/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bids: what their ids look like on the wire, whose an id is, and which of them wait.
 *
 * An id is the claim's 128 random bits and a byte. If the engine gave a grant back by itself (the
 * server turned out to be in quarantine), that id is dead for ever, and the claim goes on with
 * another byte behind it; after 256 of them, with another last one of the random ones, too. Only
 * claims that may wait are in the table: only they get messages.
 */
#include "engines/redis/bid.h"

#include <string.h>

void snib__bid_id(const struct snib__bid *b, unsigned char out[SNIB__ID_SIZE])
{
    memcpy(out, b->claim->owner, sizeof b->claim->owner);
    out[sizeof b->claim->owner] = (unsigned char)b->life;
    out[sizeof b->claim->owner - 1] ^= (unsigned char)(b->life >> 8);
}

bool snib__bid_has_undone(const struct snib__bid *b, const struct snib__redis_call *call)
{
    return call->kind == SNIB__CALL_ATTEMPT && call->turn <= b->undone_turn;
}

void snib__bid_note_loose(struct snib__bid *b, int64_t not_after_ms)
{
    if (not_after_ms == 0) {
        b->loose_ms = -1;
    } else if (b->loose_ms >= 0 && not_after_ms > b->loose_ms) {
        b->loose_ms = not_after_ms;
    }
}

/* ---- By owner --------------------------------------------------------------------------- */

/* Random already: any of its bits will do. */
static uint64_t hash_of(const unsigned char *owner)
{
    uint64_t bits;
    memcpy(&bits, owner, sizeof bits);
    return bits;
}

bool snib__bid_know(struct snib__redis *r, struct snib__bid *b)
{
    b->known = b->known || snib__table_add(&r->bids, &b->by_owner, hash_of(b->claim->owner));
    return b->known;
}

void snib__bid_forget(struct snib__redis *r, struct snib__bid *b)
{
    if (b->known) {
        snib__table_remove(&r->bids, &b->by_owner);
        b->known = false;
    }
}

struct snib__bid *snib__bid_find(const struct snib__redis *r, const unsigned char id[SNIB__ID_SIZE])
{
    unsigned char own[SNIB__ID_SIZE];
    struct snib__entry *e = snib__table_first(&r->bids, hash_of(id));
    for (; e; e = snib__entry_next(e)) {
        struct snib__bid *b = SNIB__OF(e, struct snib__bid, by_owner);
        snib__bid_id(b, own);
        if (memcmp(own, id, sizeof own) == 0) {
            return b;
        }
    }
    return NULL;
}

/* ---- The inbox -------------------------------------------------------------------------- */

/* In a cluster, as far as the server knows sharded channels, those are used: a plain message goes
 * to all servers. */
static bool is_sharded(const struct snib__redis *r)
{
    return r->router && snib__fitness_version(&r->node.greeting.fitness) >= 700;
}

const char *snib__redis_inbox(struct snib__redis *r, const struct snib__bid *b)
{
    return is_sharded(r) ? snib__inbox_of_slot(&r->node.inbox, b->slot)
                         : snib__node_inbox(&r->node);
}

bool snib__redis_open_inbox(struct snib__redis *r, const struct snib__bid *b)
{
    return is_sharded(r) ? snib__inbox_open_slot(&r->node.inbox, b->slot)
                         : snib__node_open_inbox(&r->node);
}

/* ---- The line --------------------------------------------------------------------------- */

void snib__redis_await(struct snib__redis *r)
{
    snib__node_await(&r->node, r->line.count > 0 || r->breaks.open);
}

void snib__redis_line_join(struct snib__redis *r, struct snib__bid *b, int64_t after_ms)
{
    struct snib__redis_line *line = &r->line;
    b->recheck_ns = snib__now().boot_ns + snib__jitter(after_ms * SNIB__MS);
    if (!b->waits) {
        snib__list_append(&line->bids, &b->in_line);
        b->waits = true;
        if (line->count++ == 0) {
            snib__redis_await(r);
        }
    }
    if (b->recheck_ns < line->tick_ns) {
        line->tick_ns = b->recheck_ns;
    }
}

void snib__redis_line_now(struct snib__redis *r, struct snib__bid *b)
{
    b->recheck_ns = r->line.tick_ns = snib__now().boot_ns;
}

void snib__redis_line_leave(struct snib__redis *r, struct snib__bid *b)
{
    if (!b->waits) {
        return;
    }
    snib__list_remove(&b->in_line);
    b->waits = false;
    if (--r->line.count == 0) {
        r->line.tick_ns = SNIB__NEVER;
        snib__redis_await(r);
    }
}

void snib__redis_line_hurry(struct snib__redis *r)
{
    int64_t now_ns = snib__now().boot_ns;
    struct snib__list *all = &r->line.bids;
    for (struct snib__list *l = all->after; l != all; l = l->after) {
        SNIB__OF(l, struct snib__bid, in_line)->recheck_ns = now_ns;
    }
    if (r->line.count > 0) {
        r->line.tick_ns = now_ns;
    }
}
