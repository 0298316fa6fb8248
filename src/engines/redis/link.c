/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to one Redis server.
 *
 * Requests are appended to one buffer and to a ring; replies are handed out by position. Whoever
 * submits sends, so that nobody is woken for it: one thread alone pays no hand-over, and many fill
 * the connection by themselves. What the socket does not take at once is sent by the driver.
 *
 * Time-outs. A request whose time is over is answered "unknown" and its reply, if it still comes,
 * is dropped by position: callers in a hurry do not cost others their connection. Only silence
 * ends a connection: not one byte for the whole time-out while something was asked. So one
 * connection is enough for renewals too: everything on it is one short script, and nothing on it
 * can take longer than a time-out without the connection being replaced.
 *
 * What was written may be executed even if the connection is gone a moment later, so a loss says of
 * each request whether it may have been. An idle connection is looked at before it is used again:
 * a server that closed it meanwhile costs a reconnect, not an unknown answer.
 */
#include "engines/redis/link.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS SNIB__MS
#define STALE_NS (50 * MS) /* idle for longer: look before use */
#define RING_FIRST 16

void snib__link_init(struct snib__redis_link *l, const struct snib__redis_link_calls *calls,
                     const struct snib__redis_peer *peer, void *owner)
{
    *l = (struct snib__redis_link){.calls = calls, .peer = peer, .owner = owner, .fd = -1};
    l->dial.fd = -1;
}

bool snib__link_idle(const struct snib__redis_link *l)
{
    return l->count == 0;
}

bool snib__link_clear(const struct snib__redis_link *l)
{
    return l->state == SNIB__LINK_UP && !l->broken && snib__buffer_left(&l->out) == 0;
}

/* ---- The ring --------------------------------------------------------------------------- */

static struct snib__redis_request *at(const struct snib__redis_link *l, size_t index)
{
    return &l->ring[(l->first + index) & (l->room - 1)];
}

static bool make_room(struct snib__redis_link *l)
{
    if (l->count < l->room) {
        return true;
    }
    size_t room = l->room ? l->room * 2 : RING_FIRST;
    struct snib__redis_request *ring = malloc(room * sizeof *ring);
    if (!ring) {
        return false;
    }
    for (size_t i = 0; i < l->count; i++) {
        ring[i] = *at(l, i);
    }
    free(l->ring);
    l->ring = ring;
    l->room = room;
    l->first = 0;
    return true;
}

static struct snib__redis_request pop(struct snib__redis_link *l)
{
    struct snib__redis_request request = *at(l, 0);
    l->first = (l->first + 1) & (l->room - 1);
    l->count--;
    l->abandoned -= l->abandoned > 0;
    return request;
}

void snib__link_drop(struct snib__redis_link *l, void *subject)
{
    for (size_t i = 0; i < l->count; i++) {
        if (at(l, i)->subject == subject) {
            at(l, i)->subject = NULL;
        }
    }
}

/* ---- Beginning and end ------------------------------------------------------------------ */

static void reset(struct snib__redis_link *l)
{
    snib__dial_end(&l->dial);
    if (l->fd >= 0) {
        close(l->fd);
    }
    snib__reader_free(l->reader);
    snib__buffer_free(&l->out);
    l->fd = -1;
    l->reader = NULL;
    l->state = SNIB__LINK_DOWN;
    l->broken = l->retires = l->alien = false;
    l->appended = l->written = 0;
}

void snib__link_close(struct snib__redis_link *l)
{
    reset(l);
    free(l->ring);
    l->ring = NULL;
    l->first = l->count = l->room = l->abandoned = 0;
}

void snib__link_lose(struct snib__redis_link *l, enum snib__redis_loss how, int sys,
                     const char *why)
{
    struct snib__redis_request *ring = l->ring;
    size_t first = l->first, count = l->count, room = l->room;
    uint64_t written = l->written;
    l->sys = sys;
    snprintf(l->why, sizeof l->why, "%s", why);
    /* What is told may ask anew: by then this is a link that is down, with an empty ring. */
    l->ring = NULL;
    l->first = l->count = l->room = l->abandoned = 0;
    reset(l);
    for (size_t i = 0; i < count; i++) {
        struct snib__redis_request *r = &ring[(first + i) & (room - 1)];
        l->calls->lost(l, r, r->starts >= written && how == SNIB__CUT ? SNIB__UNSENT : how);
    }
    free(ring);
    l->calls->down(l);
}

void snib__link_dial(struct snib__redis_link *l)
{
    if (l->state != SNIB__LINK_DOWN) {
        return;
    }
    l->dialled_ns = l->heard_ns = snib__now().boot_ns;
    l->state = SNIB__LINK_DIALLING;
    if (l->peer->host) {
        snib__dial_tcp(&l->dial, l->peer->host, l->peer->port, 2 * l->peer->timeout_ms);
    } else {
        snib__dial_unix(&l->dial, l->peer->path);
    }
    l->calls->greet(l);
}

/* ---- Sending ---------------------------------------------------------------------------- */

/* "*3\r\n" or "$11\r\n" */
static char *put_number(char *to, char sort, size_t number)
{
    char digits[24];
    int n = 0;
    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    *to++ = sort;
    while (n > 0) {
        *to++ = digits[--n];
    }
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

/* One command, straight into the buffer. hiredis would make it in memory of its own with a printf
 * for each argument, which is most of what a renewal costs. */
static bool append(struct snib__redis_link *l, int argc, const char **argv, const size_t *sizes)
{
    size_t most = 32;
    for (int i = 0; i < argc; i++) {
        most += 32 + sizes[i];
    }
    if (!snib__buffer_reserve(&l->out, most)) {
        return false;
    }
    char *start = l->out.bytes + l->out.to;
    char *to = put_number(start, '*', (size_t)argc);
    for (int i = 0; i < argc; i++) {
        to = put_number(to, '$', sizes[i]);
        memcpy(to, argv[i], sizes[i]);
        to += sizes[i];
        *to++ = '\r';
        *to++ = '\n';
    }
    l->out.to += (size_t)(to - start);
    l->appended += (uint64_t)(to - start);
    return true;
}

/* Has the server closed an idle connection? It must not have said anything either. */
static void look_before_use(struct snib__redis_link *l)
{
    char byte;
    if (l->state != SNIB__LINK_UP || l->count || l->listens || l->receiving ||
        snib__now().boot_ns - l->heard_ns < STALE_NS) {
        return;
    }
    ssize_t n = recv(l->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        snib__link_lose(l, SNIB__CUT, n < 0 ? errno : 0, "the server closed an idle connection");
    }
}

bool snib__link_ask(struct snib__redis_link *l, const struct snib__redis_request *request, int argc,
                    const char **argv, const size_t *sizes)
{
    look_before_use(l);
    snib__link_dial(l);
    if (!make_room(l)) {
        return false;
    }
    uint64_t starts = l->appended;
    if (!append(l, argc, argv, sizes)) {
        return false;
    }
    l->count++;
    struct snib__redis_request *r = at(l, l->count - 1);
    *r = *request;
    r->starts = starts;
    return true;
}

bool snib__link_say(struct snib__redis_link *l, int argc, const char **argv, const size_t *sizes)
{
    return append(l, argc, argv, sizes);
}

void snib__link_flush(struct snib__redis_link *l)
{
    while (l->state == SNIB__LINK_UP && !l->broken && snib__buffer_left(&l->out) > 0) {
        ssize_t n = send(l->fd, l->out.bytes + l->out.from, snib__buffer_left(&l->out),
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            l->broken = errno != EAGAIN && errno != EWOULDBLOCK;
            l->sys = l->broken ? errno : 0;
            return;
        }
        l->written += (uint64_t)n;
        snib__buffer_take(&l->out, (size_t)n);
    }
}

/* ---- Receiving -------------------------------------------------------------------------- */

/* All whole replies that are there. False: not the protocol. */
static bool hand_out(struct snib__redis_link *l)
{
    const struct snib__reply *reply;
    int rc;
    l->receiving = true; /* whoever asks from here must not end this connection */
    while ((rc = snib__reader_next(l->reader, &reply)) == 1) {
        if (l->listens) {
            l->calls->reply(l, NULL, reply);
        } else if (l->count > 0) {
            struct snib__redis_request request = pop(l);
            l->calls->reply(l, &request, reply);
        } else {
            rc = -1; /* an answer to nothing: we have lost count */
            break;
        }
    }
    l->receiving = false;
    return rc == 0 && !l->alien;
}

static void receive(struct snib__redis_link *l)
{
    char bytes[16384];
    for (;;) {
        ssize_t n = recv(l->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n == 0) {
            snib__link_lose(l, SNIB__CUT, 0, "the server closed the connection");
            return;
        }
        if (n < 0) {
            char text[64];
            if (errno == EINTR) {
                continue;
            }
            if (errno != EAGAIN && errno != EWOULDBLOCK) {
                int sys = errno;
                snib__link_lose(l, SNIB__CUT, sys, strerror_r(sys, text, sizeof text));
            }
            return;
        }
        l->heard_ns = snib__now().boot_ns;
        if (!snib__reader_feed(l->reader, bytes, (size_t)n) || !hand_out(l)) {
            snib__link_lose(l, SNIB__CUT, 0, "the server does not speak the Redis protocol");
            return;
        }
        if ((size_t)n < sizeof bytes) {
            return;
        }
    }
}

/* ---- Driving ---------------------------------------------------------------------------- */

bool snib__link_poll(const struct snib__redis_link *l, struct pollfd *p)
{
    if (l->state == SNIB__LINK_DIALLING) {
        *p = snib__dial_poll(&l->dial);
        return p->fd >= 0;
    }
    if (l->state == SNIB__LINK_UP) {
        *p = (struct pollfd){.fd = l->fd, .events = POLLIN};
        if (snib__buffer_left(&l->out) > 0) {
            p->events |= POLLOUT;
        }
        return true;
    }
    return false;
}

static void dial_step(struct snib__redis_link *l)
{
    switch (snib__dial_step(&l->dial, &l->fd)) {
    case SNIB__DIAL_GOING:
        return;
    case SNIB__DIAL_FAILED:
        snib__link_lose(l, SNIB__UNREACHED, l->dial.sys, l->dial.why);
        return;
    case SNIB__DIAL_DONE:
        break;
    }
    snib__dial_end(&l->dial);
    l->reader = snib__reader_new();
    if (!l->reader) {
        snib__link_lose(l, SNIB__UNREACHED, ENOMEM, "out of memory");
        return;
    }
    l->state = SNIB__LINK_UP;
    l->heard_ns = snib__now().boot_ns;
    snib__link_flush(l);
}

void snib__link_step(struct snib__redis_link *l, short revents)
{
    if (l->state == SNIB__LINK_DIALLING) {
        dial_step(l);
    } else if (l->state == SNIB__LINK_UP && revents & (POLLIN | POLLHUP | POLLERR)) {
        receive(l);
    }
    snib__link_flush(l);
    if (l->broken) {
        char text[64];
        int sys = l->sys;
        snib__link_lose(l, SNIB__CUT, sys, strerror_r(sys, text, sizeof text));
    } else if (l->retires && l->count == 0) {
        char why[sizeof l->why];
        memcpy(why, l->why, sizeof why);
        snib__link_lose(l, SNIB__CUT, 0, why);
    }
}

/* When silence ends the connection. */
static int64_t silent_ns(const struct snib__redis_link *l)
{
    int64_t from = at(l, 0)->sent.boot_ns;
    from = from > l->heard_ns ? from : l->heard_ns;
    return from + l->peer->timeout_ms * MS;
}

void snib__link_expire(struct snib__redis_link *l, int64_t now_ns)
{
    char why[80];
    double seconds = (double)l->peer->timeout_ms / 1000;
    if (l->state == SNIB__LINK_DIALLING && now_ns >= l->dialled_ns + l->peer->timeout_ms * MS) {
        snprintf(why, sizeof why, "no connection within %.1f s", seconds);
        snib__link_lose(l, SNIB__UNREACHED, ETIMEDOUT, why);
        return;
    }
    if (l->state == SNIB__LINK_UP && l->count > 0 && now_ns >= silent_ns(l)) {
        snprintf(why, sizeof why, "no answer for %.1f s", seconds);
        snib__link_lose(l, SNIB__SILENT, ETIMEDOUT, why);
        return;
    }
    while (l->state == SNIB__LINK_UP && l->abandoned < l->count &&
           now_ns >= at(l, l->abandoned)->due_ns) {
        l->abandoned++;
        l->calls->lost(l, at(l, l->abandoned - 1), SNIB__TOO_LATE);
    }
}

int64_t snib__link_next(const struct snib__redis_link *l)
{
    if (l->state == SNIB__LINK_DIALLING) {
        return l->dialled_ns + l->peer->timeout_ms * MS;
    }
    if (l->state != SNIB__LINK_UP || l->count == 0) {
        return SNIB__NEVER;
    }
    int64_t next = silent_ns(l);
    if (l->abandoned < l->count && at(l, l->abandoned)->due_ns < next) {
        next = at(l, l->abandoned)->due_ns;
    }
    return next;
}
