/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link to PostgreSQL by libpq, asynchronous throughout, in its pipeline mode: requests leave at
 * once, each is a transaction of its own (a Sync behind each), answers come in that order.
 *
 * What can go wrong: libpq looks names up by itself and blocks for it, so net/lookup does that
 * first and libpq gets the address beside the name (which TLS compares). It prints notices to
 * stderr unless told not to. PQfinish says good-bye to the server, which in a forked child would
 * end the parent's session: there /dev/null goes over the descriptor first.
 *
 * An answer counts when its Sync is answered: then the transaction is committed.
 *
 * Not done: PQcancel, which blocks; a wait that is not wanted any more goes with its link.
 */
#include "engines/postgres/link.h"

#include "engines/postgres/errors.h"
#include "engines/postgres/settings.h"
#include "net/lookup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ADDRESSES_MOST = 8, HOST_MOST = 256, ADDRESS_MOST = 64 };

static struct pg_settings *settings_of(const struct sql_link *link)
{
    return link->settings;
}

static void ignore_notice(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

/* ---- Loss ------------------------------------------------------------------------------- */

static void lose_connection(struct sql_link *link)
{
    struct pg_connection *c = link->connection;
    char line[200];
    bool ready = c->state == PG_READY;
    const char *message = c->db ? PQerrorMessage(c->db) : "";
    pg_error_line(line, sizeof line, message[0] ? message : "the server closed the connection");
    if (!ready && strstr(line, "unsupported startup parameter")) {
        pg_refuse_pooler(link);
    } else {
        pg_lose(link, ready ? SNIB_EUNREACH : pg_error_of_connection(line), 0, line);
    }
}

/* ---- Connecting ------------------------------------------------------------------------- */

/* What must hold before the first statement, whatever the role's defaults are: none is ended before
 * the greeting has set the rest, and a name means what the server means by it. A pooler of old
 * knows no options; there the greeting alone has to do. */
#define OPTIONS "-c statement_timeout=0 -c lock_timeout=0 -c search_path=pg_catalog,pg_temp"

static void start_connecting(struct sql_link *link, const char *hosts, const char *addresses)
{
    struct pg_connection *c = link->connection;
    struct pg_settings *s = settings_of(link);
    const char *names[24], *values[24];
    char port[16], seconds[24], count[24], options[1000];
    int probes;
    size_t n = 0;
    snprintf(port, sizeof port, "%d", c->port);
    snprintf(seconds, sizeof seconds, "%d", pg_keepalive_s(link->session->ttl_ms, &probes));
    snprintf(count, sizeof count, "%d", probes);
    const char *own = getenv("PGOPTIONS");
    snprintf(options, sizeof options, "%.800s %s", own ? own : "", OPTIONS);
    const char *mode = pg_settings_sslmode(s, c->host);
    const char *pairs[][2] = {
        {"service", s->service},
        {"host", hosts},
        {"hostaddr", addresses},
        {"port", c->port ? port : NULL},
        {"dbname", s->database},
        {"user", s->user},
        {"password", s->password},
        {"sslmode", mode},
        {"sslrootcert", mode && mode[0] == 'v' ? pg_settings_authorities(s) : NULL},
        {"sslcert", s->cert},
        {"sslkey", s->key},
        {"client_encoding", "UTF8"},
        {"options", s->pooled ? NULL : options},
        {"application_name", link->session->who},
        {"keepalives_idle", seconds},
        {"keepalives_interval", "1"},
        {"keepalives_count", count},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (pairs[i][1]) {
            names[n] = pairs[i][0];
            values[n++] = pairs[i][1];
        }
    }
    names[n] = values[n] = NULL;
    c->state = PG_CONNECTING;
    c->wants = PGRES_POLLING_WRITING;
    c->db = PQconnectStartParams(names, values, 0);
    if (!c->db || PQstatus(c->db) == CONNECTION_BAD) {
        lose_connection(link);
        return;
    }
    PQsetNoticeProcessor(c->db, ignore_notice, NULL);
}

static bool is_name(const char *host)
{
    unsigned char room[16];
    return host && host[0] != '/' && host[0] != '@' && inet_pton(AF_INET, host, room) != 1 &&
           inet_pton(AF_INET6, host, room) != 1;
}

static void open_link(struct sql_link *link)
{
    struct pg_settings *s = settings_of(link);
    struct pg_connection *c = calloc(1, sizeof *c);
    link->connection = c;
    if (!c) {
        pg_lose(link, SNIB_ENOMEM, 0, "out of memory");
        return;
    }
    c->due_ns = snib__now().boot_ns + link->session->timeout_ms * SNIB__MS;
    c->host = s->host_count ? s->hosts[s->at] : NULL;
    c->port = s->ports[s->at];
    if (!is_name(c->host)) {
        start_connecting(link, c->host, NULL);
        return;
    }
    c->state = PG_LOOKING_UP;
    c->lookup = snib__lookup_start(c->host, c->port ? c->port : 5432);
    if (!c->lookup) {
        pg_lose(link, SNIB_EUNREACH, errno, "no thread to look its name up");
    }
}

struct names {
    char hosts[ADDRESSES_MOST * (HOST_MOST + 1)], addresses[ADDRESSES_MOST * (ADDRESS_MOST + 1)];
};

/* Lists as libpq wants them: an address, and the name that TLS compares, for each. It goes on to
 * the next if one refuses. */
static void name_all(const char *host, const struct addrinfo *list, struct names *names)
{
    size_t at = 0, by = 0;
    for (int n = 0; list && n < ADDRESSES_MOST; list = list->ai_next) {
        char address[ADDRESS_MOST];
        if (getnameinfo(list->ai_addr, list->ai_addrlen, address, sizeof address, NULL, 0,
                        NI_NUMERICHOST) == 0) {
            at += (size_t)snprintf(names->hosts + at, sizeof names->hosts - at, "%s%.*s",
                                   n ? "," : "", HOST_MOST - 1, host);
            by += (size_t)snprintf(names->addresses + by, sizeof names->addresses - by, "%s%s",
                                   n ? "," : "", address);
            n++;
        }
    }
}

static void step_lookup(struct sql_link *link)
{
    struct pg_connection *c = link->connection;
    struct addrinfo *list;
    struct names names = {.hosts = ""};
    char why[200];
    int rc;
    if (!snib__lookup_done(c->lookup, &list, &rc)) {
        return;
    }
    snib__lookup_end(c->lookup);
    c->lookup = NULL;
    name_all(c->host, list, &names);
    if (list) {
        freeaddrinfo(list);
    }
    if (names.addresses[0]) {
        start_connecting(link, names.hosts, names.addresses);
    } else {
        snprintf(why, sizeof why, "%.100s: %s", c->host, gai_strerror(rc));
        pg_lose(link, SNIB_EUNREACH, 0, why);
    }
}

static void step_connect(struct sql_link *link)
{
    struct pg_connection *c = link->connection;
    c->wants = PQconnectPoll(c->db);
    if (c->wants == PGRES_POLLING_FAILED) {
        lose_connection(link);
    } else if (c->wants == PGRES_POLLING_OK) {
        if (PQsetnonblocking(c->db, 1) != 0 || PQenterPipelineMode(c->db) != 1) {
            lose_connection(link);
            return;
        }
        link->number = (unsigned long)PQbackendPID(c->db);
        c->state = PG_GREETING;
        pg_greet(link);
    }
}

/* ---- Reading ---------------------------------------------------------------------------- */

static void take_rows(struct sql_request *r, const PGresult *result)
{
    int columns = PQnfields(result) < SQL_COLUMNS ? PQnfields(result) : SQL_COLUMNS;
    for (int i = 0; r->row && i < PQntuples(result); i++) {
        const char *row[SQL_COLUMNS] = {NULL};
        for (int j = 0; j < columns; j++) {
            row[j] = PQgetisnull(result, i, j) ? NULL : PQgetvalue(result, i, j);
        }
        r->row(r, row);
    }
}

static void take_error(struct pg_connection *c, struct sql_request *r, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    c->outcome = pg_error_outcome(state ? state : "", &r->code);
    pg_error_line(r->reason, sizeof r->reason, text ? text : PQresultErrorMessage(result));
    c->prepared = 0; /* whether it was, if that was what failed, is not worth knowing */
    c->generation++;
}

/* One result. False: it was the connection's last. */
static bool take(struct sql_link *link, const PGresult *result)
{
    struct pg_connection *c = link->connection;
    struct sql_request *r = SNIB__OF(link->requests.after, struct sql_request, place);
    switch (PQresultStatus(result)) {
    case PGRES_TUPLES_OK:
        take_rows(r, result);
        return true;
    case PGRES_PIPELINE_SYNC:
        snib__list_remove(&r->place);
        if (snib__elapsed_ns(link->heard, r->sent) > 0 || !link->heard.boot_ns) {
            link->heard = r->sent;
        }
        enum sql_outcome outcome = c->outcome;
        c->outcome = SQL_ANSWERED;
        r->ended(r, outcome);
        return true;
    case PGRES_COMMAND_OK:
    case PGRES_PIPELINE_ABORTED:
        return true;
    default:
        take_error(c, r, result);
        return PQstatus(c->db) == CONNECTION_OK;
    }
}

static void take_notes(struct sql_link *link)
{
    struct pg_connection *c = link->connection;
    PGnotify *note;
    while (!link->doomed && (note = PQnotifies(c->db)) != NULL) {
        link->upcalls->rung(link, note->extra);
        PQfreemem(note);
    }
}

static void step_results(struct sql_link *link)
{
    struct pg_connection *c = link->connection;
    bool good = PQconsumeInput(c->db) == 1;
    c->quiet = false;
    if (c->unwritten) {
        pg_flush(c);
    }
    while (!link->doomed && !snib__list_empty(&link->requests) && !PQisBusy(c->db)) {
        PGresult *result = PQgetResult(c->db);
        if (!result && c->quiet) {
            break;
        }
        c->quiet = !result;
        good = (!result || take(link, result)) && good;
        PQclear(result);
    }
    take_notes(link);
    if (!link->doomed && (!good || PQstatus(c->db) != CONNECTION_OK)) {
        lose_connection(link);
    }
}

static void step(struct sql_link *link)
{
    struct pg_connection *c = link->connection;
    if (link->doomed || !c) {
        return;
    }
    switch (c->state) {
    case PG_LOOKING_UP:
        step_lookup(link);
        return;
    case PG_CONNECTING:
        step_connect(link);
        return;
    case PG_GREETING:
    case PG_READY:
        step_results(link);
        return;
    }
}

static bool poll_link(const struct sql_link *link, struct pollfd *out)
{
    const struct pg_connection *c = link->connection;
    *out = (struct pollfd){.fd = -1, .events = POLLIN};
    if (!c || link->doomed) {
        return false;
    }
    if (c->state == PG_LOOKING_UP) {
        out->fd = snib__lookup_fd(c->lookup);
    } else {
        out->fd = PQsocket(c->db);
        if (c->state == PG_CONNECTING) {
            out->events = c->wants == PGRES_POLLING_READING ? POLLIN : POLLOUT;
        } else if (c->unwritten) {
            out->events = POLLIN | POLLOUT;
        }
    }
    return out->fd >= 0;
}

static int64_t keep_time(struct sql_link *link, int64_t now_ns)
{
    struct pg_connection *c = link->connection;
    if (!c || link->doomed || c->state == PG_READY) {
        return SNIB__NEVER;
    }
    if (now_ns >= c->due_ns) {
        pg_lose(link, SNIB_EUNREACH, ETIMEDOUT, "no answer in time");
        return SNIB__NEVER;
    }
    return c->due_ns;
}

static void close_link(struct sql_link *link, bool forked)
{
    struct pg_connection *c = link->connection;
    if (!c) {
        return;
    }
    if (c->lookup) {
        snib__lookup_end(c->lookup);
    }
    if (c->db && forked && PQsocket(c->db) >= 0) {
        int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (nothing >= 0) {
            dup3(nothing, PQsocket(c->db), O_CLOEXEC);
            close(nothing);
        }
    }
    PQfinish(c->db);
    free(c);
    link->connection = NULL;
}

static void make_key(const struct sql_link *link, const char *name, char *out)
{
    const struct pg_settings *s = link->settings;
    uint64_t hash = pg_key(s->schema, name);
    snprintf(out, SQL_KEY_MAX, "%lld", (long long)(int64_t)hash);
}

const struct sql_driver pg_driver = {
    .open = open_link,
    .send = pg_send,
    .poll = poll_link,
    .step = step,
    .keep_time = keep_time,
    .close = close_link,
    .key = make_key,
};
