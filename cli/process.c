/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes, as /proc shows them.
 *
 * The folder of a process is opened once. What is read from it and the signal that is sent through
 * it (to the kernel it is as good as a pidfd) are about the same process, even if that one has died
 * and its number is a stranger's by now. It also works where /proc was mounted for another
 * process namespace than ours and kill(2) would take the number for somebody else's.
 *
 * No memory is allocated: this runs when a job must be killed, also if the machine has none left.
 */
#include "process.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* All of a small file below `folder`; answers its size, and 0 for what cannot be read. */
static size_t read_text(int folder, const char *name, char *out, size_t room)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    if (fd >= 0) {
        for (ssize_t n; used + 1 < room && (n = read(fd, out + used, room - 1 - used)) > 0;) {
            used += (size_t)n;
        }
        close(fd);
    }
    out[used] = '\0';
    return used;
}

/* "N (name) S parent group session ... threads". The name may hold anything, so the fields are
 * counted from the last parenthesis. */
static bool read_stat(struct process *out)
{
    char text[1024];
    if (read_text(out->folder, "stat", text, sizeof text) == 0) {
        return false;
    }
    const char *name = strchr(text, '(');
    char *at = strrchr(text, ')');
    if (!name || !at || at[1] == '\0' || at[2] == '\0') {
        return false;
    }
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)(at - name - 1), name + 1);
    out->pid = (pid_t)strtol(text, NULL, 10);
    out->state = at[2];
    at += 3;
    long field[17]; /* from the parent, field 4, to the threads, field 20 */
    for (int i = 0; i < 17; i++) {
        field[i] = strtol(at, &at, 10);
    }
    out->parent = (pid_t)field[0];
    out->group = (pid_t)field[1];
    out->session = (pid_t)field[2];
    out->threads = (int)field[16];
    return true;
}

bool process_open(struct process *out, pid_t number)
{
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/%d", (int)number);
    out->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out->folder < 0) {
        return false;
    }
    if (!read_stat(out)) {
        close(out->folder);
        return false;
    }
    return true;
}

void process_close(struct process *process)
{
    close(process->folder);
}

/* A main thread that has ended shows as a zombie while other threads run on. */
bool process_lives(const struct process *process)
{
    return !strchr("ZXx", process->state) || process->threads > 1;
}

void process_signal(const struct process *process, int number)
{
    (void)syscall(SYS_pidfd_send_signal, process->folder, number, NULL, 0);
}

struct entry { /* struct linux_dirent64 */
    uint64_t inode;
    int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[];
};

static bool each_number(int fd, bool (*fn)(int number, void *arg), void *arg)
{
    _Alignas(struct entry) char buffer[2048];
    bool more = true;
    long size = 0;
    while (more && (size = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
        for (long at = 0; more && at < size;) {
            const struct entry *e = (const struct entry *)(const void *)(buffer + at);
            if (isdigit((unsigned char)e->name[0])) {
                more = fn((int)strtol(e->name, NULL, 10), arg);
            }
            at += e->size;
        }
    }
    return size >= 0;
}

struct children {
    int folder;
    pid_t *out;
    size_t count, room;
};

/* Every thread has children of its own. */
static bool add_children(int thread, void *arg)
{
    struct children *all = arg;
    char path[48], text[4096];
    (void)snprintf(path, sizeof path, "task/%d/children", thread);
    if (read_text(all->folder, path, text, sizeof text) > 0) {
        text[strrchr(text, ' ') ? strrchr(text, ' ') - text : 0] = '\0'; /* a number cut in two */
        for (char *at = text, *end; all->count < all->room; at = end) {
            pid_t pid = (pid_t)strtol(at, &end, 10);
            if (end == at) {
                break;
            }
            all->out[all->count++] = pid;
        }
    }
    return all->count < all->room;
}

size_t process_children(const struct process *process, pid_t *out, size_t room)
{
    struct children all = {.folder = process->folder, .out = out, .room = room};
    int fd = openat(process->folder, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)each_number(fd, add_children, &all);
        close(fd);
    }
    return all.count;
}

pid_t process_self(void)
{
    char text[16];
    ssize_t size = readlink("/proc/self", text, sizeof text - 1);
    text[size > 0 ? size : 0] = '\0';
    return (pid_t)strtol(text, NULL, 10);
}

bool process_is_above(pid_t pid)
{
    struct process at;
    pid_t number = getpid();
    for (int depth = 0; depth < 1000; depth++) {
        if (number == pid) {
            return true;
        }
        if (number <= 1) {
            return false;
        }
        if (!process_open(&at, number)) {
            return true;
        }
        process_close(&at);
        number = at.parent;
    }
    return true;
}
