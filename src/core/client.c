/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client: opening and closing.
 *
 * Closing is the delicate part. Waits end, leases are given back, and the engine gets a bounded
 * time to answer; then the threads go, then the engine's session, then the memory, which lives
 * on as long as somebody has a lease to release. In a forked child none of that may happen: the
 * mutex may be held by a thread that does not exist there, and a word on the parent's
 * connections would be the parent's word. There only descriptors are closed.
 */
#include "core/client.h"

#include "base/process.h"
#include "core/config.h"
#include "core/engines.h"
#include "core/options.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SNIB_VERSION
#define SNIB_VERSION "0.2.0"
#endif

enum { TTL, MAX_LEASE, TIMEOUT, CONNECT, COMMON };

static const struct snib__param common_params[] = {
    [TTL] = {"ttl", SNIB__DURATION, "30s", 100, 24 * 3600 * 1000, NULL,
             "how long the engine keeps a lock whose holder has fallen silent"},
    [MAX_LEASE] = {"max-lease", SNIB__DURATION, "60s", 1000, 24 * 3600 * 1000, NULL,
                   "the longest ttl any host uses: the same everywhere"},
    [TIMEOUT] = {"timeout", SNIB__DURATION, "3s", 10, 60 * 1000, NULL,
                 "how long one request to the engine may take"},
    [CONNECT] = {"connect", SNIB__DURATION, "5s", 10, 3600 * 1000, NULL,
                 "how long a server that never answered yet may be silent before that is an error"},
    [COMMON] = {.name = NULL},
};

const char *snib_version(void)
{
    return SNIB_VERSION;
}

/* ---- Open ------------------------------------------------------------------------------- */

static void free_client(snib *client)
{
    snib__lines_free(client);
    snib__sleepers_free(client);
    if (client->event_fd > 0) {
        close(client->event_fd);
    }
    if (client->stop_set > 0) {
        close(client->stop_set);
    }
    free(client->spare);
    free(client->spare_lease);
    free(client->timers.heap);
    snib__table_free(&client->tickets);
    free(client->session.state);
    free(client->values);
    free(client->shown_url);
    free(client->origin);
    snib__url_free(&client->url, &client->settings);
    if (client->pid == snib__pid()) {
        pthread_mutex_destroy(&client->lock);
        pthread_cond_destroy(&client->caller_cond);
        pthread_cond_destroy(&client->call_ended);
    }
    free(client);
}

static int64_t gives_up_ns(const struct snib__request *r)
{
    bool patient = !r->begun_ns || r->options.flags & SNIB_RETRY;
    return patient ? SNIB__NEVER : snib__later(r->begun_ns, r->client->contact.limit_ms * SNIB__MS);
}

/* Nothing was heard of the service for so long: those who have waited that long give up. */
static void on_no_contact(struct snib__timer *timer)
{
    snib *client = SNIB__OF(timer, struct snib, contact.timer);
    int64_t now_ns = snib__now().boot_ns, next_ns = SNIB__NEVER;
    struct snib__list *l = client->requests.after;
    if (snib__contact_excuses(client, now_ns)) {
        return;
    }
    while (l != &client->requests) {
        struct snib__request *r = SNIB__OF(l, struct snib__request, in_client);
        int64_t due_ns = gives_up_ns(r);
        l = l->after;
        if (due_ns <= now_ns) {
            snib__request_finish(r, snib__contact_fail(client, r->line->name, r->err));
            l = client->requests.after; /* finishing one may have changed the list */
            next_ns = SNIB__NEVER;
        } else if (due_ns < next_ns) {
            next_ns = due_ns;
        }
    }
    if (next_ns == SNIB__NEVER) {
        snib__contact_end(client);
    } else {
        snib__contact_wait(client, next_ns);
    }
}

static snib *new_client(void)
{
    snib *client = calloc(1, sizeof *client);
    if (!client) {
        return NULL;
    }
    client->pid = snib__pid();
    client->refs = 1;
    client->destroy = free_client;
    client->contact.timer.fire = on_no_contact;
    pthread_mutex_init(&client->lock, NULL);
    pthread_cond_init(&client->caller_cond, NULL);
    pthread_cond_init(&client->call_ended, NULL);
    snib__list_init(&client->agenda);
    snib__list_init(&client->renewals);
    client->renewals_most = 2000; /* some 30 ms of a server's time */
    snib__list_init(&client->requests);
    snib__list_init(&client->inquiries);
    snib__list_init(&client->all_holds);
    snib__list_init(&client->works);
    snib__list_init(&client->waiters);
    snib__list_init(&client->woken);
    snib__list_init(&client->calls);
    char host[65] = "";
    if (gethostname(host, sizeof host - 1) < 0 || !host[0]) {
        strcpy(host, "localhost");
    }
    snprintf(client->who, sizeof client->who, "%s:%ld", host, (long)client->pid);
    client->session.who = client->who;
    return client;
}

static size_t count_params(const struct snib__param *rows)
{
    size_t n = 0;
    while (rows[n].name) {
        n++;
    }
    return n;
}

static int read_params(snib *client, const struct snib__engine *engine, snib_error *err)
{
    struct snib__session *s = &client->session;
    union snib__value common[COMMON];
    client->values = calloc(count_params(engine->params) + 1, sizeof *client->values);
    if (!client->values) {
        return snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    }
    int rc = snib__params_read(common, common_params, &client->settings, err);
    if (rc == 0) {
        rc = snib__params_read(client->values, engine->params, &client->settings, err);
    }
    if (rc == 0) {
        rc = snib__params_all_used(&client->settings, common_params, engine->params, err);
    }
    if (rc < 0) {
        return rc;
    }
    s->values = client->values;
    s->ttl_ms = common[TTL].number;
    s->max_lease_ms = common[MAX_LEASE].number;
    s->timeout_ms = common[TIMEOUT].number;
    client->contact.limit_ms = s->connect_ms = common[CONNECT].number;
    s->ttl_given = snib__setting_given(&client->settings, common_params[TTL].name);
    if (s->ttl_ms > s->max_lease_ms) {
        return snib__fail(err, SNIB_EINVAL, 0, "ttl=%lldms is more than max-lease=%lldms",
                          (long long)s->ttl_ms, (long long)s->max_lease_ms);
    }
    return SNIB_OK;
}

/* A path as a URL has it: what could mean something else there is written as %XX. */
static char *encode(const char *path)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-._~";
    char *out = malloc(3 * strlen(path) + 1);
    char *at = out;
    for (; out && *path; path++) {
        if (strchr(plain, *path)) {
            *at++ = *path;
        } else {
            at += sprintf(at, "%%%02X", (unsigned char)*path);
        }
    }
    if (out) {
        *at = '\0';
    }
    return out;
}

/* The engine knows better than the URL where it locks: show that, with the URL's parameters. */
static int show_where(snib *client, snib_error *err)
{
    const char *query = strchr(client->shown_url, '?');
    char *path = encode(client->session.where);
    char *shown = NULL;
    int size =
        path ? asprintf(&shown, "%s://%s%s", client->url.scheme, path, query ? query : "") : -1;
    free(path);
    if (size < 0) {
        return snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    }
    free(client->shown_url);
    client->shown_url = shown;
    return SNIB_OK;
}

static int open_session(snib *client, const struct snib__engine *engine, snib_error *err)
{
    struct snib__session *s = &client->session;
    s->engine = engine;
    s->url = &client->url;
    s->traits = client->possible = engine->traits;
    s->state = calloc(1, engine->session_size + 1);
    if (!s->state) {
        return snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    }
    int rc = engine->open(s, err);
    client->possible = s->traits;
    if (rc == 0 && s->where) {
        rc = show_where(client, err);
    }
    if (rc == 0) {
        rc = snib__options_read(&client->normal, client, NULL, err);
    }
    if (rc < 0) {
        engine->close(s);
        return rc;
    }
    client->opened = true;
    return SNIB_OK;
}

int snib__open_engine(snib **out, const struct snib__engine *engine, const char *url, bool manual,
                      snib_error *err)
{
    snib *client = new_client();
    if (!client) {
        return snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    }
    client->manual = manual;
    client->shown_url = snib__url_redact(url);
    int rc = client->shown_url ? snib__url_parse(&client->url, &client->settings, url, err)
                               : snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    if (rc == 0 && !engine) {
        rc = snib__engine_find(&engine, client->url.scheme, err);
    }
    if (rc == 0) {
        rc = read_params(client, engine, err);
    }
    if (rc == 0) {
        rc = open_session(client, engine, err);
    }
    if (rc < 0) {
        snib__unref(client);
        return rc;
    }
    *out = client;
    return SNIB_OK;
}

/* A URL that was not given by the caller: say whose it is. */
static void name_origin(snib_error *err, const char *origin)
{
    if (!err || !origin || strcmp(origin, "the default") == 0) {
        return;
    }
    char whose[128];
    snprintf(whose, sizeof whose, "%.120s: ", origin);
    size_t used = strlen(whose);
    memmove(err->message + used, err->message, sizeof err->message - used);
    memcpy(err->message, whose, used);
    err->message[sizeof err->message - 1] = '\0';
}

int snib_open(snib **out, const char *url, snib_error *err)
{
    if (!out) {
        return snib__fail(err, SNIB_EINVAL, 0, "nowhere to put the client");
    }
    *out = NULL;
    char *configured = NULL;
    char *origin = NULL;
    int rc = SNIB_OK;
    if (!url) {
        rc = snib__config_url(&configured, &origin, err);
        url = configured;
    }
    if (rc == 0) {
        rc = snib__open_engine(out, NULL, url, false, err);
        if (rc < 0) {
            name_origin(err, origin);
        }
    }
    if (rc == 0 && *out) {
        (*out)->origin = origin;
    } else {
        free(origin);
    }
    if (configured) {
        explicit_bzero(configured, strlen(configured));
        free(configured);
    }
    return rc;
}

const char *snib_url(const snib *client)
{
    return client ? client->shown_url : NULL;
}

const char *snib_origin(const snib *client)
{
    return client && client->origin ? client->origin : "given";
}

/* ---- Close ------------------------------------------------------------------------------ */

static void on_close_timeout(struct snib__timer *timer)
{
    snib *client = SNIB__OF(timer, struct snib, close_timer);
    snib__wake(client, client->closer);
}

/* Give everything back and wait, bounded, for the engine's answers and for other threads. */
static void let_go(snib *client)
{
    struct snib__waiter waiter;
    snib__waiter_init(&waiter);
    client->closing = true;
    client->closer = &waiter;
    snib__contact_end(client);
    snib__requests_cancel(client);
    struct snib__list *all = &client->all_holds;
    for (struct snib__list *l = all->after; l != all; l = l->after) {
        struct snib__hold *h = SNIB__OF(l, struct snib__hold, in_client);
        if (h->stage < SNIB__STAGE_RELEASING) {
            snib__hold_leave(h);
        }
    }
    snib__settle(client);
    snib__close_check(client);
    if (!waiter.ready && !client->manual) {
        int64_t bound_ns = (client->session.timeout_ms + 500) * SNIB__MS;
        if (snib__timers_join(&client->timers)) {
            client->close_timer.fire = on_close_timeout;
            snib__timer_set(&client->timers, &client->close_timer,
                            snib__later(snib__now().boot_ns, bound_ns));
            snib__wait(client, &waiter);
            snib__timers_leave(&client->timers, &client->close_timer);
        }
    }
    client->closer = NULL;
    snib__waiter_end(&waiter);
}

/* The time is over. Whoever still waits to hear of a release hears that there is no answer. */
static void end_releases(snib *client)
{
    struct snib__list *all = &client->all_holds;
    for (struct snib__list *l = all->after; l != all; l = l->after) {
        struct snib__hold *h = SNIB__OF(l, struct snib__hold, in_client);
        struct snib__releaser *releaser = h->releaser;
        if (releaser && h->stage == SNIB__STAGE_RELEASING) {
            h->releaser = NULL;
            releaser->status = SNIB__UNKNOWN;
            strcpy(releaser->name, h->line->name);
            releaser->why[0] = '\0';
            releaser->answered(client, releaser);
        }
    }
}

static void close_in_child(snib *client)
{
    if (client->opened) {
        client->session.engine->close(&client->session);
        client->opened = false;
    }
    snib__unref(client);
}

/* The engine is gone. What it did not answer in time has ended as well. */
static void end_holds(snib *client)
{
    struct snib__list *all = &client->all_holds;
    struct snib__list *next;
    for (struct snib__list *l = all->after; l != all; l = next) {
        struct snib__hold *h = SNIB__OF(l, struct snib__hold, in_client);
        next = l->after;
        if (h->stage < SNIB__STAGE_RELEASED) {
            snib__hold_end(h);
        }
    }
}

void snib_close(snib *client)
{
    if (!client) {
        return;
    }
    if (snib__forked(&client->session)) {
        close_in_child(client);
        return;
    }
    snib__enter(client);
    let_go(client);
    end_releases(client);
    snib__keeper_stop(client);
    snib__calls_end(client);
    client->session.engine->close(&client->session);
    client->opened = false;
    snib__works_join(client);
    end_holds(client);
    snib__inquiries_end(client);
    snib__leave_closed(client);
}

/* ---- What it promises ------------------------------------------------------------------- */

unsigned snib_traits(const snib *client)
{
    return client ? snib__traits_now(client) : 0;
}

void snib__traits(struct snib__session *session, unsigned traits)
{
    unsigned possible = SNIB__OF(session, struct snib, session)->possible;
    __atomic_store_n(&session->traits, traits & possible, __ATOMIC_RELAXED);
}

const char *snib_trait_name(unsigned trait)
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {
        {SNIB_TRAIT_FAIR, "fair"},
        {SNIB_TRAIT_SHARED, "shared"},
        {SNIB_TRAIT_COUNTED, "counted"},
        {SNIB_TRAIT_LEASED, "leased"},
        {SNIB_TRAIT_TTL_PER_LOCK, "ttl-per-lock"},
        {SNIB_TRAIT_TOKEN_SPAN, "token-span"},
        {SNIB_TRAIT_CROSS_HOST, "cross-host"},
        {SNIB_TRAIT_AT_ONCE, "at-once"},
        {SNIB_TRAIT_SURVIVES_SERVER_LOSS, "survives-server-loss"},
        {SNIB_TRAIT_BREAKS, "breaks"},
        {SNIB_TRAIT_LISTS, "lists"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].bit == trait) {
            return names[i].name;
        }
    }
    return NULL;
}
