/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of a name: joining, being served, and never being forgotten.
 *
 * The pump goes through the gate once for all claims of this session on that name; what happens
 * inside is in serve.c. It answers nobody: what it decides is in the session's outcomes.
 *
 * The rule that no wake-up is lost: who waits is written down before its last try; who lets go
 * of anything (the slot, a permit, a place in the queue) looks at the queue afterwards. Looking
 * and ringing need no gate, and letting go needs none either: a process that is stopped inside
 * the gate delays those who come by a second, and never those who go.
 *
 * What can go wrong anyhow (a lost datagram, a waiter that is stopped, a process we cannot watch)
 * is found by looking again every two seconds, which is two system calls if nothing has changed.
 */
#include "engines/file/queue.h"

#include "engines/file/detour.h"
#include "engines/file/move.h"
#include "engines/file/ring.h"
#include "engines/file/serve.h"
#include "engines/file/slot.h"

#include <assert.h>

/* Each of them plus or minus a quarter. */
#define CHECK_MS 1760 /* what was missed is found within 2.2 s */
#define BLIND_MS 200  /* somebody we wait for cannot be watched, or is on another host */
#define RUNG_MS 1340  /* never less than it takes to count as stalled */

#define GATE_LIMIT_MS 50      /* a try gives up after that long before a closed gate, */
#define GATE_PATIENCE_MS 1000 /* and who waits goes around it */

static bool anybody_waits(const struct lock *lock)
{
    return !snib__list_empty(&lock->waiting);
}

static bool anybody_joins(const struct lock *lock)
{
    return !snib__list_empty(&lock->joining);
}

/* ---- Timers ----------------------------------------------------------------------------- */

static void on_timer(struct snib__timer *timer);

/* A time that would do as well is kept: that spares the core setting its timer. */
static void check_after(struct lock *lock, int64_t ms)
{
    int64_t left_ns = lock->check_ns - snib__now().boot_ns;
    int64_t quarter_ns = ms * SNIB__MS / 4;
    lock->check_ms = ms;
    if (left_ns < 3 * quarter_ns || left_ns > 5 * quarter_ns) {
        lock->check_ns += snib__jitter(ms * SNIB__MS) - left_ns;
    }
}

void snib__file_queue_schedule(struct lock *lock)
{
    int64_t due_ns = anybody_joins(lock) || anybody_waits(lock) ? lock->check_ns : SNIB__NEVER;
    lock->timer.fire = on_timer;
    snib__file_waking_at(&lock->session->waking, &lock->timer, lock->poked ? 0 : due_ns);
}

void snib__file_queue_poke(struct lock *lock)
{
    lock->poked = true;
    snib__file_queue_schedule(lock);
}

void snib__file_queue_poke_all(struct file_session *fs)
{
    for (struct lock *lock = NULL; (lock = snib__file_lock_next(fs, lock)) != NULL;) {
        if (anybody_waits(lock)) {
            snib__file_queue_poke(lock);
        }
    }
}

void snib__file_queue_bereave(struct file_session *fs, const struct watch *dead)
{
    for (struct lock *lock = NULL; (lock = snib__file_lock_next(fs, lock)) != NULL;) {
        for (size_t i = 0; i < lock->watch_count; i++) {
            if (lock->watches[i] == dead) {
                lock->watches[i--] = lock->watches[--lock->watch_count];
                lock->bereaved = true;
                snib__file_queue_poke(lock);
            }
        }
    }
}

static void choose_check(struct lock *lock, const struct view *v)
{
    if (!anybody_waits(lock)) {
        snib__file_lock_watch(lock, NULL, 0);
    } else if (v->blind || lock->session->directory.network) {
        check_after(lock, lock->bereaved ? 1 : BLIND_MS);
    } else {
        check_after(lock, v->waits_for_rung ? RUNG_MS : CHECK_MS);
    }
    lock->bereaved = false;
}

/* ---- The pump --------------------------------------------------------------------------- */

static void tell_those_who_wait(const struct lock *lock)
{
    for (EACH_CLAIM(c, &lock->waiting)) {
        if (!c->told) {
            snib__file_claim_conclude(c, SNIB__QUEUED, NULL);
        }
    }
}

/* Those who can queue have their answer; those who only try wait a moment longer, in drive. */
static void tell_those_outside(const struct lock *lock, int64_t now_ns)
{
    struct file_claim *next;
    for (struct file_claim *c = snib__file_claim_first(&lock->joining); c; c = next) {
        next = snib__file_claim_next(&lock->joining, c);
        if (c->claim->may_queue) {
            if (!c->told) {
                c->place = 0;
                snib__file_claim_conclude(c, SNIB__QUEUED, NULL);
            }
        } else if (now_ns >= c->give_up_ns) {
            snib__file_claim_conclude(c, SNIB__BUSY, NULL);
        }
    }
}

/* Another process is inside, stopped perhaps. The slot may be free all the same: who finds nobody
 * waiting takes it at once, and after a second so do those who wait. Answers as go_inside does. */
static struct lock *gate_closed(struct lock *lock)
{
    struct failure why;
    int64_t now_ns = snib__now().boot_ns;
    struct file_claim *first = snib__file_claim_first(&lock->joining);
    bool replaced = false;
    lock->closed_ns = lock->gate_misses > 1 ? lock->closed_ns : now_ns;
    lock->missed = true;
    lock->rival = (struct rival){.token = 0};
    if (now_ns - lock->closed_ns >= GATE_PATIENCE_MS * SNIB__MS) {
        replaced = snib__file_detour(lock);
    } else if (first && first->claim->mode == SNIB_EXCLUSIVE &&
               snib__file_slot_take_fast(first, &why) == TAKEN) {
        snib__file_claim_conclude(first, SNIB__HELD, NULL);
    }
    if (replaced) {
        return snib__file_move(lock);
    }
    tell_those_outside(lock, now_ns);
    int shift = lock->gate_misses < 4 ? lock->gate_misses : lock->gate_misses < 40 ? 3 : 5;
    lock->check_ns = now_ns + SNIB__MS * (1LL << shift);
    return NULL;
}

static void fail_all(struct lock *lock, const struct failure *why)
{
    struct file_claim *c;
    while ((c = snib__file_claim_first(&lock->joining)) != NULL ||
           (c = snib__file_claim_first(&lock->waiting)) != NULL) {
        if (c->record) {
            snib__file_record_drop(lock, c->record);
            c->record = 0;
        }
        snib__file_claim_conclude(c, SNIB__FAILED, why);
    }
}

/* Answers the lock to go on with if this one was replaced, else NULL. */
static struct lock *go_inside(struct view *v, struct lock *lock)
{
    struct file_session *fs = lock->session;
    fs->in_gate = true;
    lock->missed = false;
    snib__file_serve(v);
    snib__file_view_leave(v);
    fs->in_gate = false;
    choose_check(lock, v);
    tell_those_who_wait(lock);
    if (v->replaced) {
        return snib__file_move(lock);
    }
    if (v->let_go) {
        snib__file_ring_behind(lock, 0);
    }
    return NULL;
}

/* Somebody of ours was rung or bereaved. If it is alone here, it need not go through the gate. */
static bool come(struct lock *lock)
{
    struct file_claim *c = snib__file_claim_first(&lock->waiting);
    if (!c || snib__file_claim_next(&lock->waiting, c) || anybody_joins(lock) ||
        c->claim->mode != SNIB_EXCLUSIVE || snib__file_slot_take_called(c) != TAKEN) {
        return false;
    }
    snib__file_record_retire(lock, c->record);
    c->record = 0;
    snib__file_claim_conclude(c, SNIB__HELD, NULL);
    snib__file_lock_watch(lock, NULL, 0);
    lock->missed = lock->bereaved = false;
    lock->gate_misses = 0; /* how long it was closed for us is over */
    return true;
}

static struct lock *pass_gate(struct lock *lock)
{
    struct failure why;
    struct view v;
    switch (snib__file_view_enter(&v, lock, &why)) {
    case ENTERED:
        return go_inside(&v, lock);
    case GATE_BUSY:
        return gate_closed(lock);
    case ENTER_FAILED:
        fail_all(lock, &why);
        return NULL;
    case ENTER_REPLACED:
        return snib__file_move(lock);
    }
    return NULL;
}

static struct lock *pass(struct lock *lock)
{
    assert(!lock->session->in_gate);
    snib__file_lock_use(lock); /* its claims may move elsewhere */
    bool called = lock->poked;
    lock->poked = false;
    struct lock *next = called && come(lock) ? NULL : pass_gate(lock);
    snib__file_queue_schedule(lock);
    snib__file_lock_unuse(lock);
    return next;
}

void snib__file_queue_pump(struct lock *lock)
{
    while (lock) {
        lock = pass(lock);
    }
}

/* ---- In, and looking again -------------------------------------------------------------- */

void snib__file_queue_join(struct file_claim *c)
{
    struct failure why;
    struct lock *lock = c->lock;
    c->told = false;
    if (!snib__file_lock_join_timers(lock)) {
        snib__file_fail_memory(&why);
        snib__file_claim_conclude(c, SNIB__FAILED, &why);
        return;
    }
    snib__file_claim_name(c);
    c->give_up_ns = snib__now().boot_ns + GATE_LIMIT_MS * SNIB__MS;
    snib__file_claim_enlist(c, &lock->joining, PHASE_JOINING);
    snib__file_queue_pump(lock);
}

/* Without the gate: is there anything a waiter of ours could have? */
static bool worth_a_pass(const struct lock *lock)
{
    const struct snib__claim *first = snib__file_claim_first(&lock->waiting)->claim;
    struct flock found;
    if (first->mode != SNIB_COUNTED) {
        return snib__file_slot_is_open(lock, first->mode, &found);
    }
    if (first->permits > 8) {
        return true;
    }
    for (uint32_t k = 0; k < first->permits; k++) {
        if (!bit_get(lock->own_permits, k) &&
            !snib__file_blocked(lock->file.fd, F_WRLCK, PERMIT_AT + (off_t)k, 1, &found)) {
            return true;
        }
    }
    return false;
}

/* Who died and has left the lock to a child of his may not have done so for long. */
static int64_t longer(int64_t ms)
{
    return ms >= BLIND_MS ? ms : ms < BLIND_MS / 2 ? ms * 2 : BLIND_MS;
}

/* Its timer fired: cheap unless something changed. */
static void on_timer(struct snib__timer *timer)
{
    struct lock *lock = SNIB__OF(timer, struct lock, timer);
    struct lock *next = NULL;
    snib__file_lock_use(lock);
    if (lock->poked || anybody_joins(lock) || (lock->missed && anybody_waits(lock))) {
        next = lock;
    } else if (anybody_waits(lock) && snib__now().boot_ns >= lock->check_ns) {
        if (!snib__file_lockfile_follow(&lock->file)) {
            next = snib__file_move(lock);
        } else if (worth_a_pass(lock)) {
            next = lock;
        } else {
            check_after(lock, longer(lock->check_ms));
        }
    }
    snib__file_queue_pump(next);
    snib__file_queue_schedule(lock);
    snib__file_lock_unuse(lock);
}
