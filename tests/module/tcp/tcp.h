/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_TESTS_TCP_H
#define SNIB_TESTS_TCP_H

/* What the files of this module share; tcp.c says what it is. Calls go down this page. */

#include "base/list.h"
#include "engines/engine.h"
#include "net/buffer.h"
#include "net/dial.h"
#include "net/stream.h"
#include "net/tls.h"

#include <netinet/in.h>
#include <stdatomic.h>

enum { TCP_LINE = 2048 };

enum { TCP_POLL, TCP_CA }; /* the places of the parameters in their table */

enum kind {
    ATTEMPT,
    RENEW,
    RELEASE,
    INSPECT,
    EVICT,
    EXAMINE,
    NAMING,   /* an examination that waits for its work */
    UNDO,     /* a release whose claim is gone; counted in session->undoing */
    FORGOTTEN /* its claim was released: the reply is of no interest */
};

/* Something asked and not answered. */
struct request {
    struct snib__list place;
    uint64_t number;
    enum kind kind;
    bool sent;
    struct snib__claim *claim;
    struct snib__query *query;
    struct snib__work *work; /* NAMING */
    struct naming *naming;   /* its argument */
    struct snib__instant since;
    int64_t due_ns; /* UNDO: when nothing can be left any more */
    char line[];    /* what to send, after the number */
};

enum state { APART, RESOLVING, DIALLING, STARTING, JOINED };

/* In session->state. */
struct tcp {
    struct snib__session *session;
    enum state state;
    struct snib__work *work; /* RESOLVING */
    struct naming *naming;   /* its argument */
    struct snib__dial dial;
    int fd;
    struct snib__tls *tls; /* NULL: without */
    struct snib__stream *stream;
    struct snib__buffer out, in;
    struct snib__list requests; /* oldest first */
    uint64_t numbers;
    bool joined_before;
    int64_t again_ns; /* not to be dialled before */
};

/* In claim->state. */
struct tcp_claim {
    bool sent; /* something may be at the server */
    bool held;
};

static inline struct tcp *tcp_of(struct snib__session *session)
{
    return session->state;
}

/* link.c: the connection. Asks as soon as it can be asked; false: no memory. */
bool tcp_submit(struct tcp *, enum kind, struct snib__claim *, struct snib__query *,
                const char *format, ...) __attribute__((format(printf, 5, 6)));
void tcp_step(struct tcp *);                   /* handle what is ready, keep time */
bool tcp_rest(struct tcp *, int64_t until_ns); /* true: drive is to return */
void tcp_part(struct tcp *);

/* replies.c: what becomes of a request. False: that is not what we speak. */
bool tcp_reply(struct tcp *, char *line);
void tcp_abandon(struct tcp *, struct request *, int sys, const char *why); /* no connection */
void tcp_named(struct request *); /* NAMING: is it done? */
void tcp_drop(struct request *);

/* naming.c: work that blocks. */
struct naming {
    struct snib__session *to_rouse; /* NULL: nobody */
    atomic_bool ready;
    char host[256];
    char address[INET6_ADDRSTRLEN]; /* "": there is none */
};
struct snib__work *tcp_name(struct snib__session *, struct naming **out, bool rouse);

/* text.c: hexadecimal digits. */
struct hex {
    char digits[2 * SNIB__NAME_MAX + 1];
};
const char *tcp_hex(struct hex *out, const void *bytes, size_t size);
const char *tcp_text_to_hex(struct hex *out, const char *text);
const char *tcp_from_hex(char *text); /* in place; what is not hexadecimal becomes "" */

#endif
