/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several names at once. Everybody takes them in the same order, by bytes, so no two callers can
 * wait for each other; one deadline covers all; if one is not to be had, none is kept.
 *
 * The asynchronous form is the same loop turned inside out: one request at a time, and the answer
 * of each starts the next. All of them have the ticket of the whole, so that cancelling it ends the
 * one that waits.
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

/* What is left of the time for all; a try stays a try, a wait for ever stays one. */
static int64_t wait_left_ms(int64_t wait_ms, struct snib__instant started)
{
    if (wait_ms <= 0) {
        return wait_ms;
    }
    int64_t left_ms = wait_ms - snib__elapsed_ns(started, snib__now()) / SNIB__MS;
    return left_ms > 0 ? left_ms : 0;
}

/* ---- Blocking --------------------------------------------------------------------------- */

int snib_acquire_all(snib_lease *out[], snib *client, const char *const names[], size_t n,
                     const snib_options *options, snib_error *err)
{
    if (!out || !names || n == 0 || n > MOST || !client) {
        return snib__fail(err, SNIB_EINVAL, 0, "1 to 1000 names, a client, a place for the leases");
    }
    for (size_t i = 0; i < n; i++) {
        out[i] = NULL;
    }
    snib_options each = SNIB_OPTIONS;
    int rc = snib__options_read(&each, client, options, err);
    struct named *sorted = rc == 0 ? calloc(n, sizeof *sorted) : NULL;
    if (rc == 0) {
        rc = sorted ? sort_names(sorted, names, n, err)
                    : snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    }
    struct snib__instant started = snib__now();
    int64_t wait_ms = each.wait_ms;
    for (size_t i = 0; rc == 0 && sorted && i < n; i++) {
        each.wait_ms = wait_left_ms(wait_ms, started);
        rc = snib_acquire(&out[sorted[i].index], client, sorted[i].name, &each, err);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) { /* while the last was waited for */
        if (snib_state(out[i]) == SNIB_LOST) {
            rc = snib__fail(err, SNIB_ELOST, 0, "lock '%s' was lost before all were there",
                            names[i]);
        }
    }
    if (rc < 0) {
        for (size_t i = 0; i < n; i++) {
            (void)snib_release(&out[i], NULL);
        }
    }
    free(sorted);
    return rc;
}

/* ---- Asynchronous ----------------------------------------------------------------------- */

struct all {
    struct snib__request request; /* the present one */
    struct snib__call end;
    struct snib__instant started;
    int64_t wait_ms; /* for all */
    size_t n, next;  /* next: of `sorted`, the one that is asked for */
    struct named *sorted;
    char *text; /* the names' */
    snib_lease **leases;
    snib_all_done_fn *done;
    void *arg;
    snib_error error;
    int code;
    char label[SNIB__LABEL_MAX + 1];
};

static void free_all(struct all *all)
{
    free(all->sorted);
    free(all->text);
    free(all->leases);
    free(all);
}

/* With the mutex, on the thread that runs callbacks: none about these leases runs elsewhere. */
static void give_all_back(snib *client, struct all *all)
{
    for (size_t i = 0; i < all->n; i++) {
        if (all->leases[i]) {
            snib__release_untold(all->leases[i]);
        }
    }
    snib__settle(client);
    snib__hand_over(client);
}

static void check_all(struct all *all)
{
    for (size_t i = 0; all->code == 0 && i < all->n; i++) {
        struct snib__hold *h = all->leases[i]->hold;
        snib__lease_observe(h);
        if (h->lost) {
            all->code = snib__fail(&all->error, SNIB_ELOST, 0,
                                   "lock '%s' was lost before all were there", h->line->name);
        } else if (!snib__hold_valid(h)) {
            all->code = snib__fail(&all->error, SNIB_ECANCELED, 0, "the client is closed");
        }
    }
}

static void run_end(snib *client, struct snib__call *call)
{
    struct all *all = SNIB__OF(call, struct all, end);
    if (all->code == 0) {
        check_all(all);
    }
    if (all->code < 0) {
        give_all_back(client, all);
    }
    pthread_mutex_unlock(&client->lock);
    if (all->code == 0) {
        all->done(all->leases, all->n, NULL, all->arg);
    } else {
        all->done(NULL, 0, &all->error, all->arg);
    }
    free_all(all);
    pthread_mutex_lock(&client->lock);
}

static void end(struct all *all, int code)
{
    all->code = code;
    snib__call_init(&all->end, &all->request, run_end);
    snib__call_due(all->request.client, &all->end);
}

static int start_next(struct all *all)
{
    struct snib__request *r = &all->request;
    r->options.wait_ms = wait_left_ms(all->wait_ms, all->started);
    r->name = all->sorted[all->next].name;
    return snib__request_start(r);
}

static void on_answer(struct snib__request *r)
{
    struct all *all = SNIB__OF(r, struct all, request);
    int code = r->code;
    if (code == 0) {
        all->leases[all->sorted[all->next].index] = r->lease;
        all->next++;
        if (all->next < all->n) {
            code = r->client->closing
                       ? snib__fail(&all->error, SNIB_ECANCELED, 0, "the client is closed")
                       : start_next(all);
            if (code == 0) {
                return;
            }
        }
    }
    end(all, code);
}

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

static int prepare(struct all **out, const char *const names[], size_t n, const snib_options *o,
                   snib_error *err)
{
    struct all *all = calloc(1, sizeof *all);
    const char **copies = calloc(n, sizeof(char *));
    if (all) {
        all->n = n;
        all->sorted = calloc(n, sizeof *all->sorted);
        all->leases = calloc(n, sizeof(snib_lease *));
    }
    int rc = SNIB_OK;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = snib__name_check(names[i], err);
    }
    if (rc == 0 &&
        (!all || !copies || !all->sorted || !all->leases || !copy_names(all, names, copies))) {
        rc = snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    }
    if (rc == 0) {
        rc = sort_names(all->sorted, copies, n, err);
    }
    free(copies);
    if (rc < 0) {
        if (all) {
            free_all(all);
        }
        return rc;
    }
    all->request.options = *o;
    if (o->label) {
        all->request.options.label = strcpy(all->label, o->label);
    }
    all->wait_ms = o->wait_ms;
    all->request.err = &all->error;
    all->request.answered = on_answer;
    *out = all;
    return SNIB_OK;
}

int snib_acquire_all_async(snib_ticket *out, snib *client, const char *const names[], size_t n,
                           const snib_options *options, snib_all_done_fn *done, void *arg,
                           snib_error *err)
{
    snib_options each = SNIB_OPTIONS;
    struct all *all = NULL;
    if (out) {
        *out = 0;
    }
    if (!names || n == 0 || n > MOST || !client || !done) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "1 to 1000 names, a client, a function to call when done");
    }
    if (!snib__usable(client, err)) {
        return SNIB_ESTATE;
    }
    int rc = snib__options_read(&each, client, options, err);
    if (rc == 0 && each.stop_fd >= 0) {
        rc = snib__fail(err, SNIB_EINVAL, 0, "stop_fd is for blocking calls: use snib_cancel");
    }
    if (rc == 0) {
        rc = prepare(&all, names, n, &each, err);
    }
    if (rc < 0 || !all) {
        return rc;
    }
    all->done = done;
    all->arg = arg;
    all->started = snib__now();
    all->request.client = client;

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
