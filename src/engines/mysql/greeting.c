/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is found out and set on every new connection, before the first claim.
 *
 * A proxy that shares connections is known by the number of the one that serves us: it is another
 * one by the protocol than by SQL. GET_LOCK is granted by each server of a cluster for itself, so
 * such a cluster is refused; a server that is read only still grants it, and is refused, too.
 *
 * wait_timeout makes the session end by itself, its ttl after the last statement, in whole seconds.
 */
#include "engines/mysql/mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

extern const char mysql_schema[];

enum { MARIADB_MAJOR = 10, MARIADB_MINOR = 3, MYSQL_MAJOR = 8 };

static void refuse(struct sql_welcome *w, int code, const char *why)
{
    w->code = code;
    snprintf(w->why, sizeof w->why, "%s", why);
}

static bool asked(void *connection, const char *text, int64_t due_ns, struct sql_answer *answer,
                  struct sql_welcome *w)
{
    struct sql_error error;
    enum sql_turn turn = sql_ask(&mysql_driver, connection, text, due_ns, answer, &error);
    if (turn == SQL_DONE) {
        return true;
    }
    sql_answer_free(answer);
    bool denied = strcmp(error.state, "42000") == 0;
    w->sys = error.sys;
    w->code = turn == SQL_BROKEN ? SNIB_EUNREACH : denied ? SNIB_EDENIED : SNIB_EPROTO;
    snprintf(w->why, sizeof w->why, "%.180s%s%s", error.text, denied ? "; " : "",
             denied ? MYSQL_REMEDY : "");
    return false;
}

const char *mysql_variable(const struct sql_answer *a, size_t set, const char *name)
{
    size_t rows = set < a->count ? a->sets[set].rows : 0;
    for (size_t i = 0; i < rows; i++) {
        if (strcasecmp(sql_text(a, set, i, 0), name) == 0) {
            return sql_text(a, set, i, 1);
        }
    }
    return "";
}

static bool is_on(const struct sql_answer *a, const char *name)
{
    const char *value = mysql_variable(a, 1, name);
    return strcasecmp(value, "ON") == 0 || strcmp(value, "1") == 0;
}

/* Several servers that all take writes, each with GET_LOCKs of its own. */
static bool has_many_masters(const struct sql_answer *a)
{
    return is_on(a, "wsrep_on") || (mysql_variable(a, 1, "group_replication_group_name")[0] &&
                                    !is_on(a, "group_replication_single_primary_mode"));
}

static bool is_too_old(const char *version)
{
    int major = 0, minor = 0;
    sscanf(version, "%d.%d", &major, &minor);
    return strstr(version, "MariaDB")
               ? major < MARIADB_MAJOR || (major == MARIADB_MAJOR && minor < MARIADB_MINOR)
               : major < MYSQL_MAJOR;
}

static bool is_fit(void *connection, const struct sql_target *t, const struct sql_answer *a,
                   struct sql_welcome *w)
{
    if (is_too_old(sql_text(a, 0, 0, 0))) {
        refuse(w, SNIB_ENOTSUP, "MySQL 8.0 or MariaDB 10.3, or later, is needed");
    } else if (sql_text(a, 0, 0, 2)[0] == '\0') {
        refuse(w, SNIB_EINVAL, "no database: mysql://USER@HOST/DATABASE");
    } else if (sql_number(a, 0, 0, 1) != mysql_served_by(connection) && !t->pooled) {
        refuse(w, SNIB_EUNSAFE,
               "a proxy is in between, which shares connections: name the server itself, or say "
               "pooler=session if it keeps one for each client");
    } else if (is_on(a, "read_only") || is_on(a, "super_read_only")) {
        refuse(w, SNIB_EUNSAFE, "this server is read only: name the one that is written to");
    } else if (has_many_masters(a)) {
        refuse(
            w, SNIB_EUNSAFE,
            "a cluster of several masters (Galera, Group Replication): each has locks of its own");
    }
    return w->code == SNIB_OK;
}

#define IS_COMPLETE                                                                                \
    "(SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = DATABASE()"          \
    " AND routine_name = 'snib_schema_1')"

/* Routines are replaced one by one: only the first to come may, while nobody uses them yet. */
static bool make_schema(void *connection, int64_t due_ns, struct sql_welcome *w)
{
    struct sql_answer a = {0};
    struct sql_words words = {0};
    if (!asked(connection, "SELECT GET_LOCK('snib.schema', 10)", due_ns, &a, w)) {
        return false;
    }
    sql_answer_free(&a);
    if (!asked(connection, "SELECT " IS_COMPLETE, due_ns, &a, w)) {
        return false;
    }
    bool complete = sql_number(&a, 0, 0, 0) > 0;
    sql_answer_free(&a);
    sql_say(&words, complete ? "" : mysql_schema);
    sql_say(&words, "DO RELEASE_LOCK('snib.schema')");
    bool made = !words.failed && asked(connection, words.bytes, due_ns, &a, w);
    if (words.failed) {
        refuse(w, SNIB_ENOMEM, "out of memory");
    }
    sql_words_free(&words);
    sql_answer_free(&a);
    return made;
}

static void prepare(void *connection, const struct sql_target *t, int64_t due_ns,
                    struct sql_welcome *w)
{
    struct sql_answer a;
    char text[800];
    int64_t ttl_s = (t->ttl_ms + 999) / 1000, timeout_s = (t->timeout_ms + 999) / 1000;
    snprintf(text, sizeof text,
             "SET SESSION time_zone = '+00:00', SESSION autocommit = 1,"
             " SESSION wait_timeout = %" PRId64 ", SESSION innodb_lock_wait_timeout = %" PRId64 ","
             " SESSION sql_mode = 'STRICT_ALL_TABLES';"
             "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;"
             "SELECT GET_LOCK('snib.s.%" PRId64 "', 0);"
             "DO GET_LOCK('" MYSQL_PILLOW "%" PRId64 "', 0); CALL snib_boot(%" PRId64 ")",
             t->leased ? (int64_t)86400 : ttl_s, timeout_s, t->me, t->me, t->max_lease_ms);
    if (asked(connection, text, due_ns, &a, w)) {
        snprintf(text, sizeof text,
                 "SET SESSION wait_timeout = 86400; DO GET_LOCK('snib.e.%" PRId64 "', 0)", t->me);
        mysql_bell(connection, text); /* without it nobody rings */
        if (sql_number(&a, 0, 0, 0) != 1) {
            refuse(w, SNIB_EUNSAFE, "GET_LOCK is not granted for our own session");
        }
        w->usable_ms = sql_number(&a, 1, 0, 0);
        sql_answer_free(&a);
    }
}

void mysql_greet(void *connection, const struct sql_target *t, int64_t due_ns,
                 struct sql_welcome *w)
{
    struct sql_answer a;
    if (!asked(connection,
               "SELECT VERSION(), CONNECTION_ID(), DATABASE(), " IS_COMPLETE ";"
               "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only',"
               " 'wsrep_on', 'group_replication_group_name',"
               " 'group_replication_single_primary_mode')",
               due_ns, &a, w)) {
        return;
    }
    bool fit = is_fit(connection, t, &a, w);
    bool complete = sql_number(&a, 0, 0, 3) > 0;
    sql_answer_free(&a);
    if (fit && (complete || make_schema(connection, due_ns, w))) {
        prepare(connection, t, due_ns, w);
    }
}
