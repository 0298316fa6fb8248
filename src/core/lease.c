/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A granted hold: how long it is valid, and the user's handles on it.
 *
 * The lease runs from `since`, the instant before the last answered request was sent, for what
 * the engine granted less 10 % for clocks that differ. Along it:
 *
 *     since        ttl/3          2 ttl/3       deadline = 0.9 ttl          ttl
 *       |------------|---------------|-------------|---------------------|
 *       granted    renew, and      DOUBTFUL      LOST, here           the engine gives
 *                  again every                                        it to another
 *                  ttl/12
 *
 * A grant for less than the ttl (handed over for a moment; "yours already", said late) has its
 * thirds of what was granted.
 *
 * A renewal that succeeds moves `since`. A renewal that gets no answer moves nothing. One that
 * finds the lock gone ends it. Whoever looks at a lease (snib_state, snib_left_ms, a release)
 * looks at the clock first, so that a keeper that was not scheduled in time changes nothing in
 * what is believed. LOST is final: a renewal that succeeds later does not bring it back, because
 * somebody may have been in between and left again.
 *
 * When max_hold ends, the holder is told LOST first, and then the lock is given back.
 */
#include "core/client.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BATCH_NS (100 * SNIB__MS) /* renewals this close together travel together */

int64_t snib__drift_ns(int64_t span_ns)
{
    return span_ns / 10;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t hold_left_ns(const struct snib__hold *h, struct snib__instant now)
{
    if (h->max_hold_ns == SNIB__NEVER) {
        return SNIB__NEVER;
    }
    return h->max_hold_ns - snib__elapsed_ns(h->granted, now);
}

int64_t snib__lease_left_ns(const struct snib__hold *h, struct snib__instant now)
{
    int64_t lease = SNIB__NEVER;
    if (h->span_ns != SNIB__NEVER) {
        lease = h->span_ns - snib__elapsed_ns(h->since, now);
    }
    return least(lease, hold_left_ns(h, now));
}

/* Does the clock matter to it? Without a lease and a maximum hold it is not even read. */
static bool timed(const struct snib__hold *h)
{
    return h->span_ns != SNIB__NEVER || h->max_hold_ns != SNIB__NEVER;
}

/* ---- Telling ---------------------------------------------------------------------------- */

static int public_state(const struct snib__hold *h)
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

static void show_on_fd(const snib_lease *lease, int state)
{
    uint64_t count = 1;
    if (lease->fd < 0) {
        return;
    }
    ssize_t done = state == SNIB_HELD ? read(lease->fd, &count, sizeof count)
                                      : write(lease->fd, &count, sizeof count);
    (void)done; /* non-blocking: already as it should be */
}

static int64_t to_ms(int64_t ns)
{
    return ns == SNIB__NEVER ? SNIB_FOREVER : ns / SNIB__MS;
}

static void tell_all(struct snib__hold *h, const char *why)
{
    int state = public_state(h);
    int64_t left_ms = h->lost ? 0 : to_ms(snib__lease_left_ns(h, snib__now()));
    for (struct snib__list *l = h->leases.after; l != &h->leases; l = l->after) {
        snib_lease *lease = SNIB__OF(l, snib_lease, link);
        show_on_fd(lease, state);
        snib__tell(lease, state, left_ms, why);
    }
}

void snib__lease_answer(struct snib__hold *h, int code)
{
    while (h->verifiers.after != &h->verifiers) {
        struct snib__verifier *v = SNIB__OF(h->verifiers.after, struct snib__verifier, link);
        snib__list_remove(&v->link);
        v->code = code;
        snib__wake(h->client, &v->waiter);
    }
}

void snib__lease_lose(struct snib__hold *h, const char *why)
{
    if (h->todo & SNIB__DO_RENEW) { /* not sent yet, and no longer wanted */
        h->todo &= ~(unsigned)SNIB__DO_RENEW;
        h->renewing = false;
    }
    snib__move(h, SNIB__STAGE_LOST);
    snib__timer_clear(&h->client->timers, &h->timer);
    tell_all(h, why);
    snib__lease_answer(h, SNIB_ELOST);
    snib__place_admit(h->client, h->place); /* it will not be passed on */
}

void snib__lease_doubt(struct snib__hold *h, const char *why)
{
    if (h->stage == SNIB__STAGE_HELD) {
        snib__move(h, SNIB__STAGE_DOUBTFUL);
        tell_all(h, why);
        snib__place_admit(h->client, h->place);
    }
}

void snib__lease_note(struct snib__hold *h, const char *what)
{
    tell_all(h, what);
}

/* ---- Along the lease -------------------------------------------------------------------- */

/* Its end by the clock, if it has come. */
static bool over(struct snib__hold *h, struct snib__instant now)
{
    if (hold_left_ns(h, now) <= 0) {
        snib__lease_lose(h, "the maximum hold is over");
        snib__hold_leave(h);
        return true;
    }
    if (snib__lease_left_ns(h, now) <= 0) {
        char why[160];
        snprintf(why, sizeof why, "the lease ran out, %.1f s after the last answer of the engine",
                 (double)snib__elapsed_ns(h->since, now) / 1e9);
        snib__lease_lose(h, why);
        return true;
    }
    return false;
}

/* When the end of the maximum hold is near enough to say so. */
static int64_t notice_ns(const struct snib__hold *h)
{
    return least(h->claim.ttl_ms * SNIB__MS, h->max_hold_ns) / 3;
}

/* The ttl, or what was granted if that was less. Only of a hold with a lease. */
static int64_t lease_ns(const struct snib__hold *h)
{
    return least(h->claim.ttl_ms * SNIB__MS, h->span_ns + h->span_ns / 9);
}

static void doubt(struct snib__hold *h, struct snib__instant now)
{
    char why[160];
    int64_t silent = snib__elapsed_ns(h->since, now);
    if (h->span_ns != SNIB__NEVER && !h->no_renew && silent >= lease_ns(h) * 2 / 3) {
        snprintf(why, sizeof why, "no answer of the engine for %.1f s", (double)silent / 1e9);
        snib__lease_doubt(h, why);
    } else if (h->max_hold_ns != SNIB__NEVER && snib__lease_left_ns(h, now) <= notice_ns(h)) {
        snprintf(why, sizeof why, "the maximum hold ends in %.1f s",
                 (double)snib__lease_left_ns(h, now) / 1e9);
        snib__lease_doubt(h, why);
    }
}

static bool renews(const struct snib__hold *h)
{
    return h->span_ns != SNIB__NEVER && !h->no_renew;
}

/* How long until a renewal is due; NEVER while one is under way. */
static int64_t until_renewal_ns(const struct snib__hold *h, struct snib__instant now)
{
    if (!renews(h) || h->renewing) {
        return SNIB__NEVER;
    }
    int64_t regular = lease_ns(h) / 3 - snib__elapsed_ns(h->since, now);
    int64_t repeated = lease_ns(h) / 12 - snib__elapsed_ns(h->renew_tried, now);
    return regular > repeated ? regular : repeated;
}

/* The next moment to look again. Far ends are approached in steps, because the timer runs on one
 * clock and the lease on the faster of two. */
static void schedule(struct snib__hold *h, struct snib__instant now)
{
    int64_t ttl_ns = h->claim.ttl_ms * SNIB__MS;
    int64_t left = snib__lease_left_ns(h, now);
    int64_t wait = left == SNIB__NEVER || left < 100 * SNIB__MS ? left : left - left / 8;
    int64_t renewal = until_renewal_ns(h, now);
    if (ttl_ns >= 3000 * SNIB__MS && renewal != SNIB__NEVER) {
        renewal -= (now.boot_ns + renewal) % BATCH_NS; /* to meet others */
    }
    wait = least(wait, renewal);
    if (h->stage == SNIB__STAGE_HELD && renews(h)) {
        wait = least(wait, lease_ns(h) * 2 / 3 - snib__elapsed_ns(h->since, now));
    }
    if (h->stage == SNIB__STAGE_HELD && h->max_hold_ns != SNIB__NEVER) {
        wait = least(wait, left - notice_ns(h));
    }
    if (h->passes) {
        wait = least(wait, h->pass_until_ns - now.boot_ns);
    }
    if (wait == SNIB__NEVER) {
        snib__timer_clear(&h->client->timers, &h->timer);
        return;
    }
    wait = wait < 1000 ? 1000 : wait;
    snib__timer_set(&h->client->timers, &h->timer, snib__later(now.boot_ns, wait));
}

static bool begin_renewal(struct snib__hold *h)
{
    if (h->renewing || (h->stage != SNIB__STAGE_HELD && h->stage != SNIB__STAGE_DOUBTFUL)) {
        return false;
    }
    h->renewing = true;
    snib__count(h);
    return true;
}

/* Verify, unless that is under way: at once. */
static void ask(struct snib__hold *h)
{
    if (begin_renewal(h)) {
        snib__do(h, SNIB__DO_RENEW);
    } else if (h->todo & SNIB__DO_RENEW) { /* not sent yet: not behind the regular ones */
        snib__list_remove(&h->in_agenda);
        snib__do(h, SNIB__DO_RENEW);
    }
}

/* The regular renewal: in its turn. */
static void renew(struct snib__hold *h)
{
    if (begin_renewal(h)) {
        h->todo |= SNIB__DO_RENEW;
        snib__list_remove(&h->in_agenda);
        snib__list_append(&h->client->renewals, &h->in_agenda);
    }
}

void snib__lease_tick(struct snib__hold *h, struct snib__instant now)
{
    if (h->stage != SNIB__STAGE_HELD && h->stage != SNIB__STAGE_DOUBTFUL) {
        return;
    }
    if (over(h, now)) {
        return;
    }
    doubt(h, now);
    if (h->passes && now.boot_ns >= h->pass_until_ns) {
        snib__pass_end(h);
        snib__place_admit(h->client, h->place);
    }
    int64_t slack = h->claim.ttl_ms >= 3000 ? BATCH_NS : 0;
    if (until_renewal_ns(h, now) <= slack) {
        h->renew_tried = now;
        renew(h);
    }
    schedule(h, now);
}

void snib__lease_begin(struct snib__hold *h)
{
    if (h->stage != SNIB__STAGE_HELD) { /* else it was passed on */
        h->renew_tried = h->since;
        snib__move(h, SNIB__STAGE_HELD);
    }
    if (timed(h)) {
        schedule(h, h->granted);
    }
}

/* An answer to snib_verify counts only if its request was sent after the call. */
static void verified(struct snib__hold *h, const struct snib__result *result)
{
    if (result->status == SNIB__UNKNOWN || result->status == SNIB__FAILED) {
        snib__lease_answer(h, SNIB_EUNKNOWN);
        return;
    }
    struct snib__list *next;
    for (struct snib__list *l = h->verifiers.after; l != &h->verifiers; l = next) {
        struct snib__verifier *v = SNIB__OF(l, struct snib__verifier, link);
        next = l->after;
        if (result->since.boot_ns >= v->asked.boot_ns) {
            snib__list_remove(&v->link);
            v->code = SNIB_OK;
            snib__wake(h->client, &v->waiter);
        }
    }
    if (h->verifiers.after != &h->verifiers) {
        ask(h);
    }
}

void snib__lease_renewed(struct snib__hold *h, const struct snib__result *result)
{
    struct snib__instant now = snib__now();
    if (h->stage == SNIB__STAGE_LOST || over(h, now)) {
        return; /* too late, whatever it says */
    }
    if (result->status == SNIB__LOST) {
        snib__lease_lose(h, result->reason ? result->reason : "the engine no longer has it");
        return;
    }
    if (result->status == SNIB__HELD && h->span_ns != SNIB__NEVER &&
        result->since.boot_ns >= h->since.boot_ns) {
        int64_t left_ns = result->lease_ms * SNIB__MS;
        h->since = result->since;
        h->span_ns = left_ns - snib__drift_ns(left_ns);
        if (over(h, now)) {
            return;
        }
        bool recovered =
            h->stage == SNIB__STAGE_DOUBTFUL &&
            snib__elapsed_ns(h->since, now) < lease_ns(h) * 2 / 3 &&
            (h->max_hold_ns == SNIB__NEVER || snib__lease_left_ns(h, now) > notice_ns(h));
        if (recovered) {
            snib__move(h, SNIB__STAGE_HELD);
            tell_all(h, "the engine answers again");
        } else if (result->reason && h->stage == SNIB__STAGE_HELD) {
            snib__lease_note(h, result->reason);
        }
    }
    verified(h, result);
    snib__lease_tick(h, now);
}

/* ---- Handles ---------------------------------------------------------------------------- */

snib_lease *snib__lease_add(struct snib__hold *h, const snib_options *o, snib_ticket ticket)
{
    struct snib__call *calls = NULL;
    if (o->on_event) {
        calls = calloc(3, sizeof *calls);
        if (!calls) {
            return NULL;
        }
        for (int i = 0; i < 3; i++) {
            snib__list_init(&calls[i].link);
        }
    }
    snib_lease *lease = &h->first;
    if (h->first_used) {
        lease = h->client->spare_lease ? h->client->spare_lease : malloc(sizeof *lease);
        h->client->spare_lease = NULL;
    }
    if (!lease) {
        free(calls);
        return NULL;
    }
    h->first_used = true;
    *lease = (snib_lease){
        .hold = h,
        .on_event = o->on_event,
        .arg = o->arg,
        .ticket = ticket,
        .flags = o->flags,
        .fd = -1,
        .calls = calls,
    };
    snib__list_append(&h->leases, &lease->link);
    h->lease_count++;
    return lease;
}

snib_lease *snib__lease_again(snib *client, const char *name, const snib_options *o)
{
    struct snib__place *place = snib__place_find(client, name);
    bool clash = false;
    struct snib__hold *h = place ? snib__lease_reenter(place, o, &clash) : NULL;
    bool plain = h && !clash && h->stage == SNIB__STAGE_HELD && !o->min_left_ms;
    return plain ? snib__lease_add(h, o, 0) : NULL;
}

struct snib__hold *snib__lease_reenter(struct snib__place *place, const snib_options *o,
                                       bool *clash)
{
    struct snib__hold *lost = NULL;
    for (struct snib__list *l = place->holds.after; l != &place->holds; l = l->after) {
        struct snib__hold *h = SNIB__OF(l, struct snib__hold, in_place);
        if (h->owner != o->owner || h->lease_count == 0) {
            continue;
        }
        if (timed(h)) {
            snib__lease_tick(h, snib__now());
        }
        if (h->stage != SNIB__STAGE_HELD && h->stage != SNIB__STAGE_DOUBTFUL) {
            lost = lost ? lost : h; /* there may be another, granted since */
            continue;
        }
        *clash = h->claim.mode == SNIB_COUNTED
                     ? o->mode != SNIB_COUNTED || o->permits != h->claim.permits
                     : o->mode == SNIB_COUNTED ||
                           (h->claim.mode == SNIB_SHARED && o->mode == SNIB_EXCLUSIVE);
        return h;
    }
    return lost;
}

void snib__lease_admit_owner(struct snib__hold *h)
{
    struct snib__list *next;
    if (!h->owner) {
        return;
    }
    h->place->line_held = true; /* finishing one must not take the next out of our hands */
    for (struct snib__list *l = h->place->line.after; l != &h->place->line; l = next) {
        struct snib__request *r = SNIB__OF(l, struct snib__request, link);
        next = l->after;
        if (r->options.owner == h->owner) {
            snib__request_reenter(r);
        }
    }
    h->place->line_held = false;
}

static void free_lease(snib_lease *lease)
{
    snib__list_remove(&lease->link);
    if (lease->fd >= 0) {
        close(lease->fd);
    }
    free(lease->calls);
    if (lease != &lease->hold->first) {
        free(lease->hold->client->spare_lease);
        lease->hold->client->spare_lease = lease;
    }
}

/* In a child after fork: nothing is sent, no mutex is touched. */
static int release_in_child(snib_lease *lease, snib_error *err)
{
    struct snib__hold *h = lease->hold;
    free_lease(lease);
    if (--h->lease_count == 0) {
        snib *client = h->client;
        free(h);
        snib__unref(client);
    }
    return snib__fail(err, SNIB_ESTATE, 0, "this lease belongs to the process that acquired it");
}

static int say_released(bool lost, enum snib__status status, const char *name, snib_error *err)
{
    if (lost || status == SNIB__LOST) {
        return snib__fail(err, SNIB_ELOST, 0, "lock '%s' had been lost before it was released",
                          name);
    }
    if (status == SNIB__UNKNOWN || status == SNIB__FAILED) {
        return snib__fail(err, SNIB_EUNKNOWN, 0,
                          "lock '%s': no answer to the release; it ends with its ttl", name);
    }
    return SNIB_OK;
}

int snib_release(snib_lease **where, snib_error *err)
{
    if (!where || !*where) {
        return SNIB_OK;
    }
    snib_lease *lease = *where;
    struct snib__hold *h = lease->hold;
    snib *client = h->client;
    *where = NULL;
    if (snib__forked(&client->session)) {
        return release_in_child(lease, err);
    }
    struct snib__releaser releaser;
    releaser.status = SNIB__FREED;
    snib__waiter_init(&releaser.waiter);
    snib__enter(client);
    client->refs++;
    snib__calls_forget(lease);
    snib__list_remove(&lease->link); /* hears no more, also not of what comes now */
    if ((h->stage == SNIB__STAGE_HELD || h->stage == SNIB__STAGE_DOUBTFUL) && timed(h)) {
        over(h, snib__now());
    }
    bool lost = h->lost;
    if (lost) {
        strcpy(releaser.name, h->place->name);
    }
    bool asynchronous = (lease->flags & SNIB_ASYNC_RELEASE) != 0;
    free_lease(lease);
    if (--h->lease_count == 0) {
        if (h->stage >= SNIB__STAGE_RELEASING) {
            snib__hold_drop(h);
        } else if (!snib__pass(h)) {
            h->releaser = asynchronous ? NULL : &releaser;
            snib__hold_leave(h);
            snib__settle(client);
            if (!asynchronous) {
                snib__wait(client, &releaser.waiter);
            }
        }
    }
    snib__leave_unref(client);
    snib__waiter_end(&releaser.waiter);
    return say_released(lost, releaser.status, releaser.name, err);
}

/* ---- Questions -------------------------------------------------------------------------- */

/* The handle's client, entered, with the clock looked at; NULL in another process. */
static snib *look(const snib_lease *lease)
{
    struct snib__hold *h = lease->hold;
    if (snib__forked(&h->client->session)) {
        return NULL;
    }
    snib__enter(h->client);
    if ((h->stage == SNIB__STAGE_HELD || h->stage == SNIB__STAGE_DOUBTFUL) && timed(h)) {
        struct snib__instant now = snib__now();
        if (!over(h, now)) {
            doubt(h, now);
        }
    }
    return h->client;
}

int snib_state(const snib_lease *lease)
{
    snib *client = lease ? look(lease) : NULL;
    if (!client) {
        return SNIB_RELEASED;
    }
    int state = public_state(lease->hold);
    snib__leave(client);
    return state;
}

int64_t snib_left_ms(const snib_lease *lease)
{
    snib *client = lease ? look(lease) : NULL;
    if (!client) {
        return 0;
    }
    const struct snib__hold *h = lease->hold;
    int64_t left_ms = 0;
    if (h->stage == SNIB__STAGE_HELD || h->stage == SNIB__STAGE_DOUBTFUL) {
        left_ms = to_ms(snib__lease_left_ns(h, snib__now()));
    }
    snib__leave(client);
    return left_ms;
}

uint64_t snib_token(const snib_lease *lease)
{
    return lease ? lease->hold->token : 0;
}

const char *snib_name(const snib_lease *lease)
{
    return lease ? lease->hold->place->name : NULL;
}

int snib_fd(snib_lease *lease)
{
    snib *client = lease ? look(lease) : NULL;
    if (!client) {
        return SNIB_ESTATE;
    }
    struct snib__hold *h = lease->hold;
    if (lease->fd < 0) {
        lease->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (lease->fd >= 0 && public_state(h) != SNIB_HELD) {
            show_on_fd(lease, SNIB_LOST);
        }
    }
    int fd = lease->fd >= 0 ? lease->fd : SNIB_ESYS;
    if (fd >= 0 && !h->claim.listens) { /* from now on: the engine may want to know */
        h->claim.listens = true;
        ask(h);
    }
    snib__leave(client);
    return fd;
}

int snib_verify(snib_lease *lease, snib_error *err)
{
    if (!lease) {
        return snib__fail(err, SNIB_EINVAL, 0, "no lease");
    }
    struct snib__hold *h = lease->hold;
    snib *client = h->client;
    if (!snib__usable(client, err)) {
        return SNIB_ESTATE;
    }
    struct snib__verifier v = {.code = SNIB_ELOST, .asked = snib__now()};
    snib__waiter_init(&v.waiter);
    snib__list_init(&v.link);
    snib__enter(client);
    if ((h->stage == SNIB__STAGE_HELD || h->stage == SNIB__STAGE_DOUBTFUL) && !over(h, v.asked)) {
        snib__list_append(&h->verifiers, &v.link);
        ask(h);
        snib__settle(client);
        snib__wait(client, &v.waiter);
    }
    snib__leave(client);
    snib__waiter_end(&v.waiter);
    if (v.code == SNIB_OK) {
        return SNIB_OK;
    }
    return snib__fail(err, v.code, 0, "lock '%s': %s", h->place->name,
                      v.code == SNIB_ELOST ? "no longer ours" : "the engine does not answer");
}

/* ---- Owners ----------------------------------------------------------------------------- */

const void *snib_thread(void)
{
    static atomic_uintptr_t last;
    static _Thread_local uintptr_t mine;
    if (!mine) {
        /* A number that is never an address the program could use as an owner, and never one
         * that another thread has had: addresses of thread-local things are reused. */
        mine = ((atomic_fetch_add(&last, 1) + 1) << 1) | 1;
    }
    return (const void *)mine;
}
