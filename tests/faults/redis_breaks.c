/* SPDX-License-Identifier: Apache-2.0 */
/* A holder that listens hears of a break at once; what it hears proves nothing. */
#include "redis_world.h"

static struct server server;

struct ear {
    atomic_bool lost;
    char why[160];
};

static void note_loss(const snib_event *event, void *arg)
{
    struct ear *ear = arg;
    if (event->state == SNIB_LOST) {
        snprintf(ear->why, sizeof ear->why, "%s", event->why);
        atomic_store(&ear->lost, true);
    }
}

/* Its next renewal is 20 s away. */
static snib_lease *take_listening(snib *client, struct ear *ear)
{
    snib_options options = waiting(0);
    options.on_event = note_loss;
    options.arg = ear;
    options.ttl_ms = 60000;
    return take(client, "report", &options);
}

static void await_listener(redisContext *raw)
{
    int64_t until = check_now_ns() + (int64_t)check_ms(10000) * 1000000;
    while (raw_number(raw, "PUBLISH snib:broken x") == 0) {
        CHECK(check_now_ns() < until);
        check_sleep_ms(20);
    }
}

static void must_be_told(snib *client, const struct ear *ear)
{
    int64_t until = check_now_ns() + (int64_t)check_ms(10000) * 1000000;
    while (!atomic_load(&ear->lost)) {
        CHECK(check_now_ns() < until);
        (void)snib_dispatch(client, 20);
    }
}

/* Whoever may publish can say so; the server is asked, and it was not. */
TEST(a_forged_break_takes_nothing_away)
{
    static const char *const forged[] = {"x:1 snib:{report}", "snib:{report}", "", " ", "%s %n"};
    struct ear ear = {0};
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take_listening(client, &ear);
    await_listener(raw);
    for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
        CHECK_INT(raw_number(raw, "PUBLISH snib:broken %b", forged[i], strlen(forged[i])), ==, 1);
    }
    (void)snib_dispatch(client, 200);
    CHECK(!atomic_load(&ear.lost));
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    snib_close(client);
    redisFree(raw);
}

/* The message found nobody there: it is asked for when the subscription is back. */
TEST(a_break_while_the_subscription_is_cut_is_heard_when_it_is_back)
{
    struct ear ear = {0};
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take_listening(client, &ear);
    await_listener(raw);
    freeReplyObject(redisCommand(raw, "MULTI"));
    freeReplyObject(redisCommand(raw, "CLIENT KILL TYPE pubsub"));
    freeReplyObject(
        redisCommand(raw, "EVAL %s 1 snib:{report}",
                     "local s = redis.call('HGET', KEYS[1], 's') "
                     "redis.call('HSET', KEYS[1], 's', '\\2\\5' .. string.sub(s, 3), 'b', 'me')"));
    freeReplyObject(redisCommand(raw, "EXEC"));
    must_be_told(client, &ear);
    CHECK(strstr(ear.why, "broken by me") != NULL);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
    redisFree(raw);
}

TEST(who_took_a_lock_away_is_named_to_its_holder)
{
    struct ear ear = {0};
    char us[40];
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    snib *client = client_of(url_of(server.port, ""));
    snib *other = client_of(url_of(server.port, ""));
    snib_lease *lease = take_listening(client, &ear);
    await_listener(raw);
    CHECK_INT(snib_seize(other, "report", snib_token(lease), NULL), ==, SNIB_OK);
    must_be_told(client, &ear);
    snprintf(us, sizeof us, ":%d", (int)getpid());
    CHECK(strstr(ear.why, "taken away by") != NULL && strstr(ear.why, us) != NULL);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(other);
    snib_close(client);
    redisFree(raw);
}

/* A lock that is held for a moment needs no second connection. */
TEST(a_short_hold_opens_no_subscription)
{
    struct ear ear = {0};
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    snib *client = client_of(url_of(server.port, ""));
    for (int i = 0; i < 20; i++) {
        snib_lease *lease = take_listening(client, &ear);
        give(&lease);
    }
    CHECK_INT(raw_number(raw, "PUBLISH snib:broken x"), ==, 0);
    snib_close(client);
    redisFree(raw);
}

/* Rights that were enough before there was that channel. */
static const char *narrow_user(redisContext *raw)
{
    static char url[128];
    raw_number(raw, "ACL SETUSER locks on >p resetkeys resetchannels -@all ~snib:* &snib:inbox:* "
                    "+evalsha +eval +hmget +hset +hget +hgetall +hdel +hexists +pexpireat +info "
                    "+time +publish +subscribe +pubsub|numsub +ping +select +client|setname");
    snprintf(url, sizeof url, "redis://locks:p@127.0.0.1:%d?quarantine=no", server.port);
    return url;
}

TEST(who_may_not_hear_of_breaks_stands_in_line_all_the_same)
{
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    const char *url = narrow_user(raw);
    struct helper *helpers = helpers_new(1, url, "report");
    helpers_spawn(helpers, 1);
    snib *client = client_of(url);
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers->go);
    await_line(raw, "report", 1);
    give(&lease);
    helper_must_hold(helpers);
    helper_end(helpers);
    snib_close(client);
    redisFree(raw);
}

TEST(who_may_not_tell_of_a_break_breaks_all_the_same)
{
    snib_error error = {0};
    struct ear ear = {0};
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    snib *client = client_of(narrow_user(raw));
    snib *other = client_of(url_of(server.port, ""));
    snib_lease *lease = take_listening(other, &ear);
    CHECK_OK(snib_seize(client, "report", snib_token(lease), &error), error.message);
    CHECK_INT(try_it(client, "report", NULL), ==, SNIB_OK);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(other);
    snib_close(client);
    redisFree(raw);
}

/* What was said of a lock that turned out to be ours is not said again when it is lost otherwise.
 */
TEST(nobody_is_blamed_for_what_he_did_not_do)
{
    struct ear ear = {0};
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take_listening(client, &ear);
    await_listener(raw);
    long long asked = raw_calls(raw, "evalsha");
    CHECK_INT(raw_number(raw, "PUBLISH snib:broken %s", "innocent:1 snib:{report}"), ==, 1);
    int64_t until = check_now_ns() + check_ms(10000) * 1000000LL;
    while (raw_calls(raw, "evalsha") == asked) { /* it has heard, and asks */
        CHECK(check_now_ns() < until);
        check_sleep_ms(20);
    }
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    CHECK_INT(raw_number(raw, "DEL snib:{report}"), ==, 1);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_ELOST);
    must_be_told(client, &ear);
    CHECK(strstr(ear.why, "innocent") == NULL);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
    redisFree(raw);
}

/* Two locks are taken away by two, and all of it is heard before anything is answered. */
TEST(each_loss_names_its_own_breaker)
{
    enum { LOCKS = 2 };
    static const char *const names[LOCKS] = {"one", "two"};
    struct ear ears[LOCKS] = {0};
    snib_lease *leases[LOCKS];
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    snib *client = client_of(url_of(server.port, ""));
    for (int i = 0; i < LOCKS; i++) {
        snib_options options = waiting(0);
        options.on_event = note_loss;
        options.arg = &ears[i];
        options.ttl_ms = 60000;
        leases[i] = take(client, names[i], &options);
    }
    await_listener(raw);
    freeReplyObject(redisCommand(raw, "MULTI"));
    for (int i = 0; i < LOCKS; i++) {
        freeReplyObject(redisCommand(raw, "DEL snib:{%s}", names[i]));
        freeReplyObject(redisCommand(raw, "PUBLISH snib:broken %s%s%s%s%s", "by-", names[i],
                                     ":1 snib:{", names[i], "}"));
    }
    freeReplyObject(redisCommand(raw, "EXEC"));
    for (int i = 0; i < LOCKS; i++) {
        char whom[40];
        must_be_told(client, &ears[i]);
        snprintf(whom, sizeof whom, "taken away by by-%s:1", names[i]);
        CHECK_STR(ears[i].why, whom);
        CHECK_INT(snib_release(&leases[i], NULL), ==, SNIB_ELOST);
    }
    snib_close(client);
    redisFree(raw);
}

/* A lease that ran out here is left to run out there, whatever happens to the subscription. */
TEST(what_is_lost_is_not_kept_alive_by_listening)
{
    struct ear ear = {0};
    server_redis(&server, NULL);
    struct proxy proxy;
    proxy_start(&proxy, server.port);
    redisContext *raw = raw_open(server.port);
    snib *client = client_of(url_of(proxy.port, "timeout=500ms"));
    snib_options options = waiting(0);
    options.on_event = note_loss;
    options.arg = &ear;
    options.ttl_ms = 3000;
    snib_lease *lease = take(client, "report", &options);
    await_listener(raw);
    proxy_set(&proxy, PROXY_BOTH, PROXY_STALL, 0);
    must_be_told(client, &ear);
    proxy_cut(&proxy, PROXY_RESET); /* what was asked meanwhile does not arrive */
    proxy_heal(&proxy);
    await_listener(raw);
    snib *other = client_of(url_of(server.port, ""));
    int64_t until = check_now_ns() + check_ms(10000) * 1000000LL;
    while (try_it(other, "report", NULL) != SNIB_OK) { /* though it listens again and again */
        CHECK(check_now_ns() < until);
        raw_number(raw, "CLIENT KILL TYPE pubsub");
        check_sleep_ms(200);
    }
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(other);
    snib_close(client);
    redisFree(raw);
}
