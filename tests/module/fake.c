/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine for tests: leased locks in a file that all processes map, with a lever for every way
 * in which a lock service can fail its users.
 *
 * It is a lock service in miniature, and an honest one: a lock is kept for exactly the ttl after
 * the last renewal that was carried out, and then anybody may have it. Silence, delay, loss and
 * refusal come only by order of the test (fake.h). Waiters are not queued: they are told to come
 * again.
 *
 * All processes enter through one gate, a spinning lock. Tests stop and kill processes at any
 * instant, so whoever waits too long takes the gate over; nothing is done inside that could stay
 * half done and matter.
 */
#include "fake.h"

#include "engines/engine.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL
#define GATE_PATIENCE_NS (200 * MS)
#define RETRY_MS 5

struct pending {
    struct snib__claim *claim;
    enum snib__verb verb;
    struct snib__result result;
    int64_t due_ns;
    struct pending *next; /* in the session's list while it waits */
};

struct session {
    struct fake_state *shared;
    struct pending *first;
};

struct claim {
    struct pending pending;
    char holder[120];
};

static struct session *session_of(const struct snib__claim *claim)
{
    return claim->session->state;
}

/* ---- The gate --------------------------------------------------------------------------- */

static void enter(struct fake_state *shared)
{
    int64_t started = snib__now().boot_ns;
    int seen = 0;
    while (!atomic_compare_exchange_strong(&shared->gate, &seen, (int)getpid())) {
        if (snib__now().boot_ns - started > GATE_PATIENCE_NS) {
            started = snib__now().boot_ns;
            if (atomic_compare_exchange_strong(&shared->gate, &seen, (int)getpid())) {
                return; /* from one who was stopped or killed inside */
            }
        }
        seen = 0;
        sched_yield();
    }
}

static void leave(struct fake_state *shared)
{
    int self = (int)getpid();
    atomic_compare_exchange_strong(&shared->gate, &self, 0);
}

static struct fake_lock *find(struct fake_state *shared, const char *name)
{
    struct fake_lock *empty = NULL;
    for (int i = 0; i < FAKE_LOCKS; i++) {
        struct fake_lock *lock = &shared->locks[i];
        if (strcmp(lock->name, name) == 0) {
            return lock;
        }
        if (!empty && lock->name[0] == '\0') {
            empty = lock;
        }
    }
    if (empty) {
        (void)snprintf(empty->name, sizeof empty->name, "%s", name);
    }
    return empty;
}

static bool is_held(const struct fake_lock *lock, int64_t now_ns)
{
    return lock->token != 0 && now_ns < lock->expires_ns;
}

static bool is_ours(const struct fake_lock *lock, const struct snib__claim *claim, int64_t now_ns)
{
    return is_held(lock, now_ns) && memcmp(lock->owner, claim->owner, sizeof lock->owner) == 0;
}

/* ---- Answers ---------------------------------------------------------------------------- */

static void forget(struct snib__claim *claim)
{
    struct claim *state = claim->state;
    for (struct pending **p = &session_of(claim)->first; *p; p = &(*p)->next) {
        if (*p == &state->pending) {
            *p = state->pending.next;
            return;
        }
    }
}

/* At once, or after a while. A later word about a claim replaces an earlier one. */
static void answer(struct snib__claim *claim, enum snib__verb verb,
                   const struct snib__result *result, int64_t delay_ms)
{
    struct claim *state = claim->state;
    struct session *session = session_of(claim);
    forget(claim);
    if (delay_ms <= 0) {
        snib__answer(claim, verb, result);
        return;
    }
    state->pending = (struct pending){
        .claim = claim,
        .verb = verb,
        .result = *result,
        .due_ns = snib__now().boot_ns + delay_ms * MS,
        .next = session->first,
    };
    session->first = &state->pending;
}

static void stay_silent(struct snib__claim *claim, enum snib__verb verb)
{
    struct snib__result unknown = {.status = SNIB__UNKNOWN};
    answer(claim, verb, &unknown, claim->session->timeout_ms);
}

static void drive(struct snib__session *s, int64_t until_ns)
{
    struct session *session = s->state;
    for (;;) {
        struct pending *next = session->first;
        for (struct pending *p = next; p; p = p->next) {
            next = p->due_ns < next->due_ns ? p : next;
        }
        int64_t now = snib__now().boot_ns;
        if (next && now >= next->due_ns) {
            struct pending due = *next;
            forget(due.claim);
            snib__answer(due.claim, due.verb, &due.result);
            return;
        }
        struct pollfd none;
        int64_t wake_ns = next && next->due_ns < until_ns ? next->due_ns : until_ns;
        if (now >= until_ns || snib__sleep(s, &none, 0, wake_ns)) {
            return;
        }
    }
}

/* ---- The slots -------------------------------------------------------------------------- */

static int open_state(struct snib__session *s, snib_error *err)
{
    struct session *session = s->state;
    int fd = open(s->url->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *session->shared) < 0) {
        if (fd >= 0) {
            close(fd);
        }
        return snib__fail(err, SNIB_EDENIED, 0, "fake: %s cannot be opened", s->url->path);
    }
    void *map = mmap(NULL, sizeof *session->shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED) {
        return snib__fail(err, SNIB_ESYS, 0, "fake: %s cannot be mapped", s->url->path);
    }
    session->shared = map;
    return SNIB_OK;
}

static void close_state(struct snib__session *s)
{
    struct session *session = s->state;
    if (session->shared) {
        munmap(session->shared, sizeof *session->shared);
        session->shared = NULL;
    }
}

static void attempt(struct snib__claim *claim)
{
    struct fake_state *shared = session_of(claim)->shared;
    struct claim *state = claim->state;
    atomic_fetch_add(&shared->attempts, 1);
    if (atomic_load(&shared->mute_attempts)) {
        stay_silent(claim, SNIB__ATTEMPT);
        return;
    }
    struct snib__result result = {.since = snib__now()};
    int64_t now = result.since.boot_ns;
    int refusal = atomic_load(&shared->refuse);
    int first_ms = atomic_load(&shared->hand_over_ms);
    enter(shared);
    struct fake_lock *lock = find(shared, claim->name);
    if (!lock || refusal) {
        result.status = SNIB__FAILED;
        result.code = refusal ? refusal : SNIB_ENOMEM;
    } else if (is_held(lock, now) && !is_ours(lock, claim, now)) {
        (void)snprintf(state->holder, sizeof state->holder, "%s", lock->who);
        result.status = SNIB__BUSY;
        result.retry_ms = RETRY_MS;
        result.holder = state->holder;
        result.holder_token = lock->token;
        result.holder_left_ms = (lock->expires_ns - now) / MS;
    } else {
        if (!is_ours(lock, claim, now)) {
            lock->token = ++shared->last_token;
        }
        memcpy(lock->owner, claim->owner, sizeof lock->owner);
        (void)snprintf(lock->who, sizeof lock->who, "%s", claim->session->who);
        lock->since_unix_ms = snib__wall_us() / 1000;
        result.status = SNIB__HELD;
        result.token = lock->token;
        result.lease_ms = first_ms ? first_ms : claim->ttl_ms;
        lock->expires_ns = now + result.lease_ms * MS;
    }
    leave(shared);
    answer(claim, SNIB__ATTEMPT, &result, atomic_load(&shared->delay_ms));
}

static void renew_one(struct snib__claim *claim)
{
    struct fake_state *shared = session_of(claim)->shared;
    atomic_fetch_add(&shared->renewals, 1);
    if (atomic_load(&shared->mute_renewals)) {
        stay_silent(claim, SNIB__RENEW);
        return;
    }
    struct snib__result result = {.status = SNIB__LOST, .since = snib__now()};
    int64_t now = result.since.boot_ns;
    enter(shared);
    struct fake_lock *lock = find(shared, claim->name);
    if (lock && is_ours(lock, claim, now)) {
        if (atomic_load(&shared->say_gone)) {
            lock->token = 0;
            result.reason = "deleted by the test";
        } else {
            lock->expires_ns = now + claim->ttl_ms * MS;
            result.status = SNIB__HELD;
            result.token = lock->token;
            result.lease_ms = claim->ttl_ms;
        }
    }
    leave(shared);
    answer(claim, SNIB__RENEW, &result, atomic_load(&shared->delay_ms));
}

static void renew(struct snib__claim *const claims[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        renew_one(claims[i]);
    }
}

static void release(struct snib__claim *claim)
{
    struct fake_state *shared = session_of(claim)->shared;
    struct snib__result result = {.status = SNIB__LOST};
    atomic_fetch_add(&shared->releases, 1);
    if (atomic_load(&shared->mute_releases)) {
        stay_silent(claim, SNIB__RELEASE);
        return;
    }
    enter(shared);
    struct fake_lock *lock = find(shared, claim->name);
    if (lock && is_ours(lock, claim, snib__now().boot_ns)) {
        lock->token = 0;
        result.status = SNIB__FREED;
    }
    leave(shared);
    answer(claim, SNIB__RELEASE, &result, atomic_load(&shared->delay_ms));
}

static void inspect(struct snib__query *query)
{
    struct session *session = query->session->state;
    for (int i = 0; i < FAKE_LOCKS; i++) {
        enter(session->shared);
        struct fake_lock lock = session->shared->locks[i];
        leave(session->shared);
        int64_t now = snib__now().boot_ns;
        bool wanted = query->prefix ? strncmp(lock.name, query->name, strlen(query->name)) == 0
                                    : strcmp(lock.name, query->name) == 0;
        if (wanted && lock.name[0] && is_held(&lock, now)) {
            snib_seen seen = {
                .name = lock.name,
                .who = lock.who,
                .label = "",
                .token = lock.token,
                .mode = SNIB_EXCLUSIVE,
                .permits = 1,
                .since_unix_ms = lock.since_unix_ms,
                .left_ms = (lock.expires_ns - now) / MS,
            };
            snib__seen(query, &seen);
        }
    }
    snib__finish(query, SNIB_OK, 0, NULL);
}

static void evict(struct snib__query *query)
{
    struct session *session = query->session->state;
    int code = SNIB_ELOST;
    enter(session->shared);
    struct fake_lock *lock = find(session->shared, query->name);
    if (lock && is_held(lock, snib__now().boot_ns) && lock->token == query->token) {
        lock->token = 0;
        code = SNIB_OK;
    }
    leave(session->shared);
    snib__finish(query, code, 0, NULL);
}

static void examine(struct snib__query *query)
{
    const snib_finding finding = {.verdict = SNIB_GOOD, .about = "module", .text = "a fake"};
    snib__found(query, &finding);
    snib__finish(query, SNIB_OK, 0, NULL);
}

static const struct snib__param params[] = {{.name = NULL}};

extern const struct snib__engine snib_engine_module;

const struct snib__engine snib_engine_module = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "fake",
    .aliases = "",
    .summary = "leased locks in a file, for tests",
    .promise = "whatever the test orders",
    .traits = SNIB_TRAIT_LEASED | SNIB_TRAIT_TTL_PER_LOCK | SNIB_TRAIT_BREAKS | SNIB_TRAIT_LISTS,
    .session_size = sizeof(struct session),
    .claim_size = sizeof(struct claim),
    .params = params,
    .open = open_state,
    .close = close_state,
    .attempt = attempt,
    .renew = renew,
    .release = release,
    .drive = drive,
    .inspect = inspect,
    .evict = evict,
    .examine = examine,
};
