/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib run is killed, stopped, orphaned, robbed of its supervisor: the job never runs unlocked.
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

/* Not by SIGSTOP: the kernel wakes the stopped members of a process group that has lost its last
 * parent in the session. */
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

/* One of the two is killed while the other cannot act: `lock` stays locked, as `try_it` finds,
 * until it can, and then nobody of the job lives. */
static void check_held_until_done(const char *lock, const char *const try_it[],
                                  const char *const wait_for_it[], int busy, bool kill_guardian)
{
    static int number;
    char path[256], name[32];
    struct actor snib;
    snprintf(name, sizeof name, "diary-%d", number++);
    struct stage_diary *diary = stage_diary(path, name);
    stage_snib(&snib, "run", lock, "--", STAGE_PULSE, path, "tree");
    (void)stage_await_pulse(&snib, diary, 1, PATIENCE_MS);
    struct stage_pulse *child = &diary->pulses[0];
    pid_t supervisor = stage_supervisor(&snib, PATIENCE_MS);
    pid_t frozen = kill_guardian ? supervisor : snib.pid;
    freeze(frozen);
    kill(kill_guardian ? snib.pid : supervisor, SIGKILL);
    check_sleep_ms(100);
    CHECK(check_alive(child->pid)); /* the command may have died by its parent-death signal */
    CHECK_INT(capture_command(try_it)->status, ==, busy);
    thaw(frozen);
    CHECK_INT(capture_command(wait_for_it)->status, ==, 0);
    CHECK(!check_alive(child->pid) && !check_alive(diary->pulses[1].pid));
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, kill_guardian ? 128 + SIGKILL : 70);
}

TEST(the_lock_is_held_until_the_survivor_is_done)
{
    const char *const try_it[] = {STAGE_SNIB, "run", "-n", "x", "--", "true", NULL};
    const char *const wait_for_it[] = {STAGE_SNIB, "run", "-w", "20", "x", "--", "true", NULL};
    stage_file();
    check_held_until_done("x", try_it, wait_for_it, 75, false);
    check_held_until_done("x", try_it, wait_for_it, 75, true);
}

TEST(a_path_is_locked_until_the_survivor_is_done_too)
{
    char lock[300];
    snprintf(lock, sizeof lock, "%s/some.lock", check_tmpdir());
    const char *const try_it[] = {"flock", "-n", lock, "true", NULL};
    const char *const wait_for_it[] = {"flock", "-w", "20", lock, "true", NULL};
    stage_file();
    check_held_until_done(lock, try_it, wait_for_it, 1, false);
    check_held_until_done(lock, try_it, wait_for_it, 1, true);
}

TEST(the_guardian_gets_the_lock_whatever_descriptors_the_caller_has_open)
{
    static const char *const limits[] = {
        "ulimit -n 24", "for i in {1..300}; do exec {fd}</dev/null; done", "exec 700</dev/null"};
    stage_file();
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct actor snib;
        char script[300];
        snprintf(script, sizeof script,
                 "%s; exec " STAGE_SNIB " run x -- sh -c 'echo in; exec sleep 600'", limits[i]);
        stage_start(&snib, (const char *const[]){"bash", "-c", script, NULL});
        CHECK_STR(stage_line(snib.out, PATIENCE_MS), "in");
        pid_t supervisor = stage_supervisor(&snib, PATIENCE_MS);
        freeze(snib.pid);
        check_kill(supervisor);
        CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 75);
        thaw(snib.pid);
        CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 70);
        CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 0);
    }
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

TEST(a_session_of_its_own_is_left_alone_at_a_normal_end)
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

/* ---- The supervisor --------------------------------------------------------------------- */

TEST(a_killed_supervisor_is_told_of_and_the_job_is_dead)
{
    char path[256];
    struct actor snib;
    stage_file();
    struct stage_diary *diary = stage_diary(path, "diary");
    stage_snib(&snib, "run", "x", "--", STAGE_PULSE, path, "tree");
    (void)stage_await_pulse(&snib, diary, 1, PATIENCE_MS);
    kill(stage_supervisor(&snib, PATIENCE_MS), SIGKILL);
    CHECK_STR(stage_rest(snib.err, PATIENCE_MS),
              "snib: lock 'x': the supervisor of the command was killed by SIGKILL; so was the "
              "command\n");
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 70);
    CHECK(!check_alive(diary->pulses[0].pid) && !check_alive(diary->pulses[1].pid));
    CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 0);
}

TEST(who_is_killed_while_waiting_leaves_nobody_behind)
{
    struct actor holder, snib;
    stage_file();
    stage_snib(&holder, "hold", "x");
    (void)stage_line(holder.out, PATIENCE_MS);
    for (int i = 0; i < 2; i++) {
        stage_snib(&snib, "run", "-v", "x", "--", "true");
        (void)stage_line(snib.err, PATIENCE_MS);
        CHECK(strstr(stage_line(snib.err, PATIENCE_MS), "waiting behind"));
        pid_t supervisor = stage_supervisor(&snib, PATIENCE_MS);
        kill(i == 0 ? snib.pid : supervisor, SIGKILL);
        stage_await_death(supervisor, PATIENCE_MS);
        CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, i == 0 ? 128 + SIGKILL : 70);
    }
    kill(holder.pid, SIGTERM);
    CHECK_INT(stage_end(&holder, PATIENCE_MS), ==, 0);
    CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 0);
}

static bool has_group_of_its_own(void *arg)
{
    pid_t pid = *(pid_t *)arg;
    return getpgid(pid) == pid;
}

TEST(who_kills_snib_by_its_group_its_name_or_its_words_kills_one_of_the_two)
{
    struct actor snib;
    char text[64] = "";
    stage_file();
    stage_snib(&snib, "run", "a-rare-name", "--", "sleep", "600");
    pid_t job = stage_command(&snib, "sleep", PATIENCE_MS);
    pid_t supervisor = stage_supervisor(&snib, PATIENCE_MS);
    CHECK(check_until(has_group_of_its_own, &supervisor, PATIENCE_MS));
    CHECK_INT(getpgid(job), ==, job);
    snprintf(text, sizeof text, "/proc/%d/cmdline", supervisor);
    FILE *file = fopen(text, "re");
    CHECK(file && fgets(text, sizeof text, file));
    fclose(file);
    CHECK_STR(text, "job-supervisor"); /* its name is that too, or it would not have been found */
    const char *const words[] = {"pkill", "-KILL", "-f", "snib run a-rare-name", NULL};
    CHECK_INT(capture_command(words)->status, ==, 0);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGKILL);
    stage_await_death(job, PATIENCE_MS);
    stage_await_death(supervisor, PATIENCE_MS);
}

TEST(children_that_snib_had_before_are_not_its_own)
{
    struct actor script;
    stage_file();
    stage_start(&script, (const char *const[]){"bash", "-c",
                                               "sleep 600 & echo $!; exec " STAGE_SNIB
                                               " run x -- sh -c 'echo in; exec sleep 601'",
                                               NULL});
    pid_t stranger = (pid_t)strtol(stage_line(script.out, PATIENCE_MS), NULL, 10);
    CHECK_STR(stage_line(script.out, PATIENCE_MS), "in");
    pid_t job = stage_command(&script, "sleep", PATIENCE_MS);
    kill(stage_supervisor(&script, PATIENCE_MS), SIGKILL);
    CHECK_INT(stage_end(&script, PATIENCE_MS), ==, 70);
    CHECK(!check_alive(job));
    CHECK(check_alive(stranger));
    kill(stranger, SIGKILL);
    stage_await_death(stranger, PATIENCE_MS);
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
    pid_t both[] = {stage_supervisor(&snib, PATIENCE_MS), snib.pid}; /* CONT is passed down */
    for (int i = 0; i < 2; i++) {
        check_stop(both[i]);
        CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 75);
        check_cont(both[i]);
    }
    CHECK(write(snib.in, "\n", 1) == 1);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 4);
}

/* The guardian finds that its time is over, and the supervisor too: it is not killed for that. */
TEST(after_the_whole_machine_stood_still_the_supervisor_tells_why)
{
    struct actor snib;
    stage_file();
    stage_snib(&snib, "run", "--max-hold", "3s", "x", "--", "sh", "-c", "echo in; exec sleep 600");
    CHECK_STR(stage_line(snib.out, PATIENCE_MS), "in");
    pid_t supervisor = stage_supervisor(&snib, PATIENCE_MS);
    check_stop(supervisor);
    check_stop(snib.pid);
    check_sleep_ms(3200);
    kill(snib.pid, SIGCONT);
    kill(supervisor, SIGCONT);
    const char *said = stage_rest(snib.err, PATIENCE_MS);
    if (!strstr(said, "maximum hold")) {
        FAIL("it says: %s", said);
    }
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 79);
}

TEST(a_job_that_ended_in_time_keeps_its_status_although_snib_was_stopped)
{
    struct fake_state *engine = stage_fake_lease(3000);
    struct actor snib;
    stage_snib(&snib, "run", "x", "--", "sh", "-c", "echo in; read a; exit 6");
    CHECK_STR(stage_line(snib.out, PATIENCE_MS), "in");
    struct fake_lock *lock = stage_fake_lock(engine, "x");
    int64_t seen = lock->expires_ns;
    while (lock->expires_ns == seen) { /* a renewal: now there is time */
        check_sleep_ms(1);
    }
    pid_t supervisor = stage_supervisor(&snib, PATIENCE_MS);
    check_stop(supervisor);
    CHECK(write(snib.in, "\n", 1) == 1);
    check_sleep_ms(check_ms(4000)); /* past the lease */
    check_cont(supervisor);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 6);
}

TEST(stopping_what_the_user_started_stops_neither_renewals_nor_job)
{
    struct fake_state *engine = stage_fake_lease(3000);
    struct actor snib;
    stage_snib(&snib, "run", "x", "--", "sh", "-c", "echo in; read a; exit 6");
    CHECK_STR(stage_line(snib.out, PATIENCE_MS), "in");
    check_stop(snib.pid);
    int seen = atomic_load(&engine->renewals);
    while (atomic_load(&engine->renewals) < seen + 5) {
        check_sleep_ms(1);
    }
    check_cont(snib.pid);
    CHECK(write(snib.in, "\n", 1) == 1);
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

TEST(a_process_namespace_that_begins_below_it_is_no_obstacle)
{
    struct actor snib;
    stage_file();
    if (capture_command((const char *const[]){"unshare", "-p", "true", NULL})->status != 0) {
        SKIP("no process namespaces here (unshare -p)");
    }
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* that starts a process, where none can start */
    const char *const run[] = {"unshare", "-p", STAGE_SNIB,
                               "run",     "x",  "--",
                               "sh",      "-c", "(setsid sleep 600 &) ; echo in; read a; exit 5",
                               NULL};
    stage_start(&snib, run);
    CHECK_STR(stage_line(snib.out, PATIENCE_MS), "in");
    CHECK(write(snib.in, "\n", 1) == 1);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 5);
    for (int i = 0; i < 2; i++) {
        stage_start(&snib, run);
        CHECK_STR(stage_line(snib.out, PATIENCE_MS), "in");
        kill(i == 0 ? snib.pid : stage_supervisor(&snib, PATIENCE_MS), SIGKILL);
        CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, i == 0 ? 128 + SIGKILL : 70);
        CHECK_INT(capture("run", "-w", "20", "x", "--", "true")->status, ==, 0);
    }
}
