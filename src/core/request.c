/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request: a user's acquire, from the call to its answer.
 *
 *   request_start     already ours by owner? answered at once; else in line for that name
 *   request_again     at the head of the line: a claim of its own
 *   request_finish    exactly once: a lease, or an error
 *
 * A request has one deadline, counted from the call. When it fires, or the user's descriptor does,
 * the claim is left behind in whatever stage it is: hold_leave sends the release, and nobody waits
 * for that.
 */
#include "core/request.h"

#include "core/client.h"
#include "core/reentry.h"
#include "core/validity.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- What is said ----------------------------------------------------------------------- */

int64_t snib__request_left_ns(const struct snib__request *r, struct snib__instant now)
{
    if (r->options.wait_ms < 0) {
        return SNIB__NEVER;
    }
    return r->options.wait_ms * SNIB__MS - snib__elapsed_ns(r->started, now);
}

/* Is this client one of those who hold it? */
static bool held_here(const struct snib__line *line)
{
    for (const struct snib__list *l = line->holds.after; l != &line->holds; l = l->after) {
        if (snib__hold_valid(SNIB__OF(l, struct snib__hold, in_line))) {
            return true;
        }
    }
    return false;
}

/* Is the one whom the engine named of this process, be it by another client? */
static bool is_us(const struct snib__request *r)
{
    const char *us = r->client->session.who;
    const char *who = r->rival.who;
    size_t size = strlen(us);
    return strncmp(who, us, size) == 0 && (who[size] == '\0' || who[size] == ' ');
}

/* Who holds it, for the caller's error. Who waits for itself should read so. */
static void say_busy(struct snib__request *r)
{
    const char *scheme = r->client->session.engine->scheme;
    const struct snib__rival *rival = &r->rival;
    bool named = rival->known && rival->who[0];
    const char *us = named && is_us(r)     ? ", which is this process"
                     : !held_here(r->line) ? ""
                     : named               ? ", and by this process"
                                           : " by this process";
    snib__fail(r->err, SNIB_EBUSY, 0, "%s: lock '%s' is held%s%s%s", scheme, r->line->name,
               named ? " by " : "", named ? rival->who : "", us);
    if (r->err && rival->known) {
        r->err->holder_left_ms = rival->left_ms;
        r->err->holder_token = rival->token;
        strcpy(r->err->holder, rival->who);
    }
}

static void say(struct snib__request *r, int code)
{
    const char *scheme = r->client->session.engine->scheme;
    const char *name = r->line->name;
    const struct snib__contact *contact = &r->client->contact;
    switch (code) {
    case SNIB_OK:
        return;
    case SNIB_EUNKNOWN:
        if (!contact->made) { /* it may be the wrong address: name it */
            snib__fail(r->err, code, 0,
                       "%s: lock '%s': no answer yet from %.120s%s%s; is it the right server?",
                       scheme, name, r->client->shown_url, contact->why[0] ? ": " : "",
                       contact->why);
            return;
        }
        snib__fail(
            r->err, code, 0,
            "%s: no answer about lock '%s'%s%s; if it was granted after all, it is given back",
            scheme, name, contact->why[0] ? ": " : "", contact->why);
        return;
    case SNIB_ECANCELED:
        snib__fail(r->err, code, 0, "%s: wait for lock '%s' cancelled", scheme, name);
        return;
    default: /* the place that failed has told the story already */
        return;
    }
}

/* Why it is not to be had: somebody holds it, or what the engine said instead. */
static int say_in_the_way(struct snib__request *r)
{
    if (r->rival.known && r->rival.code != SNIB_EBUSY) {
        int code = snib__fail(r->err, r->rival.code, 0, "%s: lock '%s': %s",
                              r->client->session.engine->scheme, r->line->name, r->rival.reason);
        if (r->err) {
            r->err->holder_left_ms = r->rival.left_ms;
        }
        return code;
    }
    say_busy(r);
    return SNIB_EBUSY;
}

void snib__request_refuse(struct snib__request *r)
{
    snib__request_finish(r, say_in_the_way(r));
}

/* From here on it counts as one that had to wait. */
static void note_waiting(struct snib__request *r)
{
    if (!r->waits.boot_ns) {
        r->waits = r->timed ? r->started : snib__now();
    }
}

static void tell_waiting(struct snib__request *r, const char *why)
{
    snib_event event = {.state = SNIB_WAITING, .ticket = r->ticket, .left_ms = r->rival.left_ms};
    if (r->options.on_event) {
        snib__news_tell(r->client, &r->news, &event, why);
    }
}

void snib__request_silence(struct snib__request *r, const char *reason)
{
    char why[160];
    r->rival.known = false;
    note_waiting(r);
    snprintf(why, sizeof why, "%s; trying again", reason ? reason : "no answer of the engine");
    if (r->options.on_event && strcmp(r->news.why, why) != 0) { /* once, not each time */
        tell_waiting(r, why);
    }
}

void snib__request_news(struct snib__request *r, const struct snib__result *result)
{
    struct snib__rival *rival = &r->rival;
    const char *who = result->holder ? result->holder : "";
    bool same = rival->known && rival->place == result->place && strcmp(rival->who, who) == 0;
    bool other = result->code < 0 && result->code != SNIB_EBUSY;
    rival->known = true;
    rival->code = other ? result->code : SNIB_EBUSY;
    snprintf(rival->reason, sizeof rival->reason, "%s",
             other && result->reason ? result->reason : "");
    rival->place = result->place;
    rival->left_ms = result->holder_left_ms > 0 ? result->holder_left_ms : -1;
    rival->token = result->holder_token;
    snprintf(rival->who, sizeof rival->who, "%s", who);
    note_waiting(r);
    if (!same && r->options.on_event) {
        char why[160];
        if (other) {
            snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, rival->reason);
        } else if (rival->place > 0) {
            snprintf(why, sizeof why, "behind %s, place %d", who[0] ? who : "another",
                     rival->place);
        } else {
            snprintf(why, sizeof why, "behind %s", who[0] ? who : "another");
        }
        tell_waiting(r, why);
    }
}

/* ---- Its life --------------------------------------------------------------------------- */

void snib__request_init(struct snib__request *r)
{
    r->line = NULL;
    r->hold = NULL;
    r->finished = false;
    r->timed = false;
    r->timer.slot = 0;
    r->waits.boot_ns = 0;
    r->rest_ms = 0;
    r->anew = 0;
    r->begun_ns = r->client->contact.made ? 0 : snib__now().boot_ns;
    r->rival.known = false;
    r->rival.left_ms = -1;
    r->rival.who[0] = '\0';
    r->stop.fd = -1;
    r->code = SNIB_OK;
    r->lease = NULL;
    snib__list_init(&r->in_line);
    if (r->options.on_event) {
        snib__news_init(&r->news, r, r->options.on_event, r->options.arg);
    }
}

/* What it is known by while it is not finished. */
static bool enrol(struct snib__request *r)
{
    snib *client = r->client;
    if (r->ticket && !snib__table_add(&client->tickets, &r->by_ticket, r->ticket)) {
        return false;
    }
    snib__list_append(&client->requests, &r->in_client);
    return true;
}

static void strike(struct snib__request *r)
{
    snib__list_remove(&r->in_client);
    if (r->ticket) {
        snib__table_remove(&r->client->tickets, &r->by_ticket);
    }
    if (r->timed) {
        snib__timers_leave(&r->client->timers, &r->timer);
        r->timed = false;
    }
    snib__stop_end(r->client, &r->stop);
}

static void count(const struct snib__request *r, int code)
{
    snib_stats *stats = &r->client->stats;
    stats->acquired += code == SNIB_OK ? 1U : 0U;
    stats->busy += code == SNIB_EBUSY ? 1U : 0U;
    stats->failed += code < 0 && code != SNIB_EBUSY ? 1U : 0U;
    if (r->waits.boot_ns) {
        stats->waited++;
        stats->wait_us += (uint64_t)(snib__elapsed_ns(r->waits, snib__now()) / 1000);
    }
}

void snib__request_finish(struct snib__request *r, int code)
{
    snib *client = r->client;
    struct snib__hold *hold = r->hold;

    assert(!r->finished);
    say(r, code);
    count(r, code);
    r->finished = true;
    r->code = code;
    r->hold = NULL;
    snib__list_remove(&r->in_line);
    if (r->options.on_event) {
        snib__call_drop(&r->news.call);
    }
    strike(r);
    if (hold) {
        hold->request = NULL;
        if (code < 0) {
            snib__hold_leave(hold);
        }
    } else {
        snib__line_admit(client, r->line);
    }
    r->answered(r);
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
    snib__hold_do(h, SNIB__TODO_ATTEMPT);
}

/* The wait is over without a grant. An engine that was asked and has not answered leaves us in
 * the dark; one that said "busy" or "queued" does not. */
static void on_deadline(struct snib__timer *timer)
{
    struct snib__request *r = SNIB__OF(timer, struct snib__request, timer);
    bool dark = r->hold && r->hold->started && !r->rival.known;
    snib__request_finish(r, dark ? SNIB_EUNKNOWN : say_in_the_way(r));
}

static void on_stop(struct snib__stop *stop)
{
    snib__request_finish(SNIB__OF(stop, struct snib__request, stop), SNIB_ECANCELED);
}

/* ---- Re-entry --------------------------------------------------------------------------- */

static int take_again(struct snib__request *r, struct snib__hold *h)
{
    if (r->options.min_left_ms &&
        snib__validity_left_ns(h, snib__now()) <= r->options.min_left_ms * SNIB__MS) {
        return snib__fail(
            r->err, SNIB_ELOST, 0, "%s: less than %lld ms of the owner's '%s' is left",
            r->client->session.engine->scheme, (long long)r->options.min_left_ms, r->line->name);
    }
    r->lease = snib__lease_of(h, r);
    return r->lease ? SNIB_OK : snib__fail(r->err, SNIB_ENOMEM, 0, "out of memory");
}

/* By owner, without the engine. True: it is answered. */
static bool reenter(struct snib__request *r)
{
    const char *scheme = r->client->session.engine->scheme;
    const char *name = r->line->name;
    struct snib__hold *h = NULL;
    int code = SNIB_OK;
    switch (snib__reentry(r->line, &r->options, &h)) {
    case SNIB__REENTRY_NONE:
        return false;
    case SNIB__REENTRY_LOST:
        code =
            snib__fail(r->err, SNIB_ELOST, 0, "%s: the owner's lock '%s' was lost", scheme, name);
        break;
    case SNIB__REENTRY_UPGRADE:
        code =
            snib__fail(r->err, SNIB_EDEADLK, 0,
                       "%s: the owner holds '%s' shared and would wait for itself", scheme, name);
        break;
    case SNIB__REENTRY_KIND:
        code = snib__fail(r->err, SNIB_EKIND, 0, "%s: the owner holds '%s' as another kind of lock",
                          scheme, name);
        break;
    case SNIB__REENTRY_ALLOWED:
        code = take_again(r, h);
        break;
    }
    snib__request_finish(r, code);
    return true;
}

void snib__requests_reenter(struct snib__hold *h)
{
    struct snib__line *line = h->line;
    struct snib__list *next;
    if (!h->owner) {
        return;
    }
    line->closed = true; /* finishing one must not take the next out of our hands */
    for (struct snib__list *l = line->waiting.after; l != &line->waiting; l = next) {
        struct snib__request *r = SNIB__OF(l, struct snib__request, in_line);
        next = l->after;
        if (r->options.owner == h->owner) {
            reenter(r);
        }
    }
    line->closed = false;
}

/* ---- Its beginning ---------------------------------------------------------------------- */

static int out_of_memory(struct snib__request *r)
{
    if (r->line) {
        snib__line_put(r->client, r->line);
    }
    return snib__fail(r->err, SNIB_ENOMEM, 0, "out of memory");
}

/* What can end its wait from outside: the deadline, the user's descriptor. */
static int set_limits(struct snib__request *r)
{
    snib *client = r->client;
    if (r->options.wait_ms > 0) {
        if (!snib__timers_join(&client->timers)) {
            return ENOMEM;
        }
        r->timed = true;
        r->started = snib__now();
        r->timer.fire = on_deadline;
        snib__timer_set(&client->timers, &r->timer,
                        snib__later(r->started.boot_ns, r->options.wait_ms * SNIB__MS));
    }
    if (r->options.stop_fd >= 0 && r->options.wait_ms != 0) {
        r->stop.fire = on_stop;
        return snib__stop_watch(client, &r->stop, r->options.stop_fd);
    }
    return 0;
}

static void join_line(struct snib__request *r)
{
    struct snib__line *line = r->line;
    bool alone = snib__list_empty(&line->waiting) && line->asking == 0 && !line->passer;
    if (r->options.wait_ms == 0 || alone) {
        snib__request_again(r);
        return;
    }
    snib__list_append(&line->waiting, &r->in_line);
    snib__line_admit(r->client, line);
    if (!r->finished && !r->hold) {
        snib__contact_await(r->client); /* those before it may be more patient */
        note_waiting(r);
        tell_waiting(r, "behind others of this process");
    }
}

int snib__request_start(struct snib__request *r)
{
    snib *client = r->client;
    snib__request_init(r);
    r->line = snib__line_get(client, r->name);
    if (!r->line || !enrol(r)) {
        return out_of_memory(r);
    }
    client->used = true;
    if (r->options.owner && reenter(r)) {
        return SNIB_OK;
    }
    int sys = set_limits(r);
    if (sys != 0) {
        strike(r);
        if (sys == ENOMEM) {
            return out_of_memory(r);
        }
        snib__line_put(client, r->line);
        bool theirs = sys == EBADF || sys == EPERM; /* else there are too many of something */
        return snib__fail(r->err, theirs ? SNIB_EINVAL : SNIB_ESYS, sys,
                          "stop_fd %d cannot be waited for", r->options.stop_fd);
    }
    join_line(r);
    return SNIB_OK;
}

/* snib_close: end every wait, asynchronous or not. */
void snib__requests_cancel(snib *client)
{
    while (!snib__list_empty(&client->requests)) {
        struct snib__request *r = SNIB__OF(client->requests.after, struct snib__request, in_client);
        snib__request_finish(r, SNIB_ECANCELED);
    }
}
