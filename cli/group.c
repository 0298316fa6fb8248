/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is in a process group, read from /proc.
 *
 * kill(2) with signal 0 says whether a group has members, but counts zombies, and the leader of
 * the job stays one as long as the supervisor is stopped. So where it matters, /proc is searched.
 * Everything here uses plain system calls: the guardian runs it in a process that was forked
 * from a program with threads, where even malloc might never return.
 *
 * A member that /proc does not show (hidepid) but kill(2) sees counts as alive. A group of the
 * same number in another session is a stranger: numbers are used again.
 */
#include "group.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct record {
    char state;
    int parent, group, session, threads;
};

/* /proc/N/stat without stdio: "N (name) S parent group session ... threads". The name may hold
 * anything, so the fields are counted from the last parenthesis. */
static bool read_record(struct record *out, int number)
{
    char path[32] = "/proc/", text[1024], digits[12];
    size_t n = 0, used = strlen(path);
    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (n > 0) {
        path[used++] = digits[--n];
    }
    memcpy(path + used, "/stat", sizeof "/stat");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    if (size <= 0) {
        return false;
    }
    text[size] = '\0';
    char *p = strrchr(text, ')');
    if (!p || p[1] == '\0' || p[2] == '\0') {
        return false;
    }
    long field[18] = {0}; /* from the parent, field 4, to the threads, field 20 */
    out->state = p[2];
    p += 3;
    for (int i = 0; i < 17; i++) {
        field[i] = strtol(p, &p, 10);
    }
    out->parent = (int)field[0];
    out->group = (int)field[1];
    out->session = (int)field[2];
    out->threads = (int)field[16];
    return true;
}

struct entry { /* struct linux_dirent64 */
    uint64_t inode;
    int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[];
};

bool each_number(const char *folder, bool (*fn)(int number, void *arg), void *arg)
{
    _Alignas(struct entry) char buffer[4096];
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool more = true;
    long size = 0;
    if (fd < 0) {
        return false;
    }
    while (more && (size = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
        for (long at = 0; more && at < size;) {
            const struct entry *e = (const struct entry *)(const void *)(buffer + at);
            if (isdigit((unsigned char)e->name[0])) {
                more = fn((int)strtol(e->name, NULL, 10), arg);
            }
            at += e->size;
        }
    }
    close(fd);
    return size >= 0;
}

struct search {
    pid_t group, session;
    bool seen, alive;
};

static bool look_at(int number, void *arg)
{
    struct search *search = arg;
    struct record r;
    if (read_record(&r, number) && r.group == search->group) {
        search->seen = true;
        /* A main thread that has ended shows as a zombie while other threads run on. */
        search->alive = r.session == search->session && (!strchr("ZXx", r.state) || r.threads > 1);
    }
    return !search->alive;
}

bool group_lives(pid_t pgid, pid_t session)
{
    struct search search = {.group = pgid, .session = session};
    if (kill(-pgid, 0) < 0 && errno == ESRCH) {
        return false;
    }
    bool searched = each_number("/proc", look_at, &search);
    if (search.alive || !searched) {
        return true;
    }
    return !search.seen && (kill(-pgid, 0) == 0 || errno == EPERM);
}

bool process_is_above(pid_t pid)
{
    struct record r;
    int at = getpid();
    for (int depth = 0; depth < 1000; depth++) {
        if (at == pid) {
            return true;
        }
        if (at <= 1) {
            return false;
        }
        if (!read_record(&r, at)) {
            return true;
        }
        at = r.parent;
    }
    return true;
}
