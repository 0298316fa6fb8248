/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long lines: those who died in them, and how much work one script may do.
 */
#include "engines/redis/script.h"
#include "redis_world.h"

enum { LINE_MOST = 4096, WORK_MOST = 256 };

static struct server server;
static redisContext *raw;

static void begin(void)
{
    server_redis(&server, NULL);
    raw = raw_open(server.port);
    freeReplyObject(redisCommand(raw, "SCRIPT LOAD %b", snib__native_attempt_script.text,
                                 snib__native_attempt_script.size));
    freeReplyObject(redisCommand(raw, "SCRIPT LOAD %b", snib__native_release_script.text,
                                 snib__native_release_script.size));
}

/* Somebody stands in line for `lease_ms`, with this inbox. */
static void append_waiter(int number, int lease_ms, const char *inbox)
{
    struct raw_request request = raw_request(number, inbox, lease_ms, 1);
    CHECK(redisAppendCommand(raw, "EVALSHA %s 1 snib:{report} %b", snib__native_attempt_script.sha1,
                             request.bytes, request.size) == REDIS_OK);
}

/* How many of so many answers start with this letter. */
static int count_answers(int count, char letter)
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        redisReply *reply = NULL;
        CHECK(redisGetReply(raw, (void **)&reply) == REDIS_OK);
        CHECK(reply->type == REDIS_REPLY_STRING && reply->len > 0);
        found += reply->str[0] == letter;
        freeReplyObject(reply);
    }
    return found;
}

static void add_waiters(int first, int count, int lease_ms, const char *inbox)
{
    enum { AT_ONCE = 256 };
    for (int done = 0; done < count;) {
        int part = count - done < AT_ONCE ? count - done : AT_ONCE;
        for (int i = 0; i < part; i++) {
            append_waiter(first + done + i, lease_ms, inbox);
        }
        (void)count_answers(part, 'Q');
        done += part;
    }
}

TEST_LIMIT(safety_44_those_who_died_in_line_go_when_others_come, 60)
{
    begin();
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    for (int i = 0; i < 20; i++) {
        add_waiters(1 + i * 1000, 1000, 1, "nobody");
        CHECK_INT(raw_state(raw, "report", STATE_WAITERS), <, 600);
    }
    CHECK_INT(raw_number(raw, "HLEN snib:{report}"), <, 1300);
    give(&lease);
    raw_no_script_failed(raw);
    snib_close(client);
}

/* Killed a moment ago: their leases run, and nobody listens. */
TEST_LIMIT(safety_44_a_full_line_is_full_of_those_who_live, 60)
{
    begin();
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    add_waiters(1, 3 * LINE_MOST, 600000, "nobody");
    CHECK_INT(raw_state(raw, "report", STATE_WAITERS), <, LINE_MOST / 2);
    give(&lease);
    snib_close(client);
}

TEST_LIMIT(safety_44_a_line_has_an_end_and_who_comes_later_tries_now_and_then, 60)
{
    begin();
    redisContext *listener = raw_open(server.port);
    freeReplyObject(redisCommand(listener, "SUBSCRIBE somebody"));
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    add_waiters(1, LINE_MOST, 600000, "somebody");
    CHECK_INT(raw_state(raw, "report", STATE_WAITERS), ==, LINE_MOST);
    append_waiter(LINE_MOST + 1, 600000, "somebody");
    CHECK_INT(count_answers(1, 'B'), ==, 1);
    append_waiter(1, 600000, "somebody"); /* who is in it asks again */
    CHECK_INT(count_answers(1, 'Q'), ==, 1);

    long long before = raw_calls(raw, "evalsha");
    snib *late = client_of(url_of(server.port, ""));
    snib_options options = waiting(1500);
    snib_lease *none = NULL;
    CHECK_INT(snib_acquire(&none, late, "report", &options, NULL), ==, SNIB_EBUSY);
    CHECK_INT(raw_calls(raw, "evalsha") - before, <, 60);
    snib_close(late);
    give(&lease);
    snib_close(client);
    redisFree(listener);
}

/* The dead do not go while they may be alive; so many of them are in front when it is released. */
TEST_LIMIT(safety_44_one_script_does_not_clear_a_whole_line_and_the_next_goes_on, 60)
{
    enum { DEAD = 1000 };
    begin();
    struct helper *helpers = helpers_new(1, url_of(server.port, ""), "report");
    helpers_spawn(helpers, 1);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    add_waiters(1, DEAD, 600000, "nobody");
    CHECK_INT(raw_state(raw, "report", STATE_WAITERS), ==, DEAD);
    check_flag_set(&helpers->go);
    await_line(raw, "report", DEAD + 1);

    int64_t start = check_now_ns();
    long long before = raw_calls(raw, "hget");
    long long scripts = raw_calls(raw, "evalsha");
    give(&lease);
    helper_must_hold(helpers);
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(2500)); /* not a re-check each */
    scripts = raw_calls(raw, "evalsha") - scripts;
    CHECK_INT(raw_calls(raw, "hget") - before, <=, scripts * (WORK_MOST + 16));
    helper_end(helpers);
    raw_no_script_failed(raw);
    snib_close(client);
}

/* Only a few look often: what many waiters cost does not grow with their number. */
TEST(those_behind_the_first_few_ask_seldom)
{
    enum { WAITERS = 16, LOOK_MS = 4000 };
    begin();
    struct helper *helpers = helpers_new(WAITERS, url_of(server.port, ""), "report");
    helpers_spawn(helpers, WAITERS);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    for (int i = 0; i < WAITERS; i++) {
        check_flag_set(&helpers[i].go);
        await_line(raw, "report", i + 1);
    }
    check_sleep_ms(500);
    long long before = raw_calls(raw, "evalsha");
    check_sleep_ms(LOOK_MS);
    long long calls = raw_calls(raw, "evalsha") - before;
    CHECK_INT(calls, >=, LOOK_MS / 1000); /* the first ones do */
    CHECK_INT(calls, <=, 3 * LOOK_MS / 750 + WAITERS);
    give(&lease);
    for (int i = 0; i < WAITERS; i++) {
        helper_must_hold(&helpers[i]);
        helper_end(&helpers[i]);
    }
    snib_close(client);
    redisFree(raw);
}

static long long connections(void)
{
    redisReply *reply = redisCommand(raw, "INFO stats");
    CHECK(reply != NULL && reply->type == REDIS_REPLY_STRING);
    const char *at = strstr(reply->str, "total_connections_received:");
    CHECK(at != NULL);
    long long count = atoll(strchr(at, ':') + 1);
    freeReplyObject(reply);
    return count;
}

/* As a server does that allows no subscriptions of this kind, or a proxy that knows none. */
TEST(an_inbox_that_is_cut_off_again_and_again_is_no_storm_of_connections)
{
    begin();
    struct helper *helper = helpers_new(1, url_of(server.port, ""), "report");
    helpers_spawn(helper, 1);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helper->go);
    await_line(raw, "report", 1);
    long long before = connections();
    for (int64_t start = check_now_ns(); check_now_ns() - start < 2000000000;) {
        raw_number(raw, "CLIENT KILL TYPE pubsub");
        check_sleep_ms(4); /* in which it stands, now and then */
    }
    CHECK_INT(connections() - before, <, 50);
    give(&lease);
    helper_must_hold(helper);
    helper_end(helper);
    snib_close(client);
    redisFree(raw);
}
