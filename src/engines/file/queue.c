/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of a name: joining, being served, leaving, and never being forgotten.
 *
 * One pass through the gate (pump) does everything for the claims of this session on one name:
 *
 *   load, walk              who can have it at once does not need a record in the queue
 *   write down the rest     record, then the number of waiters
 *   load, walk again        whatever was let go before we were written down is free now, and
 *                           who lets go later sees us
 *   aim                     watch whom we wait for
 *   leave, ring, answer
 *
 * The rule that no wake-up is lost: who waits is written down before its last try; who lets go
 * of anything (the slot, a permit, a place in the queue) looks at the queue afterwards. Looking
 * and ringing need no gate, and letting go needs none either: a process that is stopped inside
 * the gate can delay those who come, never those who go.
 *
 * What can go wrong anyhow (a lost datagram, a waiter that is stopped, a process we cannot watch)
 * is found by looking again every two seconds, which is two system calls if nothing has changed.
 */
#include "engines/file/file.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 8
#define CHECK_MS 2000
#define BLIND_MS 250     /* somebody we wait for cannot be watched, or is on another host */
#define RUNG_MS 1050     /* a little more than it takes to count as stalled */
#define GATE_LIMIT_MS 50 /* a try gives up after that long before a closed gate */

/* ---- Writing down ----------------------------------------------------------------------- */

static bool write_down(struct view *v, struct turn *t, struct failure *why)
{
    struct lockfile *f = v->file;
    struct file_claim *c = t->own;
    struct gate_words *words = &v->front.header.words;
    int sys = snib__file_bell_open(f->session);
    (void)sys; /* without a bell nobody can ring us, but looking still finds our turn */
    uint32_t index = snib__file_record_take(v, why);
    if (!index) {
        return false;
    }
    c->record = index;
    c->ticket = words->next_ticket++;
    c->since_ms = snib__wall_us() / 1000;
    words->waiting++;
    const struct record *r = snib__file_draft(c, RECORD_WAITING);
    sys = snib__file_record_write(f, index, r) != 0 ? errno : snib__file_write_words(v);
    if (sys != 0) {
        snib__file_fail(why, snib__file_code_of(sys), sys, "cannot write %.100s/%.180s: %s",
                        f->session->path, f->file_name, strerror(sys));
        return false;
    }
    v->records[index] = *r;
    snib__file_list_remove(&f->joining, c);
    snib__file_list_add(&f->waiting, c);
    c->phase = PHASE_WAITING;
    t->record = index;
    t->ticket = c->ticket;
    return true;
}

/* Those who have not got it: into the queue, or refused. True: somebody joined. */
static bool write_down_all(struct view *v)
{
    bool joined = false;
    for (size_t i = 0; i < v->turn_count; i++) {
        struct failure why;
        struct turn *t = &v->turns[i];
        if (!t->own || t->gone || t->record) {
            continue;
        }
        if (!t->own->claim->may_queue) {
            t->gone = true;
            snib__file_conclude(v, t->own, SNIB__BUSY, NULL);
        } else if (write_down(v, t, &why)) {
            joined = true;
        } else {
            t->gone = true;
            snib__file_conclude(v, t->own, SNIB__FAILED, &why);
        }
    }
    return joined;
}

static void bind_all(struct view *v)
{
    struct lockfile *f = v->file;
    struct failure why;
    if (v->front.header.words.kind == KIND_NONE && f->waiting.first) {
        (void)snib__file_bind(v, f->waiting.first, &why); /* the header was lost under us */
    }
    for (size_t i = 0; i < v->turn_count; i++) {
        struct turn *t = &v->turns[i];
        if (t->own && t->own->phase == PHASE_JOINING && !snib__file_bind(v, t->own, &why)) {
            t->gone = true;
            snib__file_conclude(v, t->own, SNIB__FAILED, &why);
        }
    }
}

/* ---- Who is in the way ------------------------------------------------------------------ */

struct rival {
    char who[120];
    uint64_t token;
};

static void name_rival(struct rival *out, const struct record *r)
{
    snprintf(out->who, sizeof out->who, "%.*s%s%.*s", (int)strnlen(r->who, sizeof r->who), r->who,
             r->label[0] ? " " : "", (int)strnlen(r->label, sizeof r->label), r->label);
    out->token = r->token;
}

static void find_rival(struct rival *out, struct view *v)
{
    struct lockfile *f = v->file;
    struct flock found;
    *out = (struct rival){.token = 0};
    if (f->exclusive) {
        name_rival(out, snib__file_draft(f->exclusive, RECORD_HOLDING));
        return;
    }
    if (v->front.header.words.kind == KIND_RW &&
        snib__file_blocked(f->fd, F_RDLCK, SLOT_AT, 1, &found)) {
        struct front front;
        uint32_t pid = slot_owner_of(found.l_len).pid;
        if (snib__file_front(f, &front) && snib__file_proved(&front.holder, &found)) {
            name_rival(out, &front.holder);
        } else if (pid) {
            snprintf(out->who, sizeof out->who, "pid %u", pid);
        }
        return;
    }
    for (uint32_t i = 1; i < v->front.header.words.high; i++) {
        const struct record *r = &v->records[i];
        if (r->state == RECORD_HOLDING && snib__file_record_alive(v, i)) {
            name_rival(out, r);
            return;
        }
    }
}

/* ---- Answers ---------------------------------------------------------------------------- */

static void say_waiting(struct file_claim *c, enum snib__status status, const struct rival *rival)
{
    struct snib__result result = {
        .status = status,
        .holder_token = rival->token,
        .holder = rival->who[0] ? rival->who : NULL,
        .place = status == SNIB__QUEUED ? c->place : 0,
    };
    c->told = true;
    if (status == SNIB__BUSY) {
        snib__file_detach(c);
    }
    snib__answer(c->claim, SNIB__ATTEMPT, &result);
}

/* Outcomes first: they were decided before anybody else got a place. */
static void answer_all(struct lockfile *f, struct claim_list *done, const struct rival *rival)
{
    struct file_claim *c;
    while ((c = done->first) != NULL) {
        snib__file_list_remove(done, c);
        if (c->outcome == SNIB__HELD) {
            snib__file_granted(c);
        } else if (c->outcome == SNIB__BUSY) {
            say_waiting(c, SNIB__BUSY, rival);
        } else {
            static const struct failure unsaid = {.code = SNIB_ENOMEM, .text = "out of memory"};
            struct failure *why = c->failure;
            c->failure = NULL;
            snib__file_failed(c, why ? why : &unsaid);
            free(why);
        }
    }
    struct file_claim *next;
    for (c = f->waiting.first; c; c = next) {
        next = c->after;
        if (!c->told) {
            say_waiting(c, SNIB__QUEUED, rival);
        }
    }
}

static bool anybody_to_tell(const struct view *v)
{
    for (const struct file_claim *c = v->done.first; c; c = c->after) {
        if (c->outcome == SNIB__BUSY) {
            return true;
        }
    }
    for (const struct file_claim *c = v->file->waiting.first; c; c = c->after) {
        if (!c->told) {
            return true;
        }
    }
    return false;
}

static void number_places(struct view *v)
{
    int place = 0;
    for (size_t i = 0; i < v->turn_count; i++) {
        place += v->turns[i].gone ? 0 : 1;
        if (v->turns[i].own) {
            v->turns[i].own->place = place;
        }
    }
}

/* ---- Timers ----------------------------------------------------------------------------- */

static void set_check(struct lockfile *f, int64_t ms)
{
    uint64_t spread = (uint64_t)ms / 5;
    uint64_t dice = (f->session->self.session ^ f->hash) * 0x9e3779b97f4a7c15ULL;
    dice ^= (uint64_t)file_tick() * 0xbf58476d1ce4e5b9ULL;
    f->check_ms = ms;
    ms += spread ? (int64_t)((dice >> 33) % spread) - (int64_t)(spread / 2) : 0;
    f->check_ns = snib__now().boot_ns + ms * SNIB__MS;
}

void snib__file_schedule(struct lockfile *f)
{
    int64_t due_ns = f->joining.first || f->waiting.first ? f->check_ns : SNIB__NEVER;
    for (const struct file_claim *c = f->flocking.first; c; c = c->after) {
        due_ns = c->path_due_ns < due_ns ? c->path_due_ns : due_ns;
    }
    if (f->poked) {
        due_ns = 0;
    }
    if (due_ns != f->due_ns) {
        snib__file_timer(f, due_ns);
    }
}

static void choose_check(struct lockfile *f, const struct view *v)
{
    if (!f->waiting.first) {
        snib__file_watch_set(f, NULL, 0);
    } else if (v->blind || f->session->network) {
        set_check(f, f->bereaved ? 1 : BLIND_MS);
    } else {
        set_check(f, v->waits_for_rung ? RUNG_MS : CHECK_MS);
    }
    f->bereaved = false;
}

/* ---- The pump --------------------------------------------------------------------------- */

/* Another process is inside, stopped perhaps. The slot may be free all the same. Those who can
 * queue have their answer; those who only try wait a moment longer, in drive. */
static void gate_closed(struct lockfile *f)
{
    static const struct rival nobody = {.token = 0};
    struct failure why;
    int64_t now_ns = snib__now().boot_ns;
    struct file_claim *next = f->joining.first;
    if (next && next->claim->mode == SNIB_EXCLUSIVE && snib__file_take_fast(next, &why) == TAKEN) {
        snib__file_list_remove(&f->joining, next);
        snib__file_granted(next);
    }
    for (struct file_claim *c = f->joining.first; c; c = next) {
        next = c->after;
        if (c->claim->may_queue) {
            if (!c->told) {
                c->place = 0;
                say_waiting(c, SNIB__QUEUED, &nobody);
            }
        } else if (now_ns >= c->give_up_ns) {
            snib__file_list_remove(&f->joining, c);
            say_waiting(c, SNIB__BUSY, &nobody);
        }
    }
    int shift = f->gate_misses < 4 ? f->gate_misses : f->gate_misses < 40 ? 3 : 5;
    f->check_ns = now_ns + SNIB__MS * (1LL << shift);
    f->missed = true;
}

static void fail_all(struct lockfile *f, const struct failure *why)
{
    struct file_claim *c;
    while ((c = f->joining.first ? f->joining.first : f->waiting.first) != NULL) {
        snib__file_list_remove(c->phase == PHASE_WAITING ? &f->waiting : &f->joining, c);
        if (c->record) {
            snib__file_record_drop(f, c->record);
            c->record = 0;
        }
        snib__file_failed(c, why);
    }
}

static void serve(struct view *v)
{
    struct failure why;
    bind_all(v);
    for (int round = 0; round < ROUNDS; round++) {
        if (round > 0 && snib__file_reload(v, &why) < 0) {
            break;
        }
        snib__file_walk(v);
        if (v->replaced) {
            return;
        }
        if (!write_down_all(v) && snib__file_aim(v)) {
            return;
        }
    }
    v->blind = true; /* it changes faster than we can look */
}

static void inside(struct view *v, struct lockfile *f)
{
    struct file_session *fs = f->session;
    struct rival rival = {.token = 0};
    fs->in_gate = true;
    f->missed = false;
    serve(v);
    number_places(v);
    if (anybody_to_tell(v)) {
        find_rival(&rival, v);
    }
    snib__file_leave(v);
    fs->in_gate = false;
    choose_check(f, v);
    answer_all(f, &v->done, &rival);
    if (v->replaced) {
        snib__file_move_on(f);
    } else if (v->let_go) {
        snib__file_ring_behind(f, 0);
    }
}

void snib__file_pump(struct lockfile *f)
{
    struct failure why;
    struct view v;
    assert(!f->session->in_gate);
    file_use(f); /* answers may let the last claim go */
    f->poked = false;
    switch (snib__file_enter(&v, f, &why)) {
    case ENTERED:
        inside(&v, f);
        break;
    case GATE_BUSY:
        gate_closed(f);
        break;
    case ENTER_FAILED:
        fail_all(f, &why);
        break;
    case ENTER_REPLACED:
        snib__file_move_on(f);
        break;
    }
    snib__file_schedule(f);
    file_unuse(f);
}

/* ---- In, and looking again -------------------------------------------------------------- */

void snib__file_join(struct file_claim *c)
{
    snib__file_cookie_add(c);
    c->phase = PHASE_JOINING;
    c->told = false;
    c->give_up_ns = snib__now().boot_ns + GATE_LIMIT_MS * SNIB__MS;
    snib__file_list_add(&c->file->joining, c);
    snib__file_pump(c->file);
}

/* Without the gate: is there anything a waiter of ours could have? */
static bool worth_a_pass(struct lockfile *f)
{
    const struct file_claim *c = f->waiting.first;
    struct flock found;
    if (c->claim->mode != SNIB_COUNTED) {
        return snib__file_slot_open(f, c->claim->mode);
    }
    if (c->claim->permits > 8) {
        return true;
    }
    for (uint32_t k = 0; k < c->claim->permits; k++) {
        if (!bit_get(f->own_permits, k) &&
            !snib__file_blocked(f->fd, F_WRLCK, PERMIT_AT + (off_t)k, 1, &found)) {
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

void snib__file_check(struct lockfile *f)
{
    int64_t now_ns = snib__now().boot_ns;
    file_use(f);
    if (f->poked || f->joining.first || (f->missed && f->waiting.first)) {
        snib__file_pump(f);
    } else if (f->waiting.first && now_ns >= f->check_ns) {
        if (!snib__file_leads_here(f)) {
            snib__file_move_on(f);
        } else if (worth_a_pass(f)) {
            snib__file_pump(f);
        } else {
            set_check(f, longer(f->check_ms));
        }
    }
    if (f->flocking.first) {
        snib__file_flock_again(f, now_ns);
    }
    snib__file_schedule(f);
    file_unuse(f);
}

/* ---- A file that was replaced ----------------------------------------------------------- */

static void tell_holder(struct file_claim *c)
{
    char why[200];
    if (c->phase != PHASE_HELD) {
        return;
    }
    snprintf(why, sizeof why, "its lock file %.160s was removed or replaced", c->file->file_name);
    snib__report(c->claim, SNIB_LOST, why);
}

/* Once more, in the file the name leads to now. */
static void move_claim(struct file_claim *c)
{
    struct failure why;
    struct lockfile *old = c->file;
    assert(old != NULL);
    struct file_session *fs = old->session;
    snib__file_list_remove(c->phase == PHASE_WAITING ? &old->waiting : &old->joining, c);
    if (c->record) {
        snib__file_record_drop(old, c->record);
        c->record = 0;
    }
    struct lockfile *f = NULL;
    if (++c->moves > MOVES_MAX) {
        snib__file_fail(&why, SNIB_EUNSAFE, 0, "%.100s/%.180s is replaced again and again",
                        fs->path, old->file_name);
    } else {
        f = snib__file_find(fs, c->claim->name, &why);
    }
    if (!f) {
        snib__file_failed(c, &why);
        return;
    }
    file_use(f);
    file_unuse(old);
    c->file = f;
    c->phase = PHASE_JOINING;
    snib__file_list_add(&f->joining, c);
}

void snib__file_move_on(struct lockfile *f)
{
    struct lockfile *next = NULL;
    file_use(f);
    snib__file_stray(f);
    if (f->exclusive) {
        tell_holder(f->exclusive);
    }
    for (struct file_claim *c = f->holding.first; c; c = c->after) {
        tell_holder(c);
    }
    while (f->waiting.first || f->joining.first) {
        struct file_claim *c = f->waiting.first ? f->waiting.first : f->joining.first;
        move_claim(c);
        next = c->file ? c->file : next;
    }
    snib__file_ring_behind(f, 0); /* others may be waiting here too */
    snib__file_watch_set(f, NULL, 0);
    snib__file_schedule(f);
    if (next) {
        snib__file_pump(next);
    }
    file_unuse(f);
}
