/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file engine: kernel locks in one file per name, no server.
 *
 * LAYERS says where what is, and who may call whom: from the top to the bottom of that file.
 *
 * Safety
 * ------
 * Promised, on a local file system: at most one exclusive holder of a name, or any number of
 * shared ones, or at most N of a counted lock, among all processes of the host that use the same
 * directory. The kernel keeps that, by open-file-description locks on byte ranges: what is written
 * in the files never lets anybody in. There is no lease and no clock in it. A holder that is
 * stopped still holds; one that is killed has let go, at once.
 *
 * Inside a session the kernel does not exclude, because all its claims on a name are on one
 * description. There the table in struct lockfile does, under the client's mutex: a claim is never
 * tried against the kernel while another of ours is in its way, a shared lock is never turned into
 * an exclusive one, and the read lock goes when the last shared claim goes.
 *
 * Tokens grow strictly: each is max(last + 1, wall clock in microseconds), with `last` read after
 * the slot was locked and written before anybody is told. Killing a process cannot take one back;
 * a full disk is an error and no grant. A crash of the host may lose the last ones written, and
 * the wall clock is then the floor: tokens go back only if the clock went back, too.
 *
 * Waiters are served in order, a waiting writer before later readers. Order, waking and the queue
 * are notes in the file and hints between processes: damage to them can delay and can break the
 * order, and cannot let two in. A waiter that is stopped when its turn comes is passed after a
 * second. If hints are lost, what is free is found within 2.2 s.
 *
 * It fails, and how:
 * - Somebody removes or replaces a lock file, or the directory. Newcomers then lock another inode.
 *   An acquire checks the link count unless it was checked in the same tick of the kernel's coarse
 *   clock (a few milliseconds), and the path if the last look is older than 0.1 s; holders learn it
 *   by verify. So a file must not be removed while somebody has it, or had it a moment ago; the
 *   directory's permissions let nobody but its owner do that. Cutting one to nothing is survived.
 * - A child forked from a holder that neither calls exec nor ends keeps the description open. A
 *   release unlocks all the same; but if the holder is killed, the lock lives as long as the child.
 * - Network file systems: locks may stay on one host, or vanish with the server. Refused; with
 *   ?network=allow nothing is promised across hosts, bells and deaths do not cross either.
 * - A process stopped inside the gate, which it holds for microseconds at a time: the uncontended
 *   exclusive acquire and every release go on, and the first in the queue comes when it is called;
 *   who must queue waits for a second and then takes what is free out of order. A counted lock
 * waits for the gate, or its deadline.
 * - A copy of a virtual machine, or of its disk, is another host.
 */
#include "engines/file/attempt.h"
#include "engines/file/evict.h"
#include "engines/file/examine.h"
#include "engines/file/flocking.h"
#include "engines/file/inspect.h"
#include "engines/file/leave.h"
#include "engines/file/queue.h"
#include "engines/file/record.h"
#include "engines/file/space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PARAM_GROUP, PARAM_NETWORK };

static const struct snib__param params[] = {
    [PARAM_GROUP] = {.name = "group",
                     .type = SNIB__TEXT,
                     .min = 1,
                     .max = 64,
                     .help = "the directory and the locks are shared by this group"},
    [PARAM_NETWORK] = {.name = "network",
                       .type = SNIB__CHOICE,
                       .normal = "refuse",
                       .choices = "refuse|allow",
                       .help = "a directory on a network file system"},
    {.name = NULL},
};

/* ---- Attempt, renew, release ------------------------------------------------------------ */

static void attempt(struct snib__claim *claim)
{
    snib__file_attempt(claim);
    snib__file_attempt_answer_all(claim->session->state);
}

static void verify(struct file_claim *c, struct snib__claim *claim)
{
    struct snib__result lost = {.status = SNIB__LOST};
    if (c->phase != PHASE_HELD) {
        snib__answer(claim, SNIB__RENEW, &lost);
        return;
    }
    struct failure why;
    if (snib__file_lockfile_check_fully(&c->lock->file, &why) == REPLACED ||
        !snib__file_path_valid(&c->path, c->lock->file.name)) {
        lost.reason = "the lock file was removed or replaced";
        snib__answer(claim, SNIB__RENEW, &lost);
        return;
    }
    if (c->claim->listens) {
        snib__file_record_publish(c);
        snib__file_attempt_listen(c);
    }
    snib__file_attempt_say_held(c, SNIB__RENEW);
}

static void renew(struct snib__claim *const claims[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        verify(claims[i]->state, claims[i]);
    }
}

static void release(struct snib__claim *claim)
{
    struct file_claim *c = claim->state;
    struct file_session *fs = claim->session->state;
    static const struct snib__result freed = {.status = SNIB__FREED};
    static const struct snib__result lost = {.status = SNIB__LOST};
    const struct snib__result *result = &freed;
    switch (c->phase) {
    case PHASE_HELD:
        if (c->lock->file.replaced) {
            result = &lost;
        }
        snib__file_leave_lock(c);
        break;
    case PHASE_FLOCKING:
        snib__file_leave_lock(c);
        break;
    case PHASE_JOINING:
    case PHASE_WAITING:
        snib__file_leave_queue(c);
        break;
    case PHASE_NONE:
        break;
    }
    if (c->attends) {
        claim->session->attend--;
    }
    snib__file_claim_detach(c);
    snib__answer(claim, SNIB__RELEASE, result);
    snib__file_attempt_answer_all(fs);
}

/* ---- Drive ------------------------------------------------------------------------------ */

static struct file_session *session_of_bell(struct bell *bell)
{
    return SNIB__OF(bell, struct file_session, bell);
}

static void on_ring(struct bell *bell, uint64_t cookie)
{
    struct file_claim *c = snib__file_claim_by_cookie(session_of_bell(bell), cookie);
    if (c && c->phase == PHASE_WAITING) {
        snib__file_queue_poke(c->lock);
    }
}

static void on_overflow(struct bell *bell)
{
    snib__file_queue_poke_all(session_of_bell(bell));
}

static void on_asked(struct bell *bell, uint64_t cookie, uint64_t token, const char *who)
{
    struct file_claim *c = snib__file_claim_by_cookie(session_of_bell(bell), cookie);
    if (c) {
        snib__file_claim_ask(c, token, who);
    }
}

static void on_death(struct watches *watches, const struct watch *dead)
{
    struct file_session *fs = SNIB__OF(watches, struct file_session, watches);
    snib__file_queue_bereave(fs, dead);
    snib__file_flocking_bereave(fs, dead);
}

/* A bound, because a timer may set itself again for at once. */
static void run_due(struct file_session *fs)
{
    int64_t now_ns = snib__now().boot_ns;
    struct snib__timer *timer;
    for (int i = 0; i < 1000 && (timer = snib__timers_due(&fs->waking.timers, now_ns)); i++) {
        timer->fire(timer);
        snib__file_attempt_answer_all(fs);
    }
}

static void drive(struct snib__session *session, int64_t until_ns)
{
    struct file_session *fs = session->state;
    bool wanted = false;
    for (;;) {
        run_due(fs);
        if (wanted || snib__now().boot_ns >= until_ns) {
            return;
        }
        int64_t due_ns = snib__timers_next(&fs->waking.timers);
        wanted =
            snib__file_waking_sleep(&fs->waking, session, due_ns < until_ns ? due_ns : until_ns);
    }
}

/* ---- Open and close --------------------------------------------------------------------- */

static void introduce(struct file_session *fs)
{
    struct record *self = &fs->self;
    self->pid = (uint32_t)getpid();
    self->pid_space = snib__file_space("pid", fs->directory.network);
    self->net_space = snib__file_space("net", fs->directory.network);
    snib__random(&self->session, sizeof self->session);
    snib__random(&fs->number, sizeof fs->number);
    snprintf(self->who, sizeof self->who, "%s", fs->session->who);
    snib__file_bell_init(&fs->bell, &fs->waking, snib__file_record_bell(self));
    fs->bell.rung = on_ring;
    fs->bell.overflowed = on_overflow;
    fs->bell.asked = on_asked;
    fs->draft = *self;
}

static int file_open(struct snib__session *session, snib_error *err)
{
    struct file_session *fs = session->state;
    struct failure why;
    const struct snib__url *url = session->url;
    fs->session = session;
    fs->bell.fd = -1; /* close accepts what is half open */
    fs->held.status = SNIB__HELD;
    snib__list_init(&fs->outcomes);
    snib__file_waking_init(&fs->waking);
    snib__file_watches_init(&fs->watches, &fs->waking, on_death);
    snib__file_cache_init(&fs->cache, &fs->directory, sizeof(struct lock));
    fs->directory = (struct directory){
        .session = session,
        .fd = -1,
        .group_name = session->values[PARAM_GROUP].text,
        .network = session->values[PARAM_NETWORK].number == 1,
    };
    if (url->host_count > 0 || url->user[0] || url->password[0]) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "file: a directory has no host or user: file:///DIRECTORY");
    }
    int rc = snib__file_directory_open(&fs->directory, &why);
    if (rc < 0) {
        return snib__fail(err, why.code, why.sys, "file: %s", why.text);
    }
    session->where = fs->directory.path;
    introduce(fs);
    return 0;
}

static void file_close(struct snib__session *session)
{
    struct file_session *fs = session->state;
    if (!fs->session) {
        return;
    }
    for (struct lock *lock = NULL; (lock = snib__file_lock_next(fs, lock)) != NULL;) {
        if (lock->file.uses > 0 && !snib__forked(session)) {
            snib__file_leave_all(lock);
        }
    }
    snib__file_cache_close(&fs->cache);
    snib__file_watches_close(&fs->watches);
    snib__file_bell_close(&fs->bell);
    snib__file_waking_close(&fs->waking);
    snib__file_directory_close(&fs->directory);
    snib__table_free(&fs->cookies);
    free(fs->records);
    memset(fs, 0, sizeof *fs);
}

const struct snib__engine snib__engine_file = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "file",
    .aliases = "",
    .summary = "kernel locks in one file per name, on this host; no server",
    .promise = "one holder per host, free at once when it dies; not on network file systems, and "
               "only while nobody replaces the lock files",
    .traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_AT_ONCE |
              SNIB_TRAIT_LISTS,
    .nameless = true,
    .session_size = sizeof(struct file_session),
    .claim_size = sizeof(struct file_claim),
    .query_size = sizeof(struct eviction),
    .params = params,
    .open = file_open,
    .close = file_close,
    .attempt = attempt,
    .renew = renew,
    .release = release,
    .drive = drive,
    .inspect = snib__file_inspect,
    .evict = snib__file_evict,
    .examine = snib__file_examine,
};
