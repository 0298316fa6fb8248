/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the waiting thread waits for: descriptors and timers.
 *
 * One epoll descriptor per session, made when the first claim has to wait, and beside it one that
 * is polled directly. Whoever adds a descriptor says what to do when it is ready; this file knows
 * neither bells nor processes.
 *
 * While a thread sleeps in drive, others may submit what needs a nearer timer: they kick it.
 */
#include "engines/file/waking.h"

#include "base/list.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS 16
#define POLL_NS (5 * SNIB__MS) /* when there is no descriptor to be had */

static void on_kick(struct source *source)
{
    struct waking *w = SNIB__OF(source, struct waking, kicked);
    uint64_t count;
    ssize_t got = read(w->kick, &count, sizeof count);
    (void)got;
}

void snib__file_waking_init(struct waking *w)
{
    w->epoll = w->kick = w->ear = -1;
    w->kicked.ready = on_kick;
    w->sleeping_until = INT64_MIN;
}

static int add_to(int epoll, int fd, struct source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

int snib__file_waking_open(struct waking *w)
{
    if (w->epoll >= 0) {
        return 0;
    }
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int kick = epoll < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (kick < 0 || add_to(epoll, kick, &w->kicked) < 0) {
        int sys = errno;
        if (epoll >= 0) {
            close(epoll);
        }
        if (kick >= 0) {
            close(kick);
        }
        return sys;
    }
    w->epoll = epoll;
    w->kick = kick;
    return 0;
}

/* In a forked child too: closes and forgets, and changes nothing in what is shared. */
void snib__file_waking_close(struct waking *w)
{
    int *const fds[] = {&w->kick, &w->epoll};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (*fds[i] >= 0) {
            close(*fds[i]);
            *fds[i] = -1;
        }
    }
    w->ear = -1;
    free(w->timers.heap);
    w->timers = (struct snib__timers){.heap = NULL};
}

int snib__file_waking_add(struct waking *w, int fd, struct source *source)
{
    int sys = snib__file_waking_open(w);
    return sys == 0 && add_to(w->epoll, fd, source) < 0 ? errno : sys;
}

void snib__file_waking_remove(struct waking *w, int fd)
{
    epoll_ctl(w->epoll, EPOLL_CTL_DEL, fd, NULL);
}

static void kick(const struct waking *w)
{
    uint64_t one = 1;
    ssize_t n = write(w->kick, &one, sizeof one); /* full means kicked already */
    (void)n;
}

/* A thread that sleeps already does not wait for it yet. */
void snib__file_waking_hear(struct waking *w, int fd, struct source *source)
{
    w->ear = fd;
    w->heard = source;
    if (fd >= 0 && w->sleeping_until != INT64_MIN && w->kick >= 0) {
        kick(w);
    }
}

void snib__file_waking_at(struct waking *w, struct snib__timer *timer, int64_t due_ns)
{
    snib__timer_set(&w->timers, timer, due_ns);
    if (due_ns >= w->sleeping_until || w->kick < 0) {
        return;
    }
    w->sleeping_until = due_ns;
    kick(w);
}

static void handle_ready(const struct waking *w)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(w->epoll, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        struct source *source = events[i].data.ptr;
        source->ready(source);
    }
}

bool snib__file_waking_sleep(struct waking *w, struct snib__session *session, int64_t until_ns)
{
    bool deaf = snib__file_waking_open(w) != 0;
    if (deaf) {
        int64_t soon_ns = snib__now().boot_ns + POLL_NS;
        until_ns = soon_ns < until_ns ? soon_ns : until_ns;
    }
    struct pollfd polls[] = {{.fd = w->ear, .events = POLLIN}, {.fd = w->epoll, .events = POLLIN}};
    w->sleeping_until = until_ns;
    bool wanted = snib__sleep(session, polls, 2, until_ns); /* poll passes what is negative */
    w->sleeping_until = INT64_MIN;
    if (polls[0].revents) {
        w->heard->ready(w->heard);
    }
    if (polls[1].revents) {
        handle_ready(w);
    }
    return wanted;
}
