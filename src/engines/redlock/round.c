/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Votes of servers about one claim.
 *
 * Safety. Two majorities of the same servers have one in common. That server has said yes to one id
 * only, until its lease there was over, was given back, or the server forgot it. So two claims that
 * both have a majority lease at one time need a server that forgot: one that was restarted without
 * its data, evicted or deleted a key, or whose clock jumped. Such a server does not vote
 * (servers.c), as far as that can be seen; more is in engine.c.
 *
 * The lease of a majority ends when the first of them ends without which they are no majority: with
 * the seats in the order of their ends, the latest first, the end of number q. Each counts from
 * before its own request was sent.
 *
 * A seat whose server did not answer is neither yes nor no. It keeps the lease it proved last,
 * which ends by itself, and is asked to give back whatever it may have.
 *
 * A server that lost the key while we hold the lock may be asked for it anew, under the same id: as
 * long as a majority has it nobody else can have one, whatever that server says. With less, another
 * majority may be about to form there: then nothing is asked for, and the lock is lost. A grant
 * that is given back is never asked for again: its id is spent.
 */
#include "engines/redlock/round.h"

#include <string.h>

void snib__round_begin(struct snib__round *r, unsigned servers)
{
    memset(r, 0, sizeof *r);
    r->servers = servers;
}

unsigned snib__round_count(const struct snib__round *r, enum snib__seat_state state)
{
    unsigned count = 0;
    for (unsigned i = 0; i < r->servers; i++) {
        count += r->seats[i].state == state;
    }
    return count;
}

/* ---- Attempts --------------------------------------------------------------------------- */

void snib__round_ask(struct snib__round *r, unsigned server, bool waited_for, int64_t loose_ms)
{
    struct snib__seat *s = &r->seats[server];
    s->state = waited_for ? SNIB__SEAT_ASKED : SNIB__SEAT_SILENT;
    s->proven = false;
    s->flying++;
    if (loose_ms <= 0) {
        s->loose_ms = -1;
    } else if (s->loose_ms >= 0 && loose_ms > s->loose_ms) {
        s->loose_ms = loose_ms;
    }
}

/* What was lost with a connection never lands: it may be executed at any time, until it is too late
 * for that. */
void snib__round_landed(struct snib__round *r, unsigned server)
{
    struct snib__seat *s = &r->seats[server];
    s->flying -= s->flying > 0;
    s->loose_ms = s->flying ? s->loose_ms : 0;
}

void snib__round_yes(struct snib__round *r, unsigned server, struct snib__instant since,
                     int64_t lease_ms, uint64_t token)
{
    struct snib__seat *s = &r->seats[server];
    s->state = SNIB__SEAT_HAS;
    s->proven = true;
    s->declines = false;
    s->since = since;
    s->lease_ms = lease_ms;
    s->token = token;
}

void snib__round_set(struct snib__round *r, unsigned server, enum snib__seat_state state)
{
    r->seats[server].state = (unsigned char)state;
    r->seats[server].proven = false;
    r->seats[server].pending = false;
}

void snib__round_late(struct snib__round *r)
{
    for (unsigned i = 0; i < r->servers; i++) {
        if (r->seats[i].state == SNIB__SEAT_ASKED) {
            r->seats[i].state = SNIB__SEAT_SILENT;
        }
    }
}

enum snib__verdict snib__round_verdict(const struct snib__round *r)
{
    unsigned has = snib__round_count(r, SNIB__SEAT_HAS);
    unsigned may = has + snib__round_count(r, SNIB__SEAT_ASKED);
    if (has >= snib__quorum(r->servers)) {
        return SNIB__GRANTED;
    }
    return may < snib__quorum(r->servers) ? SNIB__DENIED : SNIB__PENDING;
}

/* ---- Tokens ----------------------------------------------------------------------------- */

uint64_t snib__round_token(const struct snib__round *r)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < r->servers; i++) {
        const struct snib__seat *s = &r->seats[i];
        most = s->state == SNIB__SEAT_HAS && s->token > most ? s->token : most;
    }
    return most;
}

/* Whoever comes next meets one of that majority, which gives a larger one. A server that has given
 * a larger one already is of no use for that. */
enum snib__verdict snib__round_agreed(const struct snib__round *r, uint64_t token)
{
    unsigned agree = 0, may = 0;
    for (unsigned i = 0; i < r->servers; i++) {
        const struct snib__seat *s = &r->seats[i];
        bool has = s->state == SNIB__SEAT_HAS;
        agree += has && s->token == token;
        may += s->state == SNIB__SEAT_ASKED || (has && s->token < token && !s->declines);
    }
    if (agree >= snib__quorum(r->servers)) {
        return SNIB__GRANTED;
    }
    return agree + may < snib__quorum(r->servers) ? SNIB__DENIED : SNIB__PENDING;
}

/* ---- The lease of a majority ------------------------------------------------------------ */

static int64_t ends_ns(const struct snib__seat *s)
{
    return s->since.boot_ns + s->lease_ms * SNIB__MS;
}

bool snib__round_lease(const struct snib__round *r, struct snib__instant *since, int64_t *lease_ms)
{
    const struct snib__seat *best = NULL;
    for (unsigned i = 0; i < r->servers; i++) {
        const struct snib__seat *s = &r->seats[i];
        unsigned as_long = 0;
        for (unsigned k = 0; k < r->servers && s->state == SNIB__SEAT_HAS; k++) {
            as_long += r->seats[k].state == SNIB__SEAT_HAS && ends_ns(&r->seats[k]) >= ends_ns(s);
        }
        if (as_long >= snib__quorum(r->servers) && (!best || ends_ns(s) > ends_ns(best))) {
            best = s;
        }
    }
    if (best) {
        *since = best->since;
        *lease_ms = best->lease_ms;
    }
    return best != NULL;
}

bool snib__round_may_retake(const struct snib__round *r, struct snib__instant now)
{
    struct snib__instant since;
    int64_t lease_ms;
    if (!snib__round_lease(r, &since, &lease_ms)) {
        return false;
    }
    int64_t span_ns = lease_ms * SNIB__MS;
    return snib__elapsed_ns(since, now) < span_ns - span_ns / 10; /* as the core counts */
}

/* ---- Renewals --------------------------------------------------------------------------- */

/* Those that were silent may have it, too. */
void snib__round_renew(struct snib__round *r)
{
    for (unsigned i = 0; i < r->servers; i++) {
        struct snib__seat *s = &r->seats[i];
        s->pending = s->state == SNIB__SEAT_HAS || s->state == SNIB__SEAT_SILENT ||
                     s->state == SNIB__SEAT_ASKED;
        s->proven = false;
    }
}

void snib__round_kept(struct snib__round *r, unsigned server, struct snib__instant since,
                      int64_t lease_ms)
{
    struct snib__seat *s = &r->seats[server];
    s->state = SNIB__SEAT_HAS;
    s->pending = false;
    s->proven = true;
    if (since.boot_ns >= s->since.boot_ns) { /* answers may be late */
        s->since = since;
        s->lease_ms = lease_ms;
    }
}

void snib__round_gone(struct snib__round *r, unsigned server)
{
    snib__round_set(r, server, SNIB__SEAT_EMPTY);
}

void snib__round_unheard(struct snib__round *r, unsigned server)
{
    r->seats[server].pending = false;
    r->seats[server].proven = false;
}

enum snib__verdict snib__round_renewed(const struct snib__round *r)
{
    unsigned proven = 0, pending = 0, may = 0, quorum = snib__quorum(r->servers);
    for (unsigned i = 0; i < r->servers; i++) {
        const struct snib__seat *s = &r->seats[i];
        proven += s->state == SNIB__SEAT_HAS && s->proven;
        pending += s->pending;
        may += s->state == SNIB__SEAT_HAS || s->state == SNIB__SEAT_SILENT ||
               s->state == SNIB__SEAT_ASKED;
    }
    if (proven > quorum || (proven == quorum && quorum == r->servers)) {
        return SNIB__GRANTED;
    }
    if (may < quorum) {
        return SNIB__DENIED;
    }
    if (pending) {
        return SNIB__PENDING;
    }
    return proven == quorum ? SNIB__BARELY : SNIB__UNSURE;
}

int snib__round_margin(const struct snib__round *r)
{
    int proven = 0;
    for (unsigned i = 0; i < r->servers; i++) {
        proven += r->seats[i].state == SNIB__SEAT_HAS && r->seats[i].proven;
    }
    return proven - (int)snib__quorum(r->servers);
}
