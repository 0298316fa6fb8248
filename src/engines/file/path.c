/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that are paths: flock(2) on the file, after the slot.
 *
 * So that a crontab can move from flock(1) line by line: a line that still says `flock /x cmd`
 * and one that says `snib run /x cmd` exclude each other. The file is opened as flock(1) does it,
 * following links, created if it is not there, a directory if it is one. Among users of snib the
 * slot decides, in order; flock is then taken from somebody outside, who has no queue and no
 * bell: its process is found in /proc/locks and watched, and we try again from time to time. The
 * slot is kept meanwhile.
 *
 * Assumption: nobody removes the file while it is locked. That is checked after locking and by
 * verify, as for our own files.
 */
#include "engines/file/file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FIRST_PAUSE_MS 50
#define LONGEST_PAUSE_MS 1000
#define TRIES 20

/* ---- The file --------------------------------------------------------------------------- */

static int open_path(const char *path, int access)
{
    int flags = access | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
    int fd;
    do {
        fd = open(path, flags);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0 && errno == ENOENT) {
        fd = open(path, flags | O_CREAT, 0666);
    }
    return fd;
}

static int cannot(struct failure *why, const char *what, const char *path)
{
    int sys = errno;
    return snib__file_fail(why, snib__file_code_of(sys), sys, "cannot %s %.200s: %s", what, path,
                           strerror(sys));
}

static int check_type(int fd, const char *path, struct stat *st, struct failure *why)
{
    if (fstat(fd, st) < 0) {
        return cannot(why, "stat", path);
    }
    if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) {
        return snib__file_fail(why, SNIB_EINVAL, 0, "%.200s is neither a file nor a directory",
                               path);
    }
    return 0;
}

static bool same_file(const char *path, const struct stat *st)
{
    struct stat now;
    return stat(path, &now) == 0 && now.st_ino == st->st_ino && now.st_dev == st->st_dev;
}

static int lock_fd(int fd, int mode)
{
    int rc;
    do {
        rc = flock(fd, (mode == SNIB_SHARED ? LOCK_SH : LOCK_EX) | LOCK_NB);
    } while (rc < 0 && errno == EINTR);
    return rc;
}

/* One try on the file the path leads to now. `*again`: it led elsewhere afterwards. */
static enum flocked try_once(struct file_claim *c, int access, bool *again, struct failure *why)
{
    const char *path = c->claim->name;
    struct stat st;
    *again = false;
    int fd = open_path(path, access);
    if (fd < 0) {
        cannot(why, "open", path);
        return FLOCK_FAILED;
    }
    if (check_type(fd, path, &st, why) < 0) {
        close(fd);
        return FLOCK_FAILED;
    }
    c->path_dev = st.st_dev;
    c->path_ino = st.st_ino;
    if (lock_fd(fd, c->claim->mode) < 0) {
        bool busy = errno == EWOULDBLOCK;
        *again = access == O_RDONLY && (errno == EBADF || errno == EIO);
        cannot(why, "lock", path);
        close(fd);
        return busy ? FLOCK_BUSY : FLOCK_FAILED;
    }
    if (!same_file(path, &st)) {
        close(fd);
        *again = true;
        snib__file_fail(why, SNIB_EUNSAFE, 0, "%.200s is replaced again and again", path);
        return FLOCK_FAILED;
    }
    c->path_fd = fd;
    return FLOCKED;
}

static void unwatch(struct file_claim *c)
{
    if (c->path_watch) {
        snib__file_unwatch(c->file->session, c->path_watch);
        c->path_watch = NULL;
    }
}

/* NFS wants a descriptor open for writing; it says so by EBADF or EIO. */
enum flocked snib__file_flock(struct file_claim *c, struct failure *why)
{
    enum flocked flocked = FLOCK_FAILED;
    int access = O_RDONLY;
    bool again = true;
    for (int i = 0; again && i < TRIES; i++) {
        flocked = try_once(c, access, &again, why);
        if (again && (why->sys == EBADF || why->sys == EIO)) {
            access = O_RDWR;
        }
    }
    if (flocked == FLOCKED) {
        unwatch(c); /* whoever was in the way may die now and be nothing to us */
    }
    return flocked;
}

void snib__file_unflock(struct file_claim *c)
{
    unwatch(c);
    if (c->path_fd >= 0) {
        flock(c->path_fd, LOCK_UN); /* a forked child may keep the description open */
        close(c->path_fd);
        c->path_fd = -1;
    }
}

bool snib__file_flock_valid(const struct file_claim *c)
{
    struct stat st = {.st_dev = c->path_dev, .st_ino = c->path_ino};
    return c->path_fd < 0 || same_file(c->claim->name, &st);
}

/* ---- Who is in the way ------------------------------------------------------------------ */

struct flocker snib__file_flocker(dev_t dev, ino_t ino)
{
    struct flocker found = {.pid = 0};
    FILE *locks = fopen("/proc/locks", "re");
    char line[256];
    while (locks && found.pid == 0 && fgets(line, sizeof line, locks)) {
        char type[16];
        int pid;
        unsigned high;
        unsigned low;
        unsigned long long inode;
        if (sscanf(line, "%*u: FLOCK %*15s %15s %d %x:%x:%llu", type, &pid, &high, &low, &inode) ==
                5 &&
            pid > 0 && high == major(dev) && low == minor(dev) && inode == ino) {
            found.pid = (uint32_t)pid;
            found.mode = strcmp(type, "READ") == 0 ? SNIB_SHARED : SNIB_EXCLUSIVE;
        }
    }
    if (locks) {
        fclose(locks);
    }
    return found;
}

struct flocker snib__file_flock_wait(struct file_claim *c)
{
    struct file_session *fs = c->file->session;
    struct flocker other = snib__file_flocker(c->path_dev, c->path_ino);
    bool fresh;
    bool dead;
    unwatch(c);
    if (other.pid && other.pid != fs->self.pid) {
        c->path_watch = snib__file_watch(fs, other.pid, &fresh, &dead);
    }
    int64_t ms = c->path_pause_ms ? c->path_pause_ms * 2 : FIRST_PAUSE_MS;
    c->path_pause_ms = ms < LONGEST_PAUSE_MS ? ms : LONGEST_PAUSE_MS;
    c->path_due_ns = snib__now().boot_ns + c->path_pause_ms * SNIB__MS;
    if (c->phase != PHASE_FLOCKING) {
        c->phase = PHASE_FLOCKING;
        snib__file_list_add(&c->file->flocking, c);
    }
    snib__file_schedule(c->file);
    return other;
}

static void once_more(struct file_claim *c)
{
    struct failure why;
    struct lockfile *f = c->file;
    if (f->replaced) { /* our slot is worth nothing any more */
        snib__file_drop(c);
        snib__file_detach(c);
        snib__file_start(c);
        return;
    }
    switch (snib__file_flock(c, &why)) {
    case FLOCKED:
        snib__file_list_remove(&f->flocking, c);
        snib__file_held(c);
        break;
    case FLOCK_BUSY:
        snib__file_flock_wait(c);
        break;
    case FLOCK_FAILED:
        snib__file_drop(c);
        snib__file_failed(c, &why);
        break;
    }
}

void snib__file_flock_again(struct lockfile *f, int64_t now_ns)
{
    struct file_claim *next;
    for (struct file_claim *c = f->flocking.first; c; c = next) {
        next = c->after;
        if (c->path_due_ns <= now_ns) {
            once_more(c);
        }
    }
}
