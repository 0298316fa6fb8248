/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letting go, and looking who waited for it.
 *
 * Nothing here needs the gate. A record belongs to its owner, who may free it at any time; the
 * number of waiters is then too high until somebody goes through the gate, which costs that one a
 * look and nothing else. The queue is read as it stands. If it changes meanwhile, whoever changes
 * it is inside the gate and looks for free things after that, or is leaving too and rings the next.
 */
#include "engines/file/file.h"

#include <assert.h>
#include <unistd.h>

/* ---- Ringing without the gate ----------------------------------------------------------- */

/* Torn or old, it does not matter: what was written before we let go is there. */
static uint32_t read_queue(struct lockfile *f)
{
    struct file_session *fs = f->session;
    struct front front;
    if (!snib__file_front(f, &front)) {
        return 0;
    }
    uint32_t high = front.header.words.high;
    if (high < 2 || high > RECORDS_MAX || !snib__file_make_room(fs, high)) {
        return 0;
    }
    size_t size = high * sizeof(struct record);
    ssize_t n = pread(f->fd, fs->records, size, record_at(0));
    return n < 0 ? 0 : (uint32_t)((size_t)n / sizeof(struct record));
}

static uint32_t next_waiting(const struct lockfile *f, uint32_t high, uint64_t after)
{
    const struct record *records = f->session->records;
    uint32_t found = 0;
    for (uint32_t i = 1; i < high; i++) {
        if (records[i].state == RECORD_WAITING && records[i].ticket > after &&
            !bit_get(f->own_records, i) && (!found || records[i].ticket < records[found].ticket)) {
            found = i;
        }
    }
    return found;
}

/* Ring the first who waits behind that ticket; the next one too if that one is dead, stopped or
 * only reads. */
void snib__file_ring_behind(struct lockfile *f, uint64_t ticket)
{
    struct file_session *fs = f->session;
    assert(!fs->in_gate);
    uint32_t high = read_queue(f);
    for (int i = 0; i < RINGS_MAX; i++) {
        uint32_t index = next_waiting(f, high, ticket);
        if (!index) {
            return;
        }
        struct record *r = &fs->records[index];
        struct ring ring = {.pid = r->pid, .session = r->session, .cookie = r->cookie};
        bool stalled = snib__file_stalled(r);
        snib__file_mark_rung(f, index, r);
        if (snib__file_ring(fs, &ring) && !stalled && r->mode != SNIB_SHARED) {
            return;
        }
        ticket = r->ticket;
    }
}

void snib__file_look(struct lockfile *f)
{
    if (f->waiting.first || f->joining.first) {
        snib__file_pump(f);
    } else if (snib__file_waiting(f, true) != 0) {
        snib__file_ring_behind(f, 0);
    }
}

/* ---- Leaving ---------------------------------------------------------------------------- */

/* The next in line is rung even if there is nothing to be had: it watched our process, and must
 * now watch whom we watched. */
void snib__file_quit(struct file_claim *c)
{
    struct lockfile *f = c->file;
    if (c->phase == PHASE_JOINING) {
        snib__file_list_remove(&f->joining, c);
    } else if (c->phase == PHASE_WAITING) {
        snib__file_list_remove(&f->waiting, c);
        snib__file_record_drop(f, c->record);
        c->record = 0;
        snib__file_ring_behind(f, c->ticket);
        if (f->waiting.first) {
            snib__file_pump(f);
        }
    }
    c->phase = PHASE_NONE;
    snib__file_schedule(f);
}

/* In the reverse order of taking: flock on the path, then ours. Then look. */
void snib__file_drop(struct file_claim *c)
{
    struct lockfile *f = c->file;
    if (c->phase == PHASE_FLOCKING) {
        snib__file_list_remove(&f->flocking, c);
    } else if (c->phase == PHASE_HELD && c->claim->mode != SNIB_EXCLUSIVE) {
        snib__file_list_remove(&f->holding, c);
    }
    snib__file_unflock(c);
    switch (c->claim->mode) {
    case SNIB_EXCLUSIVE:
        snib__file_drop_exclusive(c);
        break;
    case SNIB_SHARED:
        snib__file_record_drop(f, c->record);
        snib__file_drop_shared(c);
        break;
    default:
        snib__file_drop_permit(c);
        snib__file_record_drop(f, c->record);
        break;
    }
    c->record = 0;
    c->phase = PHASE_NONE;
    snib__file_look(f);
}
