/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib run on a terminal: who is in the foreground, what Ctrl-C and Ctrl-Z do, who may read.
 *
 * Each case is a dialogue on a pseudo terminal: send what a person would type, expect what that
 * person would see.
 */
#include "capture.h"
#include "stage.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define CTRL_C "\003"
#define CTRL_D "\004"
#define CTRL_Z "\032"

struct dialogue {
    pid_t pid;
    int fd;
    size_t used;  /* bytes seen */
    size_t taken; /* of them, those that were expected */
    char seen[65536];
};

static void begin(struct dialogue *d, const char *const argv[])
{
    struct winsize size = {.ws_row = 24, .ws_col = 200};
    d->used = d->taken = 0;
    d->pid = forkpty(&d->fd, NULL, NULL, &size);
    CHECK(d->pid >= 0);
    if (d->pid == 0) {
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    check_manage(d->pid);
}

#define begin_snib(d, ...) begin((d), (const char *const[]){STAGE_SNIB, __VA_ARGS__, NULL})
#define begin_shell(d, script) begin((d), (const char *const[]){"sh", "-c", (script), NULL})

/* False: the other side is closed, or the time is over. */
static bool listen_on(struct dialogue *d, int64_t end_ns)
{
    int64_t left_ms = (end_ns - check_now_ns()) / 1000000;
    struct pollfd one = {.fd = d->fd, .events = POLLIN};
    if (poll(&one, 1, left_ms > 0 ? (int)left_ms : 0) != 1) {
        return false;
    }
    ssize_t n = read(d->fd, d->seen + d->used, sizeof d->seen - 1 - d->used);
    if (n <= 0) {
        return false;
    }
    d->used += (size_t)n;
    return true;
}

/* Waits until this is seen behind what was expected before. */
static void expect(struct dialogue *d, const char *text)
{
    int64_t end_ns = check_now_ns() + (int64_t)check_ms(PATIENCE_MS) * 1000000;
    for (;;) {
        d->seen[d->used] = '\0';
        const char *found = strstr(d->seen + d->taken, text);
        if (found) {
            d->taken = (size_t)(found - d->seen) + strlen(text);
            return;
        }
        if (!listen_on(d, end_ns)) {
            d->seen[d->used] = '\0';
            FAIL("'%s' was expected, but there is: %s", text, d->seen + d->taken);
        }
    }
}

static void type(struct dialogue *d, const char *text)
{
    CHECK(write(d->fd, text, strlen(text)) == (ssize_t)strlen(text));
}

/* Its exit status, or 128 + the signal. */
static int end(struct dialogue *d)
{
    int64_t end_ns = check_now_ns() + (int64_t)check_ms(PATIENCE_MS) * 1000000;
    while (d->used < sizeof d->seen - 1 && listen_on(d, end_ns)) {
    }
    d->seen[d->used] = '\0';
    int status = check_wait(d->pid, PATIENCE_MS);
    if (status == -1) {
        FAIL("the command does not end; it said: %s", d->seen);
    }
    check_unmanage(d->pid);
    close(d->fd);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static struct dialogue d;

/* ---- In the foreground ------------------------------------------------------------------ */

TEST(the_command_is_in_the_foreground)
{
    stage_file();
    begin_snib(&d, "run", "x", "--", "sh", "-c",
               "set -- $(ps -o pgid=,tpgid= -p $$); test $1 = $2 && test $1 = $$ && echo front");
    expect(&d, "front");
    CHECK_INT(end(&d), ==, 0);
}

TEST(the_command_reads_the_terminal)
{
    stage_file();
    begin_snib(&d, "run", "x", "--", "sh", "-c", "echo ready; read a; echo got $a; cat; exit 3");
    expect(&d, "ready");
    type(&d, "one\n");
    expect(&d, "got one");
    type(&d, CTRL_D);
    CHECK_INT(end(&d), ==, 3);
    CHECK(!strstr(d.seen, "snib"));
}

TEST(control_c_reaches_the_command)
{
    stage_file();
    begin_snib(&d, "run", "x", "--", "sh", "-c", "echo ready; exec sleep 600");
    expect(&d, "ready");
    type(&d, CTRL_C);
    CHECK_INT(end(&d), ==, 128 + SIGINT);
    begin_snib(&d, "run", "x", "--", "sh", "-c",
               "trap 'echo heard; exit 7' INT; echo ready; while :; do sleep 0.05; done");
    expect(&d, "ready");
    type(&d, CTRL_C);
    expect(&d, "heard");
    CHECK_INT(end(&d), ==, 7);
}

TEST(control_z_does_not_stop_it_and_says_so)
{
    stage_file();
    begin_snib(&d, "run", "x", "--", "sh", "-c", "echo ready; read a; echo got $a");
    expect(&d, "ready");
    type(&d, CTRL_Z);
    expect(&d, "snib: not stopped");
    type(&d, "two\n");
    expect(&d, "got two");
    CHECK_INT(end(&d), ==, 0);
}

TEST(an_explicit_stop_of_the_command_is_left_alone)
{
    struct actor snib;
    stage_file();
    stage_snib(&snib, "run", "-v", "x", "--", "sh", "-c", "read a; exit 2");
    pid_t job = stage_command(&snib, "sh", PATIENCE_MS);
    kill(job, SIGSTOP);
    for (int i = 0; i < 2; i++) {
        (void)stage_line(snib.err, PATIENCE_MS);
    }
    CHECK(strstr(stage_line(snib.err, PATIENCE_MS), "stopped by SIGSTOP"));
    CHECK(write(snib.in, "\n", 1) == 1);
    CHECK_INT(check_wait(snib.pid, 200), ==, -1);
    kill(snib.pid, SIGCONT); /* is passed on */
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 2);
}

TEST(control_c_and_control_z_while_waiting_are_snib_s)
{
    struct actor holder;
    stage_file();
    stage_snib(&holder, "hold", "x");
    (void)stage_line(holder.out, PATIENCE_MS);
    begin_snib(&d, "run", "-v", "x", "--", "true");
    expect(&d, "waiting behind");
    type(&d, CTRL_Z);
    expect(&d, "snib: not stopped");
    type(&d, CTRL_C);
    expect(&d, "SIGINT while waiting");
    CHECK_INT(end(&d), ==, 128 + SIGINT);
    kill(holder.pid, SIGTERM);
    CHECK_INT(stage_end(&holder, PATIENCE_MS), ==, 0);
}

TEST(a_hangup_reaches_the_command)
{
    char path[256];
    stage_file();
    struct stage_diary *diary = stage_diary(path, "diary");
    begin_snib(&d, "run", "x", "--", STAGE_PULSE, path);
    struct actor snib = {.pid = d.pid, .err = -1};
    struct stage_pulse *job = stage_await_pulse(&snib, diary, 0, PATIENCE_MS);
    close(d.fd);
    CHECK_INT(check_wait(d.pid, PATIENCE_MS), !=, -1);
    CHECK(!check_alive(job->pid));
    check_unmanage(d.pid);
}

/* ---- Given back ------------------------------------------------------------------------- */

TEST(the_terminal_is_given_back)
{
    stage_file();
    begin_shell(&d, STAGE_SNIB
                " run x -- sh -c 'read a; echo first $a'; read b; echo second $b;" STAGE_SNIB
                " run x -- nosuchcommand; read c; echo third $c");
    type(&d, "one\n");
    expect(&d, "first one");
    type(&d, "two\n");
    expect(&d, "second two");
    expect(&d, "command not found");
    type(&d, "three\n");
    expect(&d, "third three");
    CHECK_INT(end(&d), ==, 0);
}

TEST(the_modes_of_the_terminal_are_put_back_if_the_command_was_killed)
{
    stage_file();
    begin_shell(&d, STAGE_SNIB " run x -- sh -c 'stty raw -echo; kill -KILL $$'; "
                               "echo status $?; stty -a | grep -ow -e icanon -e '-icanon'");
    expect(&d, "status 137");
    expect(&d, "icanon");
    CHECK_INT(end(&d), ==, 0);
    CHECK(!strstr(d.seen, "-icanon"));
}

TEST(control_c_stops_the_script_around_it_too)
{
    static const char *const shells[] = {"sh", "bash"};
    static const char *const plumbing[] = {"", " | cat"}; /* with the terminal lent, and not */
    stage_file();
    for (int i = 0; i < 4; i++) {
        char script[600];
        snprintf(script, sizeof script,
                 "for i in 1 2; do " STAGE_SNIB " run x -- sh -c 'echo ready; exec sleep 600'%s; "
                 "done; echo survived",
                 plumbing[i / 2]);
        begin(&d, (const char *const[]){shells[i % 2], "-c", script, NULL});
        expect(&d, "ready");
        type(&d, CTRL_C);
        CHECK_INT(end(&d), ==, 128 + SIGINT);
        CHECK(!strstr(d.seen, "survived"));
    }
}

TEST(control_c_while_waiting_stops_the_script_around_it_too)
{
    struct actor holder;
    stage_file();
    stage_snib(&holder, "hold", "x");
    (void)stage_line(holder.out, PATIENCE_MS);
    begin(&d, (const char *const[]){"bash", "-c",
                                    STAGE_SNIB " run -v x -- true; " STAGE_SNIB " run x -- true; "
                                               "echo survived",
                                    NULL});
    expect(&d, "waiting behind");
    type(&d, CTRL_C);
    CHECK_INT(end(&d), ==, 128 + SIGINT);
    CHECK(!strstr(d.seen, "survived"));
    kill(holder.pid, SIGTERM);
    CHECK_INT(stage_end(&holder, PATIENCE_MS), ==, 0);
}

TEST(a_command_that_handles_control_c_leaves_the_script_alone)
{
    stage_file();
    begin_shell(&d, STAGE_SNIB " run x -- sh -c \"trap 'exit 4' INT; echo ready; "
                               "while :; do sleep 0.05; done\"; echo status $?");
    expect(&d, "ready");
    type(&d, CTRL_C);
    expect(&d, "status 4");
    CHECK_INT(end(&d), ==, 0);
}

TEST(a_command_that_was_sent_sigint_leaves_the_script_alone)
{
    static const char *const shells[] = {"sh", "bash"};
    stage_file();
    for (int i = 0; i < 4; i++) { /* with the terminal lent, and not */
        char script[600];
        snprintf(script, sizeof script,
                 STAGE_SNIB " run x -- sh -c 'kill -INT $$'%s; echo survived",
                 i / 2 ? " | cat" : "");
        begin(&d, (const char *const[]){shells[i % 2], "-c", script, NULL});
        expect(&d, "survived");
        CHECK_INT(end(&d), ==, 0);
    }
    begin_shell(&d, STAGE_SNIB " run x -- sh -c 'kill -INT $$'; echo status $?");
    expect(&d, "status 130");
    CHECK_INT(end(&d), ==, 0);
}

TEST(control_z_with_a_leader_that_handles_it_leaves_nobody_stopped)
{
    stage_file();
    begin_snib(&d, "run", "x", "--", "bash", "-c", "trap : TSTP; echo ready; cat; echo over");
    expect(&d, "ready");
    for (int i = 0; i < 3; i++) {
        type(&d, CTRL_Z);
        expect(&d, "snib: not stopped");
        type(&d, "line\n");
        expect(&d, "line\r\nline");
        check_sleep_ms(250);
    }
    type(&d, CTRL_D);
    expect(&d, "over");
    CHECK_INT(end(&d), ==, 0);
}

TEST(control_z_is_one_line_however_many_notice)
{
    int lines = 0;
    stage_file();
    begin_snib(&d, "run", "x", "--", "sh", "-c", "echo ready; while read a; do echo got $a; done");
    expect(&d, "ready");
    for (int i = 0; i < 8; i++) {
        type(&d, CTRL_Z);
        expect(&d, "snib: not stopped");
        type(&d, "line\n");
        expect(&d, "got line");
        check_sleep_ms(250);
    }
    type(&d, CTRL_D);
    CHECK_INT(end(&d), ==, 0);
    for (const char *at = d.seen; (at = strstr(at, "not stopped")) != NULL; at++) {
        lines++;
    }
    CHECK_INT(lines, ==, 8);
}

TEST(the_terminal_is_given_back_when_the_supervisor_was_killed)
{
    stage_file();
    begin_shell(&d, STAGE_SNIB " run x -- sh -c 'stty -icanon; echo ready; exec sleep 600'; "
                               "stty -a | grep -ow -e icanon -e '-icanon'; read b; echo got $b");
    expect(&d, "ready");
    struct actor snib = {.pid = stage_await_child(d.pid, "snib", PATIENCE_MS), .err = -1};
    kill(stage_supervisor(&snib, PATIENCE_MS), SIGKILL);
    expect(&d, "icanon");
    type(&d, "something\n");
    expect(&d, "got something");
    CHECK_INT(end(&d), ==, 0);
    CHECK(!strstr(d.seen, "-icanon"));
}

/* ---- Beside others ---------------------------------------------------------------------- */

TEST(the_neighbours_in_a_pipeline_keep_the_terminal)
{
    stage_file();
    begin_shell(&d, STAGE_SNIB " run x -- sh -c 'echo a; sleep 1; echo b' | "
                               "(read l; read k </dev/tty; echo neighbour $l $k; cat)");
    type(&d, "key\n");
    expect(&d, "neighbour a key");
    expect(&d, "b");
    CHECK_INT(end(&d), ==, 0);
}

TEST(in_a_pipeline_the_command_gets_the_terminal_when_it_asks)
{
    stage_file();
    begin_shell(&d, "echo in | " STAGE_SNIB " run x -- "
                    "sh -c 'read l; echo ready; read k </dev/tty; echo got $l $k' | cat");
    expect(&d, "ready");
    type(&d, "key\n");
    expect(&d, "got in key");
    CHECK_INT(end(&d), ==, 0);
    CHECK(!strstr(d.seen, "snib:"));
}

TEST(in_a_pipeline_control_c_is_passed_on)
{
    stage_file();
    begin_shell(&d, "trap : INT; " STAGE_SNIB " run x -- "
                    "sh -c 'echo ready; exec sleep 600' | (trap '' INT; cat); echo over");
    expect(&d, "ready");
    type(&d, CTRL_C);
    expect(&d, "over");
    CHECK_INT(end(&d), ==, 0);
}

TEST(a_background_run_waits_for_the_terminal_and_gets_it_by_fg)
{
    stage_file();
    setenv("PS1", "prompt>", 1);
    begin(&d, (const char *const[]){"bash", "--norc", "--noprofile", "-i", NULL});
    expect(&d, "prompt>");
    type(&d, STAGE_SNIB " run x -- sh -c 'read a; echo got $a' &\n");
    expect(&d, "snib: the command wants the terminal");
    type(&d, "fg\n");
    expect(&d, "run x");
    check_sleep_ms(300);
    type(&d, "hello\n");
    expect(&d, "got hello");
    expect(&d, "prompt>");
    type(&d, "exit 0\n");
    CHECK_INT(end(&d), ==, 0);
}

TEST(a_shell_in_the_foreground_takes_the_terminal_back)
{
    stage_file();
    setenv("PS1", "prompt>", 1);
    begin(&d, (const char *const[]){"bash", "--norc", "--noprofile", "-i", NULL});
    expect(&d, "prompt>");
    type(&d, STAGE_SNIB " run x -- sh -c 'printf rea; echo dy; exec cat'\n");
    expect(&d, "ready"); /* not the echo of what was typed */
    type(&d, "line\n");
    expect(&d, "line\r\nline");
    type(&d, CTRL_C);
    expect(&d, "prompt>");
    type(&d, "echo status $?\n");
    expect(&d, "status 130");
    type(&d, "exit 0\n");
    CHECK_INT(end(&d), ==, 0);
}

static bool is_held(void *arg)
{
    (void)arg;
    return capture("run", "-n", "x", "--", "true")->status == 75;
}

TEST(a_hold_in_the_background_holds_while_somebody_types_and_ends_by_fg_and_control_d)
{
    stage_file();
    setenv("PS1", "prompt>", 1);
    begin(&d, (const char *const[]){"bash", "--norc", "--noprofile", "-i", NULL});
    expect(&d, "prompt>");
    type(&d, STAGE_SNIB " hold x &\n");
    CHECK(check_until(is_held, NULL, PATIENCE_MS));
    type(&d, "echo typed$((1 + 1))\n");
    expect(&d, "typed2");
    check_sleep_ms(700); /* longer than it takes to look again */
    type(&d, "echo typed$((1 + 2))\n");
    expect(&d, "typed3");
    CHECK(is_held(NULL));
    type(&d, "fg\n");
    expect(&d, "hold x");
    check_sleep_ms(700);
    CHECK(is_held(NULL));
    type(&d, CTRL_D);
    expect(&d, "prompt>");
    CHECK(!is_held(NULL));
    type(&d, "exit 0\n");
    CHECK_INT(end(&d), ==, 0);
}
