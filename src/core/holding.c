/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user asks about a lease while holding it. Each call looks at the clock first.
 */
#include "base/descriptor.h"
#include "core/client.h"
#include "core/options.h"
#include "core/validity.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>

/* The handle's client, entered, with the clock looked at; NULL in another process. */
static snib *enter(const snib_lease *lease)
{
    struct snib__hold *h = lease->hold;
    if (snib__forked(&h->client->session)) {
        return NULL;
    }
    snib__enter(h->client);
    snib__lease_observe(h);
    return h->client;
}

int snib_state(const snib_lease *lease)
{
    snib *client = lease ? enter(lease) : NULL;
    if (!client) {
        return SNIB_RELEASED;
    }
    int state = snib__lease_state(lease->hold);
    snib__leave(client);
    return state;
}

int64_t snib_left_ms(const snib_lease *lease)
{
    snib *client = lease ? enter(lease) : NULL;
    if (!client) {
        return 0;
    }
    int64_t left_ms = snib__lease_left_ms(lease->hold);
    snib__leave(client);
    return left_ms;
}

int64_t snib_ttl_ms(const snib_lease *lease)
{
    snib *client = lease ? enter(lease) : NULL;
    if (!client) {
        return 0;
    }
    int64_t ttl_ms = lease->hold->lease_ns / SNIB__MS;
    snib__leave(client);
    return ttl_ms;
}

int snib_reason(const snib_lease *lease, char *out, size_t size)
{
    if (!lease || !out || size == 0) {
        return SNIB_EINVAL;
    }
    out[0] = '\0';
    snib *client = enter(lease);
    if (!client) {
        return SNIB_ESTATE;
    }
    if (lease->hold->lost && lease->hold->note) {
        strncat(out, lease->hold->note, size - 1);
    }
    snib__leave(client);
    return SNIB_OK;
}

uint64_t snib_token(const snib_lease *lease)
{
    return lease ? lease->hold->token : 0;
}

const char *snib_name(const snib_lease *lease)
{
    return lease ? lease->hold->line->name : NULL;
}

int snib_fd(snib_lease *lease)
{
    snib *client = lease ? enter(lease) : NULL;
    if (!client) {
        return SNIB_ESTATE;
    }
    struct snib__hold *h = lease->hold;
    if (lease->fd < 0) {
        lease->fd = snib__descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        snib__lease_show(lease);
    }
    int fd = lease->fd >= 0 ? lease->fd : SNIB_ESYS;
    if (fd >= 0) {
        snib__lease_listen(h);
    }
    snib__leave(client);
    return fd;
}

/* ---- Asking the engine ------------------------------------------------------------------ */

/* A renewal that is sent after this call, and its answer. `ttl_ms` above 0: for that long. */
static int ask(snib_lease *lease, int64_t ttl_ms, bool extends, snib_error *err)
{
    struct snib__hold *h = lease->hold;
    snib *client = h->client;
    struct snib__verifier v = {.extends = extends};
    snib__waiter_init(&v.waiter);
    snib__list_init(&v.link);
    snib__enter(client);
    snib__lease_observe(h);
    v.code = h->lost ? SNIB_ELOST : SNIB_ESTATE;
    if (snib__hold_valid(h)) {
        int64_t before_ms = h->claim.ttl_ms;
        h->wanted_ttl_ms = ttl_ms > 0 ? ttl_ms : h->wanted_ttl_ms;
        v.asked = snib__now(); /* what was sent before this had the ttl of before */
        snib__list_append(&h->verifiers, &v.link);
        snib__renewal_urge(h);
        snib__settle(client);
        snib__wait(client, &v.waiter);
        if (v.code == SNIB_EUNKNOWN && ttl_ms > 0) {
            h->wanted_ttl_ms = before_ms; /* it goes on as it was */
        }
    }
    snib__leave(client);
    snib__waiter_end(&v.waiter);
    if (v.code == SNIB_OK) {
        return SNIB_OK;
    }
    return snib__fail(err, v.code, 0, "lock '%s': %s", h->line->name,
                      v.code == SNIB_ELOST    ? "no longer ours"
                      : v.code == SNIB_ESTATE ? "the client is closed"
                                              : "the engine does not answer");
}

int snib_verify(snib_lease *lease, snib_error *err)
{
    if (!lease) {
        return snib__fail(err, SNIB_EINVAL, 0, "no lease");
    }
    return snib__usable(lease->hold->client, err) ? ask(lease, 0, false, err) : SNIB_ESTATE;
}

int snib_renew(snib_lease *lease, int64_t ttl_ms, snib_error *err)
{
    if (!lease) {
        return snib__fail(err, SNIB_EINVAL, 0, "no lease");
    }
    if (!snib__usable(lease->hold->client, err)) {
        return SNIB_ESTATE;
    }
    int rc = ttl_ms == 0 ? SNIB_OK : snib__ttl_check(lease->hold->client, ttl_ms, err);
    return rc < 0 ? rc : ask(lease, ttl_ms, true, err);
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
