/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to one member: nghttp2 does the framing of HTTP/2, net/ the bytes, and protobuf-c
 * the messages.
 *
 * The preface, our SETTINGS and the first calls leave in one flight. A connection that was accepted
 * proves nothing, since the kernel does that for a stopped process: `greeted` is set by the
 * member's SETTINGS. No pings: members punish them, and calls have deadlines of their own.
 *
 * nghttp2 calls back while bytes are being fed to it. Nobody outside of this file is told then,
 * but for the messages of a call: what follows from a closed stream or a GOAWAY is done when it
 * has returned, so that a session is never deleted under its own feet.
 *
 * Received bytes are bounded: a message may have MESSAGE_MOST of them; a header list what nghttp2
 * allows. What cannot be understood ends the call, or the connection if HTTP/2 itself is broken.
 */
#include "engines/etcd/connection.h"

#include "base/descriptor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FRAME_HEAD = 5, READ_ROOM = 65536, OUT_MOST = 256 << 10 };
#define MESSAGE_MOST (64U << 20)
#define WINDOW (4 << 20)

/* ---- Calls ------------------------------------------------------------------------------ */

struct etcd_call *etcd_call_new(const struct etcd_method *method, void *owner)
{
    struct etcd_call *k = calloc(1, sizeof *k);
    if (k) {
        k->method = method;
        k->owner = owner;
        k->status = -1;
        k->stream_id = -1;
        snib__list_init(&k->place);
    }
    return k;
}

bool etcd_call_add(struct etcd_call *k, const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    if (k->body_size + FRAME_HEAD + size > k->body_room) {
        size_t room = (k->body_size + FRAME_HEAD + size) * 2;
        uint8_t *body = realloc(k->body, room);
        if (!body) {
            return false;
        }
        k->body = body;
        k->body_room = room;
    }
    uint8_t *p = k->body + k->body_size;
    p[0] = 0; /* not compressed */
    for (int i = 0; i < 4; i++) {
        p[1 + i] = (uint8_t)(size >> (24 - 8 * i));
    }
    protobuf_c_message_pack(message, p + FRAME_HEAD);
    k->body_size += FRAME_HEAD + size;
    return true;
}

void etcd_call_free(struct etcd_call *k)
{
    snib__list_remove(&k->place);
    snib__buffer_free(&k->in);
    protobuf_c_message_free_unpacked(k->reply, NULL);
    free(k->others);
    free(k->body);
    free(k);
}

/* ---- What nghttp2 asks and tells -------------------------------------------------------- */

static ssize_t on_body(nghttp2_session *h2, int32_t id, uint8_t *out, size_t room, uint32_t *flags,
                       nghttp2_data_source *source, void *arg)
{
    struct etcd_call *k = nghttp2_session_get_stream_user_data(h2, id);
    (void)source, (void)arg;
    if (!k) { /* forgotten: its reset is on the way */
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        return 0;
    }
    size_t size = k->body_size - k->body_at < room ? k->body_size - k->body_at : room;
    if (size > 0) {
        memcpy(out, k->body + k->body_at, size);
        k->body_at += size;
    }
    if (k->body_at == k->body_size) {
        if (k->lasting) {
            k->body_at = k->body_size = 0;
            return size > 0 ? (ssize_t)size : NGHTTP2_ERR_DEFERRED;
        }
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)size;
}

static bool is(const uint8_t *name, size_t size, const char *word)
{
    return size == strlen(word) && memcmp(name, word, size) == 0;
}

static int hex(uint8_t letter)
{
    return letter >= '0' && letter <= '9'   ? letter - '0'
           : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
           : letter >= 'A' && letter <= 'F' ? letter - 'A' + 10
                                            : -1;
}

/* grpc-message: percent-encoded, and shown to people. */
static void read_text(struct etcd_call *k, const uint8_t *value, size_t size)
{
    size_t to = 0;
    for (size_t i = 0; i < size && to + 1 < sizeof k->text; i++) {
        int letter = value[i];
        if (letter == '%' && i + 2 < size && hex(value[i + 1]) >= 0 && hex(value[i + 2]) >= 0) {
            letter = hex(value[i + 1]) * 16 + hex(value[i + 2]);
            i += 2;
        }
        k->text[to++] = letter >= ' ' && letter != 127 ? (char)letter : ' ';
    }
    k->text[to] = '\0';
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t size, uint8_t flags, void *arg)
{
    struct etcd_call *k = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    (void)flags, (void)arg;
    if (!k) {
        return 0;
    }
    if (is(name, name_size, "grpc-status")) {
        k->status = 0;
        for (size_t i = 0; i < size && i < 4; i++) {
            k->status = value[i] >= '0' && value[i] <= '9' ? k->status * 10 + (value[i] - '0') : 2;
        }
    } else if (is(name, name_size, "grpc-message")) {
        read_text(k, value, size);
    } else if (is(name, name_size, ":status") && !is(value, size, "200")) {
        snprintf(k->text, sizeof k->text, "HTTP status %.*s", (int)(size < 8 ? size : 8), value);
    }
    return 0;
}

/* All messages that are complete. False: that is no message. */
static bool take_messages(struct etcd_call *k)
{
    while (snib__buffer_left(&k->in) >= FRAME_HEAD) {
        const uint8_t *p = (const uint8_t *)k->in.bytes + k->in.from;
        size_t size = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
        if (p[0] != 0 || size > MESSAGE_MOST) {
            return false;
        }
        if (snib__buffer_left(&k->in) - FRAME_HEAD < size) {
            break;
        }
        ProtobufCMessage *message =
            protobuf_c_message_unpack(k->method->reply, NULL, size, p + FRAME_HEAD);
        if (!message) {
            return false;
        }
        snib__buffer_take(&k->in, FRAME_HEAD + size);
        k->answered = true;
        if (k->message) {
            k->message(k, message);
            k->message_at++;
            protobuf_c_message_free_unpacked(message, NULL);
        } else {
            protobuf_c_message_free_unpacked(k->reply, NULL);
            k->reply = message;
        }
    }
    return true;
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *data, size_t size,
                   void *arg)
{
    struct etcd_call *k = nghttp2_session_get_stream_user_data(h2, id);
    (void)flags, (void)arg;
    if (!k) {
        return 0;
    }
    if (!snib__buffer_reserve(&k->in, size)) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets this stream only */
    }
    memcpy(k->in.bytes + k->in.to, data, size);
    k->in.to += size;
    return take_messages(k) ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
    struct etcd_connection *c = arg;
    (void)h2;
    if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
        c->greeted = true;
    } else if (frame->hd.type == NGHTTP2_GOAWAY) {
        c->leaving = true;
    }
    return 0;
}

static int on_stream_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
    struct etcd_connection *c = arg;
    struct etcd_call *k = nghttp2_session_get_stream_user_data(h2, id);
    if (k) {
        k->reset = code;
        k->stream_id = -1;
        c->call_count--;
        snib__list_remove(&k->place);
        snib__list_append(&c->over, &k->place);
    }
    return 0;
}

bool etcd_connection_speak(struct etcd_connection *c)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 16384},
    };
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    bool good = nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0;
    if (good) {
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
        nghttp2_option_set_peer_max_concurrent_streams(option, 1U << 30); /* until it says */
        good = nghttp2_session_client_new2(&c->h2, callbacks, c, option) == 0 &&
               nghttp2_submit_settings(c->h2, NGHTTP2_FLAG_NONE, settings,
                                       sizeof settings / sizeof settings[0]) == 0 &&
               nghttp2_session_set_local_window_size(c->h2, NGHTTP2_FLAG_NONE, 0, WINDOW) == 0;
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return good;
}

/* ---- Making and losing it --------------------------------------------------------------- */

void etcd_connection_init(struct etcd_connection *c, const struct etcd_connection_upcalls *upcalls,
                          void *owner)
{
    *c = (struct etcd_connection){.upcalls = upcalls, .owner = owner, .fd = -1, .dial = {.fd = -1}};
    snib__list_init(&c->calls);
    snib__list_init(&c->over);
}

void etcd_connection_close(struct etcd_connection *c)
{
    snib__dial_end(&c->dial);
    nghttp2_session_del(c->h2);
    c->h2 = NULL;
    snib__stream_close(c->stream);
    c->stream = NULL;
    if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
    snib__buffer_free(&c->out);
    c->state = ETCD_APART;
    c->call_count = 0;
    c->greeted = c->leaving = false;
}

void etcd_connection_lose(struct etcd_connection *c, int sys, const char *why)
{
    char text[sizeof c->why]; /* `why` may be part of what is closed now */
    snprintf(text, sizeof text, "%s", why);
    c->sys = sys;
    etcd_connection_close(c);
    memcpy(c->why, text, sizeof text);
    while (!snib__list_empty(&c->over)) { /* those are lost like the others */
        struct snib__list *l = c->over.after;
        snib__list_remove(l);
        snib__list_append(&c->calls, l);
    }
    c->upcalls->lost(c);
}

void etcd_connection_dial(struct etcd_connection *c)
{
    c->state = ETCD_DIALLING;
    c->since_ns = snib__now().boot_ns;
    snib__dial_tcp(&c->dial, c->host, c->port, 2 * c->timeout_ms);
}

uint32_t etcd_connection_streams(const struct etcd_connection *c)
{
    return c->h2
               ? nghttp2_session_get_remote_settings(c->h2, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
               : 0;
}

/* ---- Sending ---------------------------------------------------------------------------- */

static nghttp2_nv pair(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value)};
}

bool etcd_connection_send(struct etcd_connection *c, struct etcd_call *k, const char *token)
{
    char authority[300];
    snprintf(authority, sizeof authority, strchr(c->host, ':') ? "[%s]:%d" : "%s:%d", c->host,
             c->port);
    nghttp2_nv headers[10] = {
        pair(":method", "POST"),        pair(":scheme", c->tls ? "https" : "http"),
        pair(":path", k->method->path), pair(":authority", authority),
        pair("te", "trailers"),         pair("content-type", "application/grpc"),
        pair("user-agent", "snib"),     pair("hasleader", "true")};
    size_t count = 8;
    if (token) {
        headers[count++] = pair("token", token);
    }
    nghttp2_data_provider body = {.read_callback = on_body};
    k->sent = snib__now();
    k->body_at = 0;
    k->message_at = 0;
    k->answered = false;
    k->status = -1;
    k->text[0] = '\0';
    snib__buffer_free(&k->in);
    protobuf_c_message_free_unpacked(k->reply, NULL);
    k->reply = NULL;
    k->stream_id = nghttp2_submit_request(c->h2, NULL, headers, count, &body, k);
    if (k->stream_id < 0) {
        return false;
    }
    if (k->first_sent.boot_ns == 0) {
        k->first_sent = k->sent;
    }
    k->connection = c;
    c->call_count++;
    snib__list_remove(&k->place);
    snib__list_append(&c->calls, &k->place);
    return true;
}

void etcd_connection_resume(struct etcd_connection *c, struct etcd_call *k)
{
    if (c->h2 && k->stream_id > 0) {
        nghttp2_session_resume_data(c->h2, k->stream_id);
    }
}

void etcd_connection_forget(struct etcd_connection *c, struct etcd_call *k)
{
    if (c->h2 && k->stream_id > 0) {
        nghttp2_session_set_stream_user_data(c->h2, k->stream_id, NULL);
        nghttp2_submit_rst_stream(c->h2, NGHTTP2_FLAG_NONE, k->stream_id, NGHTTP2_CANCEL);
        k->stream_id = -1;
        c->call_count--;
    }
    snib__list_remove(&k->place);
    k->connection = NULL;
}

/* Tell those whose streams are over; false: the connection is gone. */
static bool tell(struct etcd_connection *c)
{
    while (!snib__list_empty(&c->over)) {
        struct etcd_call *k = SNIB__OF(c->over.after, struct etcd_call, place);
        snib__list_remove(&k->place);
        k->connection = NULL;
        c->upcalls->ended(c, k);
        if (c->state != ETCD_JOINED) {
            return false;
        }
    }
    if (c->leaving) {
        etcd_connection_lose(c, 0, "the member said good-bye");
        return false;
    }
    return true;
}

/* Everything that is due, in as few writes as possible. */
static bool collect(struct etcd_connection *c)
{
    const uint8_t *bytes;
    ssize_t size = 0;
    while (snib__buffer_left(&c->out) < OUT_MOST &&
           (size = nghttp2_session_mem_send(c->h2, &bytes)) > 0) {
        if (!snib__buffer_reserve(&c->out, (size_t)size)) {
            return false;
        }
        memcpy(c->out.bytes + c->out.to, bytes, (size_t)size);
        c->out.to += (size_t)size;
    }
    return size >= 0;
}

static void write_all(struct etcd_connection *c)
{
    while (c->state == ETCD_JOINED) {
        size_t put;
        if (!collect(c)) {
            etcd_connection_lose(c, ENOMEM, "out of memory");
            return;
        }
        if (snib__buffer_left(&c->out) == 0) {
            return;
        }
        switch (snib__stream_write(c->stream, c->out.bytes + c->out.from,
                                   snib__buffer_left(&c->out), &put)) {
        case SNIB__STREAM_DONE:
            snib__buffer_take(&c->out, put);
            break;
        case SNIB__STREAM_FAILED:
            etcd_connection_lose(c, snib__stream_sys(c->stream), snib__stream_why(c->stream));
            return;
        default:
            return;
        }
    }
}

/* Resetting a stream ends it, too: that is told as if it had been heard. */
void etcd_connection_flush(struct etcd_connection *c)
{
    write_all(c);
    if (c->state == ETCD_JOINED && !snib__list_empty(&c->over)) {
        tell(c);
    }
}

/* ---- Hearing ---------------------------------------------------------------------------- */

void etcd_connection_hear(struct etcd_connection *c, const uint8_t *bytes, size_t size)
{
    ssize_t used = nghttp2_session_mem_recv(c->h2, bytes, size);
    if (used < 0) {
        char why[120];
        snprintf(why, sizeof why, "not an etcd server, or not gRPC: %s",
                 nghttp2_strerror((int)used));
        etcd_connection_lose(c, EPROTO, why);
        return;
    }
    tell(c);
}

static void read_all(struct etcd_connection *c)
{
    static _Thread_local uint8_t bytes[READ_ROOM];
    while (c->state == ETCD_JOINED) {
        size_t got;
        switch (snib__stream_read(c->stream, bytes, sizeof bytes, &got)) {
        case SNIB__STREAM_DONE:
            etcd_connection_hear(c, bytes, got);
            if (got < sizeof bytes && c->stream && snib__stream_pending(c->stream) == 0) {
                return; /* nothing more at the moment: poll says when there is */
            }
            break;
        case SNIB__STREAM_END:
            etcd_connection_lose(c, 0, "the member closed the connection");
            return;
        case SNIB__STREAM_FAILED:
            etcd_connection_lose(c, snib__stream_sys(c->stream), snib__stream_why(c->stream));
            return;
        default:
            return;
        }
    }
}

/* ---- Step by step ----------------------------------------------------------------------- */

static void dial_step(struct etcd_connection *c)
{
    int fd;
    switch (snib__dial_step(&c->dial, &fd)) {
    case SNIB__DIAL_DONE:
        c->fd = snib__descriptor(fd);
        c->stream = c->fd >= 0 ? snib__stream_open(c->fd, c->tls, c->host) : NULL;
        c->state = ETCD_STARTING;
        if (!c->stream || !etcd_connection_speak(c)) {
            etcd_connection_lose(c, ENOMEM, "out of memory");
        }
        break;
    case SNIB__DIAL_FAILED:
        etcd_connection_lose(c, c->dial.sys, c->dial.why);
        break;
    case SNIB__DIAL_GOING:
        break;
    }
}

static void start_step(struct etcd_connection *c)
{
    switch (snib__stream_start(c->stream)) {
    case SNIB__STREAM_DONE:
        c->state = ETCD_JOINED;
        break;
    case SNIB__STREAM_FAILED:
        etcd_connection_lose(c, snib__stream_sys(c->stream), snib__stream_why(c->stream));
        break;
    default:
        break;
    }
}

void etcd_connection_step(struct etcd_connection *c)
{
    if (c->state == ETCD_DIALLING) {
        dial_step(c);
    }
    if (c->state == ETCD_STARTING) {
        start_step(c);
    }
    if (c->state == ETCD_JOINED) {
        read_all(c);
    }
}

bool etcd_connection_poll(const struct etcd_connection *c, struct pollfd *out)
{
    if (c->state == ETCD_DIALLING) {
        *out = snib__dial_poll(&c->dial);
    } else if (c->stream) {
        bool to_write = snib__buffer_left(&c->out) > 0 ||
                        (c->state == ETCD_JOINED && nghttp2_session_want_write(c->h2));
        *out = (struct pollfd){.fd = c->fd, .events = snib__stream_events(c->stream, to_write)};
    } else {
        return false;
    }
    return true;
}
