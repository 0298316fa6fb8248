/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A granted hold and the user's handles on it: renewed, doubted, lost.
 *
 * A renewal that succeeds moves the lease on (validity.c). A renewal that gets no answer moves
 * nothing. One that finds the lock gone ends it. Whoever looks at a lease (snib_state,
 * snib_left_ms, a release) looks at the clock first, so that a keeper that was not scheduled in
 * time changes nothing in what is believed. LOST is final: a renewal that succeeds later does not
 * bring it back, because somebody may have been in between and left again.
 *
 * When max_hold ends, the holder is told LOST first, and then the lock is given back.
 */
#include "core/lease.h"

#include "core/client.h"
#include "core/passing.h"
#include "core/validity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Telling ---------------------------------------------------------------------------- */

int snib__lease_state(const struct snib__hold *h)
{
    if (h->lost) {
        return SNIB_LOST;
    }
    switch (h->stage) {
    case SNIB__STAGE_HELD:
        return SNIB_HELD;
    case SNIB__STAGE_DOUBTFUL:
        return SNIB_DOUBTFUL;
    default:
        return SNIB_RELEASED;
    }
}

void snib__lease_show(const snib_lease *lease)
{
    uint64_t count = 1;
    if (lease->fd < 0) {
        return;
    }
    ssize_t done = snib__lease_state(lease->hold) == SNIB_HELD
                       ? read(lease->fd, &count, sizeof count)
                       : write(lease->fd, &count, sizeof count);
    (void)done; /* non-blocking: already as it should be */
}

int64_t snib__lease_left_ms(const struct snib__hold *h)
{
    if (!snib__hold_valid(h)) {
        return 0;
    }
    int64_t left_ns = snib__validity_left_ns(h, snib__now());
    return left_ns == SNIB__NEVER ? SNIB_FOREVER : left_ns / SNIB__MS;
}

static void tell(snib_lease *lease, int state, int64_t left_ms, const char *why)
{
    snib_event event = {
        .state = state, .ticket = lease->ticket, .lease = lease, .left_ms = left_ms};
    if (lease->news) {
        snib__news_tell(lease->hold->client, &lease->news[state - SNIB_HELD], &event, why);
    }
}

static void tell_all(struct snib__hold *h, const char *why)
{
    int state = snib__lease_state(h);
    int64_t left_ms = snib__lease_left_ms(h);
    for (struct snib__list *l = h->leases.after; l != &h->leases; l = l->after) {
        snib_lease *lease = SNIB__OF(l, snib_lease, link);
        snib__lease_show(lease);
        tell(lease, state, left_ms, why);
    }
}

void snib__lease_answer(struct snib__hold *h, int code)
{
    while (!snib__list_empty(&h->verifiers)) {
        struct snib__verifier *v = SNIB__OF(h->verifiers.after, struct snib__verifier, link);
        snib__list_remove(&v->link);
        v->code = code;
        snib__wake(h->client, &v->waiter);
    }
}

void snib__lease_lose(struct snib__hold *h, const char *why)
{
    snib__renewal_unwant(h);
    snib__hold_move(h, SNIB__STAGE_LOST);
    free(h->note);
    h->note = strdup(why); /* for snib_reason */
    h->client->stats.lost++;
    h->claim.listens = false; /* the engine need not ask for it any more */
    snib__timer_clear(&h->client->timers, &h->timer);
    tell_all(h, why);
    snib__lease_answer(h, SNIB_ELOST);
    snib__line_admit(h->client, h->line); /* it will not be passed on */
}

void snib__lease_doubt(struct snib__hold *h, const char *why)
{
    if (h->stage == SNIB__STAGE_HELD) {
        snib__hold_move(h, SNIB__STAGE_DOUBTFUL);
        tell_all(h, why);
        snib__line_admit(h->client, h->line);
    }
}

void snib__lease_note(struct snib__hold *h, const char *what)
{
    tell_all(h, what);
    if (!snib__list_empty(&h->leases) && SNIB__OF(h->leases.after, snib_lease, link)->withheld) {
        free(h->note);
        h->note = strdup(what); /* without memory it is lost: it is no more than worth knowing */
    }
}

/* ---- Along the lease -------------------------------------------------------------------- */

/* End it if the clock says so; true if that was the case. */
static bool expire(struct snib__hold *h, struct snib__instant now)
{
    if (snib__max_hold_left_ns(h, now) <= 0) {
        snib__lease_lose(h, "the maximum hold is over");
        snib__hold_leave(h);
        return true;
    }
    if (snib__validity_left_ns(h, now) <= 0) {
        char why[160];
        snprintf(why, sizeof why, "the lease ran out, %.1f s after the last answer of the engine",
                 (double)snib__silence_ns(h, now) / 1e9);
        snib__lease_lose(h, why);
        return true;
    }
    return false;
}

static void doubt_by_clock(struct snib__hold *h, struct snib__instant now)
{
    char why[160];
    if (snib__silent_too_long(h, now)) {
        snprintf(why, sizeof why, "no answer of the engine for %.1f s",
                 (double)snib__silence_ns(h, now) / 1e9);
        snib__lease_doubt(h, why);
    } else if (snib__max_hold_near(h, now)) {
        snprintf(why, sizeof why, "the maximum hold ends in %.1f s",
                 (double)snib__validity_left_ns(h, now) / 1e9);
        snib__lease_doubt(h, why);
    }
}

void snib__lease_observe(struct snib__hold *h)
{
    if (snib__hold_valid(h) && snib__validity_limited(h)) {
        struct snib__instant now = snib__now();
        if (!expire(h, now)) {
            doubt_by_clock(h, now);
        }
    }
}

static void schedule(struct snib__hold *h, struct snib__instant now)
{
    int64_t wait_ns = snib__until_next_ns(h, now);
    snib__timer_set(&h->client->timers, &h->timer, snib__later(now.boot_ns, wait_ns));
}

void snib__lease_tick(struct snib__hold *h, struct snib__instant now)
{
    if (!snib__hold_valid(h) || expire(h, now)) {
        return;
    }
    doubt_by_clock(h, now);
    if (h->passes && now.boot_ns >= h->pass_until_ns) {
        snib__passing_end(h);
        snib__line_admit(h->client, h->line);
    }
    if (snib__renewal_due(h, now)) {
        h->renew_tried = now;
        snib__renewal_want(h);
    }
    snib__renewal_press(h);
    schedule(h, now);
}

void snib__lease_begin(struct snib__hold *h)
{
    if (h->stage != SNIB__STAGE_HELD) { /* else it was passed on */
        h->renew_tried = h->since;
        snib__hold_move(h, SNIB__STAGE_HELD);
    }
    if (snib__validity_limited(h)) {
        schedule(h, h->granted);
    }
}

/* Did the answer's request go out after that call? Older news proves nothing to it. */
static bool answers(const struct snib__result *result, const struct snib__verifier *v)
{
    return result->since.boot_ns >= v->asked.boot_ns;
}

static void verify(struct snib__hold *h, const struct snib__result *result)
{
    if (result->status != SNIB__HELD || !result->since.boot_ns) { /* it says nothing of when */
        snib__lease_answer(h, SNIB_EUNKNOWN);
        return;
    }
    struct snib__list *next;
    for (struct snib__list *l = h->verifiers.after; l != &h->verifiers; l = next) {
        struct snib__verifier *v = SNIB__OF(l, struct snib__verifier, link);
        next = l->after;
        if (answers(result, v)) {
            snib__list_remove(&v->link);
            v->code = SNIB_OK;
            snib__wake(h->client, &v->waiter);
        }
    }
    if (!snib__list_empty(&h->verifiers)) {
        snib__renewal_urge(h);
    }
}

/* By hand, where nobody renews: another ttl, from the instant it was asked. What the user's own
 * maximum has left does not grow by that. */
static bool extend(struct snib__hold *h, const struct snib__result *result)
{
    bool extended = false;
    for (struct snib__list *l = h->verifiers.after; l != &h->verifiers; l = l->after) {
        const struct snib__verifier *v = SNIB__OF(l, struct snib__verifier, link);
        if (v->extends && h->no_renew && answers(result, v)) {
            if (h->own_max_hold_ns != SNIB__NEVER) {
                h->own_max_hold_ns -= snib__elapsed_ns(h->granted, result->since);
            }
            h->granted = result->since;
            snib__max_hold_set(h);
            extended = true;
        }
    }
    return extended;
}

/* The engine has kept it, and it goes on from the instant this was asked. */
static void go_on(struct snib__hold *h, const struct snib__result *result, struct snib__instant now,
                  bool by_hand)
{
    bool good = !snib__silent_too_long(h, now) && !snib__max_hold_near(h, now) && !result->code;
    if (result->code) {
        snib__lease_doubt(h, result->reason ? result->reason : "the engine doubts it");
    } else if (h->stage == SNIB__STAGE_DOUBTFUL && good) {
        h->client->stats.renewals_late++;
        snib__hold_move(h, SNIB__STAGE_HELD);
        tell_all(h, by_hand ? "renewed by hand" : "the engine answers again");
    } else if (result->reason && h->stage == SNIB__STAGE_HELD) {
        snib__lease_note(h, result->reason);
    }
}

void snib__lease_renewed(struct snib__hold *h, const struct snib__result *result)
{
    struct snib__instant now = snib__now();
    if (h->stage == SNIB__STAGE_LOST || expire(h, now)) {
        return; /* too late, whatever it says */
    }
    if (result->status == SNIB__HELD && result->token && result->token != h->granted_token) {
        snib__lease_lose(h, "it ended unseen, and was granted again since");
        return;
    }
    if (result->status == SNIB__LOST) {
        snib__lease_lose(h, result->reason ? result->reason : "the engine no longer has it");
        return;
    }
    if (result->status == SNIB__HELD) {
        bool extended = extend(h, result);
        /* What was asked before the ttl was changed says nothing of the lease there is now. */
        bool newer = result->since.boot_ns >= h->since.boot_ns &&
                     result->since.boot_ns >= h->ttl_since.boot_ns;
        if (newer) {
            snib__validity_set(h, result->since, result->lease_ms);
        }
        if (expire(h, now)) {
            return;
        }
        if (newer || extended) {
            go_on(h, result, now, extended);
        }
    }
    verify(h, result);
    snib__lease_tick(h, now);
}

void snib__lease_listen(struct snib__hold *h)
{
    if (!h->claim.listens && !h->lost) {
        h->claim.listens = true;
        if (snib__hold_valid(h)) {
            snib__renewal_urge(h); /* the engine may want to know */
        }
    }
}

/* ---- Handles ---------------------------------------------------------------------------- */

static struct snib__news *make_news(snib_lease *lease, const snib_options *o)
{
    struct snib__news *news = calloc(SNIB__NEWS, sizeof *news);
    for (int i = 0; news && i < SNIB__NEWS; i++) {
        snib__news_init(&news[i], lease, o->on_event, o->arg);
    }
    return news;
}

snib_lease *snib__lease_add(struct snib__hold *h, const snib_options *o, snib_ticket ticket)
{
    snib_lease *lease = &h->first;
    if (h->first_used) {
        lease = h->client->spare_lease ? h->client->spare_lease : malloc(sizeof *lease);
        h->client->spare_lease = NULL;
    }
    if (!lease) {
        return NULL;
    }
    *lease = (snib_lease){.hold = h, .ticket = ticket, .flags = o->flags, .fd = -1};
    if (o->on_event) {
        lease->news = make_news(lease, o);
        if (!lease->news) {
            if (lease != &h->first) {
                free(lease);
            }
            return NULL;
        }
    }
    h->first_used = true;
    snib__list_append(&h->leases, &lease->link);
    h->lease_count++;
    if (o->on_event) {
        snib__lease_listen(h);
    }
    return lease;
}

snib_lease *snib__lease_of(struct snib__hold *h, const struct snib__request *r)
{
    if (!r->withheld) {
        return snib__lease_add(h, &r->options, r->ticket);
    }
    snib_options silent = r->options;
    silent.on_event = NULL;
    snib_lease *lease = snib__lease_add(h, &silent, r->ticket);
    if (lease) {
        lease->withheld = true;
    }
    return lease;
}

bool snib__lease_tell(snib_lease *lease, const snib_options *o)
{
    struct snib__hold *h = lease->hold;
    lease->withheld = false;
    if (!o->on_event) {
        return true;
    }
    lease->news = make_news(lease, o);
    if (lease->news && h->note) {
        tell(lease, SNIB_HELD, snib__lease_left_ms(h), h->note);
    }
    if (lease->news && h->stage == SNIB__STAGE_DOUBTFUL) {
        tell(lease, SNIB_DOUBTFUL, snib__lease_left_ms(h), "it was so when it was handed over");
    }
    return lease->news != NULL;
}

void snib__lease_free(snib_lease *lease)
{
    snib *client = lease->hold->client;
    snib__list_remove(&lease->link);
    if (lease->fd >= 0) {
        close(lease->fd);
    }
    free(lease->news);
    if (lease != &lease->hold->first) {
        free(client->spare_lease);
        client->spare_lease = lease;
    }
}
