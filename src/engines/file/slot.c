/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slot: taking it, writing who has it, giving it back.
 *
 * The uncontended exclusive acquire, in this order:
 *
 *   lock the slot        the kernel excludes other sessions, our own table our own claims
 *   statx                is it still the file the name leads to? once per tick of the coarse clock
 *   read the header      is it this kind of lock, does nobody wait, which was the last token?
 *   write record 0       the new token and who we are, in one pwrite. Fails: not granted
 *
 * A waiter that was called needs no gate either: it locks the slot, and what it reads then must
 * show its own record, and no waiter with a smaller number. Numbers are given inside the gate, and
 * written down before the next one is given, so whoever is before it is there to be seen. Then it
 * writes record 0, frees its own, and has it. Who is killed in between leaves a record without a
 * live owner, as any waiter who is killed.
 *
 * The release: unlock, then look whether somebody waits. A waiter writes itself down first
 * and tries the slot then. If its try failed, it came before our unlock, so what it wrote is
 * there to be seen after it: no wake-up is lost. Whoever unlocks the slot must look, also one who
 * took it only to find that others wait and it is not its turn.
 */
#include "engines/file/slot.h"

#include "engines/file/ring.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static struct slot_owner owner_of(const struct file_claim *c)
{
    const struct record *self = &c->lock->session->self;
    return (struct slot_owner){
        .pid = self->pid,
        .space = fold_space(self->pid_space),
        .nonce = c->claim->mode == SNIB_EXCLUSIVE ? c->nonce : 0,
    };
}

/* When nothing else of ours is locked here, the whole file at once: the kernel then need not
 * prepare for a range that is cut in two. */
static void unlock_slot(struct lock *lock)
{
    bool all = lock->file.uses == 1 && snib__list_empty(&lock->waiting);
    uint32_t kept = lock->kept;
    snib__file_lockfile_unlock(&lock->file, all ? 0 : SLOT_AT, 0);
    if (kept) {
        lock->kept = 0;
        bit_set(lock->own_records, kept, false);
    }
    if (kept && !all) {
        snib__file_lockfile_unlock(&lock->file, ALIVE_AT + (off_t)kept, 1);
    }
}

uint64_t snib__file_slot_next_token(uint64_t last, int64_t now_us)
{
    if (last >= UINT64_MAX - 1) {
        return 0; /* damaged: a number no clock and no counting leads to */
    }
    return now_us > 0 && (uint64_t)now_us > last ? (uint64_t)now_us : last + 1;
}

/* ---- Exclusive -------------------------------------------------------------------------- */

static enum taken write_holder(struct file_claim *c, uint64_t last, struct failure *why)
{
    struct lock *lock = c->lock;
    int64_t now_us = snib__wall_us();
    c->token = snib__file_slot_next_token(last, now_us);
    c->since_ms = now_us / 1000;
    if (c->token == 0) {
        snib__file_fail(why, SNIB_EPROTO, 0,
                        "%.100s/%.150s is damaged: its last token is the largest there is",
                        lock->session->directory.path, lock->file.file_name);
        return TAKE_FAILED;
    }
    const struct record *r = snib__file_record_draft(c, RECORD_HOLDING);
    int sys = snib__file_record_write(lock, 0, r);
    if (sys != 0) {
        snib__file_lockfile_cannot(&lock->file, "write", sys, why);
        return TAKE_FAILED;
    }
    c->published = (r->flags & LISTENS) != 0;
    lock->exclusive = c;
    return TAKEN;
}

/* Who backs out has held the slot for a moment: somebody may have found it taken. */
static enum taken back_out(struct lock *lock, enum taken answer)
{
    unlock_slot(lock);
    snib__file_ring_first(lock);
    return answer;
}

static enum taken lock_slot(const struct file_claim *c, short type, struct failure *why)
{
    int sys = snib__file_lock_range(c->lock->file.fd, type, SLOT_AT, slot_length(owner_of(c)));
    if (sys == 0) {
        return TAKEN;
    }
    if (sys == EAGAIN) {
        return NOT_FREE;
    }
    snib__file_lockfile_cannot(&c->lock->file, "lock", sys, why);
    return TAKE_FAILED;
}

/* Of a file read for the first time or again: is everything as the quick way needs it? */
static bool quick(const struct lock *lock, const struct header *h, bool named)
{
    if (memcmp(h->magic, FILE_MAGIC, sizeof h->magic) != 0 || h->version != FILE_VERSION ||
        h->words.kind != KIND_RW) {
        return false;
    }
    size_t length = named ? strlen(lock->file.name) : 0;
    return !named || (h->name_length == length && memcmp(h->name, lock->file.name, length) == 0);
}

enum taken snib__file_slot_take_fast(struct file_claim *c, struct failure *why)
{
    struct lock *lock = c->lock;
    const struct file_claim *first = snib__file_claim_first(&lock->joining);
    bool alone = (!first || first == c) && snib__list_empty(&lock->waiting);
    if (lock->exclusive || lock->shared || !alone) {
        return NOT_FREE;
    }
    bool looked;
    c->behind = lock->file.crowded && snib__file_lockfile_waiting(&lock->file, &looked);
    if (c->behind) {
        return NOT_FREE; /* no need to disturb them */
    }
    enum taken taken = lock_slot(c, F_WRLCK, why);
    if (taken != TAKEN) {
        c->behind = taken == NOT_FREE;
        return taken;
    }
    enum presence presence = snib__file_lockfile_check(&lock->file, file_tick(), why);
    if (presence != PRESENT) {
        return back_out(lock, presence == REPLACED  ? TAKE_REPLACED
                              : presence == REFUSED ? TAKE_FAILED
                                                    : NOT_FREE);
    }
    struct front read;
    const struct front *front = lock->file.map;
    if (front) {
        c->behind = snib__file_lockfile_count(front) != 0;
    } else if (snib__file_lockfile_read(&lock->file, &read)) {
        front = &read;
        c->behind = read.header.words.waiting != 0;
    } else {
        return back_out(lock, NOT_FREE);
    }
    if (c->behind || !quick(lock, &front->header, front == &read)) {
        lock->file.crowded = true;
        return back_out(lock, NOT_FREE);
    }
    taken = write_holder(c, front->holder.token, why);
    return taken == TAKEN ? TAKEN : back_out(lock, taken);
}

/* Is it there, and before all others? */
static bool is_first(const struct file_claim *c, const struct front *page)
{
    const struct record *records = &page->holder;
    uint32_t high = page->header.words.high;
    if (c->record >= high || high > PAGE_RECORDS || !quick(c->lock, &page->header, true) ||
        records[c->record].state != RECORD_WAITING || records[c->record].order != c->order) {
        return false;
    }
    for (uint32_t i = 1; i < high; i++) {
        if (records[i].state == RECORD_WAITING && records[i].order < c->order) {
            return false;
        }
    }
    return true;
}

/* The first page as it is now; NULL: it cannot be seen. */
static const struct front *look_at_page(const struct lock *lock)
{
    struct file_session *fs = lock->session;
    if (lock->file.map) {
        return lock->file.map;
    }
    if (!snib__file_record_make_room(fs, PAGE_RECORDS + 1) ||
        snib__file_lockfile_read_page(&lock->file, true, fs->records) < FILE_BYTES) {
        return NULL;
    }
    return (const struct front *)(const void *)fs->records;
}

/* It looks before it locks as well: who locked the slot must ring the next one when it backs out,
 * and two that are not the first would ring each other until the first one comes. */
enum taken snib__file_slot_take_called(struct file_claim *c)
{
    struct lock *lock = c->lock;
    struct failure ignored; /* inside the gate the same happens again, and is said */
    const struct front *page = lock->exclusive || lock->shared ? NULL : look_at_page(lock);
    if (!page || !is_first(c, page) || lock_slot(c, F_WRLCK, &ignored) != TAKEN) {
        return NOT_FREE;
    }
    if (snib__file_lockfile_check_fully(&lock->file, &ignored) != PRESENT) {
        return back_out(lock, NOT_FREE);
    }
    page = look_at_page(lock);
    if (!page || !is_first(c, page) || write_holder(c, page->holder.token, &ignored) != TAKEN) {
        return back_out(lock, NOT_FREE);
    }
    return TAKEN;
}

/* Locked, and it is the right file; record 0 as it is now that nobody else can write it. Who has
 * not been inside the gate also sees to it that the name is this kind of lock: whoever changes
 * that holds the slot meanwhile. */
static enum taken settle(struct lock *lock, struct front *front, bool gated, struct failure *why)
{
    enum presence presence = snib__file_lockfile_check_fully(&lock->file, why);
    if (presence == REPLACED) {
        return TAKE_REPLACED;
    }
    if (presence == PRESENT && lock->file.map) {
        *front = *lock->file.map;
    } else if (!snib__file_lockfile_read(&lock->file, front)) {
        snib__file_lockfile_cannot(&lock->file, "read", errno, why);
        return TAKE_FAILED;
    }
    return gated || quick(lock, &front->header, true) ? TAKEN : NOT_FREE;
}

static enum taken take_exclusive(struct file_claim *c, bool gated, struct failure *why)
{
    struct lock *lock = c->lock;
    struct front front;
    if (lock->exclusive || lock->shared) {
        return NOT_FREE;
    }
    enum taken taken = lock_slot(c, F_WRLCK, why);
    if (taken != TAKEN) {
        return taken;
    }
    taken = settle(lock, &front, gated, why);
    if (taken == TAKEN) {
        taken = write_holder(c, front.holder.token, why);
    }
    if (taken != TAKEN) {
        unlock_slot(lock); /* the caller rings when it can */
    }
    return taken;
}

enum taken snib__file_slot_take_exclusive(struct file_claim *c, struct failure *why)
{
    return take_exclusive(c, true, why);
}

void snib__file_slot_drop_exclusive(struct file_claim *c)
{
    c->lock->exclusive = NULL;
    unlock_slot(c->lock);
}

/* ---- Shared ----------------------------------------------------------------------------- */

/* All shared claims of a session stand on one read lock, taken by the first and given back by
 * the last of them. */
static enum taken take_shared(struct file_claim *c, bool gated, struct failure *why)
{
    struct lock *lock = c->lock;
    struct front front;
    if (lock->exclusive) {
        return NOT_FREE;
    }
    enum taken taken = lock->shared ? TAKEN : lock_slot(c, F_RDLCK, why);
    if (taken != TAKEN) {
        return taken;
    }
    taken = settle(lock, &front, gated, why);
    if (taken == TAKEN) {
        lock->shared++;
        c->token = front.holder.token;
        c->since_ms = snib__wall_us() / 1000;
        return TAKEN;
    }
    if (!lock->shared) {
        unlock_slot(lock);
    }
    return taken;
}

enum taken snib__file_slot_take_shared(struct file_claim *c, struct failure *why)
{
    return take_shared(c, true, why);
}

enum taken snib__file_slot_take_ungated(struct file_claim *c, struct failure *why)
{
    switch (c->claim->mode) {
    case SNIB_EXCLUSIVE:
        return take_exclusive(c, false, why);
    case SNIB_SHARED:
        return take_shared(c, false, why);
    default: /* permits and their tokens are given inside the gate only */
        return NOT_FREE;
    }
}

void snib__file_slot_drop_shared(struct file_claim *c)
{
    if (--c->lock->shared == 0) {
        unlock_slot(c->lock);
    }
}

bool snib__file_slot_is_open(const struct lock *lock, int mode, struct flock *found)
{
    found->l_type = F_UNLCK;
    if (lock->exclusive || (mode == SNIB_EXCLUSIVE && lock->shared)) {
        return false;
    }
    return !snib__file_blocked(lock->file.fd, mode == SNIB_EXCLUSIVE ? F_WRLCK : F_RDLCK, SLOT_AT,
                               1, found);
}
