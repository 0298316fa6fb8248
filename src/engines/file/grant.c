/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it is.
 *
 * Inside the gate, the waiters are gone through in the order of their tickets. Ours take what is
 * free for them; others are rung, so that they come and do the same. The dead are pruned on the
 * way. A slot is for the first waiter; readers go together as long as no writer waits before
 * them; of a counted lock there are as many turns as free permits.
 *
 * A waiter that was rung a second ago and has not come is stopped, or as good as: it keeps its
 * place, but those behind it may pass.
 */
#include "engines/file/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define STALLED_MS 1000

bool snib__file_stalled(const struct record *r)
{
    return r->rung_ticket == r->ticket && boot_ms() - r->rung_ms > STALLED_MS;
}

bool snib__file_turn_alive(struct view *v, struct turn *t)
{
    if (t->gone || t->alive) {
        return !t->gone;
    }
    t->alive = snib__file_record_alive(v, t->record);
    if (!t->alive) {
        snib__file_prune(v, t->record);
        t->gone = true;
    }
    return t->alive;
}

/* ---- Outcomes --------------------------------------------------------------------------- */

/* Decided; said when the gate is open again. */
void snib__file_conclude(struct view *v, struct file_claim *c, enum snib__status outcome,
                         const struct failure *why)
{
    struct lockfile *f = v->file;
    snib__file_list_remove(c->phase == PHASE_WAITING ? &f->waiting : &f->joining, c);
    c->phase = PHASE_NONE;
    c->outcome = (int)outcome;
    if (outcome == SNIB__FAILED) {
        c->failure = malloc(sizeof *why);
        if (c->failure) {
            *c->failure = *why;
        }
    }
    if (c->record && (outcome != SNIB__HELD || c->claim->mode == SNIB_EXCLUSIVE)) {
        v->records[c->record].state = RECORD_FREE;
        snib__file_record_drop(f, c->record);
        c->record = 0;
    }
    snib__file_list_add(&v->done, c);
}

static enum taken write_failed(const struct lockfile *f, int sys, struct failure *why)
{
    snib__file_fail(why, snib__file_code_of(sys), sys, "cannot write %.100s/%.180s: %s",
                    f->session->path, f->file_name, strerror(sys));
    return TAKE_FAILED;
}

/* The record of a shared or counted holder. */
static enum taken record_holder(struct view *v, struct file_claim *c, struct failure *why)
{
    if (c->record == 0) {
        c->record = snib__file_record_take(v, why);
        if (!c->record) {
            return TAKE_FAILED;
        }
    }
    const struct record *r = snib__file_draft(c, RECORD_HOLDING);
    if (snib__file_record_write(v->file, c->record, r) != 0) {
        return write_failed(v->file, errno, why);
    }
    v->records[c->record] = *r;
    c->published = (r->flags & LISTENS) != 0;
    return TAKEN;
}

/* ---- One slot --------------------------------------------------------------------------- */

static enum taken take_slot(struct view *v, struct file_claim *c, struct failure *why)
{
    if (c->claim->mode == SNIB_EXCLUSIVE) {
        return snib__file_take_exclusive(c, why);
    }
    enum taken taken = snib__file_take_shared(c, why);
    if (taken == TAKEN) {
        taken = record_holder(v, c, why);
        if (taken != TAKEN) {
            snib__file_drop_shared(c);
        }
    }
    return taken;
}

/* True: granted or failed, and the next may try. False: the walk is over. */
static bool give_slot(struct view *v, struct turn *t)
{
    struct failure why;
    struct file_claim *c = t->own;
    switch (take_slot(v, c, &why)) {
    case TAKEN:
        t->gone = true;
        snib__file_conclude(v, c, SNIB__HELD, NULL);
        return c->claim->mode == SNIB_SHARED;
    case TAKE_FAILED:
        t->gone = true;
        v->let_go = true;
        snib__file_conclude(v, c, SNIB__FAILED, &why);
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
    for (size_t i = 0; i < v->turn_count; i++) {
        struct turn *t = &v->turns[i];
        if (!snib__file_turn_alive(v, t)) {
            continue;
        }
        const struct record *r = &v->records[t->record];
        int mode = t->own ? t->own->claim->mode : (int)r->mode;
        if (mode == SNIB_EXCLUSIVE && passed_reader) {
            return;
        }
        if (t->own) {
            if (!give_slot(v, t)) {
                return;
            }
            continue;
        }
        if (snib__file_stalled(r)) {
            continue;
        }
        if (!snib__file_slot_open(v->file, mode)) {
            return;
        }
        snib__file_ring_add(v, t->record);
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
        if (!snib__file_blocked(v->file->fd, F_WRLCK, PERMIT_AT + (off_t)k, 1, &found)) {
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
        if (r->state == RECORD_HOLDING && !snib__file_record_alive(v, i)) {
            uint32_t permit = r->permit;
            snib__file_prune(v, i);
            if (permit < PERMITS_MAX && !bit_get(v->file->own_permits, permit)) {
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
    struct lockfile *f = v->file;
    int64_t now_us = snib__wall_us();
    int sys = file_lock(f->fd, F_WRLCK, PERMIT_AT + (off_t)c->permit, 1);
    if (sys != 0) {
        return sys == EAGAIN ? NOT_FREE : write_failed(f, sys, why);
    }
    bit_set(f->own_permits, c->permit, true);
    enum taken taken = TAKEN;
    c->since_ms = now_us / 1000;
    c->token = snib__file_next_token(v->front.holder.token, now_us);
    if (snib__file_presence_fully(f, why) == REPLACED) {
        taken = TAKE_REPLACED;
    } else if (c->token == 0) {
        taken = write_failed(f, EOVERFLOW, why);
    } else if (snib__file_token_write(f, c->token) != 0) {
        taken = write_failed(f, errno, why);
    } else {
        v->front.holder.token = c->token;
        taken = record_holder(v, c, why);
    }
    if (taken != TAKEN) {
        snib__file_drop_permit(c);
    }
    return taken;
}

void snib__file_drop_permit(struct file_claim *c)
{
    bit_set(c->file->own_permits, c->permit, false);
    snib__file_unlock(c->file, PERMIT_AT + (off_t)c->permit, 1);
}

/* False: the walk is over. */
static bool give_permit(struct view *v, struct turn *t, uint32_t permit)
{
    struct failure why;
    struct file_claim *c = t->own;
    c->permit = permit;
    switch (take_permit(v, c, &why)) {
    case TAKEN:
        t->gone = true;
        snib__file_conclude(v, c, SNIB__HELD, NULL);
        return true;
    case TAKE_FAILED:
        t->gone = true;
        v->let_go = true;
        snib__file_conclude(v, c, SNIB__FAILED, &why);
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
    for (size_t i = 0; i < v->turn_count; i++) {
        struct turn *t = &v->turns[i];
        if (!snib__file_turn_alive(v, t)) {
            continue;
        }
        if (!t->own && snib__file_stalled(&v->records[t->record])) {
            continue;
        }
        uint32_t permit = free_permit(v);
        if (permit >= PERMITS_MAX) {
            return;
        }
        if (t->own) {
            if (!give_permit(v, t, permit)) {
                return;
            }
        } else {
            snib__file_ring_add(v, t->record);
            v->waits_for_rung = true;
        }
        bit_set(v->claimed, permit, true);
    }
}

void snib__file_walk(struct view *v)
{
    if (v->front.header.words.kind == KIND_COUNTED) {
        walk_permits(v);
    } else {
        walk_slot(v);
    }
}
