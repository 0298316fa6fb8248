/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lease outlives its holder. When snib is killed on a host that lives, nobody waits for that.
 */
#include "capture.h"
#include "rounds.h"
#include "server.h"
#include "stage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_MS 20000

TEST_LIMIT(the_lease_of_a_killed_snib_is_free_within_a_second_of_its_job_s_death, 120)
{
    rounds_given_back(3);
}

/* Runs a job under the lock x, and kills the supervisor. */
static void kill_supervisor(struct actor *run, const char *const options[])
{
    const char *argv[32] = {STAGE_SNIB, "run"};
    size_t n = 2;
    for (size_t i = 0; options && options[i]; i++) {
        argv[n++] = options[i];
    }
    static const char *const rest[] = {"x", "--", "sh", "-c", "echo in; exec sleep 600"};
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++) {
        argv[n++] = rest[i];
    }
    stage_start(run, argv);
    CHECK_STR(stage_line(run->out, PATIENCE_MS), "in");
    kill(stage_supervisor(run, PATIENCE_MS), SIGKILL);
}

TEST(wherever_the_url_came_from_the_guardian_finds_the_engine_again)
{
    struct actor run;
    char url[500];
    (void)stage_fake("ttl=60s");
    snprintf(url, sizeof url, "fake://me:secret@host%s/fake?ttl=60s", check_tmpdir());
    for (int i = 0; i < 2; i++) { /* from an argument, from the environment */
        if (i == 0) {
            unsetenv("SNIB_URL");
        } else {
            setenv("SNIB_URL", url, 1);
        }
        kill_supervisor(&run, i == 0 ? (const char *const[]){"-U", url, NULL} : NULL);
        CHECK(strstr(stage_rest(run.err, PATIENCE_MS), "killed by SIGKILL"));
        CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 70);
        CHECK_INT(capture("run", "-U", url, "-n", "x", "--", "true")->status, ==, 0);
    }
}

TEST(several_locks_are_given_back_together)
{
    struct actor run;
    (void)stage_fake("ttl=60s");
    kill_supervisor(&run, (const char *const[]){"--also", "y", "--also", "z", NULL});
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 70);
    CHECK_INT(capture("run", "-n", "--also", "y", "--also", "z", "x", "--", "true")->status, ==, 0);
}

TEST(a_lock_that_was_broken_meanwhile_is_not_taken_from_its_new_holder)
{
    struct fake_state *engine = stage_fake("ttl=60s");
    struct actor run, next;
    stage_snib(&run, "run", "x", "--", "sh", "-c", "echo in; exec sleep 600");
    CHECK_STR(stage_line(run.out, PATIENCE_MS), "in");
    stage_fake_lock(engine, "x")->token = 0; /* behind everybody's back */
    stage_snib(&next, "run", "x", "--", "sh", "-c", "echo in; read a");
    CHECK_STR(stage_line(next.out, PATIENCE_MS), "in");
    kill(stage_supervisor(&run, PATIENCE_MS), SIGKILL);
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 70);
    CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 75);
    CHECK(write(next.in, "\n", 1) == 1);
    CHECK_INT(stage_end(&next, PATIENCE_MS), ==, 0);
}

TEST(an_engine_that_does_not_answer_costs_the_guardian_some_seconds_and_no_more)
{
    static struct server redis;
    struct actor run;
    char url[100];
    server_redis(&redis, NULL);
    stage_file();
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?quarantine=no", redis.port);
    setenv("SNIB_URL", url, 1);
    stage_snib(&run, "run", "x", "--", "sh", "-c", "echo in; exec sleep 600");
    CHECK_STR(stage_line(run.out, PATIENCE_MS), "in");
    server_pause(&redis);
    int64_t killed_ns = check_now_ns();
    kill(stage_supervisor(&run, PATIENCE_MS), SIGKILL);
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 70);
    CHECK_INT((check_now_ns() - killed_ns) / 1000000, <, check_ms(8000));
    server_resume(&redis);
}

/* The handle and the URL are secrets: the guardian has them in memory of its own. */
TEST(nothing_secret_is_seen_while_it_is_given_back)
{
    static struct server redis;
    struct actor run;
    char url[200], command[300];
    server_redis(&redis, (const char *const[]){"--requirepass", "open-sesame", NULL});
    stage_file();
    snprintf(url, sizeof url, "redis://:open-sesame@127.0.0.1:%d?quarantine=no", redis.port);
    setenv("SNIB_URL", url, 1);
    stage_snib(&run, "run", "x", "--", "sh", "-c", "echo in; exec sleep 600");
    CHECK_STR(stage_line(run.out, PATIENCE_MS), "in");
    server_pause(&redis);
    kill(stage_supervisor(&run, PATIENCE_MS), SIGKILL);
    pid_t child = stage_await_child(run.pid, "snib", PATIENCE_MS);
    snprintf(command, sizeof command, "cat /proc/%d/cmdline /proc/%d/environ | grep -c open-sesame",
             child, child);
    CHECK_STR(capture_command((const char *const[]){"sh", "-c", command, NULL})->out, "0\n");
    server_resume(&redis);
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 70);
    CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 0);
}
