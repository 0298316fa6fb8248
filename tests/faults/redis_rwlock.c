/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout `redisson-rw`, with Redisson's part played by commands: what its RReadWriteLock would
 * leave in the keys, what it would find there, and what is refused. tests/interop/redis has the
 * real one.
 */
#include "engines/redis/script.h"
#include "redis_world.h"

#define RW "layout=redisson-rw"
#define THEIRS "285475da-9152-4c83-822a-67ee2f116a79:52"
#define THEIR_LEASE "{report}:" THEIRS ":rwlock_timeout:1"
#define CHANNEL "redisson_rwlock:{report}"

static struct server server;
static redisContext *raw;

static void begin(void)
{
    server_redis(&server, NULL);
    raw = raw_open(server.port);
}

static snib_options reading(void)
{
    snib_options options = waiting(0);
    options.mode = SNIB_SHARED;
    return options;
}

/* As their acquire leaves it, for a lock that is free or read. */
static void read_theirs(void)
{
    raw_number(raw, "HSET report mode read " THEIRS " 1");
    raw_number(raw, "SET " THEIR_LEASE " 1 PX 30000");
    raw_number(raw, "PEXPIRE report 30000");
}

static void write_theirs(void)
{
    raw_number(raw, "HSET report mode write " THEIRS ":write 1");
    raw_number(raw, "PEXPIRE report 30000");
}

static bool is_free(void *arg)
{
    (void)arg;
    return raw_number(raw, "EXISTS report") == 0;
}

/* ---- What is there ---------------------------------------------------------------------- */

/* One field of a holder and the mode, nothing else: Redisson counts them. */
static void check_hash(const char *mode, bool writes)
{
    char lease[200];
    redisReply *all = redisCommand(raw, "HGETALL report");
    CHECK(all != NULL && all->type == REDIS_REPLY_ARRAY && all->elements == 4);
    CHECK_STR(all->element[0]->str, "mode");
    CHECK_STR(all->element[1]->str, mode);
    const char *field = all->element[2]->str;
    CHECK_UINT(strspn(field, "0123456789abcdef-"), ==, 36);
    CHECK_INT(field[36], ==, ':');
    CHECK_INT(strstr(field, ":write") != NULL, ==, writes);
    CHECK_STR(all->element[3]->str, "1");
    snprintf(lease, sizeof lease, "{report}:%s:rwlock_timeout:1", field);
    freeReplyObject(all);
    CHECK_INT(raw_number(raw, "PTTL report"), >, 0);
    CHECK_INT(raw_number(raw, "PTTL %s", lease), >, 0);
}

TEST(the_read_write_hash_is_as_redisson_has_it)
{
    begin();
    snib *client = client_of(url_of(server.port, RW));
    snib_options reader = reading();
    snib_lease *lease = take(client, "report", NULL);
    check_hash("write", true);
    CHECK_UINT(snib_token(lease), ==, 1);
    give(&lease);
    CHECK(is_free(NULL));
    lease = take(client, "report", &reader);
    check_hash("read", false);
    CHECK_UINT(snib_token(lease), ==, 1); /* of the last writer */
    give(&lease);
    CHECK(is_free(NULL));
    redisReply *reply = redisCommand(raw, "KEYS *rwlock_timeout*");
    CHECK(reply != NULL && reply->elements == 0);
    freeReplyObject(reply);
    snib_close(client);
}

static void must_hear(redisContext *ear, const char *word)
{
    redisReply *reply = NULL;
    CHECK(redisGetReply(ear, (void **)&reply) == REDIS_OK && reply->elements == 3);
    CHECK_STR(reply->element[1]->str, CHANNEL);
    CHECK_STR(reply->element[2]->str, word);
    freeReplyObject(reply);
}

/* 1 wakes all that wait in a process of Redisson, 0 one of them. */
TEST(a_writer_says_1_the_last_reader_0_and_others_nothing)
{
    begin();
    redisContext *ear = raw_open(server.port);
    redisReply *reply = redisCommand(ear, "SUBSCRIBE " CHANNEL);
    CHECK(reply != NULL);
    freeReplyObject(reply);
    snib *client = client_of(url_of(server.port, RW));
    snib *other = client_of(url_of(server.port, RW));
    snib_options reader = reading();
    snib_lease *lease = take(client, "report", NULL), *second;
    give(&lease);
    must_hear(ear, "1");
    lease = take(client, "report", &reader);
    second = take(other, "report", &reader);
    give(&lease);
    CHECK_INT(raw_number(raw, "HLEN report"), ==, 2);
    raw_number(raw, "PUBLISH " CHANNEL " 7"); /* nothing before this */
    must_hear(ear, "7");
    give(&second);
    must_hear(ear, "0");
    redisFree(ear);
    snib_close(other);
    snib_close(client);
}

/* ---- Beside Redisson -------------------------------------------------------------------- */

TEST(readers_of_redisson_keep_writers_out_and_let_readers_in)
{
    begin();
    snib *client = client_of(url_of(server.port, RW));
    snib_options reader = reading();
    snib_error error = {0};
    read_theirs();
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EBUSY);
    snib_lease *lease = take(client, "report", &reader);
    CHECK_INT(raw_number(raw, "HLEN report"), ==, 3);
    give(&lease);
    CHECK_INT(raw_number(raw, "HGET report " THEIRS), ==, 1);
    CHECK_INT(raw_number(raw, "PTTL report"), >, 15000); /* not shorter than their lease */
    raw_number(raw, "DEL report " THEIR_LEASE);
    write_theirs();
    CHECK_INT(snib_acquire(&lease, client, "report", &reader, &error), ==, SNIB_EBUSY);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EBUSY);
    snib_close(client);
}

TEST(a_release_of_redisson_wakes_writers_and_readers)
{
    _Atomic(snib_lease *) waited[2] = {NULL, NULL};
    snib_error error = {0};
    snib_options reader = SNIB_OPTIONS;
    begin();
    reader.mode = SNIB_SHARED;
    snib *client = client_of(url_of(server.port, RW));
    write_theirs();
    for (int i = 0; i < 2; i++) {
        CHECK_OK(
            snib_acquire_async(NULL, client, "report", &reader, note_grant, &waited[i], &error),
            error.message);
    }
    while (raw_number(raw, "PUBLISH " CHANNEL " 0") == 0) {
        check_sleep_ms(5);
    }
    check_sleep_ms(200);
    CHECK(!atomic_load(&waited[0]) && !atomic_load(&waited[1]));
    raw_number(raw, "DEL report");
    raw_number(raw, "PUBLISH " CHANNEL " 1");
    int64_t start = check_now_ns();
    for (int i = 0; i < 2; i++) {
        while (!atomic_load(&waited[i])) {
            CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(5000));
            check_sleep_ms(1);
        }
        snib_lease *lease = atomic_load(&waited[i]);
        CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    }
    snib_close(client);
}

/* Its field stays when a reader of theirs dies, until somebody else leaves; a lease that is over is
 * nobody's. */
TEST(a_dead_reader_of_redisson_is_not_waited_for)
{
    begin();
    snib *client = client_of(url_of(server.port, RW));
    snib_options reader = reading();
    snib_error error = {0};
    read_theirs();
    snib_lease *lease = take(client, "report", &reader);
    raw_number(raw, "DEL " THEIR_LEASE);
    give(&lease);
    CHECK(is_free(NULL));
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_OK);
    snib_close(client);
}

/* Their re-entries have leases of their own. */
TEST(a_reader_of_redisson_who_entered_twice_is_spared)
{
    begin();
    snib *client = client_of(url_of(server.port, RW));
    snib_options reader = reading();
    read_theirs();
    raw_number(raw, "HSET report " THEIRS " 2");
    raw_number(raw, "SET {report}:" THEIRS ":rwlock_timeout:2 1 PX 30000");
    raw_number(raw, "DEL " THEIR_LEASE); /* given back, as a release within leaves it */
    snib_lease *lease = take(client, "report", &reader);
    give(&lease);
    CHECK_INT(raw_number(raw, "HGET report " THEIRS), ==, 2);
    snib_close(client);
}

/* ---- Leases ----------------------------------------------------------------------------- */

TEST(a_reader_does_not_shorten_what_others_have)
{
    begin();
    snib *client = client_of(url_of(server.port, RW "&ttl=2s"));
    snib_options reader = reading();
    read_theirs();
    snib_lease *lease = take(client, "report", &reader);
    CHECK_INT(raw_number(raw, "PTTL report"), >, 15000);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK); /* by a renewal */
    CHECK_INT(raw_number(raw, "PTTL report"), >, 15000);
    give(&lease);
    snib_close(client);
}

static bool is_renewed(void *arg)
{
    (void)arg;
    return raw_number(raw, "PTTL report") > 2500;
}

/* The watchdog of a reader of theirs sets everything to its own time, and then that one dies. */
TEST(a_lease_that_redissons_watchdog_shortens_is_never_longer_than_that)
{
    snib_error error = {0};
    snib_lease *lease = NULL;
    snib_options reader = reading();
    begin();
    snib *client = client_of(url_of(server.port, RW "&ttl=10s&watchdog=4s"));
    CHECK_INT(snib_acquire(&lease, client, "report", &reader, &error), ==, SNIB_EINVAL);
    CHECK(strstr(error.message, "watchdog=") != NULL);
    CHECK(is_free(NULL));
    reader.ttl_ms = 4000;
    lease = take(client, "report", &reader);
    CHECK_INT(snib_renew(lease, 10000, &error), ==, SNIB_OK);
    CHECK_INT(raw_number(raw, "PTTL report"), <=, 4000);
    CHECK_INT(snib_left_ms(lease), <=, 4000);
    raw_number(raw, "PEXPIRE report 4000");
    CHECK(check_until(is_renewed, NULL, PATIENCE_MS)); /* and in time for that */
    give(&lease);
    snib_options writer = waiting(0);
    lease = take(client, "report", &writer);
    CHECK_INT(raw_number(raw, "PTTL report"), >, 4000); /* nobody shortens a writer's */
    give(&lease);
    snib_close(client);
}

TEST(a_forced_unlock_of_redisson_is_a_loss_to_readers)
{
    begin();
    snib *client = client_of(url_of(server.port, RW "&ttl=1500ms"));
    snib_options reader = reading();
    snib_lease *lease = take(client, "report", &reader);
    raw_number(raw, "DEL report");
    write_theirs();
    int64_t start = check_now_ns();
    while (snib_state(lease) != SNIB_LOST) {
        CHECK_INT((check_now_ns() - start) / 1000000, <, 1500 + check_ms(2000));
        check_sleep_ms(5);
    }
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    CHECK_INT(raw_number(raw, "HGET report " THEIRS ":write"), ==, 1); /* theirs is spared */
    snib_close(client);
}

/* ---- Other kinds, and breaking ---------------------------------------------------------- */

static int any(const snib_seen *seen, void *arg)
{
    (void)arg;
    FAIL("%s is shown", seen->who);
}

/* Redisson's own read-write locks would enter there. */
TEST(an_rlock_is_another_kind_than_a_read_write_lock)
{
    begin();
    snib *client = client_of(url_of(server.port, RW));
    snib_options reader = reading();
    snib_lease *lease = NULL;
    snib_error error = {0};
    raw_number(raw, "HSET report " THEIRS " 1");
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EKIND);
    CHECK(strstr(error.message, "RLock") != NULL);
    CHECK_INT(snib_acquire(&lease, client, "report", &reader, &error), ==, SNIB_EKIND);
    CHECK_INT(snib_inspect(client, "report", any, NULL, &error), ==, SNIB_EKIND);
    CHECK_INT(raw_number(raw, "HLEN report"), ==, 1);
    snib_close(client);
}

struct seen {
    int count;
    uint64_t token, theirs;
};

static int note_seen(const snib_seen *seen, void *arg)
{
    struct seen *all = arg;
    all->count++;
    *(strncmp(seen->who, "redisson:", 9) == 0 ? &all->theirs : &all->token) = seen->token;
    CHECK_INT(seen->mode, ==, SNIB_SHARED);
    return 0;
}

/* Ours by one token between them, theirs by a number each. */
TEST(readers_are_broken_by_token_and_redissons_by_force_only)
{
    begin();
    snib *client = client_of(url_of(server.port, RW));
    snib *other = client_of(url_of(server.port, RW));
    snib_options reader = reading();
    struct seen seen = {0};
    snib_error error = {0};
    read_theirs();
    snib_lease *lease = take(client, "report", &reader), *second = take(other, "report", &reader);
    CHECK_OK(snib_inspect(client, "report", note_seen, &seen, &error), error.message);
    CHECK_INT(seen.count, ==, 3);
    CHECK_INT(snib_break(client, "report", seen.theirs, &error), ==, SNIB_ENOTSUP);
    CHECK_OK(snib_seize(client, "report", seen.theirs, &error), error.message);
    CHECK_INT(raw_number(raw, "HEXISTS report " THEIRS), ==, 0);
    CHECK_INT(raw_number(raw, "HLEN report"), ==, 3);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    CHECK_OK(snib_seize(client, "report", seen.token, &error), error.message);
    CHECK(is_free(NULL));
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_ELOST);
    CHECK_INT(snib_verify(second, NULL), ==, SNIB_ELOST);
    (void)snib_release(&lease, NULL);
    (void)snib_release(&second, NULL);
    snib_close(other);
    snib_close(client);
}

/* ---- What scripts refuse ---------------------------------------------------------------- */

#define ID "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a00"
#define FIELD "5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a5a:0"
#define LEASE "{report}:" FIELD ":rwlock_timeout:1"
#define WRITING "{report}:" FIELD ":write:rwlock_timeout:1"

static char letter_of(redisReply *reply)
{
    CHECK(reply != NULL && reply->type == REDIS_REPLY_STRING);
    char letter = reply->str[0];
    freeReplyObject(reply);
    return letter;
}

static char attempt(int64_t not_after_ms, bool shared)
{
    char numbers[13];
    const struct snib__script *script = &snib__rwlock_attempt_script;
    char *to = snib__pack(snib__pack(numbers, 30000, 4), (uint64_t)not_after_ms, 8);
    (void)snib__pack(to, shared, 1);
    return letter_of(redisCommand(raw, "EVAL %b 4 report fence counter %s %b %s %s %s",
                                  script->text, script->size, shared ? LEASE : WRITING, numbers,
                                  sizeof numbers, ID, shared ? FIELD : FIELD ":write",
                                  "me nothing"));
}

static char release(int64_t loose_ms)
{
    char loose[8];
    const struct snib__script *script = &snib__rwlock_release_script;
    (void)snib__pack(loose, (uint64_t)loose_ms, 8);
    return letter_of(
        loose_ms
            ? redisCommand(raw, "EVAL %b 4 report fence " LEASE " " WRITING " %s %s %s %b",
                           script->text, script->size, ID, "channel", FIELD, loose, sizeof loose)
            : redisCommand(raw, "EVAL %b 4 report fence " LEASE " " WRITING " %s %s %s",
                           script->text, script->size, ID, "channel", FIELD));
}

TEST(an_attempt_in_a_read_write_hash_is_counted_once)
{
    begin();
    for (int shared = 0; shared < 2; shared++) {
        CHECK_INT(attempt(1000, shared), ==, 'L');
        CHECK_INT(attempt(0, shared), ==, 'H');
        CHECK_INT(attempt(0, shared), ==, 'H');
        CHECK_INT(raw_number(raw, "HLEN report"), ==, 2);
        CHECK_INT(raw_number(raw, "GET counter"), ==, 1);
        CHECK_INT(release(0), ==, 'G');
        CHECK_INT(release(0), ==, 'F');
        CHECK_INT(attempt(0, shared), ==, 'D');
        raw_number(raw, "FLUSHALL");
    }
}

TEST(an_attempt_in_a_read_write_hash_that_its_release_has_overtaken_is_refused)
{
    begin();
    CHECK_INT(release(-1), ==, 'N');
    CHECK_INT(attempt(0, true), ==, 'D');
    CHECK_INT(attempt(0, false), ==, 'D');
    CHECK_INT(raw_number(raw, "EXISTS report"), ==, 0);
}
