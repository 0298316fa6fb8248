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
 * and the release: unlock, then look whether somebody waits. A waiter writes itself down first
 * and tries the slot then. If its try failed, it came before our unlock, so what it wrote is
 * there to be seen after it: no wake-up is lost. Whoever unlocks the slot must look, also one who
 * took it only to find that others wait and it is not its turn.
 */
#include "engines/file/file.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static struct slot_owner owner_of(const struct file_claim *c)
{
    const struct record *self = &c->file->session->self;
    return (struct slot_owner){
        .pid = self->pid,
        .space = fold_space(self->pid_space),
        .nonce = c->claim->mode == SNIB_EXCLUSIVE ? c->nonce : 0,
    };
}

/* When nothing else of ours is locked here, the whole file at once: the kernel then need not
 * prepare for a range that is cut in two. */
static void unlock_slot(struct lockfile *f)
{
    snib__file_unlock(f, f->claims == 1 ? 0 : SLOT_AT, 0);
}

uint64_t snib__file_next_token(uint64_t last, int64_t now_us)
{
    if (last >= UINT64_MAX - 1) {
        return 0; /* damaged: a number no clock and no counting leads to */
    }
    return now_us > 0 && (uint64_t)now_us > last ? (uint64_t)now_us : last + 1;
}

/* What is the same in all records of the session stays in the draft from one to the next. */
const struct record *snib__file_draft(const struct file_claim *c, enum record_state state)
{
    struct file_session *fs = c->file->session;
    struct record *r = &fs->draft;
    r->state = state;
    r->mode = (uint32_t)c->claim->mode;
    r->ticket = c->ticket;
    r->token = c->token;
    r->cookie = c->cookie;
    r->nonce = c->nonce;
    r->permit = c->permit;
    r->since_ms = c->since_ms;
    r->flags = fs->self.flags;
    if (c->claim->listens && r->flags & HAS_BELL) {
        r->flags |= LISTENS;
    }
    if (c->claim->label[0] || r->label[0]) {
        size_t n = strnlen(c->claim->label, sizeof r->label - 1);
        memset(r->label, 0, sizeof r->label);
        memcpy(r->label, c->claim->label, n);
    }
    return r;
}

const struct record *snib__file_proved(const struct record *holder, const struct flock *found)
{
    struct slot_owner o = slot_owner_of(found->l_len);
    return found->l_type == F_WRLCK && o.pid == holder->pid && o.nonce == holder->nonce &&
                   o.space == fold_space(holder->pid_space)
               ? holder
               : NULL;
}

/* ---- Exclusive -------------------------------------------------------------------------- */

static enum taken write_holder(struct file_claim *c, uint64_t last, struct failure *why)
{
    struct lockfile *f = c->file;
    int64_t now_us = snib__wall_us();
    c->token = snib__file_next_token(last, now_us);
    c->since_ms = now_us / 1000;
    if (c->token == 0) {
        snib__file_fail(why, SNIB_EPROTO, 0,
                        "%.100s/%.150s is damaged: its last token is the largest there is",
                        f->session->path, f->file_name);
        return TAKE_FAILED;
    }
    const struct record *r = snib__file_draft(c, RECORD_HOLDING);
    if (snib__file_record_write(f, 0, r) != 0) {
        int sys = errno;
        snib__file_fail(why, snib__file_code_of(sys), sys, "cannot write %.100s/%.180s: %s",
                        f->session->path, f->file_name, strerror(sys));
        return TAKE_FAILED;
    }
    c->published = (r->flags & LISTENS) != 0;
    f->exclusive = c;
    return TAKEN;
}

/* Who backs out has held the slot for a moment: somebody may have found it taken. */
static enum taken back_out(struct lockfile *f, enum taken answer)
{
    unlock_slot(f);
    if (snib__file_waiting(f, false) != 0) {
        snib__file_ring_behind(f, 0);
    }
    return answer;
}

static enum taken lock_slot(const struct file_claim *c, short type, struct failure *why)
{
    int sys = file_lock(c->file->fd, type, SLOT_AT, slot_length(owner_of(c)));
    if (sys == 0) {
        return TAKEN;
    }
    if (sys == EAGAIN) {
        return NOT_FREE;
    }
    snib__file_fail(why, snib__file_code_of(sys), sys, "cannot lock %.100s/%.180s: %s",
                    c->file->session->path, c->file->file_name, strerror(sys));
    return TAKE_FAILED;
}

/* Of a file read for the first time or again: is everything as the quick way needs it? */
static bool quick(const struct lockfile *f, const struct header *h, bool named)
{
    if (memcmp(h->magic, FILE_MAGIC, sizeof h->magic) != 0 || h->version != FILE_VERSION ||
        h->words.kind != KIND_RW) {
        return false;
    }
    size_t length = named ? strlen(f->name) : 0;
    return !named || (h->name_length == length && memcmp(h->name, f->name, length) == 0);
}

enum taken snib__file_take_fast(struct file_claim *c, struct failure *why)
{
    struct lockfile *f = c->file;
    bool alone = (!f->joining.first || f->joining.first == c) && !f->waiting.first;
    if (f->exclusive || f->shared || !alone) {
        return NOT_FREE;
    }
    if (f->crowded && snib__file_waiting(f, false)) {
        return NOT_FREE; /* no need to disturb them */
    }
    enum taken taken = lock_slot(c, F_WRLCK, why);
    if (taken != TAKEN) {
        return taken;
    }
    enum presence presence = snib__file_presence(f, file_tick(), why);
    if (presence != PRESENT) {
        return back_out(f, presence == REPLACED  ? TAKE_REPLACED
                           : presence == REFUSED ? TAKE_FAILED
                                                 : NOT_FREE);
    }
    struct front read;
    const struct front *front = f->map;
    if (!front) {
        front = &read;
        if (!snib__file_front(f, &read)) {
            return back_out(f, NOT_FREE);
        }
    }
    uint32_t waiting = __atomic_load_n(&front->header.words.waiting, __ATOMIC_ACQUIRE);
    if (waiting || !quick(f, &front->header, front == &read)) {
        f->crowded = true;
        return back_out(f, NOT_FREE);
    }
    taken = write_holder(c, front->holder.token, why);
    return taken == TAKEN ? TAKEN : back_out(f, taken);
}

/* Locked, and it is the right file; record 0 as it is now that nobody else can write it. */
static enum taken settle(struct lockfile *f, struct front *front, struct failure *why)
{
    if (snib__file_presence_fully(f, why) == REPLACED) {
        return TAKE_REPLACED;
    }
    if (!snib__file_front(f, front)) {
        int sys = errno;
        snib__file_fail(why, SNIB_ESYS, sys, "cannot read %.100s/%.180s: %s", f->session->path,
                        f->file_name, strerror(sys));
        return TAKE_FAILED;
    }
    return TAKEN;
}

enum taken snib__file_take_exclusive(struct file_claim *c, struct failure *why)
{
    struct lockfile *f = c->file;
    struct front front;
    if (f->exclusive || f->shared) {
        return NOT_FREE;
    }
    enum taken taken = lock_slot(c, F_WRLCK, why);
    if (taken != TAKEN) {
        return taken;
    }
    taken = settle(f, &front, why);
    if (taken == TAKEN) {
        taken = write_holder(c, front.holder.token, why);
    }
    if (taken != TAKEN) {
        unlock_slot(f); /* the pump looks when the gate is open */
    }
    return taken;
}

void snib__file_drop_exclusive(struct file_claim *c)
{
    c->file->exclusive = NULL;
    unlock_slot(c->file);
}

/* ---- Shared ----------------------------------------------------------------------------- */

/* All shared claims of a session stand on one read lock, taken by the first and given back by
 * the last of them. */
enum taken snib__file_take_shared(struct file_claim *c, struct failure *why)
{
    struct lockfile *f = c->file;
    struct front front;
    if (f->exclusive) {
        return NOT_FREE;
    }
    enum taken taken = f->shared ? TAKEN : lock_slot(c, F_RDLCK, why);
    if (taken != TAKEN) {
        return taken;
    }
    taken = settle(f, &front, why);
    if (taken == TAKEN) {
        f->shared++;
        c->token = front.holder.token;
        c->since_ms = snib__wall_us() / 1000;
        return TAKEN;
    }
    if (!f->shared) {
        unlock_slot(f);
    }
    return taken;
}

void snib__file_drop_shared(struct file_claim *c)
{
    if (--c->file->shared == 0) {
        unlock_slot(c->file);
    }
}

bool snib__file_slot_open(struct lockfile *f, int mode)
{
    struct flock found;
    if (f->exclusive || (mode == SNIB_EXCLUSIVE && f->shared)) {
        return false;
    }
    return !snib__file_blocked(f->fd, mode == SNIB_EXCLUSIVE ? F_WRLCK : F_RDLCK, SLOT_AT, 1,
                               &found);
}
