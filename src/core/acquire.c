/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user's acquire, from the call to its answer.
 *
 *   snib_acquire        checks, then: already ours by owner? a lease, at once
 *                       else in line at the place of that name       (places.c)
 *   request_again       at the head of the line: a claim of its own  (claim.c)
 *   request_finish      exactly once: a lease, or an error
 *
 * The blocking call and the asynchronous one differ only in how the answer gets to the caller.
 * A request has one deadline, counted from the call. When it fires, the claim is left behind in
 * whatever stage it is: hold_leave sends the release, and nobody waits for that.
 */
#include "core/client.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_MS (365LL * 24 * 3600 * 1000)

static int check_numbers(const snib_options *o, snib_error *err)
{
    if (o->mode != SNIB_EXCLUSIVE && o->mode != SNIB_SHARED && o->mode != SNIB_COUNTED) {
        return snib__fail(err, SNIB_EINVAL, 0, "mode %d is not one of enum snib_mode", o->mode);
    }
    if (o->flags & ~(unsigned)(SNIB_ASYNC_RELEASE | SNIB_NO_RENEW) || o->reserved) {
        return snib__fail(err, SNIB_EINVAL, 0, "unknown flags in the options");
    }
    if (o->permits < 1 || o->permits > 1000) {
        return snib__fail(err, SNIB_EINVAL, 0, "permits %u is not 1 to 1000", o->permits);
    }
    if (o->mode != SNIB_COUNTED && o->permits != 1) {
        return snib__fail(err, SNIB_EINVAL, 0, "permits %u without mode SNIB_COUNTED", o->permits);
    }
    if (o->wait_ms < -1 || o->wait_ms > LONGEST_MS) {
        return snib__fail(err, SNIB_EINVAL, 0, "wait_ms %lld is not -1, 0 or up to a year",
                          (long long)o->wait_ms);
    }
    if (o->max_hold_ms < 0 || o->max_hold_ms > LONGEST_MS || o->min_left_ms < 0) {
        return snib__fail(err, SNIB_EINVAL, 0, "max_hold_ms or min_left_ms out of range");
    }
    return SNIB_OK;
}

static int check_ttl(snib_options *o, const snib *client, snib_error *err)
{
    const struct snib__session *s = &client->session;
    if (o->ttl_ms == 0) {
        o->ttl_ms = s->ttl_ms;
    }
    if (o->ttl_ms < 100 || o->ttl_ms > s->max_lease_ms) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "ttl_ms %lld is not 100 to %lld (max-lease, the same on all hosts)",
                          (long long)o->ttl_ms, (long long)s->max_lease_ms);
    }
    if (snib__leased(client) && o->ttl_ms != s->ttl_ms &&
        !(snib__traits_now(client) & SNIB_TRAIT_TTL_PER_LOCK)) {
        return snib__fail(err, SNIB_ENOTSUP, 0, "%s: one ttl for all locks, set it in the URL",
                          s->engine->scheme);
    }
    int64_t whole_ms = (o->ttl_ms * SNIB__MS - snib__drift_ns(o->ttl_ms * SNIB__MS)) / SNIB__MS;
    if (snib__leased(client) && o->min_left_ms > whole_ms) {
        return snib__fail(err, SNIB_EINVAL, 0, "min_left_ms %lld is more than a ttl of %lld gives",
                          (long long)o->min_left_ms, (long long)o->ttl_ms);
    }
    if (o->flags & SNIB_NO_RENEW && (!o->max_hold_ms || o->max_hold_ms > o->ttl_ms)) {
        o->max_hold_ms = o->ttl_ms;
    }
    if (o->max_hold_ms && o->min_left_ms > o->max_hold_ms) {
        return snib__fail(err, SNIB_EINVAL, 0, "min_left_ms is more than max_hold_ms");
    }
    return SNIB_OK;
}

int snib__options_read(snib_options *out, const snib *client, const snib_options *in,
                       snib_error *err)
{
    static const snib_options normal = SNIB_OPTIONS;
    if (!in) {
        if (client->normal.size) { /* checked when it was opened */
            *out = client->normal;
            return SNIB_OK;
        }
        in = &normal;
    }
    if (in->size < sizeof *in) {
        return snib__fail(err, SNIB_EINVAL, 0, "options: start from SNIB_OPTIONS");
    }
    for (size_t i = sizeof *in; i < in->size; i++) {
        if (((const unsigned char *)in)[i]) {
            return snib__fail(err, SNIB_EINVAL, 0, "options of a newer snib, this is %s",
                              snib_version());
        }
    }
    *out = *in;
    int rc = check_numbers(out, err);
    if (rc == 0) {
        rc = check_ttl(out, client, err);
    }
    if (rc == 0 && out->label) {
        rc = snib__label_check(out->label, err);
    }
    unsigned needs = out->mode == SNIB_SHARED    ? SNIB_TRAIT_SHARED
                     : out->mode == SNIB_COUNTED ? SNIB_TRAIT_COUNTED
                                                 : 0;
    if (rc == 0 && (snib__traits_now(client) & needs) != needs) {
        rc = snib__fail(err, SNIB_ENOTSUP, 0, "%s: no %s locks", client->session.engine->scheme,
                        out->mode == SNIB_SHARED ? "shared" : "counted");
    }
    return rc;
}

/* ---- Life of a request ------------------------------------------------------------------ */

int64_t snib__request_left_ns(const struct snib__request *r, struct snib__instant now)
{
    if (r->options.wait_ms < 0) {
        return SNIB__NEVER;
    }
    return r->options.wait_ms * SNIB__MS - snib__elapsed_ns(r->started, now);
}

/* Who holds it, for the caller's error. */
static void say_busy(struct snib__request *r)
{
    const char *scheme = r->client->session.engine->scheme;
    const struct snib__rival *rival = &r->rival;
    if (rival->known && rival->who[0]) {
        snib__fail(r->err, SNIB_EBUSY, 0, "%s: lock '%s' is held by %s", scheme, r->place->name,
                   rival->who);
    } else {
        snib__fail(r->err, SNIB_EBUSY, 0, "%s: lock '%s' is held", scheme, r->place->name);
    }
    if (r->err && rival->known) {
        r->err->holder_left_ms = rival->left_ms;
        r->err->holder_token = rival->token;
        strcpy(r->err->holder, rival->who);
    }
}

static void say(struct snib__request *r, int code)
{
    const char *scheme = r->client->session.engine->scheme;
    const char *name = r->place->name;
    switch (code) {
    case SNIB_OK:
        return;
    case SNIB_EBUSY:
        say_busy(r);
        return;
    case SNIB_EUNKNOWN:
        snib__fail(r->err, code, 0,
                   "%s: no answer about lock '%s'; if it was granted after all, it is given back",
                   scheme, name);
        return;
    case SNIB_ECANCELED:
        snib__fail(r->err, code, 0, "%s: wait for lock '%s' cancelled", scheme, name);
        return;
    default: /* the place that failed has told the story already */
        return;
    }
}

/* What it is known by while it is not finished. */
static bool enrol(struct snib__request *r)
{
    snib *client = r->client;
    if (r->done && !snib__table_add(&client->tickets, &r->by_ticket, r->ticket)) {
        return false;
    }
    snib__list_init(&r->link);
    snib__list_init(&r->news.link);
    snib__list_append(&client->requests, &r->in_client);
    return true;
}

static void strike(struct snib__request *r)
{
    snib__list_remove(&r->in_client);
    if (r->done) {
        snib__table_remove(&r->client->tickets, &r->by_ticket);
    }
}

void snib__request_finish(struct snib__request *r, int code)
{
    snib *client = r->client;
    struct snib__place *place = r->place;
    struct snib__hold *hold = r->hold;

    assert(!r->finished);
    say(r, code);
    r->finished = true;
    r->code = code;
    r->hold = NULL;
    snib__list_remove(&r->link);
    snib__list_remove(&r->news.link);
    if (r->timed) {
        snib__timers_leave(&client->timers, &r->timer);
        r->timed = false;
    }
    if (hold) {
        hold->request = NULL;
        if (code < 0) {
            snib__hold_leave(hold);
        }
    } else {
        snib__place_admit(client, place);
    }
    strike(r);
    if (r->done) {
        snib__tell_done(r);
    } else {
        snib__wake(client, r->waiter);
    }
}

void snib__request_again(struct snib__request *r)
{
    struct snib__hold *h = snib__hold_make(r);
    if (!h) {
        snib__fail(r->err, SNIB_ENOMEM, 0, "out of memory");
        snib__request_finish(r, SNIB_ENOMEM);
        return;
    }
    r->hold = h;
    snib__do(h, SNIB__DO_ATTEMPT);
}

/* The wait is over without a grant. An engine that was asked and has not answered leaves us in
 * the dark; one that said "busy" or "queued" does not. */
static void on_deadline(struct snib__timer *timer)
{
    struct snib__request *r = SNIB__OF(timer, struct snib__request, timer);
    bool dark = r->hold && r->hold->started && !r->rival.known;
    snib__request_finish(r, dark ? SNIB_EUNKNOWN : SNIB_EBUSY);
}

void snib__request_news(struct snib__request *r, const struct snib__result *result)
{
    struct snib__rival *rival = &r->rival;
    const char *who = result->holder ? result->holder : "";
    bool same = rival->known && rival->place == result->place && strcmp(rival->who, who) == 0;
    rival->known = true;
    rival->place = result->place;
    rival->left_ms = result->holder_left_ms > 0 ? result->holder_left_ms : -1;
    rival->token = result->holder_token;
    snprintf(rival->who, sizeof rival->who, "%s", who);
    if (!same && r->options.on_event) {
        char why[160];
        if (rival->place > 0) {
            snprintf(why, sizeof why, "behind %s, place %d", who[0] ? who : "another",
                     rival->place);
        } else {
            snprintf(why, sizeof why, "behind %s", who[0] ? who : "another");
        }
        snib__tell_waiting(r, why);
    }
}

bool snib__request_reenter(struct snib__request *r)
{
    bool clash = false;
    struct snib__hold *h = snib__lease_reenter(r->place, &r->options, &clash);
    if (!h) {
        return false;
    }
    const char *scheme = r->client->session.engine->scheme;
    int code = SNIB_OK;
    if (h->lost || h->stage > SNIB__STAGE_DOUBTFUL) {
        code = snib__fail(r->err, SNIB_ELOST, 0, "%s: the owner's lock '%s' was lost", scheme,
                          r->place->name);
    } else if (clash && h->claim.mode == SNIB_SHARED && r->options.mode == SNIB_EXCLUSIVE) {
        code = snib__fail(r->err, SNIB_EDEADLK, 0,
                          "%s: the owner holds '%s' shared and would wait for itself", scheme,
                          r->place->name);
    } else if (clash) {
        code = snib__fail(r->err, SNIB_EKIND, 0, "%s: the owner holds '%s' as another kind of lock",
                          scheme, r->place->name);
    } else if (r->options.min_left_ms &&
               snib__lease_left_ns(h, snib__now()) <= r->options.min_left_ms * SNIB__MS) {
        code =
            snib__fail(r->err, SNIB_ELOST, 0, "%s: less than %lld ms of the owner's '%s' is left",
                       scheme, (long long)r->options.min_left_ms, r->place->name);
    } else {
        r->lease = snib__lease_add(h, &r->options, r->ticket);
        code = r->lease ? SNIB_OK : snib__fail(r->err, SNIB_ENOMEM, 0, "out of memory");
    }
    snib__request_finish(r, code);
    return true;
}

static int start(struct snib__request *r)
{
    snib *client = r->client;
    r->place = snib__place_get(client, r->name);
    if (!r->place || !enrol(r)) {
        if (r->place) {
            snib__place_put(client, r->place);
        }
        return snib__fail(r->err, SNIB_ENOMEM, 0, "out of memory");
    }
    client->used = true;
    if (r->options.owner && snib__request_reenter(r)) {
        return SNIB_OK;
    }
    if (r->options.wait_ms > 0) {
        if (!snib__timers_join(&client->timers)) {
            strike(r);
            snib__place_put(client, r->place);
            return snib__fail(r->err, SNIB_ENOMEM, 0, "out of memory");
        }
        r->timed = true;
        r->started = snib__now();
        r->timer.fire = on_deadline;
        snib__timer_set(&client->timers, &r->timer,
                        snib__later(r->started.boot_ns, r->options.wait_ms * SNIB__MS));
    }
    bool alone =
        r->place->line.after == &r->place->line && r->place->asking == 0 && !r->place->passer;
    if (r->options.wait_ms == 0 || alone) {
        snib__request_again(r);
    } else {
        snib__list_append(&r->place->line, &r->link);
        snib__place_admit(client, r->place);
        if (!r->finished && !r->hold && r->options.on_event) {
            snib__tell_waiting(r, "behind others of this process");
        }
    }
    return SNIB_OK;
}

/* ---- The calls -------------------------------------------------------------------------- */

/* The options to be used: the client's normal ones, or those of the caller, completed in `room`.
 * NULL: refused, see `rc`. */
static const snib_options *check(int *rc, snib_options *room, snib *client, const char *name,
                                 const snib_options *in, snib_error *err)
{
    if (!client) {
        *rc = snib__fail(err, SNIB_EINVAL, 0, "no client");
        return NULL;
    }
    *rc = snib__name_check(name, err);
    if (*rc == 0 && in) {
        *rc = snib__options_read(room, client, in, err);
    }
    if (*rc == 0 && !snib__usable(client, err)) {
        *rc = SNIB_ESTATE;
    }
    if (*rc < 0) {
        return NULL;
    }
    return in ? room : &client->normal;
}

static int acquire(snib_lease **out, snib *client, const char *name, const snib_options *options,
                   snib_error *err)
{
    struct snib__waiter waiter;
    struct snib__request r; /* large, and most of it not used by an acquire that gets it at once */
    r.client = client;
    r.place = NULL;
    r.hold = NULL;
    r.name = name;
    r.options = *options;
    r.ticket = 0;
    r.finished = false;
    r.timed = false;
    r.timer.slot = 0;
    r.rest_ms = 0;
    r.code = SNIB_OK;
    r.rival.known = false;
    r.rival.who[0] = '\0';
    r.err = err;
    r.lease = NULL;
    r.done = NULL;
    r.waiter = &waiter;
    snib__waiter_init(&waiter);
    int rc = client->closing ? snib__fail(err, SNIB_ESTATE, 0, "the client is closed") : start(&r);
    if (rc == 0) {
        if (!r.finished) {
            snib__settle(client);
        }
        snib__wait(client, &waiter);
        if (options->on_event) {
            snib__calls_wait(client, &r);
        }
        rc = r.code;
        *out = r.lease;
    }
    snib__waiter_end(&waiter);
    return rc;
}

int snib_acquire(snib_lease **out, snib *client, const char *name, const snib_options *options,
                 snib_error *err)
{
    if (!out) {
        return snib__fail(err, SNIB_EINVAL, 0, "nowhere to put the lease");
    }
    *out = NULL;
    snib_options room = SNIB_OPTIONS;
    int rc;
    const snib_options *checked = check(&rc, &room, client, name, options, err);
    if (!checked) {
        return rc;
    }
    snib__enter(client);
    if (checked->owner) {
        *out = snib__lease_again(client, name, checked);
    }
    if (!*out) {
        rc = acquire(out, client, name, checked, err);
    }
    snib__leave(client);
    return rc;
}

/* An asynchronous request with what it needs after the call has returned. */
struct pending {
    struct snib__request request;
    snib_error error;
    char label[SNIB__LABEL_MAX + 1];
};

int snib_acquire_async(snib_ticket *out, snib *client, const char *name,
                       const snib_options *options, snib_done_fn *done, void *arg, snib_error *err)
{
    snib_options room = SNIB_OPTIONS;
    if (out) {
        *out = 0;
    }
    if (!done) {
        return snib__fail(err, SNIB_EINVAL, 0, "no function to call when done");
    }
    int rc;
    const snib_options *checked = check(&rc, &room, client, name, options, err);
    if (!checked) {
        return rc;
    }
    struct pending *p = calloc(1, sizeof *p);
    if (!p) {
        return snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    }
    struct snib__request *r = &p->request;
    r->client = client;
    r->options = *checked;
    if (checked->label) {
        r->options.label = strcpy(p->label, checked->label);
    }
    r->name = name;
    r->err = &p->error;
    r->done = done;
    r->done_arg = arg;

    snib__enter(client);
    r->ticket = ++client->last_ticket;
    if (out) {
        *out = r->ticket;
    }
    rc = client->closing ? snib__fail(r->err, SNIB_ESTATE, 0, "the client is closed") : start(r);
    if (rc < 0) {
        if (err) {
            *err = p->error;
        }
        free(p);
    } else {
        snib__settle(client);
    }
    snib__leave(client);
    return rc;
}

int snib_cancel(snib *client, snib_ticket ticket)
{
    if (!client || !snib__usable(client, NULL)) {
        return SNIB_ESTATE;
    }
    int rc = SNIB_ESTATE;
    snib__enter(client);
    struct snib__entry *found = snib__table_first(&client->tickets, ticket);
    if (found) {
        snib__request_finish(SNIB__OF(found, struct snib__request, by_ticket), SNIB_ECANCELED);
        snib__settle(client);
        rc = SNIB_OK;
    }
    snib__leave(client);
    return rc;
}

/* snib_close: end every wait, asynchronous or not. */
void snib__requests_cancel(snib *client)
{
    while (!snib__list_empty(&client->requests)) {
        struct snib__request *r = SNIB__OF(client->requests.after, struct snib__request, in_client);
        snib__request_finish(r, SNIB_ECANCELED);
    }
}
