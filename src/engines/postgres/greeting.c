/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first words on a link: settings that must hold on every one, where we are, since when the
 * server remembers.
 *
 * A pooler gives each transaction another session, and a lock with it: the session that answers is
 * not the one that greeted. A standby and a read-only server grant advisory locks that mean nothing
 * elsewhere. Both are refused, with a sentence.
 *
 * Whether locks were forgotten is in the table `life`. Who may not read it, or may not move the
 * tokens on when it is empty, knows nothing and is granted nothing; it may look. A step that was
 * cancelled is said again: one that was not said at all would leave out a setting or a check. A
 * clock that was set back makes ages negative: those are taken for none at all.
 */
#include "engines/postgres/errors.h"
#include "engines/postgres/link.h"
#include "engines/postgres/settings.h"
#include "engines/postgres/statements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GREET, LISTEN, LIFE, REVIVE, LIFE_AGAIN, GREETED };
enum { OLDEST = 140000, CHECK_MS = 250, REPEATS_MOST = 8 };

static void ask(struct sql_link *link, int step);

static void ready(struct sql_link *link)
{
    struct pg_connection *c = link->connection;
    const struct pg_settings *s = link->settings;
    int64_t span_ms = link->session->max_lease_ms + link->session->max_lease_ms / 10 + 2000;
    c->state = PG_READY;
    link->quarantine_ns = 0;
    if (c->empty) {
        c->forgot_ms = 0;
    }
    if (s->quarantine && c->forgot_ms >= 0 && c->forgot_ms < span_ms) {
        link->quarantine_ns = snib__now().boot_ns + (span_ms - c->forgot_ms) * SNIB__MS;
    }
    link->upcalls->opened(link);
}

static void next(struct sql_link *link)
{
    struct pg_connection *c = link->connection;
    switch (c->step) {
    case GREET:
        ask(link, LISTEN);
        return;
    case LISTEN:
        if (c->has_tables && !((const struct pg_settings *)link->settings)->lease) {
            ask(link, LIFE);
        } else {
            ready(link);
        }
        return;
    case LIFE:
        if (c->empty) {
            ask(link, REVIVE);
        } else {
            ready(link);
        }
        return;
    case REVIVE:
        ask(link, LIFE_AGAIN);
        return;
    default:
        ready(link);
        return;
    }
}

/* ---- What is wrong with it -------------------------------------------------------------- */

void pg_refuse_pooler(struct sql_link *link)
{
    pg_lose(link, SNIB_EUNSAFE, 0,
            "a pooler is in between, and a session of its is not one of the server's: connect to "
            "PostgreSQL itself; or say pooler=session, if it pools whole sessions");
}

static int64_t age(const char *text)
{
    int64_t ms = text ? strtoll(text, NULL, 10) : 0;
    return ms > 0 ? ms : 0;
}

static void refuse_owner(struct sql_link *link, const char *owner)
{
    const struct pg_settings *s = link->settings;
    char why[sizeof link->why];
    snprintf(why, sizeof why,
             "schema %s, or something in it, belongs to %.63s, whose code this user would execute: "
             "give it to a role that is trusted, or say another schema=",
             s->schema, owner);
    pg_lose(link, SNIB_EUNSAFE, 0, why);
}

static bool look_around(struct sql_link *link, const char *const columns[])
{
    const struct pg_settings *s = link->settings;
    struct pg_connection *c = link->connection;
    unsigned long pid = strtoul(columns[0] ? columns[0] : "0", NULL, 10);
    if (pid != link->number && !s->pooled) {
        pg_refuse_pooler(link);
        return false;
    }
    link->number = pid;
    if (columns[1] && columns[1][0] == 't') {
        pg_lose(link, SNIB_EUNSAFE, 0,
                "a standby: its locks exclude nobody elsewhere; name the primary");
        return false;
    }
    if (columns[2] && strcmp(columns[2], "on") == 0) {
        pg_lose(link, SNIB_EUNSAFE, 0, "the server, the database or this user is read-only");
        return false;
    }
    c->has_tables = columns[3] && columns[3][0] == 't';
    c->up_ms = age(columns[4]);
    if (columns[5]) {
        refuse_owner(link, columns[5]);
        return false;
    }
    if (columns[6] && columns[6][0] == 't') {
        pg_lose(link, SNIB_EUNSAFE, 0,
                s->lease
                    ? "the schema is one of mode=session, whose locks these would not exclude: "
                      "say another schema="
                    : "the schema is one of mode=lease, whose locks these would not exclude: "
                      "say mode=lease, or another schema=");
        return false;
    }
    return true;
}

static void on_row(struct sql_request *r, const char *const columns[SQL_COLUMNS])
{
    struct sql_link *link = r->link;
    struct pg_connection *c = link->connection;
    if (c->step == GREET) {
        look_around(link, columns);
    } else if (c->step == LIFE || c->step == LIFE_AGAIN) {
        c->empty = false;
        c->forgot_ms = columns[0] ? age(columns[0]) : -1;
    }
}

static void on_ended(struct sql_request *r, enum sql_outcome outcome)
{
    struct sql_link *link = r->link;
    struct pg_connection *c = link->connection;
    if (link->doomed) {
        return;
    }
    if (outcome == SQL_ANSWERED) {
        c->repeats = 0;
        next(link);
    } else if (outcome == SQL_AGAIN && c->repeats++ < REPEATS_MOST) {
        ask(link, c->step);
    } else if (outcome == SQL_ABSENT && c->step == LIFE) {
        c->empty = false; /* dropped just now: it is made again when it is needed */
        c->forgot_ms = c->up_ms;
        ready(link);
    } else if (c->step == LIFE && r->code == SNIB_EDENIED) {
        link->unfit = "this user may not read the table life, and cannot know whether the server "
                      "has forgotten locks; see what `snib doctor --acl` prints";
        ready(link);
    } else if (c->step == REVIVE && (outcome == SQL_ABSENT || r->code == SNIB_EDENIED)) {
        link->unfit = "the server has crashed, and this user may not move the tokens on, which "
                      "another may; see what `snib doctor --acl` prints";
        ready(link);
    } else if (outcome != SQL_LOST && outcome != SQL_UNSENT) {
        pg_lose(link, r->code ? r->code : SNIB_EPROTO, 0, r->reason);
    }
}

/* ---- The steps -------------------------------------------------------------------------- */

static void ask(struct sql_link *link, int step)
{
    struct pg_connection *c = link->connection;
    const struct pg_settings *s = link->settings;
    struct sql_request *r = &c->greeting;
    char idle[24], check[24], keep[24], count[24], listen[40];
    int probes;
    const char *texts[] = {s->lease ? pg_greeting_lease : pg_greeting, NULL, pg_life, pg_revive,
                           pg_life};
    *r = (struct sql_request){.row = on_row, .ended = on_ended};
    c->step = step;
    snprintf(idle, sizeof idle, "%lld", (long long)link->idle_ms);
    snprintf(check, sizeof check, "%d", CHECK_MS);
    snprintf(keep, sizeof keep, "%d", pg_keepalive_s(link->session->ttl_ms, &probes));
    snprintf(count, sizeof count, "%d", probes);
    if (step == GREET) {
        r->count = 4;
        r->parameters[3] = count;
        r->parameters[0] = idle;
        r->parameters[1] = check;
        r->parameters[2] = keep;
    } else if (step == LIFE || step == LIFE_AGAIN) {
        c->empty = true;
        c->forgot_ms = -1;
    }
    snprintf(listen, sizeof listen, "LISTEN \"^_%lu\"", link->number);
    char *text = pg_with_schema(link->settings, texts[step] ? texts[step] : listen);
    if (!text) {
        pg_lose(link, SNIB_ENOMEM, 0, "out of memory");
        return;
    }
    pg_send_text(link, r, step == GREET ? pg_settings_first : NULL, text);
    free(text);
}

void pg_greet(struct sql_link *link)
{
    struct pg_connection *c = link->connection;
    c->forgot_ms = -1;
    link->unfit = NULL;
    if (PQserverVersion(c->db) < OLDEST) {
        char why[160];
        snprintf(why, sizeof why,
                 "PostgreSQL %d: it has no idle_session_timeout, by which a lock ends with its "
                 "holder; 14 is the oldest that will do",
                 PQserverVersion(c->db) / 10000);
        pg_lose(link, SNIB_ENOTSUP, 0, why);
        return;
    }
    ask(link, GREET);
}
