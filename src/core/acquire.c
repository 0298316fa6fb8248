/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib_acquire, blocking and not. Both check, and start a request; they differ only in how its
 * answer gets to the caller.
 */
#include "core/client.h"
#include "core/name.h"
#include "core/options.h"
#include "core/reentry.h"

#include <stdlib.h>
#include <string.h>

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

static int start(struct snib__request *r)
{
    return r->client->closing ? snib__fail(r->err, SNIB_ESTATE, 0, "the client is closed")
                              : snib__request_start(r);
}

/* ---- Blocking --------------------------------------------------------------------------- */

static void wake_caller(struct snib__request *r)
{
    snib__wake(r->client, r->waiter);
}

static int acquire(snib_lease **out, snib *client, const char *name, const snib_options *options,
                   snib_error *err)
{
    struct snib__waiter waiter;
    struct snib__request r; /* large, and most of it not used by an acquire that gets it at once */
    r.client = client;
    r.name = name;
    r.options = *options;
    r.ticket = 0;
    r.withheld = false;
    r.finished = false;
    r.code = SNIB_OK;
    r.lease = NULL;
    r.err = err;
    r.answered = wake_caller;
    r.waiter = &waiter;
    snib__waiter_init(&waiter);
    int rc = start(&r);
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

/* The short way in for an owner that has it already. */
static snib_lease *acquire_again(snib *client, const char *name, const snib_options *o)
{
    struct snib__line *line = snib__line_find(client, name);
    struct snib__hold *h = NULL;
    bool plain = line && snib__reentry(line, o, &h) == SNIB__REENTRY_ALLOWED &&
                 h->stage == SNIB__STAGE_HELD && !o->min_left_ms;
    snib_lease *lease = plain ? snib__lease_add(h, o, 0) : NULL;
    client->stats.acquired += lease ? 1U : 0U;
    return lease;
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
        *out = acquire_again(client, name, checked);
    }
    if (!*out) {
        rc = acquire(out, client, name, checked, err);
    }
    snib__leave(client);
    return rc;
}

/* ---- Asynchronous ----------------------------------------------------------------------- */

/* A request with what it needs after the call has returned. */
struct pending {
    struct snib__request request;
    struct snib__call end;
    snib_done_fn *done;
    void *arg;
    snib_error error;
    char label[SNIB__LABEL_MAX + 1];
};

static void run_done(snib *client, struct snib__call *call)
{
    struct pending *p = SNIB__OF(call, struct pending, end);
    struct snib__request *r = &p->request;
    pthread_mutex_unlock(&client->lock);
    p->done(r->lease, r->code < 0 ? r->err : NULL, p->arg);
    free(p);
    pthread_mutex_lock(&client->lock);
}

static void tell_caller(struct snib__request *r)
{
    struct pending *p = SNIB__OF(r, struct pending, request);
    snib__call_init(&p->end, r, run_done);
    p->end.ends = r;
    snib__call_due(r->client, &p->end);
}

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
    if (checked->stop_fd >= 0) {
        return snib__fail(err, SNIB_EINVAL, 0, "stop_fd is for blocking calls: use snib_cancel");
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
    r->answered = tell_caller;
    p->done = done;
    p->arg = arg;

    snib__enter(client);
    r->ticket = ++client->last_ticket;
    if (out) {
        *out = r->ticket;
    }
    rc = start(r);
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
