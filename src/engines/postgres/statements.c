/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is sent to PostgreSQL, and why it is sent like that.
 *
 * @ becomes the schema in quotes, ^ without them: small letters, digits and _. All else is a
 * parameter, so a name or a label is never read as SQL.
 *
 * seats: who holds, who waits. Seat 0 is the name's own: the last exclusive grant, whose token
 * those who share carry on. Others are those of one session, by its pid. A row is a note: it counts
 * as far as pg_locks says that this session has the lock. The table is not logged: what is in it is
 * worth nothing without the server's memory, and a grant is no write to the disk. So a statement
 * that locks, draws a token and notes it is flushed once in 32 grants, when the sequence logs the
 * next 32.
 *
 * Another grant may be told its token before that flush, and a crash then takes both back. Hence
 * `life`: not logged either, it is empty after a crash, and whoever finds it so moves the sequence
 * on by a million before anything is granted. It also knows since when locks may have been
 * forgotten. A new sequence starts at the clock, so that tokens grow over a schema that was
 * dropped.
 *
 * The CTEs that lock are MATERIALIZED: evaluated once. Those that write feed on them. `broken` is
 * in the predicate of the only other index, so that a grant is a heap-only update.
 *
 * What is not done: a wait holds a snapshot as long as it lasts, as every statement does; vacuum
 * has to leave what died since.
 */
#include "engines/postgres/statements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where "is this lock" is asked of pg_locks. */
#define IS_OURS                                                                                    \
    "k.locktype = 'advisory' AND k.objsubid = 1 AND k.database = "                                 \
    "(SELECT d.oid FROM pg_database d WHERE d.datname = current_database())"
#define KEY_OF "((k.classid::bigint << 32) | k.objid::bigint)"
#define SEAT_OF "CASE WHEN k.granted AND k.mode = 'ExclusiveLock' THEN 0 ELSE k.pid END"

#define BUSY_WITH                                                                                  \
    " LEFT JOIN LATERAL (SELECT s.who || CASE WHEN s.label = '' THEN '' ELSE ' ' || s.label END "  \
    "AS who, s.token FROM pg_locks k JOIN @.seats s ON s.key = $1::bigint AND s.pid = k.pid AND "  \
    "s.seat = " SEAT_OF " WHERE NOT l.got AND k.granted AND " IS_OURS " AND " KEY_OF               \
    " = $1::bigint LIMIT 1) b ON true"

#define TAKE_SEAT_0(from)                                                                          \
    "h AS (INSERT INTO @.seats AS s (key, seat, name, mode, token, pid, who, label, since, ttl) "  \
    "SELECT $1::bigint, 0, $2, 0, nextval('@.token'), pg_backend_pid(), $4, $5, "                  \
    "clock_timestamp(), $6::bigint " from " ON CONFLICT (key, seat) DO UPDATE SET mode = 0, "      \
    "token = excluded.token, pid = excluded.pid, who = excluded.who, label = excluded.label, "     \
    "since = excluded.since, ttl = excluded.ttl, broken = NULL WHERE s.name = excluded.name "      \
    "RETURNING s.token)"

#define SHARE_SEAT(from)                                                                           \
    "z AS (INSERT INTO @.seats AS s (key, seat, name, mode, token) SELECT $1::bigint, 0, $2, 0, "  \
    "nextval('@.token') " from " ON CONFLICT (key, seat) DO UPDATE SET name = excluded.name "      \
    "WHERE s.name = excluded.name RETURNING s.token), "                                            \
    "h AS (INSERT INTO @.seats AS s (key, seat, name, mode, token, pid, who, label, since, ttl) "  \
    "SELECT $1::bigint, pg_backend_pid(), $2, 1, z.token, pg_backend_pid(), $4, $5, "              \
    "clock_timestamp(), $6::bigint FROM z ON CONFLICT (key, seat) DO UPDATE SET mode = 1, "        \
    "name = excluded.name, token = excluded.token, pid = excluded.pid, who = excluded.who, "       \
    "label = excluded.label, since = excluded.since, ttl = excluded.ttl, broken = NULL "           \
    "RETURNING s.token)"

#define TRIED " SELECT l.got, h.token, b.who, b.token FROM l LEFT JOIN h ON true" BUSY_WITH

#define HELD_WITH(key, token)                                                                      \
    "@.seats s JOIN pg_locks k ON k.pid = s.pid AND k.granted AND " KEY_OF " = s.key AND "         \
    "s.seat = " SEAT_OF " WHERE s.key = " key "::bigint AND s.token = " token                      \
    "::bigint AND " IS_OURS

static const char *const exclusive[SQL_STATEMENTS] = {
    [SQL_TRY] = "WITH l AS MATERIALIZED (SELECT pg_try_advisory_lock($1::bigint) AS got), " //
    TAKE_SEAT_0("FROM l WHERE got") TRIED,
    [SQL_ENTER] =
        "WITH d AS (DELETE FROM @.seats WHERE ctid IN (SELECT s.ctid FROM @.seats s WHERE "
        "s.key = $1::bigint AND s.seat NOT IN (SELECT 0 UNION ALL SELECT a.pid FROM "
        "pg_stat_get_activity(NULL) a WHERE a.pid IS NOT NULL) FOR UPDATE SKIP LOCKED)) "
        "INSERT INTO @.seats (key, seat, name, mode, pid, who, label, since, ttl) VALUES "
        "($1::bigint, pg_backend_pid(), $2, $3::int, pg_backend_pid(), $4, $5, clock_timestamp(), "
        "$6::bigint) ON CONFLICT (key, seat) DO UPDATE SET name = excluded.name, "
        "mode = excluded.mode, token = NULL, pid = excluded.pid, who = excluded.who, "
        "label = excluded.label, since = excluded.since, ttl = excluded.ttl, broken = NULL",
    /* Its snapshot is older than what it writes over; ON CONFLICT does not mind. */
    [SQL_WAIT] = "WITH l AS MATERIALIZED (SELECT pg_advisory_lock($1::bigint) AS got), "
                 "d AS (DELETE FROM @.seats WHERE key = $1::bigint AND seat = pg_backend_pid() AND "
                 "(SELECT true FROM l)), " TAKE_SEAT_0(
                     "FROM l") " SELECT 1, h.token FROM l LEFT JOIN h ON true",
    [SQL_STANDS] = "SELECT 1 FROM pg_locks WHERE pid = $1::int AND NOT granted",
    [SQL_UNLOCK] = "SELECT pg_advisory_unlock($1::bigint)",
    [SQL_PROVE] = "SELECT key, token, broken FROM @.seats WHERE broken IS NOT NULL AND "
                  "pid = pg_backend_pid()",
    [SQL_SIGHT] =
        "SELECT s.name, s.mode, CASE WHEN k.granted THEN 0 ELSE row_number() OVER (PARTITION BY "
        "s.name, k.granted ORDER BY k.waitstart NULLS LAST, s.since) END AS place, "
        "CASE WHEN k.granted THEN s.token END, s.who, s.label, "
        "(extract(epoch FROM s.since) * 1000)::bigint, NULL, 1, k.pid, s.broken "
        "FROM pg_locks k JOIN @.seats s ON s.key = " KEY_OF " AND s.pid = k.pid AND "
        "s.seat = " SEAT_OF " WHERE " IS_OURS " AND "
        "CASE WHEN $2 = '1' THEN starts_with(s.name, $1) ELSE s.name = $1 END "
        "ORDER BY s.name COLLATE \"C\", place",
    [SQL_MARK] = "WITH m AS (UPDATE @.seats u SET broken = $3 WHERE (u.key, u.seat) IN "
                 "(SELECT s.key, s.seat FROM " HELD_WITH(
                     "$1", "$2") ") "
                                 "RETURNING u.who || CASE WHEN u.label = '' THEN '' ELSE ' ' || "
                                 "u.label END AS who, "
                                 "u.ttl, u.pid) SELECT who, ttl, pg_notify('^_' || pid, '') FROM m",
    [SQL_SEVER] = "WITH t AS MATERIALIZED (SELECT s.key, s.who, s.pid FROM " HELD_WITH(
        "$1", "$2") ") "
                    "SELECT t.who, (SELECT string_agg(o.name, ', ') FROM (SELECT s.name FROM "
                    "@.seats s JOIN "
                    "pg_locks k ON k.pid = s.pid AND k.granted AND " KEY_OF
                    " = s.key AND s.seat = " SEAT_OF " WHERE " IS_OURS
                    " AND s.pid = t.pid AND s.key <> t.key ORDER BY s.name LIMIT 5) o), "
                    "pg_terminate_backend(t.pid) FROM t",
};

/* Rights: all of them on what is used, in that mode. */
#define EXAMINE(tables, functions, count)                                                          \
    "SELECT 'version', current_setting('server_version') UNION ALL "                               \
    "SELECT s, current_setting(s) FROM unnest(ARRAY['fsync', 'idle_session_timeout', "             \
    "'synchronous_commit', 'max_connections', 'superuser_reserved_connections', "                  \
    "'max_locks_per_transaction']) s UNION ALL "                                                   \
    "SELECT 'sessions', count(*)::text FROM pg_stat_get_activity(NULL) a WHERE a.datid <> 0 "      \
    "UNION ALL SELECT 'schema', (to_regclass('@.token') IS NOT NULL)::text UNION ALL "             \
    "SELECT 'may create', has_database_privilege(current_database(), 'CREATE')::text UNION ALL "   \
    "SELECT 'rights', (count(*) = " count " AND bool_and(x.may))::text FROM (SELECT "              \
    "has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') AND "           \
    "has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE') AS may FROM "   \
    "pg_class c WHERE c.relnamespace = to_regnamespace('@') AND c.relname IN (" tables             \
    ") UNION ALL "                                                                                 \
    "SELECT has_sequence_privilege(q.oid, 'USAGE') AND has_sequence_privilege(q.oid, 'SELECT') "   \
    "AND "                                                                                         \
    "has_sequence_privilege(q.oid, 'UPDATE') FROM pg_class q WHERE q.oid = "                       \
    "to_regclass('@.token') "                                                                      \
    "UNION ALL SELECT has_function_privilege(f.oid, 'EXECUTE') FROM pg_proc f WHERE "              \
    "f.pronamespace = "                                                                            \
    "to_regnamespace('@') AND f.proname IN (" functions ") UNION ALL SELECT "                      \
    "has_schema_privilege(to_regnamespace('@'), 'USAGE')) x UNION ALL "                            \
    "SELECT 'clock', (extract(epoch FROM clock_timestamp()) * 1000)::bigint::text UNION ALL "      \
    "SELECT 'forgot', (extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) * "      \
    "1000)::bigint::text"

static const char examine_session[] = EXAMINE("'seats', 'life'", "'revive'", "5");
static const char examine_lease[] =
    EXAMINE("'locks', 'stakes'", "'wake', 'attempt', 'release', 'renew', 'ask'", "9");

/* What is missing is made; two who do that at once come one after the other. */
#define SETUP_HEAD                                                                                 \
    "DO $snib$ BEGIN "                                                                             \
    "PERFORM pg_advisory_xact_lock(hashtextextended('^', 8313480218417128786)); "                  \
    "IF to_regnamespace('@') IS NULL THEN CREATE SCHEMA @; "                                       \
    "ELSIF " PG_STRANGER " IS NOT NULL THEN RAISE EXCEPTION USING ERRCODE = 'SN001', MESSAGE = "   \
    "'schema ^, or something in it, belongs to a role that is not trusted'; END IF; "              \
    "IF to_regclass('@.token') IS NULL THEN "                                                      \
    "EXECUTE format('CREATE SEQUENCE @.token START %s', "                                          \
    "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint); END IF; "
#define SETUP_TAIL "END $snib$"

static const char *const session_tables[] = {
    PG_NOT_BESIDE("stakes", "lease"),
    "IF to_regclass('@.seats') IS NULL THEN "
    "CREATE UNLOGGED TABLE @.seats (key bigint NOT NULL, seat integer NOT NULL, "
    "name text NOT NULL, mode integer NOT NULL, token bigint, pid integer, who text, "
    "label text, since timestamptz, ttl bigint, broken text, PRIMARY KEY (key, seat)) "
    "WITH (fillfactor = 50); "
    "CREATE INDEX ON @.seats (key) WHERE broken IS NOT NULL; END IF; "
    "IF to_regclass('@.life') IS NULL THEN "
    "CREATE UNLOGGED TABLE @.life (born timestamptz NOT NULL, since timestamptz); "
    "INSERT INTO @.life (born) VALUES (pg_postmaster_start_time()); END IF; "
    "CREATE OR REPLACE FUNCTION @.revive() RETURNS void LANGUAGE plpgsql SET search_path = "
    "pg_catalog, pg_temp AS $f$ BEGIN "
    "PERFORM pg_advisory_xact_lock(hashtextextended('^', 8313480218417128786)); "
    "IF NOT EXISTS (SELECT FROM @.life) THEN "
    "PERFORM setval('@.token', (SELECT last_value FROM @.token) + 1000000); "
    "INSERT INTO @.life VALUES (pg_postmaster_start_time(), clock_timestamp()); END IF; END $f$; ",
    NULL,
};

static const char *const shared[SQL_STATEMENTS] = {
    [SQL_TRY] =
        "WITH l AS MATERIALIZED (SELECT pg_try_advisory_lock_shared($1::bigint) AS got), " //
    SHARE_SEAT("FROM l WHERE got") TRIED,
    [SQL_WAIT] =
        "WITH l AS MATERIALIZED (SELECT pg_advisory_lock_shared($1::bigint) AS got), " SHARE_SEAT(
            "FROM l") " SELECT 1, h.token FROM l LEFT JOIN h ON true",
    [SQL_UNLOCK] = "SELECT pg_advisory_unlock_shared($1::bigint)",
};

/* Functions, operators and types are the server's own, whatever others have put into schemas that
 * this role or database prefers: one of theirs would be executed with our rights. */
const char *const pg_settings_first[] = {"SET search_path = pg_catalog, pg_temp",
                                         "SET statement_timeout = 0", "SET lock_timeout = 0", NULL};

/* One trip that looks where we are and sets what must hold on every link. */
#define GREETING(other)                                                                            \
    "SELECT pg_backend_pid(), pg_is_in_recovery(), current_setting('transaction_read_only'), "     \
    "to_regclass('@.life') IS NOT NULL, (extract(epoch FROM clock_timestamp() - "                  \
    "pg_postmaster_start_time()) * 1000::numeric)::bigint, " PG_STRANGER ", to_regclass('@." other \
    "') IS NOT NULL, set_config('idle_session_timeout', $1, "                                      \
    "false), "                                                                                     \
    "set_config('idle_in_transaction_session_timeout', $1, false), "                               \
    "set_config('client_connection_check_interval', $2, false), "                                  \
    "set_config('tcp_keepalives_idle', $3, false), "                                               \
    "set_config('tcp_keepalives_interval', '1', false), "                                          \
    "set_config('tcp_keepalives_count', $4, false), set_config('tcp_user_timeout', $1, false), "   \
    "set_config('default_transaction_isolation', 'read committed', false), "                       \
    "set_config('jit', 'off', false), "                                                            \
    "CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') "                         \
    "THEN set_config('synchronous_commit', 'on', false) END"

const char pg_greeting[] = GREETING("stakes");
const char pg_greeting_lease[] = GREETING("seats");

/* How long ago locks may have been forgotten, in ms; NULL: never. No row: just now, by a crash.
 * Another start than the one of old is a restart, whatever the clock was then. */
const char pg_life[] =
    "SELECT (extract(epoch FROM clock_timestamp() - greatest(since, CASE WHEN born <> "
    "pg_postmaster_start_time() THEN pg_postmaster_start_time() END)) * 1000::numeric)::bigint "
    "FROM @.life";

const char pg_revive[] = "SELECT @.revive()";

char *pg_with_schema(const struct pg_settings *s, const char *text)
{
    size_t width = strlen(s->schema), room = 1;
    for (const char *p = text; *p; p++) {
        room += *p == '@' || *p == '^' ? width + 2 : 1;
    }
    char *out = malloc(room), *to = out;
    for (const char *p = text; out && *p; p++) {
        if (*p == '@' || *p == '^') {
            if (*p == '@') {
                *to++ = '"';
            }
            memcpy(to, s->schema, width);
            to += width;
            if (*p == '@') {
                *to++ = '"';
            }
        } else {
            *to++ = *p;
        }
    }
    if (out) {
        *to = '\0';
    }
    return out;
}

static char *make_setup(const struct pg_settings *s)
{
    const char *const *tables = s->lease ? pg_lease_tables : session_tables;
    size_t room = strlen(SETUP_HEAD) + strlen(SETUP_TAIL) + 1;
    for (int i = 0; tables[i]; i++) {
        room += strlen(tables[i]);
    }
    char *text = malloc(room), *made = NULL;
    if (text) {
        size_t used = (size_t)snprintf(text, room, "%s", SETUP_HEAD);
        for (int i = 0; tables[i]; i++) {
            used += (size_t)snprintf(text + used, room - used, "%s", tables[i]);
        }
        snprintf(text + used, room - used, "%s", SETUP_TAIL);
        made = pg_with_schema(s, text);
        free(text);
    }
    return made;
}

static bool copy(char **to, const struct pg_settings *s, const char *from)
{
    return !from || (*to = pg_with_schema(s, from)) != NULL;
}

bool pg_statements_make(struct pg_settings *s)
{
    s->texts[0][SQL_SETUP] = make_setup(s);
    for (int i = 0; i < SQL_STATEMENTS; i++) {
        const char *plain = exclusive[i] ? exclusive[i] : pg_lease_statements[i];
        if (i == SQL_EXAMINE) {
            plain = s->lease ? examine_lease : examine_session;
        }
        if (!copy(&s->texts[0][i], s, plain) || !copy(&s->texts[1][i], s, shared[i])) {
            return false;
        }
    }
    return s->texts[0][SQL_SETUP] != NULL;
}

void pg_statements_free(struct pg_settings *s)
{
    for (int i = 0; i < SQL_STATEMENTS; i++) {
        free(s->texts[0][i]);
        free(s->texts[1][i]);
        s->texts[0][i] = s->texts[1][i] = NULL;
    }
}

const char *pg_statement(const struct pg_settings *s, const struct sql_request *r, int *number)
{
    int where = r->statement == SQL_TRY || r->statement == SQL_WAIT ? 2
                : r->statement == SQL_UNLOCK                        ? 1
                                                                    : -1;
    int mode = where >= 0 && r->parameters[where][0] == '1';
    *number = 2 * (int)r->statement + mode;
    return s->texts[mode][r->statement];
}
