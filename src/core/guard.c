/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resource's side of fencing, for files: a path admits no token smaller than one it has seen.
 *
 * The largest token stands in `.NAME.snib-token` beside the path, one line of fixed length:
 *
 *     snib-token 00001790000000000000 durable
 *
 * read, compared and written in place under an OFD lock. In place, because a file that is replaced
 * by a rename would take the lock with it; one line in one disk block, so that a power cut leaves
 * the old one or the new one.
 *
 * A guard that forgets after a power cut would let the old holder in, so nobody is admitted before
 * the disk has the token. `pending` says that this is not known yet: the writer may have been
 * killed before its flush, or the flush failed. Whoever finds it writes and flushes again, also for
 * an equal token; with `durable`, repeated writes cost no flush. The lock is given up meanwhile:
 * the process that flushes may be stopped, which is what this file is about, and must not keep
 * others out. Whoever comes back looks again, and learns if a newer token came by.
 *
 * The guard belongs to the name in its directory, not to the file behind it: the file may not exist
 * yet, and may be replaced by every writer. Two links to one file are two guards.
 *
 * Who can write the directory or the small file can undo the guard. It stops mistakes, not attacks;
 * it only refuses to follow links and to write into a file that is something else.
 */
#include "engines/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_FORMAT "snib-token %020" PRIu64 " %s\n"
#define LINE_BYTES 40
#define PREFIX "snib-token "
#define DIGITS 20
#define SUFFIX ".snib-token"

#define PATIENCE_MS 5000 /* for a lock that is held for microseconds */
#define NAP_MS_MAX 8

struct guard {
    const char *path;
    uint64_t token;
    int dir;
    int fd;
    char file[NAME_MAX + 1]; /* in dir */
    snib_error *err;
};

struct admitted {
    uint64_t token; /* 0: none so far */
    bool durable;
};

static int refuse(const struct guard *g, const char *what)
{
    int sys = errno;
    int code = sys == EACCES || sys == EPERM || sys == EROFS ? SNIB_EDENIED
               : sys == ELOOP                                ? SNIB_EUNSAFE
                                                             : SNIB_ESYS;
    return snib__fail(g->err, code, sys, "guard of '%.150s': cannot %s %.100s", g->path, what,
                      g->file);
}

static int too_old(const struct guard *g, uint64_t newer)
{
    snib__fail(g->err, SNIB_ELOST, 0,
               "guard of '%.150s': token %" PRIu64 " is too old, %" PRIu64 " was here", g->path,
               g->token, newer);
    if (g->err) {
        g->err->holder_token = newer;
    }
    return SNIB_ELOST;
}

/* ---- The line --------------------------------------------------------------------------- */

/* Fills `out` or answers false. An empty file is one whose maker was killed at once. */
static bool parse(struct admitted *out, const char *line, size_t size)
{
    char again[LINE_BYTES + 1];
    uint64_t token = 0;
    *out = (struct admitted){0};
    if (size == 0) {
        return true;
    }
    if (size != LINE_BYTES || memcmp(line, PREFIX, strlen(PREFIX)) != 0) {
        return false;
    }
    for (size_t i = strlen(PREFIX); i < strlen(PREFIX) + DIGITS; i++) {
        if (line[i] < '0' || line[i] > '9' || __builtin_mul_overflow(token, 10U, &token) ||
            __builtin_add_overflow(token, (unsigned)(line[i] - '0'), &token)) {
            return false;
        }
    }
    out->token = token;
    out->durable = line[strlen(PREFIX) + DIGITS + 1] == 'd';
    snprintf(again, sizeof again, LINE_FORMAT, token, out->durable ? "durable" : "pending");
    return memcmp(again, line, LINE_BYTES) == 0;
}

static int read_line(const struct guard *g, struct admitted *out)
{
    char line[LINE_BYTES + 1];
    ssize_t n;
    do {
        n = pread(g->fd, line, sizeof line, 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return refuse(g, "read");
    }
    if (!parse(out, line, (size_t)n)) {
        return snib__fail(g->err, SNIB_EUNSAFE, 0,
                          "guard of '%.150s': %.100s is damaged or not of snib; "
                          "find out why before you remove it",
                          g->path, g->file);
    }
    return SNIB_OK;
}

static int write_line(const struct guard *g, uint64_t token, bool durable)
{
    char line[LINE_BYTES + 1];
    ssize_t n;
    snprintf(line, sizeof line, LINE_FORMAT, token, durable ? "durable" : "pending");
    do {
        n = pwrite(g->fd, line, LINE_BYTES, 0);
    } while (n < 0 && errno == EINTR);
    if (n == LINE_BYTES) {
        return SNIB_OK;
    }
    if (n >= 0) {
        errno = ENOSPC;
    }
    return refuse(g, "write");
}

/* ---- The file --------------------------------------------------------------------------- */

/* Directory and name of the small file; "/", "." and ".." have no place beside them. */
static int locate(struct guard *g)
{
    char folder[PATH_MAX];
    size_t end = strlen(g->path);
    while (end > 1 && g->path[end - 1] == '/') {
        end--;
    }
    size_t start = end;
    while (start > 0 && g->path[start - 1] != '/') {
        start--;
    }
    const char *name = g->path + start;
    size_t length = end - start;
    if (length == 0 || (length <= 2 && memcmp(name, "..", length) == 0)) {
        return snib__fail(g->err, SNIB_EINVAL, 0, "guard: '%.150s' does not end in a name",
                          g->path);
    }
    if (1 + length + strlen(SUFFIX) > NAME_MAX || start >= sizeof folder) {
        return snib__fail(g->err, SNIB_EINVAL, 0,
                          "guard: '%.150s' is too long: %zu bytes of name at most", g->path,
                          NAME_MAX - 1 - strlen(SUFFIX));
    }
    memcpy(folder, start ? g->path : "./", start ? start : 2);
    folder[start ? start : 2] = '\0';
    snprintf(g->file, sizeof g->file, ".%.*s" SUFFIX, (int)length, name);
    g->dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (g->dir < 0) {
        int sys = errno;
        return snib__fail(g->err, sys == EACCES ? SNIB_EDENIED : SNIB_ESYS, sys,
                          "guard of '%.150s': cannot open its directory", g->path);
    }
    return SNIB_OK;
}

static int open_file(struct guard *g)
{
    struct stat st;
    g->fd = openat(g->dir, g->file, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (g->fd < 0) {
        return refuse(g, "open");
    }
    if (fstat(g->fd, &st) < 0) {
        return refuse(g, "look at");
    }
    if (!S_ISREG(st.st_mode)) {
        return snib__fail(g->err, SNIB_EUNSAFE, 0, "guard of '%.150s': %.100s is not a plain file",
                          g->path, g->file);
    }
    return SNIB_OK;
}

static int64_t now_ms(void)
{
    return snib__now().boot_ns / 1000000;
}

/* The kernel can wait for us, but not for a bounded time; and the holder may be stopped. */
static int lock_file(const struct guard *g)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int64_t give_up_ms = now_ms() + PATIENCE_MS;
    long nap_us = 50;
    while (fcntl(g->fd, F_OFD_SETLK, &range) < 0) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
            return refuse(g, "lock");
        }
        if (now_ms() >= give_up_ms) {
            return snib__fail(g->err, SNIB_EBUSY, 0,
                              "guard of '%.150s': another process has kept %.100s locked for %d s",
                              g->path, g->file, PATIENCE_MS / 1000);
        }
        nanosleep(&(struct timespec){.tv_nsec = nap_us * 1000}, NULL);
        nap_us = nap_us * 2 > NAP_MS_MAX * 1000 ? NAP_MS_MAX * 1000 : nap_us * 2;
    }
    return SNIB_OK;
}

static void unlock_file(const struct guard *g)
{
    struct flock range = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    (void)fcntl(g->fd, F_OFD_SETLK, &range);
}

/* Does the name still lead to what is locked? If somebody removed it, a newcomer has another. */
static bool in_place(const struct guard *g)
{
    struct stat here, there;
    return fstat(g->fd, &here) == 0 && fstatat(g->dir, g->file, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/* ---- Admission -------------------------------------------------------------------------- */

/* Under the lock: note the token unless a larger one is there. `*found` is what was there. */
static int note(const struct guard *g, struct admitted *found)
{
    int rc = read_line(g, found);
    if (rc < 0) {
        return rc;
    }
    if (found->token > g->token) {
        return too_old(g, found->token);
    }
    if (found->token == g->token && found->durable) {
        return SNIB_OK;
    }
    rc = write_line(g, g->token, false);
    if (rc < 0 && found->token == 0) {
        (void)!ftruncate(g->fd, 0); /* no part of a first line: nobody was admitted */
    }
    return rc;
}

/* Without the lock. Until the first line is durable, the entry in the directory may not be. */
static int flush(const struct guard *g, const struct admitted *found)
{
    if (fdatasync(g->fd) < 0 || (!found->durable && fsync(g->dir) < 0)) {
        return refuse(g, "flush");
    }
    return SNIB_OK;
}

/* Under the lock again: what was flushed is durable, unless somebody newer was faster. */
static int confirm(const struct guard *g)
{
    struct admitted now = {0};
    int rc = read_line(g, &now);
    if (rc < 0) {
        return rc;
    }
    if (now.token > g->token) {
        return too_old(g, now.token);
    }
    if (now.token < g->token) {
        return snib__fail(g->err, SNIB_EUNSAFE, 0, "guard of '%.150s': somebody reset %.100s",
                          g->path, g->file);
    }
    if (!now.durable) {
        (void)write_line(g, g->token, true); /* else the next one flushes once more */
    }
    return SNIB_OK;
}

/* 1: the file was removed meanwhile, start anew. */
static int admit(struct guard *g)
{
    struct admitted found = {0};
    int rc = lock_file(g);
    if (rc < 0) {
        return rc;
    }
    if (!in_place(g)) {
        return 1;
    }
    rc = note(g, &found);
    unlock_file(g);
    if (rc < 0 || (found.token == g->token && found.durable)) {
        return rc;
    }
    rc = flush(g, &found);
    if (rc < 0) {
        return rc;
    }
    rc = lock_file(g);
    if (rc < 0) {
        return rc;
    }
    return in_place(g) ? confirm(g) : 1;
}

int snib_guard(const char *path, uint64_t token, snib_error *err)
{
    struct guard g = {.path = path, .token = token, .dir = -1, .fd = -1, .err = err};
    if (!path || !path[0]) {
        return snib__fail(err, SNIB_EINVAL, 0, "guard: no path");
    }
    if (token == 0) {
        return snib__fail(err, SNIB_EINVAL, 0, "guard of '%.150s': 0 is not a token", path);
    }
    int rc = locate(&g);
    int again = rc < 0 ? 0 : 1;
    for (int tries = 0; again && tries < 100; tries++) {
        rc = open_file(&g);
        rc = rc < 0 ? rc : admit(&g);
        again = rc == 1;
        if (g.fd >= 0) {
            close(g.fd); /* and with it the lock */
        }
    }
    if (again) {
        rc = snib__fail(err, SNIB_EUNSAFE, 0, "guard of '%.150s': somebody keeps removing %.100s",
                        path, g.file);
    }
    if (g.dir >= 0) {
        close(g.dir);
    }
    return rc;
}
