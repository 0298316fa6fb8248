/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_TESTS_SCRIPTED_ENGINE_H
#define SNIB_TESTS_SCRIPTED_ENGINE_H

/*
 * An engine that answers as the case says: a function per slot, which may answer at once, later or
 * never. Without one, everything is granted, renewed and freed at once. The functions run with the
 * mutex held.
 */

#include "core/client.h"

#include "check.h"

enum { SCRIPT_CLAIMS = 8, SCRIPT_ROUND_MS = 5, PATIENCE_MS = 10000 };

static struct {
    int (*open)(struct snib__session *);
    void (*attempt)(struct snib__claim *);
    void (*renew)(struct snib__claim *);
    void (*release)(struct snib__claim *);
    void (*drive)(struct snib__session *); /* each time around, every few milliseconds */
    atomic_int attempts, renewals, queries;
    struct snib__claim *claims[SCRIPT_CLAIMS]; /* the first ones, in the order of their attempts */
    uint64_t token;
} script;

/* ---- Answers ---------------------------------------------------------------------------- */

static inline void script_say(struct snib__claim *claim, enum snib__verb verb,
                              enum snib__status status)
{
    struct snib__result result = {.status = status};
    snib__answer(claim, verb, &result);
}

static inline void script_grant(struct snib__claim *claim)
{
    struct snib__result held = {.status = SNIB__HELD,
                                .token = ++script.token,
                                .since = snib__now(),
                                .lease_ms = claim->ttl_ms};
    snib__answer(claim, SNIB__ATTEMPT, &held);
}

static inline void script_prove(struct snib__claim *claim, struct snib__instant since)
{
    struct snib__result held = {
        .status = SNIB__HELD, .token = script.token, .since = since, .lease_ms = claim->ttl_ms};
    snib__answer(claim, SNIB__RENEW, &held);
}

/* For the functions above: answers that are always the same. */
static inline void script_queue(struct snib__claim *claim)
{
    script_say(claim, SNIB__ATTEMPT, SNIB__QUEUED);
}

static inline void script_renew_unknown(struct snib__claim *claim)
{
    script_say(claim, SNIB__RENEW, SNIB__UNKNOWN);
}

static inline void script_mute(struct snib__claim *claim)
{
    (void)claim;
}

/* ---- The slots -------------------------------------------------------------------------- */

static int script_open(struct snib__session *s, snib_error *err)
{
    (void)err;
    return script.open ? script.open(s) : SNIB_OK;
}

static void script_close(struct snib__session *s)
{
    (void)s;
}

static void script_attempt(struct snib__claim *claim)
{
    int nth = atomic_fetch_add(&script.attempts, 1);
    if (nth < SCRIPT_CLAIMS) {
        script.claims[nth] = claim;
    }
    if (script.attempt) {
        script.attempt(claim);
    } else {
        script_grant(claim);
    }
}

static void script_renew(struct snib__claim *const claims[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        atomic_fetch_add(&script.renewals, 1);
        if (script.renew) {
            script.renew(claims[i]);
        } else {
            script_prove(claims[i], snib__now());
        }
    }
}

static void script_release(struct snib__claim *claim)
{
    if (script.release) {
        script.release(claim);
    } else {
        script_say(claim, SNIB__RELEASE, SNIB__FREED);
    }
}

static void script_drive(struct snib__session *s, int64_t until_ns)
{
    int64_t now_ns;
    do {
        if (script.drive) {
            script.drive(s);
        }
        int64_t round_ns = snib__now().boot_ns + SCRIPT_ROUND_MS * SNIB__MS;
        if (snib__sleep(s, NULL, 0, round_ns < until_ns ? round_ns : until_ns)) {
            break;
        }
        now_ns = snib__now().boot_ns;
    } while (now_ns < until_ns);
}

static void script_query(struct snib__query *query)
{
    atomic_fetch_add(&script.queries, 1);
    snib__finish(query, SNIB_OK, 0, NULL);
}

static const struct snib__param script_params[] = {{.name = NULL}};

/* Leased; a case that wants another changes a copy. */
static const struct snib__engine script_engine = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "script",
    .aliases = "",
    .summary = "answers as it is told",
    .promise = "none",
    .traits = SNIB_TRAIT_LEASED | SNIB_TRAIT_TTL_PER_LOCK | SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED,
    .params = script_params,
    .open = script_open,
    .close = script_close,
    .attempt = script_attempt,
    .renew = script_renew,
    .release = script_release,
    .drive = script_drive,
    .inspect = script_query,
    .evict = script_query,
    .examine = script_query,
};

/* ---- Users ------------------------------------------------------------------------------ */

static inline snib *script_client_of(const struct snib__engine *engine, const char *url)
{
    snib *client = NULL;
    snib_error error = {0};
    CHECK_OK(snib__open_engine(&client, engine, url, false, &error), error.message);
    return client;
}

static inline snib *script_client(const char *url)
{
    return script_client_of(&script_engine, url);
}

/* An engine without leases. */
static inline snib *script_client_unleased(void)
{
    static struct snib__engine unleased;
    unleased = script_engine;
    unleased.traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED;
    return script_client_of(&unleased, "script:");
}

static inline snib_lease *script_take(snib *client, const char *name)
{
    snib_lease *lease = NULL;
    snib_error error = {0};
    CHECK_OK(snib_acquire(&lease, client, name, NULL, &error), error.message);
    return lease;
}

/* What an acquire with this deadline ends with; a lease that comes of it is given back. */
static inline int script_try(snib *client, int64_t wait_ms)
{
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease = NULL;
    options.wait_ms = wait_ms;
    int rc = snib_acquire(&lease, client, "name", &options, NULL);
    (void)snib_release(&lease, NULL);
    return rc;
}

static inline void script_report(snib *client, struct snib__claim *claim, enum snib_state state)
{
    snib__enter(client);
    snib__report(claim, state, "the script says so");
    snib__leave(client);
}

static inline int64_t script_ms_since(int64_t start_ns)
{
    return (check_now_ns() - start_ns) / 1000000;
}

struct script_count {
    atomic_int *counter;
    int least;
};

static inline bool script_counted(void *arg)
{
    struct script_count *count = arg;
    return atomic_load(count->counter) >= count->least;
}

static inline void script_await(atomic_int *counter, int least)
{
    struct script_count count = {counter, least};
    CHECK(check_until(script_counted, &count, PATIENCE_MS));
}

#endif
