/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libpq, used without blocking once connected.
 *
 * Notices are thrown away: libpq would print them. In a forked child the descriptor is pointed at
 * /dev/null before the connection is freed: PQfinish says good-bye on it, and the parent's session
 * would end.
 */
#include "engines/postgres/postgres.h"

#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct connection {
    PGconn *pg;
    bool refused; /* a statement of the present packet was */
    struct sql_error error;
    struct sql_answer answer;
};

static void ignore(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

/* The first line of what the library says. */
static void keep_message(struct sql_error *error, const char *message)
{
    snprintf(error->text, sizeof error->text, "%s", message ? message : "out of memory");
    error->text[strcspn(error->text, "\n")] = '\0';
}

/* ---- Connecting ------------------------------------------------------------------------- */

enum { WORDS = 24 };

struct keywords {
    const char *names[WORDS], *values[WORDS];
    size_t count;
};

static void give(struct keywords *k, const char *name, const char *value)
{
    if (value && value[0]) {
        k->names[k->count] = name;
        k->values[k->count++] = value;
    }
}

static const char *tls_of(const struct sql_target *t)
{
    switch (t->tls) {
    case SQL_TLS_VERIFY:
        return "verify-full";
    case SQL_TLS_NO:
        return "disable";
    default:
        return NULL; /* libpq's own: PGSSLMODE, a service file */
    }
}

static PGconn *start(const struct sql_target *t, const char *address)
{
    struct keywords k = {0};
    char port[16] = "", limit[24], keepalive[24];
    if (t->port) {
        snprintf(port, sizeof port, "%d", t->port);
    }
    snprintf(limit, sizeof limit, "%lld", (long long)t->ttl_ms);
    snprintf(keepalive, sizeof keepalive, "%lld", (long long)(t->ttl_ms / 3000 + 1));
    give(&k, "host", t->socket[0] ? t->socket : t->host);
    give(&k, "hostaddr", address);
    give(&k, "port", port);
    give(&k, "user", t->user);
    give(&k, "password", t->password);
    give(&k, "dbname", t->database);
    give(&k, "sslmode", tls_of(t));
    give(&k, "sslrootcert", t->ca);
    give(&k, "gssencmode", "disable");
    give(&k, "tcp_user_timeout", limit);
    give(&k, "keepalives_idle", keepalive);
    give(&k, "keepalives_interval", keepalive);
    give(&k, "keepalives_count", "2");
    give(&k, "application_name", "snib");
    return PQconnectStartParams(k.names, k.values, 0);
}

/* libpq has no SQLSTATE for a connection that was refused. */
static void explain(PGconn *pg, struct sql_error *error)
{
    keep_message(error, pg ? PQerrorMessage(pg) : NULL);
    if (strstr(error->text, "authentication") || strstr(error->text, "password") ||
        strstr(error->text, "pg_hba.conf") || strstr(error->text, "role \"")) {
        strcpy(error->state, "28000");
    }
}

static bool connect_until(PGconn *pg, int64_t due_ns, const struct snib__work *work,
                          struct sql_error *error)
{
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    while (status != PGRES_POLLING_OK) {
        struct pollfd p = {.fd = PQsocket(pg),
                           .events = status == PGRES_POLLING_READING ? POLLIN : POLLOUT};
        int64_t left_ms = (due_ns - snib__now().boot_ns) / SNIB__MS;
        if (left_ms <= 0 || snib__work_abandoned(work)) {
            error->sys = ETIMEDOUT;
            snprintf(error->text, sizeof error->text, "no connection in time");
            return false;
        }
        if (poll(&p, 1, left_ms < 100 ? (int)left_ms + 1 : 100) <= 0) {
            continue;
        }
        status = PQconnectPoll(pg);
        if (status == PGRES_POLLING_FAILED) {
            explain(pg, error);
            return false;
        }
    }
    return true;
}

static void *open_connection(const struct sql_target *t, const char *address, int64_t due_ns,
                             const struct snib__work *work, struct sql_error *error)
{
    struct connection *c = calloc(1, sizeof *c);
    PGconn *pg = c ? start(t, address) : NULL;
    if (!pg || PQstatus(pg) == CONNECTION_BAD) {
        explain(pg, error);
        PQfinish(pg);
        free(c);
        return NULL;
    }
    PQsetNoticeReceiver(pg, ignore, NULL);
    if (!connect_until(pg, due_ns, work, error) || PQsetnonblocking(pg, 1) != 0) {
        PQfinish(pg);
        free(c);
        return NULL;
    }
    c->pg = pg;
    return c;
}

static void close_connection(void *connection, bool silently)
{
    struct connection *c = connection;
    int fd = PQsocket(c->pg);
    int nowhere = silently && fd >= 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (nowhere >= 0) {
        dup2(nowhere, fd);
        close(nowhere);
    }
    PQfinish(c->pg);
    sql_answer_free(&c->answer);
    free(c);
}

int postgres_version(void *connection)
{
    return PQserverVersion(((struct connection *)connection)->pg);
}

int postgres_pid(void *connection)
{
    return PQbackendPID(((struct connection *)connection)->pg);
}

/* ---- Asking ----------------------------------------------------------------------------- */

static bool send_text(void *connection, const char *text, size_t size)
{
    struct connection *c = connection;
    (void)size;
    c->refused = false;
    sql_answer_free(&c->answer);
    return PQsendQuery(c->pg, text) == 1 && PQflush(c->pg) >= 0;
}

static bool keep_rows(struct connection *c, const PGresult *result)
{
    int rows = PQntuples(result), columns = PQnfields(result);
    struct sql_set *set = sql_answer_add(&c->answer, (size_t)rows, (size_t)columns);
    for (int i = 0; set && i < rows; i++) {
        for (int k = 0; k < columns; k++) {
            if (!PQgetisnull(result, i, k) &&
                !sql_set_put(set, (size_t)i, (size_t)k, PQgetvalue(result, i, k),
                             (size_t)PQgetlength(result, i, k))) {
                return false;
            }
        }
    }
    return set != NULL;
}

static void keep_error(struct connection *c, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    c->refused = true;
    c->error = (struct sql_error){0};
    snprintf(c->error.state, sizeof c->error.state, "%s", state ? state : "");
    keep_message(&c->error, primary ? primary : PQresultErrorMessage(result));
}

static enum sql_turn broken(struct connection *c, struct sql_error *error)
{
    if (c->refused) { /* the server's last words */
        *error = c->error;
    } else {
        keep_message(error, PQerrorMessage(c->pg));
    }
    return SQL_BROKEN;
}

static enum sql_turn turn(void *connection, short ready, struct sql_answer *answer,
                          struct sql_error *error)
{
    struct connection *c = connection;
    (void)ready;
    if (PQflush(c->pg) < 0 || PQconsumeInput(c->pg) == 0) {
        return broken(c, error);
    }
    while (!PQisBusy(c->pg)) {
        PGresult *result = PQgetResult(c->pg);
        if (!result) {
            if (PQstatus(c->pg) == CONNECTION_BAD) {
                return broken(c, error);
            }
            *error = c->error;
            *answer = c->answer;
            c->answer = (struct sql_answer){0};
            return c->refused ? SQL_REFUSED : SQL_DONE;
        }
        ExecStatusType status = PQresultStatus(result);
        bool kept = status != PGRES_TUPLES_OK || keep_rows(c, result);
        if (status == PGRES_FATAL_ERROR) {
            keep_error(c, result);
        }
        PQclear(result);
        if (!kept) {
            snprintf(error->text, sizeof error->text, "out of memory");
            return SQL_BROKEN;
        }
    }
    return SQL_GOING;
}

static enum sql_turn watch(void *connection, struct sql_error *error)
{
    struct connection *c = connection;
    c->refused = false;
    return PQconsumeInput(c->pg) == 0 || PQstatus(c->pg) == CONNECTION_BAD ? broken(c, error)
                                                                           : SQL_GOING;
}

static bool hint(void *connection, short ready, char out[40])
{
    struct connection *c = connection;
    (void)ready; /* they come by the same descriptor */
    PGnotify *n = PQnotifies(c->pg);
    if (!n) {
        return false;
    }
    snprintf(out, 40, "%.39s", n->extra);
    PQfreemem(n);
    return true;
}

/* The session listens from its greeting on. */
static void listen_always(void *connection, bool wanted)
{
    (void)connection;
    (void)wanted;
}

static size_t to_poll(void *connection, struct pollfd out[SQL_POLLS])
{
    struct connection *c = connection;
    short more = PQflush(c->pg) > 0 ? POLLOUT : 0;
    out[0] = (struct pollfd){.fd = PQsocket(c->pg), .events = (short)(POLLIN | more)};
    return 1;
}

const struct sql_driver postgres_driver = {
    .open = open_connection,
    .close = close_connection,
    .send = send_text,
    .turn = turn,
    .watch = watch,
    .hint = hint,
    .listen = listen_always,
    .poll = to_poll,
};
