/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file engine beside the system calls it cannot do without.
 *
 *     file [FOLDER]                   a fresh folder below FOLDER, TMPDIR or /tmp
 *
 * The bare side locks a byte range, reads a counter, writes it back and unlocks: a lock with a
 * fencing token, without queue, owner, deadline, threads or errors. flock(2) alone is there for
 * reference. The hand-over is compared with a byte through a pipe from one process to another, and
 * with the bare lock waited for in the kernel.
 *
 * Not done: other file systems side by side; pass a FOLDER for that.
 */
#include "measure.h"
#include "snib.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REUSED = 250, FRESH = 100, WHOLE = 25, NAMES = 2000, TURNS = 20 };

static char folder[256], url[300];

static _Noreturn void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

/* Round and round through more names than anybody keeps open. */
static int next_number(int *next)
{
    *next = (*next + 1) % NAMES;
    return *next;
}

/* ---- Bare ------------------------------------------------------------------------------- */

static int open_bare(const char *name)
{
    char path[320];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        die("cannot open %s", path);
    }
    return fd;
}

static void lock_and_count(int fd, int how)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    uint64_t token = 0;
    if (fcntl(fd, how, &range) != 0 || pread(fd, &token, sizeof token, 0) < 0) {
        die("cannot lock or read");
    }
    token++;
    if (pwrite(fd, &token, sizeof token, 0) < 0) {
        die("cannot write");
    }
}

static void unlock(int fd)
{
    struct flock range = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_len = 1};
    if (fcntl(fd, F_OFD_SETLK, &range) != 0) {
        die("cannot unlock");
    }
}

static void lock_count_unlock(int fd)
{
    lock_and_count(fd, F_OFD_SETLK);
    unlock(fd);
}

static double bare_reused(void *arg, long count)
{
    int64_t start = measure_now_ns();
    for (long i = 0; i < count; i++) {
        lock_count_unlock(*(int *)arg);
    }
    return measure_each(start, count);
}

static double bare_fresh(void *arg, long count)
{
    static int next;
    char name[32];
    (void)arg;
    int64_t start = measure_now_ns();
    for (long i = 0; i < count; i++) {
        snprintf(name, sizeof name, "bare-%d", next_number(&next));
        int fd = open_bare(name);
        lock_count_unlock(fd);
        close(fd);
    }
    return measure_each(start, count);
}

static double flock_reused(void *arg, long count)
{
    int fd = *(int *)arg;
    int64_t start = measure_now_ns();
    for (long i = 0; i < count; i++) {
        if (flock(fd, LOCK_EX) != 0 || flock(fd, LOCK_UN) != 0) {
            die("cannot flock");
        }
    }
    return measure_each(start, count);
}

/* ---- snib ------------------------------------------------------------------------------- */

static snib *open_client(void)
{
    snib *client;
    snib_error error;
    if (snib_open(&client, url, &error) < 0) {
        die("%s", error.message);
    }
    return client;
}

static void acquire_release(snib *client, const char *name)
{
    snib_lease *lease;
    snib_error error;
    if (snib_acquire(&lease, client, name, NULL, &error) < 0 || snib_release(&lease, &error) < 0) {
        die("%s", error.message);
    }
}

static double snib_reused(void *arg, long count)
{
    int64_t start = measure_now_ns();
    for (long i = 0; i < count; i++) {
        acquire_release(arg, "bench");
    }
    return measure_each(start, count);
}

static double snib_fresh(void *arg, long count)
{
    static int next;
    char name[32];
    int64_t start = measure_now_ns();
    for (long i = 0; i < count; i++) {
        snprintf(name, sizeof name, "bench-%d", next_number(&next));
        acquire_release(arg, name);
    }
    return measure_each(start, count);
}

static double snib_whole(void *arg, long count)
{
    (void)arg;
    int64_t start = measure_now_ns();
    for (long i = 0; i < count; i++) {
        snib *client = open_client();
        acquire_release(client, "bench");
        snib_close(client);
    }
    return measure_each(start, count);
}

/* ---- From one process to another -------------------------------------------------------- */

/*
 * Two processes take turns. Each spends a while of work on its turn, so that the other is asleep
 * and waiting when it ends, writes down when it ended, and passes the turn on; the other writes
 * down when it began. What counts is the time in between, for the lock and for the pipe alike.
 *
 * Whoever releases snib's lock can ask again at once, and stands behind the other. The kernel would
 * give its own lock to the one who asks at once, so beside that both rest after each turn, and work
 * for longer than they rest.
 */
enum { WORK_NS = 50000, REST_NS = 60000, WORK_BESIDE_REST_NS = 300000 };

struct relay {
    _Atomic int ready;        /* of two */
    _Atomic int last;         /* who had the last turn */
    _Atomic int64_t ended_ns; /* when */
    _Atomic long work_ns, rest_ns;
    _Atomic long passed; /* turns in this round, with what each took on its way */
    _Atomic double passing_ns[2 * TURNS];
};

struct partner {
    pid_t pid;
    int to, from; /* pipes, to the partner and back */
    snib *client;
    int bare; /* the same lock without snib, each on its own open file */
    struct relay *relay;
};

enum order { ORDER_BALL, ORDER_SNIB, ORDER_BARE };

static void begin_turn(struct relay *relay, int self, int64_t asked_ns)
{
    int64_t now = measure_now_ns();
    int64_t ended = atomic_load(&relay->ended_ns);
    if (atomic_exchange(&relay->last, self) != self && asked_ns < ended) { /* it did wait */
        long passed = atomic_fetch_add(&relay->passed, 1);
        atomic_store(&relay->passing_ns[passed], (double)(now - ended));
    }
    while (measure_now_ns() < now + atomic_load(&relay->work_ns)) {
    }
    atomic_store(&relay->ended_ns, measure_now_ns());
}

static void snib_turn(snib *client, struct relay *relay, int self)
{
    snib_lease *lease;
    snib_error error;
    int64_t asked_ns = measure_now_ns();
    if (snib_acquire(&lease, client, "relay", NULL, &error) < 0) {
        die("%s", error.message);
    }
    begin_turn(relay, self, asked_ns);
    if (snib_release(&lease, &error) < 0) {
        die("%s", error.message);
    }
}

static void bare_turn(int fd, struct relay *relay, int self)
{
    int64_t asked_ns = measure_now_ns();
    lock_and_count(fd, F_OFD_SETLKW);
    begin_turn(relay, self, asked_ns);
    unlock(fd);
}

static void take_turns(const struct partner *partner, int self, enum order order)
{
    struct relay *relay = partner->relay;
    long rest_ns = atomic_load(&relay->rest_ns);
    atomic_fetch_add(&relay->ready, 1);
    while (atomic_load(&relay->ready) < 2) {
        sched_yield();
    }
    for (long i = 0; i < TURNS; i++) {
        if (order == ORDER_SNIB) {
            snib_turn(partner->client, relay, self);
        } else {
            bare_turn(partner->bare, relay, self);
        }
        if (rest_ns) {
            nanosleep(&(struct timespec){.tv_nsec = rest_ns}, NULL);
        }
    }
}

static void tell(int fd, enum order order)
{
    if (write(fd, &order, sizeof order) != (ssize_t)sizeof order) {
        die("the partner is gone");
    }
}

static bool hear(int fd, enum order *order)
{
    return read(fd, order, sizeof *order) == (ssize_t)sizeof *order;
}

/* The ball goes back. */
static _Noreturn void be_partner(struct partner *partner)
{
    enum order order;
    partner->client = open_client();
    partner->bare = open_bare("relay-bare");
    int64_t asked_ns = measure_now_ns();
    while (hear(partner->to, &order)) {
        if (order == ORDER_BALL) {
            begin_turn(partner->relay, 2, asked_ns);
        } else {
            take_turns(partner, 2, order);
        }
        asked_ns = measure_now_ns();
        tell(partner->from, order);
    }
    snib_close(partner->client);
    exit(0);
}

/* Before anything in this process has threads. */
static void start_partner(struct partner *partner)
{
    int to[2], from[2];
    partner->relay = mmap(NULL, sizeof *partner->relay, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (partner->relay == MAP_FAILED || pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
        die("cannot start a partner");
    }
    partner->pid = fork();
    if (partner->pid < 0) {
        die("cannot fork");
    }
    partner->to = partner->pid == 0 ? to[0] : to[1];
    partner->from = partner->pid == 0 ? from[1] : from[0];
    close(partner->pid == 0 ? to[1] : to[0]);
    close(partner->pid == 0 ? from[0] : from[1]);
    if (partner->pid == 0) {
        be_partner(partner);
    }
}

/* The median, because a process that was not scheduled is not what is measured. */
static double median_passing_ns(struct relay *relay)
{
    double sorted[2 * TURNS] = {0};
    long passed = atomic_load(&relay->passed);
    for (long i = 0; i < passed; i++) {
        sorted[i] = atomic_load(&relay->passing_ns[i]);
    }
    qsort(sorted, (size_t)passed, sizeof sorted[0], measure_compare);
    return sorted[passed / 2];
}

static double pipe_relay(void *arg, long count)
{
    struct partner *partner = arg;
    int64_t asked_ns = INT64_MAX;
    enum order order;
    atomic_store(&partner->relay->passed, 0);
    atomic_store(&partner->relay->work_ns, WORK_NS);
    for (long i = 0; i < count; i++) {
        begin_turn(partner->relay, 1, asked_ns);
        tell(partner->to, ORDER_BALL);
        asked_ns = measure_now_ns();
        if (!hear(partner->from, &order)) {
            die("the partner is gone");
        }
    }
    return median_passing_ns(partner->relay);
}

static double relay(struct partner *partner, enum order order, long work_ns, long rest_ns)
{
    struct relay *relay = partner->relay;
    atomic_store(&relay->passed, 0);
    atomic_store(&relay->work_ns, work_ns);
    atomic_store(&relay->rest_ns, rest_ns);
    while (atomic_load(&relay->passed) == 0) { /* they may miss each other altogether */
        atomic_store(&relay->ready, 0);
        tell(partner->to, order);
        take_turns(partner, 1, order);
        if (!hear(partner->from, &order)) {
            die("the partner is gone");
        }
    }
    return median_passing_ns(relay);
}

static double snib_relay(void *arg, long count)
{
    (void)count;
    return relay(arg, ORDER_SNIB, WORK_NS, 0);
}

static double bare_rested(void *arg, long count)
{
    (void)count;
    return relay(arg, ORDER_BARE, WORK_BESIDE_REST_NS, REST_NS);
}

static double snib_rested(void *arg, long count)
{
    (void)count;
    return relay(arg, ORDER_SNIB, WORK_BESIDE_REST_NS, REST_NS);
}

/* ---- All of it -------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    struct partner partner = {0};
    measure_make_folder(folder, sizeof folder, argc, argv);
    snprintf(url, sizeof url, "file://%s", folder);
    start_partner(&partner);
    snib *client = open_client();
    snib *reused = open_client(); /* its own: other names would push its file out of the cache */
    partner.client = client;
    partner.bare = open_bare("relay-bare");
    int bare = open_bare("bare");
    int locked = open_bare("flock");
    const struct measure_subject subjects[] = {
        {"flock(2) alone, open file", flock_reused, &locked, REUSED, -1, 0, 0},
        {"bare: OFD lock, read, write, unlock, open file", bare_reused, &bare, REUSED, -1, 0, 0},
        {"snib: acquire, release, client and name reused", snib_reused, reused, REUSED, 1, 1.3, 0},
        {"bare: open, OFD lock, read, write, unlock, close", bare_fresh, NULL, FRESH, -1, 0, 0},
        {"snib: acquire, release, another name each time", snib_fresh, client, FRESH, 3, 1.5, 0},
        {"snib: open, acquire, release, close", snib_whole, NULL, WHOLE, 3, 0, 0},
        {"bare: a byte to another process by pipe", pipe_relay, &partner, TURNS, -1, 0, 1},
        {"snib: hand-over to another process", snib_relay, &partner, TURNS, 6, 0, 1},
        {"bare: OFD lock, read, write; release to acquired", bare_rested, &partner, TURNS, -1, 0,
         1},
        {"snib: release to acquired, both at rest in between", snib_rested, &partner, TURNS, 8, 1.2,
         1},
    };
    measure(subjects, sizeof subjects / sizeof subjects[0]);
    snib_close(client);
    snib_close(reused);
    close(partner.to);
    waitpid(partner.pid, NULL, 0);
    close(partner.from);
    close(bare);
    close(locked);
    measure_remove_folder(folder);
    return 0;
}
