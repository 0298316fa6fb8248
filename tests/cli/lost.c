/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock is lost, or may be: what snib run does to its command, when, and what it says.
 */
#include "capture.h"
#include "rounds.h"
#include "stage.h"

#include <snib.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define MS 1000000LL

static void check_one_line(const char *text, const char *holds)
{
    const char *end = strchr(text, '\n');
    if (strncmp(text, "snib: ", 6) != 0 || !end || end[1] != '\0' || !strstr(text, holds)) {
        FAIL("not one line of snib with '%s': '%s'", holds, text);
    }
}

static struct stage_pulse *start(struct actor *run, const char *const options[], const char *word)
{
    static char path[256];
    const char *argv[32] = {STAGE_SNIB, "run"};
    size_t n = 2;
    struct stage_diary *diary = stage_diary(path, "diary");
    for (size_t i = 0; options && options[i]; i++) {
        argv[n++] = options[i];
    }
    argv[n++] = "x";
    argv[n++] = "--";
    argv[n++] = stage_program();
    argv[n++] = "--stage-pulse";
    argv[n++] = path;
    argv[n++] = word;
    stage_start(run, argv);
    return stage_await_pulse(run, diary, 0, PATIENCE_MS);
}

/* ---- Silence ---------------------------------------------------------------------------- */

TEST_LIMIT(term_and_kill_come_at_their_instants_and_a_deaf_job_is_dead_before_the_deadline, 120)
{
    rounds_deaf(24);
}

TEST(a_job_that_heeds_term_is_gone_by_then_and_that_is_79)
{
    struct fake_state *engine = stage_fake_lease(6000);
    struct actor run;
    struct stage_pulse *job = start(&run, NULL, "");
    atomic_store(&engine->mute_renewals, 1);
    check_one_line(stage_rest(run.err, PATIENCE_MS), "the engine did not answer");
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 79);
    CHECK_INT(atomic_load(&job->last_ns), <, stage_fake_lock(engine, "x")->expires_ns);
    CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 69); /* still silent */
}

TEST(an_engine_that_comes_back_in_time_does_no_harm)
{
    struct fake_state *engine = stage_fake_lease(6000);
    struct actor run;
    stage_snib(&run, "run", "x", "--", "sh", "-c", "echo in; read a; exit 3");
    CHECK_STR(stage_line(run.out, PATIENCE_MS), "in");
    int seen = atomic_load(&engine->renewals);
    atomic_store(&engine->mute_renewals, 1);
    while (atomic_load(&engine->renewals) < seen + 2) { /* one was not answered and is repeated */
        check_sleep_ms(1);
    }
    atomic_store(&engine->mute_renewals, 0);
    check_sleep_ms(check_ms(7000)); /* longer than a lease */
    CHECK(write(run.in, "\n", 1) == 1);
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 3);
}

TEST(verbose_tells_of_doubt_and_of_what_is_coming)
{
    struct fake_state *engine = stage_fake_lease(12000);
    struct actor run;
    (void)start(&run, (const char *const[]){"-v", NULL}, "deaf");
    atomic_store(&engine->mute_renewals, 1);
    CHECK(strstr(stage_line(run.err, PATIENCE_MS), "snib: engine fake://"));
    CHECK(strstr(stage_line(run.err, PATIENCE_MS), "snib: acquired 'x'"));
    CHECK(strstr(stage_line(run.err, PATIENCE_MS), "snib: lock 'x' in doubt: no answer"));
    CHECK(strstr(stage_line(run.err, PATIENCE_MS), "snib: TERM to the command; KILL in"));
    CHECK(strstr(stage_line(run.err, PATIENCE_MS), "snib: KILL to the command"));
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 79);
}

TEST(grace_moves_term_and_not_kill)
{
    int ttl_ms = check_ms(6000);
    char grace[32];
    struct fake_state *engine = stage_fake_lease(6000);
    struct actor run;
    snprintf(grace, sizeof grace, "%dms", check_ms(1800));
    struct stage_pulse *job = start(&run, (const char *const[]){"--grace", grace, NULL}, "deaf");
    atomic_store(&engine->mute_renewals, 1);
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 79);
    int64_t deadline = stage_fake_lock(engine, "x")->expires_ns - ttl_ms * MS / 10;
    int64_t term = atomic_load(&job->term_ns), last = atomic_load(&job->last_ns);
    CHECK_INT(term, >=, deadline - check_ms(1800) * MS - 20 * MS);
    CHECK_INT(last - term, >, check_ms(800) * MS);       /* with the normal grace: 700 ms */
    bool held_up = atomic_load(&job->gap_ns) > 100 * MS; /* nobody could stop it meanwhile */
    CHECK_INT(last, <, held_up ? stage_fake_lock(engine, "x")->expires_ns : deadline);
}

TEST(a_grace_that_leaves_no_time_to_renew_is_refused)
{
    (void)stage_fake_lease(3000);
    char most[32];
    snprintf(most, sizeof most, "%dms", check_ms(1000));
    const struct capture *said = capture("run", "--grace", most, "x", "--", "true");
    CHECK_INT(said->status, ==, 64);
    check_one_line(said->err, "--grace");
    said = capture("run", "--ttl", "6s", "--grace", "2s", "x", "--", "echo", "ran");
    CHECK_INT(said->status, ==, 64);
    CHECK_STR(said->out, "");
    CHECK_INT(capture("run", "--ttl", "6s", "--grace", "1900ms", "x", "true")->status, ==, 0);
    CHECK_INT(capture("run", "-n", "x", "true")->status, ==, 0); /* given back */
}

/* ---- Gone ------------------------------------------------------------------------------- */

TEST(a_known_loss_stops_the_job_at_once)
{
    struct fake_state *engine = stage_fake_lease(6000);
    struct actor run;
    struct stage_pulse *job = start(&run, NULL, "deaf");
    atomic_store(&engine->say_gone, 1);
    const char *rest = stage_rest(run.err, PATIENCE_MS);
    check_one_line(rest, "deleted by the test");
    check_one_line(rest, "was stopped");
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 79);
    int64_t term = atomic_load(&job->term_ns), last = atomic_load(&job->last_ns);
    CHECK_INT(term, >, job->began_ns);
    CHECK_INT(last - term, <, check_ms(2500) * MS); /* a second of grace here */
    CHECK_INT(last, <, stage_fake_lock(engine, "x")->expires_ns);
}

TEST(a_broken_lock_stops_the_job_of_its_holder)
{
    struct fake_state *engine = stage_fake_lease(4500);
    struct actor run;
    snib_error error;
    struct stage_pulse *job = start(&run, NULL, "");
    snib *client;
    CHECK_OK(snib_open(&client, NULL, &error), error.message);
    CHECK_OK(snib_break(client, "x", job->token, &error), error.message);
    snib_close(client);
    check_one_line(stage_rest(run.err, PATIENCE_MS), "lost while the command ran");
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 79);
    CHECK_INT(atomic_load(&engine->releases), >=, 1);
}

TEST(a_file_lock_that_is_asked_for_stops_the_job_of_its_holder)
{
    struct actor run;
    snib_error error;
    stage_file();
    struct stage_pulse *job = start(&run, NULL, "");
    check_sleep_ms(300); /* a short job does not listen */
    snib *client;
    CHECK_OK(snib_open(&client, NULL, &error), error.message);
    int rc = snib_break(client, "x", job->token, &error);
    CHECK(rc == SNIB_OK || rc == SNIB_EBUSY);
    snib_close(client);
    check_one_line(stage_rest(run.err, PATIENCE_MS), "lost while the command ran");
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 79);
}

/* Until the lease has ended, with time for a pulse after that. */
static void sleep_past(const struct fake_lock *lock)
{
    while (check_now_ns() < lock->expires_ns + check_ms(300) * MS) {
        check_sleep_ms(10);
    }
}

/* ---- The other ways --------------------------------------------------------------------- */

TEST(on_lost_term_never_kills_and_a_job_that_outlives_its_lease_is_80)
{
    struct fake_state *engine = stage_fake_lease(2000);
    struct actor run;
    struct stage_pulse *job = start(&run, (const char *const[]){"--on-lost", "term", NULL}, "deaf");
    atomic_store(&engine->mute_renewals, 1);
    sleep_past(stage_fake_lock(engine, "x"));
    CHECK(check_alive(job->pid));
    CHECK(atomic_load(&job->term_ns) > 0);
    kill(job->pid, SIGUSR1);
    check_one_line(stage_rest(run.err, PATIENCE_MS), "is unknown");
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 80);
    CHECK_INT(atomic_load(&job->last_ns), >, stage_fake_lock(engine, "x")->expires_ns);
}

TEST(on_lost_term_is_79_for_a_job_that_heeds_it)
{
    struct fake_state *engine = stage_fake_lease(6000);
    struct actor run;
    (void)start(&run, (const char *const[]){"--on-lost=term", NULL}, "");
    atomic_store(&engine->mute_renewals, 1);
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 79);
}

TEST(on_lost_ignore_leaves_the_job_alone)
{
    struct fake_state *engine = stage_fake_lease(2000);
    struct actor run;
    struct stage_pulse *job =
        start(&run, (const char *const[]){"--on-lost", "ignore", NULL}, "deaf");
    atomic_store(&engine->mute_renewals, 1);
    sleep_past(stage_fake_lock(engine, "x"));
    CHECK(check_alive(job->pid));
    CHECK_INT(atomic_load(&job->term_ns), ==, 0);
    kill(job->pid, SIGKILL);
    check_one_line(stage_rest(run.err, PATIENCE_MS), "is unknown");
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 80);
}

TEST(on_lost_ignore_tells_of_a_loss_that_is_known)
{
    struct fake_state *engine = stage_fake_lease(3000);
    struct actor run;
    struct stage_pulse *job =
        start(&run, (const char *const[]){"--on-lost", "ignore", NULL}, "deaf");
    atomic_store(&engine->say_gone, 1);
    check_sleep_ms(check_ms(2400));
    CHECK(check_alive(job->pid));
    CHECK_INT(atomic_load(&job->term_ns), ==, 0);
    kill(job->pid, SIGKILL);
    check_one_line(stage_rest(run.err, PATIENCE_MS), "left to end, as asked");
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 79);
}

/* ---- At the ends ------------------------------------------------------------------------ */

TEST(a_loss_that_shows_only_at_the_end_is_80)
{
    struct fake_state *engine = stage_fake_lease(30000);
    struct actor run;
    stage_snib(&run, "run", "x", "--", "sh", "-c", "echo in; read a");
    CHECK_STR(stage_line(run.out, PATIENCE_MS), "in");
    stage_fake_lock(engine, "x")->token = 0; /* behind everybody's back */
    CHECK(write(run.in, "\n", 1) == 1);
    check_one_line(stage_rest(run.err, PATIENCE_MS), "no longer ours");
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 80);
}

TEST(a_release_that_is_not_answered_changes_no_status)
{
    struct fake_state *engine = stage_fake_lease(30000);
    atomic_store(&engine->mute_releases, 1);
    const struct capture *said = capture("run", "x", "--", "sh", "-c", "exit 5");
    CHECK_INT(said->status, ==, 5);
    check_one_line(said->err, "'x'"); /* the next one may have to wait for the lease to end */
}

/* What was removed excludes nobody any more; nobody is told before the end. */
TEST(a_lock_file_that_was_removed_meanwhile_is_80)
{
    struct actor run;
    char path[256];
    stage_file();
    stage_snib(&run, "run", "gone", "--", "sh", "-c", "echo in; read a");
    CHECK_STR(stage_line(run.out, PATIENCE_MS), "in");
    snprintf(path, sizeof path, "%s/locks/gone.lock", check_tmpdir());
    CHECK_INT(unlink(path), ==, 0);
    CHECK(write(run.in, "\n", 1) == 1);
    check_one_line(stage_rest(run.err, PATIENCE_MS), "no longer ours");
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 80);
}

TEST(a_job_starts_on_a_confirmed_lease)
{
    struct fake_state *engine = stage_fake_lease(30000);
    struct actor run;
    atomic_store(&engine->hand_over_ms, check_ms(12000));
    struct stage_pulse *job = start(&run, NULL, "");
    CHECK_INT(stage_fake_lock(engine, "x")->expires_ns - job->began_ns, >, check_ms(15000) * MS);
    kill(run.pid, SIGTERM);
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 128 + SIGTERM);
}

TEST(a_lease_that_cannot_be_confirmed_starts_no_job)
{
    struct fake_state *engine = stage_fake_lease(1000);
    atomic_store(&engine->mute_renewals, 1);
    const struct capture *said = capture("run", "x", "--", "echo", "ran");
    CHECK_INT(said->status, ==, 69);
    check_one_line(said->err, "could not be confirmed");
    CHECK_STR(said->out, "");
}

TEST(a_slow_engine_is_good_enough)
{
    struct fake_state *engine = stage_fake_lease(5000);
    atomic_store(&engine->delay_ms, 150);
    const struct capture *said = capture("run", "x", "--", "sleep", "7");
    CHECK_INT(said->status, ==, 0);
    CHECK_STR(said->err, "");
}

TEST(a_signal_during_a_slow_wait_leaves_nothing_behind)
{
    struct fake_state *engine = stage_fake_lease(30000);
    struct actor run;
    atomic_store(&engine->mute_attempts, 1);
    stage_snib(&run, "run", "x", "--", "true");
    while (atomic_load(&engine->attempts) == 0) {
        check_sleep_ms(1);
    }
    kill(run.pid, SIGINT);
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 128 + SIGINT);
    atomic_store(&engine->mute_attempts, 0);
    CHECK_INT(capture("run", "-n", "x", "--", "true")->status, ==, 0);
}

TEST(a_minimum_hold_is_kept_on_a_lease_too)
{
    (void)stage_fake_lease(2000);
    int64_t began = check_now_ns();
    char least[32];
    snprintf(least, sizeof least, "%dms", check_ms(5000));
    const struct capture *said = capture("run", "--min-hold", least, "x", "--", "false");
    CHECK_INT(said->status, ==, 1);
    CHECK_STR(said->err, "");
    CHECK_INT(check_now_ns() - began, >=, check_ms(5000) * MS);
}

TEST(a_maximum_hold_ends_before_a_lease_that_goes_on)
{
    struct fake_state *engine = stage_fake_lease(6000);
    struct actor run;
    char most[32];
    snprintf(most, sizeof most, "%dms", check_ms(2000));
    struct stage_pulse *job = start(&run, (const char *const[]){"--max-hold", most, NULL}, "deaf");
    check_one_line(stage_rest(run.err, PATIENCE_MS), "maximum hold");
    CHECK_INT(stage_end(&run, PATIENCE_MS), ==, 79);
    CHECK_INT(atomic_load(&job->last_ns) - job->began_ns, <,
              check_ms(2000) * MS + atomic_load(&job->gap_ns));
    CHECK_INT(atomic_load(&engine->releases), ==, 1);
}
