/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records: who holds, who waits, one each, as they are written and read.
 *
 * A record is its owner's as long as the alive byte is locked. It is freed in this order: first
 * the state, then the byte, because whoever sees the byte free may use the record.
 *
 * A waiter that was rung a second ago and has not come is stopped, or as good as. The first call
 * counts, and the waiter clears it when it has come.
 */
#include "engines/file/record.h"

#include "engines/file/space.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define STALLED_MS 1000

/* What is the same in all records of the session stays in the draft from one to the next. */
const struct record *snib__file_record_draft(const struct file_claim *c, enum record_state state)
{
    struct file_session *fs = c->lock->session;
    struct record *r = &fs->draft;
    r->state = state;
    r->mode = (uint32_t)c->claim->mode;
    r->order = c->order;
    r->token = c->token;
    r->cookie = c->cookie;
    r->nonce = c->nonce;
    r->permit = c->permit;
    r->since_ms = c->since_ms;
    r->flags = fs->bell.fd < 0 ? 0 : c->claim->listens ? HAS_BELL | LISTENS : HAS_BELL;
    if (c->claim->label[0] || r->label[0]) {
        size_t n = strnlen(c->claim->label, sizeof r->label - 1);
        memset(r->label, 0, sizeof r->label);
        memcpy(r->label, c->claim->label, n);
    }
    return r;
}

int snib__file_record_write(struct lock *lock, uint32_t index, const struct record *r)
{
    return snib__file_lockfile_write(&lock->file, r, sizeof *r, record_at(index));
}

int snib__file_record_write_token(struct lock *lock, uint64_t token)
{
    return snib__file_lockfile_write(&lock->file, &token, sizeof token,
                                     record_at(0) + (off_t)offsetof(struct record, token));
}

static void write_free(const struct lock *lock, uint32_t index)
{
    static const uint32_t state = RECORD_FREE;
    (void)snib__file_lockfile_write(&lock->file, &state, sizeof state, record_at(index));
}

/* The owner needs no gate for that; the number of waiters is corrected by the next who goes
 * through. */
void snib__file_record_drop(struct lock *lock, uint32_t index)
{
    write_free(lock, index);
    bit_set(lock->own_records, index, false);
    snib__file_lockfile_unlock(&lock->file, ALIVE_AT + (off_t)index, 1);
}

void snib__file_record_retire(struct lock *lock, uint32_t index)
{
    assert(lock->kept == 0);
    write_free(lock, index);
    lock->kept = index;
}

void snib__file_record_publish(struct file_claim *c)
{
    struct lock *lock = c->lock;
    if (c->published || snib__file_bell_open(&lock->session->bell) != 0) {
        return;
    }
    uint32_t flags = HAS_BELL | LISTENS;
    off_t at = record_at(c->record) + (off_t)offsetof(struct record, flags);
    c->published = snib__file_lockfile_write(&lock->file, &flags, sizeof flags, at) == 0;
}

bool snib__file_record_alive(const struct lock *lock, uint32_t index)
{
    struct flock found;
    return bit_get(lock->own_records, index) ||
           snib__file_blocked(lock->file.fd, F_WRLCK, ALIVE_AT + (off_t)index, 1, &found);
}

const struct record *snib__file_record_proved(const struct record *holder,
                                              const struct flock *found)
{
    struct slot_owner o = slot_owner_of(found->l_len);
    return found->l_type == F_WRLCK && o.pid == holder->pid && o.nonce == holder->nonce &&
                   o.space == fold_space(holder->pid_space)
               ? holder
               : NULL;
}

/* ---- Rung ------------------------------------------------------------------------------- */

static int64_t boot_ms(void)
{
    return snib__now().boot_ns / SNIB__MS;
}

/* Asked for by those who call or wait; a lock without contention does not pay for it. */
static uint32_t own_clock(struct file_session *fs)
{
    if (fs->clock == 0) {
        fs->clock = fold_space(snib__file_space("time", fs->directory.network));
    }
    return fs->clock;
}

/* When it was called by our clock; -1: we have not seen that yet. Times of another clock cannot
 * be compared with ours, so what counts then is when we first saw the call. */
static int64_t called_ms(const struct lock *lock, const struct record *r)
{
    struct rung_time at = rung_time_of(r->rung_at);
    if (at.clock == own_clock(lock->session)) {
        return at.ms;
    }
    for (size_t i = 0; i < CALLS_MAX; i++) {
        const struct foreign_call *call = &lock->calls[i];
        if (call->cookie == r->cookie && call->rung_at == r->rung_at) {
            return call->seen_ms;
        }
    }
    return -1;
}

bool snib__file_record_stalled(const struct lock *lock, const struct record *r)
{
    int64_t at_ms = r->rung_order == r->order ? called_ms(lock, r) : -1;
    return at_ms >= 0 && boot_ms() - at_ms > STALLED_MS;
}

void snib__file_record_mark_rung(struct lock *lock, uint32_t index, struct record *r)
{
    if (r->rung_order == r->order) {
        if (called_ms(lock, r) < 0) {
            lock->calls[lock->next_call++ % CALLS_MAX] = (struct foreign_call){
                .cookie = r->cookie, .rung_at = r->rung_at, .seen_ms = boot_ms()};
        }
        return;
    }
    r->rung_order = r->order;
    r->rung_at = rung_at((struct rung_time){.clock = own_clock(lock->session), .ms = boot_ms()});
    (void)snib__file_lockfile_write(&lock->file, &r->rung_order,
                                    sizeof r->rung_order + sizeof r->rung_at,
                                    record_at(index) + (off_t)offsetof(struct record, rung_order));
}

void snib__file_record_clear_rung(struct lock *lock, uint32_t index, struct record *r)
{
    r->rung_order = 0;
    (void)snib__file_lockfile_write(&lock->file, &r->rung_order, sizeof r->rung_order,
                                    record_at(index) + (off_t)offsetof(struct record, rung_order));
}

/* ---- Small things ----------------------------------------------------------------------- */

bool snib__file_record_make_room(struct file_session *fs, size_t records)
{
    if (records <= fs->record_room) {
        return true;
    }
    size_t room = fs->record_room ? fs->record_room : 16;
    while (room < records) {
        room *= 2;
    }
    struct record *more = realloc(fs->records, room * sizeof *more);
    if (!more) {
        return false;
    }
    fs->records = more;
    fs->record_room = room;
    return true;
}

void snib__file_rival_name(struct rival *out, const struct record *r)
{
    snprintf(out->who, sizeof out->who, "%.*s%s%.*s", (int)strnlen(r->who, sizeof r->who), r->who,
             r->label[0] ? " " : "", (int)strnlen(r->label, sizeof r->label), r->label);
    out->token = r->token;
}
