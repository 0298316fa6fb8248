/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the waiting thread waits for: the bell, the deaths of processes, timers.
 *
 * One epoll descriptor per session, made when the first claim has to wait. Processes are watched
 * by pidfd, each once however many wait for it, and stay watched for a while after nobody does,
 * because those who contend for a lock meet again. Timers are one per lock file, in a heap.
 *
 * While a thread sleeps in drive, others may submit what needs a nearer timer: they kick it.
 */
#include "engines/file/file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IDLE_WATCHES_MAX 16
#define EVENTS 16
#define POLL_NS (5 * SNIB__MS) /* when there is no descriptor to be had */

struct watch {
    uint32_t pid;
    int fd;
    unsigned users;
    struct watch *next;
};

/* ---- Descriptors ------------------------------------------------------------------------ */

static int add_to(int epoll, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

int snib__file_reactor_open(struct file_session *fs)
{
    if (fs->epoll >= 0) {
        return 0;
    }
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int kick = epoll < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (kick < 0 || add_to(epoll, kick, &fs->kick) < 0) {
        int sys = errno;
        if (epoll >= 0) {
            close(epoll);
        }
        if (kick >= 0) {
            close(kick);
        }
        return sys;
    }
    fs->epoll = epoll;
    fs->kick = kick;
    return 0;
}

int snib__file_reactor_hear(struct file_session *fs, int bell)
{
    int sys = snib__file_reactor_open(fs);
    if (sys == 0 && add_to(fs->epoll, bell, &fs->bell) < 0) {
        sys = errno;
    }
    return sys;
}

/* In a forked child too: closes and forgets, and changes nothing in what is shared. */
void snib__file_reactor_close(struct file_session *fs)
{
    while (fs->watches) {
        struct watch *w = fs->watches;
        fs->watches = w->next;
        close(w->fd);
        free(w);
    }
    int *const fds[] = {&fs->bell, &fs->kick, &fs->epoll};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (*fds[i] >= 0) {
            close(*fds[i]);
            *fds[i] = -1;
        }
    }
    free(fs->heap);
    fs->heap = NULL;
    fs->heap_used = fs->heap_room = 0;
}

void snib__file_kick(struct file_session *fs, int64_t due_ns)
{
    if (due_ns >= fs->sleeping_until || fs->kick < 0) {
        return;
    }
    fs->sleeping_until = due_ns;
    uint64_t one = 1;
    ssize_t n = write(fs->kick, &one, sizeof one); /* full means kicked already */
    (void)n;
}

/* ---- Watches ---------------------------------------------------------------------------- */

static void forget_watch(struct file_session *fs, struct watch *w)
{
    struct watch **at = &fs->watches;
    while (*at != w) {
        at = &(*at)->next;
    }
    *at = w->next;
    /* A child of ours that lives on may have the pidfd open too, so closing is not enough. */
    epoll_ctl(fs->epoll, EPOLL_CTL_DEL, w->fd, NULL);
    close(w->fd);
    free(w);
}

struct watch *snib__file_watch(struct file_session *fs, uint32_t pid, bool *fresh, bool *dead)
{
    *fresh = *dead = false;
    for (struct watch *w = fs->watches; w; w = w->next) {
        if (w->pid == pid) {
            fs->watches_idle -= w->users == 0 ? 1 : 0;
            w->users++;
            return w;
        }
    }
    if (snib__file_reactor_open(fs) != 0) {
        return NULL;
    }
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0U);
    if (fd < 0) {
        *dead = errno == ESRCH;
        return NULL;
    }
    struct watch *w = malloc(sizeof *w);
    if (!w || add_to(fs->epoll, fd, w) < 0) {
        free(w);
        close(fd);
        return NULL;
    }
    *w = (struct watch){.pid = pid, .fd = fd, .users = 1, .next = fs->watches};
    fs->watches = w;
    *fresh = true;
    return w;
}

void snib__file_unwatch(struct file_session *fs, struct watch *w)
{
    if (--w->users > 0) {
        return;
    }
    if (++fs->watches_idle > IDLE_WATCHES_MAX) {
        struct watch *oldest = NULL;
        for (struct watch *i = fs->watches; i; i = i->next) {
            oldest = i->users == 0 ? i : oldest;
        }
        fs->watches_idle--;
        forget_watch(fs, oldest);
    }
}

void snib__file_watch_set(struct lockfile *f, struct watch *const set[], size_t count)
{
    struct watch *old[WATCHES_MAX];
    size_t old_count = f->watch_count;
    memcpy(old, f->watches, old_count * sizeof(struct watch *));
    if (count) {
        memcpy(f->watches, set, count * sizeof(struct watch *));
    }
    f->watch_count = count;
    for (size_t i = 0; i < old_count; i++) {
        snib__file_unwatch(f->session, old[i]);
    }
}

static void drop_from(struct lockfile *f, const struct watch *w)
{
    for (size_t i = 0; i < f->watch_count; i++) {
        if (f->watches[i] == w) {
            f->watches[i--] = f->watches[--f->watch_count];
            f->bereaved = true;
            snib__file_poke(f);
        }
    }
    for (struct file_claim *c = f->flocking.first; c; c = c->after) {
        if (c->path_watch == w) {
            c->path_watch = NULL;
            c->path_due_ns = 0;
            snib__file_timer(f, 0);
        }
    }
}

/* It has ended, and its locks with it. */
static void on_death(struct file_session *fs, struct watch *w)
{
    for (size_t i = 0; i <= FILE_BUCKETS && w->users > 0; i++) {
        struct lockfile *f = i < FILE_BUCKETS ? fs->files[i] : fs->strays;
        for (; f; f = f->next_hash) {
            drop_from(f, w);
        }
    }
    fs->watches_idle -= w->users == 0 ? 1 : 0;
    forget_watch(fs, w);
}

/* ---- Timers ----------------------------------------------------------------------------- */

static void put(struct file_session *fs, size_t at, struct lockfile *f)
{
    fs->heap[at] = f;
    f->timer_index = at;
}

static void sift(struct file_session *fs, size_t at, struct lockfile *f)
{
    while (at > 1 && fs->heap[at / 2]->due_ns > f->due_ns) {
        put(fs, at, fs->heap[at / 2]);
        at /= 2;
    }
    for (;;) {
        size_t child = at * 2;
        if (child < fs->heap_used && fs->heap[child + 1]->due_ns < fs->heap[child]->due_ns) {
            child++;
        }
        if (child > fs->heap_used || fs->heap[child]->due_ns >= f->due_ns) {
            break;
        }
        put(fs, at, fs->heap[child]);
        at = child;
    }
    put(fs, at, f);
}

static void timer_remove(struct file_session *fs, struct lockfile *f)
{
    size_t at = f->timer_index;
    struct lockfile *last = fs->heap[fs->heap_used--];
    f->timer_index = 0;
    if (last != f) {
        sift(fs, at, last);
    }
}

bool snib__file_timer_room(struct file_session *fs, size_t files)
{
    if (files < fs->heap_room) {
        return true;
    }
    size_t room = fs->heap_room ? fs->heap_room * 2 : 16;
    struct lockfile **heap = realloc(fs->heap, room * sizeof(struct lockfile *));
    if (!heap) {
        return false;
    }
    fs->heap = heap;
    fs->heap_room = room;
    return true;
}

/* There is room for every open file. */
void snib__file_timer(struct lockfile *f, int64_t due_ns)
{
    struct file_session *fs = f->session;
    f->due_ns = due_ns;
    if (due_ns == SNIB__NEVER) {
        if (f->timer_index) {
            timer_remove(fs, f);
        }
        return;
    }
    if (!f->timer_index) {
        f->timer_index = ++fs->heap_used;
    }
    sift(fs, f->timer_index, f);
    snib__file_kick(fs, due_ns);
}

void snib__file_poke(struct lockfile *f)
{
    f->poked = true;
    snib__file_timer(f, 0);
}

/* ---- Drive ------------------------------------------------------------------------------ */

static void run_due(struct file_session *fs)
{
    int64_t now_ns = snib__now().boot_ns;
    for (int i = 0; i < 1000 && fs->heap_used && fs->heap[1]->due_ns <= now_ns; i++) {
        struct lockfile *f = fs->heap[1];
        timer_remove(fs, f);
        f->due_ns = SNIB__NEVER;
        snib__file_check(f);
    }
}

static void hear(struct file_session *fs)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(fs->epoll, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        void *what = events[i].data.ptr;
        if (what == &fs->bell) {
            snib__file_bell_hear(fs);
        } else if (what == &fs->kick) {
            uint64_t count;
            ssize_t got = read(fs->kick, &count, sizeof count);
            (void)got;
        } else {
            on_death(fs, what);
        }
    }
}

static int64_t next_due(struct file_session *fs, int64_t until_ns)
{
    int64_t due_ns = fs->queries ? snib__file_evict_check(fs, snib__now().boot_ns) : SNIB__NEVER;
    if (fs->heap_used && fs->heap[1]->due_ns < due_ns) {
        due_ns = fs->heap[1]->due_ns;
    }
    return due_ns < until_ns ? due_ns : until_ns;
}

void snib__file_drive(struct snib__session *session, int64_t until_ns)
{
    struct file_session *fs = session->state;
    bool wanted = false;
    for (;;) {
        run_due(fs);
        int64_t due_ns = next_due(fs, until_ns);
        int64_t now_ns = snib__now().boot_ns;
        if (wanted || now_ns >= until_ns) {
            return;
        }
        bool deaf = snib__file_reactor_open(fs) != 0;
        if (deaf && due_ns > now_ns + POLL_NS) {
            due_ns = now_ns + POLL_NS;
        }
        struct pollfd poll = {.fd = fs->epoll, .events = POLLIN};
        fs->sleeping_until = due_ns;
        wanted = snib__sleep(session, &poll, deaf ? 0 : 1, due_ns);
        fs->sleeping_until = INT64_MIN;
        if (poll.revents) {
            hear(fs);
        }
    }
}
