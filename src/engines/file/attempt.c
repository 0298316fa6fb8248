/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attempt, from its beginning to its answer.
 *
 * The fast way takes a free slot without the gate. Everything else joins the queue, and its
 * outcome comes back in the session's list, from this call or a later one. A path has one more
 * step: who has the slot still needs flock on the file.
 *
 * All answers to attempts are given here. An answer is the last thing done with a claim, and what
 * is said may decide something about the next one: so outcomes are said until there are none.
 */
#include "engines/file/attempt.h"

#include "engines/file/flocking.h"
#include "engines/file/leave.h"
#include "engines/file/move.h"
#include "engines/file/queue.h"
#include "engines/file/slot.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Answers ---------------------------------------------------------------------------- */

void snib__file_attempt_listen(struct file_claim *c)
{
    snib__file_claim_name(c);
    if (!c->attends) {
        c->attends = true;
        c->claim->session->attend++;
    }
}

void snib__file_attempt_say_held(struct file_claim *c, enum snib__verb verb)
{
    struct file_session *fs = snib__file_session_of(c->claim);
    fs->held.token = c->token;
    if (verb == SNIB__RENEW) {
        fs->held.since = snib__now();
    }
    snib__answer(c->claim, verb, &fs->held);
}

static void say_failed(struct file_claim *c, const struct failure *why)
{
    struct snib__result result = {
        .status = SNIB__FAILED, .code = why->code, .sys = why->sys, .reason = why->text};
    snib__file_claim_detach(c);
    snib__answer(c->claim, SNIB__ATTEMPT, &result);
}

/* BUSY or QUEUED. */
static void say_behind(struct file_claim *c, enum snib__status status, const struct rival *rival)
{
    struct rival copy = *rival; /* the lock it is in may be closed by detaching */
    struct snib__result result = {
        .status = status,
        .holder_token = copy.token,
        .holder = copy.who[0] ? copy.who : NULL,
        .place = status == SNIB__QUEUED ? c->place : 0,
    };
    if (status == SNIB__BUSY) {
        snib__file_claim_detach(c);
    }
    snib__answer(c->claim, SNIB__ATTEMPT, &result);
}

static void say_behind_flock(struct file_claim *c, enum snib__status status, struct flocker other)
{
    struct rival rival = {.who = "another process (flock)"};
    if (other.pid) {
        snprintf(rival.who, sizeof rival.who, "pid %u (flock)", other.pid);
    }
    c->place = 1;
    say_behind(c, status, &rival);
}

static void held(struct file_claim *c)
{
    c->phase = PHASE_HELD;
    if (c->claim->mode != SNIB_EXCLUSIVE) {
        snib__list_append(&c->lock->holding, &c->in);
    }
    if (c->claim->listens) {
        snib__file_attempt_listen(c);
    }
    snib__file_attempt_say_held(c, SNIB__ATTEMPT);
}

/* ---- flock on a path -------------------------------------------------------------------- */

static void start(struct file_claim *c);
static void flock_again(struct snib__timer *timer);

static void give_back(struct file_claim *c, const struct failure *why)
{
    snib__file_leave_lock(c);
    say_failed(c, why);
}

static void behind_flock(struct file_claim *c)
{
    struct failure why;
    struct flocker other;
    if (!c->claim->may_queue) {
        other = snib__file_path_flocker(c->path.dev, c->path.ino);
        snib__file_leave_lock(c);
        say_behind_flock(c, SNIB__BUSY, other);
    } else if (snib__file_flocking_wait(c, flock_again, &other)) {
        say_behind_flock(c, SNIB__QUEUED, other);
    } else {
        snib__file_fail_memory(&why);
        give_back(c, &why);
    }
}

/* It has the slot or a permit. */
static void granted(struct file_claim *c)
{
    struct failure why;
    const char *name = c->lock->file.name;
    if (!snib__file_name_is_path(name)) {
        held(c);
        return;
    }
    switch (snib__file_path_lock(&c->path, name, c->claim->mode, &why)) {
    case FLOCKED:
        held(c);
        break;
    case FLOCK_BUSY:
        behind_flock(c);
        break;
    case FLOCK_FAILED:
        give_back(c, &why);
        break;
    }
}

static void flock_again(struct snib__timer *timer)
{
    struct file_claim *c = SNIB__OF(timer, struct file_claim, path_timer);
    struct failure why;
    struct flocker other;
    if (c->lock->file.replaced) { /* our slot is worth nothing any more */
        snib__file_leave_lock(c);
        snib__file_claim_detach(c);
        start(c);
        return;
    }
    switch (snib__file_path_lock(&c->path, c->lock->file.name, c->claim->mode, &why)) {
    case FLOCKED:
        snib__file_flocking_end(c);
        held(c);
        break;
    case FLOCK_BUSY:
        (void)snib__file_flocking_wait(c, flock_again, &other);
        break;
    case FLOCK_FAILED:
        give_back(c, &why);
        break;
    }
}

/* ---- Outcomes --------------------------------------------------------------------------- */

static void say_outcome(struct file_claim *c)
{
    static const struct failure unsaid = {.code = SNIB_ENOMEM, .text = "out of memory"};
    struct failure *why = c->failure;
    switch (c->outcome) {
    case SNIB__HELD:
        granted(c);
        break;
    case SNIB__BUSY:
    case SNIB__QUEUED:
        say_behind(c, c->outcome, &c->lock->rival);
        break;
    default:
        c->failure = NULL;
        say_failed(c, why ? why : &unsaid);
        free(why);
        break;
    }
}

void snib__file_attempt_answer_all(struct file_session *fs)
{
    while (!snib__list_empty(&fs->outcomes)) {
        struct file_claim *c = SNIB__OF(fs->outcomes.after, struct file_claim, news);
        snib__list_remove(&c->news);
        say_outcome(c);
    }
}

/* ---- Beginning -------------------------------------------------------------------------- */

/* A try that fails because somebody holds the slot needs no gate to say so. */
static bool refuse(struct file_claim *c)
{
    struct lock *lock = c->lock;
    short type = c->claim->mode == SNIB_SHARED ? F_RDLCK : F_WRLCK;
    struct flock found;
    struct front front;
    if (c->claim->may_queue || c->claim->mode == SNIB_COUNTED ||
        !snib__file_blocked(lock->file.fd, type, SLOT_AT, 1, &found) ||
        !snib__file_lockfile_read(&lock->file, &front) || front.header.words.kind != KIND_RW ||
        !snib__file_record_proved(&front.holder, &found)) {
        return false;
    }
    struct rival rival = {.who = ""};
    snib__file_rival_name(&rival, &front.holder);
    say_behind(c, SNIB__BUSY, &rival);
    return true;
}

/* The file was replaced: the others here go on in the new one, then we. False: too often. */
static bool go_on_elsewhere(struct file_claim *c, struct failure *why)
{
    struct lock *old = c->lock;
    snib__file_queue_pump(snib__file_move(old));
    c->lock = NULL;
    snib__file_lock_unuse(old);
    if (++c->moves > MOVES_MAX) {
        snib__file_fail(why, SNIB_EUNSAFE, 0, "its lock file is replaced again and again");
        return false;
    }
    return true;
}

static void start(struct file_claim *c)
{
    struct file_session *fs = snib__file_session_of(c->claim);
    struct failure why;
    snib__file_claim_number(c);
    if (c->claim->listens) {
        (void)snib__file_bell_open(&fs->bell); /* else it cannot be asked to give up; that is all */
    }
    do {
        struct lock *lock = snib__file_lock_find(fs, c->claim->name, &why);
        if (!lock) {
            break;
        }
        snib__file_claim_attach(c, lock);
        switch (c->claim->mode == SNIB_EXCLUSIVE ? snib__file_slot_take_fast(c, &why) : NOT_FREE) {
        case TAKEN:
            granted(c);
            return;
        case NOT_FREE:
            if (!refuse(c)) {
                snib__file_queue_join(c);
            }
            return;
        case TAKE_FAILED:
            say_failed(c, &why);
            return;
        case TAKE_REPLACED:
            break;
        }
    } while (go_on_elsewhere(c, &why));
    say_failed(c, &why);
}

static void begin(struct file_claim *c, struct snib__claim *claim)
{
    struct failure why;
    c->claim = claim;
    c->path.fd = -1;
    c->moves = 0;
    snib__list_init(&c->in);
    snib__list_init(&c->news);
    if (claim->mode == SNIB_COUNTED && snib__file_name_is_path(claim->name)) {
        snib__file_fail(&why, SNIB_ENOTSUP, 0, "a path cannot be a counted lock");
        say_failed(c, &why);
        return;
    }
    start(c);
}

void snib__file_attempt(struct snib__claim *claim)
{
    struct file_claim *c = claim->state;
    switch (c->phase) {
    case PHASE_NONE:
        begin(c, claim);
        break;
    case PHASE_JOINING:
    case PHASE_WAITING:
        c->told = false;
        snib__file_queue_pump(c->lock);
        break;
    case PHASE_FLOCKING:
        say_behind_flock(c, SNIB__QUEUED, snib__file_path_flocker(c->path.dev, c->path.ino));
        break;
    case PHASE_HELD:
        snib__file_attempt_say_held(c, SNIB__ATTEMPT);
        break;
    }
}
