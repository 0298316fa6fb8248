/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ringing from outside the gate: whoever has let go of something looks who waited for it.
 *
 * The queue is read as it stands, torn or old. What was written before we let go is there. If it
 * changes meanwhile, whoever changes it is inside the gate and looks for free things after that,
 * or is leaving too and rings the next.
 */
#include "engines/file/ring.h"

#include <assert.h>
#include <unistd.h>

static uint32_t read_queue(struct lock *lock, bool looked)
{
    struct file_session *fs = lock->session;
    if (!snib__file_record_make_room(fs, PAGE_RECORDS + 1)) {
        return 0;
    }
    size_t bytes = snib__file_lockfile_read_page(&lock->file, looked, fs->records);
    uint32_t high = ((const struct header *)(const void *)fs->records)->words.high;
    if (bytes < sizeof(struct front) || high < 2 || high > RECORDS_MAX ||
        !snib__file_record_make_room(fs, (size_t)high + 1)) {
        return 0;
    }
    if (high > PAGE_RECORDS && bytes == FILE_BYTES) {
        size_t rest = (high - PAGE_RECORDS) * sizeof(struct record);
        ssize_t n = pread(lock->file.fd, fs->records + PAGE_RECORDS + 1, rest, FILE_BYTES);
        bytes += n < 0 ? 0 : (size_t)n;
    }
    uint32_t there = (uint32_t)(bytes / sizeof(struct record)) - 1;
    return there < high ? there : high;
}

static uint32_t next_waiting(const struct lock *lock, uint32_t high, uint64_t after)
{
    const struct record *records = lock->session->records + 1;
    uint32_t found = 0;
    for (uint32_t i = 1; i < high; i++) {
        if (records[i].state == RECORD_WAITING && records[i].order > after &&
            !bit_get(lock->own_records, i) && (!found || records[i].order < records[found].order)) {
            found = i;
        }
    }
    return found;
}

static void ring(struct lock *lock, uint32_t high, uint64_t order)
{
    struct file_session *fs = lock->session;
    assert(!fs->in_gate);
    for (int i = 0; i < RINGS_MAX; i++) {
        uint32_t index = next_waiting(lock, high, order);
        if (!index) {
            return;
        }
        struct record *r = &fs->records[index + 1];
        bool stalled = snib__file_record_stalled(lock, r);
        snib__file_record_mark_rung(lock, index, r);
        enum rung rung = snib__file_bell_ring(&fs->bell, snib__file_record_bell(r), r->cookie);
        lock->rang = rung == RUNG ? r->cookie : 0;
        if (rung != NOBODY && !stalled && r->mode != SNIB_SHARED) {
            return;
        }
        order = r->order;
    }
}

void snib__file_ring_behind(struct lock *lock, uint64_t order)
{
    ring(lock, read_queue(lock, false), order);
}

void snib__file_ring_first(struct lock *lock)
{
    bool looked;
    if (snib__file_lockfile_waiting(&lock->file, &looked) != 0) {
        ring(lock, read_queue(lock, looked), 0);
    }
}
