/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it is.
 *
 * Inside the gate, the waiters are gone through in their order. Ours take what is
 * free for them; others are rung, so that they come and do the same. The dead are pruned on the
 * way. A slot is for the first waiter; readers go together as long as no writer waits before
 * them; of a counted lock there are as many turns as free permits.
 *
 * A waiter that was rung a second ago and has not come keeps its place, but those behind it may
 * pass.
 */
#include "engines/file/grant.h"

#include "engines/file/slot.h"

#include <errno.h>

static enum taken write_failed(const struct lock *lock, int sys, struct failure *why)
{
    snib__file_lockfile_cannot(&lock->file, "write", sys, why);
    return TAKE_FAILED;
}

/* The record of a shared or counted holder. */
static enum taken record_holder(struct view *v, struct file_claim *c, struct failure *why)
{
    if (c->record == 0) {
        c->record = snib__file_view_take_record(v, why);
        if (!c->record) {
            return TAKE_FAILED;
        }
    }
    const struct record *r = snib__file_record_draft(c, RECORD_HOLDING);
    int sys = snib__file_record_write(v->lock, c->record, r);
    if (sys != 0) {
        return write_failed(v->lock, sys, why);
    }
    v->records[c->record] = *r;
    c->published = (r->flags & LISTENS) != 0;
    return TAKEN;
}

/* ---- One slot --------------------------------------------------------------------------- */

/* Who has it stays in the view, for those who watch it and tell of it. */
static bool slot_is_taken(struct view *v, int mode)
{
    v->slot_seen = !snib__file_slot_is_open(v->lock, mode, &v->slot) && v->slot.l_type != F_UNLCK;
    return v->slot_seen;
}

static enum taken take_slot(struct view *v, struct file_claim *c, struct failure *why)
{
    if (v->joined && slot_is_taken(v, c->claim->mode)) {
        return NOT_FREE; /* as it was a moment ago: asking says by whom, trying does not */
    }
    if (c->claim->mode == SNIB_EXCLUSIVE) {
        return snib__file_slot_take_exclusive(c, why);
    }
    enum taken taken = snib__file_slot_take_shared(c, why);
    if (taken == TAKEN) {
        taken = record_holder(v, c, why);
        if (taken != TAKEN) {
            snib__file_slot_drop_shared(c);
        }
    }
    return taken;
}

/* True: granted or failed, and the next may try. False: the walk is over. */
static bool give_slot(struct view *v, struct queue_entry *e)
{
    struct failure why;
    struct file_claim *c = e->own;
    switch (take_slot(v, c, &why)) {
    case TAKEN:
        snib__file_view_conclude(v, e, SNIB__HELD, NULL);
        return c->claim->mode == SNIB_SHARED;
    case TAKE_FAILED:
        v->let_go = true;
        snib__file_view_conclude(v, e, SNIB__FAILED, &why);
        return true;
    case TAKE_REPLACED:
        v->replaced = true;
        return false;
    default:
        return false;
    }
}

static void walk_slot(struct view *v)
{
    bool passed_reader = false; /* one that is rung and will come */
    for (size_t i = 0; i < v->entry_count; i++) {
        struct queue_entry *e = &v->entries[i];
        if (!snib__file_view_sift(v, e)) {
            continue;
        }
        const struct record *r = &v->records[e->record];
        int mode = e->own ? e->own->claim->mode : (int)r->mode;
        if (mode == SNIB_EXCLUSIVE && passed_reader) {
            return;
        }
        if (e->own) {
            if (!give_slot(v, e)) {
                return;
            }
            continue;
        }
        if (snib__file_record_stalled(v->lock, r)) {
            continue;
        }
        if (!snib__file_slot_is_open(v->lock, mode, &v->slot)) {
            return;
        }
        snib__file_view_ring(v, e->record);
        v->waits_for_rung = true;
        if (mode == SNIB_EXCLUSIVE) {
            return;
        }
        passed_reader = true;
    }
}

/* ---- Permits ---------------------------------------------------------------------------- */

static uint32_t unclaimed(struct view *v)
{
    struct flock found;
    for (uint32_t k = 0; k < v->front.header.words.permits; k++) {
        if (bit_get(v->claimed, k)) {
            continue;
        }
        if (!snib__file_blocked(v->lock->file.fd, F_WRLCK, PERMIT_AT + (off_t)k, 1, &found)) {
            return k;
        }
        bit_set(v->claimed, k, true); /* its record is gone or not there yet */
    }
    return PERMITS_MAX;
}

/* A permit nobody has; PERMITS_MAX: none. Records say who has which; those of the dead are looked
 * for when nothing else is free. */
static uint32_t free_permit(struct view *v)
{
    uint32_t k = unclaimed(v);
    if (k < PERMITS_MAX || v->swept) {
        return k;
    }
    v->swept = true;
    for (uint32_t i = 1; i < v->front.header.words.high; i++) {
        const struct record *r = &v->records[i];
        if (r->state == RECORD_HOLDING && !snib__file_record_alive(v->lock, i)) {
            uint32_t permit = r->permit;
            snib__file_view_prune(v, i);
            if (permit < PERMITS_MAX && !bit_get(v->lock->own_permits, permit)) {
                bit_set(v->claimed, permit, false);
            }
        }
    }
    return unclaimed(v);
}

/* Locked, numbered, written down. The token first: a number given twice would be worse than one
 * never used. */
static enum taken take_permit(struct view *v, struct file_claim *c, struct failure *why)
{
    struct lock *lock = v->lock;
    int64_t now_us = snib__wall_us();
    int sys = snib__file_lock_range(lock->file.fd, F_WRLCK, PERMIT_AT + (off_t)c->permit, 1);
    if (sys != 0) {
        return sys == EAGAIN ? NOT_FREE : write_failed(lock, sys, why);
    }
    bit_set(lock->own_permits, c->permit, true);
    enum taken taken = TAKEN;
    c->since_ms = now_us / 1000;
    c->token = snib__file_slot_next_token(v->front.holder.token, now_us);
    if (snib__file_lockfile_check_fully(&lock->file, why) == REPLACED) {
        taken = TAKE_REPLACED;
    } else if (c->token == 0) {
        taken = write_failed(lock, EOVERFLOW, why);
    } else if ((sys = snib__file_record_write_token(lock, c->token)) != 0) {
        taken = write_failed(lock, sys, why);
    } else {
        v->front.holder.token = c->token;
        taken = record_holder(v, c, why);
    }
    if (taken != TAKEN) {
        snib__file_grant_drop_permit(c);
    }
    return taken;
}

void snib__file_grant_drop_permit(struct file_claim *c)
{
    bit_set(c->lock->own_permits, c->permit, false);
    snib__file_lockfile_unlock(&c->lock->file, PERMIT_AT + (off_t)c->permit, 1);
}

/* False: the walk is over. */
static bool give_permit(struct view *v, struct queue_entry *e, uint32_t permit)
{
    struct failure why;
    struct file_claim *c = e->own;
    c->permit = permit;
    switch (take_permit(v, c, &why)) {
    case TAKEN:
        snib__file_view_conclude(v, e, SNIB__HELD, NULL);
        return true;
    case TAKE_FAILED:
        v->let_go = true;
        snib__file_view_conclude(v, e, SNIB__FAILED, &why);
        return true;
    case TAKE_REPLACED:
        v->replaced = true;
        return false;
    default: /* cannot be: permits are taken inside the gate only */
        return false;
    }
}

static void walk_permits(struct view *v)
{
    for (size_t i = 0; i < v->entry_count; i++) {
        struct queue_entry *e = &v->entries[i];
        if (!snib__file_view_sift(v, e)) {
            continue;
        }
        if (!e->own && snib__file_record_stalled(v->lock, &v->records[e->record])) {
            continue;
        }
        uint32_t permit = free_permit(v);
        if (permit >= PERMITS_MAX) {
            return;
        }
        if (e->own) {
            if (!give_permit(v, e, permit)) {
                return;
            }
        } else {
            snib__file_view_ring(v, e->record);
            v->waits_for_rung = true;
        }
        bit_set(v->claimed, permit, true);
    }
}

void snib__file_grant_walk(struct view *v)
{
    if (v->front.header.words.kind == KIND_COUNTED) {
        walk_permits(v);
    } else {
        walk_slot(v);
    }
}
