/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For `snib doctor`: what decides the promises here. That the server was greeted says already that
 * it is no standby, not read-only and not behind a pooler that nobody spoke of.
 *
 * Nothing is made, and nothing is locked: tables that are missing are said to be missing.
 */
#include "engines/postgres/examine.h"

#include "engines/postgres/session.h"
#include "engines/sql/queries.h"
#include "engines/sql/strands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void find(struct snib__query *query, int verdict, const char *about, const char *text,
                 const char *remedy)
{
    snib_finding finding = {
        .size = sizeof finding, .verdict = verdict, .about = about, .text = text, .remedy = remedy};
    snib__found(query, &finding);
}

static void find_room(struct snib__query *query, long most, long reserved, long now)
{
    struct sql *s = sql_of(query->session);
    char text[200];
    long left = most - reserved - now, wanted = (long)s->max_extra + 1;
    snprintf(text, sizeof text, "%ld of %ld connections are free; a client takes up to %ld", left,
             most - reserved, wanted);
    find(query, left < wanted ? SNIB_WARNING : SNIB_GOOD, "connections", text,
         left < wanted ? "raise max_connections, or say a smaller max-waits=" : NULL);
}

static void find_rights(struct snib__query *query, bool there, bool create, const char *rights)
{
    if (there && rights && strcmp(rights, "true") != 0) {
        find(query, SNIB_BAD, "rights", "the tables are there, and this user may not use them",
             "see what `snib doctor --acl` prints, or ask their owner");
    } else if (there) {
        find(query, SNIB_GOOD, "rights", "the tables are there, and may be read and written", NULL);
    } else if (create) {
        find(query, SNIB_GOOD, "rights", "no tables yet; the first acquire makes them", NULL);
    } else {
        find(query, SNIB_BAD, "rights", "no tables yet, and this user may not make a schema",
             "let somebody who may acquire any lock once, or grant CREATE on the database");
    }
}

/* All rows have come before the step's end: they are kept here in between. */
struct sights {
    char version[40], fsync[8], idle[16], commit[20], rights[8];
    long most, reserved, now;
    bool there, create;
    int64_t clock_ms, up_ms;
};
_Static_assert(sizeof(struct sights) <= sizeof(((struct sql_query *)0)->others), "kept there");

static void on_row(struct snib__query *query, int step, const char *const columns[SQL_COLUMNS])
{
    struct sights *k = (void *)((struct sql_query *)query->state)->others;
    const char *what = columns[0] ? columns[0] : "", *value = columns[1] ? columns[1] : "";
    (void)step;
    const struct {
        const char *what;
        char *text;
        size_t size;
        long *number;
        int64_t *wide;
        bool *flag;
    } table[] = {
        {.what = "version", .text = k->version, .size = sizeof k->version},
        {.what = "fsync", .text = k->fsync, .size = sizeof k->fsync},
        {.what = "idle_session_timeout", .text = k->idle, .size = sizeof k->idle},
        {.what = "synchronous_commit", .text = k->commit, .size = sizeof k->commit},
        {.what = "rights", .text = k->rights, .size = sizeof k->rights},
        {.what = "max_connections", .number = &k->most},
        {.what = "superuser_reserved_connections", .number = &k->reserved},
        {.what = "sessions", .number = &k->now},
        {.what = "clock", .wide = &k->clock_ms},
        {.what = "forgot", .wide = &k->up_ms},
        {.what = "schema", .flag = &k->there},
        {.what = "may create", .flag = &k->create},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].what, what) != 0) {
            continue;
        }
        if (table[i].text) {
            snprintf(table[i].text, table[i].size, "%s", value);
        } else if (table[i].number) {
            *table[i].number = strtol(value, NULL, 10);
        } else if (table[i].wide) {
            *table[i].wide = strtoll(value, NULL, 10);
        } else if (table[i].flag) {
            *table[i].flag = value[0] == 't';
        }
    }
}

static void find_clock(struct snib__query *query, int64_t server_ms)
{
    int64_t apart = server_ms - snib__wall_us() / 1000;
    char text[120];
    apart = apart < 0 ? -apart : apart;
    snprintf(text, sizeof text,
             "the server's clock and ours are %.1f s apart; nothing depends on it",
             (double)apart / 1000);
    find(query, apart > 5000 ? SNIB_WARNING : SNIB_GOOD, "clock", text,
         apart > 5000 ? "times that are shown will look odd; set the clocks" : NULL);
}

static void on_ended(struct snib__query *query, int step, enum sql_outcome outcome,
                     const struct sql_request *r)
{
    struct sql_query *q = query->state;
    struct sights *k = (void *)q->others;
    const struct pg_settings *settings = sql_of(query->session)->settings;
    char text[240];
    (void)step;
    if (outcome != SQL_ANSWERED) {
        find(query, SNIB_BAD, "server", r->reason, NULL);
        return;
    }
    snprintf(text, sizeof text, "PostgreSQL %.39s, a primary that can be written to", k->version);
    find(query, SNIB_GOOD, "server", text, NULL);
    if (settings->pooled) {
        find(query, SNIB_WARNING, "pooler", "the URL says that a pooler pools whole sessions",
             "make sure that it does: with another pool_mode locks have no meaning");
    } else {
        find(query, SNIB_GOOD, "pooler", "none in between: the session that answers is ours", NULL);
    }
    snprintf(text, sizeof text, "a silent session is ended after %.15s", k->idle);
    find(query, strcmp(k->idle, "0") == 0 ? SNIB_BAD : SNIB_GOOD, "idle timeout", text, NULL);
    find_rights(query, k->there, k->create, k->rights[0] ? k->rights : NULL);
    find_room(query, k->most, k->reserved, k->now);
    find_clock(query, k->clock_ms);
    bool durable = strcmp(k->fsync, "off") != 0;
    find(query, durable ? SNIB_GOOD : SNIB_WARNING, "fsync",
         durable ? "on: tokens grow over a crash of the server's host"
                 : "off: tokens may go back when the server's host crashes",
         durable ? NULL : "set fsync = on where tokens guard data");
    if (settings->lease) {
        find(query, durable ? SNIB_GOOD : SNIB_WARNING, "restart",
             durable ? "locks are rows: they outlast the server, which ends them by its clock"
                     : "locks are rows, and with fsync off a crash of the server's host loses them",
             NULL);
        return;
    }
    snprintf(text, sizeof text, "locks end with the server, which has been up for %.0f s; %s",
             (double)k->up_ms / 1000,
             settings->quarantine ? "after a restart nothing is granted until old leases are over"
                                  : "quarantine=no: two holders are possible after a restart");
    find(query, settings->quarantine ? SNIB_GOOD : SNIB_WARNING, "restart", text, NULL);
}

static void on_unreachable(struct snib__query *query, int code, const char *why)
{
    static const char *const remedies[] = {"see that it runs, and that the URL names it",
                                           "see the user, the password and pg_hba.conf"};
    bool denied = code == SNIB_EDENIED;
    find(query, SNIB_BAD, "server", why, code == SNIB_EUNSAFE ? NULL : remedies[denied]);
}

void pg_examine(struct snib__query *query)
{
    static const enum sql_statement statements[] = {SQL_EXAMINE, SQL_STATEMENTS};
    static const struct sql_examination examination = {
        .statements = statements, .row = on_row, .ended = on_ended, .unreachable = on_unreachable};
    sql_examine(query, &examination);
}

int pg_rights(const struct snib__session *session, char *out, size_t size)
{
    const struct pg_settings *s = sql_of(session)->settings;
    const char *user = session->url->user[0] ? session->url->user : "snib";
    char quoted[140];
    size_t used = 0;
    for (; *user && used + 3 < sizeof quoted; user++) {
        if (*user == '"') {
            quoted[used++] = '"';
        }
        quoted[used++] = *user;
    }
    quoted[used] = '\0';
    return snprintf(
        out, size,
        "CREATE ROLE \"%s\" LOGIN PASSWORD 'PASSWORD'; GRANT USAGE ON SCHEMA \"%s\" TO "
        "\"%s\"; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"%s\" TO "
        "\"%s\"; GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA \"%s\" TO \"%s\";",
        quoted, s->schema, quoted, s->schema, quoted, s->schema, quoted);
}
