/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One grant for several threads of a process, each with a token of its own.
 */
#include "engines/redis/script.h"
#include "redis_world.h"

#include <pthread.h>

enum { CREW = 16, TURNS = 100 };

static struct server server;

/* Threads that take turns, and what only one of them at a time may touch. */
struct crew {
    snib *client;
    pthread_t threads[CREW];
    atomic_bool stop;
    int turns, hold_ms;
    long count; /* not atomic on purpose */
    uint64_t last;
};

static void *take_turns(void *arg)
{
    struct crew *crew = arg;
    for (int i = 0; i < crew->turns && !atomic_load(&crew->stop); i++) {
        snib_lease *lease = take(crew->client, "report", NULL);
        CHECK_UINT(snib_token(lease), >, crew->last);
        crew->last = snib_token(lease);
        crew->count++;
        if (crew->hold_ms) {
            check_sleep_ms(crew->hold_ms);
        }
        CHECK_INT(snib_state(lease), ==, SNIB_HELD);
        give(&lease);
    }
    return NULL;
}

static void crew_start(struct crew *crew)
{
    for (int i = 0; i < CREW; i++) {
        CHECK(pthread_create(&crew->threads[i], NULL, take_turns, crew) == 0);
    }
}

static void crew_join(struct crew *crew)
{
    for (int i = 0; i < CREW; i++) {
        pthread_join(crew->threads[i], NULL);
    }
}

/* How many scripts it takes to let everybody have all their turns. */
static long long scripts_for_all_turns(const char *parameters)
{
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    struct crew crew = {.client = client_of(url_of(server.port, parameters)), .turns = TURNS};
    crew_start(&crew);
    crew_join(&crew);
    CHECK_INT(crew.count, ==, CREW * TURNS);
    long long scripts = raw_calls(raw, "evalsha");
    snib *other = client_of(url_of(server.port, ""));
    snib_lease *lease = take(other, "report", NULL); /* it is free, and tokens go on */
    CHECK_UINT(snib_token(lease), >, crew.last);
    give(&lease);
    snib_close(other);
    snib_close(crew.client);
    redisFree(raw);
    return scripts;
}

TEST(a_grant_is_passed_on_with_the_next_token)
{
    CHECK_INT(scripts_for_all_turns(""), <, CREW * TURNS / 2);
}

TEST(without_passing_every_turn_asks_the_server)
{
    CHECK_INT(scripts_for_all_turns("passing=no"), >=, 2 * CREW * TURNS);
}

TEST(another_process_has_its_turn_while_threads_pass_a_lock_on)
{
    server_redis(&server, NULL);
    struct helper *helpers = helpers_new(10, url_of(server.port, ""), "report");
    helpers_spawn(helpers, 10);
    struct crew crew = {
        .client = client_of(url_of(server.port, "")), .turns = 1000000, .hold_ms = 1};
    crew_start(&crew);
    check_sleep_ms(200);
    for (int i = 0; i < 10; i++) {
        check_flag_set(&helpers[i].go);
        int64_t start = check_now_ns();
        helper_must_hold(&helpers[i]);
        CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(1500)); /* 50 ms and a turn */
        helper_end(&helpers[i]);
    }
    atomic_store(&crew.stop, true);
    crew_join(&crew);
    snib_close(crew.client);
}

TEST(a_request_that_the_hold_does_not_suit_has_its_turn)
{
    server_redis(&server, NULL);
    struct crew crew = {
        .client = client_of(url_of(server.port, "")), .turns = 1000000, .hold_ms = 1};
    crew_start(&crew);
    check_sleep_ms(100);
    snib_options other = waiting(PATIENCE_MS);
    other.label = "other";
    for (int i = 0; i < 10; i++) {
        other.ttl_ms = i % 2 ? 5000 : 0;
        snib_lease *lease = take(crew.client, "report", &other);
        CHECK_UINT(snib_token(lease), >, crew.last);
        crew.last = snib_token(lease);
        give(&lease);
    }
    atomic_store(&crew.stop, true);
    crew_join(&crew);
    snib_close(crew.client);
}

/* Whatever is asked for: if the data is lost, the clock is ahead of all tokens a second later. */
TEST(safety_29_tokens_run_ahead_of_the_clock_by_a_second_at_most)
{
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    long long last = 0;
    for (int i = 0; i < 50; i++) {
        struct raw_request request = raw_request(1, "", 5000, 400000);
        redisReply *held =
            redisCommand(raw, "EVAL %b 1 snib:{report} %b", snib__native_attempt_script.text,
                         snib__native_attempt_script.size, request.bytes, request.size);
        CHECK(held != NULL && held->type == REDIS_REPLY_STRING && held->len == 25);
        struct snib__packed p = snib__packed_from(held->str + 1, held->len - 1);
        long long token = (long long)snib__packed_number(&p, 8);
        (void)snib__packed_number(&p, 4);
        long long span = (long long)snib__packed_number(&p, 4);
        freeReplyObject(held);
        redisReply *time = redisCommand(raw, "TIME");
        long long now_us = strtoll(time->element[0]->str, NULL, 10) * 1000000 +
                           strtoll(time->element[1]->str, NULL, 10);
        freeReplyObject(time);
        CHECK_INT(token, >, last);
        CHECK_INT(span, >=, 1);
        last = token + span - 1;
        CHECK_INT(last, <=, now_us + 1000000 + i); /* one each, when there are no more to be had */
        freeReplyObject(redisCommand(raw, "EVAL %b 1 snib:{report} %b",
                                     snib__native_release_script.text,
                                     snib__native_release_script.size, request.bytes, (size_t)17));
    }
    redisFree(raw);
}
