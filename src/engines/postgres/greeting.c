/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is found out and set on every new connection, before the first claim.
 *
 * A pooler is known by the process that serves us: it is another one by the protocol (the pooler's
 * invention) than by SQL. Behind one, a session is not ours, and neither is its lock.
 *
 * The idle time-out makes the session end by itself, its ttl after the last statement; the check
 * interval and the TCP time-out do that while a statement runs or an answer is sent.
 */
#include "engines/postgres/postgres.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

extern const char postgres_schema[];

enum { SESSION_VERSION = 140000, VERSION = 120000 };

static void refuse(struct sql_welcome *w, int code, const char *why)
{
    w->code = code;
    snprintf(w->why, sizeof w->why, "%s", why);
}

static bool asked(void *connection, const char *text, int64_t due_ns, struct sql_answer *answer,
                  struct sql_welcome *w)
{
    struct sql_error error;
    enum sql_turn turn = sql_ask(&postgres_driver, connection, text, due_ns, answer, &error);
    if (turn == SQL_DONE) {
        return true;
    }
    sql_answer_free(answer);
    bool denied = strcmp(error.state, "42501") == 0;
    w->sys = error.sys;
    w->code = turn == SQL_BROKEN ? SNIB_EUNREACH : denied ? SNIB_EDENIED : SNIB_EPROTO;
    snprintf(w->why, sizeof w->why, "%.180s%s%s", error.text, denied ? "; " : "",
             denied ? POSTGRES_REMEDY : "");
    return false;
}

/* Is this the server, and one that is fit? */
static bool is_fit(void *connection, const struct sql_target *t, const struct sql_answer *a,
                   struct sql_welcome *w)
{
    if (postgres_version(connection) < VERSION) {
        refuse(w, SNIB_ENOTSUP, "PostgreSQL 12 or later is needed");
    } else if (!t->leased && postgres_version(connection) < SESSION_VERSION) {
        refuse(w, SNIB_ENOTSUP,
               "mode=session needs PostgreSQL 14 (idle_session_timeout): mode=lease");
    } else if (sql_number(a, 0, 0, 0) != postgres_pid(connection) && !t->pooled) {
        refuse(w, SNIB_EUNSAFE,
               "a pooler is in between, which shares sessions: name the server itself, or say "
               "pooler=session if it pools by session");
    } else if (sql_text(a, 0, 0, 1)[0] == 't') {
        refuse(w, SNIB_EUNSAFE, "this is a standby: name the primary server");
    } else if (strcmp(sql_text(a, 0, 0, 2), "on") == 0) {
        refuse(w, SNIB_EUNSAFE,
               "this server is read only (default_transaction_read_only): name one that is not");
    }
    return w->code == SNIB_OK;
}

static bool prepare(void *connection, const struct sql_target *t, int64_t due_ns,
                    struct sql_answer *a, struct sql_welcome *w)
{
    char text[1400];
    int64_t check_ms = t->ttl_ms / 3;
    snprintf(text, sizeof text,
             "SET search_path = pg_catalog; SET default_transaction_isolation = 'read committed';"
             "SET bytea_output = 'hex'; SET standard_conforming_strings = on;"
             "SET statement_timeout = %" PRId64 "; SET lock_timeout = %" PRId64 ";"
             "SET tcp_user_timeout = %" PRId64 ";"
             "SELECT set_config('synchronous_commit', 'on', false)"
             " WHERE current_setting('synchronous_commit') = 'off';"
             "SELECT set_config(n, v, false) FROM (VALUES ('idle_session_timeout', '%" PRId64 "'),"
             " ('client_connection_check_interval', '%" PRId64 "')) s(n, v)"
             " WHERE EXISTS (SELECT 1 FROM pg_settings WHERE name = n);"
             "SELECT pg_advisory_lock(%" PRId64 "); LISTEN \"snib_%" PRIx64 "\";"
             "SELECT snib.boot(%" PRId64 ")",
             t->timeout_ms, t->timeout_ms, t->ttl_ms, t->leased ? (int64_t)0 : t->ttl_ms, check_ms,
             t->me, (uint64_t)t->me, t->max_lease_ms);
    if (!asked(connection, text, due_ns, a, w)) {
        return false;
    }
    w->usable_ms = sql_number(a, a->count - 1, 0, 0);
    sql_answer_free(a);
    return true;
}

void postgres_greet(void *connection, const struct sql_target *t, int64_t due_ns,
                    struct sql_welcome *w)
{
    struct sql_answer a;
    if (!asked(connection,
               "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery(),"
               " pg_catalog.current_setting('transaction_read_only'),"
               " pg_catalog.to_regprocedure('snib.schema_1()') IS NOT NULL",
               due_ns, &a, w)) {
        return;
    }
    bool fit = is_fit(connection, t, &a, w);
    bool complete = sql_text(&a, 0, 0, 3)[0] == 't';
    sql_answer_free(&a);
    if (!fit) {
        return;
    }
    if (!complete) {
        struct sql_words words = {0};
        sql_say(&words, "SELECT pg_catalog.pg_advisory_xact_lock(1936615778, 1);");
        sql_say(&words, postgres_schema);
        if (words.failed) {
            refuse(w, SNIB_ENOMEM, "out of memory");
        } else if (asked(connection, words.bytes, due_ns, &a, w)) {
            sql_answer_free(&a);
        }
        sql_words_free(&words);
    }
    if (w->code == SNIB_OK) {
        prepare(connection, t, due_ns, &a, w);
    }
}
