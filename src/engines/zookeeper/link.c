/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to one ZooKeeper server.
 *
 * Requests are appended to one buffer and to a ring; the server answers in their order, and an
 * answer with another xid than the first of the ring ends the connection. Whoever submits sends;
 * what the socket does not take at once is sent by the driver. A connection ends when it is not up
 * in time, or is silent for as long while something is asked: then the next server is tried.
 *
 * Nothing is ended from inside an upcall: it is marked, and the next step does it. So an answer may
 * be followed by more requests, and the ring is whole while answers are handed out.
 */
#include "engines/zookeeper/link.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RING_FIRST 16
#define READ_SIZE 16384

void snib__zk_link_init(struct snib__zk_link *l, const struct snib__zk_link_upcalls *upcalls,
                        void *owner)
{
    *l = (struct snib__zk_link){.upcalls = upcalls, .owner = owner, .fd = -1};
    l->dial.fd = -1;
}

/* ---- The ring ----------------------------------------------------------------------------- */

static struct snib__zk_call *at(const struct snib__zk_link *l, size_t index)
{
    return &l->ring[(l->first + index) & (l->room - 1)];
}

bool snib__zk_link_expect(struct snib__zk_link *l, const struct snib__zk_call *call)
{
    if (l->count == l->room) {
        size_t room = l->room ? l->room * 2 : RING_FIRST;
        struct snib__zk_call *ring = malloc(room * sizeof *ring);
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
    }
    l->count++;
    *at(l, l->count - 1) = *call;
    if (!l->asked_ns) {
        l->asked_ns = call->sent.boot_ns;
    }
    return true;
}

void snib__zk_link_unexpect(struct snib__zk_link *l)
{
    l->count--;
}

void snib__zk_link_forget(struct snib__zk_link *l, const void *subject)
{
    for (size_t i = 0; i < l->count; i++) {
        if (at(l, i)->subject == subject) {
            at(l, i)->subject = NULL;
        }
    }
}

/* ---- Beginning and end -------------------------------------------------------------------- */

static void reset(struct snib__zk_link *l)
{
    snib__dial_end(&l->dial);
    snib__stream_close(l->stream);
    if (l->fd >= 0) {
        close(l->fd);
    }
    snib__buffer_free(&l->in);
    snib__buffer_free(&l->out);
    l->fd = -1;
    l->stream = NULL;
    l->state = SNIB__ZK_LINK_DOWN;
    l->ending = false;
    l->asked_ns = 0;
}

void snib__zk_link_close(struct snib__zk_link *l, bool silently)
{
    if (!silently && l->state == SNIB__ZK_LINK_UP) {
        char rest[4096];
        size_t got;
        snib__zk_link_flush(l);
        snib__stream_finish(l->stream);
        /* Bytes left unread would make the kernel take back what was sent. */
        while (snib__stream_read(l->stream, rest, sizeof rest, &got) == SNIB__STREAM_DONE) {
        }
    }
    reset(l);
    free(l->ring);
    l->ring = NULL;
    l->first = l->count = l->room = 0;
}

void snib__zk_link_dial(struct snib__zk_link *l, const char *host, int port, int64_t limit_ms)
{
    assert(l->state == SNIB__ZK_LINK_DOWN);
    l->limit_ns = limit_ms * SNIB__MS;
    l->heard_ns = snib__now().boot_ns;
    l->host = host;
    l->closed_mute = false;
    l->state = SNIB__ZK_LINK_DIALLING;
    snib__dial_tcp(&l->dial, host, port, 2 * limit_ms);
}

void snib__zk_link_end(struct snib__zk_link *l, int sys, const char *why)
{
    if (!l->ending) {
        l->ending = true;
        l->sys = sys;
        snprintf(l->why, sizeof l->why, "%s", why);
    }
}

/* What is told may ask anew, of a link that is down by then. */
static void lose(struct snib__zk_link *l)
{
    struct snib__zk_call *ring = l->ring;
    size_t first = l->first, count = l->count, room = l->room;
    l->ring = NULL;
    l->first = l->count = l->room = 0;
    reset(l);
    for (size_t i = 0; i < count; i++) {
        l->upcalls->lost(l, &ring[(first + i) & (room - 1)]);
    }
    free(ring);
    l->upcalls->down(l);
}

/* ---- Sending ------------------------------------------------------------------------------ */

static void fail(struct snib__zk_link *l)
{
    int sys = snib__stream_sys(l->stream);
    l->closed_mute = l->state == SNIB__ZK_LINK_GREETING && (sys == ECONNRESET || sys == EPIPE);
    snib__zk_link_end(l, sys, snib__stream_why(l->stream));
}

void snib__zk_link_flush(struct snib__zk_link *l)
{
    while (l->state >= SNIB__ZK_LINK_GREETING && !l->ending && snib__buffer_left(&l->out) > 0) {
        size_t put;
        switch (snib__stream_write(l->stream, l->out.bytes + l->out.from,
                                   snib__buffer_left(&l->out), &put)) {
        case SNIB__STREAM_DONE:
            snib__buffer_take(&l->out, put);
            break;
        case SNIB__STREAM_WANTS_READ:
        case SNIB__STREAM_WANTS_WRITE:
            return;
        default:
            fail(l);
            return;
        }
    }
}

/* ---- Receiving ---------------------------------------------------------------------------- */

static void hand_out_answer(struct snib__zk_link *l, const struct snib__zk_header *header,
                            struct snib__zk_reader *body)
{
    if (l->count == 0 || at(l, 0)->xid != header->xid) {
        snib__zk_link_end(l, 0, "the server answered something that was not asked");
        return;
    }
    struct snib__zk_call call = *at(l, 0);
    struct snib__zk_answer answer = {.error = header->error, .body = *body};
    l->first = (l->first + 1) & (l->room - 1);
    l->count--;
    l->asked_ns = l->count > 0 ? l->heard_ns : 0;
    if (header->zxid > l->zxid) {
        l->zxid = header->zxid;
    }
    l->upcalls->answered(l, &call, &answer);
    if (answer.body.bad) {
        snib__zk_link_end(l, 0, "the server's answer is cut short");
    }
}

static void hand_out_frame(struct snib__zk_link *l, const char *bytes, size_t size)
{
    struct snib__zk_reader r = {.at = bytes, .left = size};
    struct snib__zk_header header;
    struct snib__zk_event event;
    if (l->state == SNIB__ZK_LINK_GREETING) {
        l->state = SNIB__ZK_LINK_UP;
        l->asked_ns = 0;
        l->upcalls->welcomed(l, &r);
    } else if (!snib__zk_get_header(&r, &header)) {
        snib__zk_link_end(l, 0, "the server's answer is cut short");
    } else if (header.xid == SNIB__ZK_XID_EVENT) {
        if (snib__zk_get_event(&r, &event)) {
            l->upcalls->event(l, &event);
        }
    } else if (header.xid == SNIB__ZK_XID_PING || header.xid == SNIB__ZK_XID_AUTH) {
        l->upcalls->ponged(l, &header);
        l->asked_ns = l->count > 0 ? l->heard_ns : 0;
    } else {
        hand_out_answer(l, &header, &r);
    }
}

static void hand_out(struct snib__zk_link *l)
{
    int rc = 0;
    size_t size;
    while (!l->ending &&
           (rc = snib__zk_frame(l->in.bytes + l->in.from, snib__buffer_left(&l->in), &size)) == 1) {
        hand_out_frame(l, l->in.bytes + l->in.from + 4, size);
        snib__buffer_take(&l->in, 4 + size);
    }
    if (rc < 0) {
        snib__zk_link_end(l, 0, "the server does not speak ZooKeeper's protocol");
    }
}

static void receive(struct snib__zk_link *l)
{
    while (!l->ending) {
        size_t got;
        if (!snib__buffer_reserve(&l->in, READ_SIZE)) {
            snib__zk_link_end(l, ENOMEM, "out of memory");
            return;
        }
        switch (snib__stream_read(l->stream, l->in.bytes + l->in.to, READ_SIZE, &got)) {
        case SNIB__STREAM_DONE:
            l->in.to += got;
            l->heard_ns = snib__now().boot_ns;
            hand_out(l);
            if (got < READ_SIZE && snib__stream_pending(l->stream) == 0) {
                return;
            }
            break;
        case SNIB__STREAM_WANTS_READ:
        case SNIB__STREAM_WANTS_WRITE:
            return;
        case SNIB__STREAM_END:
            l->closed_mute = l->state == SNIB__ZK_LINK_GREETING;
            snib__zk_link_end(l, 0, "the server closed the connection");
            return;
        default:
            fail(l);
            return;
        }
    }
}

/* ---- Driving ------------------------------------------------------------------------------ */

bool snib__zk_link_poll(const struct snib__zk_link *l, struct pollfd *p)
{
    switch (l->state) {
    case SNIB__ZK_LINK_DOWN:
        return false;
    case SNIB__ZK_LINK_DIALLING:
        *p = snib__dial_poll(&l->dial);
        return p->fd >= 0;
    default:
        *p = (struct pollfd){
            .fd = l->fd, .events = snib__stream_events(l->stream, snib__buffer_left(&l->out) > 0)};
        return true;
    }
}

static void start(struct snib__zk_link *l)
{
    switch (snib__stream_start(l->stream)) {
    case SNIB__STREAM_DONE:
        l->state = SNIB__ZK_LINK_GREETING;
        l->upcalls->connected(l);
        break;
    case SNIB__STREAM_WANTS_READ:
    case SNIB__STREAM_WANTS_WRITE:
        break;
    case SNIB__STREAM_END:
        snib__zk_link_end(l, 0, "the server closed the connection during the TLS handshake");
        break;
    case SNIB__STREAM_FAILED:
        fail(l);
        break;
    }
}

static void dial(struct snib__zk_link *l)
{
    switch (snib__dial_step(&l->dial, &l->fd)) {
    case SNIB__DIAL_GOING:
        return;
    case SNIB__DIAL_FAILED:
        /* Accepted, and ended at once. */
        l->closed_mute = l->dial.sys == ECONNRESET || l->dial.sys == EPIPE;
        snib__zk_link_end(l, l->dial.sys, l->dial.why);
        return;
    case SNIB__DIAL_DONE:
        break;
    }
    snib__dial_end(&l->dial);
    l->stream = snib__stream_open(l->fd, l->tls, l->host);
    if (!l->stream) {
        snib__zk_link_end(l, ENOMEM, "out of memory");
        return;
    }
    l->state = SNIB__ZK_LINK_STARTING;
    start(l);
}

void snib__zk_link_step(struct snib__zk_link *l, short revents)
{
    if (!l->ending) {
        if (l->state == SNIB__ZK_LINK_DIALLING) {
            dial(l);
        } else if (l->state == SNIB__ZK_LINK_STARTING) {
            start(l);
        } else if (l->state >= SNIB__ZK_LINK_GREETING && revents) {
            receive(l);
        }
        snib__zk_link_flush(l);
    }
    if (l->ending) {
        lose(l);
    }
}

/* When silence ends it. */
static int64_t silent_ns(const struct snib__zk_link *l)
{
    if (l->state == SNIB__ZK_LINK_DOWN) {
        return SNIB__NEVER;
    }
    if (l->state < SNIB__ZK_LINK_UP) {
        return l->heard_ns + l->limit_ns; /* since the dialling */
    }
    if (!l->asked_ns) {
        return SNIB__NEVER;
    }
    return (l->asked_ns > l->heard_ns ? l->asked_ns : l->heard_ns) + l->limit_ns;
}

void snib__zk_link_expire(struct snib__zk_link *l, int64_t now_ns)
{
    char why[80];
    if (!l->ending && now_ns >= silent_ns(l)) {
        snprintf(why, sizeof why, "%s %.1f s",
                 l->state == SNIB__ZK_LINK_UP ? "no answer for" : "no connection within",
                 (double)l->limit_ns / 1e9);
        snib__zk_link_end(l, ETIMEDOUT, why);
    }
}

int64_t snib__zk_link_next(const struct snib__zk_link *l)
{
    return l->ending ? 0 : silent_ns(l);
}
