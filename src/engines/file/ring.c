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

static uint32_t read_queue(struct lock *lock)
{
    struct file_session *fs = lock->session;
    struct front front;
    if (!snib__file_lockfile_read(&lock->file, &front)) {
        return 0;
    }
    uint32_t high = front.header.words.high;
    if (high < 2 || high > RECORDS_MAX || !snib__file_record_make_room(fs, high)) {
        return 0;
    }
    size_t size = high * sizeof(struct record);
    ssize_t n = pread(lock->file.fd, fs->records, size, record_at(0));
    return n < 0 ? 0 : (uint32_t)((size_t)n / sizeof(struct record));
}

static uint32_t next_waiting(const struct lock *lock, uint32_t high, uint64_t after)
{
    const struct record *records = lock->session->records;
    uint32_t found = 0;
    for (uint32_t i = 1; i < high; i++) {
        if (records[i].state == RECORD_WAITING && records[i].order > after &&
            !bit_get(lock->own_records, i) && (!found || records[i].order < records[found].order)) {
            found = i;
        }
    }
    return found;
}

void snib__file_ring_behind(struct lock *lock, uint64_t order)
{
    struct file_session *fs = lock->session;
    assert(!fs->in_gate);
    uint32_t high = read_queue(lock);
    for (int i = 0; i < RINGS_MAX; i++) {
        uint32_t index = next_waiting(lock, high, order);
        if (!index) {
            return;
        }
        struct record *r = &fs->records[index];
        bool stalled = snib__file_record_stalled(lock, r);
        snib__file_record_mark_rung(lock, index, r);
        if (snib__file_bell_ring(&fs->bell, snib__file_record_bell(r), r->cookie) && !stalled &&
            r->mode != SNIB_SHARED) {
            return;
        }
        order = r->order;
    }
}
