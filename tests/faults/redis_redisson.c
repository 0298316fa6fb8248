/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout `redisson`, with Redisson's part played by commands: what it would leave in the keys,
 * what it would find there, and what is refused. tests/interop/redis has the real one.
 */
#include "engines/redis/script.h"
#include "redis_world.h"

#define REDISSON "layout=redisson"
#define THEIRS "285475da-9152-4c83-822a-67ee2f116a79:52"
#define CHANNEL "redisson_lock__channel:{report}"

static struct server server;
static redisContext *raw;

static void begin(void)
{
    server_redis(&server, NULL);
    raw = raw_open(server.port);
}

static int64_t since_ms(int64_t start_ns)
{
    return (check_now_ns() - start_ns) / 1000000;
}

/* As their acquire leaves it, for a lock that is free. */
static void take_theirs(int count)
{
    raw_number(raw, "HINCRBY report " THEIRS " %d", count);
    raw_number(raw, "PEXPIRE report 30000");
}

TEST(the_hash_is_as_redisson_has_it)
{
    begin();
    snib *client = client_of(url_of(server.port, REDISSON));
    snib_lease *lease = take(client, "report", NULL);
    redisReply *all = redisCommand(raw, "HGETALL report");
    CHECK(all != NULL && all->type == REDIS_REPLY_ARRAY && all->elements == 4);
    for (size_t i = 0; i < 4; i += 2) {
        const char *field = all->element[i]->str;
        if (strcmp(field, "snib") != 0) { /* uuid:number, held once */
            CHECK_UINT(strspn(field, "0123456789abcdef-"), ==, 36);
            CHECK_INT(field[36], ==, ':');
            CHECK_STR(all->element[i + 1]->str, "1");
        }
    }
    freeReplyObject(all);
    CHECK_INT(raw_number(raw, "PTTL report"), >, 0);
    CHECK_INT(raw_number(raw, "GET redisson_lock_token:{report}"), ==, 1);
    CHECK_UINT(snib_token(lease), ==, 1);
    CHECK_INT(raw_number(raw, "PTTL redisson_lock_token:{report}"), ==, -1);
    give(&lease);
    CHECK_INT(raw_number(raw, "EXISTS report"), ==, 0);
    raw_number(raw, "INCR redisson_lock_token:{report}"); /* an RFencedLock, meanwhile */
    lease = take(client, "report", NULL);
    CHECK_UINT(snib_token(lease), ==, 3);
    give(&lease);
    snib_close(client);
}

TEST(a_release_says_what_redisson_wants_to_hear_and_nothing_else)
{
    begin();
    redisContext *ear = raw_open(server.port);
    redisReply *reply = redisCommand(ear, "SUBSCRIBE " CHANNEL);
    CHECK(reply != NULL);
    freeReplyObject(reply);
    snib *client = client_of(url_of(server.port, REDISSON));
    for (int i = 0; i < 3; i++) {
        snib_lease *lease = take(client, "report", NULL);
        give(&lease);
        CHECK(redisGetReply(ear, (void **)&reply) == REDIS_OK && reply->elements == 3);
        CHECK_STR(reply->element[1]->str, CHANNEL);
        CHECK_STR(reply->element[2]->str, "0");
        freeReplyObject(reply);
    }
    redisFree(ear);
    snib_close(client);
}

/* A count that leaked is a lock all the same. */
TEST(redissons_release_wakes_those_who_wait)
{
    _Atomic(snib_lease *) waited = NULL;
    snib_error error = {0};
    begin();
    snib *client = client_of(url_of(server.port, REDISSON));
    take_theirs(2);
    CHECK_OK(snib_acquire_async(NULL, client, "report", NULL, note_grant, &waited, &error),
             error.message);
    while (raw_number(raw, "PUBLISH " CHANNEL " 0") == 0) {
        check_sleep_ms(5);
    }
    check_sleep_ms(200);
    CHECK(!atomic_load(&waited));
    long long before = raw_calls(raw, "evalsha");
    raw_number(raw, "DEL report");
    raw_number(raw, "PUBLISH " CHANNEL " 0");
    int64_t start = check_now_ns();
    while (!atomic_load(&waited)) {
        CHECK_INT(since_ms(start), <, check_ms(5000));
        check_sleep_ms(1);
    }
    CHECK_INT(raw_calls(raw, "evalsha") - before, <=, 4);
    snib_lease *lease = atomic_load(&waited);
    give(&lease);
    snib_close(client);
}

TEST(a_forced_unlock_of_redisson_is_a_loss)
{
    begin();
    snib *client = client_of(url_of(server.port, REDISSON "&ttl=1500ms"));
    snib_lease *lease = take(client, "report", NULL);
    raw_number(raw, "DEL report");
    take_theirs(1);
    int64_t start = check_now_ns();
    while (snib_state(lease) != SNIB_LOST) {
        CHECK_INT(since_ms(start), <, 1500 + check_ms(2000));
        check_sleep_ms(5);
    }
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    CHECK_INT(raw_number(raw, "HGET report " THEIRS), ==, 1); /* what is theirs is spared */
    snib_close(client);
}

static int note_seen(const snib_seen *seen, void *arg)
{
    *(snib_seen *)arg = *seen;
    return 0;
}

TEST(a_lock_of_redisson_is_broken_by_force_only)
{
    begin();
    snib *client = client_of(url_of(server.port, REDISSON));
    snib_seen seen = {0};
    snib_error error = {0};
    take_theirs(3);
    CHECK_OK(snib_inspect(client, "report", note_seen, &seen, &error), error.message);
    CHECK_INT(snib_break(client, "report", seen.token, &error), ==, SNIB_ENOTSUP);
    CHECK_OK(snib_seize(client, "report", seen.token, &error), error.message);
    CHECK_INT(raw_number(raw, "EXISTS report"), ==, 0);
    snib_close(client);
}

static void refused_as(const char *why)
{
    snib *client = client_of(url_of(server.port, REDISSON));
    snib_error error = {0};
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EKIND);
    CHECK(strstr(error.message, why) != NULL);
    CHECK_INT(raw_number(raw, "EXISTS redisson_lock_token:{report}"), ==, 0);
    snib_close(client);
}

static int any(const snib_seen *seen, void *arg)
{
    (void)arg;
    FAIL("%s is shown", seen->who);
}

TEST(other_locks_of_redisson_are_other_kinds)
{
    begin();
    raw_number(raw, "HSET report mode read " THEIRS " 1");
    refused_as("read-write lock");
    snib *client = client_of(url_of(server.port, REDISSON));
    snib_error error = {0};
    CHECK_INT(snib_inspect(client, "report", any, NULL, &error), ==, SNIB_EKIND);
    CHECK_INT(snib_seize(client, "report", 1, &error), ==, SNIB_EKIND);
    CHECK_INT(raw_number(raw, "HLEN report"), ==, 2);
    snib_close(client);
    raw_number(raw, "DEL report");
    raw_number(raw, "RPUSH redisson_lock_queue:{report} " THEIRS);
    refused_as("fair lock");
    raw_number(raw, "DEL redisson_lock_queue:{report}");
    raw_number(raw, "INCR report"); /* RSemaphore */
    refused_as("report");
}

TEST(names_that_redisson_cannot_unlock_are_refused)
{
    static const char *const names[] = {"a{b", "a{}b", "report:snib-fence",
                                        "redisson_lock_token:{a}"};
    begin();
    snib *client = client_of(url_of(server.port, REDISSON));
    snib_error error = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CHECK_INT(try_it(client, names[i], &error), ==, SNIB_EINVAL);
    }
    CHECK_INT(try_it(client, "a{b}c", &error), ==, SNIB_OK);
    CHECK_INT(raw_number(raw, "GET redisson_lock_token:a{b}c"), ==, 1);
    snib_close(client);
    CHECK_INT(snib_open(&client, url_of(server.port, REDISSON "&scripts=no"), &error), ==,
              SNIB_EINVAL);
}

/* ---- What scripts refuse ---------------------------------------------------------------- */

#define ID "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a00"
#define FIELD "5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a5a:0"

static char attempt(int64_t not_after_ms)
{
    char numbers[12];
    const struct snib__script *script = &snib__redisson_attempt_script;
    (void)snib__pack(snib__pack(numbers, 30000, 4), (uint64_t)not_after_ms, 8);
    redisReply *reply =
        redisCommand(raw, "EVAL %b 4 report fence counter queue %b %s %s %s", script->text,
                     script->size, numbers, sizeof numbers, ID, FIELD, "me nothing");
    CHECK(reply != NULL && reply->type == REDIS_REPLY_STRING);
    char letter = reply->str[0];
    freeReplyObject(reply);
    return letter;
}

static char release(int64_t loose_ms)
{
    char loose[8];
    const struct snib__script *script = &snib__redisson_release_script;
    (void)snib__pack(loose, (uint64_t)loose_ms, 8);
    redisReply *reply = loose_ms
                            ? redisCommand(raw, "EVAL %b 2 report fence %s %s %s %b", script->text,
                                           script->size, ID, "channel", FIELD, loose, sizeof loose)
                            : redisCommand(raw, "EVAL %b 2 report fence %s %s %s", script->text,
                                           script->size, ID, "channel", FIELD);
    CHECK(reply != NULL && reply->type == REDIS_REPLY_STRING);
    char letter = reply->str[0];
    freeReplyObject(reply);
    return letter;
}

TEST(an_attempt_in_redissons_hash_is_counted_once)
{
    begin();
    CHECK_INT(attempt(1000), ==, 'L');
    CHECK_INT(attempt(0), ==, 'H');
    CHECK_INT(attempt(0), ==, 'H');
    CHECK_INT(raw_number(raw, "HGET report " FIELD), ==, 1);
    CHECK_INT(raw_number(raw, "GET counter"), ==, 1);
    CHECK_INT(release(0), ==, 'G');
    CHECK_INT(release(0), ==, 'F');
    CHECK_INT(attempt(0), ==, 'D');
}

TEST(an_attempt_in_redissons_hash_that_its_release_has_overtaken_is_refused)
{
    begin();
    CHECK_INT(release(-1), ==, 'N');
    CHECK_INT(attempt(0), ==, 'D');
    CHECK_INT(raw_number(raw, "EXISTS report"), ==, 0);
}
