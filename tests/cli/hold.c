/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib hold: a lock for as long as somebody keeps its stdin open.
 */
#include "capture.h"
#include "server.h"
#include "stage.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 20000

static int try_it(void)
{
    return capture("run", "-n", "x", "--", "true")->status;
}

TEST(it_prints_the_token_and_holds_until_stdin_closes)
{
    struct actor hold;
    stage_file();
    stage_snib(&hold, "hold", "x");
    unsigned long long token = strtoull(stage_line(hold.out, PATIENCE_MS), NULL, 10);
    CHECK_UINT(token, >, 0);
    CHECK_STR(stage_rest(hold.out, PATIENCE_MS), ""); /* a reader sees the end */
    CHECK_INT(try_it(), ==, 75);
    CHECK(write(hold.in, "words are ignored\n", 18) == 18);
    check_sleep_ms(50);
    CHECK_INT(try_it(), ==, 75);
    close(hold.in);
    CHECK_INT(check_wait(hold.pid, PATIENCE_MS), ==, 0);
    check_unmanage(hold.pid);
    CHECK_INT(try_it(), ==, 0);
}

TEST(an_empty_stdin_is_a_short_hold)
{
    stage_file();
    const struct capture *said = capture("hold", "x");
    CHECK_INT(said->status, ==, 0);
    CHECK_UINT(strtoull(said->out, NULL, 10), >, 0);
    CHECK_STR(said->err, "");
}

TEST(a_signal_ends_it)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    stage_file();
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct actor hold;
        stage_snib(&hold, "hold", "x");
        (void)stage_line(hold.out, PATIENCE_MS);
        kill(hold.pid, numbers[i]);
        CHECK_INT(stage_end(&hold, PATIENCE_MS), ==, 0);
        CHECK_INT(try_it(), ==, 0);
    }
}

TEST(the_death_of_its_parent_ends_it)
{
    struct actor script;
    stage_file();
    /* Our end of the pipe stays open, so stdin is not what ends it. */
    stage_start(&script, (const char *const[]){"sh", "-c", STAGE_SNIB " hold x <&0; true", NULL});
    (void)stage_line(script.out, PATIENCE_MS);
    pid_t hold = stage_await_child(script.pid, "snib", PATIENCE_MS);
    CHECK_INT(try_it(), ==, 75);
    kill(script.pid, SIGKILL);
    stage_await_death(hold, PATIENCE_MS);
    CHECK_INT(try_it(), ==, 0);
    CHECK_INT(stage_end(&script, PATIENCE_MS), ==, 128 + SIGKILL);
}

TEST(a_killed_hold_frees_the_lock)
{
    struct actor hold;
    stage_file();
    stage_snib(&hold, "hold", "x");
    (void)stage_line(hold.out, PATIENCE_MS);
    kill(hold.pid, SIGKILL);
    CHECK_INT(stage_end(&hold, PATIENCE_MS), ==, 128 + SIGKILL);
    CHECK_INT(try_it(), ==, 0);
}

TEST(busy_is_75_and_silent_here_too)
{
    struct actor hold;
    stage_file();
    stage_snib(&hold, "hold", "x");
    (void)stage_line(hold.out, PATIENCE_MS);
    const struct capture *said = capture("hold", "-n", "x");
    CHECK_INT(said->status, ==, 75);
    CHECK_STR(said->out, "");
    CHECK_STR(said->err, "");
    CHECK_INT(capture("hold", "-w", "0.1", "-E", "4", "x")->status, ==, 4);
    kill(hold.pid, SIGTERM);
    CHECK_INT(stage_end(&hold, PATIENCE_MS), ==, 0);
}

TEST(several_names_give_several_tokens)
{
    stage_file();
    const struct capture *said = capture("hold", "--also", "b", "--also", "c", "a");
    unsigned long long token[3];
    CHECK_INT(said->status, ==, 0);
    CHECK_INT(sscanf(said->out, "%llu %llu %llu\n", &token[0], &token[1], &token[2]), ==, 3);
}

TEST(a_shared_hold_lets_others_share)
{
    struct actor hold;
    stage_file();
    stage_snib(&hold, "hold", "-s", "x");
    (void)stage_line(hold.out, PATIENCE_MS);
    CHECK_INT(capture("hold", "-s", "-n", "x")->status, ==, 0);
    CHECK_INT(capture("hold", "-n", "x")->status, ==, 75);
    kill(hold.pid, SIGTERM);
    CHECK_INT(stage_end(&hold, PATIENCE_MS), ==, 0);
}

TEST(a_mute_server_does_not_delay_the_end)
{
    static struct server redis;
    struct actor hold;
    char url[100];
    server_redis(&redis, NULL);
    stage_file();
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?quarantine=no&ttl=2s&timeout=20s", redis.port);
    setenv("SNIB_URL", url, 1);
    stage_snib(&hold, "hold", "x");
    (void)stage_line(hold.out, PATIENCE_MS);
    server_pause(&redis);
    int64_t paused_ns = check_now_ns();
    CHECK_INT(stage_end(&hold, 2 * PATIENCE_MS), ==, 79);
    CHECK_INT((check_now_ns() - paused_ns) / 1000000, <, check_ms(8000));
    server_resume(&redis);
}

TEST(a_lost_lock_ends_it_with_79)
{
    struct fake_state *engine = stage_fake("ttl=1s&timeout=200ms");
    struct actor hold;
    for (int i = 0; i < 2; i++) {
        atomic_store(&engine->mute_renewals, 0);
        atomic_store(&engine->say_gone, 0);
        stage_snib(&hold, "hold", "x");
        (void)stage_line(hold.out, PATIENCE_MS);
        atomic_store(i == 0 ? &engine->mute_renewals : &engine->say_gone, 1);
        const char *rest = stage_rest(hold.err, PATIENCE_MS);
        CHECK(strncmp(rest, "snib: lock 'x' was lost: ", 25) == 0);
        CHECK_INT(stage_end(&hold, PATIENCE_MS), ==, 79);
    }
}

TEST(a_maximum_hold_ends_it_with_79)
{
    struct actor hold;
    stage_file();
    stage_snib(&hold, "hold", "--max-hold", "300ms", "x");
    (void)stage_line(hold.out, PATIENCE_MS);
    CHECK(strstr(stage_rest(hold.err, PATIENCE_MS), "maximum hold"));
    CHECK_INT(stage_end(&hold, PATIENCE_MS), ==, 79);
    CHECK_INT(try_it(), ==, 0);
}

TEST(inside_a_run_it_does_not_wait_for_its_own_ancestor)
{
    stage_file();
    const struct capture *said = capture("run", "x", "--", STAGE_SNIB, "hold", "x");
    CHECK_INT(said->status, ==, 64);
    said = capture("run", "x", "--", STAGE_SNIB, "hold", "-n", "x");
    CHECK_INT(said->status, ==, 75);
}

TEST(a_script_holds_it_by_a_coprocess)
{
    stage_file();
    const struct capture *said = capture_command(
        (const char *const[]){"bash", "-c",
                              "coproc " STAGE_SNIB " hold x\n"
                              "read -r token <&${COPROC[0]} || exit\n"
                              "[[ $token -gt 0 ]] && " STAGE_SNIB " run -n x -- true\n"
                              "echo $?\n"
                              "exec {COPROC[1]}>&-\n"
                              "wait $COPROC_PID\n"
                              "echo $?\n" STAGE_SNIB " run -n x -- true\n"
                              "echo $?\n",
                              NULL});
    CHECK_STR(said->out, "75\n0\n0\n");
    CHECK_STR(said->err, "");
}

/* ---- Ends that are none, and ends that must be seen ------------------------------------- */

struct pipe_pair {
    int ends[2];
    pid_t holds[2];
};

static void start_on(struct pipe_pair *pair, int number)
{
    static const char *const names[] = {"x", "y"};
    fflush(NULL);
    pair->holds[number] = fork();
    CHECK(pair->holds[number] >= 0);
    if (pair->holds[number] == 0) {
        if (dup2(pair->ends[0], 0) == 0) {
            execl(STAGE_SNIB, "snib", "hold", names[number], NULL);
        }
        _exit(127);
    }
    check_manage(pair->holds[number]);
}

static bool both_are_held(void *arg)
{
    (void)arg;
    return try_it() == 75 && capture("run", "-n", "y", "--", "true")->status == 75;
}

TEST(two_holds_on_one_pipe_see_its_end)
{
    struct pipe_pair pair;
    stage_file();
    CHECK(pipe2(pair.ends, O_CLOEXEC) == 0);
    start_on(&pair, 0);
    start_on(&pair, 1);
    CHECK(check_until(both_are_held, NULL, PATIENCE_MS));
    CHECK(write(pair.ends[1], "a", 1) == 1);
    check_sleep_ms(20);
    CHECK(both_are_held(NULL));
    close(pair.ends[1]);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(check_wait(pair.holds[i], PATIENCE_MS), ==, 0);
        check_unmanage(pair.holds[i]);
    }
}

static bool has_stopped(void *arg)
{
    return waitpid(*(pid_t *)arg, NULL, WNOHANG | __WALL) > 0;
}

/* Runs a traced process, which sleeps in poll, until that was ended by what stdin holds. Answers
 * false if it goes on sleeping. */
static bool runs_past_poll(pid_t pid)
{
    struct __ptrace_syscall_info info;
    for (int i = 0; i < 20; i++) {
        CHECK(ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
        if (!check_until(has_stopped, &pid, 300)) {
            return false;
        }
        if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof info, &info) > 0 &&
            info.op == PTRACE_SYSCALL_INFO_EXIT && info.exit.rval == 1) {
            return true;
        }
    }
    return false;
}

/* Between its poll and its read another one reads what there was. */
TEST(a_hold_does_not_wait_for_what_another_one_has_read)
{
    struct pipe_pair pair;
    char byte;
    stage_file();
    CHECK(pipe2(pair.ends, O_CLOEXEC) == 0);
    start_on(&pair, 0);
    while (try_it() != 75) {
        check_sleep_ms(5);
    }
    if (ptrace(PTRACE_SEIZE, pair.holds[0], NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0) {
        SKIP("processes cannot be traced here");
    }
    CHECK(ptrace(PTRACE_INTERRUPT, pair.holds[0], NULL, NULL) == 0);
    CHECK(check_until(has_stopped, &pair.holds[0], PATIENCE_MS));
    CHECK(write(pair.ends[1], "a", 1) == 1);
    bool woken = runs_past_poll(pair.holds[0]);
    CHECK(read(pair.ends[0], &byte, 1) == 1);
    if (!woken) {
        CHECK(ptrace(PTRACE_INTERRUPT, pair.holds[0], NULL, NULL) == 0);
        CHECK(check_until(has_stopped, &pair.holds[0], PATIENCE_MS));
    }
    CHECK(ptrace(PTRACE_DETACH, pair.holds[0], NULL, NULL) == 0);
    check_sleep_ms(20);
    kill(pair.holds[0], SIGTERM);
    CHECK_INT(check_wait(pair.holds[0], 5000), ==, 0);
    check_unmanage(pair.holds[0]);
    close(pair.ends[1]);
}

/* Starts a hold whose parent is dead before it executes. */
static void start_an_orphan(void *arg)
{
    int *in = arg;
    pid_t parent = getpid();
    if (fork() == 0) {
        while (getppid() == parent) {
            usleep(1000);
        }
        if (dup2(in[0], 0) == 0) {
            execl(STAGE_SNIB, "snib", "hold", "x", NULL);
        }
        _exit(127);
    }
}

static bool is_free(void *arg)
{
    (void)arg;
    return try_it() == 0;
}

TEST(a_parent_that_died_before_it_could_look_ends_it_too)
{
    int in[2];
    stage_file();
    CHECK(pipe2(in, O_CLOEXEC) == 0); /* stays open */
    for (int i = 0; i < 5; i++) {
        check_join(check_spawn(start_an_orphan, in), PATIENCE_MS);
        check_sleep_ms(50);
        CHECK(check_until(is_free, NULL, 5000));
    }
}

TEST(the_death_of_its_parent_ends_the_wait)
{
    struct actor first, script;
    stage_file();
    stage_snib(&first, "hold", "x");
    (void)stage_line(first.out, PATIENCE_MS);
    stage_start(&script,
                (const char *const[]){"sh", "-c", STAGE_SNIB " hold -v x <&0; true", NULL});
    (void)stage_line(script.err, PATIENCE_MS);
    CHECK(strstr(stage_line(script.err, PATIENCE_MS), "waiting behind"));
    pid_t second = stage_await_child(script.pid, "snib", PATIENCE_MS);
    kill(script.pid, SIGKILL);
    stage_await_death(second, PATIENCE_MS);
    CHECK_INT(stage_end(&script, PATIENCE_MS), ==, 128 + SIGKILL);
    kill(first.pid, SIGTERM);
    CHECK_INT(stage_end(&first, PATIENCE_MS), ==, 0);
}
