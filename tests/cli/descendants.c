/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job is all that comes of a command, wherever it has moved: nothing of it outlives the lock.
 */
#include "capture.h"
#include "rounds.h"
#include "stage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define MS 1000000LL

static const char *script(const char *format, const char *diary)
{
    static char text[1024];
    char pulse[600];
    snprintf(pulse, sizeof pulse, "%s --stage-pulse %s", stage_program(), diary);
    snprintf(text, sizeof text, format, pulse);
    return text;
}

/* When nobody of the diary lives, and when the last of them did. */
static int64_t await_deaths(struct stage_diary *diary)
{
    int64_t last_ns = 0;
    for (int i = 0; i < atomic_load(&diary->count); i++) {
        stage_await_death(diary->pulses[i].pid, PATIENCE_MS);
        int64_t ns = atomic_load(&diary->pulses[i].last_ns);
        last_ns = ns > last_ns ? ns : last_ns;
    }
    return last_ns;
}

/* ---- Groups of their own ---------------------------------------------------------------- */

TEST(a_job_under_timeout_is_dead_before_the_next_whoever_of_the_two_is_killed)
{
    stage_file();
    for (int i = 0; i < 2; i++) {
        char path[256], next_path[256];
        struct actor run, next;
        struct stage_diary *diary = stage_diary(path, i ? "d1" : "d0");
        struct stage_diary *next_diary = stage_diary(next_path, i ? "n1" : "n0");
        stage_snib(&run, "run", "x", "--", "sh", "-c", script("timeout 60 %s tree; true", path));
        struct stage_pulse *job = stage_await_pulse(&run, diary, 1, PATIENCE_MS);
        CHECK(atomic_load(&job->group) != getpgid(stage_command(&run, "sh", PATIENCE_MS)));
        stage_snib(&next, "run", "x", "--", STAGE_PULSE, next_path, "brief");
        kill(i == 0 ? run.pid : stage_supervisor(&run, PATIENCE_MS), SIGKILL);
        struct stage_pulse *second = stage_await_pulse(&next, next_diary, 0, PATIENCE_MS);
        CHECK_INT(await_deaths(diary), <, second->began_ns);
        CHECK_INT(stage_end(&run, PATIENCE_MS), ==, i == 0 ? 128 + SIGKILL : 70);
        CHECK_INT(stage_end(&next, PATIENCE_MS), ==, 0);
    }
}

TEST(a_job_under_timeout_is_dead_when_the_maximum_hold_is_over)
{
    char path[256];
    stage_file();
    struct stage_diary *diary = stage_diary(path, "diary");
    const struct capture *said = capture("run", "--max-hold", "900ms", "x", "--", "sh", "-c",
                                         script("timeout 60 %s tree; true", path));
    int64_t ended_ns = check_now_ns();
    CHECK_INT(said->status, ==, 79);
    CHECK(strstr(said->err, "was stopped"));
    CHECK_INT(atomic_load(&diary->count), ==, 2);
    CHECK(!check_alive(diary->pulses[0].pid) && !check_alive(diary->pulses[1].pid));
    CHECK_INT(await_deaths(diary), <, ended_ns);
}

TEST(at_the_end_of_a_lease_a_job_under_timeout_is_dead_in_time)
{
    char path[256];
    struct actor run;
    struct fake_state *engine = stage_fake_lease(6000);
    struct stage_diary *diary = stage_diary(path, "diary");
    stage_snib(&run, "run", "x", "--", "sh", "-c", script("timeout 60 %s tree; true", path));
    (void)stage_await_pulse(&run, diary, 1, PATIENCE_MS);
    atomic_store(&engine->mute_renewals, 1);
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 79);
    CHECK_INT(await_deaths(diary), <, stage_fake_lock(engine, "x")->expires_ns);
}

/* ---- Runs inside of runs ---------------------------------------------------------------- */

TEST(an_inner_run_s_job_is_dead_before_either_lock_is_free_whoever_is_killed)
{
    stage_file();
    for (int i = 0; i < 4; i++) {
        char path[256], names[3][32], next_path[2][256];
        struct actor run, next[2];
        struct stage_diary *next_diary[2];
        snprintf(names[0], sizeof names[0], "d%d", i);
        struct stage_diary *diary = stage_diary(path, names[0]);
        stage_snib(&run, "run", "a", "--", STAGE_SNIB, "run", "b", "--", STAGE_PULSE, path, "tree");
        (void)stage_await_pulse(&run, diary, 1, PATIENCE_MS);
        for (int j = 0; j < 2; j++) {
            snprintf(names[j + 1], sizeof names[0], "n%d%d", i, j);
            next_diary[j] = stage_diary(next_path[j], names[j + 1]);
            stage_snib(&next[j], "run", j ? "b" : "a", "--", STAGE_PULSE, next_path[j], "brief");
        }
        pid_t outer = stage_supervisor(&run, PATIENCE_MS);
        pid_t inner = stage_await_child(outer, "snib", PATIENCE_MS);
        pid_t inner_supervisor = stage_await_child(inner, "job-supervisor", PATIENCE_MS);
        kill((const pid_t[]){run.pid, outer, inner, inner_supervisor}[i], SIGKILL);
        for (int j = 0; j < 2; j++) {
            struct stage_pulse *second = stage_await_pulse(&next[j], next_diary[j], 0, PATIENCE_MS);
            CHECK_INT(await_deaths(diary), <, second->began_ns);
            CHECK_INT(stage_end(&next[j], PATIENCE_MS), ==, 0);
        }
        CHECK_INT(stage_end(&run, PATIENCE_MS), >, 0);
    }
}

TEST(an_inner_run_gives_its_lease_back_when_the_outer_one_is_killed)
{
    for (int i = 0; i < 2; i++) {
        struct fake_state *engine = stage_fake("ttl=60s");
        struct actor run;
        stage_snib(&run, "run", "a", "--", STAGE_SNIB, "run", "b", "--", "sh", "-c",
                   "trap '' TERM; echo in; while :; do sleep 600; done");
        CHECK_STR(stage_line(run.out, PATIENCE_MS), "in");
        kill(i == 0 ? run.pid : stage_supervisor(&run, PATIENCE_MS), SIGKILL);
        CHECK_INT(capture("run", "-w", "15", "b", "--", "true")->status, ==, 0);
        CHECK_INT(capture("run", "-w", "15", "a", "--", "true")->status, ==, 0);
        CHECK_INT(stage_end(&run, PATIENCE_MS), ==, i == 0 ? 128 + SIGKILL : 70);
        CHECK(engine->last_token > 0);
    }
}

TEST(a_signal_to_the_outer_run_reaches_the_inner_job_once)
{
    struct actor run;
    stage_file();
    stage_snib(&run, "run", "a", "--", STAGE_SNIB, "run", "b", "--", "sh", "-c",
               "trap 'echo heard' TERM; trap 'exit 4' USR1; echo in; "
               "while :; do sleep 0.02; done");
    CHECK_STR(stage_line(run.out, PATIENCE_MS), "in");
    kill(run.pid, SIGTERM);
    CHECK_STR(stage_line(run.out, PATIENCE_MS), "heard");
    check_sleep_ms(100);
    kill(run.pid, SIGUSR1);
    CHECK_STR(stage_rest(run.out, PATIENCE_MS), "");
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 4);
}

/* ---- Sessions of their own -------------------------------------------------------------- */

TEST(a_session_of_its_own_is_stopped_when_the_lock_is_lost)
{
    char path[256];
    struct actor run;
    struct fake_state *engine = stage_fake_lease(6000);
    struct stage_diary *diary = stage_diary(path, "diary");
    stage_snib(&run, "run", "x", "--", "sh", "-c", script("setsid %s deaf & wait", path));
    struct stage_pulse *job = stage_await_pulse(&run, diary, 0, PATIENCE_MS);
    CHECK(getsid(job->pid) != getsid(0));
    atomic_store(&engine->say_gone, 1);
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 79);
    CHECK(!check_alive(job->pid));
    CHECK_INT(atomic_load(&job->term_ns), >, 0);
}

/* The shells above them die of the same TERM, while their children are looked for. */
TEST(a_session_whose_parent_ends_at_once_is_told_to_end_too)
{
    enum { SHELLS = 3 };
    char path[256];
    struct actor run;
    struct fake_state *engine = stage_fake_lease(6000);
    struct stage_diary *diary = stage_diary(path, "diary");
    stage_snib(&run, "run", "x", "--", "sh", "-c",
               script("for i in 1 2 3; do (setsid %s deaf & wait) & done; wait", path));
    for (int i = 0; i < SHELLS; i++) {
        (void)stage_await_pulse(&run, diary, i, PATIENCE_MS);
    }
    atomic_store(&engine->say_gone, 1);
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 79);
    for (int i = 0; i < SHELLS; i++) {
        CHECK_INT(atomic_load(&diary->pulses[i].term_ns), >, 0);
    }
}

TEST(a_session_of_its_own_is_stopped_whoever_of_the_two_is_killed)
{
    stage_file();
    for (int i = 0; i < 2; i++) {
        char path[256];
        struct actor run;
        struct stage_diary *diary = stage_diary(path, i ? "d1" : "d0");
        stage_snib(&run, "run", "x", "--", "sh", "-c",
                   script("(setsid sh -c '%s tree; true' &); exec sleep 600", path));
        (void)stage_await_pulse(&run, diary, 1, PATIENCE_MS);
        kill(i == 0 ? run.pid : stage_supervisor(&run, PATIENCE_MS), SIGKILL);
        CHECK_INT(capture("run", "-w", "15", "x", "--", "true")->status, ==, 0);
        CHECK(!check_alive(diary->pulses[0].pid) && !check_alive(diary->pulses[1].pid));
        CHECK_INT(stage_end(&run, PATIENCE_MS), ==, i == 0 ? 128 + SIGKILL : 70);
    }
}

/* ---- Those who run away ----------------------------------------------------------------- */

TEST(who_forks_and_ends_all_the_time_is_caught)
{
    stage_file();
    for (int i = 0; i < 4; i++) {
        struct actor run;
        stage_snib(&run, "run", "x", "--", "sh", "-c",
                   "echo in; "
                   "c='setsid sh -c \"$0\" \"$0\" & exit'; sh -c \"$c\" \"$c\"; exec sleep 600");
        CHECK_STR(stage_line(run.out, PATIENCE_MS), "in");
        check_sleep_ms(20);
        kill(i % 2 == 0 ? run.pid : stage_supervisor(&run, PATIENCE_MS), SIGKILL);
        CHECK_INT(capture("run", "-w", "15", "x", "--", "true")->status, ==, 0);
        CHECK_STR(stage_rest(run.out, PATIENCE_MS), ""); /* all who had it are gone */
        CHECK_INT(stage_end(&run, PATIENCE_MS), ==, i % 2 == 0 ? 128 + SIGKILL : 70);
    }
}

TEST_LIMIT(wrapped_jobs_killed_at_any_instant_overlap_with_nobody, 120)
{
    rounds_wrapped(24, ROUNDS_FILE);
}

TEST_LIMIT(wrapped_jobs_under_a_lease_killed_at_any_instant_overlap_with_nobody, 120)
{
    rounds_wrapped(12, ROUNDS_FAKE);
}
