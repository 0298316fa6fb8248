/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds of the supervisor's hard schedules.
 *
 * All instants are of one clock, CLOCK_BOOTTIME: those of the jobs from their own diary, those of
 * the lease from the engine's memory. What must be ordered is checked strictly; how long after
 * its instant something may come is bounded by the next instant only, since the machine may be
 * busy.
 */
#include "rounds.h"

#include "overlap.h"
#include "stage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MS 1000000LL
#define PATIENCE_MS 30000
#define EARLY_NS (20 * MS) /* a pulse is not exact, and milliseconds are cut off */

enum { SIDE_BY_SIDE = FAKE_LOCKS };

static const char *name_of(int i)
{
    static const char *const names[SIDE_BY_SIDE] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    return names[i];
}

static bool renewed(void *arg)
{
    const struct fake_lock *lock = arg;
    return lock->expires_ns > check_now_ns();
}

static struct stage_diary *new_diary(char path[static 256])
{
    static int number;
    char name[32];
    snprintf(name, sizeof name, "diary%d", number++);
    return stage_diary(path, name);
}

/* ---- Stopped ---------------------------------------------------------------------------- */

#define STOPPED_TTL_MS 3000

struct stopped {
    struct actor first, second;
    pid_t supervisor; /* of the first */
    char path[256];
    struct stage_diary *diary;
    struct stage_pulse *job;
};

static int64_t stopped_once(struct overlap_log *log, int n)
{
    static struct stopped plays[SIDE_BY_SIDE];
    int64_t worst_ns = INT64_MAX;
    for (int i = 0; i < n; i++) {
        struct stopped *p = &plays[i];
        p->diary = new_diary(p->path);
        stage_snib(&p->first, "run", name_of(i), "--", STAGE_PULSE, p->path, "tree");
    }
    for (int i = 0; i < n; i++) {
        struct stopped *p = &plays[i];
        (void)stage_await_pulse(&p->first, p->diary, 1, PATIENCE_MS);
        p->supervisor = stage_supervisor(&p->first, PATIENCE_MS);
        check_stop(p->supervisor);
        stage_snib(&p->second, "run", name_of(i), "--", STAGE_PULSE, p->path, "brief");
    }
    for (int i = 0; i < n; i++) {
        struct stopped *p = &plays[i];
        CHECK_INT(stage_end(&p->second, PATIENCE_MS), ==, 0);
        check_cont(p->supervisor);
        CHECK_INT(stage_end(&p->first, PATIENCE_MS), ==, 79);
        CHECK_INT(atomic_load(&p->diary->count), ==, 3);
        int64_t next_ns = p->diary->pulses[2].began_ns;
        for (int j = 0; j < 3; j++) {
            const struct stage_pulse *pulse = &p->diary->pulses[j];
            struct overlap_grant grant = {.name = (uint32_t)i, .token = pulse->token};
            if (j == 0) { /* the child of the first job: the same grant */
                CHECK_INT(atomic_load(&pulse->last_ns), <, next_ns);
            } else {
                (void)overlap_add(log, &grant, pulse->pid, pulse->began_ns,
                                  atomic_load(&pulse->last_ns));
            }
            int64_t margin = next_ns - atomic_load(&pulse->last_ns);
            worst_ns = j < 2 && margin < worst_ns ? margin : worst_ns;
        }
    }
    return worst_ns;
}

void rounds_stopped(int rounds)
{
    char parameters[64];
    struct overlap_log *log = overlap_open((size_t)rounds * 4 + 64);
    int64_t worst_ns = INT64_MAX;
    snprintf(parameters, sizeof parameters, "ttl=%dms&timeout=200ms", check_ms(STOPPED_TTL_MS));
    (void)stage_fake(parameters);
    for (int done = 0; done < rounds; done += SIDE_BY_SIDE) {
        int n = rounds - done < SIDE_BY_SIDE ? rounds - done : SIDE_BY_SIDE;
        int64_t margin = stopped_once(log, n);
        worst_ns = margin < worst_ns ? margin : worst_ns;
    }
    overlap_assert(log);
    printf("# %d rounds: the job was dead at least %.1f ms before the next one began (ttl %d ms)\n",
           rounds, (double)worst_ns / 1e6, check_ms(STOPPED_TTL_MS));
}

/* ---- Deaf ------------------------------------------------------------------------------- */

#define DEAF_TTL_MS 4000

struct deaf {
    struct actor snib;
    char path[256];
    struct stage_diary *diary;
    struct stage_pulse *job;
};

/* Answers how long before the deadline it was dead. */
static int64_t judge(const struct fake_lock *lock, const struct stage_pulse *job)
{
    int64_t ttl_ns = check_ms(DEAF_TTL_MS) * MS;
    int64_t deadline = lock->expires_ns - ttl_ns / 10;
    int64_t grace = ttl_ns / 6 < 5000 * MS ? ttl_ns / 6 : 5000 * MS;
    int64_t term = atomic_load(&job->term_ns), last = atomic_load(&job->last_ns);
    CHECK_INT(term, >=, deadline - grace - EARLY_NS);
    CHECK_INT(last, >, term);
    CHECK_INT(last, <, deadline);
    return deadline - last;
}

static int64_t deaf_once(struct fake_state *engine, int n)
{
    static struct deaf plays[SIDE_BY_SIDE];
    int64_t worst_ns = INT64_MAX;
    atomic_store(&engine->mute_renewals, 0);
    for (int i = 0; i < n; i++) {
        struct deaf *p = &plays[i];
        p->diary = new_diary(p->path);
        stage_snib(&p->snib, "run", name_of(i), "--", STAGE_PULSE, p->path, "deaf");
    }
    for (int i = 0; i < n; i++) {
        plays[i].job = stage_await_pulse(&plays[i].snib, plays[i].diary, 0, PATIENCE_MS);
        CHECK(check_until(renewed, stage_fake_lock(engine, name_of(i)), PATIENCE_MS));
    }
    atomic_store(&engine->mute_renewals, 1);
    for (int i = 0; i < n; i++) {
        CHECK_INT(stage_end(&plays[i].snib, PATIENCE_MS), ==, 79);
        int64_t margin = judge(stage_fake_lock(engine, name_of(i)), plays[i].job);
        worst_ns = margin < worst_ns ? margin : worst_ns;
    }
    /* KILL does not come early. On a busy machine a job may not have run for its last moments,
     * but hardly all of them. */
    int64_t ttl_ns = check_ms(DEAF_TTL_MS) * MS;
    CHECK_INT(worst_ns, <=, (ttl_ns / 20 < 500 * MS ? ttl_ns / 20 : 500 * MS) + EARLY_NS);
    return worst_ns;
}

void rounds_deaf(int rounds)
{
    char parameters[64];
    int64_t worst_ns = INT64_MAX;
    snprintf(parameters, sizeof parameters, "ttl=%dms&timeout=200ms", check_ms(DEAF_TTL_MS));
    struct fake_state *engine = stage_fake(parameters);
    for (int done = 0; done < rounds; done += SIDE_BY_SIDE) {
        int n = rounds - done < SIDE_BY_SIDE ? rounds - done : SIDE_BY_SIDE;
        int64_t margin = deaf_once(engine, n);
        worst_ns = margin < worst_ns ? margin : worst_ns;
    }
    printf("# %d rounds: the job was dead at least %.1f ms before the deadline, 10 %% of the ttl "
           "of %d ms before others may enter\n",
           rounds, (double)worst_ns / 1e6, check_ms(DEAF_TTL_MS));
}

/* ---- Killed ----------------------------------------------------------------------------- */

#define KILLED_SPREAD_US 12000 /* from the start of snib until its job's child pulses, and more */

/* What was killed while it introduced itself has no pid, which it writes last. */
static bool introduced(const struct stage_pulse *p)
{
    return atomic_load(&p->pid) != 0 && p->token != 0;
}

/* One belief per grant: from the first sign of life of a job or its child to the last. */
static void add_beliefs(struct overlap_log *log, struct stage_diary *diary)
{
    int count = atomic_load(&diary->count);
    CHECK_INT(count, <, STAGE_PULSES);
    for (int i = 0; i < count; i++) {
        const struct stage_pulse *p = &diary->pulses[i];
        bool first = true;
        int64_t last_ns = 0;
        for (int j = 0; j < count; j++) {
            const struct stage_pulse *q = &diary->pulses[j];
            bool same = introduced(q) && p->token == q->token;
            int64_t seen_ns = atomic_load(&q->last_ns);
            first &= !same || j >= i;
            last_ns = same && seen_ns > last_ns ? seen_ns : last_ns;
        }
        if (first && introduced(p)) {
            struct overlap_grant grant = {.name = 1, .token = p->token};
            (void)overlap_add(log, &grant, p->pid, p->began_ns, last_ns);
        }
    }
}

void rounds_killed(int rounds)
{
    char path[256];
    struct overlap_log *log = overlap_open((size_t)rounds * 2 + 64);
    struct actor snib, next;
    unsigned seed = (unsigned)check_now_ns();
    stage_file();
    struct stage_diary *diary = stage_diary(path, "diary");
    printf("# seed %u\n", seed);
    stage_snib(&snib, "run", "x", "--", STAGE_PULSE, path, "tree");
    for (int i = 0; i < rounds; i++) {
        stage_snib(&next, "run", "x", "--", STAGE_PULSE, path, "tree");
        usleep((useconds_t)((unsigned)rand_r(&seed) % (unsigned)check_ms(KILLED_SPREAD_US)));
        kill(snib.pid, SIGKILL);
        CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGKILL);
        snib = next;
    }
    kill(snib.pid, SIGKILL);
    CHECK_INT(stage_end(&snib, PATIENCE_MS), ==, 128 + SIGKILL);
    stage_snib(&next, "run", "x", "--", "true"); /* when this has the lock, all are dead */
    CHECK_INT(stage_end(&next, PATIENCE_MS), ==, 0);
    for (int i = 0; i < atomic_load(&diary->count); i++) {
        CHECK(!check_alive(diary->pulses[i].pid));
    }
    add_beliefs(log, diary);
    struct overlap_report report;
    (void)overlap_check(log, &report);
    overlap_assert(log);
    printf("# %d killed at any instant; %zu jobs had started\n", rounds, report.beliefs);
}
