/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules made by hand: a process that is stopped for longer than its session, a session that
 * ends at every step of an acquire, a create that arrives after its session has moved on, a release
 * that nobody waits for.
 */
#include "zookeeper_world.h"

static struct server server;
static struct proxy proxy;

/* ---- Stopped ---------------------------------------------------------------------------- */

struct sleeper {
    struct overlap_log *log;
    struct check_flag held, over;
    char url[512];
    _Atomic int state, code;
};

static void fall_asleep(void *arg)
{
    struct sleeper *self = arg;
    snib *client = client_of(self->url);
    snib_lease *lease = take(client, "report");
    size_t belief = begin_to_believe(self->log, lease);
    check_flag_set(&self->held); /* stopped in what comes now */
    go_on_believing(self->log, belief, lease, INT64_C(60000000000), &self->over);
    atomic_store(&self->state, snib_state(lease));
    atomic_store(&self->code, snib_release(&lease, NULL));
    lease = take(client, "report");
    give(&lease);
    snib_close(client);
}

TEST_LIMIT(a_process_stopped_past_its_session_knows_when_it_wakes, 60)
{
    struct sleeper *sleeper = check_shared(sizeof *sleeper);
    sleeper->log = overlap_open(1000);
    server_zookeeper(&server, NULL);
    snprintf(sleeper->url, sizeof sleeper->url, "%s", url_of(server.port, "ttl=500ms"));
    pid_t pid = check_spawn(fall_asleep, sleeper);
    snib *client = client_of(url_of(server.port, "ttl=30s"));
    check_flag_wait(&sleeper->held, PATIENCE_MS);
    check_stop(pid);
    snib_lease *lease = take(client, "report");
    size_t belief = begin_to_believe(sleeper->log, lease);
    check_cont(pid);
    check_sleep_ms(200); /* it wakes beside us */
    overlap_end(sleeper->log, belief);
    give(&lease);
    check_join(pid, PATIENCE_MS);
    CHECK_INT(atomic_load(&sleeper->state), ==, SNIB_LOST);
    CHECK_INT(atomic_load(&sleeper->code), ==, SNIB_ELOST);
    overlap_assert(sleeper->log);
    await_nobody(client, "report");
    snib_close(client);
}

/* ---- A session that ends ---------------------------------------------------------------- */

/* Nothing comes through for longer than the session, from so many bytes on. */
static void starve(enum proxy_way way, int bytes)
{
    proxy_after(&proxy, way, (uint64_t)bytes, PROXY_BYTES, PROXY_THEN_STALL);
    proxy_door(&proxy, PROXY_SILENT);
}

static void feed(void *arg)
{
    (void)arg;
    check_sleep_ms(1200); /* three sessions */
    proxy_door(&proxy, PROXY_OPEN);
    proxy_cut(&proxy, PROXY_RESET);
    proxy_heal(&proxy);
}

struct attempt {
    struct check_flag go, begin, done;
    struct check_flag give, given;
    char url[512];
    _Atomic uint64_t token;
    _Atomic int code;
    pid_t pid;
};

static void attempt_once(void *arg)
{
    struct attempt *self = arg;
    check_flag_wait(&self->go, 60000);
    snib *client = client_of(self->url);
    snib_lease *lease = take(client, "warm");
    snib_options options = waiting(PATIENCE_MS);
    options.flags = SNIB_RETRY;
    (void)snib_release(&lease, NULL); /* on a busy machine the session may have ended meanwhile */
    check_flag_set(&self->begin);
    CHECK_INT(snib_acquire(&lease, client, "report", &options, NULL), ==, SNIB_OK);
    atomic_store(&self->token, snib_token(lease));
    check_flag_set(&self->done);
    check_flag_wait(&self->give, PATIENCE_MS);
    atomic_store(&self->code, snib_release(&lease, NULL));
    check_flag_set(&self->given);
    snib_close(client);
}

enum { STEPS = 11, STRIDE = 24 };

static void end_session_at_every_step(enum proxy_way way)
{
    struct attempt *attempts = check_shared(STEPS * sizeof *attempts);
    uint64_t before = 0;
    server_zookeeper(&server, NULL);
    proxy_start(&proxy, server.port);
    for (int i = 0; i < STEPS; i++) {
        snprintf(attempts[i].url, sizeof attempts[i].url, "%s",
                 url_of(proxy.port, "session=400ms&ttl=250ms&timeout=400ms"));
        attempts[i].pid = check_spawn(attempt_once, &attempts[i]);
    }
    snib *direct = client_of(url_of(server.port, "ttl=30s"));
    for (int i = 0; i < STEPS; i++) {
        struct attempt *attempt = &attempts[i];
        check_flag_set(&attempt->go);
        check_flag_wait(&attempt->begin, PATIENCE_MS);
        starve(way, i * STRIDE);
        feed(NULL);
        check_flag_wait(&attempt->done, PATIENCE_MS);
        CHECK_UINT(atomic_load(&attempt->token), >, before);
        before = atomic_load(&attempt->token);
        CHECK_INT(count_at(direct, "report"), <=, 1); /* none of an earlier session's */
        check_flag_set(&attempt->give);
        check_flag_wait(&attempt->given, PATIENCE_MS);
        check_join(attempt->pid, PATIENCE_MS);
        await_nobody(direct, "report");
    }
    snib_close(direct);
}

TEST_LIMIT(a_session_that_ends_while_a_request_is_under_way_leaves_no_node, 90)
{
    end_session_at_every_step(PROXY_TO_SERVER);
}

TEST_LIMIT(a_session_that_ends_while_an_answer_is_under_way_leaves_no_node, 90)
{
    end_session_at_every_step(PROXY_TO_CLIENT);
}

/* ---- A create that comes late ----------------------------------------------------------- */

/* The first member does not get the create before the session has moved to another one, where it
 * was asked for again: it must not make a second node. */
TEST_LIMIT(safety_68_a_create_held_back_while_the_session_moves_leaves_no_ghost, 90)
{
    static struct server members[ZOOKEEPER_MEMBERS];
    static struct proxy doors[ZOOKEEPER_MEMBERS];
    char url[512];
    server_zookeeper_ensemble_init(members);
    server_zookeeper_ensemble_start(members, NULL, NULL);
    for (int i = 0; i < ZOOKEEPER_MEMBERS; i++) {
        proxy_start(&doors[i], members[i].port);
    }
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/snib?session=3s",
             doors[0].port, doors[1].port, doors[2].port);
    snib *client = client_of(url);
    snib *direct = client_of(url_of(members[0].port, "ttl=30s"));
    for (int round = 0; round < 6; round++) {
        snib_lease *lease = take(client, "warm");
        give(&lease);
        int at = 0;
        for (int i = 0; i < ZOOKEEPER_MEMBERS; i++) {
            at = proxy_counts(&doors[i]).open > 0 ? i : at;
        }
        proxy_set(&doors[at], PROXY_TO_SERVER, PROXY_STALL, 0);
        lease = take(client, "report");
        CHECK_INT(proxy_counts(&doors[at]).open <= 1, ==, 1);
        proxy_heal(&doors[at]); /* now it arrives */
        check_sleep_ms(100);
        CHECK_INT(count_at(direct, "report"), ==, 1);
        CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
        give(&lease);
        check_sleep_ms(50);
        CHECK_INT(count_at(direct, "report"), ==, 0);
    }
    snib_stats stats = {.size = sizeof stats};
    CHECK_INT(snib_stats_read(client, &stats), ==, SNIB_OK);
    CHECK_UINT(stats.reconnects, >=, 6);
    CHECK_UINT(stats.lost, ==, 0);
    snib_close(direct);
    snib_close(client);
}

/* ---- A release that nobody waits for ------------------------------------------------------ */

TEST(a_release_that_nobody_waits_for_is_sent_by_itself)
{
    server_zookeeper(&server, NULL);
    snib *client = client_of(url_of(server.port, "session=60s"));
    snib *other = client_of(url_of(server.port, "session=60s"));
    snib_options options = waiting(PATIENCE_MS);
    options.flags = SNIB_ASYNC_RELEASE;
    for (int i = 0; i < 20; i++) {
        snib_lease *lease = NULL;
        CHECK_INT(snib_acquire(&lease, client, "report", &options, NULL), ==, SNIB_OK);
        CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
        lease = take(other, "report"); /* with nobody in a call of that client */
        give(&lease);
    }
    snib_close(other);
    snib_close(client);
}

TEST(closing_behind_a_release_that_nobody_waits_for_takes_no_longer)
{
    server_zookeeper(&server, NULL);
    snib_options options = waiting(PATIENCE_MS);
    options.flags = SNIB_ASYNC_RELEASE;
    for (int i = 0; i < 30; i++) {
        snib *client = client_of(url_of(server.port, "session=60s"));
        for (int k = 0; k < 5; k++) {
            snib_lease *lease = NULL;
            CHECK_INT(snib_acquire(&lease, client, "report", &options, NULL), ==, SNIB_OK);
            CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
        }
        int64_t start = check_now_ns();
        snib_close(client);
        CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(2000));
    }
}
