/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib hold --json: commands on stdin, events on stdout, as docs/hold-json.md has them.
 */
#include "capture.h"
#include "json_tree.h"
#include "stage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#define PATIENCE_MS 20000

/* ---- Both sides of a conversation ------------------------------------------------------- */

/* In one piece, so that commands with a newline between them are read together. */
static void command(const struct actor *hold, const char *line)
{
    struct iovec parts[] = {{(void *)(uintptr_t)line, strlen(line)}, {"\n", 1}};
    CHECK(writev(hold->in, parts, 2) == (ssize_t)strlen(line) + 1);
}

/* The next event, which must be of this kind and about this name; valid until the next call. */
static const struct json_node *event(const struct actor *hold, const char *kind, const char *name)
{
    static struct json_node *last;
    const char *why, *line = stage_line(hold->out, PATIENCE_MS);
    json_free(last);
    last = json_parse(line, &why);
    if (!last) {
        FAIL("not JSON (%s): '%s'", why, line);
    }
    const struct json_node *is = json_find(last, "event"), *about = json_find(last, "name");
    if (!is || strcmp(is->text, kind) != 0) {
        FAIL("not '%s': '%s'", kind, line);
    }
    if (name && (!about || about->type != JSON_STRING || strcmp(about->text, name) != 0)) {
        FAIL("not about '%s': '%s'", name, line);
    }
    return last;
}

static const char *text(const struct json_node *node, const char *key)
{
    const struct json_node *member = json_find(node, key);
    if (!member || member->type != JSON_STRING) {
        FAIL("'%s' is no text", key);
    }
    return member->text;
}

static bool is_null(const struct json_node *node, const char *key)
{
    const struct json_node *member = json_find(node, key);
    return member && member->type == JSON_NULL;
}

static double number(const struct json_node *node, const char *key)
{
    const struct json_node *member = json_find(node, key);
    if (!member || member->type != JSON_NUMBER) {
        FAIL("'%s' is no number", key);
    }
    return member->number;
}

#define start(hold, ...)                                                                           \
    do {                                                                                           \
        stage_snib((hold), "hold", __VA_ARGS__);                                                   \
        (void)event((hold), "ready", NULL);                                                        \
    } while (0)

static void finish(struct actor *hold)
{
    close(hold->in);
    CHECK_STR(stage_rest(hold->err, PATIENCE_MS), "");
    CHECK_INT(stage_end(hold, PATIENCE_MS), ==, 0);
}

static int try_it(const char *name)
{
    return capture("run", "-n", name, "--", "true")->status;
}

static void check_error(const struct actor *hold, const char *name, const char *code,
                        const char *state)
{
    const struct json_node *error = event(hold, "error", name);
    CHECK_STR(text(error, "code"), code);
    CHECK_STR(text(error, "state"), state);
    CHECK(text(error, "message")[0] != '\0');
    CHECK(name || is_null(error, "name"));
}

/* ---- Locks ------------------------------------------------------------------------------ */

TEST(it_says_that_it_is_ready_and_where_it_locks)
{
    struct actor hold;
    stage_file();
    stage_snib(&hold, "hold", "--json");
    const struct json_node *ready = event(&hold, "ready", NULL);
    CHECK_INT(number(ready, "version"), ==, 1);
    CHECK_STR(text(ready, "snib"), TEST_PROJECT_VERSION);
    CHECK_STR(text(ready, "url"), getenv("SNIB_URL"));
    finish(&hold);
}

TEST(commands_acquire_and_release)
{
    struct actor hold;
    stage_file();
    start(&hold, "--json");
    command(&hold, "acquire\tx");
    const struct json_node *held = event(&hold, "held", "x");
    CHECK_UINT(strtoull(text(held, "token"), NULL, 10), >, 0);
    CHECK(is_null(held, "left_ms") && is_null(held, "why"));
    CHECK_INT(try_it("x"), ==, 75);
    command(&hold, "release\tx");
    CHECK_STR(text(event(&hold, "released", "x"), "code"), "OK");
    CHECK_INT(try_it("x"), ==, 0);
    command(&hold, "acquire\tx");
    (void)event(&hold, "held", "x");
    finish(&hold);
}

TEST(one_process_holds_two_locks_and_gives_back_one)
{
    struct actor hold;
    stage_file();
    start(&hold, "--json");
    command(&hold, "acquire\tx\nacquire\ty of ours");
    (void)event(&hold, "held", "x");
    (void)event(&hold, "held", "y of ours");
    command(&hold, "release\tx");
    (void)event(&hold, "released", "x");
    CHECK_INT(try_it("x"), ==, 0);
    CHECK_INT(try_it("y of ours"), ==, 75);
    finish(&hold);
    CHECK_INT(try_it("y of ours"), ==, 0);
}

TEST(names_on_the_command_line_are_acquired_at_once_with_its_options)
{
    struct actor hold;
    stage_file();
    start(&hold, "--json", "-s", "--label", "both", "--also", "y", "x");
    (void)event(&hold, "held", "x");
    (void)event(&hold, "held", "y");
    CHECK_INT(capture("run", "-s", "-n", "x", "--", "true")->status, ==, 0);
    CHECK_INT(try_it("y"), ==, 75);
    CHECK(strstr(capture("status", "x")->out, "both"));
    finish(&hold);
    start(&hold, "--json", "--also", "y"); /* without a NAME before it */
    (void)event(&hold, "held", "y");
    finish(&hold);
}

TEST(settings_of_an_acquire_go_before_the_options)
{
    struct actor hold;
    stage_file();
    start(&hold, "--json", "-s", "-n", "--label", "usual");
    command(&hold, "acquire\tx\tmode=exclusive\tlabel=mine");
    (void)event(&hold, "held", "x");
    CHECK_INT(capture("run", "-s", "-n", "x", "--", "true")->status, ==, 75);
    CHECK(strstr(capture("status", "x")->out, "mine"));
    command(&hold, "acquire\ty\tpermits=2\twait=1.5\tttl=5s\tmax-hold=1h");
    CHECK_INT(number(event(&hold, "held", "y"), "left_ms"), >, 3500000);
    CHECK_INT(capture("run", "--permits", "2", "-n", "y", "--", "true")->status, ==, 0);
    command(&hold, "acquire\tz");
    (void)event(&hold, "held", "z");
    CHECK_INT(capture("run", "-s", "-n", "z", "--", "true")->status, ==, 0);
    finish(&hold);
}

TEST(busy_tells_who_holds_it)
{
    struct actor first, hold;
    char expected[32];
    stage_file();
    stage_snib(&first, "hold", "--label", "nightly", "x");
    (void)stage_line(first.out, PATIENCE_MS);
    start(&hold, "--json");
    snprintf(expected, sizeof expected, ":%d", (int)first.pid);
    command(&hold, "acquire\tx\twait=0");
    const struct json_node *busy = event(&hold, "busy", "x");
    CHECK(strstr(text(busy, "holder"), expected) && strstr(text(busy, "holder"), "nightly"));
    CHECK(is_null(busy, "left_ms"));
    command(&hold, "status\tx");
    CHECK_STR(text(event(&hold, "status", "x"), "state"), "none");
    finish(&hold);
    kill(first.pid, SIGTERM);
    CHECK_INT(stage_end(&first, PATIENCE_MS), ==, 0);
}

TEST(a_wait_is_told_and_ends_when_the_other_lets_go)
{
    struct actor first, hold;
    stage_file();
    stage_snib(&first, "hold", "x");
    (void)stage_line(first.out, PATIENCE_MS);
    start(&hold, "--json");
    command(&hold, "acquire\tx\twait=forever");
    CHECK(strstr(text(event(&hold, "waiting", "x"), "why"), "behind"));
    command(&hold, "status\tx\nacquire\ty"); /* others do not wait with it */
    const struct json_node *status = event(&hold, "status", "x");
    CHECK_STR(text(status, "state"), "waiting");
    CHECK(is_null(status, "token"));
    (void)event(&hold, "held", "y");
    kill(first.pid, SIGTERM);
    CHECK_INT(stage_end(&first, PATIENCE_MS), ==, 0);
    (void)event(&hold, "held", "x");
    command(&hold, "status\tx");
    status = event(&hold, "status", "x");
    CHECK_STR(text(status, "state"), "held");
    CHECK_UINT(strtoull(text(status, "token"), NULL, 10), >, 0);
    finish(&hold);
}

TEST(a_wait_is_cancelled_and_leaves_nothing_behind)
{
    static const char *const commands[] = {"cancel\tx", "release\tx"};
    struct actor first, hold;
    stage_file();
    stage_snib(&first, "hold", "x");
    (void)stage_line(first.out, PATIENCE_MS);
    start(&hold, "--json");
    for (int i = 0; i < 2; i++) {
        command(&hold, "acquire\tx");
        (void)event(&hold, "waiting", "x");
        command(&hold, commands[i]);
        (void)event(&hold, "cancelled", "x");
    }
    kill(first.pid, SIGTERM);
    CHECK_INT(stage_end(&first, PATIENCE_MS), ==, 0);
    CHECK_INT(try_it("x"), ==, 0);
    finish(&hold);
}

/* Both are read at once, so the grant is there before the cancel and told after it. */
TEST(a_cancel_that_crosses_the_grant_gives_it_back)
{
    struct actor hold;
    stage_file();
    start(&hold, "--json");
    command(&hold, "acquire\tx\ncancel\tx\nacquire\tx");
    check_error(&hold, "x", "EINVAL", "leaving");
    (void)event(&hold, "cancelled", "x");
    CHECK_INT(try_it("x"), ==, 0);
    command(&hold, "acquire\tx");
    (void)event(&hold, "held", "x");
    command(&hold, "cancel\tx");
    check_error(&hold, "x", "ESTATE", "held");
    finish(&hold);
}

TEST(two_spellings_of_a_path_are_one_lock)
{
    struct actor hold;
    char line[600], path[300], twice[300];
    stage_file();
    start(&hold, "--json");
    snprintf(twice, sizeof twice, "%s//./p", check_tmpdir());
    snprintf(path, sizeof path, "%s/p", check_tmpdir());
    snprintf(line, sizeof line, "acquire\t%s", twice);
    command(&hold, line);
    (void)event(&hold, "held", twice); /* as it was given */
    snprintf(line, sizeof line, "acquire\t%s", path);
    command(&hold, line);
    check_error(&hold, path, "EINVAL", "held");
    snprintf(line, sizeof line, "release\t%s", path);
    command(&hold, line);
    (void)event(&hold, "released", twice);
    finish(&hold);
}

/* ---- Losses ----------------------------------------------------------------------------- */

TEST(a_lost_lock_is_told_and_the_others_stay)
{
    struct fake_state *engine = stage_fake_lease(6000);
    struct actor hold;
    start(&hold, "--json");
    command(&hold, "acquire\tx");
    CHECK_INT(number(event(&hold, "held", "x"), "left_ms"), >, 0);
    atomic_store(&engine->mute_renewals, 1);
    const struct json_node *news = event(&hold, "doubtful", "x");
    CHECK_INT(number(news, "left_ms"), >, 0);
    CHECK(text(news, "why")[0] != '\0');
    CHECK(text(event(&hold, "lost", "x"), "why")[0] != '\0');
    atomic_store(&engine->mute_renewals, 0);
    command(&hold, "status\tx\nacquire\ty\nrelease\tx");
    CHECK_STR(text(event(&hold, "status", "x"), "state"), "lost");
    for (int i = 0; i < 2; i++) { /* in either order */
        const struct json_node *next;
        char line[1000];
        snprintf(line, sizeof line, "%s", stage_line(hold.out, PATIENCE_MS));
        const char *why;
        next = json_parse(line, &why);
        CHECK(next != NULL);
        bool released = strcmp(text(next, "event"), "released") == 0;
        CHECK_STR(text(next, "name"), released ? "x" : "y");
        CHECK(!released || strcmp(text(next, "code"), "ELOST") == 0);
        json_free((struct json_node *)(uintptr_t)next);
    }
    finish(&hold);
}

TEST(doubt_that_passes_is_told_too)
{
    struct fake_state *engine = stage_fake_lease(6000);
    struct actor hold;
    start(&hold, "--json", "x");
    (void)event(&hold, "held", "x");
    atomic_store(&engine->mute_renewals, 1);
    (void)event(&hold, "doubtful", "x");
    atomic_store(&engine->mute_renewals, 0);
    CHECK(text(event(&hold, "held", "x"), "why")[0] != '\0');
    finish(&hold);
}

/* Who asks for it gets it when the holder says that it has stopped, and not before. */
TEST(a_lock_that_was_broken_is_free_when_its_holder_releases_it)
{
    struct actor hold;
    stage_file();
    start(&hold, "--json", "x");
    (void)event(&hold, "held", "x");
    (void)capture("break", "--yes", "x");
    CHECK(strstr(text(event(&hold, "lost", "x"), "why"), "asked to give up"));
    CHECK_INT(try_it("x"), ==, 75);
    command(&hold, "release\tx");
    CHECK_STR(text(event(&hold, "released", "x"), "code"), "ELOST");
    CHECK_INT(try_it("x"), ==, 0);
    finish(&hold);
}

TEST(an_engine_that_refuses_is_an_error_and_not_the_end)
{
    struct fake_state *engine = stage_fake_lease(2000);
    struct actor hold;
    atomic_store(&engine->refuse, -7);
    start(&hold, "--json", "x");
    check_error(&hold, "x", "EDENIED", "none");
    atomic_store(&engine->refuse, 0);
    command(&hold, "acquire\tx");
    (void)event(&hold, "held", "x");
    finish(&hold);
}

/* ---- Bad input -------------------------------------------------------------------------- */

TEST(what_is_not_understood_is_an_error_and_changes_nothing)
{
    static const struct {
        const char *line, *name, *state;
    } bad[] = {
        {"", NULL, "none"},
        {"acquire", NULL, "none"},
        {"acquire\t", NULL, "none"},
        {"acquire x", NULL, "none"},
        {"ACQUIRE\ty", NULL, "none"},
        {"\033[2J\xff\"", NULL, "none"},
        {"acquire\tx", "x", "held"},
        {"acquire\tx\twait=soon", "x", "held"},
        {"release\tx\tnow", "x", "held"},
        {"acquire\ty\twait=-1", "y", "none"},
        {"acquire\ty\twait", "y", "none"},
        {"acquire\ty\t", "y", "none"},
        {"acquire\ty\tmode=both", "y", "none"},
        {"acquire\ty\tpermits=0", "y", "none"},
        {"acquire\ty\tpermits=2\tmode=shared", "y", "none"},
        {"acquire\ty\twait=1\twait=2", "y", "none"},
        {"acquire\ty\tttl=0", "y", "none"},
        {"acquire\ty\tmax-hold=0", "y", "none"},
        {"acquire\ty\tcolour=red", "y", "none"},
        {"acquire\ty\033", NULL, "none"},
    };
    struct actor hold;
    stage_file();
    start(&hold, "--json", "x");
    (void)event(&hold, "held", "x");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        command(&hold, bad[i].line);
        if (strcmp(bad[i].line, "acquire\ty\033") == 0) {
            (void)event(&hold, "error", "y\033"); /* the library's word */
            continue;
        }
        check_error(&hold, bad[i].name, "EINVAL", bad[i].state);
    }
    command(&hold, "release\ty");
    check_error(&hold, "y", "ESTATE", "none");
    command(&hold, "cancel\ty");
    check_error(&hold, "y", "ESTATE", "none");
    CHECK(write(hold.in, "status\tx\0y\n", 11) == 11);
    check_error(&hold, NULL, "EINVAL", "none");
    command(&hold, "status\tx");
    CHECK_STR(text(event(&hold, "status", "x"), "state"), "held");
    finish(&hold);
}

TEST(a_blank_where_a_tab_belongs_is_said)
{
    static const char *const lines[] = {"acquire y", "acquire y wait=5", "release y",
                                        "acquire\ty wait=5", "acquire\ta b mode=shared"};
    struct actor hold;
    stage_file();
    start(&hold, "--json");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        command(&hold, lines[i]);
        const struct json_node *said = event(&hold, "error", NULL);
        CHECK(strstr(text(said, "message"), "a tab separates the fields") != NULL);
    }
    command(&hold, "acquire\ta name = b"); /* a blank is part of a name */
    (void)event(&hold, "held", "a name = b");
    finish(&hold);
}

static void command_of(const struct actor *hold, size_t length)
{
    static char line[20000];
    memset(line, 'n', sizeof line);
    memcpy(line, "status\t", 7);
    line[length] = '\0';
    command(hold, line);
}

TEST(a_line_that_is_too_long_is_skipped)
{
    struct actor hold;
    stage_file();
    start(&hold, "--json");
    command_of(&hold, 4096);
    CHECK_STR(text(event(&hold, "status", NULL), "state"), "none");
    static const size_t lengths[] = {4097, 8192, 8194, 19999};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        command_of(&hold, lengths[i]);
        check_error(&hold, NULL, "EINVAL", "none");
        command(&hold, "status\tx");
        (void)event(&hold, "status", "x");
    }
    finish(&hold);
}

TEST(a_command_may_come_in_pieces_and_half_a_command_is_none)
{
    struct actor hold;
    stage_file();
    start(&hold, "--json");
    for (const char *byte = "acquire\tx\n"; *byte; byte++) {
        CHECK(write(hold.in, byte, 1) == 1);
        check_sleep_ms(2);
    }
    (void)event(&hold, "held", "x");
    CHECK(write(hold.in, "acquire\ty", 9) == 9);
    close(hold.in);
    (void)event(&hold, "released", "x");
    CHECK_STR(stage_rest(hold.out, PATIENCE_MS), "");
    CHECK_INT(stage_end(&hold, PATIENCE_MS), ==, 0);
}

TEST(options_that_do_not_fit_are_refused)
{
    stage_file();
    CHECK_INT(capture("run", "--json", "x", "--", "true")->status, ==, 64);
    CHECK_INT(capture("hold", "--json", "x", "y")->status, ==, 64);
    CHECK_INT(capture("hold")->status, ==, 64);
    CHECK_INT(capture("hold", "--json", "-U", "nonsense://")->status, ==, 64);
}

TEST(inside_a_run_it_does_not_wait_for_its_own_ancestor)
{
    stage_file();
    const struct capture *said =
        capture("run", "x", "--", "sh", "-c", STAGE_SNIB " hold --json x 2>&1 </dev/null");
    CHECK_INT(said->status, ==, 0);
    CHECK(strstr(said->out, "\"EDEADLK\""));
}

/* ---- Ends ------------------------------------------------------------------------------- */

TEST(the_end_of_stdin_gives_all_back_and_ends_the_waits)
{
    struct actor first, hold;
    stage_file();
    stage_snib(&first, "hold", "z");
    (void)stage_line(first.out, PATIENCE_MS);
    start(&hold, "--json", "--also", "y", "x");
    (void)event(&hold, "held", "x");
    (void)event(&hold, "held", "y");
    command(&hold, "acquire\tz");
    (void)event(&hold, "waiting", "z");
    close(hold.in);
    const char *rest = stage_rest(hold.out, PATIENCE_MS);
    CHECK(strstr(rest, "\"released\", \"name\": \"x\""));
    CHECK(strstr(rest, "\"released\", \"name\": \"y\""));
    CHECK(strstr(rest, "\"cancelled\", \"name\": \"z\""));
    CHECK_INT(stage_end(&hold, PATIENCE_MS), ==, 0);
    CHECK_INT(try_it("x"), ==, 0);
    CHECK_INT(try_it("y"), ==, 0);
    kill(first.pid, SIGTERM);
    CHECK_INT(stage_end(&first, PATIENCE_MS), ==, 0);
}

TEST(a_signal_ends_it)
{
    struct actor hold;
    stage_file();
    start(&hold, "--json", "x");
    (void)event(&hold, "held", "x");
    kill(hold.pid, SIGTERM);
    (void)event(&hold, "released", "x");
    CHECK_INT(stage_end(&hold, PATIENCE_MS), ==, 0);
}

TEST(the_death_of_its_parent_ends_it)
{
    struct actor script;
    stage_file();
    stage_start(&script,
                (const char *const[]){"sh", "-c", STAGE_SNIB " hold --json x <&0; true", NULL});
    (void)event(&script, "ready", NULL);
    (void)event(&script, "held", "x");
    pid_t hold = stage_await_child(script.pid, "snib", PATIENCE_MS);
    kill(script.pid, SIGKILL);
    stage_await_death(hold, PATIENCE_MS);
    CHECK_INT(try_it("x"), ==, 0);
    CHECK_INT(stage_end(&script, PATIENCE_MS), ==, 128 + SIGKILL);
}

TEST(a_reader_that_is_gone_ends_it)
{
    struct actor hold;
    stage_file();
    start(&hold, "--json", "x");
    (void)event(&hold, "held", "x");
    close(hold.out);
    CHECK_INT(check_wait(hold.pid, PATIENCE_MS), ==, 0);
    check_unmanage(hold.pid);
    CHECK_INT(try_it("x"), ==, 0);
}

/* Far more answers than a pipe and the buffer behind it take. */
enum { MANY = 4000 };

static void ask_often(void *arg)
{
    const struct actor *hold = arg;
    for (int i = 0; i < MANY; i++) {
        command(hold, "status\tsomething with a rather long name");
    }
}

TEST(a_reader_that_does_not_read_gets_everything_later_and_keeps_nobody_from_ending_it)
{
    struct actor hold;
    stage_file();
    start(&hold, "--json", "x");
    (void)event(&hold, "held", "x");
    pid_t asking = check_spawn(ask_often, &hold);
    check_sleep_ms(200); /* all is full by now */
    for (int i = 0; i < MANY; i++) {
        (void)event(&hold, "status", "something with a rather long name");
    }
    check_join(asking, PATIENCE_MS);
    asking = check_spawn(ask_often, &hold);
    check_sleep_ms(200);
    char some[8192]; /* room for a part of what waits */
    CHECK(read(hold.out, some, sizeof some) > 0);
    check_sleep_ms(50);
    kill(hold.pid, SIGTERM);
    CHECK_INT(stage_end(&hold, PATIENCE_MS), ==, 0);
    CHECK_INT(try_it("x"), ==, 0);
    check_kill(asking);
}

TEST(a_bad_value_is_answered_by_what_would_be_good)
{
    static const char *const bad[][2] = {
        {"acquire\tx\tttl=5", "ttl is a time such as 500ms, 30s or 5m, not '5'"},
        {"acquire\tx\twait=soon", "wait is a time such as 5, 0.5 or 10m, or forever, not 'soon'"},
        {"acquire\tx\tmode=both", "mode is exclusive or shared, not 'both'"},
        {"acquire\tx\tpermits=0", "permits is 1 to 1000, not '0'"},
    };
    struct actor hold;
    stage_file();
    start(&hold, "--json");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        command(&hold, bad[i][0]);
        CHECK_STR(text(event(&hold, "error", "x"), "message"), bad[i][1]);
    }
    finish(&hold);
}
