/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks: never on the keeper, never with the mutex held, one at a time.
 *
 * A callback that blocks for an hour must not stop a single renewal. So whoever has news puts it
 * on a list, and the list is worked off by a thread of its own or, if the program has an event
 * loop and said so with snib_events, by snib_dispatch. An item is part of the lease or request
 * it tells of: telling needs no memory and cannot fail.
 *
 * A callback may release its lease, cancel, acquire, close. A release on another thread waits
 * for a callback about that lease to return, so that the callback never sees a freed handle.
 */
#include "core/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void *call_all(void *arg);

/* Something is due: get whoever runs callbacks to look. */
static void ring(snib *client)
{
    if (client->own_loop) {
        uint64_t one = 1;
        ssize_t done = write(client->event_fd, &one, sizeof one);
        (void)done;
    } else if (client->manual) {
        return;
    } else if (client->caller_runs) {
        pthread_cond_signal(&client->caller_cond);
    } else if (snib__thread_start(&client->caller, call_all, client) == 0) {
        client->caller_runs = true;
        client->refs++;
    }
}

static void put(snib *client, struct snib__call *call)
{
    snib__list_remove(&call->link);
    snib__list_append(&client->calls, &call->link);
    ring(client);
}

void snib__tell(snib_lease *lease, int state, int64_t left_ms, const char *why)
{
    if (!lease->calls) {
        return;
    }
    struct snib__call *call = &lease->calls[state - SNIB_HELD];
    call->lease = lease;
    call->state = state;
    call->left_ms = left_ms;
    snprintf(call->why, sizeof call->why, "%s", why);
    put(lease->hold->client, call);
}

void snib__tell_waiting(struct snib__request *r, const char *why)
{
    struct snib__call *call = &r->news;
    call->request = r;
    call->lease = NULL;
    call->ends = false;
    call->state = SNIB_WAITING;
    call->left_ms = r->rival.left_ms;
    snprintf(call->why, sizeof call->why, "%s", why);
    put(r->client, call);
}

void snib__tell_done(struct snib__request *r)
{
    r->end.request = r;
    r->end.ends = true;
    snib__list_init(&r->end.link);
    put(r->client, &r->end);
}

/* ---- Running them ----------------------------------------------------------------------- */

static void run_event(const struct snib__call *call)
{
    struct snib__request *r = call->request;
    snib_event_fn *fn = call->lease ? call->lease->on_event : r->options.on_event;
    void *arg = call->lease ? call->lease->arg : r->options.arg;
    struct snib__call copy = *call; /* the original may be overwritten by newer news */
    snib_event event = {
        .size = sizeof event,
        .state = copy.state,
        .ticket = call->lease ? call->lease->ticket : r->ticket,
        .lease = copy.lease,
        .left_ms = copy.left_ms,
        .why = copy.why,
    };
    snib *client = call->lease ? call->lease->hold->client : r->client;
    pthread_mutex_unlock(&client->lock);
    fn(&event, arg);
    pthread_mutex_lock(&client->lock);
}

static void run_end(struct snib__request *r)
{
    snib *client = r->client;
    pthread_mutex_unlock(&client->lock);
    r->done(r->lease, r->code < 0 ? r->err : NULL, r->done_arg);
    free(r);
    pthread_mutex_lock(&client->lock);
}

/* The next one; false: none is due. The client may have been closed when this returns. */
static bool run_one(snib *client)
{
    if (client->calls.after == &client->calls) {
        return false;
    }
    struct snib__call *call = SNIB__OF(client->calls.after, struct snib__call, link);
    snib__list_remove(&call->link);
    struct snib__running self = {
        .about = call->lease ? (const void *)call->lease : (const void *)call->request,
        .outer = client->running,
    };
    client->running = &self;
    client->call_thread = pthread_self();
    if (call->ends) {
        run_end(call->request);
    } else {
        run_event(call);
    }
    client->running = self.outer;
    pthread_cond_broadcast(&client->call_ended);
    return true;
}

static void *call_all(void *arg)
{
    snib *client = arg;
    pthread_mutex_lock(&client->lock);
    while (!client->caller_stops) {
        if (!run_one(client)) {
            pthread_cond_wait(&client->caller_cond, &client->lock);
        }
    }
    snib__unlock_unref(client);
    return NULL;
}

static bool runs_here(const snib *client)
{
    return client->running && pthread_equal(client->call_thread, pthread_self());
}

static bool runs_about(const snib *client, const void *about)
{
    const struct snib__running *r = client->running;
    while (r && r->about != about) {
        r = r->outer;
    }
    return r != NULL;
}

void snib__calls_wait(snib *client, const void *about)
{
    while (!runs_here(client) && runs_about(client, about)) {
        pthread_cond_wait(&client->call_ended, &client->lock);
    }
}

void snib__calls_forget(snib_lease *lease)
{
    if (!lease->calls) {
        return;
    }
    snib__calls_wait(lease->hold->client, lease); /* more may become due meanwhile */
    for (int i = 0; i < 3; i++) {
        snib__list_remove(&lease->calls[i].link);
    }
}

void snib__calls_end(snib *client)
{
    bool inside = runs_here(client);
    client->caller_stops = true;
    if (client->caller_runs) {
        pthread_cond_signal(&client->caller_cond);
        pthread_t caller = client->caller;
        bool self = pthread_equal(caller, pthread_self());
        client->caller_runs = false;
        pthread_mutex_unlock(&client->lock);
        if (self) {
            pthread_detach(caller); /* closed from a callback: it ends when that returns */
        } else {
            pthread_join(caller, NULL);
        }
        pthread_mutex_lock(&client->lock);
    }
    while (client->running && !inside) { /* snib_dispatch on another thread */
        pthread_cond_wait(&client->call_ended, &client->lock);
    }
    while (run_one(client)) {
    }
}

/* ---- The calls -------------------------------------------------------------------------- */

int snib_events(snib *client, int *fd, snib_error *err)
{
    if (!client || !fd) {
        return snib__fail(err, SNIB_EINVAL, 0, "no client, or nowhere to put the descriptor");
    }
    if (!snib__usable(client, err)) {
        return SNIB_ESTATE;
    }
    int rc = SNIB_OK;
    snib__enter(client);
    if (!client->own_loop) {
        if (client->used) {
            rc = snib__fail(err, SNIB_ESTATE, 0, "snib_events comes before the first acquire");
        } else {
            int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
            if (made < 0) {
                rc = snib__fail(err, SNIB_ESYS, errno, "cannot make a descriptor");
            } else {
                client->event_fd = made;
                client->own_loop = true;
            }
        }
    }
    if (rc == 0) {
        *fd = client->event_fd;
    }
    snib__leave(client);
    return rc;
}

int snib_dispatch(snib *client, int max)
{
    int count = 0;
    if (!client || !snib__usable(client, NULL)) {
        return SNIB_ESTATE;
    }
    pthread_mutex_lock(&client->lock);
    if (!client->own_loop && !client->manual) {
        pthread_mutex_unlock(&client->lock);
        return SNIB_ESTATE;
    }
    client->refs++; /* a callback may close it */
    uint64_t ignored;
    if (client->own_loop && read(client->event_fd, &ignored, sizeof ignored) < 0) {
        ignored = 0; /* nothing to take: somebody else has taken it */
    }
    if (client->running && !runs_here(client)) { /* that thread goes on with what is due */
        snib__unlock_unref(client);
        return 0;
    }
    while ((max <= 0 || count < max) && !client->caller_stops && run_one(client)) {
        count++;
    }
    if (client->calls.after != &client->calls && !client->caller_stops) {
        ring(client); /* max was reached: stay readable */
    }
    snib__unlock_unref(client);
    return count;
}
