/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_H
#define SNIB_SQL_H

/*
 * The SQL engines but for what is particular to a server: a session's state, and the slots of the
 * contract. An engine has a dialect, parameters, and an `open` that fills a target and calls
 * sql_open; the other slots of its table are those here.
 *
 * Safety
 * ------
 * The server decides, in routines that are alone with a name until their transaction ends. What was
 * granted is a row; when it is over is the difference between the two modes.
 *
 * Session mode. A row ends with the session that wrote it, which is a connection: the server knows
 * of its end by itself. So a killed process gives everything back at once. A host that is lost, or
 * cut off, gives it back when the server ends the idle session, its ttl after the last statement;
 * the holder counts that ttl from before it sent that statement, so it knows earlier. Whoever sees
 * its connection end while it holds has lost, and is told so at once. At most one holder, while the
 * holder's clock is not slower than the server's by more than the drift that the core allows, and
 * nothing stands between that could end the server's side alone: a pooler is refused, other
 * middleboxes cannot be seen. A restarted server has ended all sessions, while a holder that was
 * cut off at that time may believe in its lease: so nothing is granted for max-lease after it was
 * seen to be new (quarantine=). Locks are the server's own: no replica has them, so standbys and
 * servers of several masters are refused.
 *
 * Lease mode. A row ends by the server's clock, whatever becomes of connections; it is as durable
 * as the server's commits. At most one holder, while that clock does not jump forward, and no
 * commit that was answered is lost (a failover to a replica that lags loses some).
 *
 * Tokens grow with every grant that is not shared, for a name as long as its database lives; they
 * go back with a commit that is lost, and with a restored backup.
 *
 * An attempt that went down with its connection may still be executed, after the release that
 * follows on the next one: the release leaves a note that refuses it.
 */

#include "sql/link.h"

#pragma GCC visibility push(default)

/* In session->state. */
struct sql {
    struct snib__session *session;
    const struct sql_dialect *dialect;
    const char *space; /* names of another one are other names */
    const char *mode;  /* "session" or "lease" */
    bool leased;
    struct sql_link link;
    struct snib__list claims; /* those that were attempted and not released */
    size_t held, queued;
    int64_t watch_ns;  /* be attentive from then on */
    int64_t usable_ns; /* the end of a quarantine */
};

/* In claim->state. */
struct sql_claim {
    struct snib__list place;
    struct snib__claim *claim;
    struct sql_request *asking; /* attempt, or a look at our place; NULL: none under way */
    bool listed;
    bool sent;   /* something may be at the server */
    bool astray; /* an attempt may still arrive there, by a connection that is gone */
    bool held, ever_held, queued;
    int queue_place;
    int64_t look_ns; /* when to look at our place again */
};

struct sql_query {
    bool asked; /* evict: the holder knows */
};

int sql_open(struct snib__session *, const struct sql_dialect *, const struct sql_target *,
             const char *space, snib_error *);
void sql_close(struct snib__session *);
void sql_drive(struct snib__session *, int64_t until_ns);
void sql_attempt(struct snib__claim *);
void sql_renew(struct snib__claim *const claims[], size_t n);
void sql_release(struct snib__claim *);
void sql_inspect(struct snib__query *);
void sql_evict(struct snib__query *);
void sql_examine(struct snib__query *);

/* The first line of a file that must be ours, and nobody else's to read. */
int sql_passfile(char *out, size_t size, const char *engine, const char *path, snib_error *);
bool sql_is_loopback(const char *host);

static inline struct sql *sql_of(struct snib__session *session)
{
    return session->state;
}

#pragma GCC visibility pop

#endif
