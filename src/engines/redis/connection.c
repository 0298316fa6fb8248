/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to one Redis server.
 *
 * Calls are appended to one buffer and to a ring; replies are handed out by position. Whoever
 * submits sends, so that nobody is woken for it: one thread alone pays no hand-over, and many fill
 * the connection by themselves. What the socket does not take at once is sent by the driver.
 *
 * Time-outs. A call whose time is over is answered "unknown" and its reply, if it still comes, is
 * dropped by position: callers in a hurry do not cost others their connection. Only silence ends a
 * connection: not one byte for the whole time-out while something was asked. So one connection is
 * enough for renewals too: everything on it is one short script, and nothing on it can take longer
 * than a time-out without the connection being replaced.
 *
 * What was written may be executed even if the connection is gone a moment later, so a loss says of
 * each call whether it may have been. An idle connection is tested before it is used again: a
 * server that closed it meanwhile costs a reconnect, not an unknown answer.
 *
 * The gate keeps back what must not leave before the server has let us in. Behind it a call waits
 * as any other; if the gate never opens, it was never sent.
 */
#include "engines/redis/connection.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRIPS_MOST 4             /* time-outs that one answer may take, however busily it arrives */
#define STALE_NS (50 * SNIB__MS) /* idle for longer: test it before use */
#define REDIAL_NS (20 * SNIB__MS) /* a Unix socket whose queue is full */
#define RING_FIRST 16
#define TLS_ALERT 21 /* the first byte of what a server with TLS says to those without */
#define GATE_OPEN UINT64_MAX

void snib__connection_init(struct snib__connection *c,
                           const struct snib__connection_upcalls *upcalls,
                           const struct snib__address *address, void *owner)
{
    *c = (struct snib__connection){
        .upcalls = upcalls, .address = address, .owner = owner, .fd = -1, .gate = GATE_OPEN};
    c->dial.fd = -1;
}

bool snib__connection_idle(const struct snib__connection *c)
{
    return c->count == 0;
}

bool snib__connection_clear(const struct snib__connection *c)
{
    return c->state == SNIB__CONNECTION_UP && !c->ending && snib__buffer_left(&c->out) == 0;
}

/* ---- The ring --------------------------------------------------------------------------- */

static struct snib__redis_call *at(const struct snib__connection *c, size_t index)
{
    return &c->ring[(c->first + index) & (c->room - 1)];
}

static bool make_room(struct snib__connection *c)
{
    if (c->count < c->room) {
        return true;
    }
    size_t room = c->room ? c->room * 2 : RING_FIRST;
    struct snib__redis_call *ring = malloc(room * sizeof *ring);
    if (!ring) {
        return false;
    }
    for (size_t i = 0; i < c->count; i++) {
        ring[i] = *at(c, i);
    }
    free(c->ring);
    c->ring = ring;
    c->room = room;
    c->first = 0;
    return true;
}

static struct snib__redis_call pop(struct snib__connection *c)
{
    struct snib__redis_call call = *at(c, 0);
    c->first = (c->first + 1) & (c->room - 1);
    c->count--;
    c->abandoned -= c->abandoned > 0;
    return call;
}

void snib__connection_drop(struct snib__connection *c, void *subject)
{
    for (size_t i = 0; i < c->count; i++) {
        if (at(c, i)->subject == subject) {
            at(c, i)->subject = NULL;
        }
    }
    for (size_t i = 0; i < c->lost_room; i++) {
        if (c->lost[i].subject == subject) {
            c->lost[i].subject = NULL;
        }
    }
}

/* ---- Beginning and end ------------------------------------------------------------------ */

static void reset(struct snib__connection *c)
{
    snib__dial_end(&c->dial);
    snib__stream_close(c->stream);
    if (c->fd >= 0) {
        close(c->fd);
    }
    snib__reader_free(c->reader);
    snib__buffer_free(&c->out);
    c->fd = -1;
    c->stream = NULL;
    c->reader = NULL;
    c->state = SNIB__CONNECTION_DOWN;
    c->seeking = false;
    c->listens = c->ending = c->retiring = c->leaving = c->answered = false;
    c->appended = c->written = c->offered = 0;
    c->gate = GATE_OPEN;
    c->redial_ns = 0;
}

void snib__connection_close(struct snib__connection *c)
{
    reset(c);
    free(c->ring);
    c->ring = NULL;
    c->first = c->count = c->room = c->abandoned = 0;
}

static void explain(struct snib__connection *c, int sys, const char *why)
{
    c->sys = sys;
    if (why != c->why) {
        snprintf(c->why, sizeof c->why, "%s", why);
    }
}

void snib__connection_retire(struct snib__connection *c, const char *why)
{
    if (c->state != SNIB__CONNECTION_DOWN && !c->ending) {
        c->retiring = true;
        explain(c, 0, why);
    }
}

/* What has begun to leave must leave as a whole; the gate is shut behind it. */
void snib__connection_leave(struct snib__connection *c, const char *why)
{
    size_t sent = 0;
    if (c->state != SNIB__CONNECTION_UP || c->ending || c->leaving) {
        return;
    }
    while (sent < c->count && at(c, sent)->starts < c->offered) {
        sent++;
    }
    c->gate = sent < c->count ? at(c, sent)->starts : c->appended;
    c->leaving = true;
    explain(c, 0, why);
}

void snib__connection_end(struct snib__connection *c, enum snib__loss how, int sys, const char *why)
{
    if (c->state != SNIB__CONNECTION_DOWN && !c->ending) {
        c->ending = true;
        c->how = how;
        explain(c, sys, why);
    }
}

void snib__connection_lose(struct snib__connection *c, enum snib__loss how, int sys,
                           const char *why)
{
    struct snib__redis_call *ring = c->ring;
    size_t first = c->first, count = c->count, room = c->room;
    uint64_t offered = c->offered;
    bool kept_back = how == SNIB__LOSS_CUT || (how == SNIB__LOSS_SILENT && c->leaving);
    explain(c, sys, why);
    /* Those who are told may ask anew: by then this is a connection that is down, and its ring is
     * empty. */
    c->ring = NULL;
    c->first = c->count = c->room = c->abandoned = 0;
    c->lost = ring; /* and may want to hear no more */
    c->lost_room = room;
    reset(c);
    for (size_t i = 0; i < count; i++) {
        struct snib__redis_call *call = &ring[(first + i) & (room - 1)];
        bool unsent = call->starts >= offered && kept_back;
        c->upcalls->lost(c, call, unsent ? SNIB__LOSS_UNSENT : how);
    }
    c->lost = NULL;
    c->lost_room = 0;
    free(ring);
    c->upcalls->down(c);
}

static void dial(struct snib__connection *c)
{
    const struct snib__address *a = c->address;
    c->redial_ns = 0;
    if (a->host) {
        snib__dial_tcp(&c->dial, a->host, a->port, 2 * a->timeout_ms);
    } else {
        snib__dial_unix(&c->dial, a->path);
    }
}

void snib__connection_dial(struct snib__connection *c)
{
    if (c->state != SNIB__CONNECTION_DOWN) {
        return;
    }
    c->dialled_ns = c->heard_ns = snib__now().boot_ns;
    c->state = SNIB__CONNECTION_DIALLING;
    c->seeking = c->address->sought;
    if (!c->seeking) {
        dial(c);
    }
    c->upcalls->greet(c);
}

void snib__connection_go(struct snib__connection *c)
{
    if (c->seeking) {
        c->seeking = false;
        c->dialled_ns = c->heard_ns = snib__now().boot_ns;
        dial(c);
    }
}

/* ---- Sending ---------------------------------------------------------------------------- */

void snib__connection_shut_gate(struct snib__connection *c)
{
    c->gate = c->appended;
}

void snib__connection_open_gate(struct snib__connection *c)
{
    c->gate = GATE_OPEN;
}

static bool append(struct snib__connection *c, const struct snib__command *command)
{
    size_t before = snib__buffer_left(&c->out);
    if (!snib__command_put(command, &c->out)) {
        return false;
    }
    c->appended += snib__buffer_left(&c->out) - before;
    return true;
}

/* Before an idle connection is used: has the server closed it, or did we want to? The server must
 * not have said anything either. */
static void test_before_use(struct snib__connection *c)
{
    char byte;
    if (c->state != SNIB__CONNECTION_UP || c->count || c->receiving) {
        return;
    }
    if (c->retiring || c->leaving) {
        snib__connection_lose(c, SNIB__LOSS_CUT, 0, c->why);
        return;
    }
    if (c->listens || snib__now().boot_ns - c->heard_ns < STALE_NS) {
        return;
    }
    size_t got;
    if (snib__stream_read(c->stream, &byte, 1, &got) != SNIB__STREAM_WANTS_READ) {
        snib__connection_lose(c, SNIB__LOSS_CUT, snib__stream_sys(c->stream),
                              "the server closed an idle connection");
    }
}

bool snib__connection_ask(struct snib__connection *c, const struct snib__redis_call *call,
                          const struct snib__command *command)
{
    test_before_use(c);
    snib__connection_dial(c);
    if (!make_room(c)) {
        return false;
    }
    uint64_t starts = c->appended;
    if (!append(c, command)) {
        return false;
    }
    c->count++;
    struct snib__redis_call *last = at(c, c->count - 1);
    *last = *call;
    last->starts = starts;
    return true;
}

bool snib__connection_say(struct snib__connection *c, const struct snib__command *command)
{
    return append(c, command);
}

/* Cut off before a first answer: a port for TLS does that to those without, and one that asks for
 * certificates to those who have shown none (what it says about that is often lost by the cut). */
static void end_cut(struct snib__connection *c, int sys, const char *how)
{
    char why[sizeof c->why];
    const char *guess = "";
    if (!c->answered && c->address->host) {
        guess = c->address->tls ? " (does it want another certificate, cert=?)"
                                : " (does it want TLS, rediss:?)";
    }
    snprintf(why, sizeof why, "%.200s%s", how, guess);
    snib__connection_end(c, SNIB__LOSS_CUT, sys, why);
}

static void end_broken(struct snib__connection *c)
{
    end_cut(c, snib__stream_sys(c->stream), snib__stream_why(c->stream));
}

/* Bytes that may leave now. */
static size_t sendable(const struct snib__connection *c)
{
    size_t left = snib__buffer_left(&c->out);
    uint64_t open = c->gate - c->written;
    return open < left ? (size_t)open : left;
}

void snib__connection_flush(struct snib__connection *c)
{
    size_t size, put;
    while (c->state == SNIB__CONNECTION_UP && !c->ending && (size = sendable(c)) > 0) {
        c->offered = c->written + size;
        enum snib__streamed now =
            snib__stream_write(c->stream, c->out.bytes + c->out.from, size, &put);
        if (now == SNIB__STREAM_FAILED) {
            end_broken(c);
        }
        if (now != SNIB__STREAM_DONE) {
            break;
        }
        c->written += put;
        snib__buffer_take(&c->out, put);
    }
    if (!c->address->tls) {
        c->offered = c->written;
    }
}

/* ---- Receiving -------------------------------------------------------------------------- */

/* What is no reply. If there never was one, this is no Redis server, and nothing was executed. */
static void end_alien(struct snib__connection *c, const char *why)
{
    snib__connection_end(c, c->answered ? SNIB__LOSS_CUT : SNIB__LOSS_ALIEN, 0, why);
}

/* All whole replies that are there, unless one of them ends the connection. */
static void hand_out(struct snib__connection *c)
{
    const struct snib__reply *reply;
    int rc = 0;
    c->receiving = true; /* whoever asks from here must not end this connection */
    while (!c->ending && (rc = snib__reader_next(c->reader, &reply)) == 1) {
        c->answered = true;
        if (c->listens) {
            c->upcalls->reply(c, NULL, reply);
        } else if (c->count > 0) {
            struct snib__redis_call call = pop(c);
            c->upcalls->reply(c, &call, reply);
        } else {
            snib__connection_end(c, SNIB__LOSS_CUT, 0, "the server answered what was not asked");
        }
    }
    c->receiving = false;
    if (rc < 0 && !c->ending) {
        end_alien(c, "this is not a Redis server: it speaks another protocol");
    }
}

/* Until nothing more is there, or known to be there. */
static void receive(struct snib__connection *c)
{
    char bytes[16384];
    size_t got = sizeof bytes;
    while (!c->ending && (got == sizeof bytes || snib__stream_pending(c->stream) > 0)) {
        switch (snib__stream_read(c->stream, bytes, sizeof bytes, &got)) {
        case SNIB__STREAM_DONE:
            c->heard_ns = snib__now().boot_ns;
            if (!c->answered && bytes[0] == TLS_ALERT) {
                end_alien(c, "this port speaks TLS: rediss: instead of redis:");
            } else if (snib__reader_feed(c->reader, bytes, got)) {
                hand_out(c);
            } else {
                end_alien(c, "an answer of the server is larger than any can be");
            }
            break;
        case SNIB__STREAM_WANTS_READ:
        case SNIB__STREAM_WANTS_WRITE:
            return;
        case SNIB__STREAM_END:
            end_cut(c, 0, "the server closed the connection");
            break;
        case SNIB__STREAM_FAILED:
            end_broken(c);
            break;
        }
    }
}

/* ---- Driving ---------------------------------------------------------------------------- */

bool snib__connection_poll(const struct snib__connection *c, struct pollfd *p)
{
    if (c->state == SNIB__CONNECTION_DIALLING && !c->seeking) {
        *p = snib__dial_poll(&c->dial);
        return p->fd >= 0;
    }
    if (c->state == SNIB__CONNECTION_DOWN || c->seeking) {
        return false;
    }
    bool to_write = c->state == SNIB__CONNECTION_UP && sendable(c) > 0;
    *p = (struct pollfd){.fd = c->fd, .events = snib__stream_events(c->stream, to_write)};
    return true;
}

bool snib__connection_ready(const struct snib__connection *c)
{
    struct pollfd none;
    return c->ending || (c->state == SNIB__CONNECTION_DIALLING && c->redial_ns == 0 &&
                         !c->seeking && !snib__connection_poll(c, &none));
}

static void dial_failed(struct snib__connection *c)
{
    int sys = c->dial.sys;
    if (!c->address->host && (sys == EAGAIN || sys == EWOULDBLOCK)) {
        c->redial_ns = snib__now().boot_ns + REDIAL_NS; /* it is there, and its queue is full */
        return;
    }
    snib__connection_lose(c, SNIB__LOSS_UNREACHED, sys, c->dial.why);
}

static void start_step(struct snib__connection *c)
{
    switch (snib__stream_start(c->stream)) {
    case SNIB__STREAM_DONE:
        c->state = SNIB__CONNECTION_UP;
        c->heard_ns = snib__now().boot_ns;
        break;
    case SNIB__STREAM_WANTS_READ:
    case SNIB__STREAM_WANTS_WRITE:
        break;
    case SNIB__STREAM_END:
    case SNIB__STREAM_FAILED: {
        char why[sizeof c->why];
        int sys = snib__stream_sys(c->stream);
        snprintf(why, sizeof why, "%s", snib__stream_why(c->stream));
        snib__connection_lose(c, SNIB__LOSS_UNREACHED, sys, why);
        break;
    }
    }
}

static void dial_step(struct snib__connection *c)
{
    switch (snib__dial_step(&c->dial, &c->fd)) {
    case SNIB__DIAL_GOING:
        return;
    case SNIB__DIAL_FAILED:
        dial_failed(c);
        return;
    case SNIB__DIAL_DONE:
        break;
    }
    const struct snib__address *a = c->address;
    snib__dial_end(&c->dial);
    c->stream = snib__stream_open(c->fd, a->tls, a->host ? a->host : "localhost");
    c->reader = snib__reader_new();
    if (!c->stream || !c->reader) {
        snib__connection_lose(c, SNIB__LOSS_UNREACHED, ENOMEM, "out of memory");
        return;
    }
    c->state = SNIB__CONNECTION_STARTING;
    start_step(c);
}

/* Has everything been answered that will be? */
static bool is_done_with(const struct snib__connection *c)
{
    if (c->leaving) {
        return c->count == 0 || at(c, 0)->starts >= c->gate;
    }
    return c->retiring && c->count == 0;
}

void snib__connection_step(struct snib__connection *c, short revents)
{
    if (c->state == SNIB__CONNECTION_DIALLING && !c->seeking) {
        dial_step(c);
    } else if (c->state == SNIB__CONNECTION_STARTING) {
        start_step(c);
    } else if (c->state == SNIB__CONNECTION_UP &&
               revents & (POLLIN | POLLHUP | POLLERR | (c->address->tls ? POLLOUT : 0))) {
        receive(c);
    }
    snib__connection_flush(c);
    if (c->ending) {
        snib__connection_lose(c, c->how, c->sys, c->why);
    } else if (is_done_with(c)) {
        snib__connection_lose(c, SNIB__LOSS_CUT, 0, c->why);
    }
}

/* What became ready may be others', too. */
void snib__connection_poll_step(struct snib__connection *c, const struct pollfd fds[], size_t n)
{
    struct pollfd own;
    short revents = 0;
    if (snib__connection_poll(c, &own)) {
        for (size_t i = 0; i < n; i++) {
            revents |= fds[i].fd == own.fd ? fds[i].revents : 0;
        }
    }
    if (revents || snib__connection_ready(c)) {
        snib__connection_step(c, revents);
    }
}

/* When silence, or what is no better, ends the connection. */
static int64_t silent_ns(const struct snib__connection *c)
{
    int64_t from = at(c, 0)->sent.boot_ns;
    int64_t timeout_ns = c->address->timeout_ms * SNIB__MS;
    int64_t latest_ns = from + DRIPS_MOST * timeout_ns; /* bytes that never become an answer */
    from = from > c->heard_ns ? from : c->heard_ns;
    return from + timeout_ns < latest_ns ? from + timeout_ns : latest_ns;
}

static int64_t dialled_by_ns(const struct snib__connection *c)
{
    return c->dialled_ns + c->address->timeout_ms * SNIB__MS;
}

static void expire_dial(struct snib__connection *c, int64_t now_ns)
{
    char why[80];
    if (now_ns >= dialled_by_ns(c)) {
        snprintf(why, sizeof why, "no %s within %.1f s",
                 c->state == SNIB__CONNECTION_STARTING
                     ? "answer to the beginning of TLS (is this a port without?)"
                     : "connection",
                 (double)c->address->timeout_ms / 1000);
        snib__connection_lose(c, SNIB__LOSS_UNREACHED, ETIMEDOUT, why);
    } else if (c->redial_ns && now_ns >= c->redial_ns) {
        snib__dial_end(&c->dial);
        dial(c);
    }
}

void snib__connection_expire(struct snib__connection *c, int64_t now_ns)
{
    char why[80];
    if (c->state == SNIB__CONNECTION_DIALLING || c->state == SNIB__CONNECTION_STARTING) {
        expire_dial(c, now_ns);
        return;
    }
    if (c->state == SNIB__CONNECTION_UP && c->count > 0 && now_ns >= silent_ns(c)) {
        snprintf(why, sizeof why, "no answer for %.1f s", (double)c->address->timeout_ms / 1000);
        snib__connection_lose(c, SNIB__LOSS_SILENT, ETIMEDOUT, why);
        return;
    }
    while (c->state == SNIB__CONNECTION_UP && c->abandoned < c->count &&
           now_ns >= at(c, c->abandoned)->due_ns) {
        c->abandoned++;
        c->upcalls->lost(c, at(c, c->abandoned - 1), SNIB__LOSS_TOO_LATE);
    }
}

int64_t snib__connection_next(const struct snib__connection *c)
{
    if (c->state == SNIB__CONNECTION_DIALLING || c->state == SNIB__CONNECTION_STARTING) {
        int64_t limit = dialled_by_ns(c);
        return c->redial_ns && c->redial_ns < limit ? c->redial_ns : limit;
    }
    if (c->state != SNIB__CONNECTION_UP || c->count == 0) {
        return SNIB__NEVER;
    }
    int64_t next = silent_ns(c);
    if (c->abandoned < c->count && at(c, c->abandoned)->due_ns < next) {
        next = at(c, c->abandoned)->due_ns;
    }
    return next;
}
