/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers that are not what they should be: other protocols, other manners, lies.
 */
#include "redis_fake.h"
#include "redis_world.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static struct fake fake;

static int64_t since_ms(int64_t start_ns)
{
    return (check_now_ns() - start_ns) / 1000000;
}

/* Grants the first script, and lets the others go. */
static void grant(struct fake *f, int fd)
{
    if (atomic_fetch_add(&f->attempts, 1) == 0) {
        fake_say_held(fd, 1790000000000001, 30000, 1790000000001);
    } else {
        fake_say_gone(fd);
    }
}

/* ---- Another protocol ------------------------------------------------------------------- */

TEST(a_server_that_speaks_http_is_told_at_once)
{
    static const char *const parameters[] = {"", "timeout=20s"};
    fake = (struct fake){.greeting = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"};
    fake_start(&fake);
    for (int i = 0; i < 2; i++) {
        snib_error error = {0};
        snib *client = client_of(url_of(fake.port, parameters[i]));
        int64_t start = check_now_ns();
        CHECK_INT(try_it(client, "report", &error), ==, SNIB_EPROTO);
        CHECK_INT(since_ms(start), <, check_ms(2000));
        CHECK(strstr(error.message, "another protocol") != NULL);
        snib_options options = waiting(60000);
        snib_lease *lease = NULL;
        start = check_now_ns();
        CHECK_INT(snib_acquire(&lease, client, "report", &options, &error), ==, SNIB_EPROTO);
        CHECK_INT(snib_inspect(client, "report", count_seen, &(int){0}, &error), ==, SNIB_EPROTO);
        CHECK_INT(since_ms(start), <, check_ms(2000));
        snib_close(client);
    }
}

/* A byte now and then that never becomes an answer. */
static void drip(void *arg)
{
    int listener = *(int *)arg;
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        for (int i = 0; fd >= 0 && i < 200 && send(fd, i ? "x" : "+", 1, MSG_NOSIGNAL) == 1; i++) {
            check_sleep_ms(50);
        }
        close(fd);
    }
}

TEST(a_server_that_drips_and_never_answers_is_left_in_time)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 8) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    pid_t pid = check_spawn(drip, &listener);
    snib *client = client_of(url_of(ntohs(address.sin_port), "timeout=200ms"));
    snib_error error = {0};
    int64_t start = check_now_ns();
    CHECK_INT(snib_inspect(client, "report", count_seen, &(int){0}, &error), <, 0);
    CHECK_INT(since_ms(start), <, check_ms(6000));
    snib_close(client);
    check_kill(pid);
}

/* ---- Other versions --------------------------------------------------------------------- */

static void serve_as_an_old_one(struct fake *f, int fd, const redisReply *command)
{
    if (fake_is(command, "EVALSHA")) {
        grant(f, fd);
    } else if (fake_is(command, "INFO")) {
        fake_say_bulk(fd, "redis_version:6.0.16\r\nrole:master\r\n");
    } else {
        fake_greets(fd, command);
    }
}

/* The word that comes with a grant. */
struct word {
    atomic_bool there;
    char text[200];
};

static void keep_word(const snib_event *event, void *arg)
{
    struct word *word = arg;
    if (event->state == SNIB_HELD) {
        snprintf(word->text, sizeof word->text, "%s", event->why);
        atomic_store(&word->there, true);
    }
}

static bool has_come(void *arg)
{
    return atomic_load(&((struct word *)arg)->there);
}

TEST(a_server_that_is_older_than_what_is_tested_is_named_to_the_first_holder)
{
    struct word word = {.there = false};
    snib_options options = waiting(PATIENCE_MS);
    options.on_event = keep_word;
    options.arg = &word;
    fake = (struct fake){.answer = serve_as_an_old_one};
    fake_start(&fake);
    snib *client = client_of(url_of(fake.port, ""));
    snib_lease *lease = take(client, "report", &options);
    CHECK(check_until(has_come, &word, PATIENCE_MS));
    CHECK(strstr(word.text, "redis 6.0.16") != NULL);
    give(&lease);
    snib_close(client);
}

/* ---- Being let in ----------------------------------------------------------------------- */

static void refuse_and_fall_silent(struct fake *f, int fd, const redisReply *command)
{
    (void)f;
    if (fake_is(command, "AUTH")) {
        fake_say(fd, "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    }
}

/* As Redis 8 with several I/O threads does, when something long comes behind AUTH. */
TEST(safety_48_a_refused_password_ends_the_attempt_by_itself)
{
    snib_error error = {0};
    char url[256];
    fake = (struct fake){.answer = refuse_and_fall_silent};
    fake_start(&fake);
    snprintf(url, sizeof url, "redis://:wrong@127.0.0.1:%d?quarantine=no&timeout=20s", fake.port);
    snib *client = client_of(url);
    int64_t start = check_now_ns();
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EDENIED);
    CHECK_INT(snib_inspect(client, "report", count_seen, &(int){0}, &error), ==, SNIB_EDENIED);
    CHECK_INT(since_ms(start), <, check_ms(5000));
    snib_close(client);
}

/* As KeyDB does: what is long and comes early is an offence. */
static void hang_up_on_the_hasty(struct fake *f, int fd, const redisReply *command)
{
    char bytes[4096];
    if (fake_is(command, "AUTH")) {
        check_sleep_ms(150);
        ssize_t n = recv(fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
        if (atomic_load(&f->scripts) > 0 || (n > 0 && memmem(bytes, (size_t)n, "EVAL", 4))) {
            shutdown(fd, SHUT_RDWR);
        }
    }
    if (fake_is(command, "EVALSHA")) {
        grant(f, fd);
    } else {
        fake_greets(fd, command);
    }
}

TEST(safety_48_nothing_but_the_greeting_leaves_before_the_password_is_accepted)
{
    snib_error error = {0};
    char url[256];
    fake = (struct fake){.answer = hang_up_on_the_hasty};
    fake_start(&fake);
    snprintf(url, sizeof url, "redis://:right@127.0.0.1:%d?quarantine=no", fake.port);
    snib *client = client_of(url);
    CHECK_OK(try_it(client, "report", &error), error.message);
    CHECK_INT(atomic_load(&fake.connections), ==, 1);
    snib_close(client);
}

/* A server that does not know a command repeats the start of what it was sent. */
TEST(no_part_of_a_password_is_ever_shown)
{
    static struct server server;
    static const char *const extra[] = {"--rename-command", "AUTH", "", NULL};
    snib_error error = {0};
    char url[600], secret[301];
    for (size_t i = 0; i < sizeof secret - 1; i++) {
        secret[i] = (char)('a' + i % 23);
    }
    secret[sizeof secret - 1] = '\0';
    server_redis(&server, extra);
    snprintf(url, sizeof url, "redis://:%s@127.0.0.1:%d?quarantine=no", secret, server.port);
    snib *client = client_of(url);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_ENOTSUP);
    CHECK(strstr(error.message, "AUTH") != NULL);
    CHECK(strstr(error.message, "abcdefgh") == NULL);
    int count = 0;
    CHECK_INT(snib_inspect(client, "report", count_seen, &count, &error), ==, SNIB_ENOTSUP);
    CHECK(strstr(error.message, "abcdefgh") == NULL);
    snib_close(client);
}

/* ---- Lists ------------------------------------------------------------------------------ */

TEST(a_foreign_key_under_the_prefix_does_not_end_a_list)
{
    static struct server server;
    snib_error error = {0};
    int count = 0;
    server_redis(&server, NULL);
    redisContext *raw = raw_open(server.port);
    raw_number(raw, "SET snib:{aaa} text");
    raw_number(raw, "RPUSH snib:{zzz} one two");
    raw_number(raw, "HSET snib:{hash} h:x nonsense q:1 nonsense s nonsense");
    raw_number(raw, "HSET snib:{rubble} h:x nonsense q:1 nonsense t: nonsense");
    raw_number(raw, "HSET snib:{ruin} h:x nonsense q:1 nonsense s %b", "\2\11", (size_t)2);
    raw_set_free(raw, "wreck", 7, 3600);
    raw_number(raw, "HSET snib:{wreck} h:x nonsense q:1 nonsense q:2 %b", "", (size_t)0);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    CHECK_OK(snib_list(client, "", count_seen, &count, &error), error.message);
    CHECK_INT(count, ==, 1);
    CHECK_INT(snib_inspect(client, "aaa", count_seen, &count, &error), ==, SNIB_EKIND);
    CHECK(strstr(error.message, "'snib:{aaa}' is not a hash") != NULL);
    CHECK_INT(try_it(client, "aaa", &error), ==, SNIB_EKIND);
    CHECK(strstr(error.message, "'snib:{aaa}' is not a hash") != NULL);
    CHECK(strstr(error.message, "prefix=") && !strstr(error.message, "WRONGTYPE"));
    give(&lease);
    snib_close(client);
    redisFree(raw);
}

/* Two pages of keys that no name has, a list among them, and one lock with a long future. */
static void list_nonsense(struct fake *f, int fd, const redisReply *command)
{
    if (fake_is(command, "SCAN") && atomic_fetch_add(&f->attempts, 1) == 0) {
        fake_say(fd, "*2\r\n$1\r\n7\r\n*3\r\n");
        fake_say_bulk(fd, "s");
        fake_say_bulk(fd, "");
        fake_say_bulk(fd, "other:{ab}");
    } else if (fake_is(command, "SCAN")) {
        fake_say(fd, "*2\r\n$1\r\n0\r\n*2\r\n*0\r\n");
        fake_say_bulk(fd, "snib:{a}");
    } else if (fake_is(command, "HGETALL")) {
        char state[62], holder[28];
        memset(state, 0xff, sizeof state);
        memset(holder, 0xff, sizeof holder);
        memcpy(state, "\2\0", 2);
        fake_say(fd, "*4\r\n");
        fake_say_bulk(fd, "h:x");
        fake_say_bytes(fd, holder, sizeof holder);
        fake_say_bulk(fd, "s");
        fake_say_bytes(fd, state, sizeof state);
    } else {
        fake_greets(fd, command);
    }
}

static int note_left(const snib_seen *seen, void *arg)
{
    *(int64_t *)arg = seen->left_ms;
    return 0;
}

TEST(whatever_a_server_lists_is_taken_with_care)
{
    snib_error error = {0};
    int64_t left_ms = 0;
    fake = (struct fake){.answer = list_nonsense};
    fake_start(&fake);
    snib *client = client_of(url_of(fake.port, ""));
    CHECK_OK(snib_list(client, "", note_left, &left_ms, &error), error.message);
    CHECK_INT(left_ms, >, 0);
    CHECK_INT(left_ms, <, INT64_MAX / 1000000); /* so that it can be added to a time */
    snib_close(client);
}

static void scan_for_ever(struct fake *f, int fd, const redisReply *command)
{
    char page[64];
    if (fake_is(command, "SCAN")) {
        snprintf(page, sizeof page, "*2\r\n$6\r\n%06d\r\n*0\r\n",
                 100001 + atomic_fetch_add(&f->attempts, 1) % 800000);
        fake_say(fd, page);
    } else {
        fake_greets(fd, command);
    }
}

TEST_LIMIT(a_scan_without_an_end_is_ended, 120)
{
    snib_error error = {0};
    int count = 0;
    fake = (struct fake){.answer = scan_for_ever};
    fake_start(&fake);
    snib *client = client_of(url_of(fake.port, ""));
    CHECK_INT(snib_list(client, "", count_seen, &count, &error), ==, SNIB_EPROTO);
    CHECK(strstr(error.message, "SCAN") != NULL);
    snib_close(client);
}

static void hold_for_ages(struct fake *f, int fd, const redisReply *command)
{
    if (fake_is(command, "EVALSHA")) {
        if (atomic_fetch_add(&f->attempts, 1) == 0) {
            fake_say_held(fd, 7, UINT32_MAX, 1790000000001);
        } else {
            fake_say_gone(fd);
        }
    } else {
        fake_greets(fd, command);
    }
}

TEST(a_lease_is_never_longer_than_was_asked_for)
{
    fake = (struct fake){.answer = hold_for_ages};
    fake_start(&fake);
    snib *client = client_of(url_of(fake.port, "ttl=2s"));
    snib_lease *lease = take(client, "report", NULL);
    CHECK_INT(snib_left_ms(lease), >, 0);
    CHECK_INT(snib_left_ms(lease), <=, 2000);
    give(&lease);
    snib_close(client);
}

/* ---- A socket with a full queue --------------------------------------------------------- */

static void serve(struct fake *f, int fd, const redisReply *command)
{
    if (fake_is(command, "EVALSHA")) {
        grant(f, fd);
    } else {
        fake_greets(fd, command);
    }
}

static void *accept_later(void *arg)
{
    check_sleep_ms(300);
    return fake_listen(arg);
}

TEST(a_unix_socket_whose_queue_is_full_is_tried_again)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char url[300];
    snib_error error = {0};
    snprintf(address.sun_path, sizeof address.sun_path, "%.90s/busy.sock", check_tmpdir());
    fake = (struct fake){.answer = serve};
    fake.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fake.listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(fake.listener, 0) == 0);
    int filler = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(connect(filler, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(pthread_create(&fake.thread, NULL, accept_later, &fake) == 0);
    snprintf(url, sizeof url, "unix://%s?quarantine=no", address.sun_path);
    snib *client = client_of(url);
    CHECK_OK(try_it(client, "report", &error), error.message);
    snib_close(client);
    close(filler);
}
