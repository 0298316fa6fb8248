/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting bids into calls, one for each server.
 *
 * Attempts carry a not-after time by the clock of the server they go to, as soon as that is known,
 * and the least token: a little ahead of all their clocks, so that most often all servers give the
 * same one and need not be asked to agree.
 */
#include "engines/redlock/bids.h"

#include "engines/redlock/debts.h"
#include "engines/redlock/servers.h"

#include <string.h>

#define AHEAD_MS 20 /* of the clocks; a request is rarely on its way for longer */

void snib__redlock_id(const struct snib__redlock_bid *b, unsigned char out[SNIB__ID_SIZE])
{
    memcpy(out, b->claim->owner, sizeof b->claim->owner);
    out[SNIB__ID_SIZE - 1] = 0;
}

bool snib__redlock_enlist(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    if (!b->listed && !snib__timers_join(&r->timers)) {
        return false;
    }
    if (!b->listed) {
        b->listed = true;
        snib__list_append(&r->bids, &b->in_session);
    }
    return true;
}

void snib__redlock_delist(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    if (b->listed) {
        b->listed = false;
        snib__list_remove(&b->in_session);
        snib__timers_leave(&r->timers, &b->timer);
    }
}

void snib__redlock_rearm(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    int64_t at_ns = b->again_ns < b->due_ns ? b->again_ns : b->due_ns;
    bool will_listen = b->phase == SNIB__REDLOCK_HELD && b->listen_ns && !b->listens;
    if (!b->listed) {
        return;
    }
    at_ns = will_listen && b->listen_ns < at_ns ? b->listen_ns : at_ns;
    if (at_ns == SNIB__NEVER) {
        snib__timer_clear(&r->timers, &b->timer);
    } else {
        snib__timer_set(&r->timers, &b->timer, at_ns);
        snib__redlock_wake_by(r, at_ns);
    }
}

void snib__redlock_wake_by(struct snib__redlock *r, int64_t at_ns)
{
    int64_t *wake_ns = &r->session->wake_ns;
    if (at_ns != SNIB__NEVER && (!*wake_ns || at_ns < *wake_ns)) {
        *wake_ns = at_ns;
    }
}

int64_t snib__redlock_due_ns(const struct snib__redlock *r)
{
    int64_t ms = r->session->values[SNIB__REDLOCK_NODE_TIMEOUT].number;
    return snib__later(snib__now().boot_ns, ms * SNIB__MS);
}

int64_t snib__redlock_long_due_ns(const struct snib__redlock *r)
{
    int64_t ms = r->session->ttl_ms / 6;
    ms = ms < r->session->timeout_ms ? ms : r->session->timeout_ms;
    return snib__later(snib__now().boot_ns, ms * SNIB__MS);
}

/* ---- Asking ----------------------------------------------------------------------------- */

static struct snib__redis_call begin_call(const struct snib__server *s,
                                          enum snib__redlock_call kind, struct snib__redlock_bid *b,
                                          const struct snib__redis_call *before)
{
    struct snib__redis_call call = snib__node_call(&s->node, (int)kind, b);
    call.turn = b->turn;
    call.ttl_ms = b->claim->ttl_ms;
    if (before) {
        call.by_text = before->by_text;
        call.trials = before->trials;
        call.due_ns = before->due_ns;
    }
    return call;
}

uint64_t snib__redlock_least_token(const struct snib__redlock *r)
{
    struct snib__instant now = snib__now();
    int64_t most_ms = 0, ours_ms = snib__wall_us() / 1000 + AHEAD_MS;
    for (unsigned i = 0; i < r->count; i++) {
        const struct snib__server_clock *clock = &r->servers[i].node.clock;
        int64_t ms = clock->known ? snib__server_clock_latest_ms(clock, now, AHEAD_MS) : ours_ms;
        most_ms = ms > most_ms ? ms : most_ms;
    }
    return (uint64_t)most_ms * 1000;
}

bool snib__redlock_ask_attempt(struct snib__server *s, struct snib__redlock_bid *b,
                               const struct snib__redis_call *before)
{
    struct snib__redlock *r = s->session;
    const struct snib__claim *claim = b->claim;
    unsigned char id[SNIB__ID_SIZE];
    struct snib__command command;
    struct snib__redis_call call = begin_call(s, SNIB__VOTE_ATTEMPT, b, before);
    struct snib__wish wish = snib__redlock_wish(r, claim->name, id);
    snib__redlock_id(b, id);
    call.not_after_ms =
        snib__server_clock_latest_ms(&s->node.clock, call.sent, r->session->timeout_ms);
    wish.by_text = call.by_text;
    wish.mode = claim->mode;
    wish.permits = claim->permits;
    wish.span = 1;
    wish.ttl_ms = claim->ttl_ms;
    wish.not_after_ms = call.not_after_ms;
    wish.who = r->session->who;
    wish.label = claim->label;
    wish.goes_on = b->phase == SNIB__REDLOCK_HELD;
    wish.least_token = wish.goes_on ? b->token : b->least_token;
    r->layout->attempt(&command, &wish);
    if (!snib__node_ask(&s->node, &call, &command)) {
        return false;
    }
    snib__round_ask(&b->round, s->index, !s->silent || snib__servers_scarce(r), call.not_after_ms);
    b->sent = true;
    return true;
}

bool snib__redlock_ask_renew(struct snib__server *s, struct snib__redlock_bid *b,
                             const struct snib__redis_call *before)
{
    unsigned char id[SNIB__ID_SIZE];
    struct snib__command command;
    struct snib__redis_call call = begin_call(s, SNIB__VOTE_RENEW, b, before);
    struct snib__wish wish = snib__redlock_wish(s->session, b->claim->name, id);
    snib__redlock_id(b, id);
    wish.by_text = call.by_text;
    wish.ttl_ms = call.ttl_ms;
    s->session->layout->renew(&command, &wish);
    return snib__node_ask(&s->node, &call, &command);
}

bool snib__redlock_ask_agree(struct snib__server *s, struct snib__redlock_bid *b,
                             const struct snib__redis_call *before)
{
    unsigned char id[SNIB__ID_SIZE];
    struct snib__command command;
    struct snib__redis_call call = begin_call(s, SNIB__VOTE_AGREE, b, before);
    struct snib__wish wish = snib__redlock_wish(s->session, b->claim->name, id);
    snib__redlock_id(b, id);
    wish.by_text = call.by_text;
    wish.token = b->token;
    s->session->layout->agree(&command, &wish);
    return snib__node_ask(&s->node, &call, &command);
}

/* ---- Giving back ------------------------------------------------------------------------ */

void snib__redlock_give_back(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    unsigned char id[SNIB__ID_SIZE];
    snib__redlock_id(b, id);
    for (unsigned i = 0; i < r->count; i++) {
        const struct snib__seat *seat = &b->round.seats[i];
        if (seat->state == SNIB__SEAT_HAS || seat->flying > 0) {
            (void)snib__redlock_owe(&r->servers[i], b->claim->name, id, seat->loose_ms,
                                    b->claim->ttl_ms);
            b->spent = true;
        }
        snib__round_set(&b->round, i, SNIB__SEAT_EMPTY);
    }
}
