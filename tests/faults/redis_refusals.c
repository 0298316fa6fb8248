/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that is there and says "not now", "not here" or "not this".
 */
#include "redis_world.h"

static struct server server;

static int64_t since_ms(int64_t start_ns)
{
    return (check_now_ns() - start_ns) / 1000000;
}

static void begin_busy_server(void)
{
    static const char *const extra[] = {"--lua-time-limit", "5", NULL};
    server_redis(&server, extra);
}

/* Keep the server busy for so long; everybody else is told BUSY after 5 ms. Without waiting. */
static redisContext *keep_busy(int ms)
{
    char script[256];
    redisContext *raw = raw_open(server.port);
    int sent = 0;
    snprintf(script, sizeof script,
             "local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 "
             "end local over = now() + %d while now() < over do end return 1",
             ms);
    CHECK(redisAppendCommand(raw, "EVAL %s 0", script) == REDIS_OK);
    while (!sent) {
        CHECK(redisBufferWrite(raw, &sent) == REDIS_OK);
    }
    return raw;
}

static void await_busy(void)
{
    for (;;) {
        redisContext *raw = raw_open(server.port);
        redisReply *reply = redisCommand(raw, "PING");
        CHECK(reply != NULL);
        bool busy = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "BUSY", 4) == 0;
        freeReplyObject(reply);
        redisFree(raw);
        if (busy) {
            return;
        }
    }
}

static void await_over(redisContext *busy)
{
    redisReply *reply = NULL;
    CHECK(redisGetReply(busy, (void **)&reply) == REDIS_OK);
    freeReplyObject(reply);
    redisFree(busy);
}

/* ---- Looked at in vain ------------------------------------------------------------------ */

TEST(safety_43_a_restarted_server_that_is_too_busy_to_be_asked_is_not_believed)
{
    char url[512];
    snib_error error = {0};
    begin_busy_server();
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?state=%s/state&ttl=5s&max-lease=20s",
             server.port, check_tmpdir());
    snib *before = client_of(url);
    CHECK_OK(try_it(before, "report", &error), error.message);
    snib_close(before);
    server_kill(&server);
    server_start(&server);

    redisContext *busy = keep_busy(check_ms(400));
    await_busy();
    snib *client = client_of(url);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EUNREACH);
    CHECK(strstr(error.message, "BUSY") != NULL);
    await_over(busy);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "quarantine") != NULL);
    snib_close(client);
}

/* ---- Names ------------------------------------------------------------------------------ */

TEST(a_connection_name_that_no_server_takes_is_refused)
{
    static const char *const bad[] = {"my%20app", "a%09b", "caf%c3%a9"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char url[128];
        snib *client = NULL;
        snib_error error = {0};
        snprintf(url, sizeof url, "redis://h?name=%s", bad[i]);
        CHECK_INT(snib_open(&client, url, &error), ==, SNIB_EINVAL);
        CHECK(strstr(error.message, "name=") != NULL);
    }
}

TEST(safety_46_without_a_name_in_the_servers_list_waiters_stand_in_line_all_the_same)
{
    static const char *const extra[] = {"--rename-command", "CLIENT", "", NULL};
    server_redis(&server, extra);
    redisContext *raw = raw_open(server.port);
    struct helper *helpers = helpers_new(1, url_of(server.port, ""), "report");
    helpers_spawn(helpers, 1);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers->go);
    await_line(raw, "report", 1);
    int64_t start = check_now_ns();
    give(&lease);
    helper_must_hold(helpers);
    CHECK_INT(since_ms(start), <, check_ms(600)); /* by message, not by a re-check */
    helper_end(helpers);
    snib_close(client);
    redisFree(raw);
}

/* ---- Releases --------------------------------------------------------------------------- */

TEST(safety_47_a_release_refused_by_a_busy_server_is_repeated)
{
    snib_error error = {0};
    begin_busy_server();
    snib *client = client_of(url_of(server.port, ""));
    snib *other = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    CHECK_OK(try_it(other, "other", &error), error.message);
    redisContext *busy = keep_busy(check_ms(300));
    await_busy();
    CHECK_OK(snib_release(&lease, &error), error.message);
    await_over(busy);
    CHECK_OK(try_it(other, "report", &error), error.message);
    snib_close(other);
    snib_close(client);
}

static bool is_free(void *client)
{
    return try_it(client, "report", NULL) == SNIB_OK;
}

TEST(safety_47_a_release_that_was_refused_for_too_long_is_done_later)
{
    snib_error error = {0};
    begin_busy_server();
    snib *client = client_of(url_of(server.port, "timeout=200ms"));
    snib *other = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    CHECK_OK(try_it(other, "other", &error), error.message);
    redisContext *busy = keep_busy(check_ms(1000));
    await_busy();
    int64_t start = check_now_ns();
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_EUNKNOWN);
    CHECK_INT(since_ms(start), <, check_ms(900));
    await_over(busy);
    CHECK(check_until(is_free, other, check_ms(5000))); /* and not after the ttl of 30 s */
    snib_close(other);
    snib_close(client);
}

/* ---- Failover --------------------------------------------------------------------------- */

/* A master and its replica, and an address that leads to whichever is the master. */
static struct server second;
static struct proxy proxy;
static redisContext *first_raw, *second_raw;

static bool has_key(void *arg)
{
    (void)arg;
    return raw_number(second_raw, "EXISTS snib:{report} report") == 1;
}

static void begin_pair(void)
{
    static const char *const at_once[] = {"--repl-diskless-sync-delay", "0", NULL};
    char port[8];
    server_init(&server, "first");
    server_redis_prepare(&server, at_once);
    server_start(&server);
    snprintf(port, sizeof port, "%d", server.port);
    const char *const extra[] = {"--replicaof", "127.0.0.1", port, NULL};
    server_init(&second, "second");
    server_redis_prepare(&second, extra);
    server_start(&second);
    first_raw = raw_open(server.port);
    second_raw = raw_open(second.port);
    proxy_start(&proxy, server.port);
}

/* They change places. Connections that stand keep standing. */
static void fail_over(void)
{
    CHECK(check_until(has_key, NULL, PATIENCE_MS));
    raw_number(second_raw, "REPLICAOF NO ONE");
    raw_number(first_raw, "REPLICAOF 127.0.0.1 %d", second.port);
    proxy_target(&proxy, second.port);
}

TEST(safety_47_a_release_refused_by_a_former_master_reaches_the_new_one)
{
    snib_error error = {0};
    begin_pair();
    snib *client = client_of(url_of(proxy.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    fail_over();
    CHECK_OK(snib_release(&lease, &error), error.message);
    snib *other = client_of(url_of(second.port, ""));
    CHECK_OK(try_it(other, "report", &error), error.message);
    snib_close(other);
    snib_close(client);
}

static bool was_granted(void *arg)
{
    _Atomic(snib_lease *) *lease = arg;
    return atomic_load(lease) != NULL;
}

static bool is_awaited(void *arg)
{
    (void)arg;
    return raw_number(first_raw, "EVAL %s 1 snib:freed:report",
                      "return redis.call('PUBSUB', 'NUMSUB', KEYS[1])[2]") == 1;
}

/* Nobody stands in line there, and nothing that a waiter asks for would be written. */
static void leave_a_former_master(const char *with)
{
    begin_pair();
    snib *client = client_of(url_of(proxy.port, with));
    snib *other = client_of(url_of(proxy.port, with));
    snib_options options = SNIB_OPTIONS;
    _Atomic(snib_lease *) waited = NULL;
    snib_error error = {0};
    snib_lease *lease = take(client, "report", NULL);
    options.wait_ms = -1;
    CHECK_OK(snib_acquire_async(NULL, other, "report", &options, note_grant, &waited, &error),
             error.message);
    CHECK(check_until(is_awaited, NULL, PATIENCE_MS)); /* it knows the first as a master */
    CHECK(check_until(has_key, NULL, PATIENCE_MS));
    raw_number(second_raw, "REPLICAOF NO ONE");
    raw_number(first_raw, "REPLICAOF 127.0.0.1 1"); /* what it has, it keeps */
    proxy_target(&proxy, second.port);
    CHECK_OK(snib_release(&lease, &error), error.message);
    CHECK(check_until(was_granted, &waited, PATIENCE_MS));
    lease = atomic_load(&waited);
    give(&lease);
    snib_close(other);
    snib_close(client);
}

TEST(who_waits_in_the_layout_plain_leaves_a_former_master)
{
    leave_a_former_master("layout=plain");
}

TEST(who_waits_without_scripts_leaves_a_former_master)
{
    leave_a_former_master("layout=plain&scripts=no");
}

/* The address leads to the replica before that is promoted, as it does in most failovers. */
TEST(who_waits_outlasts_a_master_that_is_a_replica_for_a_while)
{
    begin_pair();
    struct helper *helpers = helpers_new(1, url_of(proxy.port, "ttl=20s"), "report");
    helpers_spawn(helpers, 1);
    snib *client = client_of(url_of(server.port, "ttl=30s"));
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers->go);
    await_line(first_raw, "report", 1);
    proxy_target(&proxy, second.port);
    proxy_cut(&proxy, PROXY_CLOSE);
    check_sleep_ms(2500); /* it asks again, more than once */
    CHECK(!check_flag_is_set(&helpers->held));
    raw_number(second_raw, "REPLICAOF NO ONE");
    raw_number(second_raw, "DEL snib:{report}"); /* as if the holder had released it there */
    helper_must_hold(helpers);
    helper_end(helpers);
    (void)snib_release(&lease, NULL);
    snib_close(client);
}

/* A replica that has nothing yet says nothing about what its master has. */
TEST(a_replica_without_data_ends_no_lease_and_no_release)
{
    static const char *const nowhere[] = {"--replicaof", "127.0.0.1", "1", NULL};
    snib_error error = {0};
    server_redis(&server, NULL);
    server_init(&second, "second");
    server_redis_prepare(&second, nowhere);
    server_start(&second);
    proxy_start(&proxy, server.port);
    snib *client = client_of(url_of(proxy.port, "ttl=12s"));
    snib_lease *lease = take(client, "report", NULL);
    proxy_target(&proxy, second.port);
    proxy_cut(&proxy, PROXY_CLOSE);
    CHECK_INT(snib_verify(lease, &error), ==, SNIB_EUNKNOWN);
    CHECK_INT(snib_state(lease), !=, SNIB_LOST);
    proxy_target(&proxy, server.port);
    proxy_cut(&proxy, PROXY_CLOSE);
    CHECK_OK(snib_verify(lease, &error), error.message);
    proxy_target(&proxy, second.port);
    proxy_cut(&proxy, PROXY_CLOSE);
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_EUNKNOWN);
    proxy_target(&proxy, server.port);
    proxy_cut(&proxy, PROXY_CLOSE);
    snib *other = client_of(url_of(server.port, ""));
    CHECK(check_until(is_free, other, check_ms(8000))); /* the release is repeated */
    snib_close(other);
    snib_close(client);
}

static bool listens_at_the_second(void *arg)
{
    (void)arg;
    redisReply *reply = redisCommand(second_raw, "PUBSUB CHANNELS snib:inbox:*");
    CHECK(reply != NULL && reply->type == REDIS_REPLY_ARRAY);
    bool listens = reply->elements == 1;
    freeReplyObject(reply);
    return listens;
}

TEST(safety_45_after_a_failover_the_inbox_follows_the_commands)
{
    begin_pair();
    struct helper *helpers = helpers_new(1, url_of(proxy.port, ""), "report");
    helpers_spawn(helpers, 1);
    snib *client = client_of(url_of(proxy.port, "ttl=3s"));
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers->go);
    await_line(first_raw, "report", 1);
    fail_over();
    CHECK(check_until(listens_at_the_second, NULL, check_ms(6000)));
    await_line(second_raw, "report", 1);
    int64_t start = check_now_ns();
    give(&lease);
    helper_must_hold(helpers);
    CHECK_INT(since_ms(start), <, check_ms(600)); /* by message, not by a re-check */
    helper_end(helpers);
    snib_close(client);
}
