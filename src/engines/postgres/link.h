/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_POSTGRES_LINK_H
#define SNIB_POSTGRES_LINK_H

#include "engines/sql/driver.h"

#include <libpq-fe.h>

extern const struct sql_driver pg_driver;

enum pg_state { PG_LOOKING_UP, PG_CONNECTING, PG_GREETING, PG_READY };

/* In link->connection. */
struct pg_connection {
    enum pg_state state;
    struct snib__lookup *lookup;
    const char *host; /* NULL: libpq's */
    int port;
    PGconn *db;
    PostgresPollingStatusType wants; /* while it connects */
    bool unwritten;                  /* libpq has bytes that the socket did not take */
    bool quiet;                      /* PQgetResult has just said that there is nothing */
    uint64_t prepared;               /* statements that this server session knows, */
    unsigned generation;             /* by names that have this number */
    int64_t due_ns;                  /* until it is ready */
    struct sql_request greeting;     /* the step that is under way */
    int step, repeats;
    bool has_tables, empty;
    int64_t up_ms;            /* how long ago the server was started */
    int64_t forgot_ms;        /* how long ago locks were forgotten; -1: never */
    enum sql_outcome outcome; /* of the oldest request, as far as it has come */
};

/* greeting.c: what is asked first. `row` and `ended` call it; it ends in PG_READY or in a loss. */
void pg_greet(struct sql_link *);

/* send.c. For the greeting: one text, not prepared; `ahead` (ended by NULL, or NULL) in front of
 * it, in the same transaction. */
void pg_send_text(struct sql_link *, struct sql_request *, const char *const ahead[],
                  const char *text);
void pg_send(struct sql_request *);
void pg_flush(struct pg_connection *); /* what libpq has kept */

/* A silent peer is given up within the ttl, if that is more than two seconds: the silence before
 * the first probe, and how many there are, one per second. */
int pg_keepalive_s(int64_t ttl_ms, int *probes);

/* There is one, and nobody said so. */
void pg_refuse_pooler(struct sql_link *);

/* It is over: ends its requests, and says so. */
void pg_lose(struct sql_link *, int code, int sys, const char *why);

#endif
