/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PostgreSQL engine: its table.
 *
 *   postgres://[user[:password]@][host[:port][,host...]][/database]     postgresql:// is the same
 *
 * What both SQL engines do is in sql/: bids.c has the *Safety* comment. Here is what PostgreSQL is:
 *
 *   engine.c     settings.c     the slots; what the URL and libpq's environment say
 *   examine.c                   how is it
 *   link.c       greeting.c     a connection by libpq; its first words
 *   send.c                      what leaves by it
 *   statements.c errors.c       what is sent; what a refusal means
 */
#include "engines/postgres/examine.h"
#include "engines/postgres/link.h"
#include "engines/postgres/session.h"
#include "engines/postgres/statements.h"
#include "engines/sql/loop.h"
#include "engines/sql/queries.h"

extern const struct snib__engine snib_engine_module;

static int open_session(struct snib__session *session, snib_error *err)
{
    struct pg_session *p = session->state;
    int rc = pg_settings_read(&p->settings, session, err);
    p->sql.session = session;
    p->sql.driver = &pg_driver;
    p->sql.settings = &p->settings;
    p->sql.name = "postgres";
    p->sql.where = p->settings.where;
    p->sql.hosts = p->settings.host_count ? p->settings.host_count : 1;
    p->sql.max_extra = (size_t)session->values[PG_MAX_WAITS].number;
    p->sql.lease = p->settings.lease;
    p->sql.looks = true;
    sql_open(&p->sql);
    if (rc == SNIB_OK && !pg_statements_make(&p->settings)) {
        rc = snib__fail(err, SNIB_ENOMEM, 0, "postgres: out of memory");
    }
    session->traits &= p->settings.lease
                           ? ~(unsigned)SNIB_TRAIT_AT_ONCE
                           : ~(unsigned)(SNIB_TRAIT_COUNTED | SNIB_TRAIT_TTL_PER_LOCK);
    session->why =
        p->settings.lease ? NULL : "counted locks and a ttl of their own want mode=lease";
    return rc;
}

static void close_session(struct snib__session *session)
{
    struct pg_session *p = session->state;
    if (p->sql.session) {
        sql_close(&p->sql);
        pg_statements_free(&p->settings);
        pg_settings_free(&p->settings);
        p->sql.session = NULL;
    }
}

const struct snib__engine snib_engine_module = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "postgres",
    .aliases = "postgresql",
    .summary = "a PostgreSQL server: advisory locks on connections that are leases, or rows",
    .promise = "one holder while the server lives; after a restart or failover, a quarantine",
    .traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_LEASED |
              SNIB_TRAIT_TTL_PER_LOCK | SNIB_TRAIT_CROSS_HOST | SNIB_TRAIT_AT_ONCE |
              SNIB_TRAIT_BREAKS | SNIB_TRAIT_LISTS,
    .session_size = sizeof(struct pg_session),
    .claim_size = sizeof(struct sql_ticket),
    .query_size = sizeof(struct sql_query),
    .params = pg_params,
    .open = open_session,
    .close = close_session,
    .attempt = sql_attempt,
    .renew = sql_renew,
    .release = sql_release,
    .drive = sql_drive,
    .inspect = sql_inspect,
    .evict = sql_evict,
    .examine = pg_examine,
    .rights = pg_rights,
};
