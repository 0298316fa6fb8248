/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_LINK_H
#define SNIB_REDIS_LINK_H

/*
 * A connection to one Redis server: a pipeline of requests, replies by position.
 */

#include "engines/engine.h"
#include "engines/redis/reply.h"
#include "net/buffer.h"
#include "net/dial.h"

/* Where the server is and who we are there. */
struct snib__redis_peer {
    const char *host; /* NULL: a Unix socket at `path` */
    int port;
    const char *path;
    int64_t timeout_ms;
};

struct snib__redis_request {
    int kind;             /* the engine's */
    bool by_text;         /* EVAL, because the server did not know the script */
    unsigned char trials; /* connections it was lost on */
    void *subject;        /* NULL: nobody wants the answer any more */
    struct snib__instant sent;
    int64_t due_ns;
    int64_t not_after_ms; /* by the server's clock; 0: none */
    uint64_t starts;      /* where in the stream */
};

enum snib__redis_loss {
    SNIB__UNREACHED, /* no connection: never left */
    SNIB__UNSENT,    /* the connection was cut before it left */
    SNIB__CUT,       /* ... and after: may have been executed */
    SNIB__SILENT,    /* ... and the server has said nothing for the whole time-out */
    SNIB__TOO_LATE   /* only this one, and the connection goes on: its reply may still come, and
                      * is for whoever is left as its subject */
};

struct snib__redis_link;

struct snib__redis_link_calls {
    void (*greet)(struct snib__redis_link *); /* a connection begins: first requests */
    /* A reply. `request` is NULL where nothing was asked: a message. */
    void (*reply)(struct snib__redis_link *, struct snib__redis_request *,
                  const struct snib__reply *);
    void (*lost)(struct snib__redis_link *, struct snib__redis_request *, enum snib__redis_loss);
    void (*down)(struct snib__redis_link *); /* after all its requests were lost */
};

struct snib__redis_link {
    const struct snib__redis_link_calls *calls;
    const struct snib__redis_peer *peer;
    void *owner;
    bool listens; /* replies come unasked: there are no requests to pair them with */
    enum { SNIB__LINK_DOWN, SNIB__LINK_DIALLING, SNIB__LINK_UP } state;
    bool broken;    /* found while sending; the next step says so */
    bool retires;   /* closed as soon as nothing is asked */
    bool alien;     /* speaks another protocol */
    bool receiving; /* replies are being handed out */
    struct snib__dial dial;
    int fd;
    struct snib__reader *reader;
    struct snib__buffer out;
    uint64_t appended, written; /* bytes of the stream */
    struct snib__redis_request *ring;
    size_t first, count, room;
    size_t abandoned; /* of the first requests, those nobody waits for */
    int64_t heard_ns; /* the last byte, or the connection */
    int64_t dialled_ns;
    int sys;
    char why[120]; /* what ended the last connection */
};

void snib__link_init(struct snib__redis_link *, const struct snib__redis_link_calls *,
                     const struct snib__redis_peer *, void *owner);

/* Add a request to the pipeline, connecting if need be. False: no memory, nothing was added. */
bool snib__link_ask(struct snib__redis_link *, const struct snib__redis_request *, int argc,
                    const char **argv, const size_t *sizes);

/* Commands without a request, on a link that listens. */
bool snib__link_say(struct snib__redis_link *, int argc, const char **argv, const size_t *sizes);

bool snib__link_idle(const struct snib__redis_link *);
bool snib__link_clear(const struct snib__redis_link *); /* up, and all is sent */
void snib__link_flush(struct snib__redis_link *);
void snib__link_dial(struct snib__redis_link *);                /* if it is down */
void snib__link_drop(struct snib__redis_link *, void *subject); /* nobody wants its answers */

/* For drive: what to poll, what became ready, what time-outs are due, and when the next one is. */
bool snib__link_poll(const struct snib__redis_link *, struct pollfd *);
void snib__link_step(struct snib__redis_link *, short revents);
void snib__link_expire(struct snib__redis_link *, int64_t now_ns);
int64_t snib__link_next(const struct snib__redis_link *);

/* End the connection now, with this explanation. */
void snib__link_lose(struct snib__redis_link *, enum snib__redis_loss, int sys, const char *why);
void snib__link_close(struct snib__redis_link *); /* silently; nobody is told */

#endif
