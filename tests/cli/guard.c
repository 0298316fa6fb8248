/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib guard: which status means what, where the token comes from, and the story it is for.
 * Who is admitted, and what may go wrong on the way, is in tests/unit/guard.c.
 */
#include "capture.h"
#include "check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_MS 10000

static char path[300];

static void prepare(void)
{
    char url[320];
    snprintf(path, sizeof path, "%s/data", check_tmpdir());
    snprintf(url, sizeof url, "file://%s/locks", check_tmpdir());
    setenv("SNIB_URL", url, 1);
    snprintf(url, sizeof url, "%s/locks", check_tmpdir());
    CHECK_INT(mkdir(url, 0700), ==, 0);
    unsetenv("SNIB_TOKEN");
    CHECK_INT(chdir(check_tmpdir()), ==, 0);
}

static void says(const char *text, const char *what)
{
    if (!strstr(text, what)) {
        FAIL("'%s' is not in:\n%s", what, text);
    }
}

static void one_line(const struct capture *said)
{
    CHECK(strncmp(said->err, "snib: ", 6) == 0);
    CHECK(strchr(said->err, '\n') == said->err + strlen(said->err) - 1);
}

TEST(an_older_token_is_refused_with_79_and_one_line)
{
    prepare();
    const struct capture *said = capture("guard", "--token", "7", path);
    CHECK_INT(said->status, ==, 0);
    CHECK_STR(said->out, "");
    CHECK_STR(said->err, "");
    CHECK_INT(capture("guard", "--token", "7", path)->status, ==, 0);
    CHECK_INT(capture("guard", "--token=9", path)->status, ==, 0);
    said = capture("guard", "--token", "8", path);
    CHECK_INT(said->status, ==, 79);
    CHECK_STR(said->out, "");
    one_line(said);
    says(said->err, path);
    says(said->err, "8");
    says(said->err, "9");
}

TEST(the_token_is_that_of_the_snib_run_around_it)
{
    prepare();
    setenv("SNIB_TOKEN", "5", 1);
    CHECK_INT(capture("guard", path)->status, ==, 0);
    CHECK_INT(capture("guard", "--token", "4", path)->status, ==, 79);
    CHECK_INT(capture("guard", "--token", "6", path)->status, ==, 0);
    CHECK_INT(capture("guard", path)->status, ==, 79);
    unsetenv("SNIB_TOKEN");
    const struct capture *said = capture("run", "stock", CAPTURE_SNIB, "guard", path);
    CHECK_INT(said->status, ==, 0);
    CHECK_INT(capture("guard", "--token", "6", path)->status, ==, 79);
    CHECK_INT(capture("run", "stock", CAPTURE_SNIB, "guard", path)->status, ==, 0);
}

TEST(a_command_runs_only_if_its_token_is_admitted)
{
    prepare();
    const struct capture *said = capture("guard", "--token", "7", path, "--", "sh", "-c",
                                         "echo \"$0 $1\"; exit 3", "a", "b");
    CHECK_INT(said->status, ==, 3);
    CHECK_STR(said->out, "a b\n");
    said = capture("guard", "--token", "6", path, "--", "touch", "touched");
    CHECK_INT(said->status, ==, 79);
    CHECK_INT(access("touched", F_OK), ==, -1);
    said = capture("guard", "--token", "7", path, "--", "./nothing");
    CHECK_INT(said->status, ==, 127);
    one_line(said);
    said = capture("guard", "--token", "7", path, "--", "/");
    CHECK_INT(said->status, ==, 126);
    one_line(said);
}

TEST(mistakes_are_named)
{
    static const struct {
        const char *argv[6];
        const char *says;
    } mistakes[] = {
        {{"guard"}, "no path"},
        {{"guard", "data"}, "no token"},
        {{"guard", "--token", "0", "data"}, "not a token"},
        {{"guard", "--token", "-1", "data"}, "not a token"},
        {{"guard", "--token", "1 ", "data"}, "not a token"},
        {{"guard", "--token"}, "wants a value"},
        {{"guard", "--tokne", "1", "data"}, "did you mean --token?"},
        {{"guard", "--token", "1", "data", "ls"}, "comes behind --"},
        {{"guard", "--token", "1", "data", "--"}, "no command behind --"},
        {{"guard", "--token", "1", "/"}, "does not end in a name"},
        {{"guard", "--token", "1", ""}, "no path"},
    };
    prepare();
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const char *argv[8] = {CAPTURE_SNIB};
        memcpy(argv + 1, mistakes[i].argv, sizeof mistakes[i].argv);
        const struct capture *said = capture_command(argv);
        says(said->err, mistakes[i].says);
        one_line(said);
        CHECK_INT(said->status, ==, 64);
    }
    setenv("SNIB_TOKEN", "12monkeys", 1);
    const struct capture *said = capture("guard", "data");
    CHECK_INT(said->status, ==, 64);
    says(said->err, "SNIB_TOKEN");
}

TEST(a_path_that_cannot_be_guarded_is_69)
{
    prepare();
    const struct capture *said = capture("guard", "--token", "1", "none/data");
    CHECK_INT(said->status, ==, 69);
    one_line(said);
    CHECK_INT(symlink("elsewhere", ".data.snib-token"), ==, 0);
    said = capture("guard", "--token", "1", "data");
    CHECK_INT(said->status, ==, 69);
    one_line(said);
    static const char script[] =
        "exec 2>/dev/null; trap '' XFSZ; ulimit -f 0; exec \"$0\" guard --token 1 full";
    said = capture_command((const char *const[]){"sh", "-c", script, CAPTURE_SNIB, NULL});
    CHECK_INT(said->status, ==, 69);
}

/* The holder is paused between its decision and its write; meanwhile the lock is given to another.
 * With file: only an administrator can do that, by removing the lock file; elsewhere it is enough
 * to sleep longer than the lease. */
TEST(the_late_write_of_a_paused_holder_is_refused)
{
    prepare();
    static const char script[] =
        "late='echo started >started; kill -STOP $$; \"$0\" guard data -- sh -c \"echo late "
        ">data\"'\n"
        "\"$0\" run --on-lost ignore stock sh -c \"$late\" \"$0\" & first=$!\n"
        "until [ -e started ]; do kill -0 $first || exit 1; sleep 0.01; done\n"
        "rm locks/*\n"
        "\"$0\" run stock sh -c '\"$0\" guard data -- sh -c \"echo new >data\"' \"$0\" || exit 1\n"
        "pkill -CONT -P $first; wait $first\n"
        "echo \"status $?\"; cat data\n";
    const struct capture *said =
        capture_command((const char *const[]){"sh", "-c", script, CAPTURE_SNIB, NULL});
    says(said->err, "is too old");
    /* Its file is gone: found at the end, or, if that took long, while the command ran. */
    if (strstr(said->err, "was lost while the command ran")) {
        CHECK_STR(said->out, "status 79\nnew\n");
    } else {
        CHECK_STR(said->out, "status 80\nnew\n");
    }
}
