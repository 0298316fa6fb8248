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
#include "core/dispatch.h"

#include "base/descriptor.h"
#include "core/client.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void *call_all(void *arg);

/* Something is due: get whoever runs callbacks to look. */
static void alert(snib *client)
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

void snib__call_init(struct snib__call *call, const void *about,
                     void (*run)(snib *, struct snib__call *))
{
    snib__list_init(&call->link);
    call->about = about;
    call->ends = NULL;
    call->run = run;
}

void snib__call_due(snib *client, struct snib__call *call)
{
    client->stirred = true;
    snib__list_remove(&call->link);
    snib__list_append(&client->calls, &call->link);
    alert(client);
}

void snib__call_drop(struct snib__call *call)
{
    snib__list_remove(&call->link);
}

static bool runs_here(const snib *client)
{
    return client->running && pthread_equal(client->call_thread, pthread_self());
}

bool snib__calls_many(const snib *client, unsigned least)
{
    const struct snib__list *l = client->calls.after;
    for (; least > 0 && l != &client->calls; l = l->after) {
        least--;
    }
    return least == 0;
}

bool snib__calls_follow(const snib *client)
{
    return runs_here(client) && !snib__list_empty(&client->calls);
}

/* ---- Events ----------------------------------------------------------------------------- */

static void run_event(snib *client, struct snib__call *call)
{
    struct snib__news copy = *SNIB__OF(call, struct snib__news, call); /* newer news may come */
    copy.event.size = sizeof copy.event;
    copy.event.why = copy.why;
    pthread_mutex_unlock(&client->lock);
    copy.fn(&copy.event, copy.arg);
    pthread_mutex_lock(&client->lock);
}

void snib__news_init(struct snib__news *news, const void *about, snib_event_fn *fn, void *arg)
{
    snib__call_init(&news->call, about, run_event);
    news->fn = fn;
    news->why[0] = '\0';
    news->arg = arg;
}

void snib__news_tell(snib *client, struct snib__news *news, const snib_event *event,
                     const char *why)
{
    news->event = *event;
    snprintf(news->why, sizeof news->why, "%s", why);
    snib__call_due(client, &news->call);
}

/* ---- Running them ----------------------------------------------------------------------- */

/* The next one; false: none is due. The client may have been closed when this returns. */
static bool run_one(snib *client)
{
    if (snib__list_empty(&client->calls)) {
        return false;
    }
    struct snib__call *call = SNIB__OF(client->calls.after, struct snib__call, link);
    snib__list_remove(&call->link);
    struct snib__running self = {.about = call->about, .outer = client->running};
    client->running = &self;
    client->call_thread = pthread_self();
    client->stirred = true;
    call->run(client, call);
    if (snib__list_empty(&client->calls)) {
        snib__send_kept(client);
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
        client->inside_for_calls++;
        if (client->closer) {
            snib__close_check(client); /* it may be that callback which closes */
        }
        snib__hand_over(client);
        pthread_cond_wait(&client->call_ended, &client->lock);
        client->inside_for_calls--;
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
            int made = snib__descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
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
    if (!snib__list_empty(&client->calls) && !client->caller_stops) {
        alert(client); /* max was reached: stay readable */
        snib__send_kept(client);
    }
    snib__unlock_unref(client);
    return count;
}
