/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting without blocking: look the name up, then try one address after the other.
 *
 * Sockets are close-on-exec and non-blocking from birth. TCP_NODELAY, because a request is one
 * write and its answer is waited for. TCP_USER_TIMEOUT and keep-alives, so that the kernel gives up
 * on a host that is gone, also while nobody asks anything; how long a caller waits is the caller's
 * business and is measured there.
 *
 * A Unix socket whose server is behind with accepting answers EAGAIN, and nothing that could be
 * polled tells when there is room: so a timer polls instead, and we knock again. After TCP's
 * example, a full house is no error, and it is the caller who loses patience.
 *
 * Not done: trying several addresses at once. A lock service that is reached by one address of
 * two costs the time of the first failure.
 */
#include "net/dial.h"

#include "base/clock.h"
#include "base/random.h"
#include "net/lookup.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#define KNOCK_FIRST_MS 1
#define KNOCK_MOST_MS 50

/* Waiting for room at a Unix socket. */
struct snib__knock {
    struct sockaddr_un address;
    int timer;
    int64_t pause_ms;
};

static void fail(struct snib__dial *d, int sys, const char *why)
{
    d->sys = sys;
    snprintf(d->why, sizeof d->why, "%s", why);
}

static void fail_sys(struct snib__dial *d, const char *what, int sys)
{
    char text[64];
    d->sys = sys;
    snprintf(d->why, sizeof d->why, "%s: %s", what, strerror_r(sys, text, sizeof text));
}

static void set(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof value); /* each of them is an extra */
}

static void tune(int fd, int64_t limit_ms)
{
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 15);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)limit_ms);
}

void snib__dial_tcp(struct snib__dial *d, const char *host, int port, int64_t limit_ms)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    char service[8];
    *d = (struct snib__dial){.fd = -1, .limit_ms = limit_ms};
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &hints, &d->list) == 0) {
        d->next = d->list;
        return;
    }
    d->list = NULL;
    d->lookup = snib__lookup_start(host, port);
    if (!d->lookup) {
        fail_sys(d, "cannot look the host up", errno);
    }
}

/* ---- Unix sockets ----------------------------------------------------------------------- */

static void knock_end(struct snib__dial *d)
{
    if (d->knock) {
        close(d->knock->timer);
        free(d->knock);
        d->knock = NULL;
    }
}

static void give_up(struct snib__dial *d, int sys)
{
    fail_sys(d, "connect", sys);
    snib__dial_end(d);
}

/* Have the timer poll readable after a while, each time a longer one. */
static bool knock_later(struct snib__knock *k)
{
    int64_t ns = snib__jitter(k->pause_ms * SNIB__MS);
    struct itimerspec when = {.it_value = {.tv_sec = 0, .tv_nsec = ns}};
    k->pause_ms = k->pause_ms * 2 < KNOCK_MOST_MS ? k->pause_ms * 2 : KNOCK_MOST_MS;
    return timerfd_settime(k->timer, 0, &when, NULL) == 0;
}

static bool knock_begin(struct snib__dial *d, const struct sockaddr_un *address)
{
    struct snib__knock *k = calloc(1, sizeof *k);
    if (!k) {
        return false;
    }
    k->address = *address;
    k->pause_ms = KNOCK_FIRST_MS;
    k->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (k->timer < 0) {
        free(k);
        return false;
    }
    d->knock = k;
    return knock_later(k);
}

/* Is it time, and is there room now? */
static void knock_again(struct snib__dial *d)
{
    struct snib__knock *k = d->knock;
    uint64_t rings;
    if (read(k->timer, &rings, sizeof rings) < 0 && errno == EAGAIN) {
        return;
    }
    if (connect(d->fd, (struct sockaddr *)&k->address, sizeof k->address) == 0) {
        knock_end(d);
    } else if (errno != EAGAIN || !knock_later(k)) {
        give_up(d, errno);
    }
}

void snib__dial_unix(struct snib__dial *d, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *d = (struct snib__dial){.fd = -1};
    if (strlen(path) >= sizeof address.sun_path) {
        fail_sys(d, "socket", ENAMETOOLONG);
        return;
    }
    strcpy(address.sun_path, path);
    d->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->fd >= 0 && connect(d->fd, (struct sockaddr *)&address, sizeof address) == 0) {
        return;
    }
    if (d->fd < 0 || errno != EAGAIN || !knock_begin(d, &address)) {
        give_up(d, errno);
    }
}

/* ---- Steps ------------------------------------------------------------------------------ */

struct pollfd snib__dial_poll(const struct snib__dial *d)
{
    if (d->lookup) {
        return (struct pollfd){.fd = snib__lookup_fd(d->lookup), .events = POLLIN};
    }
    if (d->knock) {
        return (struct pollfd){.fd = d->knock->timer, .events = POLLIN};
    }
    return (struct pollfd){.fd = d->fd, .events = POLLOUT};
}

/* Begin with the next address; false when there is none. */
static bool try_next(struct snib__dial *d)
{
    while (d->next) {
        struct addrinfo *a = d->next;
        d->next = a->ai_next;
        d->fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (d->fd < 0) {
            fail_sys(d, "socket", errno);
            continue;
        }
        tune(d->fd, d->limit_ms);
        if (connect(d->fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS) {
            return true;
        }
        fail_sys(d, "connect", errno);
        close(d->fd);
        d->fd = -1;
    }
    return false;
}

/* Has the present address been reached? */
static enum snib__dialled arrived(struct snib__dial *d)
{
    struct pollfd p = {.fd = d->fd, .events = POLLOUT};
    int sys = 0;
    socklen_t size = sizeof sys;
    if (poll(&p, 1, 0) == 0) {
        return SNIB__DIAL_GOING;
    }
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &sys, &size) < 0) {
        sys = errno;
    }
    if (sys == 0) {
        return SNIB__DIAL_DONE;
    }
    fail_sys(d, "connect", sys);
    close(d->fd);
    d->fd = -1;
    return SNIB__DIAL_FAILED;
}

enum snib__dialled snib__dial_step(struct snib__dial *d, int *fd)
{
    if (d->lookup) {
        int rc = 0;
        if (!snib__lookup_done(d->lookup, &d->list, &rc)) {
            return SNIB__DIAL_GOING;
        }
        snib__lookup_end(d->lookup);
        d->lookup = NULL;
        d->next = d->list;
        if (!d->list) {
            fail(d, 0, rc == EAI_NONAME ? "no such host" : gai_strerror(rc));
        }
    }
    if (d->knock) {
        knock_again(d);
        if (d->knock) {
            return SNIB__DIAL_GOING;
        }
    }
    for (;;) {
        if (d->fd >= 0) {
            enum snib__dialled now = arrived(d);
            if (now == SNIB__DIAL_DONE) {
                *fd = d->fd;
                d->fd = -1;
            }
            if (now != SNIB__DIAL_FAILED) {
                return now;
            }
        }
        if (!try_next(d)) {
            return SNIB__DIAL_FAILED;
        }
    }
}

void snib__dial_end(struct snib__dial *d)
{
    if (d->lookup) {
        snib__lookup_end(d->lookup);
    }
    knock_end(d);
    if (d->list) {
        freeaddrinfo(d->list);
    }
    if (d->fd >= 0) {
        close(d->fd);
    }
    d->lookup = NULL;
    d->list = d->next = NULL;
    d->fd = -1;
}
