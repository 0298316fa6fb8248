/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file engine: kernel locks in one file per name, no server.
 *
 * Where what is: directory.c the place and whether to trust it; names.c names of files; lockfile.c
 * open files; layout.h their bytes; slot.c taking and giving back; view.c, kind.c, grant.c,
 * aim.c, queue.c the queue from inside the gate; leave.c the way out; reactor.c, bell.c waking up;
 * path.c flock; sight.c, look.c, evict.c for onlookers.
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
 *   directory's permissions let nobody but its owner do that. The same goes for cutting one to
 *   nothing: who has had it for less than a tick then dies of SIGBUS at the release.
 * - A child forked from a holder that neither calls exec nor ends keeps the description open. A
 *   release unlocks all the same; but if the holder is killed, the lock lives as long as the child.
 * - Network file systems: locks may stay on one host, or vanish with the server. Refused; with
 *   ?network=allow nothing is promised across hosts, bells and deaths do not cross either.
 * - A process stopped inside the gate, which it holds for microseconds at a time: the uncontended
 *   exclusive acquire and every release go on; who must queue waits until its deadline.
 * - A copy of a virtual machine, or of its disk, is another host.
 */
#include "engines/file/file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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

/* ---- Failures --------------------------------------------------------------------------- */

int snib__file_fail(struct failure *why, int code, int sys, const char *format, ...)
{
    va_list args;
    why->code = code;
    why->sys = sys;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return code;
}

int snib__file_code_of(int sys)
{
    switch (sys) {
    case EACCES:
    case EPERM:
    case EROFS:
        return SNIB_EDENIED;
    case ENOMEM:
        return SNIB_ENOMEM;
    default:
        return SNIB_ESYS;
    }
}

/* ---- Lists ------------------------------------------------------------------------------ */

void snib__file_list_add(struct claim_list *list, struct file_claim *c)
{
    c->before = list->last;
    c->after = NULL;
    *(list->last ? &list->last->after : &list->first) = c;
    list->last = c;
}

void snib__file_list_remove(struct claim_list *list, struct file_claim *c)
{
    *(c->before ? &c->before->after : &list->first) = c->after;
    *(c->after ? &c->after->before : &list->last) = c->before;
    c->before = c->after = NULL;
}

static void attach(struct file_claim *c, struct lockfile *f)
{
    file_use(f);
    c->file = f;
}

void snib__file_detach(struct file_claim *c)
{
    struct lockfile *f = c->file;
    c->phase = PHASE_NONE;
    c->file = NULL;
    if (f) {
        file_unuse(f);
    }
    snib__file_cookie_remove(c);
}

/* ---- Answers ---------------------------------------------------------------------------- */

void snib__file_failed(struct file_claim *c, const struct failure *why)
{
    struct snib__result result = {
        .status = SNIB__FAILED, .code = why->code, .sys = why->sys, .reason = why->text};
    snib__file_detach(c);
    snib__answer(c->claim, SNIB__ATTEMPT, &result);
}

static void listen_in(struct file_claim *c)
{
    snib__file_cookie_add(c);
    if (!c->attends) {
        c->attends = true;
        c->claim->session->attend++;
    }
}

static void say_held(struct file_claim *c, enum snib__verb verb)
{
    struct file_session *fs = file_session_of(c->claim);
    fs->held.token = c->token;
    if (verb == SNIB__RENEW) {
        fs->held.since = snib__now();
    }
    snib__answer(c->claim, verb, &fs->held);
}

void snib__file_held(struct file_claim *c)
{
    c->phase = PHASE_HELD;
    if (c->claim->mode != SNIB_EXCLUSIVE) {
        snib__file_list_add(&c->file->holding, c);
    }
    if (c->claim->listens) {
        listen_in(c);
    }
    say_held(c, SNIB__ATTEMPT);
}

static void say_behind_flock(struct file_claim *c, enum snib__status status, struct flocker other)
{
    char who[40];
    snprintf(who, sizeof who, "pid %u (flock)", other.pid);
    struct snib__result result = {.status = status,
                                  .holder = other.pid ? who : "another process (flock)",
                                  .place = status == SNIB__QUEUED ? 1 : 0};
    snib__answer(c->claim, SNIB__ATTEMPT, &result);
}

void snib__file_granted(struct file_claim *c)
{
    struct failure why;
    if (!file_is_path(c->claim->name)) {
        snib__file_held(c);
        return;
    }
    switch (snib__file_flock(c, &why)) {
    case FLOCKED:
        snib__file_held(c);
        break;
    case FLOCK_BUSY:
        if (c->claim->may_queue) {
            say_behind_flock(c, SNIB__QUEUED, snib__file_flock_wait(c));
        } else {
            struct flocker other = snib__file_flocker(c->path_dev, c->path_ino);
            snib__file_drop(c);
            snib__file_detach(c);
            say_behind_flock(c, SNIB__BUSY, other);
        }
        break;
    case FLOCK_FAILED:
        snib__file_drop(c);
        snib__file_failed(c, &why);
        break;
    }
}

/* ---- Attempt ---------------------------------------------------------------------------- */

static int check_name(const struct snib__claim *claim, struct failure *why)
{
    if (file_is_path(claim->name) && claim->mode == SNIB_COUNTED) {
        return snib__file_fail(why, SNIB_ENOTSUP, 0, "a path cannot be a counted lock");
    }
    return 0;
}

/* A try that fails because somebody holds the slot needs no gate to say so. */
static bool refuse(struct file_claim *c)
{
    struct lockfile *f = c->file;
    short type = c->claim->mode == SNIB_SHARED ? F_RDLCK : F_WRLCK;
    struct flock found;
    struct front front;
    if (c->claim->may_queue || c->claim->mode == SNIB_COUNTED ||
        !snib__file_blocked(f->fd, type, SLOT_AT, 1, &found) || !snib__file_front(f, &front) ||
        front.header.words.kind != KIND_RW || !snib__file_proved(&front.holder, &found)) {
        return false;
    }
    const struct record *r = &front.holder;
    char who[120];
    snprintf(who, sizeof who, "%.*s%s%.*s", (int)strnlen(r->who, sizeof r->who), r->who,
             r->label[0] ? " " : "", (int)strnlen(r->label, sizeof r->label), r->label);
    struct snib__result result = {.status = SNIB__BUSY, .holder_token = r->token, .holder = who};
    snib__file_detach(c);
    snib__answer(c->claim, SNIB__ATTEMPT, &result);
    return true;
}

/* Numbers nobody else has: different for each start of each claim, spread over all their bits. */
static void number(struct file_claim *c)
{
    uint64_t n = file_session_of(c->claim)->number += 0x9e3779b97f4a7c15ULL; /* odd: all of them */
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9ULL;
    n = (n ^ n >> 27) * 0x94d049bb133111ebULL;
    c->cookie = n ^ n >> 31;
    c->nonce = (uint32_t)(c->cookie >> 32) & NONCE_MASK;
    c->nonce += c->nonce == 0 ? 1U : 0U;
}

void snib__file_start(struct file_claim *c)
{
    struct file_session *fs = file_session_of(c->claim);
    struct failure why;
    number(c);
    if (c->claim->listens) {
        (void)snib__file_bell_open(fs); /* without one it cannot be asked to give up; that is all */
    }
    for (;;) {
        struct lockfile *f = snib__file_find(fs, c->claim->name, &why);
        if (!f) {
            snib__file_failed(c, &why);
            return;
        }
        attach(c, f);
        enum taken taken =
            c->claim->mode == SNIB_EXCLUSIVE ? snib__file_take_fast(c, &why) : NOT_FREE;
        if (taken == TAKEN) {
            snib__file_granted(c);
            return;
        }
        if (taken == TAKE_FAILED) {
            snib__file_failed(c, &why);
            return;
        }
        if (taken == NOT_FREE) {
            if (!refuse(c)) {
                snib__file_join(c);
            }
            return;
        }
        snib__file_move_on(f); /* replaced: the others here, then we */
        c->file = NULL;
        file_unuse(f);
        if (++c->moves > MOVES_MAX) {
            snib__file_fail(&why, SNIB_EUNSAFE, 0, "its lock file is replaced again and again");
            snib__file_failed(c, &why);
            return;
        }
    }
}

static void attempt(struct snib__claim *claim)
{
    struct file_claim *c = claim->state;
    struct failure why;
    switch (c->phase) {
    case PHASE_HELD:
        say_held(c, SNIB__ATTEMPT);
        break;
    case PHASE_JOINING:
    case PHASE_WAITING:
        c->told = false;
        snib__file_pump(c->file);
        break;
    case PHASE_FLOCKING:
        say_behind_flock(c, SNIB__QUEUED, snib__file_flocker(c->path_dev, c->path_ino));
        break;
    case PHASE_NONE:
        c->claim = claim;
        c->path_fd = -1;
        c->moves = 0;
        if (check_name(claim, &why) < 0) {
            snib__file_failed(c, &why);
        } else {
            snib__file_start(c);
        }
        break;
    }
}

/* ---- Renew, release --------------------------------------------------------------------- */

/* Somebody has begun to listen since the record was written: give the holder an address. */
static void publish(struct file_claim *c)
{
    struct lockfile *f = c->file;
    if (c->published || snib__file_bell_open(f->session) != 0) {
        return;
    }
    uint32_t flags = HAS_BELL | LISTENS;
    off_t at = record_at(c->record) + (off_t)offsetof(struct record, flags);
    c->published = pwrite(f->fd, &flags, sizeof flags, at) == (ssize_t)sizeof flags;
}

static void verify(struct file_claim *c, struct snib__claim *claim)
{
    struct snib__result lost = {.status = SNIB__LOST};
    if (c->phase != PHASE_HELD) {
        snib__answer(claim, SNIB__RENEW, &lost);
        return;
    }
    struct failure why;
    if (snib__file_presence_fully(c->file, &why) == REPLACED || !snib__file_flock_valid(c)) {
        lost.reason = "the lock file was removed or replaced";
        snib__answer(claim, SNIB__RENEW, &lost);
        return;
    }
    if (c->claim->listens) {
        publish(c);
        listen_in(c);
    }
    say_held(c, SNIB__RENEW);
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
    static const struct snib__result freed = {.status = SNIB__FREED};
    static const struct snib__result lost = {.status = SNIB__LOST};
    const struct snib__result *result = &freed;
    switch (c->phase) {
    case PHASE_HELD:
        if (c->file->replaced) {
            result = &lost;
        }
        snib__file_drop(c);
        break;
    case PHASE_FLOCKING:
        snib__file_drop(c);
        break;
    case PHASE_JOINING:
    case PHASE_WAITING:
        snib__file_quit(c);
        break;
    case PHASE_NONE:
        break;
    }
    if (c->attends) {
        claim->session->attend--;
    }
    snib__file_detach(c);
    snib__answer(claim, SNIB__RELEASE, result);
}

/* ---- Open and close --------------------------------------------------------------------- */

static uint32_t space_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint32_t)st.st_ino : 0;
}

/* Namespaces have the same numbers on every host; on a network file system the boot id tells
 * them apart. */
static uint32_t host_number(void)
{
    char id[40] = "";
    uint32_t hash = 2166136261U;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file || !fgets(id, sizeof id, file)) {
        snib__random(id, sizeof id - 1);
    }
    if (file) {
        fclose(file);
    }
    for (const char *p = id; *p; p++) {
        hash = (hash ^ (unsigned char)*p) * 16777619U;
    }
    return hash;
}

static void introduce(struct file_session *fs)
{
    struct record *self = &fs->self;
    self->pid = (uint32_t)getpid();
    self->pid_space = space_of("/proc/self/ns/pid");
    self->net_space = space_of("/proc/self/ns/net");
    if (fs->network) {
        uint32_t host = host_number();
        self->pid_space ^= host;
        self->net_space ^= host;
    }
    snib__random(&self->session, sizeof self->session);
    snib__random(&fs->number, sizeof fs->number);
    snprintf(self->who, sizeof self->who, "%s", fs->session->who);
    fs->draft = *self;
    fs->held.status = SNIB__HELD;
}

static int file_open(struct snib__session *session, snib_error *err)
{
    struct file_session *fs = session->state;
    struct failure why;
    fs->session = session;
    fs->dir = fs->epoll = fs->kick = fs->bell = -1;
    fs->sleeping_until = INT64_MIN;
    fs->group_name = session->values[PARAM_GROUP].text;
    fs->network = session->values[PARAM_NETWORK].number == 1;
    const struct snib__url *url = session->url;
    if (url->host_count > 0 || url->user[0] || url->password[0]) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "file: a directory has no host or user: file:///DIRECTORY");
    }
    int rc = snib__file_directory_open(fs, &why);
    if (rc < 0) {
        return snib__fail(err, why.code, why.sys, "file: %s", why.text);
    }
    session->where = fs->path;
    introduce(fs);
    return 0;
}

/* What is held goes, and whoever waited for it, or behind us, is rung. */
static void abandon(struct lockfile *f)
{
    struct claim_list *lists[] = {&f->holding, &f->flocking};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        for (struct file_claim *c = lists[i]->first; c; c = c->after) {
            snib__file_unflock(c);
        }
    }
    if (f->exclusive) {
        snib__file_unflock(f->exclusive);
    }
    for (uint32_t i = 1; i < RECORDS_MAX; i++) {
        if (bit_get(f->own_records, i)) {
            snib__file_record_drop(f, i);
        }
    }
    (void)file_lock(f->fd, F_UNLCK, 0, 0);
    for (const struct file_claim *c = f->waiting.first; c; c = c->after) {
        snib__file_ring_behind(f, c->ticket);
    }
    if (snib__file_waiting(f, false) != 0) {
        snib__file_ring_behind(f, 0);
    }
}

static void file_close(struct snib__session *session)
{
    struct file_session *fs = session->state;
    if (!fs->session) {
        return;
    }
    if (snib__forked(session)) {
        if (fs->epoll >= 0) { /* first, so that nothing below changes what the parent watches */
            close(fs->epoll);
            fs->epoll = -1;
        }
    } else {
        for (size_t i = 0; i <= FILE_BUCKETS; i++) {
            struct lockfile *f = i < FILE_BUCKETS ? fs->files[i] : fs->strays;
            for (; f; f = f->next_hash) {
                if (f->claims > 0) {
                    abandon(f);
                }
            }
        }
    }
    snib__file_close_all(fs);
    snib__file_reactor_close(fs);
    if (fs->dir >= 0) {
        close(fs->dir);
    }
    free(fs->records);
    free(fs->path);
    memset(fs, 0, sizeof *fs);
}

static void examine(struct snib__query *query)
{
    struct file_session *fs = query->session->state;
    snib_finding finding = {.verdict = SNIB_GOOD, .about = "directory", .text = fs->path};
    snib__found(query, &finding);
    snib__finish(query, SNIB_OK, 0, NULL);
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
    .query_size = sizeof(struct file_query),
    .params = params,
    .open = file_open,
    .close = file_close,
    .attempt = attempt,
    .renew = renew,
    .release = release,
    .drive = snib__file_drive,
    .inspect = snib__file_inspect,
    .evict = snib__file_evict,
    .examine = examine,
};
