/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ZOOKEEPER_LINK_H
#define SNIB_ZOOKEEPER_LINK_H

/*
 * A connection to one ZooKeeper server: frames, a pipeline of calls, answers by their xid.
 */

#include "base/clock.h"
#include "engines/zookeeper/wire.h"
#include "net/buffer.h"
#include "net/dial.h"
#include "net/stream.h"

/* Something asked of the server. */
struct snib__zk_call {
    int32_t xid;
    int kind;      /* whoever asks says what this is */
    void *subject; /* NULL: nobody wants the answer any more */
    struct snib__instant sent;
};

/* An answer: what is behind its header. */
struct snib__zk_answer {
    int32_t error; /* enum snib__zk_error */
    struct snib__zk_reader body;
};

struct snib__zk_link;

/* What a connection says to whoever has it. */
struct snib__zk_link_upcalls {
    void (*connected)(struct snib__zk_link *); /* say hello */
    void (*welcomed)(struct snib__zk_link *, struct snib__zk_reader *);
    void (*answered)(struct snib__zk_link *, const struct snib__zk_call *,
                     struct snib__zk_answer *);
    void (*ponged)(struct snib__zk_link *, const struct snib__zk_header *); /* PING and AUTH */
    void (*event)(struct snib__zk_link *, const struct snib__zk_event *);
    void (*lost)(struct snib__zk_link *, const struct snib__zk_call *); /* each call, then down */
    void (*down)(struct snib__zk_link *);
};

enum snib__zk_link_state {
    SNIB__ZK_LINK_DOWN,
    SNIB__ZK_LINK_DIALLING,
    SNIB__ZK_LINK_STARTING, /* TLS */
    SNIB__ZK_LINK_GREETING, /* hello was said */
    SNIB__ZK_LINK_UP
};

struct snib__zk_link {
    const struct snib__zk_link_upcalls *upcalls;
    void *owner;
    enum snib__zk_link_state state;
    bool ending;      /* the next step does it */
    bool closed_mute; /* ended by the server before it had said anything */
    struct snib__dial dial;
    struct snib__stream *stream;
    struct snib__tls *tls; /* NULL: none */
    const char *host;
    int fd;
    struct snib__buffer in, out;
    struct snib__zk_call *ring;
    size_t first, count, room;
    int64_t limit_ns; /* how long it may take to connect, and be silent while something is asked */
    int64_t heard_ns; /* the last byte, or the dialling */
    int64_t asked_ns; /* since then an answer is waited for; 0: none is */
    int64_t zxid;     /* the last one seen */
    int sys;
    char why[160]; /* what ended it */
};

void snib__zk_link_init(struct snib__zk_link *, const struct snib__zk_link_upcalls *, void *owner);
void snib__zk_link_dial(struct snib__zk_link *, const char *host, int port, int64_t limit_ms);

/* A call is about to be appended to `out`. False: no memory. */
bool snib__zk_link_expect(struct snib__zk_link *, const struct snib__zk_call *);
void snib__zk_link_unexpect(struct snib__zk_link *); /* it could not be appended */
void snib__zk_link_forget(struct snib__zk_link *, const void *subject);
void snib__zk_link_flush(struct snib__zk_link *);

/* End it, at the next step. */
void snib__zk_link_end(struct snib__zk_link *, int sys, const char *why);
/* Send what can be sent, and close; nobody is told. `silently`: send nothing. */
void snib__zk_link_close(struct snib__zk_link *, bool silently);

/* For drive: what to poll (false: nothing), what became ready, and when time runs out. */
bool snib__zk_link_poll(const struct snib__zk_link *, struct pollfd *);
void snib__zk_link_step(struct snib__zk_link *, short revents);
void snib__zk_link_expire(struct snib__zk_link *, int64_t now_ns);
int64_t snib__zk_link_next(const struct snib__zk_link *);

#endif
