/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_CONNECTION_H
#define SNIB_ETCD_CONNECTION_H

/*
 * A connection to one member, and the calls on it: gRPC over HTTP/2.
 */

#include "base/clock.h"
#include "base/list.h"
#include "net/buffer.h"
#include "net/dial.h"
#include "net/stream.h"
#include "net/tls.h"

#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

struct etcd_call;

struct etcd_method {
    const char *path; /* "/etcdserverpb.KV/Txn" */
    const ProtobufCMessageDescriptor *reply;
};

/* What became of a call. */
enum etcd_outcome {
    ETCD_ANSWERED, /* with a status: see there */
    ETCD_UNSENT,   /* no member has seen it */
    ETCD_LOST      /* sent, no answer */
};

/* One call. Whoever made it sets the first group. */
struct etcd_call {
    const struct etcd_method *method;
    /* Each message as it comes, from inside nghttp2: may submit, must not flush. NULL: the last one
     * is kept in `reply` for `end`. */
    void (*message)(struct etcd_call *, const ProtobufCMessage *);
    void (*end)(struct etcd_call *); /* the last word; the call is freed behind it */
    void *owner;
    void *subject;   /* NULL: nobody wants to know */
    int64_t number;  /* the caller's: a lease */
    int64_t *others; /* ... or several; freed with the call */
    size_t other_count;
    bool lasting;      /* it goes on until it is ended: no deadline, never sent twice */
    int64_t due_ns;    /* after that it is LOST, or UNSENT */
    size_t message_at; /* how many messages have come */

    enum etcd_outcome outcome;
    int status; /* of gRPC; 0: good; -1: none came */
    ProtobufCMessage *reply;
    char text[200];
    struct snib__instant first_sent, sent;
    bool repeated; /* it may have been executed more than once */

    struct snib__list place; /* on a connection, or waiting for one */
    struct etcd_connection *connection;
    int32_t stream_id;
    int tries;
    int64_t resend_ns; /* not before */
    bool answered;     /* a message has come since it was sent */
    uint8_t *body;     /* framed */
    size_t body_size, body_room, body_at;
    struct snib__buffer in;
    unsigned reset; /* error code of the stream */
};

enum etcd_link { ETCD_APART, ETCD_DIALLING, ETCD_STARTING, ETCD_JOINED };

struct etcd_connection_upcalls {
    void (*ended)(struct etcd_connection *, struct etcd_call *); /* its stream is over */
    void (*lost)(struct etcd_connection *); /* apart: the calls are still listed */
};

struct etcd_connection {
    const struct etcd_connection_upcalls *upcalls;
    void *owner;
    const char *host;
    int port;
    int64_t timeout_ms;
    struct snib__tls *tls;
    enum etcd_link state;
    int64_t since_ns; /* of the state, until it is JOINED */
    struct snib__dial dial;
    int fd;
    struct snib__stream *stream;
    nghttp2_session *h2;
    struct snib__buffer out;
    struct snib__list calls;
    size_t call_count;      /* of open streams */
    struct snib__list over; /* streams that are closed, and whose calls are not told yet */
    bool greeted;           /* its SETTINGS have come: it is a server, and awake */
    bool leaving;           /* it said GOAWAY */
    int sys;
    char why[160];
};

void etcd_connection_init(struct etcd_connection *, const struct etcd_connection_upcalls *,
                          void *owner);
void etcd_connection_dial(struct etcd_connection *);

/* A call goes out with the next flush. False: no memory. `token`: NULL for none. */
bool etcd_connection_send(struct etcd_connection *, struct etcd_call *, const char *token);

/* More of a lasting call's body was appended. */
void etcd_connection_resume(struct etcd_connection *, struct etcd_call *);

/* The call is of no interest any more; its place is the caller's. */
void etcd_connection_forget(struct etcd_connection *, struct etcd_call *);

void etcd_connection_flush(struct etcd_connection *);
void etcd_connection_step(struct etcd_connection *); /* whatever is ready */
bool etcd_connection_poll(const struct etcd_connection *, struct pollfd *out);
void etcd_connection_close(struct etcd_connection *); /* without a word to anybody */
void etcd_connection_lose(struct etcd_connection *, int sys, const char *why);

/* Bytes as from the server; what a read does, and what the fuzzer calls. */
void etcd_connection_hear(struct etcd_connection *, const uint8_t *bytes, size_t size);
bool etcd_connection_speak(struct etcd_connection *); /* makes the HTTP/2 session */

/* How many streams the member allows at a time. */
uint32_t etcd_connection_streams(const struct etcd_connection *);

struct etcd_call *etcd_call_new(const struct etcd_method *, void *owner);
bool etcd_call_add(struct etcd_call *, const ProtobufCMessage *); /* frames it behind the others */
void etcd_call_free(struct etcd_call *);

#endif
