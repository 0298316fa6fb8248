/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout `plain` beside programs that know nothing of snib: what they leave in the key, what
 * they find there, and what scripts and steps refuse.
 */
#include "engines/redis/plan.h"
#include "engines/redis/script.h"
#include "redis_world.h"

#define PLAIN "layout=plain"

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

static bool raw_is(const char *expected, const char *command)
{
    redisReply *reply = redisCommand(raw, command); /* NOLINT: it has no '%' */
    CHECK(reply != NULL);
    bool equal = reply->str ? strcmp(reply->str, expected) == 0 : expected[0] == '\0';
    freeReplyObject(reply);
    return equal;
}

/* ---- Other programs --------------------------------------------------------------------- */

TEST(another_program_is_kept_out_and_keeps_us_out)
{
    begin();
    snib *client = client_of(url_of(server.port, PLAIN));
    snib_lease *lease = take(client, "report", NULL);
    CHECK(raw_is("", "SET report theirs NX PX 30000"));
    CHECK_INT(raw_number(raw, "PTTL report"), >, 0);
    give(&lease);
    CHECK(raw_is("OK", "SET report theirs NX PX 30000"));
    snib_error error = {0};
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EBUSY);
    CHECK(raw_is("theirs", "GET report"));
    raw_number(raw, "DEL report");
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_OK);
    snib_close(client);
}

static void wait_while_theirs(const char *parameters, int64_t most_ms, const char *gone)
{
    _Atomic(snib_lease *) waited = NULL;
    snib_error error = {0};
    snib *client = client_of(url_of(server.port, parameters));
    CHECK(raw_is("OK", "SET report theirs NX"));
    CHECK_OK(snib_acquire_async(NULL, client, "report", NULL, note_grant, &waited, &error),
             error.message);
    check_sleep_ms(700);
    CHECK(!atomic_load(&waited));
    int64_t start = check_now_ns();
    raw_number(raw, gone); /* NOLINT: it has no '%' */
    while (!atomic_load(&waited)) {
        CHECK_INT(since_ms(start), <, most_ms);
        check_sleep_ms(1);
    }
    snib_lease *lease = atomic_load(&waited);
    give(&lease);
    snib_close(client);
}

TEST(a_lock_of_another_program_is_found_free_soon)
{
    begin();
    wait_while_theirs(PLAIN, 200 + check_ms(2000), "DEL report");
    CHECK_INT(raw_calls(raw, "evalsha"), <, 60); /* not by asking all the time */
}

TEST(a_lock_of_another_program_is_found_free_soon_without_scripts)
{
    begin();
    wait_while_theirs(PLAIN "&scripts=no", 200 + check_ms(2000), "DEL report");
}

/* With a ttl of a minute and one poll a second nothing but the message can be in time; but the
 * machine may stop us, so that only the asking is counted. */
TEST(what_the_server_says_about_the_key_wakes_those_who_wait)
{
    begin();
    raw_number(raw, "CONFIG SET notify-keyspace-events Kgx");
    wait_while_theirs(PLAIN, 200 + check_ms(2000), "DEL report");
    wait_while_theirs(PLAIN, 200 + check_ms(2000), "PEXPIRE report 1");
}

TEST(a_release_is_told_to_those_of_snib_that_wait)
{
    begin();
    struct helper *helpers = helpers_new(3, url_of(server.port, PLAIN), "report");
    helpers_spawn(helpers, 3); /* while there are no threads */
    snib *client = client_of(url_of(server.port, PLAIN));
    snib_lease *lease = take(client, "report", NULL);
    for (int i = 0; i < 3; i++) {
        check_flag_set(&helpers[i].go);
        check_flag_set(&helpers[i].let_go);
    }
    while (raw_number(raw, "PUBLISH snib:freed:report 1") < 3) {
        check_sleep_ms(5); /* a word that is not true: they look, and wait on */
    }
    check_sleep_ms(300);
    for (int i = 0; i < 3; i++) {
        CHECK(!check_flag_is_set(&helpers[i].held));
    }
    give(&lease);
    for (int i = 0; i < 3; i++) {
        helper_must_hold(&helpers[i]);
        helper_end(&helpers[i]);
    }
    CHECK(atomic_load(&helpers[0].token) != atomic_load(&helpers[1].token));
    snib_close(client);
}

/* Messages that nobody reads would fill the server's memory. */
static bool nobody_listens(void *arg)
{
    redisReply *reply = redisCommand(arg, "PUBSUB NUMSUB snib:freed:report");
    CHECK(reply != NULL && reply->elements == 2);
    bool none = reply->element[1]->integer == 0;
    freeReplyObject(reply);
    return none;
}

TEST(nobody_listens_to_a_lock_that_is_not_waited_for)
{
    begin();
    snib *client = client_of(url_of(server.port, PLAIN));
    snib_error error = {0};
    CHECK(raw_is("OK", "SET report theirs NX"));
    snib_options options = waiting(300);
    snib_lease *lease = NULL;
    CHECK_INT(snib_acquire(&lease, client, "report", &options, &error), ==, SNIB_EBUSY);
    CHECK(check_until(nobody_listens, raw, PATIENCE_MS));
    snib_close(client);
}

TEST(a_lock_that_another_program_took_away_is_lost)
{
    begin();
    snib *client = client_of(url_of(server.port, PLAIN "&ttl=1500ms"));
    snib_lease *lease = take(client, "report", NULL);
    raw_number(raw, "SET report theirs PX 60000");
    int64_t start = check_now_ns();
    while (snib_state(lease) != SNIB_LOST) {
        CHECK_INT(since_ms(start), <, 1500 + check_ms(2000));
        check_sleep_ms(5);
    }
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    CHECK(raw_is("theirs", "GET report")); /* what is theirs is spared */
    snib_close(client);
}

static void other_kind(const char *parameters)
{
    snib *client = client_of(url_of(server.port, parameters));
    snib_error error = {0};
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EKIND);
    CHECK(strstr(error.message, "report") != NULL);
    CHECK_INT(raw_number(raw, "HLEN report"), ==, 1);
    CHECK_INT(raw_number(raw, "EXISTS snib-fence:{report}"), ==, 0);
    snib_close(client);
}

TEST(a_key_of_another_type_is_another_kind_of_lock)
{
    begin();
    raw_number(raw, "HSET report who me");
    other_kind(PLAIN);
    other_kind(PLAIN "&scripts=no");
}

TEST(shared_and_counted_locks_are_refused_with_the_reason)
{
    begin();
    snib *client = client_of(url_of(server.port, PLAIN));
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease = NULL;
    snib_error error = {0};
    options.mode = SNIB_SHARED;
    CHECK_INT(snib_acquire(&lease, client, "report", &options, &error), ==, SNIB_ENOTSUP);
    CHECK(strstr(error.message, "one holder") != NULL);
    snib_close(client);
}

TEST(a_name_that_would_be_a_fence_is_refused)
{
    begin();
    snib *client = client_of(url_of(server.port, PLAIN));
    snib_error error = {0};
    CHECK_INT(try_it(client, "snib-fence:{report}", &error), ==, SNIB_EINVAL);
    CHECK_INT(try_it(client, "a{b}c:snib-fence", &error), ==, SNIB_EINVAL);
    CHECK_INT(try_it(client, "a{b}c", &error), ==, SNIB_OK);
    CHECK_INT(raw_number(raw, "EXISTS a{b}c:snib-fence"), ==, 1);
    snib_close(client);
    CHECK_INT(snib_open(&client, url_of(server.port, PLAIN "&prefix=a%7b"), &error), ==,
              SNIB_EINVAL);
}

/* ---- Tokens ----------------------------------------------------------------------------- */

static uint64_t token_now(snib *client)
{
    snib_lease *lease = take(client, "report", NULL);
    uint64_t token = snib_token(lease);
    give(&lease);
    return token;
}

TEST(tokens_grow_with_every_grant_of_ours_by_scripts_or_without)
{
    begin();
    snib *one = client_of(url_of(server.port, PLAIN));
    snib *two = client_of(url_of(server.port, PLAIN "&scripts=no"));
    uint64_t last = 0;
    for (int i = 0; i < 10; i++) {
        uint64_t token = token_now(i % 2 ? one : two);
        CHECK_UINT(token, >, last);
        last = token;
        CHECK(raw_is("OK", "SET report theirs NX PX 30000"));
        raw_number(raw, "DEL report");
    }
    CHECK_INT(raw_number(raw, "PTTL snib-fence:{report}"), >, 3590000); /* the retention */
    snib_close(one);
    snib_close(two);
}

/* ---- Breaking --------------------------------------------------------------------------- */

static int note_seen(const snib_seen *seen, void *arg)
{
    *(snib_seen *)arg = *seen;
    return 0;
}

static void another_program_is_broken_by_force_only(const char *parameters)
{
    begin();
    snib *client = client_of(url_of(server.port, parameters));
    snib_seen seen = {0};
    snib_error error = {0};
    CHECK(raw_is("OK", "SET report theirs NX"));
    CHECK_OK(snib_inspect(client, "report", note_seen, &seen, &error), error.message);
    CHECK_INT(seen.left_ms, ==, SNIB_FOREVER);
    CHECK_UINT(seen.token, >, 0);
    CHECK_INT(snib_break(client, "report", seen.token, &error), ==, SNIB_ENOTSUP);
    CHECK(strstr(error.message, "another program") != NULL);
    CHECK_INT(snib_seize(client, "report", seen.token + 1, &error), ==, SNIB_ELOST);
    CHECK_INT(raw_number(raw, "EXISTS report"), ==, 1);
    CHECK_OK(snib_seize(client, "report", seen.token, &error), error.message);
    CHECK_INT(raw_number(raw, "EXISTS report"), ==, 0);
    snib_close(client);
}

TEST(a_lock_of_another_program_is_broken_by_force_only)
{
    another_program_is_broken_by_force_only(PLAIN);
}

TEST(a_lock_of_another_program_is_broken_by_force_only_without_scripts)
{
    another_program_is_broken_by_force_only(PLAIN "&scripts=no");
}

/* ---- What scripts refuse ---------------------------------------------------------------- */

#define ID "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a00"

static char attempt(int64_t not_after_ms)
{
    const struct snib__script *script = &snib__plain_attempt_script;
    redisReply *reply =
        redisCommand(raw, "EVAL %b 2 report snib-fence:{report} 30000 90000 %lld %s %s",
                     script->text, script->size, (long long)not_after_ms, ID, "me nothing");
    CHECK(reply != NULL && reply->type == REDIS_REPLY_STRING);
    char letter = reply->str[0];
    freeReplyObject(reply);
    return letter;
}

static char release(int64_t loose_ms)
{
    char loose[8];
    const struct snib__script *script = &snib__plain_release_script;
    (void)snib__pack(loose, (uint64_t)loose_ms, 8);
    redisReply *reply =
        loose_ms ? redisCommand(raw, "EVAL %b 2 report snib-fence:{report} %s %s 60000 %b",
                                script->text, script->size, ID, "channel", loose, sizeof loose)
                 : redisCommand(raw, "EVAL %b 2 report snib-fence:{report} %s %s 60000",
                                script->text, script->size, ID, "channel");
    CHECK(reply != NULL && reply->type == REDIS_REPLY_STRING);
    char letter = reply->str[0];
    freeReplyObject(reply);
    return letter;
}

TEST(an_attempt_after_its_time_is_refused)
{
    begin();
    CHECK_INT(attempt(1000), ==, 'L');
    CHECK_INT(raw_number(raw, "EXISTS report"), ==, 0);
}

TEST(an_attempt_is_counted_once_however_often_it_comes)
{
    begin();
    CHECK_INT(attempt(0), ==, 'H');
    raw_number(raw, "PEXPIRE report 10000");
    CHECK_INT(attempt(0), ==, 'H');
    CHECK_INT(raw_number(raw, "PTTL report"), <=, 10000); /* nothing was added */
    CHECK_INT(release(0), ==, 'G');
    CHECK_INT(release(0), ==, 'F');
    CHECK_INT(attempt(0), ==, 'D'); /* released: it does not come again */
}

TEST(an_attempt_that_its_release_has_overtaken_is_refused)
{
    begin();
    CHECK_INT(release(-1), ==, 'N');
    CHECK_INT(attempt(0), ==, 'D');
    snib *client = client_of(url_of(server.port, PLAIN));
    snib_error error = {0};
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_OK); /* others are not */
    CHECK_INT(attempt(0), ==, 'D');                           /* and do not make it forgotten */
    snib_close(client);
}

/* ---- What steps refuse ------------------------------------------------------------------ */

static bool run(redisContext *on, const struct snib__command *c)
{
    redisReply *reply = redisCommandArgv(on, c->argc, (const char **)c->argv, c->sizes);
    CHECK(reply != NULL && reply->type != REDIS_REPLY_ERROR);
    bool nothing = reply->type == REDIS_REPLY_NIL;
    freeReplyObject(reply);
    return !nothing;
}

static bool run_words(redisContext *on, const char *first, const char *second, const char *third)
{
    struct snib__command c;
    snib__command_words(&c, first, second, third, (char *)NULL);
    return run(on, &c);
}

/* MULTI and what the plan writes, for a lock that nobody has. */
static void write_steps(redisContext *on, enum snib__plan_verb verb)
{
    static const unsigned char id[SNIB__ID_SIZE] = {0x5a};
    struct snib__wish wish = {.prefix = "",
                              .name = "report",
                              .id = id,
                              .retention_ms = 60000,
                              .ttl_ms = 30000,
                              .who = "me",
                              .label = "",
                              .loose_ms = -1};
    struct snib__sight nothing = {.left_ms = -2, .now_us = 1000000};
    struct snib__decision decision;
    struct snib__command c;
    bool dispensable;
    snib__plain_plan.decide(&decision, verb, &wish, &nothing);
    CHECK(run_words(on, "MULTI", NULL, NULL));
    for (unsigned i = 0; snib__plain_plan.write(&c, &decision, &wish, i, &dispensable); i++) {
        CHECK(run(on, &c));
    }
}

TEST(a_held_up_attempt_in_steps_finds_that_its_release_was_there)
{
    begin();
    redisContext *late = raw_open(server.port);
    CHECK(run_words(late, "WATCH", "report", "snib-fence:{report}"));
    write_steps(late, SNIB__PLAN_ATTEMPT); /* all but its EXEC */
    CHECK(run_words(raw, "WATCH", "report", "snib-fence:{report}"));
    write_steps(raw, SNIB__PLAN_RELEASE);
    CHECK(run_words(raw, "EXEC", NULL, NULL));
    CHECK(!run_words(late, "EXEC", NULL, NULL));
    CHECK_INT(raw_number(raw, "EXISTS report"), ==, 0);
    redisFree(late);
}

/* ---- Rights ----------------------------------------------------------------------------- */

TEST(who_may_not_run_scripts_finds_out_and_does_without)
{
    begin();
    CHECK(raw_is("OK", "ACL SETUSER few on >secret ~* &* +@all -eval -evalsha"));
    char url[200];
    snprintf(url, sizeof url, "redis://few:secret@127.0.0.1:%d?quarantine=no&layout=plain",
             server.port);
    snib *client = client_of(url);
    snib_lease *lease = take(client, "report", NULL);
    CHECK_INT(raw_number(raw, "EXISTS report"), ==, 1);
    CHECK_OK(snib_verify(lease, NULL), "verify");
    give(&lease);
    CHECK_INT(raw_number(raw, "EXISTS report"), ==, 0);
    CHECK_INT(raw_calls(raw, "exec"), >=, 2);
    snib_close(client);
}

/* A word that may not be said, and one that may not be heard: slower, and right. */
TEST(channels_that_are_not_allowed_cost_only_time)
{
    const char *const parameters[] = {"", "&scripts=no"};
    begin();
    CHECK(raw_is("OK", "ACL SETUSER mute on >secret ~* resetchannels +@all"));
    for (int i = 0; i < 2; i++) {
        char url[200];
        snprintf(url, sizeof url, "redis://mute:secret@127.0.0.1:%d?quarantine=no&layout=plain%s",
                 server.port, parameters[i]);
        snib *client = client_of(url);
        snib_error error = {0};
        snib_lease *lease = take(client, "report", NULL);
        snib_lease *second = NULL;
        snib *other = client_of(url);
        snib_options options = waiting(60000);
        _Atomic(snib_lease *) waited = NULL;
        CHECK_OK(snib_acquire_async(NULL, other, "report", &options, note_grant, &waited, &error),
                 error.message);
        check_sleep_ms(100);
        give(&lease);
        int64_t start = check_now_ns();
        while (!(second = atomic_load(&waited))) {
            CHECK_INT(since_ms(start), <, 2000 + check_ms(3000));
            check_sleep_ms(5);
        }
        give(&second);
        snib_close(other);
        snib_close(client);
    }
}
