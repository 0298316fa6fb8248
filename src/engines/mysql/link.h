/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_MYSQL_LINK_H
#define SNIB_MYSQL_LINK_H

/*
 * One connection to a MySQL or MariaDB server, by libmariadb, never blocking: it is opened, answers
 * one request at a time, and is watched in between.
 */

#include "base/clock.h"
#include "engines/engine.h"
#include "net/lookup.h"

#include <mysql.h>
#include <poll.h>
#include <stdbool.h>

enum { MYSQL_LINK_WHY = 240 };

enum mysql_tls { MYSQL_TLS_NO, MYSQL_TLS_INSECURE, MYSQL_TLS_VERIFY };

/* Where a server is, and who we are there. Texts are borrowed and outlive every link. */
struct mysql_target {
    const char *host;   /* NULL with a socket */
    const char *socket; /* NULL: none */
    int port;
    const char *user, *password, *database;
    enum mysql_tls tls;
    const char *ca, *cert, *key; /* NULL: none; ca NULL: the system's */
};

enum mysql_stage {
    MYSQL_APART,   /* not open */
    MYSQL_FINDING, /* its name is looked up */
    MYSQL_JOINING, /* connecting, signing in */
    MYSQL_SHAKING, /* the same with TLS, on a thread of its own */
    MYSQL_IDLE,    /* may be asked */
    MYSQL_ASKING,  /* a request is under way: these three */
    MYSQL_READING,
    MYSQL_TURNING /* to the next statement's result */
};

/* A row of an answer; texts are borrowed, NULL is SQL's. */
struct mysql_row {
    const char *const *texts;
    const unsigned long *sizes;
    unsigned count;
    unsigned statement; /* which of the request's, from 0, counting those that have rows */
};

struct mysql_link;

/* From inside mysql_link_step; a link may be closed and asked from in there, not freed. */
struct mysql_link_upcalls {
    void (*joined)(struct mysql_link *);
    void (*row)(struct mysql_link *, const struct mysql_row *);
    /* `code` 0: all statements were executed; else the server's error, why in `why`, and those
     * behind that statement were not. */
    void (*answered)(struct mysql_link *, unsigned code);
    /* It is APART: `sys`, `code` and `why` tell. `asking`: a request was under way. */
    void (*lost)(struct mysql_link *, bool asking);
};

struct mysql_link {
    const struct mysql_link_upcalls *upcalls;
    void *owner;
    struct snib__session *session;
    const struct mysql_target *target;
    enum mysql_stage stage;
    MYSQL *my;
    int wait;     /* what libmariadb waits for */
    bool running; /* a call of libmariadb is under way */
    bool piped;   /* writing may raise SIGPIPE */
    MYSQL *connected;
    MYSQL_RES *result;
    int failed;
    unsigned statement;
    char *text; /* of the request */
    size_t size;
    bool over; /* its first call was answered at once */
    struct snib__lookup *lookup;
    struct addrinfo *addresses, *next;
    char address[64]; /* the next one as a text: the library reads it as long as it connects */
    struct snib__work *shaking;
    struct shake *shake;
    int64_t limit_ms; /* of the TLS handshake's thread */
    int sys;
    unsigned code; /* the server's or the library's */
    char why[MYSQL_LINK_WHY];
};

void mysql_link_init(struct mysql_link *, const struct mysql_link_upcalls *, void *owner,
                     struct snib__session *, const struct mysql_target *);

/* Begins to open it; the deadline is the caller's, who closes it then. */
void mysql_link_open(struct mysql_link *, int64_t limit_ms);

/* Sends a text of statements, which it frees; the link is IDLE. What comes of it comes by upcalls,
 * from steps. */
void mysql_link_ask(struct mysql_link *, char *text, size_t size);

/* What to poll for; fd -1: nothing. */
struct pollfd mysql_link_poll(const struct mysql_link *);

/* Whatever is ready. */
void mysql_link_step(struct mysql_link *);

/* Something is ready that no descriptor tells. */
static inline bool mysql_link_due(const struct mysql_link *l)
{
    return l->over || (l->stage == MYSQL_FINDING && !l->lookup);
}

/* Without a word to anybody. In a forked child the parent's connection lives on. */
void mysql_link_close(struct mysql_link *, bool forked);

/* The number the server gave the connection in its greeting. */
unsigned long mysql_link_number(const struct mysql_link *);

/* What the server says it is: "10.11.6-MariaDB"; "" before it is joined. */
const char *mysql_link_version(const struct mysql_link *);

#endif
