/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For `snib doctor`: what decides the promises here. That the server was greeted says already that
 * it is no replica, no member of a Galera cluster, not too old, and not behind a pooler that nobody
 * spoke of.
 *
 * Nothing is made, nothing is locked and nothing is changed. Rights are asked for by statements
 * that touch no row; tables that are missing are said to be missing.
 */
#include "engines/mysql/examine.h"

#include "engines/mysql/session.h"
#include "engines/sql/queries.h"

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

/* All rows have come before the end: they are kept here in between. */
struct sights {
    char version[64], flush[8];
    long idle_s, most, now;
    int64_t clock_ms, up_s;
};
_Static_assert(sizeof(struct sights) <= sizeof(((struct sql_query *)0)->others), "kept there");

static struct sights *sights_of(struct snib__query *query)
{
    return (void *)((struct sql_query *)query->state)->others;
}

static void on_row(struct snib__query *query, int step, const char *const columns[SQL_COLUMNS])
{
    struct sights *k = sights_of(query);
    const char *what = columns[0] ? columns[0] : "", *value = columns[1] ? columns[1] : "";
    (void)step;
    if (strcmp(what, "version") == 0) {
        snprintf(k->version, sizeof k->version, "%s", value);
    } else if (strcmp(what, "flush") == 0) {
        snprintf(k->flush, sizeof k->flush, "%s", value);
    } else if (strcmp(what, "idle") == 0) {
        k->idle_s = strtol(value, NULL, 10);
    } else if (strcmp(what, "most") == 0) {
        k->most = strtol(value, NULL, 10);
    } else if (strcmp(what, "clock") == 0) {
        k->clock_ms = strtoll(value, NULL, 10);
    } else if (strcmp(what, "Threads_connected") == 0) {
        k->now = strtol(value, NULL, 10);
    } else if (strcmp(what, "Uptime") == 0) {
        k->up_s = strtoll(value, NULL, 10);
    }
}

static void find_rights(struct snib__query *query, enum sql_outcome outcome,
                        const struct sql_request *r)
{
    if (outcome == SQL_ANSWERED) {
        find(query, SNIB_GOOD, "rights", "the tables are there, and may be read and written", NULL);
    } else if (outcome == SQL_ABSENT) {
        find(query, SNIB_GOOD, "rights",
             "no tables yet; the first acquire makes them, by a user who may CREATE", NULL);
    } else {
        find(query, SNIB_BAD, "rights", r->reason, "see what `snib doctor --acl` prints");
    }
}

static void find_room(struct snib__query *query)
{
    const struct sights *k = sights_of(query);
    char text[160];
    long left = k->most - k->now, wanted = (long)sql_of(query->session)->max_extra + 1;
    snprintf(text, sizeof text, "%ld of %ld connections are free; a client takes up to %ld", left,
             k->most, wanted);
    find(query, left < wanted ? SNIB_WARNING : SNIB_GOOD, "connections", text,
         left < wanted ? "raise max_connections, or say a smaller max-waits=" : NULL);
}

static void find_clock(struct snib__query *query)
{
    int64_t apart = sights_of(query)->clock_ms - snib__wall_us() / 1000;
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
    const struct sights *k = sights_of(query);
    const struct mysql_settings *settings = sql_of(query->session)->settings;
    char text[240];
    (void)step;
    if (!k->version[0]) {
        find(query, SNIB_BAD, "server", r->reason, NULL);
        return;
    }
    snprintf(text, sizeof text, "%.63s, which can be written to", k->version);
    find(query, SNIB_GOOD, "server", text, NULL);
    if (settings->pooled) {
        find(query, SNIB_WARNING, "pooler", "the URL says that a pooler keeps sessions apart",
             "make sure that it does: with sessions in common locks have no meaning");
    } else {
        find(query, SNIB_GOOD, "pooler", "none in between: the session that answers is ours", NULL);
    }
    snprintf(text, sizeof text, "a silent session is ended after %ld s", k->idle_s);
    find(query, SNIB_GOOD, "idle timeout", text, NULL);
    find_rights(query, outcome, r);
    find_room(query);
    find_clock(query);
    bool durable = strcmp(k->flush, "1") == 0;
    find(query, durable ? SNIB_GOOD : SNIB_WARNING, "flush",
         durable ? "innodb_flush_log_at_trx_commit is 1: a token that was told is on the disk"
                 : "innodb_flush_log_at_trx_commit is not 1: after a crash of the server's host "
                   "tokens grow only as its clock does",
         durable ? NULL : "set it to 1 where tokens guard data");
    snprintf(text, sizeof text, "locks end with the server, which has been up for %lld s; %s",
             (long long)k->up_s,
             settings->quarantine_ms
                 ? "after a restart nothing is granted until old leases are over"
                 : "quarantine=no: two holders are possible after a restart");
    find(query, settings->quarantine_ms ? SNIB_GOOD : SNIB_WARNING, "restart", text, NULL);
}

static void on_unreachable(struct snib__query *query, int code, const char *why)
{
    const char *remedy = code == SNIB_EDENIED   ? "see the user, its host part and the password"
                         : code == SNIB_EUNSAFE ? NULL
                                                : "see that it runs, and that the URL names it";
    find(query, SNIB_BAD, "server", why, remedy);
}

void mysql_examine(struct snib__query *query)
{
    static const enum sql_statement statements[] = {SQL_EXAMINE, SQL_STATEMENTS};
    static const struct sql_examination examination = {
        .statements = statements, .row = on_row, .ended = on_ended, .unreachable = on_unreachable};
    sql_examine(query, &examination);
}

int mysql_rights(const struct snib__session *session, char *out, size_t size)
{
    const struct mysql_settings *s = sql_of(session)->settings;
    const char *user = session->url->user;
    char quoted[200];
    size_t used = 0;
    for (; *user && used + 3 < sizeof quoted; user++) {
        if (*user == '\'' || *user == '\\') {
            quoted[used++] = *user;
        }
        quoted[used++] = *user;
    }
    quoted[used] = '\0';
    return snprintf(out, size,
                    "CREATE USER '%s'@'%%' IDENTIFIED BY 'PASSWORD'; GRANT SELECT, INSERT, UPDATE, "
                    "DELETE, CREATE ON `%s`.* TO '%s'@'%%';",
                    quoted, s->database, quoted);
}
