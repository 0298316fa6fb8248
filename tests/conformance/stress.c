/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything at once for a second: processes, threads, names, modes, tries, waits and re-entry.
 *
 * No thread holds two names at a time, so nothing here may dead-lock. What each believed goes
 * into the log of beliefs; the dice are seeded, the interleaving is not.
 */
#include "conformance.h"
#include "overlap.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PROCESSES = 3, THREADS = 4, NAMES = 4, PERMITS = 2, SPAN_MS = 1000, BELIEFS = 400000 };

struct world {
    struct overlap_log *log;
    struct check_barrier start;
    _Atomic int64_t end_ns;
    _Atomic int granted[3]; /* by mode */
    _Atomic int reentered;
    _Atomic int refused;
    _Atomic int timed_out;
};

struct inhabitant {
    struct world *world;
    snib *client;
    unsigned seed;
};

static snib_options roll(unsigned *seed, unsigned name)
{
    snib_options options = SNIB_OPTIONS;
    bool last = name == NAMES - 1;
    if (last && with_counted()) { /* one name is a pool, the others are read/write locks */
        options.mode = SNIB_COUNTED;
        options.permits = PERMITS;
    } else if (with_shared() && rand_r(seed) % 2 == 0) {
        options.mode = SNIB_SHARED;
    }
    static const int64_t waits[] = {0, 1, 20, -1, -1};
    options.wait_ms = waits[(unsigned)rand_r(seed) % (sizeof waits / sizeof waits[0])];
    if (options.mode != SNIB_COUNTED && rand_r(seed) % 4 == 0) {
        options.owner = snib_thread();
    }
    return options;
}

static void enter_again(struct world *world, snib *client, const char *name,
                        const snib_options *options, uint64_t token)
{
    snib_lease *inner = NULL;
    snib_error error = {0};
    CHECK_OK(snib_acquire(&inner, client, name, options, &error), error.message);
    CHECK_UINT(snib_token(inner), ==, token);
    give(&inner);
    atomic_fetch_add(&world->reentered, 1);
}

static void hold_for_a_while(struct inhabitant *self, snib_lease *lease, unsigned name,
                             const snib_options *options)
{
    struct overlap_grant grant = {.name = name,
                                  .mode = (enum overlap_mode)options->mode,
                                  .permits = options->permits,
                                  .token = snib_token(lease)};
    size_t belief = overlap_begin(self->world->log, &grant);
    if (options->owner != NULL) {
        enter_again(self->world, self->client, snib_name(lease), options, snib_token(lease));
    }
    if (rand_r(&self->seed) % 4 == 0) {
        usleep((unsigned)rand_r(&self->seed) % 300);
    }
    overlap_end(self->world->log, belief);
    atomic_fetch_add(&self->world->granted[options->mode], 1);
}

static void *inhabit(void *arg)
{
    struct inhabitant *self = arg;
    struct world *world = self->world;
    check_barrier_wait(&world->start, PROCESSES * THREADS, PATIENCE_MS);
    int64_t end = check_now_ns() + SPAN_MS * INT64_C(1000000);
    while (check_now_ns() < end) {
        unsigned number = (unsigned)rand_r(&self->seed) % NAMES;
        char name[32];
        snprintf(name, sizeof name, "house %u", number);
        snib_options options = roll(&self->seed, number);
        snib_lease *lease = NULL;
        snib_error error = {0};
        int code = snib_acquire(&lease, self->client, name, &options, &error);
        if (code == SNIB_EBUSY) {
            atomic_fetch_add(options.wait_ms == 0 ? &world->refused : &world->timed_out, 1);
            continue;
        }
        if (code == SNIB_EUNKNOWN && with_leases() && options.wait_ms > 0) {
            atomic_fetch_add(&world->timed_out, 1); /* a server may take longer to say busy */
            continue;
        }
        CHECK_OK(code, error.message);
        hold_for_a_while(self, lease, number, &options);
        give(&lease);
    }
    return NULL;
}

static void inhabit_as_process(void *arg)
{
    struct world *world = arg;
    snib *client = client_here();
    pthread_t threads[THREADS];
    struct inhabitant inhabitants[THREADS];
    for (int i = 0; i < THREADS; i++) {
        inhabitants[i] = (struct inhabitant){
            .world = world, .client = client, .seed = (unsigned)getpid() * THREADS + (unsigned)i};
        CHECK(pthread_create(&threads[i], NULL, inhabit, &inhabitants[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    snib_close(client);
}

TEST_LIMIT(processes_threads_names_and_modes_at_once, 60)
{
    struct world *world = check_shared(sizeof *world);
    pid_t pids[PROCESSES];
    world->log = overlap_open(BELIEFS);
    (void)place();
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = check_spawn(inhabit_as_process, world);
    }
    for (int i = 0; i < PROCESSES; i++) {
        check_join(pids[i], 50000);
    }
    overlap_assert(world->log);
    CHECK_INT(atomic_load(&world->granted[SNIB_EXCLUSIVE]), >, 0);
    CHECK(!with_shared() || atomic_load(&world->granted[SNIB_SHARED]) > 0);
    CHECK(!with_counted() || atomic_load(&world->granted[SNIB_COUNTED]) > 0);
    CHECK_INT(atomic_load(&world->reentered), >, 0);
    CHECK_INT(atomic_load(&world->refused), >, 0);
    snib *client = client_here();
    for (unsigned i = 0; i < NAMES; i++) {
        char name[32];
        snprintf(name, sizeof name, "house %u", i);
        await_nobody(client, name);
        must_be_free(client, name);
    }
    snib_close(client);
}
