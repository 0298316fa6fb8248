/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of MySQL and MariaDB: what sql/ asks for, by the texts of statements.c over a
 * connection of link.c.
 *
 * Every link says a greeting first. It sets what this session needs, whatever the server's defaults
 * are, and looks where it is: a server that is read-only, part of a Galera cluster (GET_LOCK is
 * granted there by each member for itself), too old (for two locks at a time, for settings of
 * ours), or behind a pooler (the number of the connection that the server tells is not the one of
 * the protocol) is not for locks.
 *
 * One request at a time is under way; others are kept in their order.
 *
 * KILL QUERY by somebody ends a statement and nothing else. A try that fails, for that or any other
 * reason, may have taken the lock before it failed: it is given back on the same link before
 * anybody hears of the failure. An unlock that was interrupted is sent again, and the lock that is
 * not ours then is one that the first had given back: a link that lives loses no lock otherwise.
 */
#include "engines/mysql/driver.h"

#include "engines/mysql/errors.h"
#include "engines/mysql/statements.h"

#include <mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_MYSQL = 50708, OLDEST_MARIA = 100002, REPEATS_MOST = 20 };

struct connection {
    struct mysql_link link;
    struct sql_link *owner;
    struct sql_request *current; /* under way; the first of owner->requests */
    char name[17];               /* random: what this link calls itself */
    bool opened;
    bool faulty;  /* the current one could not be made */
    bool undoing; /* the current one failed; what it may have taken is given back */
    bool again;   /* an unlock that was interrupted: this is another */
    int repeats;
    int64_t due_ns; /* of the opening */
    struct snib__instant greeted;
    enum sql_outcome outcome; /* of the current one, while it is being undone */

    /* From the rows of a greeting. */
    unsigned long number;
    bool read_only, galera;
    int64_t uptime_s;

    /* From the rows of a request. */
    char holder[340], holder_token[24];
    char last_name[SNIB__NAME_MAX + 1];
    int place;
    bool waited; /* the lock was had */
};

static const struct mysql_settings *settings_of(const struct sql_link *link)
{
    return link->settings;
}

static struct mysql_text_place text_place(const struct connection *c)
{
    const struct snib__session *session = c->owner->session;
    int64_t idle_s = (c->owner->idle_ms + 999) / 1000;
    int64_t patience_s = (session->timeout_ms + 999) / 1000;
    return (struct mysql_text_place){
        .settings = settings_of(c->owner),
        .link = c->name,
        .maria = strstr(mysql_link_version(&c->link), "MariaDB") != NULL,
        .idle_s = idle_s > 0 ? idle_s : 31536000,
        .patience_s = patience_s > 0 ? patience_s : 1,
    };
}

/* ---- Requests --------------------------------------------------------------------------- */

static void start(struct connection *c)
{
    struct snib__list *list = &c->owner->requests;
    if (c->current || !c->opened || c->link.stage != MYSQL_IDLE || snib__list_empty(list)) {
        return;
    }
    struct sql_request *r = SNIB__OF(list->after, struct sql_request, place);
    struct mysql_text_place place = text_place(c);
    size_t size = 0;
    char *text = mysql_text(&place, r->statement, r->parameters, &size);
    c->current = r;
    c->holder[0] = c->holder_token[0] = c->last_name[0] = '\0';
    c->waited = false;
    c->faulty = !text;
    if (text) {
        r->sent = snib__now();
        r->away = true;
        mysql_link_ask(&c->link, text, size);
    }
}

static void end(struct connection *c, enum sql_outcome outcome)
{
    struct sql_request *r = c->current;
    snib__list_remove(&r->place);
    c->current = NULL;
    c->faulty = c->undoing = c->again = false;
    c->repeats = 0;
    r->ended(r, outcome);
    start(c);
}

static void send_request(struct sql_request *r)
{
    struct connection *c = r->link->connection;
    r->away = false;
    r->code = SNIB_OK;
    r->reason[0] = '\0';
    snib__list_append(&r->link->requests, &r->place);
    start(c);
}

static void ask_undo(struct connection *c)
{
    struct mysql_text_place place = text_place(c);
    size_t size = 0;
    char *text = mysql_text_undo(&place, c->current->parameters, &size);
    c->undoing = true;
    c->faulty = !text; /* the link ends then, and the lock with it */
    if (text) {
        mysql_link_ask(&c->link, text, size);
    }
}

/* ---- Losing ----------------------------------------------------------------------------- */

static void lose(struct connection *c)
{
    struct sql_link *owner = c->owner;
    c->current = NULL;
    c->opened = false;
    c->due_ns = 0;
    while (!snib__list_empty(&owner->requests)) {
        struct sql_request *r = SNIB__OF(owner->requests.after, struct sql_request, place);
        snib__list_remove(&r->place);
        r->ended(r, r->away ? SQL_LOST : SQL_UNSENT);
    }
    owner->upcalls->lost(owner);
}

static void lose_because(struct connection *c, int code, const char *why)
{
    c->owner->code = code;
    c->owner->sys = 0;
    snprintf(c->owner->why, sizeof c->owner->why, "%s", why);
    mysql_link_close(&c->link, false);
    lose(c);
}

static void on_lost(struct mysql_link *l, bool asking)
{
    struct connection *c = l->owner;
    (void)asking;
    c->owner->code = mysql_lost_code(l->code);
    c->owner->sys = l->sys;
    snprintf(c->owner->why, sizeof c->owner->why, "%s", l->why);
    lose(c);
}

/* ---- Greeting --------------------------------------------------------------------------- */

static void on_joined(struct mysql_link *l)
{
    struct connection *c = l->owner;
    struct mysql_text_place place = text_place(c);
    size_t size = 0;
    char *text = mysql_text_greeting(&place, &size);
    c->greeted = snib__now();
    if (text) {
        mysql_link_ask(l, text, size);
    } else {
        lose_because(c, SNIB_ENOMEM, "out of memory");
    }
}

static bool is_on(const char *text)
{
    return text && strcmp(text, "OFF") != 0 && strcmp(text, "0") != 0;
}

/* By the server's clock: set back, it is negative, or very large, and says nothing. */
static int64_t uptime(const char *text)
{
    int64_t s = text ? strtoll(text, NULL, 10) : 0;
    return s < 0 || s > INT32_MAX ? 0 : s;
}

static void greeting_row(struct connection *c, const struct mysql_row *row)
{
    if (row->statement == 0 && row->count == 1) {
        c->number = row->texts[0] ? strtoul(row->texts[0], NULL, 10) : 0;
    } else if (row->statement == 1 && row->count == 2) {
        const char *name = row->texts[0] ? row->texts[0] : "";
        if (strcmp(name, "wsrep_on") == 0) {
            c->galera = c->galera || is_on(row->texts[1]);
        } else if (strcmp(name, "wsrep_provider") == 0) {
            c->galera = c->galera ||
                        (row->texts[1] && row->texts[1][0] && strcmp(row->texts[1], "none") != 0);
        } else {
            c->read_only = c->read_only || is_on(row->texts[1]);
        }
    } else if (row->statement == 2 && row->count == 2) {
        c->uptime_s = uptime(row->texts[1]);
    }
}

/* NULL: it is fit for locks. */
static const char *unfit(const struct connection *c)
{
    unsigned long version = mysql_get_server_version(c->link.my);
    bool maria = strstr(mysql_link_version(&c->link), "MariaDB") != NULL;
    if (version < (maria ? OLDEST_MARIA : OLDEST_MYSQL)) {
        return "the server is too old: MySQL 5.7.8 or MariaDB 10.0.2 is needed";
    }
    if (c->galera) {
        return "the server is part of a Galera cluster, whose members know nothing of each other's "
               "locks";
    }
    if (c->read_only) {
        return "the server is read-only (a replica?): locks belong to the one that is written to";
    }
    if (c->number != mysql_link_number(&c->link) && !settings_of(c->owner)->pooled) {
        return "a pooler or proxy is in between, which may give one session to many; if it keeps "
               "sessions apart: pooler=session";
    }
    return NULL;
}

static void greeting_over(struct connection *c, unsigned error)
{
    struct sql_link *owner = c->owner;
    const char *why = error ? c->link.why : unfit(c);
    if (why) {
        char copy[sizeof owner->why];
        snprintf(copy, sizeof copy, "%s", why);
        lose_because(c, error ? mysql_lost_code(error) : SNIB_EUNSAFE, copy);
        return;
    }
    int64_t left_ms = settings_of(owner)->quarantine_ms - c->uptime_s * 1000;
    owner->quarantine_ns = left_ms > 0 ? snib__now().boot_ns + left_ms * SNIB__MS : 0;
    owner->number = c->number;
    owner->heard = c->greeted;
    c->opened = true;
    c->due_ns = 0;
    owner->upcalls->opened(owner);
    start(c);
}

/* ---- Rows ------------------------------------------------------------------------------- */

static const char *flag(const char *text)
{
    return text && strcmp(text, "1") == 0 ? "t" : "f";
}

static const char *text_at(const struct mysql_row *row, unsigned i)
{
    return i < row->count ? row->texts[i] : NULL;
}

static void try_row(struct connection *c, const struct mysql_row *row)
{
    if (row->statement == 0) {
        snprintf(c->holder, sizeof c->holder, "%s", text_at(row, 0) ? text_at(row, 0) : "");
        snprintf(c->holder_token, sizeof c->holder_token, "%s",
                 text_at(row, 1) ? text_at(row, 1) : "");
        return;
    }
    const char *const columns[SQL_COLUMNS] = {flag(text_at(row, 0)), text_at(row, 1),
                                              c->holder[0] ? c->holder : NULL,
                                              c->holder_token[0] ? c->holder_token : NULL};
    c->current->row(c->current, columns);
}

/* The server sorts; the place in a name's line is counted here. */
static void sight_row(struct connection *c, const struct mysql_row *row)
{
    const char *columns[SQL_COLUMNS] = {NULL};
    char place[16];
    for (unsigned i = 0; i < row->count && i < SQL_COLUMNS; i++) {
        columns[i] = row->texts[i];
    }
    const char *name = columns[0] ? columns[0] : "";
    if (strcmp(name, c->last_name) != 0) {
        snprintf(c->last_name, sizeof c->last_name, "%s", name);
        c->place = 0;
    }
    bool waits = columns[2] && strcmp(columns[2], "1") == 0;
    snprintf(place, sizeof place, "%d", waits ? ++c->place : 0);
    columns[2] = place;
    c->current->row(c->current, columns);
}

static void plain_row(struct connection *c, const struct mysql_row *row)
{
    const char *columns[SQL_COLUMNS] = {NULL};
    for (unsigned i = 0; i < row->count && i < SQL_COLUMNS; i++) {
        columns[i] = row->texts[i];
    }
    c->current->row(c->current, columns);
}

static void unlock_row(struct connection *c, const struct mysql_row *row)
{
    const char *freed = flag(text_at(row, 0));
    const char *const columns[SQL_COLUMNS] = {c->again ? "t" : freed};
    c->current->row(c->current, columns);
}

static void on_row(struct mysql_link *l, const struct mysql_row *row)
{
    struct connection *c = l->owner;
    if (!c->opened) {
        greeting_row(c, row);
        return;
    }
    if (!c->current || c->undoing) {
        return;
    }
    switch (c->current->statement) {
    case SQL_TRY:
        try_row(c, row);
        break;
    case SQL_SIGHT:
        sight_row(c, row);
        break;
    case SQL_UNLOCK:
        unlock_row(c, row);
        break;
    case SQL_WAIT:
        c->waited = text_at(row, 0) && strcmp(text_at(row, 0), "1") == 0;
        break;
    default:
        plain_row(c, row);
        break;
    }
}

/* ---- Answers ---------------------------------------------------------------------------- */

static enum sql_outcome judge(struct connection *c, struct sql_request *r, unsigned error)
{
    enum sql_outcome outcome = mysql_outcome(error, &r->code);
    if (r->statement == SQL_SEVER && error == ER_NO_SUCH_THREAD) {
        return SQL_ANSWERED; /* it was gone, or there was none */
    }
    if (r->statement == SQL_PROVE && outcome == SQL_ABSENT) {
        return SQL_ANSWERED; /* no table, so nobody has asked for anything */
    }
    if (r->statement == SQL_WAIT && error == 0 && !c->waited) {
        return SQL_AGAIN; /* MariaDB: interrupted */
    }
    if (outcome == SQL_REFUSED) {
        if (error == ER_BAD_FIELD_ERROR) {
            snprintf(r->reason, sizeof r->reason,
                     "tables of another kind have the prefix \"%s\": give another prefix=",
                     settings_of(c->owner)->prefix);
        } else {
            snprintf(r->reason, sizeof r->reason, "%s", c->link.why);
        }
    }
    return outcome;
}

static void undo_over(struct connection *c, unsigned error)
{
    if (error == 0) {
        end(c, c->outcome);
    } else if (mysql_interrupted(error) && ++c->repeats < REPEATS_MOST) {
        ask_undo(c);
    } else {
        lose_because(c, SNIB_EUNREACH, "what a failed attempt had taken could not be given back");
    }
}

/* An unlock that was interrupted goes out again. */
static bool repeat(struct connection *c, unsigned error)
{
    struct sql_request *r = c->current;
    if (r->statement != SQL_UNLOCK || !mysql_interrupted(error) || ++c->repeats >= REPEATS_MOST) {
        return false;
    }
    c->again = true;
    c->current = NULL;
    start(c); /* it still is the first */
    return true;
}

static void on_answered(struct mysql_link *l, unsigned error)
{
    struct connection *c = l->owner;
    struct sql_request *r = c->current;
    if (!c->opened) {
        greeting_over(c, error);
        return;
    }
    if (!r) {
        return;
    }
    c->owner->heard = r->sent;
    if (c->undoing) {
        undo_over(c, error);
    } else if (!repeat(c, error)) {
        c->outcome = judge(c, r, error);
        if (r->statement == SQL_TRY && error != 0) {
            ask_undo(c);
        } else {
            end(c, c->outcome);
        }
    }
}

static const struct mysql_link_upcalls link_upcalls = {
    .joined = on_joined, .row = on_row, .answered = on_answered, .lost = on_lost};

/* ---- The driver ------------------------------------------------------------------------- */

static void open_link(struct sql_link *owner)
{
    unsigned char bytes[8];
    struct connection *c = calloc(1, sizeof *c);
    owner->connection = c;
    if (!c) {
        return; /* keep_time tells */
    }
    c->owner = owner;
    c->due_ns = snib__now().boot_ns + owner->session->timeout_ms * SNIB__MS;
    snib__random(bytes, sizeof bytes);
    for (int i = 0; i < 8; i++) {
        snprintf(c->name + 2 * i, 3, "%02x", bytes[i]);
    }
    mysql_link_init(&c->link, &link_upcalls, c, owner->session, &settings_of(owner)->target);
    mysql_link_open(&c->link, owner->session->timeout_ms);
}

static bool poll_link(const struct sql_link *owner, struct pollfd *out)
{
    const struct connection *c = owner->connection;
    if (!c) {
        return false;
    }
    *out = mysql_link_poll(&c->link);
    return out->fd >= 0;
}

/* What could not even be sent. */
static void settle_fault(struct connection *c)
{
    if (c->undoing) {
        lose_because(c, SNIB_ENOMEM, "out of memory");
        return;
    }
    c->current->code = SNIB_ENOMEM;
    snprintf(c->current->reason, sizeof c->current->reason, "out of memory");
    end(c, SQL_REFUSED);
}

static void step_link(struct sql_link *owner)
{
    struct connection *c = owner->connection;
    if (c && c->faulty) {
        settle_fault(c);
    } else if (c) {
        mysql_link_step(&c->link);
    }
}

static int64_t keep_time(struct sql_link *owner, int64_t now_ns)
{
    struct connection *c = owner->connection;
    if (!c) {
        return SNIB__NEVER;
    }
    if (c->faulty || mysql_link_due(&c->link)) {
        step_link(owner);
        return now_ns; /* what was told may have changed when others want to be driven */
    }
    if (c->due_ns && now_ns >= c->due_ns) {
        lose_because(c, SNIB_EUNREACH, "no answer in time");
        return now_ns;
    }
    return c->due_ns ? c->due_ns : SNIB__NEVER;
}

static void close_link(struct sql_link *owner, bool forked)
{
    struct connection *c = owner->connection;
    owner->connection = NULL;
    if (c) {
        mysql_link_close(&c->link, forked);
        free(c);
    }
}

static void make_key(const struct sql_link *owner, const char *name, char *out)
{
    mysql_settings_key(settings_of(owner), name, out);
}

const struct sql_driver mysql_driver = {
    .open = open_link,
    .send = send_request,
    .poll = poll_link,
    .step = step_link,
    .keep_time = keep_time,
    .close = close_link,
    .key = make_key,
};
