/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is at the other end of a connection: servers that are not fit for locks, and how to get in.
 */
#include "clock_shim.h"
#include "redis_world.h"

#include <fcntl.h>
#include <sys/stat.h>

static struct server server;

static snib *client_with(const char *format, ...) __attribute__((format(printf, 1, 2)));
static snib *client_with(const char *format, ...)
{
    char url[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(url, sizeof url, format, args);
    va_end(args);
    return client_of(url);
}

static void must_work(snib *client)
{
    snib_error error = {0};
    CHECK_OK(try_it(client, "report", &error), error.message);
    snib_close(client);
}

/* What the first holder is told. */
struct note {
    atomic_bool there;
    char text[160];
};

static void keep_note(const snib_event *event, void *arg)
{
    struct note *note = arg;
    if (event->state == SNIB_HELD) {
        snprintf(note->text, sizeof note->text, "%s", event->why);
        atomic_store(&note->there, true);
    }
}

static void must_note(const char *url, const char *words)
{
    struct note note = {.there = false};
    snib *client = client_of(url);
    snib_options options = waiting(PATIENCE_MS);
    options.on_event = keep_note;
    options.arg = &note;
    snib_lease *lease = take(client, "noted", &options);
    for (int i = 0; i < (words ? 1000 : 20) && !atomic_load(&note.there); i++) {
        check_sleep_ms(10);
    }
    give(&lease);
    if (atomic_load(&note.there) != (words != NULL) || (words && !strstr(note.text, words))) {
        FAIL("the note should have '%s' and says: %s", words ? words : "", note.text);
    }
    snib_close(client);
}

static void must_fail(snib *client, int code, const char *word)
{
    snib_error error = {0};
    CHECK_INT(try_it(client, "report", &error), ==, code);
    if (strstr(error.message, word) == NULL) {
        FAIL("the message should have '%s' and says: %s", word, error.message);
    }
    snib_close(client);
}

/* ---- Unfit ------------------------------------------------------------------------------ */

TEST(a_replica_is_refused)
{
    struct server replica;
    char port[8];
    server_redis(&server, NULL);
    snprintf(port, sizeof port, "%d", server.port);
    const char *const extra[] = {"--replicaof",         "127.0.0.1", port,
                                 "--replica-read-only", "no",        NULL};
    server_redis(&replica, extra);
    must_fail(client_of(url_of(replica.port, "")), SNIB_EUNSAFE, "replica");
    redisContext *raw = raw_open(replica.port);
    CHECK_INT(raw_number(raw, "HLEN snib:{report}"), <=, 3); /* what was granted went back */
    redisFree(raw);
    must_work(client_of(url_of(server.port, "")));
}

static bool has_key(void *arg)
{
    return raw_number(arg, "EXISTS snib:{kept}") == 1;
}

/* The replica becomes the master, and has not heard of everything. */
TEST(after_a_failover_what_was_copied_is_kept_and_the_rest_is_told_lost)
{
    struct server replica;
    struct proxy proxy;
    char port[8];
    static const char *const at_once[] = {"--repl-diskless-sync-delay", "0", NULL};
    server_redis(&server, at_once);
    snprintf(port, sizeof port, "%d", server.port);
    const char *const extra[] = {"--replicaof", "127.0.0.1", port, NULL};
    server_redis(&replica, extra);
    redisContext *raw = raw_open(replica.port);
    proxy_start(&proxy, server.port);
    snib *client = client_of(url_of(proxy.port, "ttl=3s"));
    snib_lease *kept = take(client, "kept", NULL);
    CHECK(check_until(has_key, raw, PATIENCE_MS));
    CHECK_INT(raw_number(raw, "REPLICAOF NO ONE"), ==, 0);
    snib_lease *lagged = take(client, "lagged", NULL);
    proxy_target(&proxy, replica.port);
    proxy_cut(&proxy, PROXY_RESET);
    server_kill(&server);

    int64_t start = check_now_ns();
    while (snib_state(lagged) != SNIB_LOST) {
        CHECK_INT((check_now_ns() - start) / 1000000, <, 2000 + check_ms(3000));
        check_sleep_ms(5);
    }
    CHECK_INT(snib_verify(kept, NULL), ==, SNIB_OK);
    snib *other = client_of(url_of(replica.port, ""));
    CHECK_INT(try_it(other, "kept", NULL), ==, SNIB_EBUSY);
    CHECK_INT(try_it(other, "lagged", NULL), ==, SNIB_OK);
    CHECK_INT(snib_release(&lagged, NULL), ==, SNIB_ELOST);
    give(&kept);
    snib_close(other);
    snib_close(client);
    redisFree(raw);
}

TEST(a_server_that_evicts_is_refused_unless_allowed)
{
    static const char *const extra[] = {"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru",
                                        NULL};
    server_redis(&server, extra);
    must_fail(client_of(url_of(server.port, "")), SNIB_EUNSAFE, "allkeys-lru");
    must_work(client_of(url_of(server.port, "eviction=allow")));
    redisContext *raw = raw_open(server.port);
    raw_number(raw, "CONFIG SET maxmemory-policy noeviction");
    must_work(client_of(url_of(server.port, "")));
    redisFree(raw);
}

/* ---- Another run ------------------------------------------------------------------------ */

static void state_url(char *url, size_t size)
{
    snprintf(url, size, "redis://127.0.0.1:%d?state=%s/state&ttl=500ms&max-lease=1s", server.port,
             check_tmpdir());
}

TEST(a_server_never_seen_before_is_used_at_once)
{
    char url[512];
    server_redis(&server, NULL);
    state_url(url, sizeof url);
    must_note(url, "not seen before");
    must_note(url, NULL); /* it has been now */
}

/* The job runs, and the note comes once. */
static void command_says(const char *url, bool noted)
{
    char line[800], said[400] = "";
    snprintf(line, sizeof line, "'%s/snib' run --url '%s' x -- echo done 2>&1", TEST_BUILD_DIR,
             url);
    FILE *out = popen(line, "r");
    CHECK(out != NULL);
    size_t n = fread(said, 1, sizeof said - 1, out);
    said[n] = '\0';
    CHECK_INT(pclose(out), ==, 0);
    CHECK(strstr(said, "done") != NULL);
    if ((strstr(said, "not seen before") != NULL) != noted) {
        FAIL("snib run says: %s", said);
    }
}

TEST(a_command_on_a_young_server_has_one_line_to_read_and_goes_on)
{
    char url[512];
    server_redis(&server, NULL);
    state_url(url, sizeof url);
    command_says(url, true);
    command_says(url, false);
}

/* A server that was seen, and is another run now. */
static void begin_restarted(char *url, size_t size)
{
    server_redis(&server, NULL);
    state_url(url, size);
    must_work(client_of(url));
    server_kill(&server);
    server_start(&server);
}

TEST(a_newcomer_on_a_restarted_server_waits_until_lost_leases_are_over)
{
    char url[512];
    snib_error error = {0};
    begin_restarted(url, sizeof url);
    int64_t start = check_now_ns();
    snib *client = client_of(url);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "quarantine") != NULL);
    CHECK_INT(error.holder_left_ms, >, 0);
    char notice[256];
    CHECK_INT(snib_inspect(client, "report", NULL, NULL, NULL), ==, SNIB_OK);
    CHECK_INT(snib_notice(client, notice, sizeof notice), ==, SNIB_OK);
    CHECK(strstr(notice, "quarantine") != NULL); /* whoever looks is told, too */
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EUNSAFE);
    snib_options options = waiting(3100 + check_ms(5000));
    snib_lease *lease = take(client, "report", &options);
    CHECK_INT((check_now_ns() - start) / 1000000, >=, 1900); /* 3.1 s of uptime, whole seconds */
    give(&lease);
    CHECK_INT(snib_inspect(client, "report", NULL, NULL, NULL), ==, SNIB_OK);
    CHECK_INT(snib_notice(client, notice, sizeof notice), ==, SNIB_OK);
    CHECK_STR(notice, "");
    snib_close(client);
    must_work(client_of(url));
}

TEST(a_quarantine_outlives_a_second_restart)
{
    char url[512];
    snib_error error = {0};
    begin_restarted(url, sizeof url);
    snib *client = client_of(url);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EUNSAFE);
    server_kill(&server);
    CHECK_INT(snib_inspect(client, "report", count_seen, NULL, NULL), <, 0);
    check_sleep_ms(3200); /* until the first quarantine would be over */
    CHECK_INT(try_it(client, "report", &error), <, 0);
    server_start(&server);
    snib *newcomer = client_of(url);
    CHECK_INT(try_it(newcomer, "report", &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "quarantine") != NULL);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EUNSAFE);
    snib_close(newcomer);
    snib_close(client);
}

/* The server says how long it has been up by its wall clock. */
static void quarantine_with_a_clock_set_by(int64_t ms, bool seen)
{
    struct clock_shim clock;
    char url[512];
    snib_error error = {0};
    clock_shim_open(&clock);
    server_init(&server, "redis");
    clock_shim_use(&clock, &server);
    server_redis_prepare(&server, NULL);
    server_start(&server);
    state_url(url, sizeof url);
    snib *client = client_of(url);
    CHECK_OK(try_it(client, "report", &error), error.message);
    server_kill(&server);
    server_start(&server);
    clock_shim_wall(&clock, ms);
    check_sleep_ms(200); /* it looks at its clock now and then */
    snib *newcomer = client_of(url);
    CHECK_INT(try_it(seen ? client : newcomer, "report", &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "quarantine") != NULL);
    snib_close(newcomer);
    snib_close(client);
}

TEST(a_clock_set_back_does_not_end_the_quarantine)
{
    quarantine_with_a_clock_set_by(-3600 * 1000, false);
}

TEST(a_clock_set_forward_does_not_end_the_quarantine_of_who_was_there)
{
    quarantine_with_a_clock_set_by(3600 * 1000, true);
}

TEST(without_quarantine_a_restarted_server_is_used_at_once)
{
    char url[512];
    begin_restarted(url, sizeof url);
    must_work(client_with("%s&quarantine=no", url));
}

/* ---- A server that keeps everything ----------------------------------------------------- */

/* Seen with this setting of AOF, killed, and started again with fsync always. */
static int try_after_a_restart(const char *setting)
{
    static const char *const extra[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    char url[512];
    server_redis(&server, extra);
    redisContext *raw = raw_open(server.port);
    raw_number(raw, setting);
    state_url(url, sizeof url);
    must_work(client_of(url));
    redisFree(raw);
    server_kill(&server);
    server_start(&server);
    snib *client = client_of(url);
    int code = try_it(client, "report", NULL);
    snib_close(client);
    return code;
}

TEST(a_server_that_keeps_whatever_it_answered_needs_no_quarantine)
{
    CHECK_INT(try_after_a_restart("CONFIG SET appendfsync always"), ==, SNIB_OK);
}

TEST(a_server_that_was_not_seen_to_keep_it_needs_one)
{
    CHECK_INT(try_after_a_restart("CONFIG SET appendfsync everysec"), ==, SNIB_EUNSAFE);
}

TEST(the_word_about_a_young_server_is_for_the_first_holder_even_if_a_list_came_first)
{
    char url[512];
    int count = 0;
    snib_error error = {0};
    server_redis(&server, NULL);
    state_url(url, sizeof url);
    snib *client = client_of(url);
    CHECK_OK(snib_list(client, "", count_seen, &count, &error), error.message);
    snib_close(client);
    must_note(url, "not seen before");
    must_note(url, NULL);
}

/* ---- Getting in ------------------------------------------------------------------------- */

TEST(a_unix_socket_is_as_good)
{
    server_redis(&server, NULL);
    must_work(client_with("unix://%s/redis.sock?quarantine=no", server.folder));
    must_work(client_with("unix://%s/redis.sock?quarantine=no&db=3", server.folder));
    must_fail(client_with("unix://%s/none.sock?quarantine=no", server.folder), SNIB_EUNREACH,
              "none.sock");
}

TEST(passwords_come_from_the_url_or_a_private_file_and_are_never_shown)
{
    static const char *const extra[] = {"--requirepass", "open-sesame", NULL};
    char path[300], url[600];
    snib_error error = {0};
    server_redis(&server, extra);
    must_fail(client_of(url_of(server.port, "")), SNIB_EDENIED, "passfile=");
    must_work(client_with("redis://:open-sesame@127.0.0.1:%d?quarantine=no", server.port));
    must_work(client_with("redis://default:open-sesame@127.0.0.1:%d?quarantine=no", server.port));

    snib *client = client_with("redis://:wrong-sesame@127.0.0.1:%d?quarantine=no", server.port);
    CHECK(strstr(snib_url(client), "sesame") == NULL);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EDENIED);
    CHECK(strstr(error.message, "sesame") == NULL);
    snib_close(client);

    snprintf(path, sizeof path, "%s/password", check_tmpdir());
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, "open-sesame\n", 12) == 12);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?quarantine=no&passfile=%s", server.port, path);
    must_work(client_of(url));
    CHECK(fchmod(fd, 0644) == 0);
    CHECK_INT(snib_open(&client, url, &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "0600") != NULL);
    close(fd);
}

/* The first request travels with the greeting, and is executed whatever became of that. */
TEST(nobody_gets_in_as_somebody_else_or_somewhere_else)
{
    snib_error error = {0};
    server_redis(&server, NULL);
    must_work(client_of(url_of(server.port, ""))); /* the server knows the scripts now */
    must_fail(client_with("redis://:needless@127.0.0.1:%d?quarantine=no", server.port),
              SNIB_EDENIED, "without any password");
    must_work(client_of(url_of(server.port, ""))); /* what was granted went back */
    must_fail(client_with("redis://nobody:x@127.0.0.1:%d?quarantine=no", server.port), SNIB_EDENIED,
              "WRONGPASS");
    must_work(client_of(url_of(server.port, "")));
    must_fail(client_with("redis://127.0.0.1:%d/99?quarantine=no", server.port), SNIB_EINVAL,
              "out of range");
    must_work(client_of(url_of(server.port, "")));

    snib *holder = client_of(url_of(server.port, ""));
    snib_lease *lease = take(holder, "report", NULL);
    snib *elsewhere = client_with("redis://127.0.0.1:%d/99?quarantine=no", server.port);
    int count = 0;
    CHECK_INT(snib_inspect(elsewhere, "report", count_seen, &count, &error), ==, SNIB_EINVAL);
    CHECK_INT(snib_break(elsewhere, "report", 1, &error), ==, SNIB_EINVAL);
    CHECK_INT(count, ==, 0);
    snib_close(elsewhere);
    give(&lease);
    snib_close(holder);
}

TEST(without_the_right_to_look_it_works_unchecked)
{
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    raw_number(raw, "ACL SETUSER locks on >p resetkeys resetchannels -@all ~snib:* &snib:* "
                    "+evalsha +eval +hmget +hset +hget +hgetall +hdel +hexists +pexpireat "
                    "+time +publish +subscribe +pubsub|numsub +ping +select");
    char url[256];
    snprintf(url, sizeof url, "redis://locks:p@127.0.0.1:%d?quarantine=no", server.port);
    struct helper *helpers = helpers_new(1, url, "report");
    helpers_spawn(helpers, 1);
    must_note(url, "INFO is denied");
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

TEST(without_the_right_to_subscribe_waiters_try_again_now_and_then)
{
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    raw_number(raw, "ACL SETUSER locks on >p allkeys resetchannels +@all -subscribe");
    char url[256];
    snprintf(url, sizeof url, "redis://locks:p@127.0.0.1:%d?quarantine=no", server.port);
    struct helper *helpers = helpers_new(1, url, "report");
    helpers_spawn(helpers, 1);
    snib *client = client_of(url);
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers->go);
    check_sleep_ms(500);
    give(&lease);
    helper_must_hold(helpers);
    helper_end(helpers);
    snib_close(client);
    redisFree(raw);
}

static long long connections(redisContext *raw)
{
    redisReply *info = redisCommand(raw, "INFO stats");
    CHECK(info != NULL && info->str != NULL);
    const char *found = strstr(info->str, "total_connections_received:");
    long long count = found ? strtoll(strchr(found, ':') + 1, NULL, 10) : 0;
    freeReplyObject(info);
    return count;
}

/* The password was changed since the first connection was made. What is subscribed to nevertheless
 * belongs to the default user. */
TEST(an_inbox_that_is_not_let_in_tries_again_now_and_then)
{
    _Atomic(snib_lease *) waited = NULL;
    snib_error error = {0};
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    raw_number(raw, "ACL SETUSER alice on >one allkeys allchannels +@all");
    snib *holder = client_of(url_of(server.port, ""));
    snib_lease *lease = take(holder, "report", NULL);
    snib *client = client_with("redis://alice:one@127.0.0.1:%d?quarantine=no", server.port);
    CHECK_OK(try_it(client, "other", &error), error.message);
    raw_number(raw, "ACL SETUSER alice resetpass >two");
    long long before = connections(raw);
    CHECK_OK(snib_acquire_async(NULL, client, "report", NULL, note_grant, &waited, &error),
             error.message);
    check_sleep_ms(1000);
    CHECK_INT(connections(raw) - before, >=, 1);
    CHECK_INT(connections(raw) - before, <=, 20);
    give(&lease);
    for (int i = 0; i < 1000 && !atomic_load(&waited); i++) {
        check_sleep_ms(10);
    }
    lease = atomic_load(&waited);
    CHECK(lease != NULL);
    give(&lease);
    snib_close(client);
    snib_close(holder);
    redisFree(raw);
}

TEST(prefixes_and_databases_are_different_worlds)
{
    server_redis(&server, NULL);
    snib *one = client_of(url_of(server.port, ""));
    snib_lease *lease = take(one, "report", NULL);
    must_work(client_of(url_of(server.port, "prefix=other")));
    must_work(client_of(url_of(server.port, "db=1")));
    must_work(client_with("redis://127.0.0.1:%d/2?quarantine=no", server.port));
    snib *same = client_with("redis://localhost:%d/0?quarantine=no", server.port);
    CHECK_INT(try_it(same, "report", NULL), ==, SNIB_EBUSY);
    snib_close(same);
    give(&lease);
    snib_close(one);
}

TEST(bad_urls_are_refused)
{
    static const char *const bad[] = {
        "redis://a,b",
        "redis://h/x",
        "redis://h/1?db=2",
        "unix://host/path",
        "redis://h?db=-1",
        "redis://:p@h?passfile=/x",
        "redis://h?prefix=",
        "redis://h?eviction=maybe",
        "redis://user@h",
        "unix://user@/path",
        "redis://h?prefix=my%20locks",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snib *client = NULL;
        snib_error error = {0};
        if (snib_open(&client, bad[i], &error) != SNIB_EINVAL) {
            FAIL("%s: %s", bad[i], error.message);
        }
    }
}
