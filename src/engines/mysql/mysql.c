/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MySQL and MariaDB.
 *
 *     mysql://user[:password]@host[:port]/database[?mode=session|lease...]
 *
 * What is locked and how is in schema.sql; what is promised, and when it is not, in sql/sql.h. Here
 * is what a URL may say.
 *
 * Particular to MySQL: a grant and a release are a commit each, in both modes, since the server has
 * no table that forgets with its sessions and takes part in transactions all the same. Who waits
 * has a second connection, which sleeps until it is rung (KILL QUERY): see driver.c.
 *
 * Not done: several hosts in one URL. A failover to another server is a loss of all sessions, and
 * in lease mode of all that was not replicated: it should be somebody's decision.
 */
#include "engines/mysql/mysql.h"

#include "sql/sql.h"

#include <stdio.h>
#include <stdlib.h>
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
    [SOCKET] = {"socket", SNIB__TEXT, NULL, 1, 200, NULL, "the path of a Unix socket"},
    [POOLER] = {"pooler", SNIB__CHOICE, "refuse", 0, 0, "refuse|session",
                "a pooler that keeps a session for each client"},
    [QUARANTINE] = {"quarantine", SNIB__FLAG, "yes", 0, 1, NULL,
                    "wait after a restart until lost leases are over"},
    {.name = NULL},
};

static bool is_one_of(unsigned number, const unsigned *list)
{
    while (*list && *list != number) {
        list++;
    }
    return *list != 0;
}

static enum sql_sense sense(const struct sql_error *error)
{
    static const unsigned again[] = {1020, 1205, 1213, 1317, 1969, 3024, 0};
    static const unsigned denied[] = {1044, 1045, 1142, 1143, 1227, 1370, 1698, 0};
    static const unsigned read_only[] = {1290, 1836, 0};
    return is_one_of(error->number, again)       ? SQL_AGAIN
           : is_one_of(error->number, denied)    ? SQL_DENIED
           : is_one_of(error->number, read_only) ? SQL_READ_ONLY
                                                 : SQL_BAD;
}

static const struct sql_dialect dialect = {
    .name = "mysql",
    .driver = &mysql_driver,
    .style = {.call = "CALL snib_",
              .blob = "X'",
              .blob_end = "'",
              .begin = "START TRANSACTION;",
              .commit = "COMMIT;"},
    .remedy = MYSQL_REMEDY,
    .greet = mysql_greet,
    .sense = sense,
    .examination = mysql_examination,
    .examined = mysql_examined,
};

/* libmariadb trusts nobody by itself; the system's authorities are a good default. */
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
        return snib__fail(err, SNIB_EINVAL, 0, "mysql: one host, the primary server");
    }
    if (v[SOCKET].text && url->host_count > 0 && url->hosts[0].name[0]) {
        return snib__fail(err, SNIB_EINVAL, 0, "mysql: a host and socket=: one of them");
    }
    const char *database = url->path[0] == '/' ? url->path + 1 : url->path;
    bool fits = copy(t->host, sizeof t->host, url->host_count ? url->hosts[0].name : "") &&
                copy(t->user, sizeof t->user, url->user) &&
                copy(t->password, sizeof t->password, url->password) &&
                copy(t->database, sizeof t->database, database) &&
                copy(t->socket, sizeof t->socket, v[SOCKET].text);
    if (!fits || strchr(database, '/')) {
        return snib__fail(err, SNIB_EINVAL, 0, "mysql: mysql://USER@HOST:PORT/DATABASE");
    }
    t->port = url->host_count ? url->hosts[0].port : 0;
    if (!t->host[0] && !t->socket[0]) {
        return snib__fail(err, SNIB_EINVAL, 0, "mysql: a host, or socket=PATH");
    }
    if (!database[0]) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "mysql: the database for the tables: mysql://USER@HOST/DATABASE");
    }
    t->leased = v[MODE].number == 1;
    t->pooled = v[POOLER].number == 1;
    t->quarantines = v[QUARANTINE].number == 1;
    t->ttl_ms = session->ttl_ms;
    t->max_lease_ms = session->max_lease_ms;
    t->timeout_ms = session->timeout_ms;
    choose_tls(t, v);
    return SNIB_OK;
}

static int mysql_open(struct snib__session *session, snib_error *err)
{
    struct sql_target t = {0};
    const char *passfile = session->values[PASSFILE].text;
    int rc = read_target(&t, session, err);
    mysql_prepare_library();
    if (rc == SNIB_OK && passfile) {
        rc = t.password[0]
                 ? snib__fail(err, SNIB_EINVAL, 0, "mysql: a password in the URL and passfile=")
                 : sql_passfile(t.password, sizeof t.password, "mysql", passfile, err);
    }
    const char *given = secure_getenv("MYSQL_PWD");
    if (rc == SNIB_OK && !t.password[0] && given && !copy(t.password, sizeof t.password, given)) {
        rc = snib__fail(err, SNIB_EINVAL, 0, "mysql: MYSQL_PWD is too long");
    }
    if (rc == SNIB_OK) {
        rc = sql_open(session, &dialect, &t, session->values[PREFIX].text, err);
    }
    explicit_bzero(&t, sizeof t);
    return rc;
}

const struct snib__engine snib_engine_module = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "mysql",
    .aliases = "mariadb",
    .summary = "MySQL, MariaDB: rows that live by a session (mode=session) or a lease (mode=lease)",
    .promise = "one holder on one running server; a restart or failover ends session locks",
    .traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_LEASED |
              SNIB_TRAIT_TTL_PER_LOCK | SNIB_TRAIT_CROSS_HOST | SNIB_TRAIT_AT_ONCE |
              SNIB_TRAIT_BREAKS | SNIB_TRAIT_LISTS,
    .session_size = sizeof(struct sql),
    .claim_size = sizeof(struct sql_claim),
    .query_size = sizeof(struct sql_query),
    .params = params,
    .open = mysql_open,
    .close = sql_close,
    .attempt = sql_attempt,
    .renew = sql_renew,
    .release = sql_release,
    .drive = sql_drive,
    .inspect = sql_inspect,
    .evict = sql_evict,
    .examine = sql_examine,
};
