/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file engine beside the system calls it cannot do without.
 *
 *     file [FOLDER]                   a fresh folder below FOLDER, TMPDIR or /tmp
 *
 * The bare side locks a byte range, reads a counter, writes it back and unlocks: a lock with a
 * fencing token, without queue, owner, deadline, threads or errors. flock(2) alone is there for
 * reference. The hand-over is compared with a byte through a pipe from one process to another.
 *
 * Not done: other file systems side by side; pass a FOLDER for that.
 */
#include "measure.h"
#include "snib.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REUSED = 4000, FRESH = 2000, NAMES = 2000, HANDOFFS = 1000 };

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

static void lock_count_unlock(int fd)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    uint64_t token = 0;
    if (fcntl(fd, F_OFD_SETLK, &range) != 0 || pread(fd, &token, sizeof token, 0) < 0) {
        die("cannot lock or read");
    }
    token++;
    range.l_type = F_UNLCK;
    if (pwrite(fd, &token, sizeof token, 0) < 0 || fcntl(fd, F_OFD_SETLK, &range) != 0) {
        die("cannot write or unlock");
    }
}

static long bare_reused(void *arg, long count)
{
    for (long i = 0; i < count; i++) {
        lock_count_unlock(*(int *)arg);
    }
    return count;
}

static long bare_fresh(void *arg, long count)
{
    char name[32];
    (void)arg;
    for (long i = 0; i < count; i++) {
        snprintf(name, sizeof name, "bare-%ld", i % NAMES);
        int fd = open_bare(name);
        lock_count_unlock(fd);
        close(fd);
    }
    return count;
}

static long flock_reused(void *arg, long count)
{
    int fd = *(int *)arg;
    for (long i = 0; i < count; i++) {
        if (flock(fd, LOCK_EX) != 0 || flock(fd, LOCK_UN) != 0) {
            die("cannot flock");
        }
    }
    return count;
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

static long snib_reused(void *arg, long count)
{
    for (long i = 0; i < count; i++) {
        acquire_release(arg, "bench");
    }
    return count;
}

static long snib_fresh(void *arg, long count)
{
    char name[32];
    for (long i = 0; i < count; i++) {
        snprintf(name, sizeof name, "bench-%ld", i % NAMES);
        acquire_release(arg, name);
    }
    return count;
}

static long snib_whole(void *arg, long count)
{
    (void)arg;
    for (long i = 0; i < count; i++) {
        snib *client = open_client();
        acquire_release(client, "bench");
        snib_close(client);
    }
    return count;
}

/* ---- From one process to another -------------------------------------------------------- */

struct partner {
    pid_t pid;
    int to, from; /* pipes */
    snib *client;
    struct turns {
        _Atomic int last;
        _Atomic long changes;
    } * turns;
};

/* Both always want it, so in a fair queue each release hands it over; changes are counted. */
static void take_turns(snib *client, struct turns *turns, int self, long count)
{
    for (long i = 0; i < count; i++) {
        snib_lease *lease;
        snib_error error;
        if (snib_acquire(&lease, client, "handoff", NULL, &error) < 0) {
            die("%s", error.message);
        }
        if (atomic_exchange(&turns->last, self) != self) {
            atomic_fetch_add(&turns->changes, 1);
        }
        if (snib_release(&lease, &error) < 0) {
            die("%s", error.message);
        }
    }
}

/* A positive number: so many turns. Minus one: send it back, as the ball it is. */
static _Noreturn void be_partner(struct partner *partner)
{
    long order;
    snib *client = open_client();
    while (read(partner->to, &order, sizeof order) == (ssize_t)sizeof order) {
        if (order > 0) {
            take_turns(client, partner->turns, 2, order);
        }
        if (write(partner->from, &order, sizeof order) < 0) {
            break;
        }
    }
    snib_close(client);
    exit(0);
}

/* Before anything in this process has threads. */
static void start_partner(struct partner *partner)
{
    int to[2], from[2];
    partner->turns = mmap(NULL, sizeof *partner->turns, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (partner->turns == MAP_FAILED || pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
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

static void tell(struct partner *partner, long order)
{
    if (write(partner->to, &order, sizeof order) != (ssize_t)sizeof order) {
        die("the partner is gone");
    }
}

static void hear(struct partner *partner)
{
    long order;
    if (read(partner->from, &order, sizeof order) != (ssize_t)sizeof order) {
        die("the partner is gone");
    }
}

static long pipe_handoff(void *arg, long count)
{
    for (long i = 0; i < count; i++) {
        tell(arg, -1);
        hear(arg);
    }
    return 2 * count; /* there and back */
}

static long snib_handoff(void *arg, long count)
{
    struct partner *partner = arg;
    long before = atomic_load(&partner->turns->changes);
    tell(partner, count);
    take_turns(partner->client, partner->turns, 1, count);
    hear(partner);
    return atomic_load(&partner->turns->changes) - before;
}

/* ---- All of it -------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    struct partner partner = {0};
    measure_make_folder(folder, sizeof folder, argc, argv);
    snprintf(url, sizeof url, "file://%s", folder);
    start_partner(&partner);
    snib *client = open_client();
    partner.client = client;
    int bare = open_bare("bare");
    int locked = open_bare("flock");
    const struct measure_subject subjects[] = {
        {"flock(2) alone, open file", flock_reused, &locked, REUSED, -1, 0},
        {"bare: OFD lock, read, write, unlock, open file", bare_reused, &bare, REUSED, -1, 0},
        {"snib: acquire, release, client and name reused", snib_reused, client, REUSED, 1, 1.3},
        {"bare: open, OFD lock, read, write, unlock, close", bare_fresh, NULL, FRESH, -1, 0},
        {"snib: acquire, release, another name each time", snib_fresh, client, FRESH, 3, 1.5},
        {"snib: open, acquire, release, close", snib_whole, NULL, FRESH / 4, 3, 0},
        {"bare: a byte to another process by pipe", pipe_handoff, &partner, HANDOFFS, -1, 0},
        {"snib: hand-over to another process", snib_handoff, &partner, HANDOFFS, 6, 0},
    };
    measure(subjects, sizeof subjects / sizeof subjects[0]);
    snib_close(client);
    close(partner.to);
    waitpid(partner.pid, NULL, 0);
    close(partner.from);
    close(bare);
    close(locked);
    measure_remove_folder(folder);
    return 0;
}
