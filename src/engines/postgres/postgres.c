/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PostgreSQL.
 *
 *     postgres://[user[:password]@][host[:port]][/database][?mode=session|lease...]
 *
 * What is locked and how is in schema.sql; what is promised, and when it is not, in sql/sql.h. Here
 * is what a URL may say. Whatever it does not say is libpq's: PGHOST, PGSERVICE, PGPASSFILE and
 * their like, so that a URL may be as short as `postgres:`.
 *
 * Particular to PostgreSQL: tables of session mode are unlogged, so a grant waits for no disk but
 * every 32nd time, when the sequence of tokens logs ahead; a client waits by listening on its one
 * connection (NOTIFY), for any number of locks.
 *
 * Not done: several hosts in one URL. A failover to another server is a loss of all sessions, and
 * in lease mode of all that was not replicated: it should be somebody's decision.
 */
#include "engines/postgres/postgres.h"

#include "sql/sql.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MODE, PREFIX, PASSFILE, TLS, CA, SOCKET, POOLER, QUARANTINE };

static const struct snib__param params[] = {
    [MODE] = {"mode", SNIB__CHOICE, "session", 0, 0, "session|lease",
              "what a lock lives by: its session, or its lease"},
    [PREFIX] = {"prefix", SNIB__TEXT, "snib", 0, 64, NULL,
                "names with another prefix are other names"},
    [PASSFILE] = {"passfile", SNIB__TEXT, NULL, 1, 4096, NULL,
                  "a file with the password, readable by its owner only"},
    [TLS] = {"tls", SNIB__CHOICE, "auto", 0, 0, "auto|verify|no",
             "verify is a matter of course but on this host"},
    [CA] = {"ca", SNIB__TEXT, NULL, 1, 500, NULL, "a file with the authorities to trust"},
    [SOCKET] = {"socket", SNIB__TEXT, NULL, 1, 200, NULL, "the folder of a Unix socket"},
    [POOLER] = {"pooler", SNIB__CHOICE, "refuse", 0, 0, "refuse|session",
                "a pooler that keeps a session for each client"},
    [QUARANTINE] = {"quarantine", SNIB__FLAG, "yes", 0, 1, NULL,
                    "wait after a restart until lost leases are over"},
    {.name = NULL},
};

static enum sql_sense sense(const struct sql_error *error)
{
    static const char *const again[] = {"40001", "40P01", "55P03", "57014"};
    for (size_t i = 0; i < sizeof again / sizeof again[0]; i++) {
        if (strcmp(error->state, again[i]) == 0) {
            return SQL_AGAIN;
        }
    }
    if (strcmp(error->state, "42501") == 0 || strncmp(error->state, "28", 2) == 0) {
        return SQL_DENIED;
    }
    return strcmp(error->state, "25006") == 0 ? SQL_READ_ONLY : SQL_BAD;
}

static const struct sql_dialect dialect = {
    .name = "postgres",
    .driver = &postgres_driver,
    .style = {.call = "SELECT * FROM snib.",
              .blob = "'\\x",
              .blob_end = "'::bytea",
              .begin = "",
              .commit = ""},
    .remedy = POSTGRES_REMEDY,
    .greet = postgres_greet,
    .sense = sense,
    .examination = postgres_examination,
    .examined = postgres_examined,
};

/* libpq trusts nobody by itself; the system's authorities are a good default. */
static const char *authorities(const char *given)
{
    static const char system[] = "/etc/ssl/certs/ca-certificates.crt";
    return given ? given : access(system, R_OK) == 0 ? system : "";
}

static bool copy(char *out, size_t size, const char *text)
{
    return (size_t)snprintf(out, size, "%s", text ? text : "") < size;
}

static void choose_tls(struct sql_target *t, const union snib__value *v)
{
    t->tls = (enum sql_tls)v[TLS].number;
    if (t->tls == SQL_TLS_AUTO && t->host[0] && !sql_is_loopback(t->host)) {
        t->tls = SQL_TLS_VERIFY;
    }
    if (t->tls == SQL_TLS_VERIFY) {
        copy(t->ca, sizeof t->ca, authorities(v[CA].text));
    }
}

static int read_target(struct sql_target *t, const struct snib__session *session, snib_error *err)
{
    const struct snib__url *url = session->url;
    const union snib__value *v = session->values;
    if (url->host_count > 1) {
        return snib__fail(err, SNIB_EINVAL, 0, "postgres: one host, the primary server");
    }
    if (v[SOCKET].text && url->host_count > 0 && url->hosts[0].name[0]) {
        return snib__fail(err, SNIB_EINVAL, 0, "postgres: a host and socket=: one of them");
    }
    const char *database = url->path[0] == '/' ? url->path + 1 : url->path;
    bool fits = copy(t->host, sizeof t->host, url->host_count ? url->hosts[0].name : "") &&
                copy(t->user, sizeof t->user, url->user) &&
                copy(t->password, sizeof t->password, url->password) &&
                copy(t->database, sizeof t->database, database) &&
                copy(t->socket, sizeof t->socket, v[SOCKET].text);
    if (!fits || strchr(database, '/')) {
        return snib__fail(err, SNIB_EINVAL, 0, "postgres: postgres://USER@HOST:PORT/DATABASE");
    }
    t->port = url->host_count ? url->hosts[0].port : 0;
    t->leased = v[MODE].number == 1;
    t->pooled = v[POOLER].number == 1;
    t->quarantines = v[QUARANTINE].number == 1;
    t->ttl_ms = session->ttl_ms;
    t->max_lease_ms = session->max_lease_ms;
    t->timeout_ms = session->timeout_ms;
    choose_tls(t, v);
    return SNIB_OK;
}

static int postgres_open(struct snib__session *session, snib_error *err)
{
    struct sql_target t = {0};
    const char *passfile = session->values[PASSFILE].text;
    int rc = read_target(&t, session, err);
    if (rc == SNIB_OK && passfile) {
        rc = t.password[0]
                 ? snib__fail(err, SNIB_EINVAL, 0, "postgres: a password in the URL and passfile=")
                 : sql_passfile(t.password, sizeof t.password, "postgres", passfile, err);
    }
    if (rc == SNIB_OK) {
        rc = sql_open(session, &dialect, &t, session->values[PREFIX].text, err);
    }
    explicit_bzero(&t, sizeof t);
    return rc;
}

const struct snib__engine snib_engine_module = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "postgres",
    .aliases = "postgresql",
    .summary = "PostgreSQL: rows that live by a session (mode=session) or a lease (mode=lease)",
    .promise = "one holder on one running server; a restart or failover ends session locks",
    .traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_LEASED |
              SNIB_TRAIT_TTL_PER_LOCK | SNIB_TRAIT_CROSS_HOST | SNIB_TRAIT_AT_ONCE |
              SNIB_TRAIT_BREAKS | SNIB_TRAIT_LISTS,
    .session_size = sizeof(struct sql),
    .claim_size = sizeof(struct sql_claim),
    .query_size = sizeof(struct sql_query),
    .params = params,
    .open = postgres_open,
    .close = sql_close,
    .attempt = sql_attempt,
    .renew = sql_renew,
    .release = sql_release,
    .drive = sql_drive,
    .inspect = sql_inspect,
    .evict = sql_evict,
    .examine = sql_examine,
};
