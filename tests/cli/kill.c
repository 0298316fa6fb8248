/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib run is killed, stopped, orphaned, robbed of its guardian: the job never runs unlocked.
 */
#include "capture.h"
#include "overlap.h"
#include "rounds.h"
#include "stage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 20000

/* ---- Killed ----------------------------------------------------------------------------- */

static void kill_and_compare(struct overlap_log *log, uint32_t round)
{
    char path[256], name[32];
    struct actor first, second;
    snprintf(name, sizeof name, "diary%u", round);
    struct stage_diary *diary = stage_diary(path, name);
    stage_snib(&first, "run", "x", "--", STAGE_PULSE, path, "tree");
    (void)stage_await_pulse(&first, diary, 1, PATIENCE_MS);
    stage_snib(&second, "run", "-v", "x", "--", STAGE_PULSE, path, "brief");
    (void)stage_line(second.err, PATIENCE_MS);
    CHECK(strstr(stage_line(second.err, PATIENCE_MS), "waiting behind"));
    kill(first.pid, SIGKILL);
    CHECK_INT(stage_end(&second, PATIENCE_MS), ==, 0);
    CHECK_INT(stage_end(&first, PATIENCE_MS), ==, 128 + SIGKILL);
    CHECK_INT(atomic_load(&diary->count), ==, 3);
    for (int i = 0; i < 3; i++) {
        const struct stage_pulse *p = &diary->pulses[i];
        struct overlap_grant grant = {.name = i == 0 ? 2 : 1, .token = i == 0 ? 0 : p->token};
        CHECK(!check_alive(p->pid));
        (void)overlap_add(log, &grant, p->pid, p->began_ns, atomic_load(&p->last_ns));
        if (i < 2) {
            CHECK_INT(atomic_load(&p->last_ns), <, diary->pulses[2].began_ns);
        }
    }
}

TEST_LIMIT(killed_snib_takes_child_and_grandchild_along_and_only_then_is_the_lock_free, 60)
{
    struct overlap_log *log = overlap_open(100);
    stage_file();
    for (uint32_t round = 0; round < 10; round++) {
        kill_and_compare(log, round);
    }
    overlap_assert(log);
}

TEST_LIMIT(killed_at_any_instant_no_two_jobs_live_at_the_same_time, 120)
{
    rounds_killed(60);
}

/* SIGSTOP would not do: when snib dies, the kernel wakes the stopped members of a group that has
 * lost its last parent in the session. That is to the good, but not here. */
static void freeze(pid_t pid)
{
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0) {
        SKIP("processes cannot be traced here");
    }
    CHECK(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0);
    CHECK_INT(waitpid(pid, NULL, __WALL), ==, pid);
}

static void thaw(pid_t pid)
{
    CHECK(ptrace(PTRACE_DETACH, pid, NULL, NULL) == 0);
}

TEST(the_lock_is_held_until_the_guardian_is_done)
{
    char path[256];
    struct actor snib;
    stage_file();
    struct stage_diary *diary = stage_diary(path, "diary");
    stage_snib(&snib, "run", "x", "--", STAGE_PULSE, path, "tree");
    (void)stage_await_pulse(&snib, diary, 1, PATIENCE_MS);
    struct stage_pulse *child = &diary->pulses[0];
    pid_t guard = stage_await_child(snib.pid, "snib-guard", PATIENCE_MS);
    freeze(guard);
    kill(snib.pid, SIGKILL);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGKILL);
    check_sleep_ms(100);
    CHECK(check_alive(child->pid)); /* the leader died by its own parent-death signal */
    CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 75);
    thaw(guard);
    stage_await_death(child->pid, PATIENCE_MS);
    CHECK_INT(capture("run", "-w", "20", "x", "--", "true")->status, ==, 0);
}

TEST(a_path_is_locked_until_the_guardian_is_done_too)
{
    char path[256], lock[300];
    struct actor snib;
    stage_file();
    struct stage_diary *diary = stage_diary(path, "diary");
    snprintf(lock, sizeof lock, "%s/some.lock", check_tmpdir());
    stage_snib(&snib, "run", lock, "--", STAGE_PULSE, path, "tree");
    (void)stage_await_pulse(&snib, diary, 1, PATIENCE_MS);
    pid_t guard = stage_await_child(snib.pid, "snib-guard", PATIENCE_MS);
    const char *const try[] = {"flock", "-n", lock, "true", NULL};
    CHECK_INT(capture_command(try)->status, ==, 1);
    freeze(guard);
    kill(snib.pid, SIGKILL);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGKILL);
    CHECK_INT(capture_command(try)->status, ==, 1);
    thaw(guard);
    const char *const wait[] = {"flock", "-w", "20", lock, "true", NULL};
    CHECK_INT(capture_command(wait)->status, ==, 0);
    CHECK(!check_alive(diary->pulses[0].pid) && !check_alive(diary->pulses[1].pid));
}

TEST(a_daemon_has_time_to_leave)
{
    struct actor snib;
    stage_file();
    /* It forks and ends, the child leaves the group and goes on. */
    stage_snib(&snib, "run", "x", "--", "setsid", "sh", "-c", "echo $$; exec sleep 600");
    pid_t daemon = (pid_t)strtol(stage_line(snib.out, PATIENCE_MS), NULL, 10);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 0);
    CHECK(check_alive(daemon));
    kill(daemon, SIGKILL);
    stage_await_death(daemon, PATIENCE_MS);
}

TEST(what_left_the_group_is_not_followed)
{
    struct actor snib;
    stage_file();
    stage_snib(&snib, "run", "x", "--", "sh", "-c",
               "setsid sh -c 'echo $$; exec sleep 600' & read a");
    pid_t daemon = (pid_t)strtol(stage_line(snib.out, PATIENCE_MS), NULL, 10);
    CHECK(write(snib.in, "\n", 1) == 1);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 0);
    CHECK(check_alive(daemon));
    kill(daemon, SIGKILL);
    stage_await_death(daemon, PATIENCE_MS);
}

/* ---- The guardian ----------------------------------------------------------------------- */

TEST(a_killed_guardian_is_replaced)
{
    char path[256];
    struct actor snib;
    stage_file();
    struct stage_diary *diary = stage_diary(path, "diary");
    stage_snib(&snib, "run", "-v", "x", "--", STAGE_PULSE, path, "tree");
    (void)stage_await_pulse(&snib, diary, 1, PATIENCE_MS);
    for (int i = 0; i < 12; i++) {
        pid_t guard = stage_await_child(snib.pid, "snib-guard", PATIENCE_MS);
        check_kill(guard);
    }
    CHECK(stage_await_child(snib.pid, "snib-guard", PATIENCE_MS) > 0);
    CHECK(check_alive(diary->pulses[0].pid) && check_alive(diary->pulses[1].pid));
    kill(snib.pid, SIGKILL);
    stage_await_death(diary->pulses[0].pid, PATIENCE_MS);
    stage_await_death(diary->pulses[1].pid, PATIENCE_MS);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGKILL);
}

static bool has_group_of_its_own(void *arg)
{
    pid_t pid = *(pid_t *)arg;
    return getpgid(pid) == pid;
}

TEST(the_guardian_is_out_of_reach_of_signals_to_groups_and_by_words)
{
    struct actor snib;
    stage_file();
    stage_snib(&snib, "run", "a-rare-name", "--", "sleep", "600");
    pid_t job = stage_await_child(snib.pid, "sleep", PATIENCE_MS);
    pid_t guard = stage_await_child(snib.pid, "snib-guard", PATIENCE_MS);
    CHECK(check_until(has_group_of_its_own, &guard, PATIENCE_MS));
    CHECK_INT(getpgid(job), ==, job);
    kill(guard, SIGTERM);
    kill(guard, SIGINT);
    kill(guard, SIGHUP);
    const char *const words[] = {"pkill", "-KILL", "-f", "snib run a-rare-name", NULL};
    CHECK_INT(capture_command(words)->status, ==, 0);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGKILL);
    stage_await_death(job, PATIENCE_MS);
    stage_await_death(guard, PATIENCE_MS);
}

TEST(the_guardian_has_nothing_open_that_the_caller_gave)
{
    struct actor snib;
    char command[200];
    stage_file();
    stage_snib(&snib, "run", "x", "--", "sh", "-c", "exec <&- >&- 2>&-; sleep 600");
    pid_t guard = stage_await_child(snib.pid, "snib-guard", PATIENCE_MS);
    pid_t job = stage_await_child(snib.pid, "sh", PATIENCE_MS);
    check_sleep_ms(50);
    snprintf(command, sizeof command, "ls -l /proc/%d/fd | grep -c pipe:", guard);
    CHECK_STR(capture_command((const char *const[]){"sh", "-c", command, NULL})->out, "0\n");
    kill(job, SIGKILL);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGKILL);
}

/* ---- Stopped ---------------------------------------------------------------------------- */

TEST_LIMIT(stopped_snib_past_the_deadline_has_no_job_when_the_next_one_starts, 120)
{
    rounds_stopped(16);
}

TEST(stopped_snib_without_a_lease_keeps_job_and_lock)
{
    struct actor snib;
    stage_file();
    stage_snib(&snib, "run", "x", "--", "sh", "-c", "echo in; read a; exit 4");
    CHECK_STR(stage_line(snib.out, PATIENCE_MS), "in");
    check_stop(snib.pid);
    CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 75);
    check_cont(snib.pid);
    CHECK(write(snib.in, "\n", 1) == 1);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 4);
}

TEST(a_job_that_ended_in_time_keeps_its_status_although_snib_was_stopped)
{
    struct fake_state *engine = stage_fake("ttl=1s&timeout=200ms");
    struct actor snib;
    stage_snib(&snib, "run", "x", "--", "sh", "-c", "echo in; read a; exit 6");
    CHECK_STR(stage_line(snib.out, PATIENCE_MS), "in");
    struct fake_lock *lock = stage_fake_lock(engine, "x");
    int64_t seen = lock->expires_ns;
    while (lock->expires_ns == seen) { /* a renewal: now there is time */
        check_sleep_ms(1);
    }
    check_stop(snib.pid);
    CHECK(write(snib.in, "\n", 1) == 1);
    check_sleep_ms(check_ms(1500));
    check_cont(snib.pid);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 6);
}

/* ---- Process 1 -------------------------------------------------------------------------- */

TEST(as_process_1_it_buries_orphans_and_passes_signals_on)
{
    struct actor snib;
    stage_file();
    if (capture_command((const char *const[]){"unshare", "-p", "-f", "--mount-proc", "true", NULL})
            ->status != 0) {
        SKIP("no process namespaces here (unshare -p)");
    }
    const struct capture *said = capture_command((const char *const[]){
        "unshare", "-p", "-f", "--mount-proc", STAGE_SNIB, "run", "x", "--", "sh", "-c",
        "for i in 1 2 3 4 5; do (setsid sh -c 'exit 0' &); done; sleep 0.3; "
        "grep -l ') Z ' /proc/[0-9]*/stat | wc -l; exit 5",
        NULL});
    CHECK_STR(said->err, "");
    CHECK_STR(said->out, "0\n");
    CHECK_INT(said->status, ==, 5);
    stage_start(&snib, (const char *const[]){"unshare", "-p", "-f", "--mount-proc", STAGE_SNIB,
                                             "run", "x", "--", "sh", "-c",
                                             "trap 'exit 9' TERM; echo in; while :; do sleep 0.05; "
                                             "done",
                                             NULL});
    CHECK_STR(stage_line(snib.out, PATIENCE_MS), "in");
    kill(stage_await_child(snib.pid, "snib", PATIENCE_MS), SIGTERM);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 9);
}
