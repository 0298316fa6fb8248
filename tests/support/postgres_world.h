/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the PostgreSQL engine share.
 */
#ifndef SNIB_TESTS_POSTGRES_WORLD_H
#define SNIB_TESTS_POSTGRES_WORLD_H

#include "check.h"
#include "server_postgres.h"

#include <libpq-fe.h>
#include <snib.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONG_MS = 20000 };

/* One statement, as the superuser; the first column of its first row, or "". */
static inline const char *sql(const struct server *server, const char *text)
{
    static char value[400];
    char where[100];
    snprintf(where, sizeof where, "host=127.0.0.1 port=%d user=snib dbname=postgres", server->port);
    PGconn *db = PQconnectdb(where);
    if (PQstatus(db) != CONNECTION_OK) {
        FAIL("%s", PQerrorMessage(db));
    }
    PGresult *result = PQexec(db, text);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        FAIL("%s: %s", text, PQresultErrorMessage(result));
    }
    snprintf(value, sizeof value, "%s",
             PQntuples(result) > 0 && PQnfields(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(db);
    return value;
}

static inline snib *client_of(const char *url)
{
    snib *client;
    snib_error error;
    setenv("SNIB_MODULES", TEST_BUILD_DIR "/engines", 1);
    CHECK_OK(snib_open(&client, url, &error), error.message);
    return client;
}

static inline const char *url_at(int port, const char *parameters)
{
    static char urls[4][300];
    static int next;
    char *url = urls[next++ % 4];
    snprintf(url, sizeof urls[0], "postgres://snib@127.0.0.1:%d/postgres%s%s", port,
             parameters[0] ? "?" : "", parameters);
    return url;
}

static inline snib *client_at(int port, const char *parameters)
{
    return client_of(url_at(port, parameters));
}

static inline snib_lease *take(snib *client, const char *name, const snib_options *options)
{
    snib_lease *lease;
    snib_error error;
    snib_options patient = SNIB_OPTIONS;
    patient.wait_ms = check_ms(LONG_MS);
    CHECK_OK(snib_acquire(&lease, client, name, options ? options : &patient, &error),
             error.message);
    return lease;
}

static inline void give(snib_lease *lease)
{
    snib_error error;
    CHECK_OK(snib_release(&lease, &error), error.message);
}

/* One try, in vain: the code. */
static inline int refused(snib *client, const char *name, snib_error *error)
{
    snib_lease *lease = NULL;
    snib_options now = SNIB_OPTIONS;
    now.wait_ms = 0;
    int code = snib_acquire(&lease, client, name, &now, error);
    CHECK_INT(code, <, 0);
    return code;
}

static inline bool is_lost(void *lease)
{
    return snib_state(lease) == SNIB_LOST;
}

static inline void must_say(const snib_error *error, const char *word)
{
    if (strstr(error->message, word) == NULL) {
        FAIL("'%s' is said, and not '%s'", error->message, word);
    }
}

/* Somebody in a process of its own; spawned before any client is opened. Holds "name" from `go` on
 * until `let_go`. */
struct holder {
    char url[300];
    struct check_flag go, held, let_go, over;
    _Atomic uint64_t token;
    _Atomic int64_t held_ns;
    _Atomic int state, code; /* at the end, and of the release */
};

static inline void hold_it(void *arg)
{
    struct holder *h = arg;
    snib_options patient = SNIB_OPTIONS;
    patient.wait_ms = check_ms(2 * LONG_MS);
    check_flag_wait(&h->go, 4 * LONG_MS);
    snib *client = client_of(h->url);
    snib_lease *lease = take(client, "name", &patient);
    atomic_store(&h->held_ns, check_now_ns());
    atomic_store(&h->token, snib_token(lease));
    check_flag_set(&h->held);
    check_flag_wait(&h->let_go, 4 * LONG_MS);
    atomic_store(&h->state, snib_state(lease));
    atomic_store(&h->code, snib_release(&lease, NULL));
    snib_close(client);
    check_flag_set(&h->over);
}

static inline struct holder *holder_new(const char *url)
{
    struct holder *h = check_shared(sizeof *h);
    snprintf(h->url, sizeof h->url, "%s", url);
    return h;
}

#endif
