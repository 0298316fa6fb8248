/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine for MySQL and MariaDB: its table.
 *
 *   mysql://user[:password]@host[:port]/database      mariadb:// is the same; default port 3306
 *
 * What both SQL engines do is in sql/: bids.c has the *Safety* comment. Here is what these servers
 * are:
 *
 *   engine.c      settings.c           the slots; what the URL says
 *   examine.c                          how is it
 *   driver.c                           requests, one at a time on a link; the first words
 *   link.c                             a connection by libmariadb
 *   statements.c  errors.c  digest.c   what is sent; what a refusal means; names as hashes
 *
 * Safety, beside what bids.c says
 * -------------------------------
 * GET_LOCK is one server's: where several answer for one (Galera), each has its own, and such a
 * server is refused. The server's idle time-out has whole seconds and is the ttl rounded up, so it
 * never ends a session early. A session that is ended hears of it a moment before its locks are
 * free.
 *
 * Tokens are drawn by who has the lock, on the link that has it, and are at least the server's
 * clock in microseconds: a row that was lost by a crash or a dropped table makes them go back only
 * if the clock goes back, too.
 */
#include "engines/mysql/driver.h"
#include "engines/mysql/examine.h"
#include "engines/mysql/session.h"
#include "engines/sql/loop.h"
#include "engines/sql/queries.h"

extern const struct snib__engine snib_engine_module;

static const struct snib__param params[] = {
    [MYSQL_CA] = {"ca", SNIB__TEXT, NULL, 1, 4096, NULL, "authorities to trust"},
    [MYSQL_CERT] = {"cert", SNIB__TEXT, NULL, 1, 4096, NULL, "a certificate to show"},
    [MYSQL_KEY_FILE] = {"key", SNIB__TEXT, NULL, 1, 4096, NULL, "the key of the certificate"},
    [MYSQL_PASSFILE] = {"passfile", SNIB__TEXT, NULL, 1, 1000, NULL,
                        "a file with the password, readable by its owner only"},
    [MYSQL_TLS] = {"tls", SNIB__CHOICE, NULL, 0, 0, "verify|insecure|no",
                   "insecure: accept any certificate; no: none"},
    [MYSQL_SOCKET] = {"socket", SNIB__TEXT, NULL, 1, 107, NULL, "a Unix socket of the server"},
    [MYSQL_PREFIX] = {"prefix", SNIB__TEXT, "snib", 1, MYSQL_PREFIX_MAX, NULL,
                      "of the names of the tables"},
    [MYSQL_POOLER] = {"pooler", SNIB__CHOICE, "no", 0, 0, "no|session",
                      "session: there is one in between, and it keeps sessions apart"},
    [MYSQL_QUARANTINE] = {"quarantine", SNIB__FLAG, "yes", 0, 1, NULL,
                          "after the server's restart grant nothing until old leases are over"},
    [MYSQL_MAX_WAITS] = {"max-waits", SNIB__COUNT, "16", 0, 48, NULL,
                         "connections for waiting; above that, asked again and again"},
    [MYSQL_MODE] = {"mode", SNIB__CHOICE, "session", 0, 0, "session",
                    "session: GET_LOCK on a connection that is a lease"},
    [MYSQL_PARAMS] = {.name = NULL},
};

static int open_session(struct snib__session *session, snib_error *err)
{
    struct mysql_session *m = session->state;
    int rc = mysql_settings_read(&m->settings, session, err);
    m->sql.session = session;
    m->sql.driver = &mysql_driver;
    m->sql.settings = &m->settings;
    m->sql.name = "mysql";
    m->sql.where = m->settings.where;
    m->sql.hosts = 1;
    m->sql.max_extra = (size_t)session->values[MYSQL_MAX_WAITS].number;
    sql_open(&m->sql);
    return rc;
}

static void close_session(struct snib__session *session)
{
    struct mysql_session *m = session->state;
    if (m->sql.session) {
        sql_close(&m->sql);
        mysql_settings_free(&m->settings);
        m->sql.session = NULL;
    }
}

const struct snib__engine snib_engine_module = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "mysql",
    .aliases = "mariadb",
    .summary = "a MySQL or MariaDB server: GET_LOCK on connections that are leases",
    .promise = "one holder while the server lives; after a restart, a quarantine",
    .traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_LEASED | SNIB_TRAIT_CROSS_HOST | SNIB_TRAIT_AT_ONCE |
              SNIB_TRAIT_BREAKS | SNIB_TRAIT_LISTS,
    .session_size = sizeof(struct mysql_session),
    .claim_size = sizeof(struct sql_ticket),
    .query_size = sizeof(struct sql_query),
    .params = params,
    .open = open_session,
    .close = close_session,
    .attempt = sql_attempt,
    .renew = sql_renew,
    .release = sql_release,
    .drive = sql_drive,
    .inspect = sql_inspect,
    .evict = sql_evict,
    .examine = mysql_examine,
    .rights = mysql_rights,
};
