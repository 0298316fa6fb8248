/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop that drives the links, and what is opened and closed with a session.
 *
 * Calls go down only: queries and bids (or leases) above, strands below them, a driver at the
 * bottom.
 */
#include "engines/sql/loop.h"

#include "engines/sql/bid.h"
#include "engines/sql/bids.h"
#include "engines/sql/leases.h"
#include "engines/sql/proofs.h"
#include "engines/sql/queries.h"
#include "engines/sql/renewals.h"
#include "engines/sql/strands.h"

#include <stdlib.h>

void sql_open(struct sql *s)
{
    snib__list_init(&s->strands);
    snib__list_init(&s->bids);
    snib__list_init(&s->owing);
    snib__list_init(&s->broken);
    snib__list_init(&s->wanting);
    snib__list_init(&s->queries);
    snib__list_init(&s->waiting);
    snib__list_init(&s->renewals);
    s->told = s->lease ? &sql_lease_upcalls : &sql_session_upcalls;
}

/* Requests of queries that are over belong to nobody but their link. */
static void drop_requests(struct sql *s)
{
    for (struct snib__list *l = s->strands.after; l != &s->strands; l = l->after) {
        struct sql_strand *strand = SNIB__OF(l, struct sql_strand, place);
        sql_queries_drop(&strand->link);
    }
}

void sql_close(struct sql *s)
{
    sql_queries_close(s);
    drop_requests(s);
    sql_strands_close(s, snib__forked(s->session));
    sql_renewals_close(s);
    sql_bids_close(s);
}

void sql_attempt(struct snib__claim *claim)
{
    if (sql_of(claim->session)->lease) {
        sql_lease_attempt(claim);
    } else {
        sql_session_attempt(claim);
    }
}

void sql_renew(struct snib__claim *const claims[], size_t n)
{
    if (sql_of(claims[0]->session)->lease) {
        sql_lease_renew(claims, n);
    } else {
        sql_session_renew(claims, n);
    }
}

void sql_release(struct snib__claim *claim)
{
    if (sql_of(claim->session)->lease) {
        sql_lease_release(claim);
    } else {
        sql_session_release(claim);
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void sql_drive(struct snib__session *session, int64_t until_ns)
{
    struct sql *s = sql_of(session);
    for (;;) {
        struct pollfd fds[SNIB__SLEEP_MOST];
        int64_t now_ns = snib__now().boot_ns;
        int64_t next = s->lease ? sql_leases_keep_time(s, now_ns) : sql_bids_keep_time(s, now_ns);
        next = least(next, sql_queries_keep_time(s, now_ns));
        next = least(next, sql_strands_keep_time(s, now_ns));
        sql_bids_watch(s, now_ns);
        if (now_ns >= until_ns) {
            return;
        }
        size_t n = sql_strands_poll(s, fds, SNIB__SLEEP_MOST);
        next = session->wake_ns ? least(next, session->wake_ns) : next;
        if (snib__sleep(session, fds, n, least(until_ns, next))) {
            return;
        }
        sql_strands_step(s, fds, n);
    }
}
