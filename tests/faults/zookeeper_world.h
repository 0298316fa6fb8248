/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the ZooKeeper engine share: workers that write down what they believe,
 * and a look at what is left.
 */
#ifndef SNIB_TESTS_ZOOKEEPER_WORLD_H
#define SNIB_TESTS_ZOOKEEPER_WORLD_H

#include "server_zookeeper.h"
#include "world.h"

/* With a path of our own: "" or more parameters behind. */
MAY_BE_UNUSED static const char *url_of(int port, const char *parameters)
{
    enum { URLS = 8 };
    static char urls[URLS][512];
    static int next;
    char *url = urls[next++ % URLS];
    snprintf(url, sizeof urls[0], "zookeeper://127.0.0.1:%d/snib%s%s", port,
             parameters[0] ? "?" : "", parameters);
    return url;
}

MAY_BE_UNUSED static snib_lease *take(snib *client, const char *name)
{
    snib_lease *lease = NULL;
    snib_error error = {0};
    snib_options options = waiting(check_ms(PATIENCE_MS));
    options.flags = SNIB_RETRY; /* a busy machine may need more than a third of a short session */
    CHECK_OK(snib_acquire(&lease, client, name, &options, &error), error.message);
    return lease;
}

/* ---- What is left ----------------------------------------------------------------------- */

/* Holders and waiters together; -1: no answer. */
MAY_BE_UNUSED static int count_at(snib *client, const char *name)
{
    int count = 0;
    return snib_inspect(client, name, count_seen, &count, NULL) == SNIB_OK ? count : -1;
}

struct look {
    snib *client;
    const char *name;
};

static bool nobody(void *arg)
{
    struct look *look = arg;
    return count_at(look->client, look->name) == 0;
}

/* No node may be left of those who gave up, gave back or failed. */
MAY_BE_UNUSED static void await_nobody(snib *client, const char *name)
{
    struct look look = {client, name};
    CHECK(check_until(nobody, &look, PATIENCE_MS));
}

/* ---- Workers: take it, believe in it for a while, give it back ---------------------------- */

enum { WORKERS = 4 };

struct world {
    struct overlap_log *log;
    char urls[WORKERS][512];
    struct check_flag go, stop;
    _Atomic int granted;
    _Atomic int next;
};

/* For so long, or until told to stop (NULL: never), or as long as the lease lasts. */
static void go_on_believing(struct overlap_log *log, size_t belief, snib_lease *lease,
                            int64_t span_ns, struct check_flag *stop)
{
    int64_t end = check_now_ns() + span_ns;
    for (;;) {
        int64_t now = check_now_ns();
        int64_t left_ms = snib_left_ms(lease);
        if (left_ms <= 0 || now >= end || (stop != NULL && check_flag_is_set(stop))) {
            break;
        }
        overlap_deadline(log, belief, now + left_ms * 1000000);
        check_sleep_ms(1);
    }
    overlap_end(log, belief);
}

static size_t begin_to_believe(struct overlap_log *log, snib_lease *lease)
{
    struct overlap_grant grant = {.name = 1, .token = snib_token(lease)};
    size_t belief = overlap_begin(log, &grant);
    int64_t now = check_now_ns(); /* before what is left is asked for */
    overlap_deadline(log, belief, now + snib_left_ms(lease) * 1000000);
    return belief;
}

static void believe(struct overlap_log *log, snib_lease *lease, int64_t span_ns,
                    struct check_flag *stop)
{
    go_on_believing(log, begin_to_believe(log, lease), lease, span_ns, stop);
}

static void work(void *arg)
{
    struct world *world = arg;
    int number = atomic_fetch_add(&world->next, 1);
    check_flag_wait(&world->go, PATIENCE_MS);
    snib *client = client_of(world->urls[number]);
    while (!check_flag_is_set(&world->stop)) {
        snib_options options = waiting(number % 2 == 0 ? 300 : 5000);
        snib_lease *lease = NULL;
        options.flags = SNIB_RETRY;
        if (snib_acquire(&lease, client, "report", &options, NULL) != SNIB_OK) {
            check_sleep_ms(5);
            continue;
        }
        believe(world->log, lease, (number + 1) * INT64_C(3000000), NULL);
        snib_release(&lease, NULL);
        atomic_fetch_add(&world->granted, 1);
    }
    snib_close(client);
}

MAY_BE_UNUSED static struct world *world_new(void)
{
    struct world *world = check_shared(sizeof *world);
    world->log = overlap_open(200000);
    return world;
}

/* Before the case has threads of its own, as every spawn: the thread sanitizer wants it so. */
MAY_BE_UNUSED static void world_start(struct world *world, pid_t pids[WORKERS])
{
    for (int i = 0; i < WORKERS; i++) {
        pids[i] = check_spawn(work, world);
    }
    check_flag_set(&world->go);
}

static bool granted_more(void *arg)
{
    struct world *world = arg;
    return atomic_load(&world->granted) > 0;
}

/* Life goes on within the time given. */
MAY_BE_UNUSED static void world_goes_on(struct world *world, int within_ms)
{
    atomic_store(&world->granted, 0);
    CHECK(check_until(granted_more, world, within_ms));
}

MAY_BE_UNUSED static void world_end(struct world *world, pid_t pids[WORKERS])
{
    check_flag_set(&world->stop);
    for (int i = 0; i < WORKERS; i++) {
        check_join(pids[i], 20000);
    }
    overlap_assert(world->log);
}

#endif
