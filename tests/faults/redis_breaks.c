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
