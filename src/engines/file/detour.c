/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Around a gate that stays closed: somebody was stopped inside.
 *
 * The gate keeps the queue in order; who is excluded is decided by the slot. So who has waited at
 * a closed gate for a second tries the slot without it. Nobody is let in who should not be, but
 * among those who wait the order is lost.
 *
 * Whoever is stopped inside has an old view of the queue and goes on with it when it wakes up. What
 * it can do with that is bounded by kernel locks: it cannot take the slot we have nor the record we
 * use, and numbers it writes are counted anew by the next who goes through.
 *
 * Not done for counted locks: their tokens are drawn inside the gate, and two who draw them side by
 * side could draw the same.
 */
#include "engines/file/detour.h"

#include "engines/file/record.h"
#include "engines/file/ring.h"
#include "engines/file/slot.h"

#define ABOVE_MAX 64 /* records tried above those in use */

static bool take_record(struct lock *lock, uint32_t i)
{
    struct record r;
    if (bit_get(lock->own_records, i) ||
        snib__file_lock_range(lock->file.fd, F_WRLCK, ALIVE_AT + (off_t)i, 1) != 0) {
        return false;
    }
    bit_set(lock->own_records, i, true);
    if (snib__file_lockfile_read_record(&lock->file, i, &r) && r.state != RECORD_FREE) {
        bit_set(lock->own_records, i, false); /* a dead one's: pruned by those inside the gate */
        snib__file_lockfile_unlock(&lock->file, ALIVE_AT + (off_t)i, 1);
        return false;
    }
    return true;
}

/* One that nobody uses, for a reader that has not come as far as the queue. Above those in use it
 * may not be seen until others join, and that is all. 0: none. */
static uint32_t find_record(struct lock *lock)
{
    struct front front;
    if (!snib__file_lockfile_read(&lock->file, &front)) {
        return 0;
    }
    uint32_t end = front.header.words.high + ABOVE_MAX;
    for (uint32_t i = 1; i < end && i < RECORDS_MAX; i++) {
        if (take_record(lock, i)) {
            return i;
        }
    }
    return 0;
}

static bool write_reader(struct file_claim *c)
{
    struct lock *lock = c->lock;
    c->record = c->record ? c->record : find_record(lock);
    if (!c->record) {
        return false;
    }
    const struct record *r = snib__file_record_draft(c, RECORD_HOLDING);
    c->published = (r->flags & LISTENS) != 0;
    return snib__file_record_write(lock, c->record, r) == 0;
}

/* Its place in the queue is not needed any more, unless it holds by that record. */
static void drop_record(struct file_claim *c)
{
    if (c->record) {
        snib__file_record_drop(c->lock, c->record);
        c->record = 0;
    }
}

static enum taken take(struct file_claim *c)
{
    struct failure ignored; /* it is tried again, and the gate opens one day */
    enum taken taken = snib__file_slot_take_ungated(c, &ignored);
    if (taken != TAKEN) {
        return taken;
    }
    if (c->claim->mode == SNIB_EXCLUSIVE) {
        drop_record(c);
    } else if (!write_reader(c)) {
        snib__file_slot_drop_shared(c);
        return TAKE_FAILED;
    }
    snib__file_claim_conclude(c, SNIB__HELD, NULL);
    return TAKEN;
}

bool snib__file_detour(struct lock *lock)
{
    for (;;) {
        struct file_claim *c = snib__file_claim_first(&lock->waiting);
        c = c ? c : snib__file_claim_first(&lock->joining);
        enum taken taken = c ? take(c) : NOT_FREE;
        if (taken == TAKE_FAILED) {
            snib__file_ring_behind(lock, 0); /* somebody may have found it taken meanwhile */
        }
        if (taken != TAKEN) {
            return taken == TAKE_REPLACED;
        }
    }
}
