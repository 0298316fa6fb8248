/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links of a session: a main one, where everything is tried, and one for each wait.
 *
 * A link is a lease: the server ends it when it was silent for the ttl. So an idle one is not used
 * any more when most of that is over, and one that does not answer is closed when nothing that is
 * held by it can be valid any more; until then new requests go to another.
 *
 * What can go wrong: a server that is not there is dialled with growing pauses, all of its hosts in
 * turn before anybody is told. One that has no connection left for waits is no failure: who wanted
 * it tries again.
 */
#include "engines/sql/strands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAUSE_MS = 20, PAUSE_MOST_MS = 2000 };

static struct sql_strand *strand_of(struct sql_link *link)
{
    return SNIB__OF(link, struct sql_strand, link);
}

/* ---- Upcalls of the driver -------------------------------------------------------------- */

static void on_opened(struct sql_link *link)
{
    struct sql_strand *strand = strand_of(link);
    struct sql *s = strand->sql;
    strand->ready = true;
    s->failures = 0;
    if (!s->lease) {
        s->pause_ms = 0; /* else when it is enlisted */
    }
    s->greeted++;
    s->told->opened(strand);
}

static void forget_main(struct sql *s, const struct sql_strand *strand)
{
    if (s->main == strand) {
        s->main = NULL;
        s->extra++; /* until it is gone */
    }
}

static void pause_dialling(struct sql *s)
{
    s->pause_ms = s->pause_ms ? 2 * s->pause_ms : PAUSE_MS;
    s->pause_ms = s->pause_ms > PAUSE_MOST_MS ? PAUSE_MOST_MS : s->pause_ms;
    s->dial_ns = snib__now().boot_ns + snib__jitter(s->pause_ms) * SNIB__MS;
}

static void on_lost(struct sql_link *link)
{
    struct sql_strand *strand = strand_of(link);
    struct sql *s = strand->sql;
    bool main = s->main == strand;
    if (strand->lost) {
        return;
    }
    strand->lost = true;
    forget_main(s, strand);
    if (strand->ready) {
        s->told->lost(strand);
        return;
    }
    if (main) {
        s->code = link->code;
        s->sys = link->sys;
        snprintf(s->why, sizeof s->why, "%s", link->why);
        s->failures++;
        if (s->failures % s->hosts != 0) {
            s->dial_ns = 0; /* the next host, at once */
            return;
        }
        pause_dialling(s);
    }
    s->told->failed(strand);
}

static void on_rung(struct sql_link *link, const char *text)
{
    strand_of(link)->sql->told->rung(strand_of(link), text);
}

static const struct sql_upcalls upcalls = {.opened = on_opened, .lost = on_lost, .rung = on_rung};

/* ---- Opening ---------------------------------------------------------------------------- */

static struct sql_strand *strand_new(struct sql *s)
{
    struct sql_strand *strand = calloc(1, sizeof *strand);
    if (!strand) {
        return NULL;
    }
    strand->sql = s;
    snib__list_init(&strand->bids);
    snib__list_init(&strand->link.requests);
    strand->link.driver = s->driver;
    strand->link.upcalls = &upcalls;
    strand->link.session = s->session;
    strand->link.settings = s->settings;
    strand->link.idle_ms = s->session->ttl_ms;
    snib__list_append(&s->strands, &strand->place);
    return strand;
}

/* Would the server have ended it by now, or be about to? */
static bool is_stale(const struct sql_strand *strand, struct snib__instant now)
{
    return snib__elapsed_ns(strand->link.heard, now) > strand->link.idle_ms * SNIB__MS * 3 / 4;
}

static const struct sql_request *oldest(const struct sql_strand *strand)
{
    return snib__list_empty(&strand->link.requests)
               ? NULL
               : SNIB__OF(strand->link.requests.after, struct sql_request, place);
}

/* Has it kept somebody waiting for longer than a request may take? */
static bool is_silent(const struct sql_strand *strand, struct snib__instant now)
{
    const struct sql_request *r = oldest(strand);
    return r && r->statement != SQL_WAIT &&
           snib__elapsed_ns(r->sent, now) > strand->link.session->timeout_ms * SNIB__MS;
}

static bool is_usable(struct sql_strand *strand, struct snib__instant now)
{
    if (!strand->ready || strand->lost || strand->link.doomed || is_silent(strand, now)) {
        return false;
    }
    return !is_stale(strand, now) || oldest(strand) || !snib__list_empty(&strand->bids);
}

struct sql_strand *sql_strand_main(struct sql *s)
{
    struct snib__instant now = snib__now();
    if (s->main && s->main->ready && !is_usable(s->main, now)) {
        struct sql_strand *old = s->main;
        forget_main(s, old);
        if (snib__list_empty(&old->bids) && !oldest(old)) {
            sql_strand_doom(old);
        }
    }
    if (!s->main && now.boot_ns >= s->dial_ns) {
        s->main = strand_new(s);
        if (s->main) {
            s->session->reconnects = s->greeted > 0 ? s->session->reconnects + 1 : 0;
            s->driver->open(&s->main->link);
        }
    }
    return s->main && s->main->ready ? s->main : NULL;
}

struct sql_strand *sql_strand_extra(struct sql *s)
{
    struct snib__instant now = snib__now();
    for (struct snib__list *l = s->strands.after; l != &s->strands; l = l->after) {
        struct sql_strand *strand = SNIB__OF(l, struct sql_strand, place);
        if (strand != s->main && snib__list_empty(&strand->bids) && !oldest(strand) &&
            strand->ready) {
            if (is_usable(strand, now)) {
                strand->link.waits = true; /* one that was the main one is not that again */
                return strand;
            }
            sql_strand_doom(strand);
        }
    }
    if (s->extra >= s->max_extra) {
        return NULL;
    }
    struct sql_strand *strand = strand_new(s);
    if (strand) {
        s->extra++;
        strand->link.waits = true;
        s->driver->open(&strand->link);
    }
    return strand;
}

void sql_strand_doom(struct sql_strand *strand)
{
    strand->link.doomed = true;
}

void sql_strand_refuse(struct sql_strand *strand)
{
    pause_dialling(strand->sql);
    sql_strand_doom(strand);
}

int64_t sql_strand_quarantine_ms(const struct sql_strand *strand)
{
    int64_t left = strand->link.quarantine_ns - snib__now().boot_ns;
    return left > 0 ? left / SNIB__MS + 1 : 0;
}

/* ---- Driving ---------------------------------------------------------------------------- */

/* One that is marked is over: whoever is still on it is told. */
static void reap(struct sql *s, struct sql_strand *strand)
{
    if (!strand->lost) {
        if (!strand->link.why[0]) {
            snprintf(strand->link.why, sizeof strand->link.why, "%s", "its connection was closed");
        }
        strand->link.code = SNIB_EUNREACH;
        while (!snib__list_empty(&strand->link.requests)) {
            struct sql_request *r =
                SNIB__OF(strand->link.requests.after, struct sql_request, place);
            snib__list_remove(&r->place);
            r->ended(r, r->away ? SQL_LOST : SQL_UNSENT);
        }
        on_lost(&strand->link);
    }
    s->driver->close(&strand->link, false);
    snib__list_remove(&strand->place);
    s->extra--; /* it is not the main one any more */
    free(strand);
}

void sql_strand_end(struct sql_strand *strand)
{
    sql_strand_doom(strand);
    forget_main(strand->sql, strand);
    reap(strand->sql, strand);
}

/* Nothing that lives by this link is valid any more, and it says nothing. */
static int64_t give_up(struct sql_strand *strand, struct snib__instant now)
{
    const struct sql_request *r = oldest(strand);
    if (!strand->ready || !r || r->statement == SQL_WAIT) {
        return SNIB__NEVER;
    }
    int64_t span_ms = strand->link.session->timeout_ms;
    if (!snib__list_empty(&strand->bids) && strand->link.idle_ms > span_ms) {
        span_ms = strand->link.idle_ms;
    }
    int64_t left_ns = span_ms * SNIB__MS - snib__elapsed_ns(r->sent, now);
    if (left_ns > 0) {
        return now.boot_ns + left_ns;
    }
    snprintf(strand->link.why, sizeof strand->link.why, "%s", "no answer in time");
    sql_strand_doom(strand);
    return SNIB__NEVER;
}

int64_t sql_strands_keep_time(struct sql *s, int64_t now_ns)
{
    int64_t next = SNIB__NEVER;
    struct snib__instant now = snib__now();
    for (struct snib__list *l = s->strands.after, *after; l != &s->strands; l = after) {
        struct sql_strand *strand = SNIB__OF(l, struct sql_strand, place);
        int64_t due = s->driver->keep_time(&strand->link, now_ns);
        int64_t end = give_up(strand, now);
        after = l->after;
        next = due < next ? due : next;
        next = end < next ? end : next;
        if (strand->link.doomed) {
            reap(s, strand);
        }
    }
    if (!s->main && s->dial_ns > now_ns && s->dial_ns < next) {
        next = s->dial_ns;
    }
    return next;
}

size_t sql_strands_poll(const struct sql *s, struct pollfd *out, size_t most)
{
    size_t n = 0;
    for (struct snib__list *l = s->strands.after; l != &s->strands && n < most; l = l->after) {
        struct sql_strand *strand = SNIB__OF(l, struct sql_strand, place);
        if (s->driver->poll(&strand->link, &out[n])) {
            n++;
        }
    }
    return n;
}

void sql_strands_step(struct sql *s, const struct pollfd *fds, size_t n)
{
    for (struct snib__list *l = s->strands.after; l != &s->strands; l = l->after) {
        struct sql_strand *strand = SNIB__OF(l, struct sql_strand, place);
        struct pollfd fd;
        if (!s->driver->poll(&strand->link, &fd)) {
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            if (fds[i].fd == fd.fd && fds[i].revents) {
                s->driver->step(&strand->link);
                break;
            }
        }
    }
}

void sql_strands_close(struct sql *s, bool forked)
{
    for (struct snib__list *l = s->strands.after, *after; l != &s->strands; l = after) {
        struct sql_strand *strand = SNIB__OF(l, struct sql_strand, place);
        after = l->after;
        s->driver->close(&strand->link, forked);
        free(strand);
    }
    snib__list_init(&s->strands);
    s->main = NULL;
}
