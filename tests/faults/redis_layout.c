/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in the hash of a lock: other versions of it, what is remembered in it, and how much work
 * an uncontended lock is to the server.
 */
#include "engines/redis/script.h"
#include "redis_world.h"

static struct server server;
static redisContext *raw;

static void begin(void)
{
    server_redis(&server, NULL);
    raw = raw_open(server.port);
}

/* The first letter of what a script answers. */
static char letter_of(redisReply *reply)
{
    CHECK(reply != NULL);
    if (reply->type != REDIS_REPLY_STRING || reply->len == 0) {
        FAIL("answered: %s", reply->str ? reply->str : "no string");
    }
    char letter = reply->str[0];
    freeReplyObject(reply);
    return letter;
}

static char attempt(const struct raw_request *r)
{
    return letter_of(redisCommand(raw, "EVAL %b 1 snib:{report} %b",
                                  snib__native_attempt_script.text,
                                  snib__native_attempt_script.size, r->bytes, r->size));
}

static char release(int number)
{
    char id[17];
    raw_owner(id, number);
    return letter_of(redisCommand(raw, "EVAL %b 1 snib:{report} %b",
                                  snib__native_release_script.text,
                                  snib__native_release_script.size, id, sizeof id));
}

static char release_loose(int number, long long until_ms)
{
    char id[17], until[8];
    raw_owner(id, number);
    (void)snib__pack(until, (uint64_t)until_ms, sizeof until);
    return letter_of(
        redisCommand(raw, "EVAL %b 1 snib:{report} %b %b", snib__native_release_script.text,
                     snib__native_release_script.size, id, sizeof id, until, sizeof until));
}

static int flags(void)
{
    redisReply *reply = redisCommand(raw, "HGET snib:{report} s");
    CHECK(reply != NULL && reply->type == REDIS_REPLY_STRING && reply->len >= 62);
    int bits = (unsigned char)reply->str[1];
    freeReplyObject(reply);
    return bits;
}

/* ---- Other versions --------------------------------------------------------------------- */

static void must_be_refused(const char *state, size_t size, const char *by)
{
    snib_error error = {0};
    int count = 0;
    raw_number(raw, "DEL snib:{report}");
    raw_number(raw, "HSET snib:{report} s %b o x", state, size);
    snib *client = client_of(url_of(server.port, ""));
    int64_t start = check_now_ns();
    snib_options options = waiting(PATIENCE_MS);
    snib_lease *lease = NULL;
    CHECK_INT(snib_acquire(&lease, client, "report", &options, &error), ==, SNIB_EKIND);
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(2000));
    if (!strstr(error.message, by) || !strstr(error.message, "delete snib:{report}")) {
        FAIL("it says: %s", error.message);
    }
    CHECK_INT(snib_inspect(client, "report", count_seen, &count, &error), ==, SNIB_EKIND);
    CHECK(strstr(error.message, "another version") != NULL);
    CHECK_INT(snib_seize(client, "report", 1, &error), ==, SNIB_EKIND);
    snib_lease *other = take(client, "other", NULL);
    CHECK_OK(snib_list(client, "", count_seen, &count, &error), error.message);
    CHECK_INT(count, ==, 1); /* it is passed over */
    give(&other);
    redisReply *left = redisCommand(raw, "HGET snib:{report} s");
    CHECK(left->len == size && memcmp(left->str, state, size) == 0);
    CHECK_INT(raw_number(raw, "HLEN snib:{report}"), ==, 2);
    freeReplyObject(left);
    raw_number(raw, "DEL snib:{report}");
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_OK);
    snib_close(client);
}

TEST(what_another_version_has_written_is_refused_and_left_alone)
{
    static const char held[] = "0 1794746193341000 1794746193341 1 1 30000 30000 1 0 0";
    static const char long_one[] =
        "4 1794746193341000 1794746193341 3 0 2999999 3599999 1000 1010 11";
    static const char newer[70] = {3};
    begin();
    CHECK(sizeof long_one - 1 >= 62); /* as long as one of ours */
    must_be_refused(held, sizeof held - 1, "snib 0.1");
    must_be_refused(long_one, sizeof long_one - 1, "snib 0.1");
    must_be_refused(newer, sizeof newer, "a newer snib");
    must_be_refused("nonsense", 8, "something else");
    must_be_refused("\2", 1, "something else");
    redisFree(raw);
}

/* ---- What is remembered ----------------------------------------------------------------- */

TEST(the_last_releases_are_remembered)
{
    begin();
    for (int i = 1; i <= 5; i++) {
        struct raw_request request = raw_request(i, "", 5000, 1);
        CHECK_INT(attempt(&request), ==, 'H');
        CHECK_INT(release(i), ==, 'G');
        CHECK_INT(release(i), ==, 'F');
    }
    CHECK_INT(release(1), ==, 'N');
    for (int i = 2; i <= 5; i++) {
        CHECK_INT(release(i), ==, 'F');
    }
    struct raw_request request = raw_request(6, "", 5000, 1);
    CHECK_INT(attempt(&request), ==, 'H');
    for (int i = 3; i <= 5; i++) {
        CHECK_INT(release(i), ==, 'F');
    }
    CHECK_INT(release(7), ==, 'N');
    CHECK_INT(attempt(&request), ==, 'H'); /* and none of that has released it */
    redisFree(raw);
}

TEST(an_id_released_before_its_attempt_is_refused_until_its_time_is_over)
{
    begin();
    long long now = raw_number(raw, "EVAL %s 0", "return redis.call('TIME')[1] * 1000");
    struct raw_request overtaken = raw_request(1, "", 5000, 1), other = raw_request(2, "", 5000, 1);
    CHECK_INT(release_loose(1, now + 3000), ==, 'N');
    CHECK_INT(attempt(&overtaken), ==, 'D');
    CHECK_INT(attempt(&other), ==, 'H'); /* nobody else is */
    CHECK_INT(flags(), ==, 1 | 2);
    CHECK_INT(release(2), ==, 'G');
    CHECK_INT(attempt(&overtaken), ==, 'D');
    while (raw_number(raw, "EVAL %s 0", "return redis.call('TIME')[1] * 1000") <= now + 3000) {
        check_sleep_ms(50);
    }
    CHECK_INT(attempt(&other), ==, 'H');
    CHECK_INT(flags(), ==, 1); /* and nothing is left of it */
    CHECK_INT(raw_number(raw, "HEXISTS snib:{report} dead"), ==, 0);
    CHECK_INT(release_loose(2, -1), ==, 'G');
    CHECK_INT(attempt(&other), ==, 'D');
    CHECK_INT(raw_number(raw, "PTTL snib:{report}"), >, 60000);
    redisFree(raw);
}

/* One script sweeps a holder that is over, lets a reader in, and puts a writer in line. */
TEST(who_is_let_in_by_an_attempt_that_has_to_wait_is_written_down)
{
    begin();
    redisContext *listener = raw_open(server.port);
    freeReplyObject(redisCommand(listener, "SUBSCRIBE somebody"));
    struct raw_request holder = raw_request(1, "", 5000, 1);
    (void)snib__pack(holder.bytes + 18, 300, 4); /* its ttl */
    struct raw_request reader = raw_request(2, "somebody", 60000, 1);
    reader.bytes[17] = 's';
    struct raw_request writer = raw_request(3, "somebody", 60000, 1);
    CHECK_INT(attempt(&holder), ==, 'H');
    CHECK_INT(attempt(&reader), ==, 'Q');
    check_sleep_ms(400);
    CHECK_INT(attempt(&writer), ==, 'Q');
    CHECK_INT(raw_state(raw, "report", STATE_HOLDERS), ==, 1);
    CHECK_INT(raw_state(raw, "report", STATE_WAITERS), ==, 1);
    CHECK_INT(raw_number(raw, "HEXISTS snib:{report} h:%b", reader.bytes, (size_t)17), ==, 1);
    CHECK_INT(attempt(&reader), ==, 'H');
    CHECK_INT(release(2), ==, 'G'); /* to the writer */
    CHECK_INT(attempt(&writer), ==, 'H');
    CHECK_INT(release(3), ==, 'G');
    CHECK_INT(flags(), ==, 0);
    CHECK_INT(raw_number(raw, "HLEN snib:{report}"), ==, 2); /* s, and the last one's i */
    raw_no_script_failed(raw);
    redisFree(listener);
    redisFree(raw);
}

/* ---- How much work it is ---------------------------------------------------------------- */

TEST(an_uncontended_lock_is_five_commands_and_moves_its_expiry_seldom)
{
    enum { PAIRS = 50 };
    begin();
    snib *client = client_of(url_of(server.port, ""));
    for (int i = 0; i < PAIRS; i++) {
        CHECK_INT(try_it(client, "report", NULL), ==, SNIB_OK);
    }
    CHECK_INT(raw_calls(raw, "hget"), ==, 2 * PAIRS);
    CHECK_INT(raw_calls(raw, "hset"), ==, 2 * PAIRS);
    CHECK_INT(raw_calls(raw, "time"), ==, PAIRS + 1); /* one in the greeting */
    CHECK_INT(raw_calls(raw, "pexpireat"), ==, 1);
    CHECK_INT(raw_calls(raw, "hdel"), ==, 0);
    CHECK_INT(raw_number(raw, "PTTL snib:{report}"), >=, 3600 * 1000);
    CHECK_INT(raw_number(raw, "PTTL snib:{report}"), <=, 3600 * 1500 + 1000);
    CHECK_INT(raw_number(raw, "MEMORY USAGE snib:{report}"), <, 250); /* a small encoding */
    snib_close(client);
    redisFree(raw);
}

/* A lease that is longer than tokens are kept moves it on, and so does every renewal of it. */
TEST(the_key_outlives_every_lease_in_it)
{
    begin();
    snib *client = client_of(url_of(server.port, "ttl=3s&retention=1s"));
    snib_lease *lease = take(client, "report", NULL);
    for (int i = 0; i < 20; i++) {
        int64_t asked_ns = check_now_ns(), left_ms = snib_left_ms(lease);
        int64_t key_ms = raw_number(raw, "PTTL snib:{report}");
        CHECK_INT(key_ms + (check_now_ns() - asked_ns) / 1000000 + 1, >=, left_ms);
        check_sleep_ms(250);
    }
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    snib_close(client);
    redisFree(raw);
}
