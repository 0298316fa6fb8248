/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What people are told: words that help, and none that are only between our scripts and us.
 */
#include "redis_world.h"

static struct server server;
static redisContext *raw;

static void begin(void)
{
    server_redis(&server, NULL);
    raw = raw_open(server.port);
}

static void must_say(const char *message, const char *word)
{
    if (strstr(message, word) == NULL) {
        FAIL("'%s' does not say '%s'", message, word);
    }
}

static int any(const snib_seen *seen, void *arg)
{
    (void)arg;
    FAIL("%s is shown", seen->who);
}

/* Why a lock cannot be had, looked at or taken away, as another kind. */
static void refused_as(const char *parameters, const char *name, const char *const words[])
{
    snib *client = client_of(url_of(server.port, parameters));
    for (int way = 0; way < 3; way++) {
        snib_error error = {0};
        int code = way == 0   ? try_it(client, name, &error)
                   : way == 1 ? snib_inspect(client, name, any, NULL, &error)
                              : snib_seize(client, name, 1, &error);
        if (way == 2 && code == SNIB_ELOST) {
            continue; /* MGET does not tell it from none */
        }
        CHECK_INT(code, ==, SNIB_EKIND);
        CHECK(!strstr(error.message, "LAYOUT") && !strstr(error.message, "script"));
        for (size_t i = 0; words[i] && way == 0; i++) {
            must_say(error.message, words[i]);
        }
        must_say(error.message, way == 1 ? "lock" : name);
    }
    snib_close(client);
}

TEST(a_key_of_another_kind_is_named_and_what_to_do)
{
    begin();
    raw_number(raw, "SET report text");
    raw_number(raw, "SET snib:{report} text");
    refused_as("layout=redisson", "report",
               (const char *const[]){"'report' is not a hash", "TYPE", "prefix=", "layout=", NULL});
    refused_as("", "report", (const char *const[]){"'snib:{report}' is not a hash", NULL});
    raw_number(raw, "DEL report");
    raw_number(raw, "HSET report a b");
    refused_as("layout=plain", "report", (const char *const[]){"'report' is not a string", NULL});
    refused_as("layout=plain&scripts=no", "report", (const char *const[]){"is not a string", NULL});
}

TEST(words_between_scripts_and_us_are_not_told)
{
    begin();
    raw_number(raw, "HSET report mode read someone 1");
    refused_as("layout=redisson", "report", (const char *const[]){"read-write lock", NULL});
    raw_number(raw, "SET snib-fence:{later} 9");
    snib *client = client_of(url_of(server.port, "layout=plain"));
    snib *steps = client_of(url_of(server.port, "layout=plain&scripts=no"));
    for (int i = 0; i < 2; i++) {
        snib_error error = {0};
        CHECK_INT(try_it(i ? steps : client, "later", &error), ==, SNIB_EKIND);
        must_say(error.message, "newer snib");
        CHECK(!strstr(error.message, "LAYOUT"));
    }
    snib_close(steps);
    snib_close(client);
}

/* ---- Rights ----------------------------------------------------------------------------- */

/* To hand it on the server must tell the next one, which this user may not. */
TEST(a_release_without_the_right_to_publish_says_what_is_missing)
{
    char url[160];
    snib_error error = {0};
    begin();
    raw_number(raw, "ACL SETUSER mute on >x ~* &* +@all -publish");
    snprintf(url, sizeof url, "redis://mute:x@127.0.0.1:%d?quarantine=no", server.port);
    struct helper *next = helpers_new(1, url_of(server.port, ""), "report");
    helpers_spawn(next, 1);
    snib *client = client_of(url);
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&next->go);
    await_line(raw, "report", 1);
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_EUNKNOWN);
    must_say(error.message, "NOPERM");
    must_say(error.message, "snib doctor --acl");
    snib_close(client);
    helper_must_hold(next); /* it asks by itself, now and then */
    helper_end(next);
}

TEST(a_user_who_may_not_lock_is_told_which_rights_are_needed)
{
    char url[160];
    snib_error error = {0};
    begin();
    raw_number(raw, "ACL SETUSER few on >x ~other:* &* +@all");
    snprintf(url, sizeof url, "redis://few:x@127.0.0.1:%d?quarantine=no", server.port);
    snib *client = client_of(url);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EDENIED);
    must_say(error.message, "NOPERM");
    must_say(error.message, "snib doctor --acl");
    snib_close(client);
}

/* With the longest prefix there can be, of signs that a pattern must escape. */
TEST(a_line_of_rights_is_never_cut)
{
    static const char *const layouts[] = {"native", "plain", "redisson", "redisson-rw"};
    char prefix[101], url[300], line[SNIB_RIGHTS_SIZE];
    begin();
    memset(prefix, '*', 100);
    prefix[100] = '\0';
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        snib_error error = {0};
        snprintf(url, sizeof url, "redis://a-user:PASSWORD@127.0.0.1:%d/3?layout=%s&prefix=%s",
                 server.port, layouts[i], prefix);
        snib *client = client_of(url);
        CHECK_OK(snib_rights(client, line, sizeof line, &error), error.message);
        snib_close(client);
        must_say(line, " +scan +select +config|get");
        const char *words[64];
        int count = 0;
        for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) {
            CHECK_INT(count, <, 64);
            words[count++] = word;
        }
        redisReply *reply = redisCommandArgv(raw, count, words, NULL);
        CHECK(reply != NULL && reply->type == REDIS_REPLY_STATUS);
        freeReplyObject(reply);
    }
}

/* ---- Doctor ----------------------------------------------------------------------------- */

static int note_tokens(const snib_finding *finding, void *arg)
{
    char *out = arg;
    if (strcmp(finding->about, "tokens") == 0) {
        snprintf(out, 600, "%d %s; %s", finding->verdict, finding->text,
                 finding->remedy ? finding->remedy : "none");
    }
    return 0;
}

static const char *said_of_tokens(const char *parameters)
{
    static char text[600];
    snib *client = client_of(url_of(server.port, parameters));
    text[0] = '\0';
    CHECK_INT(snib_examine(client, note_tokens, text, NULL), ==, SNIB_OK);
    snib_close(client);
    return text;
}

static long long keys_for_ever(void)
{
    long long count = 0;
    redisReply *all = redisCommand(raw, "KEYS *");
    CHECK(all != NULL && all->type == REDIS_REPLY_ARRAY);
    for (size_t i = 0; i < all->elements; i++) {
        count += raw_number(raw, "PTTL %s", all->element[i]->str) == -1;
    }
    freeReplyObject(all);
    return count;
}

/* Its own lock is one that nobody will ever look at again. */
TEST(an_examination_leaves_nothing_behind_for_ever)
{
    static const char *const urls[] = {"",
                                       "layout=plain",
                                       "layout=redisson",
                                       "layout=redisson&prefix=a:",
                                       "layout=redisson&prefix={a}:",
                                       "layout=redisson-rw",
                                       "layout=redisson-rw&prefix={a}:"};
    begin();
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        (void)said_of_tokens(urls[i]);
        CHECK_INT(keys_for_ever(), ==, 0);
    }
}

TEST(an_examination_tells_of_a_counter_that_a_restart_loses)
{
    char warning[4];
    begin();
    snprintf(warning, sizeof warning, "%d ", SNIB_WARNING);
    const char *said = said_of_tokens("layout=redisson");
    CHECK(strncmp(said, warning, strlen(warning)) == 0);
    must_say(said, "begin at 1");
    must_say(said, "appendonly yes");
    CHECK_STR(said_of_tokens("layout=plain"), ""); /* clocks go on without us */
    raw_number(raw, "CONFIG SET save %s", "3600 1");
    must_say(said_of_tokens("layout=redisson"), "set it back");
    raw_number(raw, "CONFIG SET appendonly yes appendfsync always");
    must_say(said_of_tokens("layout=redisson"), "keeps");
}
