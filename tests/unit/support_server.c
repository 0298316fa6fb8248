/*
 * The server starter, with shells as servers and with Redis; and the clock shim inside Redis.
 */
#include "clock_shim.h"
#include "port.h"
#include "server.h"

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A shell that writes "up" when it is ready. */
static void prepare_shell(struct server *server, const char *name, const char *script)
{
    server_init(server, name);
    server_program(server, "/bin/sh", "dash");
    server_argument(server, "-c");
    server_argument(server, "%s", script);
    server_ready_line(server, "up");
}

static void read_log(const struct server *server, char *text, size_t size)
{
    FILE *file = fopen(server->log, "re");
    CHECK(file != NULL);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

/* Sends an inline command, answers what comes back at once. */
static void ask_redis(const struct server *server, const char *command, char *answer, size_t size)
{
    int descriptor = port_connect(server->port);
    if (descriptor < 0) {
        FAIL("connect: %s", strerror(errno));
    }
    CHECK(send(descriptor, command, strlen(command), MSG_NOSIGNAL) > 0);
    struct pollfd readable = {.fd = descriptor, .events = POLLIN};
    CHECK_INT(poll(&readable, 1, check_ms(10000)), ==, 1);
    ssize_t got = recv(descriptor, answer, size - 1, 0);
    CHECK(got > 0);
    answer[got] = '\0';
    close(descriptor);
}

/* ---- Ports ------------------------------------------------------------------------------ */

static void claim_and_compare(void *arg)
{
    CHECK_INT(port_claim(), !=, *(int *)arg);
}

TEST(claimed_ports_differ_and_refuse_connections)
{
    int ports[20];
    for (int i = 0; i < 20; i++) {
        ports[i] = port_claim();
        for (int k = 0; k < i; k++) {
            CHECK_INT(ports[i], !=, ports[k]);
        }
        CHECK_INT(port_connect(ports[i]), ==, -1);
        CHECK_INT(errno, ==, ECONNREFUSED);
    }
    check_join(check_spawn(claim_and_compare, &ports[0]), 10000);
}

/* ---- Shells ----------------------------------------------------------------------------- */

TEST(a_server_is_ready_when_its_line_is_written)
{
    struct server server;
    prepare_shell(&server, "talker", "echo not yet; echo up; exec sleep 1000");
    server_start(&server);
    char text[256];
    read_log(&server, text, sizeof text);
    CHECK_STR(text, "not yet\nup\n");
    CHECK(check_alive(server.pid));
    pid_t pid = server.pid;
    server_stop(&server);
    CHECK(!check_alive(pid));
    CHECK_INT(server.pid, ==, 0);
    server_stop(&server); /* nothing to do */
}

TEST(a_server_starts_again_and_readiness_is_asked_anew)
{
    struct server server;
    prepare_shell(&server, "talker", "test -e once && sleep 0.2; : > once; echo up; sleep 1000");
    server_start(&server);
    server_kill(&server);
    server_start(&server);
    char text[256];
    read_log(&server, text, sizeof text);
    CHECK_STR(text, "up\nup\n");
    server_restart(&server);
}

TEST(arguments_and_variables_are_filled_in)
{
    struct server server;
    char wanted[512];
    char text[512];
    prepare_shell(&server, "filled",
                  "echo $GIVEN; pwd; echo @PORT@ @PORT1@; echo @FOLDER; echo up; exec sleep 1000");
    setenv("GIVEN", "inherited", 1);
    server_variable(&server, "GIVEN=%s@PORT3@", "number ");
    server_start(&server);
    read_log(&server, text, sizeof text);
    snprintf(wanted, sizeof wanted, "number %d\n%s\n%d %d\n@FOLDER\nup\n", server.ports[3],
             server.folder, server.port, server.ports[1]);
    CHECK_STR(text, wanted);
}

TEST(a_stubborn_server_and_its_children_are_killed)
{
    struct server server;
    prepare_shell(&server, "stubborn",
                  "trap '' TERM; sleep 1000 & echo $!; sleep 1000 & echo $!; echo up; wait; wait");
    server.stop_timeout_ms = 300;
    server_start(&server);
    char text[256];
    int first = 0;
    int second = 0;
    read_log(&server, text, sizeof text);
    CHECK_INT(sscanf(text, "%d %d", &first, &second), ==, 2);
    server_stop(&server);
    CHECK(!check_alive(first));
    CHECK(!check_alive(second));
}

TEST(a_paused_server_stands_still)
{
    struct server server;
    prepare_shell(&server, "ticker", "while :; do echo up; sleep 0.01; done");
    server_start(&server);
    server_pause(&server);
    struct stat before;
    struct stat after;
    CHECK_INT(stat(server.log, &before), ==, 0);
    check_sleep_ms(100);
    CHECK_INT(stat(server.log, &after), ==, 0);
    CHECK_INT(before.st_size, ==, after.st_size);
    server_resume(&server);
    server_stop(&server);
}

TEST(a_server_can_run_without_privileges)
{
    if (geteuid() != 0) {
        SKIP("only root can drop privileges");
    }
    struct server server;
    prepare_shell(&server, "humble", "id -u; id -G; : > mine; ls mine; echo up; exec sleep 1000");
    server_user(&server, NULL);
    server_start(&server);
    const struct passwd *nobody = getpwnam("nobody");
    CHECK(nobody != NULL);
    char text[256];
    char wanted[256];
    read_log(&server, text, sizeof text);
    snprintf(wanted, sizeof wanted, "%u\n%u\nmine\nup\n", nobody->pw_uid, nobody->pw_gid);
    CHECK_STR(text, wanted);
}

static pid_t *server_of_helper;

static void start_and_wait(void *arg)
{
    struct server server;
    prepare_shell(&server, "dependent", "echo up; exec sleep 1000");
    server_user(&server, NULL);
    server_start(&server);
    *server_of_helper = server.pid;
    check_flag_set(arg);
    check_sleep_ms(100000);
}

static bool is_dead(void *arg)
{
    return !check_alive(*(pid_t *)arg);
}

TEST(a_server_dies_with_the_process_that_started_it)
{
    struct check_flag *started = check_shared(sizeof *started);
    server_of_helper = check_shared(sizeof *server_of_helper);
    pid_t helper = check_spawn(start_and_wait, started);
    check_flag_wait(started, 10000);
    CHECK(check_alive(*server_of_helper));
    check_kill(helper);
    CHECK(check_until(is_dead, server_of_helper, 10000));
}

static void start_missing(void *arg)
{
    (void)arg;
    struct server server;
    server_init(&server, "missing");
    server_program(&server, "/nonexistent/server", "no-such-package");
}

TEST(a_missing_server_is_a_skip)
{
    setenv("CI", "", 1);
    /* check_join would skip this case, too. */
    int status = check_wait(check_spawn(start_missing, NULL), 10000);
    CHECK_INT(status, ==, 98 << 8);
}

/* ---- Redis ------------------------------------------------------------------------------ */

TEST(redis_restarts_on_the_same_port)
{
    struct server redis;
    char answer[256];
    server_redis(&redis, NULL);
    int port = redis.port;
    ask_redis(&redis, "SET key value\r\n", answer, sizeof answer);
    CHECK_STR(answer, "+OK\r\n");
    for (int i = 0; i < 3; i++) {
        server_kill(&redis);
        CHECK_INT(port_connect(port), ==, -1);
        server_start(&redis);
        CHECK_INT(redis.port, ==, port);
        ask_redis(&redis, "GET key\r\n", answer, sizeof answer);
        CHECK_STR(answer, "$-1\r\n");
    }
}

TEST(redis_takes_extra_arguments_and_has_a_socket)
{
    static const char *const extra[] = {"--requirepass", "secret", NULL};
    struct server redis;
    char answer[256];
    char path[512];
    struct stat status;
    server_redis(&redis, extra);
    ask_redis(&redis, "GET key\r\n", answer, sizeof answer);
    CHECK(strncmp(answer, "-NOAUTH", 7) == 0);
    snprintf(path, sizeof path, "%s/redis.sock", redis.folder);
    CHECK_INT(stat(path, &status), ==, 0);
    CHECK(S_ISSOCK(status.st_mode));
}

static int64_t redis_seconds(const struct server *redis)
{
    char answer[256];
    long long seconds = 0;
    ask_redis(redis, "TIME\r\n", answer, sizeof answer);
    if (sscanf(answer, "*2 $%*d %lld", &seconds) != 1) {
        FAIL("TIME answers %s", answer);
    }
    return seconds;
}

TEST(the_clock_shim_steps_the_clock_of_redis)
{
    struct server redis;
    struct clock_shim clock;
    clock_shim_open(&clock);
    server_init(&redis, "redis");
    clock_shim_use(&clock, &redis);
    server_redis_prepare(&redis, NULL);
    server_user(&redis, NULL);
    server_start(&redis);

    const int64_t hours[] = {0, 1, -1, 24, 0};
    for (size_t i = 0; i < sizeof hours / sizeof *hours; i++) {
        clock_shim_wall(&clock, hours[i] * 3600 * 1000);
        int64_t before = (int64_t)time(NULL) + hours[i] * 3600;
        int64_t seconds = redis_seconds(&redis);
        int64_t after = (int64_t)time(NULL) + hours[i] * 3600;
        /* Redis reads its clock once per turn of its loop, and time(2) is a coarse clock. */
        CHECK_INT(seconds, >=, before - 2);
        CHECK_INT(seconds, <=, after + 2);
    }
}

TEST(a_step_forward_expires_keys_in_redis)
{
    struct server redis;
    struct clock_shim clock;
    char answer[256];
    clock_shim_open(&clock);
    server_init(&redis, "redis");
    clock_shim_use(&clock, &redis);
    server_redis_prepare(&redis, NULL);
    server_start(&redis);

    ask_redis(&redis, "SET key value PX 3600000\r\n", answer, sizeof answer);
    ask_redis(&redis, "GET key\r\n", answer, sizeof answer);
    CHECK_STR(answer, "$5\r\nvalue\r\n");
    clock_shim_wall(&clock, 3601000);
    ask_redis(&redis, "GET key\r\n", answer, sizeof answer);
    CHECK_STR(answer, "$-1\r\n");
}
