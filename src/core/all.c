/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several names at once. Everybody takes them in the same order, by bytes, so no two callers can
 * wait for each other; one deadline covers all; if one is not to be had, none is kept.
 *
 * One request at a time, and the answer of each starts the next. All of them have the ticket of the
 * whole, so that cancelling it ends the one that waits. The leases are nobody's before all are
 * there: what happens to one until then is not told, but found when the whole is handed over.
 */
#include "core/client.h"
#include "core/name.h"
#include "core/options.h"
#include "core/release.h"

#include <stdlib.h>
#include <string.h>

#define MOST 1000

struct named {
    const char *name;
    size_t index;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static int sort_names(struct named *sorted, const char *const names[], size_t n, snib_error *err)
{
    for (size_t i = 0; i < n; i++) {
        int rc = snib__name_check(names[i], err);
        if (rc < 0) {
            return rc;
        }
        sorted[i] = (struct named){names[i], i};
    }
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(sorted[i - 1].name, sorted[i].name) == 0) {
            return snib__fail(err, SNIB_EINVAL, 0, "lock '%s' is given twice", sorted[i].name);
        }
    }
    return SNIB_OK;
}

/* ---- One after the other ---------------------------------------------------------------- */

struct all {
    struct snib__request request; /* the present one */
    struct snib__instant started;
    int64_t wait_ms; /* for all */
    size_t n, next;  /* next: of `sorted`, the one that is asked for */
    struct named *sorted;
    char *text; /* the names' */
    snib_lease **leases;
    snib_error error;
    int code;
    void (*ended)(struct all *);
    char label[SNIB__LABEL_MAX + 1];

    struct snib__waiter waiter; /* blocking */
    struct snib__call end;      /* asynchronous */
    snib_all_done_fn *done;
    void *arg;
};

static void free_all(struct all *all)
{
    free(all->sorted);
    free(all->text);
    free(all->leases);
    free(all);
}

/* What is left of the time for all; a try stays a try, a wait for ever stays one. */
static int64_t wait_left_ms(const struct all *all)
{
    if (all->wait_ms <= 0) {
        return all->wait_ms;
    }
    int64_t left_ms = all->wait_ms - snib__elapsed_ns(all->started, snib__now()) / SNIB__MS;
    return left_ms > 0 ? left_ms : 0;
}

static int start_next(struct all *all)
{
    struct snib__request *r = &all->request;
    r->options.wait_ms = wait_left_ms(all);
    r->name = all->sorted[all->next].name;
    return r->client->closing ? snib__fail(&all->error, SNIB_ECANCELED, 0, "the client is closed")
                              : snib__request_start(r);
}

static void on_answer(struct snib__request *r)
{
    struct all *all = SNIB__OF(r, struct all, request);
    all->code = r->code;
    if (r->code == 0) {
        all->leases[all->sorted[all->next].index] = r->lease;
        all->next++;
        if (all->next < all->n) {
            int rc = start_next(all); /* if 0, it may all be over by now */
            if (rc == 0) {
                return;
            }
            all->code = rc;
        }
    }
    all->ended(all);
}

/* ---- Handing over ----------------------------------------------------------------------- */

static void give_all_back(struct all *all)
{
    for (size_t i = 0; i < all->n; i++) {
        if (all->leases[i]) {
            snib__release_untold(all->leases[i]);
            all->leases[i] = NULL;
        }
    }
}

/* Is one of them gone already? From here on the user is told what happens to them. */
static int check_one(struct all *all, snib_lease *lease)
{
    struct snib__hold *h = lease->hold;
    snib__lease_observe(h);
    if (all->request.client->closing) {
        return snib__fail(&all->error, SNIB_ECANCELED, 0, "the client is closed");
    }
    if (!snib__hold_valid(h)) {
        return snib__fail(&all->error, SNIB_ELOST, 0, "lock '%s' was lost before all were there",
                          h->line->name);
    }
    return snib__lease_tell(lease, &all->request.options)
               ? SNIB_OK
               : snib__fail(&all->error, SNIB_ENOMEM, 0, "out of memory");
}

/* With the mutex: all of them, or none and the error. */
static void conclude(snib *client, struct all *all)
{
    for (size_t i = 0; all->code == 0 && i < all->n; i++) {
        all->code = check_one(all, all->leases[i]);
    }
    if (all->code < 0) {
        give_all_back(all);
        snib__settle(client);
    }
}

/* ---- Beginning -------------------------------------------------------------------------- */

/* Copies of the names, for as long as it takes. */
static bool copy_names(struct all *all, const char *const names[], const char **copies)
{
    size_t size = 0;
    for (size_t i = 0; i < all->n; i++) {
        size += strlen(names[i]) + 1;
    }
    char *at = all->text = malloc(size);
    for (size_t i = 0; at && i < all->n; i++) {
        copies[i] = at;
        at = stpcpy(at, names[i]) + 1;
    }
    return at != NULL;
}

static int fill(struct all *all, const char *const names[], const char **copies, snib_error *err)
{
    int rc = SNIB_OK;
    for (size_t i = 0; rc == 0 && i < all->n; i++) {
        rc = snib__name_check(names[i], err);
    }
    if (rc < 0) {
        return rc;
    }
    if (!copies || !all->sorted || !all->leases || !copy_names(all, names, copies)) {
        snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
        return SNIB_ENOMEM;
    }
    return sort_names(all->sorted, copies, all->n, err);
}

static void set_options(struct all *all, const snib_options *o)
{
    struct snib__request *r = &all->request;
    r->options = *o;
    if (o->label) {
        r->options.label = strcpy(all->label, o->label);
    }
    r->err = &all->error;
    r->answered = on_answer;
    r->withheld = true;
    all->wait_ms = o->wait_ms;
    all->started = snib__now();
}

/* Everything but whom to tell. */
static int prepare(struct all **out, snib *client, const char *const names[], size_t n,
                   const snib_options *options, snib_error *err)
{
    snib_options each = SNIB_OPTIONS;
    if (!names || n == 0 || n > MOST || !client) {
        snib__fail(err, SNIB_EINVAL, 0, "1 to %d names, and a client", MOST);
        return SNIB_EINVAL;
    }
    if (!snib__usable(client, err)) {
        return SNIB_ESTATE;
    }
    int rc = snib__options_read(&each, client, options, err);
    if (rc < 0) {
        return rc;
    }
    struct all *all = calloc(1, sizeof *all);
    if (!all) {
        return snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    }
    const char **copies = calloc(n, sizeof(char *));
    all->n = n;
    all->sorted = calloc(n, sizeof *all->sorted);
    all->leases = calloc(n, sizeof(snib_lease *));
    all->request.client = client;
    rc = fill(all, names, copies, err);
    free(copies);
    if (rc < 0) {
        free_all(all);
        return rc;
    }
    set_options(all, &each);
    *out = all;
    return SNIB_OK;
}

/* ---- Blocking --------------------------------------------------------------------------- */

static void wake_caller(struct all *all)
{
    snib__wake(all->request.client, &all->waiter);
}

int snib_acquire_all(snib_lease *out[], snib *client, const char *const names[], size_t n,
                     const snib_options *options, snib_error *err)
{
    struct all *all = NULL;
    if (!out) {
        return snib__fail(err, SNIB_EINVAL, 0, "nowhere to put the leases");
    }
    for (size_t i = 0; i < n && n <= MOST; i++) {
        out[i] = NULL;
    }
    int rc = prepare(&all, client, names, n, options, err);
    if (rc < 0 || !all) {
        return rc;
    }
    all->ended = wake_caller;
    snib__waiter_init(&all->waiter);
    snib__enter(client);
    rc = start_next(all);
    if (rc < 0) {
        all->code = rc;
    } else {
        snib__settle(client);
        snib__wait(client, &all->waiter);
        if (all->request.options.on_event) {
            snib__calls_wait(client, &all->request);
        }
    }
    conclude(client, all);
    snib__leave(client);
    snib__waiter_end(&all->waiter);
    rc = all->code;
    if (rc == 0) {
        memcpy(out, all->leases, n * sizeof(snib_lease *));
    } else if (err) {
        *err = all->error;
    }
    free_all(all);
    return rc;
}

/* ---- Asynchronous ----------------------------------------------------------------------- */

static void run_end(snib *client, struct snib__call *call)
{
    struct all *all = SNIB__OF(call, struct all, end);
    conclude(client, all);
    snib__hand_over(client);
    pthread_mutex_unlock(&client->lock);
    if (all->code == 0) {
        all->done(all->leases, all->n, NULL, all->arg);
    } else {
        all->done(NULL, 0, &all->error, all->arg);
    }
    free_all(all);
    pthread_mutex_lock(&client->lock);
}

static void tell_caller(struct all *all)
{
    snib__call_init(&all->end, &all->request, run_end);
    snib__call_due(all->request.client, &all->end);
}

int snib_acquire_all_async(snib_ticket *out, snib *client, const char *const names[], size_t n,
                           const snib_options *options, snib_all_done_fn *done, void *arg,
                           snib_error *err)
{
    struct all *all = NULL;
    if (out) {
        *out = 0;
    }
    if (!done) {
        return snib__fail(err, SNIB_EINVAL, 0, "no function to call when done");
    }
    int rc = prepare(&all, client, names, n, options, err);
    if (rc < 0 || !all) {
        return rc;
    }
    if (all->request.options.stop_fd >= 0) {
        free_all(all);
        return snib__fail(err, SNIB_EINVAL, 0, "stop_fd is for blocking calls: use snib_cancel");
    }
    all->ended = tell_caller;
    all->done = done;
    all->arg = arg;
    snib__enter(client);
    all->request.ticket = ++client->last_ticket;
    if (out) {
        *out = all->request.ticket;
    }
    rc = client->closing ? snib__fail(&all->error, SNIB_ESTATE, 0, "the client is closed")
                         : start_next(all);
    if (rc < 0) {
        if (err) {
            *err = all->error;
        }
        free_all(all);
    } else {
        snib__settle(client);
    }
    snib__leave(client);
    return rc;
}
