/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock server, and true time.
 *
 * One lock per name: holders with leases, a queue of tickets with leases of their own, the last
 * token. Attempts count once per owner id: who holds already is told what is left, who queues
 * already keeps its place. A grant to somebody in the queue is told by a message that carries the
 * number of the queue entry: an owner that fell out of the queue and joined it again must be able
 * to tell an old grant from a new one.
 */
#include "sim.h"

static int64_t lease_end(int64_t ttl_ms)
{
    return world.config.leased ? world.now_ns + ttl_ms * (100 + world.config.longer) / 100 * MS
                               : SNIB__NEVER;
}

/* Waiters prove that they live by asking again. */
static int64_t ticket_end(void)
{
    return world.config.leased ? world.now_ns + world.config.recheck_ms * 3 * MS : SNIB__NEVER;
}

static void plan(void)
{
    int64_t due = SNIB__NEVER;
    for (int i = 0; i < world.config.names; i++) {
        const struct lock *lock = &world.locks[i];
        for (int k = 0; k < lock->holding; k++) {
            due = lock->holders[k].ends_ns < due ? lock->holders[k].ends_ns : due;
        }
        for (int k = 0; k < lock->waiting; k++) {
            due = lock->queue[k].ends_ns < due ? lock->queue[k].ends_ns : due;
        }
    }
    world.server_due_ns = due;
}

static int find_holder(const struct lock *lock, uint64_t owner)
{
    for (int i = 0; i < lock->holding; i++) {
        if (lock->holders[i].owner == owner) {
            return i;
        }
    }
    return -1;
}

static int find_waiting(const struct lock *lock, uint64_t owner)
{
    for (int i = 0; i < lock->waiting; i++) {
        if (lock->queue[i].owner == owner) {
            return i;
        }
    }
    return -1;
}

const struct holder *sim_holder(int name, uint64_t owner)
{
    int at = find_holder(&world.locks[name], owner);
    return at < 0 ? NULL : &world.locks[name].holders[at];
}

static void remove_holder(struct lock *lock, int at)
{
    lock->holding--;
    memmove(&lock->holders[at], &lock->holders[at + 1],
            (size_t)(lock->holding - at) * sizeof lock->holders[0]);
}

static void remove_waiting(struct lock *lock, int at)
{
    lock->waiting--;
    memmove(&lock->queue[at], &lock->queue[at + 1],
            (size_t)(lock->waiting - at) * sizeof lock->queue[0]);
}

/* ---- Granting --------------------------------------------------------------------------- */

static bool fits(const struct lock *lock, int mode)
{
    if (lock->holding == 0) {
        return true;
    }
    if (mode == SNIB_COUNTED) {
        return lock->holding < (int)lock->permits;
    }
    return mode == SNIB_SHARED && lock->holders[0].mode == SNIB_SHARED;
}

static struct holder *grant(struct lock *lock, const struct holder *as, int64_t lease_ms)
{
    SIM_CHECK(lock->holding < ENTRIES, "too many holders: make ENTRIES larger");
    struct holder *h = &lock->holders[lock->holding++];
    *h = *as;
    if (h->mode == SNIB_SHARED) {
        h->token = lock->exclusive_token;
    } else {
        h->token = ++lock->last_token;
        if (h->mode == SNIB_EXCLUSIVE) {
            h->span = h->span < world.config.span ? h->span : world.config.span;
            lock->last_token += h->span > 1 ? h->span - 1 : 0;
            lock->exclusive_token = lock->last_token;
        }
    }
    h->ends_ns = lease_end(lease_ms);
    struct record *r = world.records[h->record];
    if (r->token && r->token != h->token) {
        sim_reach(PATH_STALE_TOKEN);
    }
    r->token = h->token;
    sim_note(NOTE_GRANTS, -1, (int64_t)h->record, (int64_t)h->token);
    return h;
}

static void push(const struct waiting *w, int name, enum sim_kind kind, const struct holder *h)
{
    struct message message = {
        .kind = kind,
        .machine = w->machine,
        .life = w->life,
        .session = world.machines[w->machine].session,
        .record = w->record,
        .owner = w->owner,
        .name = name,
        .entry = w->entry,
        .status = kind == GRANTED ? SNIB__HELD : SNIB__BUSY,
        .token = h ? h->token : 0,
        .span = h ? h->span : 0,
        .left_ms = h && world.config.leased ? (h->ends_ns - world.now_ns) / MS : 0,
    };
    sim_push(&message);
}

/* Whoever is first and fits: gets it, or is told to ask. */
static void pump(int name)
{
    struct lock *lock = &world.locks[name];
    while (lock->waiting > 0 && fits(lock, lock->queue[0].mode)) {
        struct waiting *first = &lock->queue[0];
        if (world.config.style == NOTIFIES) {
            if (!first->nudged) {
                first->nudged = true;
                push(first, name, WORTH_IT, NULL);
            }
            return;
        }
        struct waiting w = *first;
        int64_t lease_ms = world.config.handover_ms ? world.config.handover_ms : w.ttl_ms;
        struct holder as = {
            .owner = w.owner,
            .record = w.record,
            .machine = w.machine,
            .mode = w.mode,
            .life = w.life,
            .span = w.span,
            .ttl_ms = w.ttl_ms,
        };
        remove_waiting(lock, 0);
        struct holder *h = grant(lock, &as, lease_ms < w.ttl_ms ? lease_ms : w.ttl_ms);
        push(&w, name, GRANTED, h);
    }
}

/* ---- Requests --------------------------------------------------------------------------- */

static void say_held(const struct holder *h, struct message *answer)
{
    answer->status = SNIB__HELD;
    answer->token = h->token;
    answer->span = 0; /* of a grant that was made before, nobody knows how many are used up */
    answer->left_ms = world.config.leased ? (h->ends_ns - world.now_ns) / MS : 0;
}

static void say_busy(const struct lock *lock, struct message *answer)
{
    answer->status = SNIB__BUSY;
    answer->retry_ms = sim_chance(50) ? 0 : (int64_t)sim_roll((uint64_t)world.config.ttl_ms / 4);
    answer->holder_left_ms = 0;
    if (lock->holding > 0) {
        answer->holder_token = lock->holders[0].token;
    }
}

static bool other_kind(const struct lock *lock, const struct message *request)
{
    bool counted = request->mode == SNIB_COUNTED;
    return (lock->holding || lock->waiting) &&
           (counted != lock->counted || (counted && request->permits != lock->permits));
}

static bool not_served(const struct message *request)
{
    unsigned fewer = world.config.fewer;
    return (request->mode == SNIB_SHARED && fewer & SNIB_TRAIT_SHARED) ||
           (request->mode == SNIB_COUNTED && fewer & SNIB_TRAIT_COUNTED);
}

static void queue_up(struct lock *lock, const struct message *request, struct message *answer)
{
    int at = find_waiting(lock, request->owner);
    if (at < 0) {
        SIM_CHECK(lock->waiting < ENTRIES, "too many waiters: make ENTRIES larger");
        at = lock->waiting++;
        lock->queue[at] = (struct waiting){
            .owner = request->owner,
            .entry = ++world.last_entry,
            .record = request->record,
            .machine = request->machine,
            .mode = request->mode,
            .life = request->life,
            .permits = request->permits,
            .span = request->span,
            .ttl_ms = request->ttl_ms,
        };
    }
    lock->queue[at].ends_ns = ticket_end();
    answer->status = SNIB__QUEUED;
    answer->entry = lock->queue[at].entry;
    answer->place = at + 1;
    answer->holder_left_ms = 0;
    sim_reach(PATH_QUEUED);
}

static void attempt(struct lock *lock, const struct message *request, struct message *answer)
{
    int at = find_holder(lock, request->owner);
    if (at >= 0) {
        sim_reach(PATH_YOURS_ALREADY);
        say_held(&lock->holders[at], answer);
        return;
    }
    if (not_served(request)) {
        answer->status = SNIB__FAILED;
        answer->code = SNIB_ENOTSUP;
        sim_reach(PATH_WITHDRAWN_WHILE_ASKED);
        return;
    }
    if (other_kind(lock, request)) {
        answer->status = SNIB__FAILED;
        answer->code = SNIB_EKIND;
        sim_reach(PATH_KIND_REFUSED);
        return;
    }
    lock->counted = request->mode == SNIB_COUNTED;
    lock->permits = request->permits;
    int place = find_waiting(lock, request->owner);
    bool turn = lock->waiting == 0 || place == 0;
    if (turn && fits(lock, request->mode)) {
        if (place == 0) {
            remove_waiting(lock, 0);
        }
        struct holder as = {
            .owner = request->owner,
            .record = request->record,
            .machine = request->machine,
            .mode = request->mode,
            .life = request->life,
            .span = request->span,
            .ttl_ms = request->ttl_ms,
        };
        struct holder *h = grant(lock, &as, request->ttl_ms);
        say_held(h, answer);
        answer->span = h->span;
    } else if (request->may_queue && world.config.style != REFUSES) {
        queue_up(lock, request, answer);
    } else {
        say_busy(lock, answer);
    }
}

static void renew(struct lock *lock, const struct message *request, struct message *answer)
{
    int at = find_holder(lock, request->owner);
    if (at < 0) {
        answer->status = SNIB__LOST;
        return;
    }
    lock->holders[at].ttl_ms = request->ttl_ms;
    lock->holders[at].ends_ns = lease_end(request->ttl_ms);
    say_held(&lock->holders[at], answer);
}

static void release(struct lock *lock, const struct message *request, struct message *answer)
{
    int held = find_holder(lock, request->owner);
    int waits = find_waiting(lock, request->owner);
    const struct record *r = world.records[request->record];
    answer->status = held < 0 && r->token ? SNIB__LOST : SNIB__FREED;
    if (held >= 0) {
        sim_note(NOTE_FREED, -1, (int64_t)request->record, (int64_t)lock->holders[held].token);
        remove_holder(lock, held);
    }
    if (waits >= 0) {
        remove_waiting(lock, waits);
    }
}

/* A session has ended: all that was its own goes. */
static void leave(const struct message *request)
{
    for (int i = 0; i < world.config.names; i++) {
        struct lock *lock = &world.locks[i];
        for (int k = lock->holding - 1; k >= 0; k--) {
            if (lock->holders[k].machine == request->machine &&
                lock->holders[k].life == request->life) {
                remove_holder(lock, k);
            }
        }
        for (int k = lock->waiting - 1; k >= 0; k--) {
            if (lock->queue[k].machine == request->machine &&
                lock->queue[k].life == request->life) {
                remove_waiting(lock, k);
            }
        }
        pump(i);
    }
    plan();
}

/* The server ends the session of a machine that lives, and the engine may hear of it. */
void sim_end_session(struct machine *m)
{
    sim_note(NOTE_ENDS_SESSION, m->index, m->session, m->life);
    for (int i = 0; i < world.config.names; i++) {
        const struct lock *lock = &world.locks[i];
        for (int k = 0; k < lock->holding; k++) {
            const struct holder *h = &lock->holders[k];
            if (h->machine == m->index && h->life == m->life) {
                world.records[h->record]->broken = true;
            }
        }
    }
    m->session++;
    struct message over = {
        .kind = SESSION_OVER, .machine = m->index, .life = m->life, .session = m->session};
    leave(&over);
    sim_push(&over);
}

bool sim_serve(const struct message *request, struct message *answer)
{
    sim_note(NOTE_SERVED, request->machine, request->kind, (int64_t)request->record);
    if (request->kind == LEAVE) {
        leave(request);
        return false;
    }
    struct lock *lock = &world.locks[request->name];
    *answer = *request;
    answer->kind = ANSWER;
    answer->about = request->kind;
    answer->session = world.machines[request->machine].session;
    answer->left_ms = 0;
    if (request->kind == ATTEMPT) {
        attempt(lock, request, answer);
    } else if (request->kind == RENEW) {
        renew(lock, request, answer);
    } else {
        release(lock, request, answer);
        pump(request->name);
    }
    sim_note(NOTE_ANSWERS, request->machine, answer->status, answer->left_ms);
    plan();
    return true;
}

/* ---- Time ------------------------------------------------------------------------------- */

void sim_server_expire(void)
{
    for (int i = 0; i < world.config.names; i++) {
        struct lock *lock = &world.locks[i];
        for (int k = lock->holding - 1; k >= 0; k--) {
            struct holder h = lock->holders[k];
            if (h.ends_ns <= world.now_ns) {
                sim_note(NOTE_EXPIRES, -1, (int64_t)h.record, (int64_t)h.token);
                sim_reach(PATH_EXPIRED_AT_SERVER);
                sim_check_told(&h);
                remove_holder(lock, k);
            }
        }
        for (int k = lock->waiting - 1; k >= 0; k--) {
            if (lock->queue[k].ends_ns <= world.now_ns) {
                remove_waiting(lock, k);
            }
        }
        pump(i);
    }
    plan();
}

/* An administrator takes a lock away; whoever held it, or waited, may be told. */
void sim_evict(int name)
{
    struct lock *lock = &world.locks[name];
    struct waiting victim = {0};
    if (lock->holding > 0) {
        struct holder h = lock->holders[0];
        sim_note(NOTE_EVICTS, -1, (int64_t)h.record, (int64_t)h.token);
        sim_reach(PATH_EVICTED_HOLDER);
        world.records[h.record]->broken = true;
        victim = (struct waiting){
            .owner = h.owner, .record = h.record, .machine = h.machine, .life = h.life};
        remove_holder(lock, 0);
    } else if (lock->waiting > 0) {
        victim = lock->queue[0];
        remove_waiting(lock, 0);
        sim_reach(PATH_PLACE_IN_QUEUE_LOST);
    } else {
        return;
    }
    if (sim_chance(50)) {
        push(&victim, name, EVICTED, NULL);
    }
    pump(name);
    plan();
}

bool sim_server_idle(void)
{
    for (int i = 0; i < world.config.names; i++) {
        if (world.locks[i].holding || world.locks[i].waiting) {
            return false;
        }
    }
    return true;
}
