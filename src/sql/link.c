/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection is also a session, and in session mode a session is what holds the locks. So a
 * request without an answer does not end the connection there as long as a lock may depend on it,
 * which is the ttl: its answer is waited for and thrown away (draining). In lease mode nothing
 * depends on it, and it ends with the first request that is not answered in time.
 *
 * A session that was idle for its ttl has been ended by the server: it is not even tried.
 */
#include "sql/link.h"

#include "net/lookup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { AGAIN_MS = 50 };

static int64_t now_ns(void)
{
    return snib__now().boot_ns;
}

void sql_link_init(struct sql_link *l, struct snib__session *session,
                   const struct sql_dialect *dialect, const struct sql_target *target)
{
    *l = (struct sql_link){.session = session, .dialect = dialect, .target = *target};
    l->soonest_ns = SNIB__NEVER;
    snib__list_init(&l->requests);
}

/* ---- Losing it -------------------------------------------------------------------------- */

static void part(struct sql_link *l)
{
    if (l->lookup) {
        snib__lookup_end(l->lookup);
        l->lookup = NULL;
    }
    if (l->work) {
        snib__work_end(l->work);
        l->work = NULL;
        l->joining = NULL;
    }
    if (l->connection) {
        l->dialect->driver->close(l->connection, snib__forked(l->session));
        l->connection = NULL;
    }
    l->draining = false;
    l->state = SQL_APART;
}

void sql_link_close(struct sql_link *l)
{
    if (!l->session) {
        return;
    }
    part(l);
    explicit_bzero(&l->target, sizeof l->target);
}

static void abandon(struct sql_link *l, struct sql_request *r, int code, int sys, const char *why)
{
    snib__list_remove(&r->place);
    if (l->flying == r) {
        l->flying = NULL;
        l->draining = l->connection != NULL;
    }
    r->fate->abandoned(r, code, sys, why);
}

/* The session is over. What waits to be sent goes to the next one. */
static void lose(struct sql_link *l, int sys, const char *why)
{
    char text[SQL_WHY];
    struct sql_request *flying = l->flying;
    snprintf(text, sizeof text, "%s", why);
    part(l);
    l->again_ns = now_ns() + snib__jitter(AGAIN_MS * SNIB__MS);
    if (flying) {
        abandon(l, flying, SNIB_EUNREACH, sys, text);
    }
    l->parted(l, text);
}

/* There is none to be had: everybody learns at once. Those who ask again are not told twice. */
static void give_up(struct sql_link *l, int code, int sys, const char *why)
{
    char text[SQL_WHY];
    struct snib__list given;
    snprintf(text, sizeof text, "%s", why);
    part(l);
    l->again_ns = now_ns() + snib__jitter(AGAIN_MS * SNIB__MS);
    snib__list_init(&given);
    while (!snib__list_empty(&l->requests)) {
        struct snib__list *first = l->requests.after;
        snib__list_remove(first);
        snib__list_append(&given, first);
    }
    while (!snib__list_empty(&given)) {
        abandon(l, SNIB__OF(given.after, struct sql_request, place), code, sys, text);
    }
}

/* ---- Making it -------------------------------------------------------------------------- */

static void begin_joining(struct sql_link *l)
{
    snib__random(&l->target.me, sizeof l->target.me);
    l->target.me = (l->target.me & INT64_MAX) | 1;
    l->work = sql_join(l->session, &l->joining, l->dialect, &l->target,
                       now_ns() + l->session->timeout_ms * SNIB__MS);
    if (l->work) {
        l->state = SQL_JOINING;
    } else {
        give_up(l, SNIB_ENOMEM, 0, "no thread to connect with");
    }
}

static void keep_addresses(struct sql_link *l, const struct addrinfo *list)
{
    l->target.address_count = 0;
    for (; list && l->target.address_count < SQL_ADDRESSES; list = list->ai_next) {
        if (getnameinfo(list->ai_addr, list->ai_addrlen,
                        l->target.addresses[l->target.address_count], sizeof l->target.addresses[0],
                        NULL, 0, NI_NUMERICHOST) == 0) {
            l->target.address_count++;
        }
    }
}

static void resolved(struct sql_link *l)
{
    struct addrinfo *list = NULL;
    char why[SQL_WHY];
    int rc;
    if (!snib__lookup_done(l->lookup, &list, &rc)) {
        return;
    }
    snib__lookup_end(l->lookup);
    l->lookup = NULL;
    if (!list) {
        snprintf(why, sizeof why, "%s: %s", l->target.host, gai_strerror(rc));
        give_up(l, SNIB_EUNREACH, 0, why);
        return;
    }
    keep_addresses(l, list);
    freeaddrinfo(list);
    begin_joining(l);
}

static void begin(struct sql_link *l)
{
    if (!l->target.host[0] || l->target.host[0] == '/' || l->target.socket[0]) {
        begin_joining(l);
        return;
    }
    l->lookup = snib__lookup_start(l->target.host, l->target.port);
    if (l->lookup) {
        l->state = SQL_RESOLVING;
    } else {
        give_up(l, SNIB_ESYS, errno, "cannot look up the host");
    }
}

static void arrived(struct sql_link *l)
{
    if (!snib__work_done(l->work)) {
        return;
    }
    struct sql_welcome welcome = l->joining->welcome;
    l->connection = l->joining->connection;
    l->me = l->joining->target.me;
    l->joining->connection = NULL;
    snib__work_end(l->work);
    l->work = NULL;
    l->joining = NULL;
    if (welcome.code < 0) {
        give_up(l, welcome.code, welcome.sys, welcome.why);
        return;
    }
    l->state = SQL_JOINED;
    l->heard_ns = now_ns();
    memset(l->ready, 0, sizeof l->ready);
    l->dialect->driver->listen(l->connection, l->listening);
    l->session->reconnects += l->joined_before;
    l->joined_before = true;
    l->joined(l, &welcome);
}

/* ---- Asking ----------------------------------------------------------------------------- */

/* The first that may go. */
static struct sql_request *next_request(const struct sql_link *l)
{
    int64_t now = now_ns();
    for (struct snib__list *p = l->requests.after; p != &l->requests; p = p->after) {
        struct sql_request *r = SNIB__OF(p, struct sql_request, place);
        if (r->not_before_ns <= now) {
            return r;
        }
    }
    return NULL;
}

/* Idle for so long that the server has ended it. */
static bool is_stale(const struct sql_link *l)
{
    return !l->target.leased && now_ns() - l->heard_ns >= l->target.ttl_ms * SNIB__MS;
}

static void send_next(struct sql_link *l)
{
    struct sql_error error = {0};
    struct sql_request *r = next_request(l);
    if (!r || l->state != SQL_JOINED || l->flying || l->draining) {
        return;
    }
    if (is_stale(l) || l->dialect->driver->watch(l->connection, &error) == SQL_BROKEN) {
        lose(l, error.sys, error.text[0] ? error.text : "the session was idle for too long");
        l->again_ns = 0;
        return;
    }
    struct sql_words words = {0};
    sql_say_as(&words, r->words.bytes ? r->words.bytes : "", l->me);
    if (words.failed || r->words.failed) {
        sql_words_free(&words);
        abandon(l, r, SNIB_ENOMEM, 0, "out of memory");
        return;
    }
    r->since = l->flew = snib__now();
    r->sent = true;
    l->flying = r;
    bool sent = l->dialect->driver->send(l->connection, words.bytes, words.used);
    sql_words_free(&words);
    if (!sent) {
        lose(l, 0, "the connection is broken");
    }
}

/* When its time has come, or is up. */
static int64_t moment_of(const struct sql_request *r, int64_t now)
{
    return r->not_before_ns > now ? r->not_before_ns : r->due_ns;
}

void sql_link_ask(struct sql_link *l, struct sql_request *r)
{
    int64_t at = moment_of(r, now_ns());
    l->soonest_ns = at < l->soonest_ns ? at : l->soonest_ns;
    snib__list_append(&l->requests, &r->place);
    if (l->state == SQL_APART && now_ns() >= l->again_ns) {
        begin(l);
    } else {
        send_next(l);
    }
}

void sql_link_withdraw(struct sql_link *l, struct sql_request *r)
{
    snib__list_remove(&r->place);
    if (l->flying == r) {
        l->flying = NULL;
        l->draining = true;
    }
}

/* ---- Hearing ---------------------------------------------------------------------------- */

static void take_hints(struct sql_link *l)
{
    char owner[40];
    short ready = l->ready[1];
    l->ready[1] = 0;
    while (l->state == SQL_JOINED && l->dialect->driver->hint(l->connection, ready, owner)) {
        l->rung(l, owner);
        ready = 0;
    }
}

void sql_link_listen(struct sql_link *l, bool wanted)
{
    if (l->listening != wanted && l->state == SQL_JOINED) {
        l->dialect->driver->listen(l->connection, wanted);
    }
    l->listening = wanted;
}

static void conclude(struct sql_link *l, enum sql_turn turn, struct sql_answer *answer,
                     const struct sql_error *error)
{
    struct sql_request *r = l->flying;
    l->flying = NULL;
    l->draining = false;
    l->heard_ns = now_ns();
    if (r) {
        snib__list_remove(&r->place);
        if (turn == SQL_DONE) {
            r->fate->answered(r, answer);
        } else {
            r->fate->refused(r, error);
        }
    }
}

static void hear(struct sql_link *l)
{
    struct sql_answer answer = {0};
    struct sql_error error = {0};
    short ready = l->ready[0];
    l->ready[0] = 0;
    enum sql_turn turn;
    if (l->flying || l->draining) {
        turn = l->dialect->driver->turn(l->connection, ready, &answer, &error);
    } else {
        turn = ready ? l->dialect->driver->watch(l->connection, &error) : SQL_GOING;
    }
    if (turn == SQL_BROKEN) {
        lose(l, error.sys, error.text[0] ? error.text : "the server closed the connection");
    } else if (turn != SQL_GOING) {
        conclude(l, turn, &answer, &error);
    }
    sql_answer_free(&answer);
    take_hints(l);
}

/* ---- Time ------------------------------------------------------------------------------- */

/* Until when an answer is waited for that nobody wants any more. */
static int64_t patience_ns(const struct sql_link *l)
{
    int64_t ms = l->session->timeout_ms;
    if (!l->target.leased && l->target.ttl_ms > ms) {
        ms = l->target.ttl_ms;
    }
    return snib__later(l->flew.boot_ns, ms * SNIB__MS);
}

static void keep_time(struct sql_link *l)
{
    struct snib__list *next;
    int64_t now = now_ns();
    if (now >= l->soonest_ns) {
        l->soonest_ns = SNIB__NEVER;
        for (struct snib__list *p = l->requests.after; p != &l->requests; p = next) {
            struct sql_request *r = SNIB__OF(p, struct sql_request, place);
            int64_t at = moment_of(r, now);
            next = p->after;
            if (now >= r->due_ns) {
                abandon(l, r, SNIB_EUNREACH, ETIMEDOUT, "no answer in time");
            } else if (at < l->soonest_ns) {
                l->soonest_ns = at;
            }
        }
    }
    if (l->state == SQL_JOINED && l->draining && now >= patience_ns(l)) {
        lose(l, ETIMEDOUT, "no answer in time");
    }
}

void sql_link_step(struct sql_link *l)
{
    if (l->state == SQL_RESOLVING) {
        resolved(l);
    }
    if (l->state == SQL_JOINING) {
        arrived(l);
    }
    if (l->state == SQL_JOINED) {
        hear(l);
    }
    keep_time(l);
    if (l->state == SQL_APART && next_request(l) && now_ns() >= l->again_ns) {
        begin(l);
    }
    send_next(l);
}

size_t sql_link_poll(const struct sql_link *l, struct pollfd out[SQL_POLLS], int64_t *until_ns)
{
    size_t n = 0;
    int64_t now = now_ns();
    *until_ns = l->soonest_ns < *until_ns ? l->soonest_ns : *until_ns;
    if (l->state == SQL_RESOLVING) {
        out[n++] = (struct pollfd){.fd = snib__lookup_fd(l->lookup), .events = POLLIN};
    } else if (l->state == SQL_JOINING) {
        out[n++] = (struct pollfd){.fd = snib__work_fd(l->work), .events = POLLIN};
    } else if (l->state == SQL_JOINED) {
        n = l->dialect->driver->poll(l->connection, out);
        if (l->draining && patience_ns(l) < *until_ns) {
            *until_ns = patience_ns(l);
        }
    } else if (next_request(l) && l->again_ns < *until_ns) {
        *until_ns = l->again_ns > now ? l->again_ns : now;
    }
    return n;
}

void sql_link_ready(struct sql_link *l, const struct pollfd polled[], size_t n)
{
    for (size_t i = 0; i < SQL_POLLS; i++) {
        l->ready[i] = i < n ? polled[i].revents : 0;
    }
}
