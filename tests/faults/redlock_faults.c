/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Redlock engine and five real servers, some of which die, stop, forget, are restarted, have
 * their clocks set or are one and the same.
 */
#include "clock_shim.h"
#include "redis_world.h"

#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>

enum { SERVERS = 5 };

static struct server servers[SERVERS];

static void start_servers(void)
{
    for (int i = 0; i < SERVERS; i++) {
        server_redis(&servers[i], NULL);
    }
}

static const char *cluster(const char *parameters)
{
    static char url[512];
    size_t used = (size_t)snprintf(url, sizeof url, "redlock://");
    for (int i = 0; i < SERVERS; i++) {
        used += (size_t)snprintf(url + used, sizeof url - used, "%s127.0.0.1:%d", i ? "," : "",
                                 servers[i].port);
    }
    snprintf(url + used, sizeof url - used, "?state=%s%s", check_tmpdir(), parameters);
    return url;
}

static void await_state(snib_lease *lease, int state)
{
    int64_t end = check_now_ns() + check_ms(PATIENCE_MS) * 1000000LL;
    while (snib_state(lease) != state) {
        CHECK(check_now_ns() < end);
        usleep(5000);
    }
}

static uint64_t recoveries(snib *client)
{
    snib_stats stats = {.size = sizeof stats};
    CHECK_INT(snib_stats_read(client, &stats), ==, SNIB_OK);
    return stats.renewals_late;
}

/* So many renewals are answered. */
static void await_renewals(snib *client, uint64_t count)
{
    int64_t end = check_now_ns() + check_ms(PATIENCE_MS) * 1000000LL;
    snib_stats stats = {.size = sizeof stats};
    do {
        CHECK(check_now_ns() < end);
        usleep(20000);
        CHECK_INT(snib_stats_read(client, &stats), ==, SNIB_OK);
    } while (stats.renewals < count);
}

static long long exists(int server, const char *name)
{
    redisContext *raw = raw_open(servers[server].port);
    long long there = raw_number(raw, "EXISTS %s", name);
    redisFree(raw);
    return there;
}

static void await_key(int server, const char *name)
{
    int64_t end = check_now_ns() + check_ms(PATIENCE_MS) * 1000000LL;
    while (!exists(server, name)) {
        CHECK(check_now_ns() < end);
        usleep(5000);
    }
}

/* Which run of a server it was is remembered on disk. */
static void await_runs(int count)
{
    char pattern[300];
    int64_t end = check_now_ns() + check_ms(PATIENCE_MS) * 1000000LL;
    glob_t found;
    size_t there;
    snprintf(pattern, sizeof pattern, "%s/*.run", check_tmpdir());
    do {
        CHECK(check_now_ns() < end);
        usleep(5000);
        there = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
        globfree(&found);
    } while (there < (size_t)count);
}

static void flush(int server)
{
    redisContext *raw = raw_open(servers[server].port);
    raw_number(raw, "FLUSHALL");
    redisFree(raw);
}

/* ---- Doubt ------------------------------------------------------------------------------ */

TEST(servers_that_die_while_it_is_held_leave_it_in_doubt_steadily)
{
    start_servers();
    snib *client = client_of(cluster("&ttl=3s"));
    snib_lease *lease = take(client, "report", NULL);
    await_key(4, "report");
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    server_kill(&servers[1]);
    server_kill(&servers[3]);
    await_state(lease, SNIB_DOUBTFUL);
    await_renewals(client, 5);
    CHECK_INT(snib_state(lease), ==, SNIB_DOUBTFUL);
    CHECK_INT(recoveries(client), ==, 0);
    give(&lease);
    snib_close(client);
}

TEST(servers_that_were_dead_before_it_was_acquired_leave_it_in_doubt_steadily)
{
    start_servers();
    server_kill(&servers[0]);
    server_kill(&servers[2]);
    snib *client = client_of(cluster("&ttl=3s"));
    snib_lease *lease = take(client, "report", NULL);
    await_state(lease, SNIB_DOUBTFUL);
    await_renewals(client, 3);
    CHECK_INT(snib_state(lease), ==, SNIB_DOUBTFUL);
    CHECK_INT(recoveries(client), ==, 0);
    give(&lease);
    snib_close(client);
}

TEST(one_dead_server_of_five_is_no_reason_to_doubt)
{
    start_servers();
    server_kill(&servers[0]);
    snib *client = client_of(cluster("&ttl=3s"));
    snib_lease *lease = take(client, "report", NULL);
    await_renewals(client, 2);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    give(&lease);
    snib_close(client);
}

/* ---- Keys that are gone ----------------------------------------------------------------- */

TEST(servers_that_lost_the_key_get_it_again_while_a_majority_has_it)
{
    start_servers();
    snib *client = client_of(cluster("&ttl=3s"));
    snib_lease *lease = take(client, "report", NULL);
    for (int i = 0; i < SERVERS; i++) {
        await_key(i, "report");
    }
    flush(0);
    flush(4);
    await_key(0, "report");
    await_key(4, "report");
    await_renewals(client, 3);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    give(&lease);
    for (int i = 0; i < SERVERS; i++) {
        CHECK_INT(exists(i, "report"), ==, 0);
    }
    snib_close(client);
}

TEST(with_two_of_five_it_is_lost_and_nothing_is_taken_again)
{
    start_servers();
    snib *client = client_of(cluster("&ttl=3s"));
    snib_lease *lease = take(client, "report", NULL);
    for (int i = 0; i < SERVERS; i++) {
        await_key(i, "report");
    }
    redisContext *raw[3];
    for (int i = 0; i < 3; i++) {
        raw[i] = raw_open(servers[2 * i].port);
    }
    await_renewals(client, 1); /* the next one is a second away */
    for (int i = 0; i < 3; i++) {
        raw_number(raw[i], "FLUSHALL");
    }
    await_state(lease, SNIB_LOST);
    for (int i = 0; i < 3; i++) {
        redisFree(raw[i]);
    }
    CHECK_INT(exists(0, "report") + exists(2, "report") + exists(4, "report"), ==, 0);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
}

TEST(who_follows_another_gets_all_servers_soon)
{
    start_servers();
    snib *first = client_of(cluster("")), *second = client_of(cluster(""));
    snib_lease *lease = take(first, "report", NULL), *next = NULL;
    _Atomic(snib_lease *) granted = NULL;
    snib_options options = waiting(-1);
    CHECK_INT(
        snib_acquire_async(NULL, second, "report", &options, note_grant, (void *)&granted, NULL),
        ==, SNIB_OK);
    usleep(100000);
    give(&lease);
    int64_t end = check_now_ns() + check_ms(PATIENCE_MS) * 1000000LL;
    while (!(next = atomic_load(&granted))) {
        CHECK(check_now_ns() < end);
        usleep(1000);
    }
    for (int i = 0; i < SERVERS; i++) { /* long before the first renewal, after 10 s */
        await_key(i, "report");
    }
    CHECK_INT(snib_state(next), ==, SNIB_HELD);
    give(&next);
    snib_close(first);
    snib_close(second);
}

/* ---- No majority ------------------------------------------------------------------------ */

TEST(without_a_majority_nobody_knows_who_has_it)
{
    start_servers();
    snib *client = client_of(cluster("&timeout=500ms"));
    snib_lease *lease = take(client, "report", NULL);
    give(&lease);
    char address[3][32];
    for (int i = 0; i < 3; i++) {
        snprintf(address[i], sizeof address[i], "127.0.0.1:%d", servers[i].port);
        server_kill(&servers[i]);
    }
    snib_error error = {0};
    int seen = 0;
    CHECK_INT(snib_inspect(client, "report", count_seen, &seen, &error), ==, SNIB_EUNREACH);
    CHECK(strstr(error.message, "unknown: 2 of 5 servers answered, 3 are needed") != NULL);
    for (int i = 0; i < 3; i++) {
        const char *at = strstr(error.message, address[i]);
        CHECK(at != NULL && strstr(at + 1, address[i]) == NULL);
    }
    CHECK_INT(snib_list(client, "", count_seen, &seen, &error), ==, SNIB_EUNREACH);
    CHECK_INT(snib_break(client, "report", 1, &error), ==, SNIB_EUNREACH);
    CHECK_INT(seen, ==, 0);
    snib_close(client);
}

TEST(with_three_down_there_is_a_clear_error_within_the_deadline)
{
    start_servers();
    snib *client = client_of(cluster(""));
    snib_lease *lease = take(client, "report", NULL);
    give(&lease);
    server_kill(&servers[0]);
    server_kill(&servers[1]);
    server_pause(&servers[2]);
    snib_options options = waiting(1000);
    snib_error error = {0};
    int64_t start = check_now_ns();
    int code = snib_acquire(&lease, client, "report", &options, &error);
    CHECK(code == SNIB_EUNREACH || code == SNIB_EUNKNOWN);
    CHECK(check_now_ns() - start < check_ms(5000) * 1000000LL);
    CHECK(strstr(error.message, "2 of 5 servers can vote, 3 are needed") != NULL);
    server_resume(&servers[2]);
    snib_options patient = waiting(-1);
    lease = take(client, "report", &patient);
    give(&lease);
    snib_close(client);
}

TEST(what_was_not_granted_is_given_back_at_silent_servers_too)
{
    start_servers();
    snib *client = client_of(cluster(""));
    snib_lease *lease = take(client, "other", NULL);
    give(&lease);
    for (int i = 2; i < SERVERS; i++) {
        server_pause(&servers[i]);
    }
    snib_options options = waiting(300);
    CHECK(snib_acquire(&lease, client, "report", &options, NULL) != SNIB_OK);
    for (int i = 2; i < SERVERS; i++) {
        server_resume(&servers[i]);
    }
    int64_t end = check_now_ns() + check_ms(PATIENCE_MS) * 1000000LL;
    for (int i = 0; i < SERVERS; i++) {
        while (exists(i, "report")) {
            CHECK(check_now_ns() < end);
            usleep(5000);
        }
    }
    snib_close(client);
}

/* ---- Which servers ---------------------------------------------------------------------- */

TEST(a_server_under_two_names_is_refused)
{
    char url[300];
    snib_error error = {0};
    start_servers();
    snprintf(url, sizeof url, "redlock://127.0.0.1:%d,localhost:%d,127.0.0.1:%d?state=%s",
             servers[0].port, servers[0].port, servers[1].port, check_tmpdir());
    snib *client = client_of(url);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "one and the same server") != NULL);
    for (int i = 0; i < 2; i++) {
        int64_t end = check_now_ns() + check_ms(PATIENCE_MS) * 1000000LL;
        while (exists(i, "report")) {
            CHECK(check_now_ns() < end);
            usleep(5000);
        }
    }
    snib_close(client);
}

TEST(one_and_two_servers_are_refused_with_advice)
{
    snib *client = NULL;
    snib_error error = {0};
    CHECK_INT(snib_open(&client, "redlock://a", &error), ==, SNIB_EINVAL);
    CHECK(strstr(error.message, "for one server there is redis:") != NULL);
    CHECK_INT(snib_open(&client, "redlock://a,b", &error), ==, SNIB_EINVAL);
    CHECK(strstr(error.message, "at least 3") != NULL);
}

TEST(of_four_servers_three_are_needed)
{
    char url[300];
    snib_error error = {0};
    start_servers();
    snprintf(url, sizeof url,
             "redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?state=%s",
             servers[0].port, servers[1].port, servers[2].port, servers[3].port, check_tmpdir());
    snib *client = client_of(url);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_OK);
    server_kill(&servers[0]);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_OK);
    server_kill(&servers[1]);
    CHECK(try_it(client, "report", &error) != SNIB_OK);
    CHECK(strstr(error.message, "2 of 4 servers can vote, 3 are needed") != NULL);
    snib_close(client);
}

static int note_finding(const snib_finding *finding, void *arg)
{
    char *all = arg;
    size_t used = strlen(all);
    snprintf(all + used, 4000 - used, "%s: %s\n", finding->about, finding->text);
    return 0;
}

TEST(the_doctor_counts_a_dead_server_and_still_states_the_promise)
{
    char found[4000] = "", dead[40];
    start_servers();
    snprintf(dead, sizeof dead, "127.0.0.1:%d", servers[2].port);
    server_kill(&servers[2]);
    snib *client = client_of(cluster(""));
    CHECK_INT(snib_examine(client, note_finding, found, NULL), ==, SNIB_OK);
    const char *at = strstr(found, dead);
    CHECK(at != NULL && strstr(at + 1, dead) == NULL);
    CHECK(strstr(found, "majority: 4 of 5 servers vote, 3 are needed: 1 can be spared\n") != NULL);
    CHECK(strstr(found, "promise: one holder per lock while a majority of the 5 servers") != NULL);
    snib_close(client);
}

/* ---- Servers that may have forgotten ---------------------------------------------------- */

TEST(restarted_servers_do_not_vote_and_a_wait_for_them_is_explained)
{
    start_servers();
    snib *client = client_of(cluster("&max-lease=30s&ttl=10s"));
    snib_lease *lease = take(client, "report", NULL);
    await_runs(SERVERS);
    for (int i = 0; i < 3; i++) { /* they forget, and have no part in the next majority */
        server_kill(&servers[i]);
        server_start(&servers[i]);
    }
    snib *other = client_of(cluster("&max-lease=30s&ttl=10s"));
    snib_error error = {0};
    CHECK_INT(try_it(other, "free", &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "restarted") != NULL);
    CHECK(strstr(error.message, "quarantine=no") != NULL);
    (void)snib_release(&lease, NULL);
    snib_close(client);
    snib_close(other);
}

TEST(a_restarted_server_is_not_missed_while_the_others_are_a_majority)
{
    start_servers();
    snib *client = client_of(cluster(""));
    snib_error error = {0};
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_OK);
    server_kill(&servers[0]);
    server_start(&servers[0]);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_OK);
    snib_close(client);
}

TEST(a_server_whose_clock_jumped_does_not_vote)
{
    struct clock_shim clock;
    clock_shim_open(&clock);
    server_init(&servers[0], "shimmed");
    clock_shim_use(&clock, &servers[0]);
    server_redis_prepare(&servers[0], NULL);
    server_start(&servers[0]);
    for (int i = 1; i < SERVERS; i++) {
        server_redis(&servers[i], NULL);
    }
    snib *client = client_of(cluster(""));
    snib_error error = {0};
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_OK);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_OK);
    clock_shim_wall(&clock, 60000);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_OK); /* by the others */
    server_kill(&servers[1]);
    server_kill(&servers[2]);
    snib_options options = waiting(200);
    snib_lease *lease = NULL;
    CHECK(snib_acquire(&lease, client, "report", &options, &error) != SNIB_OK);
    CHECK(strstr(error.message, "its clock jumped by +60") != NULL);
    snib_close(client);
}

/* ---- Looking ---------------------------------------------------------------------------- */

static int count_one(const snib_seen *seen, void *arg)
{
    *(int *)arg += seen->size > 0;
    return 0;
}

/* It hangs up on whoever comes: several questions are lost at one moment, when a majority has
 * answered. */
TEST(a_look_is_over_once_when_a_server_hangs_up)
{
    start_servers();
    redisContext *only = raw_open(servers[2].port);
    raw_number(only, "CONFIG SET maxclients 1");
    for (int i = 0; i < 12; i++) {
        int count = 0;
        snib *client = client_of(cluster(""));
        CHECK_INT(snib_inspect(client, "report", count_one, &count, NULL), ==, SNIB_OK);
        CHECK_INT(count, ==, 0);
        snib_close(client);
    }
    redisFree(only);
}

/* ---- Leftovers -------------------------------------------------------------------------- */

struct wait {
    snib *client;
    char name[20];
    atomic_bool has;
};

static void *wait_and_have(void *arg)
{
    struct wait *w = arg;
    snib_lease *lease = take(w->client, w->name, NULL);
    atomic_store(&w->has, true);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    return NULL;
}

/* Whoever waits asks one server first. What another program left behind there is not the lock: each
 * of the five is the first one here. */
TEST(who_waits_has_it_though_one_server_keeps_what_is_over)
{
    static struct wait waits[SERVERS];
    snib_lease *leases[SERVERS];
    pthread_t threads[SERVERS];
    start_servers();
    snib *holder = client_of(cluster("&ttl=5s")), *waiter = client_of(cluster("&ttl=5s"));
    for (int i = 0; i < SERVERS; i++) {
        redisContext *raw = raw_open(servers[i].port);
        waits[i].client = waiter;
        snprintf(waits[i].name, sizeof waits[i].name, "left%d", i);
        raw_number(raw, "SET %s orphan", waits[i].name);
        redisFree(raw);
        leases[i] = take(holder, waits[i].name, NULL);
        CHECK(pthread_create(&threads[i], NULL, wait_and_have, &waits[i]) == 0);
    }
    usleep(500000);
    for (int i = 0; i < SERVERS; i++) {
        CHECK(!atomic_load(&waits[i].has));
        CHECK_INT(snib_release(&leases[i], NULL), ==, SNIB_OK);
    }
    for (int i = 0; i < SERVERS; i++) {
        pthread_join(threads[i], NULL);
    }
    snib_close(holder);
    snib_close(waiter);
}

/* ---- Under load ------------------------------------------------------------------------- */

enum { WORKERS = 4, TURNS = 60 };

static atomic_int inside, turns;
static uint64_t last_token;

static void *work(void *arg)
{
    snib *client = arg;
    for (int i = 0; i < TURNS; i++) {
        snib_lease *lease = NULL;
        snib_error error = {0};
        snib_options options = waiting(-1);
        CHECK_OK(snib_acquire(&lease, client, "report", &options, &error), error.message);
        CHECK_INT(atomic_fetch_add(&inside, 1), ==, 0);
        CHECK(snib_token(lease) > last_token);
        last_token = snib_token(lease);
        usleep(2000);
        atomic_fetch_sub(&inside, 1);
        (void)snib_release(&lease, NULL);
        atomic_fetch_add(&turns, 1);
    }
    return NULL;
}

TEST(any_two_are_killed_stopped_and_restarted_under_load)
{
    pthread_t threads[WORKERS];
    snib *clients[WORKERS];
    start_servers();
    for (int i = 0; i < WORKERS; i++) {
        clients[i] = client_of(cluster("&max-lease=2s&ttl=2s"));
        CHECK_INT(try_it(clients[i], "warm", NULL), ==, SNIB_OK);
        CHECK(pthread_create(&threads[i], NULL, work, clients[i]) == 0);
    }
    for (int round = 0; atomic_load(&turns) < WORKERS * TURNS; round++) {
        struct server *a = &servers[round % SERVERS], *b = &servers[(round + 2) % SERVERS];
        if (round % 2) {
            server_pause(a);
            server_pause(b);
            usleep(300000);
            server_resume(a);
            server_resume(b);
            usleep(100000);
        } else { /* the quarantine is over before another one forgets */
            server_kill(a);
            server_kill(b);
            usleep(100000);
            server_start(a);
            server_start(b);
            usleep(4500000);
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
        snib_close(clients[i]);
    }
}
