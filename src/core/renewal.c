/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renewals: at most one per hold, wanted or sent; one field of the hold says which.
 *
 *     NONE -> IN_TURN -> PACED -> NONE      the regular ones take turns
 *     NONE -> URGENT  -> SENT  -> NONE      somebody waits: a verify, the proof of a grant
 *             IN_TURN -> URGENT             somebody begins to wait
 *
 * Regular renewals go out together, and not too many at a time: with 100,000 leases whose time has
 * come together, somebody who wants a lock must not wait until all of them are answered. `paced`
 * ones are counted in client->renewals_out until they are answered or their hold is given back.
 */
#include "core/renewal.h"

#include "core/client.h"
#include "core/validity.h"

#include <assert.h>

#define AT_A_TIME 500 /* in one call of the engine */

static void set(struct snib__hold *h, enum snib__renewal to)
{
    snib *client = h->client;
    client->renewals_out -= h->renewal == SNIB__RENEWAL_PACED ? 1U : 0U;
    client->renewals_out += to == SNIB__RENEWAL_PACED ? 1U : 0U;
    h->renewal = to;
    snib__hold_count(h);
}

/* Wanted, and not sent yet: there is a word of it on one of the lists. */
static bool listed(const struct snib__hold *h)
{
    return h->renewal == SNIB__RENEWAL_IN_TURN || h->renewal == SNIB__RENEWAL_URGENT;
}

void snib__renewal_want(struct snib__hold *h)
{
    if (h->renewal == SNIB__RENEWAL_NONE && snib__hold_valid(h)) {
        assert(h->todo == SNIB__TODO_NOTHING);
        h->todo = SNIB__TODO_RENEW;
        snib__list_append(&h->client->renewals, &h->action.link);
        set(h, SNIB__RENEWAL_IN_TURN);
    }
}

void snib__renewal_urge(struct snib__hold *h)
{
    if (h->renewal == SNIB__RENEWAL_IN_TURN) { /* not behind the regular ones */
        snib__action_drop(&h->action);
    } else if (h->renewal != SNIB__RENEWAL_NONE) {
        return;
    }
    snib__hold_do(h, SNIB__TODO_RENEW);
    set(h, SNIB__RENEWAL_URGENT);
}

void snib__renewal_unwant(struct snib__hold *h)
{
    if (listed(h)) {
        snib__renewal_end(h);
    }
}

void snib__renewal_answered(struct snib__hold *h)
{
    if (!listed(h)) { /* else a late answer: the one that is wanted will be newer */
        set(h, SNIB__RENEWAL_NONE);
    }
}

/* Its end may be nearer now than what the timer waits for. */
static void cap(struct snib__hold *h, struct snib__instant now, int64_t ttl_ms)
{
    snib__validity_cap(h, now, ttl_ms);
    if (snib__validity_limited(h)) {
        snib__timer_set(&h->client->timers, &h->timer,
                        snib__later(now.boot_ns, snib__until_next_ns(h, now)));
    }
}

/* The ttl changes with the request that asks for it, never under one that is on its way. One that
 * shortens the lease may be carried out without our hearing of it: it counts from now. */
static void take_ttl(struct snib__hold *h)
{
    if (h->wanted_ttl_ms) {
        h->ttl_since = snib__now();
        if (h->wanted_ttl_ms < h->claim.ttl_ms) {
            cap(h, h->ttl_since, h->wanted_ttl_ms);
        }
        h->claim.ttl_ms = h->wanted_ttl_ms;
        h->wanted_ttl_ms = 0;
    }
}

void snib__renewal_sent(struct snib__hold *h)
{
    take_ttl(h);
    set(h, SNIB__RENEWAL_SENT);
}

void snib__renewal_end(struct snib__hold *h)
{
    if (listed(h)) {
        h->todo = SNIB__TODO_NOTHING;
        snib__action_drop(&h->action);
    }
    set(h, SNIB__RENEWAL_NONE);
}

/* A server that is far away answers them one after the other, however many are under way: who would
 * be in doubt soon does not wait for the others. */
static bool presses(const struct snib__hold *h)
{
    return snib__until_pressing_ns(h, snib__now()) <= 0;
}

void snib__renewal_press(struct snib__hold *h)
{
    if (h->renewal == SNIB__RENEWAL_IN_TURN && presses(h)) {
        snib__list_remove(&h->action.link);
        snib__list_append(h->client->renewals.after, &h->action.link); /* in front of that */
    }
}

bool snib__renewals_ready(const snib *client)
{
    if (snib__list_empty(&client->renewals)) {
        return false;
    }
    return client->renewals_out < client->renewals_most ||
           presses(SNIB__OF(client->renewals.after, struct snib__hold, action.link));
}

void snib__renewals_send(snib *client)
{
    struct snib__claim *claims[AT_A_TIME];
    size_t n = 0;
    while (n < AT_A_TIME && snib__renewals_ready(client)) {
        struct snib__hold *h = SNIB__OF(client->renewals.after, struct snib__hold, action.link);
        snib__action_drop(&h->action);
        h->todo = SNIB__TODO_NOTHING;
        take_ttl(h);
        set(h, SNIB__RENEWAL_PACED);
        claims[n++] = &h->claim;
    }
    client->session.engine->renew(claims, n);
}
