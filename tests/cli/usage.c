/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statuses that are snib's own, each with its one line; wrong usage; help.
 */
#include "capture.h"
#include "stage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Everything snib says of its own accord is one line of this form. */
static void check_one_line(const char *text)
{
    const char *end = strchr(text, '\n');
    if (strncmp(text, "snib: ", 6) != 0 || !end || end[1] != '\0') {
        FAIL("not one line of snib: '%s'", text);
    }
}

TEST(a_ttl_out_of_range_says_which_end)
{
    stage_file();
    const struct capture *said = capture("run", "--ttl", "50ms", "x", "--", "true");
    CHECK_INT(said->status, ==, 64);
    check_one_line(said->err);
    CHECK(strstr(said->err, "100 ms is the least") && !strstr(said->err, "max-lease"));
    said = capture("run", "--ttl", "2h", "x", "--", "true");
    CHECK_INT(said->status, ==, 64);
    check_one_line(said->err);
    CHECK(strstr(said->err, "more than max-lease=, 60000 ms") != NULL);
}

TEST(a_command_that_cannot_run_is_126_or_127)
{
    char path[256];
    stage_file();
    const struct capture *said = capture("run", "x", "--", "no-such-command-anywhere");
    CHECK_INT(said->status, ==, 127);
    check_one_line(said->err);
    said = capture("run", "x", "--", "/no/such/file");
    CHECK_INT(said->status, ==, 127);
    check_one_line(said->err);
    snprintf(path, sizeof path, "%s/plain", check_tmpdir());
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    close(fd);
    said = capture("run", "x", "--", path);
    CHECK_INT(said->status, ==, 126);
    check_one_line(said->err);
    said = capture("run", "x", "--", check_tmpdir());
    CHECK_INT(said->status, ==, 126);
    CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 0); /* given back */
}

TEST(an_engine_that_does_not_promise_what_is_required_is_69)
{
    stage_file();
    const struct capture *said = capture("run", "--require", "cross-host,fair", "x", "--", "true");
    CHECK_INT(said->status, ==, 69);
    check_one_line(said->err);
    CHECK(strstr(said->err, "cross-host") && !strstr(said->err, "fair"));
    said = capture("run", "--require", "at-once", "--require", "shared", "x", "--", "true");
    CHECK_INT(said->status, ==, 0);
    said = capture("run", "--require", "cross-hosts", "x", "--", "true");
    CHECK_INT(said->status, ==, 64);
    CHECK(strstr(said->err, "did you mean 'cross-host'?"));
}

TEST(an_engine_that_is_not_there_is_69)
{
    static const int codes[] = {-6, -7, -9, -13}; /* unreachable, denied, not supported, unsafe */
    struct fake_state *engine = stage_fake("timeout=100ms");
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        atomic_store(&engine->refuse, codes[i]);
        const struct capture *said = capture("run", "x", "--", "true");
        CHECK_INT(said->status, ==, 69);
        check_one_line(said->err);
    }
    atomic_store(&engine->refuse, 0);
    atomic_store(&engine->mute_attempts, 1);
    const struct capture *said = capture("run", "-n", "x", "--", "true");
    CHECK_INT(said->status, ==, 69);
    check_one_line(said->err);
    said = capture("run", "-w", "0.3", "x", "--", "true");
    CHECK_INT(said->status, ==, 69);
    check_one_line(said->err);
    said = capture("run", "-s", "x", "--", "true"); /* the fake engine has no shared locks */
    CHECK_INT(said->status, ==, 69);
    said = capture("run", "-U", "zookeeperish://h", "x", "--", "true");
    CHECK_INT(said->status, ==, 64);
}

TEST(an_error_about_the_url_says_whose_url_it_is_and_what_to_write)
{
    stage_file();
    const struct capture *said = capture("run", "-U", "localhost", "x", "--", "true");
    CHECK_INT(said->status, ==, 64);
    check_one_line(said->err);
    CHECK(strstr(said->err, "snib: -U: ") && strstr(said->err, "redis://HOST"));
    said = capture("status", "-U", "localhost:6379", "x");
    CHECK_INT(said->status, ==, 64);
    CHECK(strstr(said->err, "snib: -U: ") && strstr(said->err, "redis://HOST"));
    said = capture("doctor", "cache");
    CHECK_INT(said->status, ==, 64);
    CHECK(strstr(said->err, "snib: doctor: ") && strstr(said->err, "redis://HOST"));
    setenv("SNIB_URL", "localhost", 1);
    said = capture("run", "x", "--", "true");
    CHECK_INT(said->status, ==, 64);
    CHECK(strstr(said->err, "snib: SNIB_URL: ") && strstr(said->err, "redis://HOST"));
    setenv("SNIB_URL", "file:///no/such/parent/of/locks", 1);
    said = capture("run", "x", "--", "true");
    CHECK_INT(said->status, ==, 70);
    CHECK(strstr(said->err, "SNIB_URL: ") && strstr(said->err, "mkdir -p"));
}

TEST(an_error_about_no_lock_in_particular_names_none)
{
    const struct capture *said = capture("list", "-U", "unix:///no/such/socket");
    CHECK_INT(said->status, ==, 69);
    CHECK(strstr(said->err, "snib: redis: /no/such/socket: ") != NULL);
    said = capture("status", "-U", "unix:///no/such/socket", "report");
    CHECK_INT(said->status, ==, 69);
    CHECK(strstr(said->err, "snib: redis: 'report': /no/such/socket: ") != NULL);
}

TEST(short_of_descriptors_is_70)
{
    stage_file();
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* needs descriptors of its own */
    const struct capture *said = capture_command(
        (const char *const[]){"sh", "-c", "ulimit -n 4; exec " STAGE_SNIB " run x -- true", NULL});
    CHECK_INT(said->status, ==, 70);
    check_one_line(said->err);
}

TEST(wrong_usage_is_64_and_one_line)
{
    static const char *const lines[] = {
        "run",
        "run x",
        "run x --",
        "run 9",
        "run -n 9",
        "run -w x true",
        "run -w -1 x true",
        "run -w 1e3 x true",
        "run -w",
        "run -E 256 x true",
        "run -E x x true",
        "run -F x true",
        "run -u x true",
        "run -q x true",
        "run -c x true",
        "run --no-such x true",
        "run --verbose=1 x true",
        "run x -c",
        "run x -c true extra",
        "run --ttl 30 x true",
        "run --ttl 0 x true",
        "run --ttl 1.0001s x true",
        "run --max-hold 0 x true",
        "run --min-hold 2s --max-hold 1s x true",
        "run --permits 0 x true",
        "run --permits 1001 x true",
        "run --permits 2 -s x true",
        "run -s --permits 2 x true",
        "run --permits 2 -x x true",
        "run --on-lost stop x true",
        "run --grace 1 x true",
        "run --grace 2h x true",
        "run --max-hold 3s --grace 1s x true",
        "run --require= x true",
        "run --also x x true",
        "run --label 0123456789012345678901234567890123456789012345678901234567890 x true",
        "run -U nonsense x true",
        "run -U file:?nonsense=1 x true",
        "run --url= x true",
        "hold",
        "hold x y",
        "hold --grace 1s x",
        "hold --min-hold 1s x",
        "hold --on-lost kill x",
        "",
        "rum x true",
        "--nonsense",
    };
    stage_file();
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char script[512];
        snprintf(script, sizeof script, STAGE_SNIB " %s", lines[i]);
        const struct capture *said =
            capture_command((const char *const[]){"sh", "-c", script, NULL});
        if (said->status != 64 || said->out[0]) {
            FAIL("'%s': status %d, '%s', '%s'", lines[i], said->status, said->out, said->err);
        }
        check_one_line(said->err);
    }
}

TEST(a_mistyped_word_is_guessed)
{
    static const char *const cases[][2] = {
        {"rum x true", "did you mean 'run'?"},
        {"hodl x", "did you mean 'hold'?"},
        {"run --nonblok x true", "did you mean --nonblock?"},
        {"run --max-hodl=1s x true", "did you mean --max-hold?"},
        {"run --on-lots kill x true", "did you mean --on-lost?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char script[512];
        snprintf(script, sizeof script, STAGE_SNIB " %s", cases[i][0]);
        const struct capture *said =
            capture_command((const char *const[]){"sh", "-c", script, NULL});
        CHECK_INT(said->status, ==, 64);
        if (!strstr(said->err, cases[i][1])) {
            FAIL("'%s' says: %s", cases[i][0], said->err);
        }
    }
}

TEST(help_fits_a_screen)
{
    static const char *const commands[] = {"--help", "run --help", "hold --help", "run -h"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char script[512];
        snprintf(script, sizeof script, STAGE_SNIB " %s", commands[i]);
        const struct capture *said =
            capture_command((const char *const[]){"sh", "-c", script, NULL});
        int lines = 0;
        CHECK_INT(said->status, ==, 0);
        CHECK_STR(said->err, "");
        for (const char *p = said->out; *p; lines++) {
            size_t length = strcspn(p, "\n");
            CHECK_INT(length, <=, 90);
            p += length + 1;
        }
        CHECK_INT(lines, <=, 24);
        CHECK_INT(lines, >, 5);
    }
    const struct capture *said = capture("--version");
    CHECK_INT(said->status, ==, 0);
    CHECK(strncmp(said->out, "snib ", 5) == 0);
    char *wanted = strdup(said->out);
    CHECK_STR(capture("run", "-V")->out, wanted);
    free(wanted);
}

TEST(options_in_the_wrong_place_are_told_where_they_go)
{
    stage_file();
    const struct capture *said = capture("run", "x", "-n", "true");
    CHECK_INT(said->status, ==, 64);
    check_one_line(said->err);
    CHECK(strstr(said->err, "before it: snib run -n x") != NULL);
    said = capture("run", "x", "--wait", "3", "true"); /* without its value it would eat the name */
    CHECK_INT(said->status, ==, 64);
    CHECK(strstr(said->err, "before it: snib run --wait ... x") != NULL);
    said = capture("hold", "x", "-w", "3");
    CHECK_INT(said->status, ==, 64);
    CHECK(strstr(said->err, "before it: snib hold -w ... x") != NULL);
    said = capture("-n", "run", "x", "true");
    CHECK_INT(said->status, ==, 64);
    check_one_line(said->err);
    CHECK(strstr(said->err, "behind the command") != NULL);
}

TEST(a_password_in_the_wrong_place_is_not_repeated)
{
    stage_file();
    const struct capture *said = capture("run", "x", "--url=redis://:hush@h", "true");
    CHECK_INT(said->status, ==, 64);
    CHECK(strstr(said->err, "snib run --url=... x") && !strstr(said->err, "hush"));
    said = capture("run", "x", "-nUredis://:hush@h", "true");
    CHECK_INT(said->status, ==, 64);
    CHECK(strstr(said->err, "snib run -nU ... x") && !strstr(said->err, "hush"));
    said = capture("hold", "x", "-U", "redis://:hush@h");
    CHECK_INT(said->status, ==, 64);
    CHECK(strstr(said->err, "snib hold -U ... x") && !strstr(said->err, "hush"));
}

TEST(help_of_a_command_is_that_commands_help)
{
    const struct capture *said = capture("help", "status");
    CHECK_INT(said->status, ==, 0);
    CHECK(strstr(said->out, "usage: snib status") != NULL);
    CHECK_INT(capture("help", "stauts")->status, ==, 64);
}

TEST(schemes_and_settings_that_are_not_there_say_what_to_do)
{
    const struct capture *said = capture("status", "-U", "redsi://h", "x");
    CHECK_INT(said->status, ==, 64);
    CHECK(strstr(said->err, "did you mean 'redis:'?") != NULL);
    said = capture("run", "--ttl", "5m", "x", "--", "true");
    CHECK_INT(said->status, ==, 64);
    CHECK(strstr(said->err, "max-lease=") != NULL);
}

TEST(what_a_terminal_would_obey_is_not_said)
{
    const struct capture *said = capture("a\xc2\x9b"
                                         "b\x9b"
                                         "c\x1b[1m");
    CHECK_INT(said->status, ==, 64);
    check_one_line(said->err);
    CHECK(strpbrk(said->err, "\x9b\x1b") == NULL);
}

TEST(doctor_prints_the_rights_that_a_url_needs)
{
    const struct capture *said =
        capture("doctor", "--acl", "redis://me:secret@h/3?prefix=a*b&quarantine=no");
    CHECK_INT(said->status, ==, 0);
    CHECK(strncmp(said->out, "ACL SETUSER me on >PASSWORD ", 28) == 0);
    CHECK(strstr(said->out, " ~a\\*b:* &a\\*b:* ") != NULL);
    CHECK(strstr(said->out, "+select") != NULL);
    CHECK(strstr(said->out, "config") == NULL);
    CHECK(strstr(said->out, "secret") == NULL);
    said = capture("doctor", "--acl", "redis:");
    CHECK(strstr(said->out, " ~snib:* ") != NULL && strstr(said->out, "+config|get") != NULL);
    CHECK_INT(capture("doctor", "--acl")->status, ==, 69); /* file: */
    CHECK_INT(capture("doctor", "--acl", "--json", "redis:")->status, ==, 64);
}
