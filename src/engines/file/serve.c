/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the gate: everything for the claims of this session on one name.
 *
 *   load, walk              who can have it at once does not need a record in the queue. Left out
 *                           if all of ours have just tried and found it taken
 *   write down the rest     record, then the number of waiters
 *   walk again              whatever was let go before we were written down is free now, and
 *                           who lets go later sees us
 *   aim                     watch whom we wait for
 *
 * Between load and second walk others can only leave, which their alive bytes and the slot say. Who
 * was called and took the slot meanwhile keeps its alive byte: it is waited for, as it should be.
 * The permits of a counted lock stand in records, so these are loaded again.
 */
#include "engines/file/serve.h"

#include "engines/file/aim.h"
#include "engines/file/grant.h"
#include "engines/file/kind.h"

#include <stdio.h>

#define ROUNDS 8

/* ---- Writing down ----------------------------------------------------------------------- */

static bool write_down(struct view *v, struct queue_entry *e, struct failure *why)
{
    struct lock *lock = v->lock;
    struct file_claim *c = e->own;
    struct gate_words *words = &v->front.header.words;
    int sys = snib__file_bell_open(&lock->session->bell);
    (void)sys; /* without a bell nobody can ring us, but looking still finds our turn */
    uint32_t index = snib__file_view_take_record(v, why);
    if (!index) {
        return false;
    }
    c->record = index;
    c->order = words->next_order++;
    c->since_ms = snib__wall_us() / 1000;
    words->waiting = snib__file_view_waiting(v) + 1;
    const struct record *r = snib__file_record_draft(c, RECORD_WAITING);
    sys = snib__file_record_write(lock, index, r);
    if (sys == 0) {
        sys = snib__file_view_write_words(v);
    }
    if (sys != 0) {
        snib__file_lockfile_cannot(&lock->file, "write", sys, why);
        return false;
    }
    v->records[index] = *r;
    snib__list_remove(&c->in);
    snib__file_claim_enlist(c, &lock->waiting, PHASE_WAITING);
    e->record = index;
    e->order = c->order;
    return true;
}

/* Those who have not got it: into the queue, or refused. True: somebody joined. */
static bool write_down_all(struct view *v)
{
    bool joined = false;
    for (size_t i = 0; i < v->entry_count; i++) {
        struct failure why;
        struct queue_entry *e = &v->entries[i];
        if (!e->own || e->gone || e->record) {
            continue;
        }
        if (!e->own->claim->may_queue) {
            snib__file_view_conclude(v, e, SNIB__BUSY, NULL);
        } else if (write_down(v, e, &why)) {
            joined = true;
        } else {
            snib__file_view_conclude(v, e, SNIB__FAILED, &why);
        }
    }
    return joined;
}

static void bind_all(struct view *v)
{
    struct failure why;
    const struct file_claim *first = snib__file_claim_first(&v->lock->waiting);
    if (v->front.header.words.kind == KIND_NONE && first) {
        (void)snib__file_kind_bind(v, first, &why); /* the header was lost under us */
    }
    for (size_t i = 0; i < v->entry_count; i++) {
        struct queue_entry *e = &v->entries[i];
        if (e->own && e->own->phase == PHASE_JOINING && !snib__file_kind_bind(v, e->own, &why)) {
            snib__file_view_conclude(v, e, SNIB__FAILED, &why);
        }
    }
}

/* ---- Who is in the way ------------------------------------------------------------------ */

static bool writer_of_slot(const struct view *v, struct flock *found)
{
    if (v->slot_seen && v->slot.l_type == F_WRLCK) {
        *found = v->slot;
        return true;
    }
    return snib__file_blocked(v->lock->file.fd, F_RDLCK, SLOT_AT, 1, found);
}

static void find_rival(const struct view *v)
{
    struct lock *lock = v->lock;
    struct rival *out = &lock->rival;
    struct flock found;
    *out = (struct rival){.token = 0};
    if (lock->exclusive) {
        snib__file_rival_name(out, snib__file_record_draft(lock->exclusive, RECORD_HOLDING));
        return;
    }
    if (v->front.header.words.kind == KIND_RW && writer_of_slot(v, &found)) {
        struct front front;
        uint32_t pid = slot_owner_of(found.l_len).pid;
        if (snib__file_record_proved(&v->front.holder, &found)) {
            snib__file_rival_name(out, &v->front.holder);
        } else if (snib__file_lockfile_read(&lock->file, &front) &&
                   snib__file_record_proved(&front.holder, &found)) {
            snib__file_rival_name(out, &front.holder);
        } else if (pid) {
            snprintf(out->who, sizeof out->who, "pid %u", pid);
        }
        return;
    }
    for (uint32_t i = 1; i < v->front.header.words.high; i++) {
        const struct record *r = &v->records[i];
        if (r->state == RECORD_HOLDING && snib__file_record_alive(v->lock, i)) {
            snib__file_rival_name(out, r);
            return;
        }
    }
}

static bool anybody_to_tell(const struct view *v)
{
    for (EACH_CLAIM(c, &v->lock->waiting)) {
        if (!c->told) {
            return true;
        }
    }
    return v->refused;
}

static void number_places(struct view *v)
{
    int place = 0;
    for (size_t i = 0; i < v->entry_count; i++) {
        place += v->entries[i].gone ? 0 : 1;
        if (v->entries[i].own) {
            v->entries[i].own->place = place;
        }
    }
}

/* ---- Rounds ----------------------------------------------------------------------------- */

/* Have all of ours come to wait? */
static bool all_behind(const struct view *v)
{
    for (EACH_CLAIM(c, &v->lock->joining)) {
        if (!c->behind || !c->claim->may_queue) {
            return false;
        }
    }
    return snib__list_empty(&v->lock->waiting) && !snib__list_empty(&v->lock->joining);
}

static void walk_again(struct view *v)
{
    v->joined = true;
    for (size_t i = 0; i < v->entry_count; i++) {
        v->entries[i].alive = v->entries[i].own != NULL;
    }
    snib__file_grant_walk(v);
}

static void serve_in_rounds(struct view *v)
{
    struct failure why;
    bind_all(v);
    bool walks = !all_behind(v);
    for (int round = 0; round < ROUNDS; round++, walks = true) {
        if (round > 0 && snib__file_view_reload(v, &why) < 0) {
            break;
        }
        if (walks) {
            snib__file_grant_walk(v);
        }
        if (!v->replaced && write_down_all(v)) {
            if (v->front.header.words.kind == KIND_COUNTED) {
                continue;
            }
            walk_again(v);
        }
        if (v->replaced || snib__file_aim_watches(v)) {
            return;
        }
    }
    v->blind = true; /* it changes faster than we can look */
}

void snib__file_serve(struct view *v)
{
    serve_in_rounds(v);
    number_places(v);
    if (anybody_to_tell(v)) {
        find_rival(v);
    }
}
