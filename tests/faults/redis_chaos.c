/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many processes on one lock while the world misbehaves; and in peace, strictly in order.
 */
#include "redis_world.h"

enum { WORKERS = 5, CROWD = 32 };

static struct server server;

struct world {
    struct overlap_log *log;
    char urls[2][512];
    struct check_flag stop;
    _Atomic int granted, next;
};

static void work(void *arg)
{
    struct world *world = arg;
    int number = atomic_fetch_add(&world->next, 1);
    snib *client = client_of(world->urls[number % 2]);
    while (!check_flag_is_set(&world->stop)) {
        snib_options options = waiting(number % 3 == 0 ? 300 : 5000);
        snib_lease *lease = NULL;
        if (snib_acquire(&lease, client, "report", &options, NULL) != SNIB_OK) {
            check_sleep_ms(5);
            continue;
        }
        struct overlap_grant grant = {.name = 1, .token = snib_token(lease)};
        size_t belief = overlap_begin(world->log, &grant);
        int64_t end = check_now_ns() + (number + 1) * INT64_C(3000000);
        int64_t left_ms;
        while ((left_ms = snib_left_ms(lease)) > 0 && check_now_ns() < end) {
            overlap_deadline(world->log, belief, check_now_ns() + left_ms * 1000000);
            check_sleep_ms(1);
        }
        overlap_end(world->log, belief);
        snib_release(&lease, NULL);
        atomic_fetch_add(&world->granted, 1);
    }
    snib_close(client);
}

static struct world *world_new(const char *first, const char *second, pid_t pids[WORKERS])
{
    struct world *world = check_shared(sizeof *world);
    world->log = overlap_open(200000);
    snprintf(world->urls[0], sizeof world->urls[0], "%s", first);
    snprintf(world->urls[1], sizeof world->urls[1], "%s", second);
    for (int i = 0; i < WORKERS; i++) {
        pids[i] = check_spawn(work, world);
    }
    return world;
}

static void world_end(struct world *world, pid_t pids[WORKERS], int at_least)
{
    int before = atomic_load(&world->granted);
    check_sleep_ms(check_ms(3500)); /* life goes on afterwards */
    CHECK_INT(atomic_load(&world->granted), >, before);
    check_flag_set(&world->stop);
    for (int i = 0; i < WORKERS; i++) {
        check_join(pids[i], 20000);
    }
    CHECK_INT(atomic_load(&world->granted), >=, at_least);
    redisContext *raw = raw_open(server.port);
    raw_no_script_failed(raw);
    redisFree(raw);
    overlap_assert(world->log);
}

#define PARAMETERS "ttl=1s&timeout=300ms"

static void under_faults(uint64_t seed)
{
    struct proxy proxy;
    pid_t pids[WORKERS];
    server_redis(&server, NULL);
    proxy_start(&proxy, server.port);
    struct world *world =
        world_new(url_of(proxy.port, PARAMETERS), url_of(server.port, PARAMETERS), pids);
    struct proxy_script script = {
        .seed = seed, .faults = PROXY_FAULT_ALL, .fault_ms = {20, 1500}, .rest_ms = {50, 500}};
    proxy_script(&proxy, &script);
    check_sleep_ms(10000);
    proxy_heal(&proxy);
    proxy_door(&proxy, PROXY_OPEN);
    proxy_cut(&proxy, PROXY_RESET);
    world_end(world, pids, 20);
}

TEST_LIMIT(random_faults_never_let_two_in, 60)
{
    under_faults(1);
}
TEST_LIMIT(other_random_faults_never_let_two_in, 60)
{
    under_faults(20261115);
}

static void restarts(const char *const extra[], const char *parameters, int span_ms)
{
    pid_t pids[WORKERS];
    char url[512];
    server_redis(&server, extra);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?state=%s/state&%s", server.port, check_tmpdir(),
             parameters);
    struct world *world = world_new(url, url, pids);
    for (int i = 0; i < 3; i++) {
        check_sleep_ms(span_ms);
        server_kill(&server);
        check_sleep_ms(i * 100);
        server_start(&server);
    }
    check_sleep_ms(span_ms);
    world_end(world, pids, 10);
}

TEST_LIMIT(a_server_that_forgets_all_at_a_restart_does_not_let_two_in, 90)
{
    restarts(NULL, "ttl=800ms&timeout=300ms&max-lease=1s", 3800); /* quarantine is 3.1 s */
}

TEST_LIMIT(a_server_that_remembers_does_not_let_two_in, 90)
{
    static const char *const durable[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    restarts(durable, "ttl=800ms&timeout=300ms&max-lease=1s&quarantine=no", 1500);
}

TEST_LIMIT(a_server_that_is_stopped_past_the_ttl_does_not_let_two_in, 60)
{
    pid_t pids[WORKERS];
    server_redis(&server, NULL);
    const char *url = url_of(server.port, PARAMETERS);
    struct world *world = world_new(url, url, pids);
    for (int i = 0; i < 3; i++) {
        check_sleep_ms(1000);
        server_pause(&server);
        check_sleep_ms(800 * (i + 1));
        server_resume(&server);
    }
    world_end(world, pids, 20);
}

/* ---- In peace --------------------------------------------------------------------------- */

TEST_LIMIT(thirty_two_processes_are_served_strictly_in_order, 60)
{
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    struct helper *helpers = helpers_new(CROWD, url_of(server.port, ""), "report");
    helpers_spawn(helpers, CROWD);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    for (int i = 0; i < CROWD; i++) {
        check_flag_set(&helpers[i].let_go); /* as soon as it holds */
        check_flag_set(&helpers[i].go);
        await_line(raw, "report", i + 1);
    }
    uint64_t token = snib_token(lease);
    long long scripts = raw_calls(raw, "evalsha"), messages = raw_calls(raw, "publish");
    give(&lease);
    for (int i = 0; i < CROWD; i++) {
        check_flag_wait(&helpers[i].over, PATIENCE_MS);
    }
    scripts = raw_calls(raw, "evalsha") - scripts;
    messages = raw_calls(raw, "publish") - messages;
    for (int i = 0; i < CROWD; i++) {
        CHECK_INT(atomic_load(&helpers[i].code), ==, SNIB_OK);
        CHECK_UINT(atomic_load(&helpers[i].token), >, token);
        token = atomic_load(&helpers[i].token);
        check_join(helpers[i].pid, PATIENCE_MS);
    }
    CHECK_INT(messages, ==, CROWD); /* one message wakes one waiter: no herd */
    printf("# per hand-over: %.1f scripts, %.1f messages\n", (double)scripts / CROWD,
           (double)messages / CROWD);
    snib_close(client);
    redisFree(raw);
}
