/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Examinations: each thing that decides what is promised is found, and said with a remedy.
 */
#include "clock_shim.h"
#include "redis_fake.h"
#include "redis_group.h"
#include "redis_world.h"

enum { FINDINGS = 24 };

/* All findings of one examination. */
static struct {
    int count;
    struct {
        int verdict;
        char about[32], text[600], remedy[200];
    } each[FINDINGS];
} found;

static struct server server;

static int keep(const snib_finding *finding, void *arg)
{
    (void)arg;
    CHECK_INT(found.count, <, FINDINGS);
    found.each[found.count].verdict = finding->verdict;
    snprintf(found.each[found.count].about, sizeof found.each[0].about, "%s", finding->about);
    snprintf(found.each[found.count].text, sizeof found.each[0].text, "%s", finding->text);
    snprintf(found.each[found.count].remedy, sizeof found.each[0].remedy, "%s",
             finding->remedy ? finding->remedy : "");
    CHECK(strchr(finding->text, '\n') == NULL);
    CHECK_INT(finding->remedy != NULL, ==, finding->verdict != SNIB_GOOD);
    found.count++;
    return 0;
}

static void examine(const char *url)
{
    snib_error error = {0};
    snib *client = client_of(url);
    found.count = 0;
    CHECK_OK(snib_examine(client, keep, NULL, &error), error.message);
    snib_close(client);
}

/* One finding about it, with this verdict and these words. */
static void must_find(const char *about, int verdict, const char *words)
{
    int count = 0;
    for (int i = 0; i < found.count; i++) {
        if (strcmp(found.each[i].about, about) == 0) {
            count++;
            if (found.each[i].verdict != verdict || !strstr(found.each[i].text, words)) {
                FAIL("%s: verdict %d: %s", about, found.each[i].verdict, found.each[i].text);
            }
        }
    }
    if (count != 1) {
        FAIL("%d findings about %s", count, about);
    }
}

static const char *remedy_of(const char *about)
{
    int i = 0;
    while (i < found.count && strcmp(found.each[i].about, about) != 0) {
        i++;
    }
    return i < found.count ? found.each[i].remedy : "";
}

static bool has_no_keys(void *raw)
{
    return raw_number(raw, "DBSIZE") == 0;
}

TEST(a_sound_server_is_found_sound_and_left_as_it_was)
{
    static const char *const good[] = {"address", "round trip", "password", "version", "width",
                                       "role",    "replicas",   "eviction", "clock",   "rights",
                                       "lock",    "inbox",      "age"};
    static const char *const extra[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    char url[512];
    server_redis(&server, extra);
    redisContext *raw = raw_open(server.port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?state=%s/state", server.port, check_tmpdir());
    snib *client = client_of(url); /* who has held a lock there knows it */
    CHECK_INT(try_it(client, "report", NULL), ==, SNIB_OK);
    snib_close(client);
    raw_number(raw, "FLUSHALL");
    examine(url);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        must_find(good[i], SNIB_GOOD, "");
    }
    must_find("version", SNIB_GOOD, "redis");
    must_find("persistence", SNIB_GOOD, "loses nothing");
    CHECK(check_until(has_no_keys, raw, PATIENCE_MS));
    raw_no_script_failed(raw);
    redisFree(raw);
}

TEST(an_examination_disturbs_nobody)
{
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    struct helper *helpers = helpers_new(1, url_of(server.port, ""), "report");
    helpers_spawn(helpers, 1);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers->go);
    await_line(raw, "report", 1);
    examine(url_of(server.port, ""));
    must_find("lock", SNIB_GOOD, "given back");
    snib_error error = {0};
    found.count = 0;
    CHECK_OK(snib_examine(client, keep, NULL, &error), error.message); /* with an inbox, and held */
    must_find("inbox", SNIB_GOOD, "");
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    helper_must_hold(helpers);
    helper_end(helpers);
    snib_close(client);
    redisFree(raw);
}

TEST(what_is_not_there_is_a_finding)
{
    static struct fake fake = {.greeting = "HTTP/1.1 400 Bad Request\r\n\r\n"};
    char url[256];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port_claim());
    examine(url);
    must_find("address", SNIB_BAD, "refused");
    CHECK_INT(found.count, ==, 1);
    fake_start(&fake);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", fake.port);
    examine(url);
    must_find("address", SNIB_BAD, "another protocol");
}

TEST(a_mute_server_is_found_mute_in_time)
{
    struct proxy proxy;
    server_redis(&server, NULL);
    proxy_start(&proxy, server.port);
    proxy_door(&proxy, PROXY_DARK);
    int64_t start = check_now_ns();
    examine(url_of(proxy.port, "timeout=300ms"));
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(3000));
    must_find("address", SNIB_BAD, "no answer for 0.3 s");
}

TEST(passwords_are_found_wrong_or_missing)
{
    static const char *const extra[] = {"--requirepass", "open-sesame", NULL};
    char url[256];
    server_redis(&server, extra);
    examine(url_of(server.port, ""));
    must_find("password", SNIB_BAD, "wants a password");
    CHECK(strstr(remedy_of("password"), "passfile=") && !strstr(remedy_of("password"), "db="));
    snprintf(url, sizeof url, "redis://:wrong-sesame@127.0.0.1:%d", server.port);
    examine(url);
    must_find("address", SNIB_GOOD, "");
    must_find("password", SNIB_BAD, "WRONGPASS");
    snprintf(url, sizeof url, "redis://:open-sesame@127.0.0.1:%d?quarantine=no", server.port);
    examine(url);
    must_find("password", SNIB_GOOD, "default");
    must_find("lock", SNIB_GOOD, "");
}

TEST(what_a_server_is_and_does_is_found)
{
    struct server replica;
    char port[8];
    static const char *const evicts[] = {"--maxmemory", "100mb", "--maxmemory-policy",
                                         "allkeys-lru", NULL};
    server_init(&server, "master");
    server_redis_prepare(&server, evicts);
    server_start(&server);
    snprintf(port, sizeof port, "%d", server.port);
    const char *const extra[] = {"--replicaof", "127.0.0.1", port, NULL};
    server_init(&replica, "replica");
    server_redis_prepare(&replica, extra);
    server_start(&replica);
    examine(url_of(server.port, "eviction=refuse"));
    must_find("eviction", SNIB_BAD, "allkeys-lru");
    must_find("role", SNIB_GOOD, "master");
    must_find("persistence", SNIB_BAD, "quarantine=no");
    examine(url_of(server.port, "eviction=allow"));
    must_find("eviction", SNIB_WARNING, "allkeys-lru");
    examine(url_of(replica.port, ""));
    must_find("role", SNIB_BAD, "replica");
    must_find("lock", SNIB_BAD, "READONLY");
}

TEST(a_restart_is_found_and_what_it_means)
{
    char url[512];
    server_redis(&server, NULL);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?state=%s/state", server.port, check_tmpdir());
    examine(url);
    must_find("age", SNIB_WARNING, "not seen before");
    must_find("persistence", SNIB_GOOD, "not relied on (none, a restart loses all locks)");
    must_find("persistence", SNIB_GOOD, "for 68 s");
    snib *client = client_of(url);
    CHECK_INT(try_it(client, "report", NULL), ==, SNIB_OK);
    snib_close(client);
    server_kill(&server);
    server_start(&server);
    examine(url);
    must_find("age", SNIB_WARNING, "in quarantine");
    must_find("lock", SNIB_WARNING, "locks are not granted for another");
    CHECK(strstr(remedy_of("lock"), "quarantine=no") != NULL);
}

TEST(a_clock_that_differs_is_found)
{
    struct clock_shim clock;
    clock_shim_open(&clock);
    server_init(&server, "redis");
    clock_shim_use(&clock, &server);
    server_redis_prepare(&server, NULL);
    server_start(&server);
    clock_shim_wall(&clock, 90 * 1000);
    examine(url_of(server.port, ""));
    must_find("clock", SNIB_WARNING, "ahead of us");
}

TEST(rights_that_are_missing_are_named)
{
    char url[256];
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    raw_number(raw, "ACL SETUSER locks on >p resetkeys resetchannels -@all ~snib:* &snib:* "
                    "+evalsha +eval +hmget +hset +hget +hgetall +hdel +hexists +pexpireat "
                    "+time +subscribe +pubsub|numsub +ping +select");
    snprintf(url, sizeof url, "redis://locks:p@127.0.0.1:%d?quarantine=no", server.port);
    examine(url);
    must_find("rights", SNIB_BAD, "PUBLISH");
    must_find("role", SNIB_WARNING, "INFO is denied");
    must_find("version", SNIB_WARNING, "INFO is denied");
    must_find("inbox", SNIB_GOOD, "");
    raw_number(raw, "ACL SETUSER locks +publish -subscribe");
    examine(url);
    must_find("rights", SNIB_WARNING, "SCAN, INFO");
    must_find("lock", SNIB_GOOD, "");
    must_find("inbox", SNIB_WARNING, "subscribe");
    raw_number(raw, "ACL SETUSER locks -hset");
    examine(url);
    must_find("rights", SNIB_BAD, "HSET");
    must_find("lock", SNIB_BAD, "");
    redisFree(raw);
}

/* A server that says it is an old one, of another house. */
static const char *product;

static void say_product(struct fake *f, int fd, const redisReply *command)
{
    (void)f;
    if (fake_is(command, "INFO")) {
        fake_say_bulk(fd, product);
    } else if (!fake_greets(fd, command)) {
        fake_say(fd, fake_is(command, "SUBSCRIBE") ? "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n"
                                                   : "+OK\r\n");
    }
}

TEST(other_houses_and_old_versions_are_named)
{
    static struct fake fake = {.answer = say_product};
    fake_start(&fake);
    product = "redis_version:6.0.16\r\narch_bits:64\r\n";
    examine(url_of(fake.port, ""));
    must_find("version", SNIB_WARNING, "redis 6.0.16");
    product =
        "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\narch_bits:64\r\n";
    examine(url_of(fake.port, ""));
    must_find("version", SNIB_GOOD, "valkey 8.0.1");
    product = "redis_version:6.3.4\r\nmvcc_depth:0\r\narch_bits:64\r\n";
    examine(url_of(fake.port, ""));
    must_find("version", SNIB_WARNING, "KeyDB 6.3.4");
    product = "redis_version:7.0.15\r\narch_bits:32\r\n";
    examine(url_of(fake.port, ""));
    must_find("width", SNIB_BAD, "32 bits");
}

/* ---- Replicas --------------------------------------------------------------------------- */

static struct redis_group group;

static void examine_group(const char *parameters)
{
    char url[512];
    group_url(&group, url, sizeof url, parameters);
    examine(url);
}

TEST_LIMIT(replicated_servers_are_examined_with_what_a_failover_could_lose, 120)
{
    group_start(&group, &(struct group_wish){.nodes = 3, .sentinels = 3});
    examine_group("quarantine=no");
    must_find("sentinels", SNIB_GOOD, "they name 127.0.0.1:");
    must_find("replicas", SNIB_GOOD, "bytes behind");
    must_find("failover", SNIB_WARNING, "it could lose");
    must_find("min-replicas", SNIB_WARNING, "goes on granting");
    examine_group("wait=1");
    must_find("failover", SNIB_WARNING, "that has not acknowledged");
    must_find("min-replicas", SNIB_GOOD, "not relied on");
    examine_group("wait=majority");
    must_find("failover", SNIB_GOOD, "68.0 s (1.1 x max-lease + 2 s)");
    must_find("persistence", SNIB_GOOD, "not relied on");
    must_find("epoch", SNIB_WARNING, "this master is new here");
    group_open_epoch(group.nodes[0].port, "snib", 3, 60000);
    examine_group("wait=majority");
    must_find("epoch", SNIB_GOOD, "confirmed");
    for (int i = 0; i < found.count; i++) {
        if (found.each[i].verdict == SNIB_BAD) {
            FAIL("%s: %s", found.each[i].about, found.each[i].text);
        }
    }
    group_do(group.nodes[0].port, "HSET snib:epoch at %lld", (long long)time(NULL) * 1000);
    examine_group("wait=majority");
    must_find("epoch", SNIB_WARNING, "in quarantine after a promotion");
    group_do(group.nodes[0].port, "HSET snib:epoch ok 0");
    group_do(group.nodes[0].port, "CONFIG SET repl-backlog-ttl 10");
    examine_group("wait=majority");
    must_find("epoch", SNIB_WARNING, "too few replicas");
    must_find("backlog", SNIB_WARNING, "quarantined when they are back");
    examine_group("wait=majority&replicas=1");
    must_find("epoch", SNIB_BAD, "this URL is refused");
    must_find("replicas", SNIB_BAD, "replicas=1 is what clients count on");
    examine_group("wait=all&replicas=3");
    must_find("replicas", SNIB_WARNING, "2 of 3 follow");
    must_find("failover", SNIB_GOOD, "has all that counts");
    server_kill(&group.sentinels[0]);
    server_kill(&group.sentinels[1]);
    group_do(group.sentinels[2].port, "SENTINEL SET m down-after-milliseconds 500");
    examine_group("wait=majority");
    must_find("sentinels", SNIB_WARNING, "1 of 3 answer");
    must_find("sentinel", SNIB_WARNING, "after 500 ms");
}
