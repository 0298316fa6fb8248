/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib run as its users see it: what goes in, what comes out, with which status, and how quiet.
 */
#include "capture.h"
#include "stage.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 20000

/* Everything snib says of its own accord is one line of this form. */
static void check_one_line(const char *text)
{
    const char *end = strchr(text, '\n');
    if (strncmp(text, "snib: ", 6) != 0 || !end || end[1] != '\0') {
        FAIL("not one line of snib: '%s'", text);
    }
}

/* Holds `name` in another process until *actor is ended by closing its stdin. */
static void occupy(struct actor *actor, const char *name)
{
    stage_snib(actor, "hold", name);
    (void)stage_line(actor->out, PATIENCE_MS);
}

static void vacate(struct actor *actor)
{
    kill(actor->pid, SIGTERM);
    CHECK_INT(stage_end(actor, PATIENCE_MS), ==, 0);
}

/* ---- Pass through ----------------------------------------------------------------------- */

TEST(the_status_of_the_command_is_passed_on)
{
    static const char *const scripts[] = {"exit 0", "exit 1", "exit 42", "exit 255"};
    static const int wanted[] = {0, 1, 42, 255};
    stage_file();
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const struct capture *said = capture("run", "x", "--", "sh", "-c", scripts[i]);
        CHECK_INT(said->status, ==, wanted[i]);
        CHECK_STR(said->err, "");
    }
}

TEST(death_by_a_signal_is_128_and_its_number)
{
    static const char *const scripts[] = {"kill -TERM $$", "kill -KILL $$", "kill -USR1 $$"};
    static const int wanted[] = {128 + SIGTERM, 128 + SIGKILL, 128 + SIGUSR1};
    stage_file();
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const struct capture *said = capture("run", "x", "--", "sh", "-c", scripts[i]);
        CHECK_INT(said->status, ==, wanted[i]);
        CHECK_STR(said->err, "");
    }
}

TEST(stdin_stdout_and_stderr_are_the_command_s)
{
    struct actor snib;
    stage_file();
    stage_snib(&snib, "run", "x", "--", "sh", "-c", "read a; echo out $a; echo err $a >&2; cat");
    CHECK(write(snib.in, "one\ntwo\n", 8) == 8);
    close(snib.in);
    snib.in = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK_STR(stage_line(snib.out, PATIENCE_MS), "out one");
    CHECK_STR(stage_rest(snib.out, PATIENCE_MS), "two\n");
    CHECK_STR(stage_rest(snib.err, PATIENCE_MS), "err one\n");
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 0);
}

TEST(arguments_are_not_joined_and_not_read_again)
{
    stage_file();
    const struct capture *said = capture("run", "x", "printf", "<%s>", "a b", "", "-n", "$HOME");
    CHECK_INT(said->status, ==, 0);
    CHECK_STR(said->out, "<a b><><-n><$HOME>");
    said = capture("run", "x", "--", "printf", "<%s>", "--");
    CHECK_STR(said->out, "<-->");
}

TEST(other_descriptors_pass_and_those_of_the_lock_do_not)
{
    stage_file();
    const struct capture *bare = capture_command(
        (const char *const[]){"sh", "-c", "exec 7</dev/null; exec sh -c 'ls /proc/self/fd'", NULL});
    char *before = strdup(bare->out);
    const struct capture *said = capture_command((const char *const[]){
        "sh", "-c", "exec 7</dev/null; exec " STAGE_SNIB " run x sh -c 'ls /proc/self/fd'", NULL});
    CHECK_INT(said->status, ==, 0);
    CHECK_STR(said->out, before);
    free(before);
}

TEST(closed_standard_descriptors_stay_closed_and_get_no_lock_file)
{
    stage_file();
    const struct capture *said = capture_command((const char *const[]){
        "sh", "-c",
        STAGE_SNIB " run x -- sh -c 'test -e /proc/self/fd/0 || exit 5' <&-; echo $?;" STAGE_SNIB
                   " run x -- sh -c 'echo 2>/dev/null || exit 6' >&-; echo $?;" STAGE_SNIB
                   " run x -- nosuchcommand 2>&-; echo $?",
        NULL});
    CHECK_STR(said->out, "5\n6\n127\n");
    said = capture("run", "x", "--", "true"); /* its file is sound */
    CHECK_INT(said->status, ==, 0);
    CHECK_STR(said->err, "");
}

TEST(a_reader_sees_the_end_of_the_output_when_the_command_ends)
{
    struct actor snib;
    stage_file();
    stage_snib(&snib, "run", "--min-hold", "1500ms", "x", "--", "echo", "done");
    int64_t began = check_now_ns();
    CHECK_STR(stage_line(snib.out, PATIENCE_MS), "done");
    CHECK_INT(check_wait(snib.pid, 100), ==, -1); /* it still holds */
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 0);
    CHECK_INT(check_now_ns() - began, >=, 1400 * 1000000LL);
}

TEST(the_environment_has_name_token_and_url)
{
    stage_file();
    char wanted[600];
    const struct capture *said = capture("run", "a name", "--", "sh", "-c",
                                         "echo \"$SNIB_NAME|$SNIB_URL|$SNIB_TOKENS\"; "
                                         "echo \"$SNIB_TOKEN\"");
    snprintf(wanted, sizeof wanted, "a name|%s|\n", getenv("SNIB_URL"));
    CHECK(strncmp(said->out, wanted, strlen(wanted)) == 0);
    unsigned long long first = strtoull(said->out + strlen(wanted), NULL, 10);
    CHECK_UINT(first, >, 0);
    said = capture("run", "a name", "--", "sh", "-c", "echo $SNIB_TOKEN");
    CHECK_UINT(strtoull(said->out, NULL, 10), >, first);
}

TEST(several_names_have_several_tokens_in_the_order_given)
{
    stage_file();
    const struct capture *said =
        capture("run", "--also", "b", "--also", "a", "c", "--", "sh", "-c",
                "set -- $SNIB_TOKENS; echo $#; test $1 = $SNIB_TOKEN && test $3 != $1");
    CHECK_INT(said->status, ==, 0);
    CHECK_STR(said->out, "3\n");
}

/* ---- Signals ---------------------------------------------------------------------------- */

TEST(signals_are_passed_on)
{
    static const int numbers[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                                  SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};
    struct actor snib;
    stage_file();
    stage_snib(&snib, "run", "x", "--", "sh", "-c",
               "for s in HUP INT QUIT TERM USR1 USR2 ALRM WINCH; do trap \"echo $s\" $s; done; "
               "echo ready; while :; do sleep 0.05; done");
    CHECK_STR(stage_line(snib.out, PATIENCE_MS), "ready");
    static const char *const names[] = {"HUP",  "INT",  "QUIT", "TERM",
                                        "USR1", "USR2", "ALRM", "WINCH"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        kill(snib.pid, numbers[i]);
        CHECK_STR(stage_line(snib.out, PATIENCE_MS), names[i]);
    }
    kill(stage_command(&snib, "sh", PATIENCE_MS), SIGKILL);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGKILL);
}

TEST(the_command_has_the_mask_and_the_dispositions_we_were_started_with)
{
    static const char script[] = "grep -E '^Sig(Blk|Ign)' /proc/self/status";
    stage_file();
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    sigprocmask(SIG_BLOCK, &some, NULL);
    signal(SIGHUP, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    char bare[400];
    struct actor one;
    stage_start(&one, (const char *const[]){"sh", "-c", script, NULL});
    snprintf(bare, sizeof bare, "%s", stage_rest(one.out, PATIENCE_MS));
    stage_snib(&one, "run", "x", "--", "sh", "-c", script);
    CHECK_STR(stage_rest(one.out, PATIENCE_MS), bare);
    signal(SIGCHLD, SIG_DFL);
}

TEST(an_ignored_hangup_ends_neither_the_wait_nor_the_command)
{
    struct actor holder, snib;
    stage_file();
    occupy(&holder, "x");
    signal(SIGHUP, SIG_IGN);
    stage_snib(&snib, "run", "-v", "x", "--", "sh", "-c", "echo runs; read a; exit 7");
    signal(SIGHUP, SIG_DFL);
    (void)stage_line(snib.err, PATIENCE_MS); /* engine */
    CHECK(strstr(stage_line(snib.err, PATIENCE_MS), "waiting behind"));
    kill(snib.pid, SIGHUP);
    vacate(&holder);
    CHECK_STR(stage_line(snib.out, PATIENCE_MS), "runs");
    kill(snib.pid, SIGHUP);
    CHECK(write(snib.in, "\n", 1) == 1);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 7);
}

TEST(a_signal_ends_the_wait)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    struct actor holder, snib;
    stage_file();
    occupy(&holder, "x");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        stage_snib(&snib, "run", "-v", "x", "--", "true");
        (void)stage_line(snib.err, PATIENCE_MS); /* engine */
        CHECK(strstr(stage_line(snib.err, PATIENCE_MS), "waiting behind"));
        kill(snib.pid, numbers[i]);
        const char *rest = stage_rest(snib.err, PATIENCE_MS);
        check_one_line(rest);
        CHECK(strstr(rest, "while waiting for lock 'x'"));
        CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + numbers[i]);
    }
    vacate(&holder);
    CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 0);
}

/* ---- Not acquired ----------------------------------------------------------------------- */

TEST(busy_is_75_and_silent)
{
    struct actor holder;
    stage_file();
    occupy(&holder, "x");
    const struct capture *said = capture("run", "-n", "x", "--", "echo", "ran");
    CHECK_INT(said->status, ==, 75);
    CHECK_STR(said->out, "");
    CHECK_STR(said->err, "");
    said = capture("run", "-w", "0", "x", "--", "true");
    CHECK_INT(said->status, ==, 75);
    CHECK_STR(said->err, "");
    said = capture("run", "-n", "-E", "3", "x", "--", "true");
    CHECK_INT(said->status, ==, 3);
    CHECK_STR(said->err, "");
    said = capture("run", "--nonblock", "--conflict-exit-code", "0", "x", "--", "false");
    CHECK_INT(said->status, ==, 0);
    vacate(&holder);
}

TEST(the_wait_ends_when_its_time_is_over)
{
    struct actor holder;
    stage_file();
    occupy(&holder, "x");
    int64_t began = check_now_ns();
    const struct capture *said = capture("run", "-w", "0.25", "x", "--", "echo", "ran");
    int64_t took_ms = (check_now_ns() - began) / 1000000;
    CHECK_INT(said->status, ==, 75);
    CHECK_STR(said->err, "");
    CHECK_INT(took_ms, >=, 250);
    CHECK_INT(took_ms, <, check_ms(10000));
    CHECK_INT(capture("run", "--timeout=0.05", "x", "true")->status, ==, 75);
    CHECK_INT(capture("run", "--wait", "50ms", "x", "true")->status, ==, 75);
    vacate(&holder);
}

TEST(one_time_limit_covers_several_names)
{
    struct actor first, second;
    stage_file();
    occupy(&first, "a");
    occupy(&second, "b");
    int64_t began = check_now_ns();
    const struct capture *said = capture("run", "-w", "0.3", "--also", "b", "a", "--", "true");
    CHECK_INT(said->status, ==, 75);
    CHECK_INT((check_now_ns() - began) / 1000000, >=, 300);
    vacate(&first);
    CHECK_INT(capture("run", "-n", "--also", "b", "a", "--", "true")->status, ==, 75);
    CHECK_INT(capture("run", "-n", "a", "--", "true")->status, ==, 0); /* none was kept */
    vacate(&second);
    CHECK_INT(capture("run", "-n", "--also", "b", "a", "--", "true")->status, ==, 0);
}

TEST(verbose_tells_who_is_in_the_way_and_what_happened)
{
    struct actor holder, snib;
    char who[64];
    stage_file();
    stage_snib(&holder, "hold", "--label", "nightly", "x");
    (void)stage_line(holder.out, PATIENCE_MS);
    const struct capture *said = capture("run", "-n", "-v", "x", "--", "true");
    CHECK_INT(said->status, ==, 75);
    snprintf(who, sizeof who, ":%d", holder.pid);
    CHECK(strstr(said->err, who));
    stage_snib(&snib, "run", "-v", "x", "--", "true");
    CHECK(strstr(stage_line(snib.err, PATIENCE_MS), "snib: engine file://"));
    const char *line = stage_line(snib.err, PATIENCE_MS);
    CHECK(strstr(line, "waiting behind") && strstr(line, who));
    vacate(&holder);
    line = stage_line(snib.err, PATIENCE_MS);
    CHECK(strstr(line, "snib: acquired 'x' after") && strstr(line, "token"));
    CHECK(strstr(stage_line(snib.err, PATIENCE_MS), "snib: released after"));
    CHECK_STR(stage_rest(snib.err, PATIENCE_MS), "");
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 0);
}

/* ---- Kinds of locks --------------------------------------------------------------------- */

TEST(shared_holders_do_not_exclude_each_other)
{
    struct actor reader;
    stage_file();
    stage_snib(&reader, "run", "-s", "x", "--", "sh", "-c", "echo in; read a");
    CHECK_STR(stage_line(reader.out, PATIENCE_MS), "in");
    CHECK_INT(capture("run", "-n", "--shared", "x", "--", "true")->status, ==, 0);
    CHECK_INT(capture("run", "-n", "-x", "x", "--", "true")->status, ==, 75);
    CHECK_INT(capture("run", "-n", "-e", "x", "--", "true")->status, ==, 75);
    CHECK(write(reader.in, "\n", 1) == 1);
    CHECK_INT(stage_end(&reader, PATIENCE_MS), ==, 0);
    CHECK_INT(capture("run", "-n", "--exclusive", "x", "--", "true")->status, ==, 0);
}

TEST(as_many_as_there_are_permits_may_run)
{
    struct actor holders[2];
    stage_file();
    for (int i = 0; i < 2; i++) {
        stage_snib(&holders[i], "run", "--permits", "2", "x", "--", "sh", "-c", "echo in; read a");
        CHECK_STR(stage_line(holders[i].out, PATIENCE_MS), "in");
    }
    CHECK_INT(capture("run", "-n", "--permits", "2", "x", "--", "true")->status, ==, 75);
    CHECK(write(holders[0].in, "\n", 1) == 1);
    CHECK_INT(stage_end(&holders[0], PATIENCE_MS), ==, 0);
    CHECK_INT(capture("run", "-n", "--permits", "2", "x", "--", "true")->status, ==, 0);
    const struct capture *said = capture("run", "-n", "--permits", "3", "x", "--", "true");
    CHECK_INT(said->status, ==, 64); /* they must agree */
    check_one_line(said->err);
    CHECK(write(holders[1].in, "\n", 1) == 1);
    CHECK_INT(stage_end(&holders[1], PATIENCE_MS), ==, 0);
}

TEST(a_minimum_hold_outlasts_the_command_and_a_signal_ends_it)
{
    struct actor snib;
    stage_file();
    stage_snib(&snib, "run", "-v", "--min-hold", "1h", "x", "--", "sh", "-c", "exit 9");
    for (int i = 0; i < 2; i++) {
        (void)stage_line(snib.err, PATIENCE_MS);
    }
    CHECK(strstr(stage_line(snib.err, PATIENCE_MS), "keeping the lock"));
    CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 75);
    kill(snib.pid, SIGTERM);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 9);
    CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 0);
}

TEST(at_the_end_of_the_maximum_hold_the_command_is_stopped)
{
    stage_file();
    int64_t began = check_now_ns();
    const struct capture *said = capture("run", "--max-hold", "900ms", "x", "--", "sleep", "600");
    int64_t took_ms = (check_now_ns() - began) / 1000000;
    CHECK_INT(said->status, ==, 79);
    check_one_line(said->err);
    CHECK(strstr(said->err, "maximum hold"));
    CHECK_INT(took_ms, >=, 700);
    CHECK_INT(took_ms, <, check_ms(10000));
    said = capture("run", "--on-lost", "term", "--max-hold", "900ms", "x", "--", "sh", "-c",
                   "trap '' TERM; sleep 1.5");
    CHECK_INT(said->status, ==, 79);
    CHECK(strstr(said->err, "was told to end, and has ended"));
    said = capture("run", "--max-hold", "10m", "x", "--", "true");
    CHECK_INT(said->status, ==, 0);
    CHECK_STR(said->err, "");
}

TEST(a_maximum_hold_that_is_ignored_is_79_all_the_same)
{
    stage_file();
    const struct capture *said =
        capture("run", "--max-hold", "200ms", "--on-lost", "ignore", "x", "--", "sleep", "0.6");
    CHECK_INT(said->status, ==, 79);
    check_one_line(said->err);
    CHECK(strstr(said->err, "left to end"));
}

/* ---- What the command leaves behind ----------------------------------------------------- */

TEST(what_is_left_is_stopped_and_named_before_the_lock_is_free)
{
    char path[256];
    stage_file();
    struct stage_diary *diary = stage_diary(path, "diary");
    const struct capture *said =
        capture("run", "--grace", "300ms", "x", "--", STAGE_PULSE, path, "leaves", "deaf");
    int64_t free_ns = check_now_ns();
    CHECK_INT(said->status, ==, 0);
    check_one_line(said->err); /* without -v too */
    CHECK(strstr(said->err, "stopping what it left behind: exe ("));
    CHECK_INT(atomic_load(&diary->count), ==, 2);
    for (int i = 0; i < 2; i++) {
        CHECK(!check_alive(atomic_load(&diary->pulses[i].pid)));
        CHECK_INT(atomic_load(&diary->pulses[i].last_ns), <, free_ns);
    }
    struct stage_pulse *child = &diary->pulses[0];
    struct stage_pulse *leader = &diary->pulses[1];
    CHECK_INT(atomic_load(&child->term_ns), >, atomic_load(&leader->last_ns));
    CHECK_INT(atomic_load(&child->last_ns), >, atomic_load(&child->term_ns));
}

TEST(a_stopped_straggler_is_woken_to_hear_its_term)
{
    stage_file();
    int64_t began = check_now_ns();
    const struct capture *said =
        capture("run", "--grace", "1h", "x", "--", "sh", "-c", "sleep 600 & kill -STOP $!; exit 3");
    CHECK_INT(said->status, ==, 3);
    CHECK_INT((check_now_ns() - began) / 1000000, <, check_ms(15000));
}

TEST(those_who_made_a_group_of_their_own_are_stopped_too)
{
    struct actor snib;
    stage_file();
    stage_snib(&snib, "run", "--grace", "1h", "x", "--", "sh", "-c",
               "timeout 600 sh -c 'echo $$; sleep 600; echo more' & read a; exit 3");
    pid_t left = (pid_t)strtol(stage_line(snib.out, PATIENCE_MS), NULL, 10);
    CHECK(getpgid(left) != getpgid(stage_command(&snib, "sh", PATIENCE_MS)));
    CHECK(write(snib.in, "\n", 1) == 1);
    CHECK(strstr(stage_line(snib.err, PATIENCE_MS), "left behind: timeout ("));
    CHECK_STR(stage_rest(snib.out, PATIENCE_MS), "");
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 3);
    CHECK(!check_alive(left));
}

/* ---- A full stderr ---------------------------------------------------------------------- */

/* The pipe is filled by the command, all the time; nobody reads it. */
TEST(a_full_stderr_does_not_block_the_supervisor)
{
    struct fake_state *engine = stage_fake_lease(4000);
    struct actor snib;
    stage_snib(&snib, "run", "-v", "x", "--", "sh", "-c", "echo in; yes >&2");
    CHECK_STR(stage_line(snib.out, PATIENCE_MS), "in");
    check_sleep_ms(100);
    int seen = atomic_load(&engine->renewals);
    for (int i = 0; i < 20; i++) { /* each is news, for which there is no room */
        kill(snib.pid, SIGTSTP);
        check_sleep_ms(5);
    }
    while (atomic_load(&engine->renewals) < seen + 3) {
        check_sleep_ms(1);
    }
    kill(snib.pid, SIGTERM);
    CHECK_INT(check_wait(snib.pid, PATIENCE_MS), !=, -1);
    check_unmanage(snib.pid);
}

static bool has_stopped(void *arg)
{
    return waitpid(*(pid_t *)arg, NULL, WNOHANG | __WALL) > 0;
}

/* Runs a process until it is about to write. */
static void run_until_write(pid_t pid)
{
    struct __ptrace_syscall_info info = {0};
    while (info.op != PTRACE_SYSCALL_INFO_ENTRY || info.entry.nr != SYS_write) {
        CHECK(ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
        CHECK(check_until(has_stopped, &pid, PATIENCE_MS));
        CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof info, &info) > 0);
    }
}

/* Between the moment there was room and the write, the command has filled the pipe. */
TEST(a_stderr_that_others_fill_just_then_does_not_block_the_supervisor)
{
    struct actor snib;
    char path[64], bytes[4096] = "";
    stage_file();
    stage_snib(&snib, "run", "x", "--", "sh", "-c", "echo in; exec sleep 600");
    CHECK_STR(stage_line(snib.out, PATIENCE_MS), "in");
    pid_t supervisor = stage_supervisor(&snib, PATIENCE_MS);
    snprintf(path, sizeof path, "/proc/%d/fd/2", supervisor);
    int fill = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(fill >= 0);
    check_sleep_ms(200); /* it listens to the lock by now, and has nothing else to write */
    if (ptrace(PTRACE_SEIZE, supervisor, NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0) {
        SKIP("processes cannot be traced here");
    }
    CHECK(ptrace(PTRACE_INTERRUPT, supervisor, NULL, NULL) == 0);
    CHECK(check_until(has_stopped, &supervisor, PATIENCE_MS));
    kill(snib.pid, SIGTSTP); /* which is refused, with a line */
    run_until_write(supervisor);
    while (write(fill, bytes, sizeof bytes) > 0) {
    }
    CHECK(ptrace(PTRACE_DETACH, supervisor, NULL, NULL) == 0);
    kill(snib.pid, SIGTERM);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGTERM);
    close(fill);
}

/* ---- Labels ----------------------------------------------------------------------------- */

static const char *label_of(const char *name)
{
    static char text[256];
    const char *said = capture("status", "--json", name)->out;
    const char *at = strstr(said, "\"label\":");
    CHECK(at != NULL);
    at = strchr(at + strlen("\"label\":"), '"') + 1;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(at, "\""), at);
    return text;
}

TEST(without_a_label_the_command_and_the_user_are_shown)
{
    static const char *const commands[][4] = {{"/bin/sleep", "600", NULL},
                                              {"-c", "PASSWORD=secret sleep 600", NULL}};
    static const char *const labels[] = {"sleep (alice)", "sh (alice)"};
    struct actor snib;
    stage_file();
    setenv("LOGNAME", "alice", 1);
    setenv("SHELL", "/bin/sh", 1);
    for (int i = 0; i < 2; i++) {
        stage_start(&snib, (const char *const[]){STAGE_SNIB, "run", "x", commands[i][0],
                                                 commands[i][1], NULL});
        (void)stage_command(&snib, i == 0 ? "sleep" : "sh", PATIENCE_MS);
        CHECK_STR(label_of("x"), labels[i]);
        kill(snib.pid, SIGTERM);
        CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGTERM);
    }
    stage_snib(&snib, "run", "--label", "nightly", "x", "sleep", "600");
    (void)stage_command(&snib, "sleep", PATIENCE_MS);
    CHECK_STR(label_of("x"), "nightly");
    kill(snib.pid, SIGTERM);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGTERM);
    stage_start(&snib, (const char *const[]){"sh", "-c", STAGE_SNIB " hold x <&0; true", NULL});
    (void)stage_line(snib.out, PATIENCE_MS);
    CHECK_STR(label_of("x"), "sh (alice)");
    kill(snib.pid, SIGKILL);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGKILL);
}

TEST(a_default_label_is_fit_to_be_one_whatever_the_command_is_called)
{
    char program[400], text[64];
    stage_file();
    setenv("LOGNAME", "someone\033with a name that is much too long to be shown", 1);
    snprintf(program, sizeof program, "%s/a\nb\xff\xc3\xa4-%060d", check_tmpdir(), 7);
    CHECK_INT(symlink("/bin/true", program), ==, 0);
    const struct capture *said = capture("run", "x", program);
    CHECK_STR(said->err, "");
    CHECK_INT(said->status, ==, 0);
    unsetenv("LOGNAME");
    unsetenv("USER");
    struct actor snib;
    stage_snib(&snib, "run", "x", "sleep", "600");
    (void)stage_command(&snib, "sleep", PATIENCE_MS);
    snprintf(text, sizeof text, "sleep (uid %u)", (unsigned)geteuid());
    CHECK_STR(label_of("x"), text);
    kill(snib.pid, SIGTERM);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGTERM);
}

/* ---- Nested ----------------------------------------------------------------------------- */

TEST(a_run_inside_a_run_does_not_wait_for_its_own_ancestor)
{
    stage_file();
    const struct capture *said = capture("run", "x", "--", STAGE_SNIB, "run", "x", "--", "true");
    CHECK_INT(said->status, ==, 64);
    check_one_line(said->err);
    said = capture("run", "x", "--", STAGE_SNIB, "run", "y", "--", "sh", "-c",
                   "exec " STAGE_SNIB " run -w 60 --also x z -- true");
    CHECK_INT(said->status, ==, 64);
    check_one_line(said->err);
    said = capture("run", "x", "--", STAGE_SNIB, "run", "-n", "x", "--", "true");
    CHECK_INT(said->status, ==, 75);
    said = capture("run", "-s", "x", "--", STAGE_SNIB, "run", "-s", "x", "--", "true");
    CHECK_INT(said->status, ==, 0);
    said = capture("run", "-s", "x", "--", STAGE_SNIB, "run", "x", "--", "true");
    CHECK_INT(said->status, ==, 64);
    said = capture("run", "--permits", "2", "x", "--", STAGE_SNIB, "run", "--permits", "2", "x",
                   "--", "true");
    CHECK_INT(said->status, ==, 0);
    said = capture("run", "--permits", "1", "x1", "--", STAGE_SNIB, "run", "--permits", "1", "x1",
                   "--", "true");
    CHECK_INT(said->status, ==, 64);
}

TEST(the_variable_of_a_run_that_is_over_means_nothing)
{
    stage_file();
    const struct capture *said = capture("run", "x", "--", "sh", "-c", "printf %s \"$SNIB_HELD\"");
    CHECK(strstr(said->out, "\tx\t"));
    setenv("SNIB_HELD", said->out, 1);
    CHECK_INT(capture("run", "x", "--", "true")->status, ==, 0);
    setenv("SNIB_HELD", "1\t0\nrubbish\n\t\t\t\n", 1);
    CHECK_INT(capture("run", "x", "--", "true")->status, ==, 0);
}
