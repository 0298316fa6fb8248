/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving back: by the holder, waiting for the engine's answer or not; and by another process, for a
 * holder that is dead.
 *
 * The last lease of a hold that is released goes to the next in line of this process if the grant
 * allows it (passing.c), else to the engine.
 */
#include "core/release.h"

#include "core/client.h"
#include "core/name.h"
#include "core/passing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In a child after fork: nothing is sent, no mutex is touched. */
static int release_in_child(snib_lease *lease, snib_error *err)
{
    struct snib__hold *h = lease->hold;
    snib__lease_free(lease);
    if (--h->lease_count == 0) {
        snib *client = h->client;
        free(h->note);
        free(h);
        snib__unref(client);
    }
    return snib__fail(err, SNIB_ESTATE, 0, "this lease belongs to the process that acquired it");
}

static int say_released(const struct snib__releaser *releaser, bool lost, snib_error *err)
{
    if (lost || releaser->status == SNIB__LOST) {
        return snib__fail(err, SNIB_ELOST, 0, "lock '%s' had been lost before it was released",
                          releaser->name);
    }
    if (releaser->status != SNIB__FREED) {
        return snib__fail(err, SNIB_EUNKNOWN, 0,
                          "lock '%s': no answer to the release; it ends with its ttl",
                          releaser->name);
    }
    return SNIB_OK;
}

static bool pass(struct snib__hold *h)
{
    if (!h->passes) {
        return false;
    }
    struct snib__instant now = snib__now();
    struct snib__request *next = snib__passing_next(h, now);
    if (!next) {
        return false;
    }
    snib__lease_answer(h, SNIB_ESTATE); /* of those who asked about it and gave it back meanwhile */
    snib__passing_go(h, next, now);
    snib__hold_own(h);
    return true;
}

/* What a release does before anybody waits: the handle is gone when this returns. True: it went to
 * the engine, and whoever wants to be told will be. */
static bool give(snib_lease *lease, struct snib__releaser *releaser, bool tells, bool *lost)
{
    struct snib__hold *h = lease->hold;
    snib__list_remove(&lease->link); /* hears no more, also not of what comes now */
    for (int i = 0; lease->news && i < SNIB__NEWS; i++) {
        snib__call_drop(&lease->news[i].call);
    }
    snib__lease_observe(h);
    *lost = h->lost;
    if (h->lost) {
        strcpy(releaser->name, h->line->name);
    }
    snib__lease_free(lease);
    if (--h->lease_count > 0) {
        return false;
    }
    if (h->stage >= SNIB__STAGE_RELEASING) {
        snib__hold_drop(h);
        return false;
    }
    if (pass(h)) {
        return false;
    }
    h->releaser = tells ? releaser : NULL;
    h->untold = !tells;
    h->client->untold += h->untold;
    snib__hold_leave(h);
    return true;
}

void snib__release_untold(snib_lease *lease)
{
    struct snib__releaser nobody;
    bool lost;
    (void)give(lease, &nobody, false, &lost);
}

/* ---- Waiting for the answer ------------------------------------------------------------- */

struct blocked {
    struct snib__releaser releaser;
    struct snib__waiter waiter;
};

static void wake_caller(snib *client, struct snib__releaser *releaser)
{
    snib__wake(client, &SNIB__OF(releaser, struct blocked, releaser)->waiter);
}

int snib_release(snib_lease **where, snib_error *err)
{
    if (!where || !*where) {
        return SNIB_OK;
    }
    snib_lease *lease = *where;
    snib *client = lease->hold->client;
    *where = NULL;
    if (snib__forked(&client->session)) {
        return release_in_child(lease, err);
    }
    struct blocked b;
    b.releaser.status = SNIB__FREED;
    b.releaser.answered = wake_caller;
    snib__waiter_init(&b.waiter);
    snib__enter(client);
    client->refs++;
    if (lease->news) {
        snib__calls_wait(client, lease); /* more may become due meanwhile */
    }
    bool lost;
    bool asynchronous = (lease->flags & SNIB_ASYNC_RELEASE) != 0;
    if (give(lease, &b.releaser, !asynchronous, &lost)) {
        snib__settle(client);
        if (!asynchronous) {
            snib__wait(client, &b.waiter);
        }
    }
    snib__leave_unref(client);
    snib__waiter_end(&b.waiter);
    return say_released(&b.releaser, lost, err);
}

/* ---- Being called back ------------------------------------------------------------------ */

struct told {
    struct snib__releaser releaser;
    struct snib__call call;
    bool lost;
    snib_released_fn *done;
    void *arg;
};

static void run_released(snib *client, struct snib__call *call)
{
    struct told *told = SNIB__OF(call, struct told, call);
    snib_error error;
    pthread_mutex_unlock(&client->lock);
    int code = say_released(&told->releaser, told->lost, &error);
    told->done(code, code < 0 ? &error : NULL, told->arg);
    free(told);
    pthread_mutex_lock(&client->lock);
}

static void tell_caller(snib *client, struct snib__releaser *releaser)
{
    snib__call_due(client, &SNIB__OF(releaser, struct told, releaser)->call);
}

int snib_release_async(snib_lease **where, snib_released_fn *done, void *arg, snib_error *err)
{
    if (!where || !*where || !done) {
        return snib__fail(err, SNIB_EINVAL, 0, "no lease, or no function to call when done");
    }
    snib_lease *lease = *where;
    snib *client = lease->hold->client;
    if (snib__forked(&client->session)) {
        *where = NULL;
        return release_in_child(lease, err);
    }
    struct told *told = calloc(1, sizeof *told);
    if (!told) {
        return snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    }
    told->releaser.status = SNIB__FREED;
    told->releaser.answered = tell_caller;
    told->done = done;
    told->arg = arg;
    snib__call_init(&told->call, told, run_released);
    snib__enter(client);
    if (client->caller_stops) { /* nobody is left who would call */
        snib__leave(client);
        free(told);
        return snib__fail(err, SNIB_ESTATE, 0, "the client is closed: use snib_release");
    }
    *where = NULL;
    client->refs++;
    if (lease->news) {
        snib__calls_wait(client, lease);
    }
    if (give(lease, &told->releaser, true, &told->lost)) {
        snib__settle(client);
    } else {
        tell_caller(client, &told->releaser);
    }
    snib__leave_unref(client);
    return SNIB_OK;
}

/* ---- For a holder that is dead ---------------------------------------------------------- */

#define HANDLE_MARK "snib1 "

int snib_handle(const snib_lease *lease, char *out, size_t size, snib_error *err)
{
    char hex[33];
    if (!lease || !out) {
        return snib__fail(err, SNIB_EINVAL, 0, "no lease, or nowhere to put the handle");
    }
    const struct snib__claim *claim = &lease->hold->claim;
    if (!snib__usable(lease->hold->client, err)) {
        return SNIB_ESTATE;
    }
    if (claim->session->engine->nameless) {
        return snib__fail(err, SNIB_ENOTSUP, 0, "%s: a lock ends with its process",
                          claim->session->engine->scheme);
    }
    for (size_t i = 0; i < sizeof claim->owner; i++) {
        snprintf(hex + 2 * i, 3, "%02x", claim->owner[i]);
    }
    int n = snprintf(out, size, HANDLE_MARK "%d %u %s %s", claim->mode, claim->permits, hex,
                     claim->name);
    if (n < 0 || (size_t)n >= size) {
        return snib__fail(err, SNIB_EINVAL, 0, "a handle needs %d bytes", SNIB_HANDLE_SIZE);
    }
    return SNIB_OK;
}

struct handle {
    unsigned mode, permits;
    unsigned char owner[16];
    const char *name;
};

/* Digits and the space behind them; NULL: that is not what stands there. */
static const char *read_number(unsigned *out, const char *text)
{
    size_t length = strspn(text, "0123456789");
    *out = (unsigned)strtoul(text, NULL, 10);
    return length >= 1 && length <= 4 && text[length] == ' ' ? text + length + 1 : NULL;
}

static const char *read_owner(unsigned char owner[16], const char *text)
{
    if (strspn(text, "0123456789abcdef") != 32 || text[32] != ' ') {
        return NULL;
    }
    for (size_t i = 0; i < 16; i++) {
        const char pair[3] = {text[2 * i], text[2 * i + 1]};
        owner[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
    return text + 33;
}

/* The name is all that is left, and may begin with a space. */
static bool read_handle(struct handle *out, const char *text)
{
    const char *at = strncmp(text, HANDLE_MARK, strlen(HANDLE_MARK)) == 0
                         ? read_number(&out->mode, text + strlen(HANDLE_MARK))
                         : NULL;
    at = at ? read_number(&out->permits, at) : NULL;
    out->name = at ? read_owner(out->owner, at) : NULL;
    return out->name && snib__name_check(out->name, NULL) == 0 && out->mode <= SNIB_COUNTED &&
           out->permits >= 1 && out->permits <= 1000 &&
           (out->mode == SNIB_COUNTED || out->permits == 1);
}

/* A claim with the dead one's id, and its release. */
static bool adopt(snib *client, const struct handle *handle, struct snib__releaser *releaser)
{
    struct snib__line *line = snib__line_get(client, handle->name);
    struct snib__hold *h =
        line ? snib__hold_adopt(client, line, (int)handle->mode, handle->permits, handle->owner)
             : NULL;
    if (!h) {
        if (line) {
            snib__line_put(client, line);
        }
        return false;
    }
    h->releaser = releaser;
    snib__hold_leave(h);
    return true;
}

int snib_give_back(snib *client, const char *text, snib_error *err)
{
    struct handle handle;
    if (!client || !text || !read_handle(&handle, text)) {
        return snib__fail(err, SNIB_EINVAL, 0, "no client, or not a handle of snib_handle");
    }
    if (!snib__usable(client, err)) {
        return SNIB_ESTATE;
    }
    if (client->session.engine->nameless) {
        return snib__fail(err, SNIB_ENOTSUP, 0, "%s: a lock ends with its process",
                          client->session.engine->scheme);
    }
    struct blocked b = {.releaser = {.status = SNIB__UNKNOWN, .answered = wake_caller}};
    strcpy(b.releaser.name, handle.name);
    snib__waiter_init(&b.waiter);
    snib__enter(client);
    int rc = SNIB_OK;
    if (client->closing) {
        rc = snib__fail(err, SNIB_ESTATE, 0, "the client is closed");
    } else if (!adopt(client, &handle, &b.releaser)) {
        rc = snib__fail(err, SNIB_ENOMEM, 0, "out of memory");
    } else {
        snib__settle(client);
        snib__wait(client, &b.waiter);
        rc = say_released(&b.releaser, false, err);
    }
    snib__leave(client);
    snib__waiter_end(&b.waiter);
    return rc;
}
