/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection, made when the first request needs it and again when one is left to be sent.
 *
 * A request that is not answered in time ends it: everything on it has then the same fate, which
 * replies.c decides.
 */
#include "tcp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AGAIN_MS = 50 };

static int64_t now_ns(void)
{
    return snib__now().boot_ns;
}

/* ---- Making and losing it --------------------------------------------------------------- */

void tcp_part(struct tcp *t)
{
    if (t->work) {
        snib__work_end(t->work);
        t->work = NULL;
    }
    snib__dial_end(&t->dial);
    snib__stream_close(t->stream);
    t->stream = NULL;
    if (t->fd >= 0) {
        close(t->fd);
        t->fd = -1;
    }
    snib__buffer_free(&t->out);
    snib__buffer_free(&t->in);
    t->state = APART;
}

static void lose(struct tcp *t, int sys, const char *why)
{
    char text[256]; /* `why` may be part of what is closed now */
    struct snib__list *next;
    snprintf(text, sizeof text, "%s", why);
    tcp_part(t);
    t->again_ns = now_ns() + snib__jitter(AGAIN_MS * SNIB__MS);
    for (struct snib__list *l = t->requests.after; l != &t->requests; l = next) {
        next = l->after;
        tcp_abandon(t, SNIB__OF(l, struct request, place), sys, text);
    }
}

/* Put a request into the buffer. False: no memory. */
static bool send_request(struct tcp *t, struct request *r)
{
    size_t most = strlen(r->line) + 24;
    if (!snib__buffer_reserve(&t->out, most)) {
        return false;
    }
    r->since = snib__now();
    r->sent = true;
    if (r->claim) {
        ((struct tcp_claim *)r->claim->state)->sent = true;
    }
    t->out.to +=
        (size_t)snprintf(t->out.bytes + t->out.to, most, "%" PRIu64 " %s\n", r->number, r->line);
    return true;
}

/* Send as much as goes. */
static void flush(struct tcp *t)
{
    while (t->state == JOINED && snib__buffer_left(&t->out) > 0) {
        size_t put;
        switch (snib__stream_write(t->stream, t->out.bytes + t->out.from,
                                   snib__buffer_left(&t->out), &put)) {
        case SNIB__STREAM_DONE:
            snib__buffer_take(&t->out, put);
            break;
        case SNIB__STREAM_FAILED:
            lose(t, snib__stream_sys(t->stream), snib__stream_why(t->stream));
            return;
        default:
            return;
        }
    }
}

static void dial(struct tcp *t, const char *address)
{
    snib__dial_tcp(&t->dial, address, t->session->url->hosts[0].port, 2 * t->session->timeout_ms);
    t->state = DIALLING;
}

static void connect_to_server(struct tcp *t)
{
    t->work = tcp_name(t->session, &t->naming, false);
    if (t->work) {
        t->state = RESOLVING;
    } else {
        lose(t, 0, "no thread to resolve the host with");
    }
}

static void reached(struct tcp *t)
{
    t->stream = snib__stream_open(t->fd, t->tls, t->session->url->hosts[0].name);
    if (t->stream) {
        t->state = STARTING;
    } else {
        lose(t, ENOMEM, "out of memory");
    }
}

static void joined(struct tcp *t)
{
    t->state = JOINED;
    t->session->reconnects += t->joined_before;
    t->joined_before = true;
    for (struct snib__list *l = t->requests.after; l != &t->requests; l = l->after) {
        struct request *r = SNIB__OF(l, struct request, place);
        if (r->kind != NAMING && !send_request(t, r)) {
            lose(t, ENOMEM, "out of memory");
            return;
        }
    }
    flush(t);
}

/* ---- Sending and hearing ---------------------------------------------------------------- */

bool tcp_submit(struct tcp *t, enum kind kind, struct snib__claim *claim, struct snib__query *query,
                const char *format, ...)
{
    struct request *r = calloc(1, sizeof *r + TCP_LINE);
    if (!r) {
        return false;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(r->line, TCP_LINE, format, args);
    va_end(args);
    r->number = ++t->numbers;
    r->kind = kind;
    r->claim = claim;
    r->query = query;
    r->due_ns = snib__later(now_ns(), t->session->timeout_ms * SNIB__MS);
    snib__list_append(&t->requests, &r->place);
    if (t->state == APART && now_ns() >= t->again_ns) {
        connect_to_server(t);
    } else if (t->state == JOINED) {
        if (send_request(t, r)) {
            flush(t);
        } else {
            lose(t, ENOMEM, "out of memory");
        }
    }
    return true;
}

static void handle_lines(struct tcp *t)
{
    char *end;
    while (t->state == JOINED && snib__buffer_left(&t->in) > 0 &&
           (end = memchr(t->in.bytes + t->in.from, '\n', snib__buffer_left(&t->in))) != NULL) {
        char *line = t->in.bytes + t->in.from;
        *end = '\0';
        if (!tcp_reply(t, line)) {
            lose(t, 0, "the server speaks another language");
            return;
        }
        snib__buffer_take(&t->in, (size_t)(end + 1 - line));
    }
}

static void hear(struct tcp *t)
{
    while (t->state == JOINED) {
        size_t got;
        if (!snib__buffer_reserve(&t->in, TCP_LINE)) {
            lose(t, ENOMEM, "out of memory");
            return;
        }
        switch (snib__stream_read(t->stream, t->in.bytes + t->in.to, t->in.room - t->in.to, &got)) {
        case SNIB__STREAM_DONE:
            t->in.to += got;
            handle_lines(t);
            break;
        case SNIB__STREAM_END:
            lose(t, 0, "the server closed the connection");
            return;
        case SNIB__STREAM_FAILED:
            lose(t, snib__stream_sys(t->stream), snib__stream_why(t->stream));
            return;
        default:
            return;
        }
    }
}

/* ---- Driving ---------------------------------------------------------------------------- */

/* What is due: a silent server, work that came to its end, an undoing that is no longer needed. */
static void keep_time(struct tcp *t)
{
    struct snib__list *next;
    for (struct snib__list *l = t->requests.after; l != &t->requests; l = next) {
        struct request *r = SNIB__OF(l, struct request, place);
        next = l->after;
        if (r->kind == NAMING) {
            tcp_named(r);
        } else if (now_ns() >= r->due_ns && r->kind == UNDO) {
            t->session->undoing--;
            tcp_drop(r);
        } else if (now_ns() >= r->due_ns) {
            lose(t, ETIMEDOUT, "no answer");
            return;
        }
    }
    if (t->state == APART && !snib__list_empty(&t->requests) && now_ns() >= t->again_ns) {
        connect_to_server(t);
    }
}

void tcp_step(struct tcp *t)
{
    if (t->state == RESOLVING && snib__work_done(t->work)) {
        if (t->naming->address[0]) {
            dial(t, t->naming->address);
            snib__work_end(t->work);
            t->work = NULL;
        } else {
            lose(t, 0, "no such host");
        }
    }
    if (t->state == DIALLING) {
        switch (snib__dial_step(&t->dial, &t->fd)) {
        case SNIB__DIAL_DONE:
            reached(t);
            break;
        case SNIB__DIAL_FAILED:
            lose(t, t->dial.sys, t->dial.why);
            break;
        case SNIB__DIAL_GOING:
            break;
        }
    }
    if (t->state == STARTING) {
        switch (snib__stream_start(t->stream)) {
        case SNIB__STREAM_DONE:
            joined(t);
            break;
        case SNIB__STREAM_FAILED:
            lose(t, snib__stream_sys(t->stream), snib__stream_why(t->stream));
            break;
        default:
            break;
        }
    }
    flush(t);
    hear(t);
    keep_time(t);
}

/* True: drive is to return. */
bool tcp_rest(struct tcp *t, int64_t until_ns)
{
    struct pollfd p = {.fd = -1};
    if (t->state == RESOLVING) {
        p = (struct pollfd){.fd = snib__work_fd(t->work), .events = POLLIN};
    } else if (t->state == DIALLING) {
        p = snib__dial_poll(&t->dial);
    } else if (t->stream) {
        p = (struct pollfd){
            .fd = t->fd, .events = snib__stream_events(t->stream, snib__buffer_left(&t->out) > 0)};
    } else if (!snib__list_empty(&t->requests) && t->again_ns < until_ns) {
        until_ns = t->again_ns;
    }
    for (struct snib__list *l = t->requests.after; l != &t->requests; l = l->after) {
        const struct request *r = SNIB__OF(l, struct request, place);
        if (r->kind != NAMING && r->due_ns < until_ns) {
            until_ns = r->due_ns;
        }
    }
    return snib__sleep(t->session, &p, p.fd >= 0, until_ns);
}
