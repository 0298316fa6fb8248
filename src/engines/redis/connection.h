/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_CONNECTION_H
#define SNIB_REDIS_CONNECTION_H

/*
 * A connection to one Redis server: a pipeline of calls, replies by position.
 */

#include "base/clock.h"
#include "engines/redis/command.h"
#include "engines/redis/reply.h"
#include "net/buffer.h"
#include "net/dial.h"
#include "net/stream.h"

#include <poll.h>

/* Where the server is. */
struct snib__address {
    const char *host; /* NULL: a Unix socket at `path` */
    int port;
    const char *path;
    struct snib__tls *tls; /* NULL: no encryption */
    int64_t timeout_ms;    /* of connecting, of silence */
    bool sought;           /* host and port are found out anew for each connection (finder.c) */
};

/* Something asked of the server. */
struct snib__redis_call {
    int kind;                  /* whoever asks says what this is; below 0: part of the greeting */
    bool by_text;              /* a script's text, because the server did not know its SHA-1 */
    uint32_t turn;             /* an attempt: which one of its claim */
    bool in_line;              /* an attempt that is willing to wait, and names an inbox */
    bool asking;               /* in a cluster: of a server that is about to get the slot */
    unsigned char trials;      /* connections it was lost on */
    unsigned char step, index; /* steps.c: which of an exchange's */
    void *subject;             /* NULL: nobody wants the answer any more */
    struct snib__instant sent;
    int64_t due_ns;
    int64_t not_after_ms; /* by the server's clock; 0: none */
    int64_t ttl_ms;       /* that a renewal asks for */
    uint64_t starts;      /* where in the stream */
};

/* How a call was lost. From CUT on, it may have been executed. */
enum snib__loss {
    SNIB__LOSS_UNREACHED, /* no connection: never left */
    SNIB__LOSS_UNSENT,    /* the connection was cut before it left */
    SNIB__LOSS_DENIED,    /* never left, because we were not let in */
    SNIB__LOSS_ALIEN,     /* whatever is there does not speak this protocol */
    SNIB__LOSS_CUT,       /* the connection was cut after it left */
    SNIB__LOSS_SILENT,    /* ... and the server has said nothing for the whole time-out */
    SNIB__LOSS_TOO_LATE   /* only this one, and the connection goes on: its reply may still come,
                           * and is for whoever is left as its subject */
};

struct snib__connection;

/* What a connection says to whoever has it. */
struct snib__connection_upcalls {
    void (*greet)(struct snib__connection *); /* it begins: first calls */
    /* A reply. `call` is NULL where nothing was asked: a message. */
    void (*reply)(struct snib__connection *, struct snib__redis_call *, const struct snib__reply *);
    void (*lost)(struct snib__connection *, struct snib__redis_call *, enum snib__loss);
    void (*down)(struct snib__connection *); /* after all its calls were lost */
};

enum snib__connection_state {
    SNIB__CONNECTION_DOWN,
    SNIB__CONNECTION_DIALLING,
    SNIB__CONNECTION_STARTING, /* the handshake of TLS */
    SNIB__CONNECTION_UP
};

struct snib__connection {
    const struct snib__connection_upcalls *upcalls;
    const struct snib__address *address;
    void *owner;
    enum snib__connection_state state;
    bool seeking;   /* to be dialled as soon as it is known where */
    bool listens;   /* replies come unasked: there are no calls to pair them with */
    bool ending;    /* with the loss `how`; the next step does it */
    bool retiring;  /* closed as soon as nothing is asked */
    bool leaving;   /* nothing more is sent; closed as soon as what was sent is answered */
    bool receiving; /* replies are being handed out */
    bool answered;  /* at least one reply was one */
    enum snib__loss how;
    struct snib__dial dial;
    int fd;
    struct snib__stream *stream;
    struct snib__reader *reader;
    struct snib__buffer out;
    uint64_t appended, written; /* bytes of the stream */
    uint64_t offered;           /* of them, those that may have left: TLS may keep some back */
    uint64_t gate;              /* bytes of it that may be written */
    struct snib__redis_call *ring;
    size_t first, count, room;
    size_t abandoned;              /* of the first calls, those nobody waits for */
    struct snib__redis_call *lost; /* those that are being told of their loss */
    size_t lost_room;
    int64_t heard_ns; /* the last byte, or the connection */
    int64_t dialled_ns;
    int64_t redial_ns; /* a socket that was too busy to take us: again at this time; 0: no */
    int sys;
    char why[256]; /* what ended the last connection */
};

void snib__connection_init(struct snib__connection *, const struct snib__connection_upcalls *,
                           const struct snib__address *, void *owner);

/* Add a call to the pipeline, connecting if need be. False: no memory, nothing was added. */
bool snib__connection_ask(struct snib__connection *, const struct snib__redis_call *,
                          const struct snib__command *);

/* A command that has no reply of its own, on a connection that listens. */
bool snib__connection_say(struct snib__connection *, const struct snib__command *);

/* What is asked from now on is kept back until the gate is opened. */
void snib__connection_shut_gate(struct snib__connection *);
void snib__connection_open_gate(struct snib__connection *);

bool snib__connection_idle(const struct snib__connection *);
bool snib__connection_clear(const struct snib__connection *); /* up, and all is sent */
void snib__connection_flush(struct snib__connection *);
void snib__connection_dial(struct snib__connection *); /* if it is down */
void snib__connection_go(struct snib__connection *);   /* if it seeks: the address is there */
void snib__connection_drop(struct snib__connection *, void *subject); /* wants no answers */

/* End it, with this explanation: once nothing is asked any more; once what was sent is answered,
 * and the rest was never sent; soon, also from inside an upcall; or now. */
void snib__connection_retire(struct snib__connection *, const char *why);
void snib__connection_leave(struct snib__connection *, const char *why);
void snib__connection_end(struct snib__connection *, enum snib__loss, int sys, const char *why);
void snib__connection_lose(struct snib__connection *, enum snib__loss, int sys, const char *why);
void snib__connection_close(struct snib__connection *); /* silently; nobody is told */

/* For drive: what to poll; whether there is something to do without that; what became ready; what
 * time-outs are due, and when the next one is. */
bool snib__connection_poll(const struct snib__connection *, struct pollfd *);
bool snib__connection_ready(const struct snib__connection *);
void snib__connection_step(struct snib__connection *, short revents);
void snib__connection_poll_step(struct snib__connection *, const struct pollfd fds[], size_t n);
void snib__connection_expire(struct snib__connection *, int64_t now_ns);
int64_t snib__connection_next(const struct snib__connection *);

#endif
