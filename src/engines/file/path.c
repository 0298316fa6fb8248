/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that are paths: flock(2) on the file, after the slot.
 *
 * So that a crontab can move from flock(1) line by line: a line that still says `flock /x cmd`
 * and one that says `snib run /x cmd` exclude each other. The file is opened as flock(1) does it,
 * following links, created if it is not there, a directory if it is one. Among users of snib the
 * slot decides, in order; flock is then taken from somebody outside.
 *
 * Assumption: nobody removes the file while it is locked. That is checked after locking and by
 * verify, as for our own files.
 */
#include "engines/file/path.h"

#include "snib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

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
    return snib__file_fail(why, snib__file_failure_code(sys), sys, "cannot %s %.200s: %s", what,
                           path, strerror(sys));
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
static enum flocked try_once(struct path_lock *p, const char *path, int mode, int access,
                             bool *again, struct failure *why)
{
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
    p->dev = st.st_dev;
    p->ino = st.st_ino;
    if (lock_fd(fd, mode) < 0) {
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
    p->fd = fd;
    return FLOCKED;
}

/* NFS wants a descriptor open for writing; it says so by EBADF or EIO. */
enum flocked snib__file_path_lock(struct path_lock *p, const char *path, int mode,
                                  struct failure *why)
{
    enum flocked flocked = FLOCK_FAILED;
    int access = O_RDONLY;
    bool again = true;
    for (int i = 0; again && i < TRIES; i++) {
        flocked = try_once(p, path, mode, access, &again, why);
        if (again && (why->sys == EBADF || why->sys == EIO)) {
            access = O_RDWR;
        }
    }
    return flocked;
}

void snib__file_path_unlock(struct path_lock *p)
{
    if (p->fd >= 0) {
        flock(p->fd, LOCK_UN); /* a forked child may keep the description open */
        close(p->fd);
        p->fd = -1;
    }
}

bool snib__file_path_valid(const struct path_lock *p, const char *path)
{
    struct stat st = {.st_dev = p->dev, .st_ino = p->ino};
    return p->fd < 0 || same_file(path, &st);
}

/* ---- Who is in the way ------------------------------------------------------------------ */

struct flocker snib__file_path_flocker(dev_t dev, ino_t ino)
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
