/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letting go, and looking who waited for it.
 *
 * Nothing here needs the gate. A record belongs to its owner, who may free it at any time; the
 * number of waiters is then too high until somebody goes through the gate, which costs that one a
 * look and nothing else.
 */
#include "engines/file/leave.h"

#include "engines/file/flocking.h"
#include "engines/file/grant.h"
#include "engines/file/queue.h"
#include "engines/file/ring.h"
#include "engines/file/slot.h"

/* Something is free now: serve or ring who may have been waiting for it. */
static void offer(struct lock *lock)
{
    if (!snib__list_empty(&lock->waiting) || !snib__list_empty(&lock->joining)) {
        snib__file_queue_pump(lock);
        if (lock->missed) { /* the gate is closed: nobody else has heard of it */
            snib__file_ring_behind(lock, 0);
        }
    } else {
        snib__file_ring_first(lock);
    }
}

/* The next in line is rung even if there is nothing to be had: it watched our process, and must
 * now watch whom we watched. */
void snib__file_leave_queue(struct file_claim *c)
{
    struct lock *lock = c->lock;
    snib__list_remove(&c->in);
    if (c->phase == PHASE_WAITING) {
        snib__file_record_drop(lock, c->record);
        c->record = 0;
        snib__file_ring_behind(lock, c->order);
        if (!snib__list_empty(&lock->waiting)) {
            snib__file_queue_pump(lock);
        }
    }
    c->phase = PHASE_NONE;
    snib__file_queue_schedule(lock);
}

/* flock on the path first, then ours. */
void snib__file_leave_lock(struct file_claim *c)
{
    struct lock *lock = c->lock;
    snib__file_flocking_end(c);
    snib__list_remove(&c->in);
    snib__file_path_unlock(&c->path);
    switch (c->claim->mode) {
    case SNIB_EXCLUSIVE:
        snib__file_slot_drop_exclusive(c);
        break;
    case SNIB_SHARED:
        snib__file_record_drop(lock, c->record);
        snib__file_slot_drop_shared(c);
        break;
    default:
        snib__file_grant_drop_permit(c);
        snib__file_record_drop(lock, c->record);
        break;
    }
    c->record = 0;
    c->phase = PHASE_NONE;
    offer(lock);
}

void snib__file_leave_all(struct lock *lock)
{
    for (EACH_CLAIM(c, &lock->holding)) {
        snib__file_path_unlock(&c->path);
    }
    for (EACH_CLAIM(waits, &lock->flocking)) {
        snib__file_path_unlock(&waits->path);
    }
    if (lock->exclusive) {
        snib__file_path_unlock(&lock->exclusive->path);
    }
    for (uint32_t i = 1; i < RECORDS_MAX; i++) {
        if (bit_get(lock->own_records, i)) {
            snib__file_record_drop(lock, i);
        }
    }
    (void)snib__file_lock_range(lock->file.fd, F_UNLCK, 0, 0);
    for (EACH_CLAIM(waiter, &lock->waiting)) {
        snib__file_ring_behind(lock, waiter->order);
    }
    snib__file_ring_first(lock);
}
