/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_TESTS_FAKE_ENGINE_H
#define SNIB_TESTS_FAKE_ENGINE_H

/*
 * The smallest engine there is, for tests of what the core does for an engine: everything is
 * granted and freed at once, and hooks of the test run inside the slots, with the mutex held.
 */

#include "core/client.h"

#include "check.h"

enum { FAKE_FDS = SNIB__SLEEP_MOST, FAKE_OWED = 2048 };

static struct {
    void (*on_attempt)(struct snib__claim *);
    void (*on_release)(struct snib__session *);
    void (*on_drive)(struct snib__session *); /* each time around */
    void (*on_close)(struct snib__session *);
    void (*on_query)(struct snib__query *); /* answers it */
    struct pollfd fds[FAKE_FDS];            /* to be slept on */
    size_t fd_count;
    atomic_int drives, rounds;
    uint64_t token;
    bool busy;                     /* somebody else has everything */
    enum snib__status released;    /* how a release ends; 0: FREED */
    unsigned char released_id[16]; /* the owner id of the last */
    bool sends;                    /* a release leaves at once, and its answer is read in drive */
    struct snib__claim *owed[FAKE_OWED];
    size_t owed_count;
} fake;

static int fake_open(struct snib__session *s, snib_error *err)
{
    (void)s, (void)err;
    return SNIB_OK;
}

static void fake_close(struct snib__session *s)
{
    if (fake.on_close) {
        fake.on_close(s);
    }
}

static void fake_attempt(struct snib__claim *claim)
{
    struct snib__result held = {.status = SNIB__HELD, .token = ++fake.token, .since = snib__now()};
    struct snib__result busy = {.status = SNIB__BUSY, .holder = "somebody else"};
    if (fake.on_attempt) {
        fake.on_attempt(claim);
    }
    snib__answer(claim, SNIB__ATTEMPT, fake.busy ? &busy : &held);
}

static void fake_renew(struct snib__claim *const claims[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct snib__result held = {.status = SNIB__HELD, .since = snib__now()};
        snib__answer(claims[i], SNIB__RENEW, &held);
    }
}

static void fake_release(struct snib__claim *claim)
{
    struct snib__result freed = {.status = fake.released ? fake.released : SNIB__FREED};
    struct snib__session *s = claim->session;
    memcpy(fake.released_id, claim->owner, sizeof fake.released_id);
    if (fake.on_release) {
        fake.on_release(s);
    }
    s->afloat = fake.sends;
    if (fake.sends) {
        CHECK(fake.owed_count < FAKE_OWED);
        fake.owed[fake.owed_count++] = claim;
        return;
    }
    snib__answer(claim, SNIB__RELEASE, &freed);
}

static void fake_drive(struct snib__session *s, int64_t until_ns)
{
    atomic_fetch_add(&fake.drives, 1);
    do {
        atomic_fetch_add(&fake.rounds, 1);
        if (fake.on_drive) {
            fake.on_drive(s);
        }
        while (fake.owed_count > 0) {
            static const struct snib__result freed = {.status = SNIB__FREED};
            snib__answer(fake.owed[--fake.owed_count], SNIB__RELEASE, &freed);
        }
    } while (snib__now().boot_ns < until_ns && !snib__sleep(s, fake.fds, fake.fd_count, until_ns));
}

static void fake_query(struct snib__query *query)
{
    if (fake.on_query) {
        fake.on_query(query);
    } else {
        snib__finish(query, SNIB_ENOTSUP, 0, NULL);
    }
}

static const struct snib__param fake_params[] = {{.name = NULL}};

static const struct snib__engine fake_engine = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "fake",
    .aliases = "",
    .summary = "grants everything",
    .promise = "none",
    .traits = SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED,
    .params = fake_params,
    .open = fake_open,
    .close = fake_close,
    .attempt = fake_attempt,
    .renew = fake_renew,
    .release = fake_release,
    .drive = fake_drive,
    .inspect = fake_query,
    .evict = fake_query,
    .examine = fake_query,
};

static inline snib *fake_client(const char *url)
{
    snib *client = NULL;
    snib_error error;
    CHECK_OK(snib__open_engine(&client, &fake_engine, url, false, &error), error.message);
    return client;
}

static inline snib_lease *fake_acquire(snib *client, const snib_options *options)
{
    snib_lease *lease = NULL;
    snib_error error;
    CHECK_OK(snib_acquire(&lease, client, "name", options, &error), error.message);
    return lease;
}

#endif
