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
#include "server.h"
#include "stage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MS 1000000LL
#define PATIENCE_MS 30000
#define EARLY_NS (20 * MS) /* a pulse is not exact, and milliseconds are cut off */
#define HELD_UP_NS (100 * MS)

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
        (void)kill(p->supervisor, SIGCONT); /* unless the guardian had to end it, too */
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

#define DEAF_TTL_MS 6000

struct deaf {
    struct actor snib;
    char path[256];
    struct stage_diary *diary;
    struct stage_pulse *job;
};

/* Answers how long before the deadline it was dead. Where the machine did nothing in the job's last
 * moments, nobody could stop it in them; but then others were not let in either. */
static int64_t judge(const struct fake_lock *lock, const struct stage_pulse *job)
{
    int64_t ttl_ns = check_ms(DEAF_TTL_MS) * MS;
    int64_t deadline = lock->expires_ns - ttl_ns / 10;
    int64_t grace = ttl_ns / 6 < 5000 * MS ? ttl_ns / 6 : 5000 * MS;
    int64_t term = atomic_load(&job->term_ns), last = atomic_load(&job->last_ns);
    CHECK_INT(term, >=, deadline - grace - EARLY_NS);
    CHECK_INT(last, >, term);
    CHECK_INT(last, <, atomic_load(&job->gap_ns)> HELD_UP_NS ? lock->expires_ns : deadline);
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
        int status = stage_end(&plays[i].snib, PATIENCE_MS);
        if (atomic_load(&plays[i].job->gap_ns) > HELD_UP_NS && status == 80) {
            status = 79; /* it could not be seen whether it was in time */
        }
        CHECK_INT(status, ==, 79);
        int64_t margin = judge(stage_fake_lock(engine, name_of(i)), plays[i].job);
        worst_ns = margin < worst_ns ? margin : worst_ns;
    }
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
    /* KILL does not come early. On a busy machine a job, and all those beside it, may not have run
     * for their last moments, but hardly all of them. */
    int64_t ttl_ns = check_ms(DEAF_TTL_MS) * MS;
    CHECK_INT(worst_ns, <=, (ttl_ns / 20 < 500 * MS ? ttl_ns / 20 : 500 * MS) + EARLY_NS);
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

/* ---- Wrapped ---------------------------------------------------------------------------- */

#define WRAPPED_EARLY_US 20000 /* from the start of snib until its inner job pulses, and more */
#define WRAPPED_LATE_US 5000
#define WRAPPED_TTL "3s"

enum wrapping { NESTED, UNDER_TIMEOUT, BOTH, WRAPPINGS };

struct wrapped {
    struct actor run, next[2]; /* of the locks a and b */
    char path[256], next_path[2][256];
    struct stage_diary *diary, *next_diary[2];
    enum wrapping wrapping;
    unsigned seed;
    int began, early; /* rounds in which the job had begun, and those with an early kill */
    int64_t *free_ns; /* from the kill to the next holder of a */
};

static unsigned chance(struct wrapped *w, unsigned most)
{
    return (unsigned)rand_r(&w->seed) % most;
}

static void spin(void *arg)
{
    (void)arg;
    for (volatile unsigned n = 0;; n++) {
    }
}

static void start_wrapped(struct wrapped *w)
{
    char script[1024];
    const char *program = stage_program();
    switch (w->wrapping) {
    case NESTED:
        stage_snib(&w->run, "run", "a", "--", STAGE_SNIB, "run", "b", "--", STAGE_PULSE, w->path,
                   "tree");
        return;
    case UNDER_TIMEOUT:
        snprintf(script, sizeof script, "timeout 60 %s --stage-pulse %s tree; true", program,
                 w->path);
        break;
    default:
        snprintf(script, sizeof script,
                 "timeout 60 %s run b -- timeout 60 %s --stage-pulse %s tree; true", STAGE_SNIB,
                 program, w->path);
        break;
    }
    stage_snib(&w->run, "run", "a", "--", "sh", "-c", script);
}

/* The inner snib, wherever it is below the outer supervisor; 0: not there. */
static pid_t inner_snib(const struct wrapped *w, pid_t outer)
{
    pid_t at = outer;
    if (w->wrapping == BOTH) {
        at = stage_child(at, "sh");
        at = at ? stage_child(at, "timeout") : 0;
    }
    return at ? stage_child(at, "snib") : 0;
}

/* Who is to die; what the user started if nobody else is there. */
static pid_t victim(struct wrapped *w)
{
    pid_t all[4] = {w->run.pid, stage_child(w->run.pid, "job-supervisor"), 0, 0};
    if (all[1] && w->wrapping != UNDER_TIMEOUT) {
        all[2] = inner_snib(w, all[1]);
        all[3] = all[2] ? stage_child(all[2], "job-supervisor") : 0;
    }
    pid_t chosen = all[chance(w, w->wrapping == UNDER_TIMEOUT ? 2 : 4)];
    return chosen ? chosen : w->run.pid;
}

static bool alive_together(const struct stage_pulse *p, const struct stage_pulse *q)
{
    return p->began_ns <= atomic_load(&q->last_ns) && q->began_ns <= atomic_load(&p->last_ns);
}

static void compare(const struct wrapped *w, int lock)
{
    const struct stage_pulse *next = &w->next_diary[lock]->pulses[0];
    for (int i = 0; i < atomic_load(&w->diary->count); i++) {
        const struct stage_pulse *p = &w->diary->pulses[i];
        if (atomic_load(&p->pid) && alive_together(p, next)) {
            FAIL("a job of lock '%s' lived with the next one for %.3f ms", lock ? "b" : "a",
                 (double)(atomic_load(&p->last_ns) - next->began_ns) / 1e6);
        }
        CHECK(!check_alive(p->pid));
    }
}

static void start_next(struct wrapped *w)
{
    stage_snib(&w->next[0], "run", "a", "--", STAGE_PULSE, w->next_path[0], "brief");
    stage_snib(&w->next[1], "run", "b", "--", STAGE_PULSE, w->next_path[1], "brief");
}

static void wrapped_once(struct wrapped *w, int round)
{
    bool early = chance(w, 3) == 0;
    w->wrapping = (enum wrapping)chance(w, WRAPPINGS);
    memset(w->diary, 0, sizeof *w->diary);
    memset(w->next_diary[0], 0, sizeof *w->diary);
    memset(w->next_diary[1], 0, sizeof *w->diary);
    start_wrapped(w);
    if (early) {
        usleep(chance(w, (unsigned)check_ms(WRAPPED_EARLY_US)));
    } else {
        (void)stage_await_pulse(&w->run, w->diary, 1, PATIENCE_MS);
        start_next(w);
        usleep(chance(w, WRAPPED_LATE_US));
    }
    int64_t killed_ns = check_now_ns();
    kill(victim(w), SIGKILL);
    if (early) {
        start_next(w);
    }
    CHECK_INT(stage_end(&w->next[0], PATIENCE_MS), ==, 0);
    CHECK_INT(stage_end(&w->next[1], PATIENCE_MS), ==, 0);
    (void)stage_end(&w->run, PATIENCE_MS);
    compare(w, 0);
    if (w->wrapping != UNDER_TIMEOUT) {
        compare(w, 1);
    }
    w->began += atomic_load(&w->diary->count) > 0;
    w->early += early;
    w->free_ns[round] = w->next_diary[0]->pulses[0].began_ns - killed_ns;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

void rounds_wrapped(int rounds, enum rounds_engine engine)
{
    static struct wrapped w;
    pid_t spinners[2];
    w.seed = (unsigned)check_now_ns();
    w.free_ns = calloc((size_t)rounds, sizeof *w.free_ns);
    CHECK(w.free_ns != NULL);
    printf("# seed %u\n", w.seed);
    if (engine == ROUNDS_FILE) {
        stage_file();
    } else {
        (void)stage_fake("ttl=" WRAPPED_TTL);
    }
    w.diary = stage_diary(w.path, "wrapped");
    w.next_diary[0] = stage_diary(w.next_path[0], "next-a");
    w.next_diary[1] = stage_diary(w.next_path[1], "next-b");
    for (int i = 0; i < 2; i++) {
        spinners[i] = check_spawn(spin, NULL);
    }
    for (int i = 0; i < rounds; i++) {
        wrapped_once(&w, i);
    }
    for (int i = 0; i < 2; i++) {
        check_kill(spinners[i]);
    }
    qsort(w.free_ns, (size_t)rounds, sizeof *w.free_ns, by_size);
    int64_t median_ns = w.free_ns[rounds / 2];
    printf("# %d rounds, %d killed early, %d jobs had begun; from the kill to the next job: "
           "median %.1f ms, worst %.1f ms\n",
           rounds, w.early, w.began, (double)median_ns / 1e6, (double)w.free_ns[rounds - 1] / 1e6);
    free(w.free_ns);
}

/* ---- Given back ------------------------------------------------------------------------- */

#define GIVEN_BACK_MS 1000

struct given_back {
    struct actor run, next;
    char path[256], next_path[256];
    struct stage_diary *diary, *next_diary;
};

/* Answers how long after the kill the next job began. */
static int64_t given_back_once(struct given_back *g, bool supervisor)
{
    memset(g->diary, 0, sizeof *g->diary);
    memset(g->next_diary, 0, sizeof *g->next_diary);
    stage_snib(&g->run, "run", "--ttl", "30s", "x", "--", STAGE_PULSE, g->path, "tree");
    (void)stage_await_pulse(&g->run, g->diary, 1, PATIENCE_MS);
    stage_snib(&g->next, "run", "-v", "x", "--", STAGE_PULSE, g->next_path, "brief");
    while (!strstr(stage_line(g->next.err, PATIENCE_MS), "waiting behind")) {
    }
    pid_t victim = supervisor ? stage_supervisor(&g->run, PATIENCE_MS) : g->run.pid;
    int64_t killed_ns = check_now_ns();
    kill(victim, SIGKILL);
    struct stage_pulse *next = stage_await_pulse(&g->next, g->next_diary, 0, PATIENCE_MS);
    CHECK_INT(stage_end(&g->next, PATIENCE_MS), ==, 0);
    CHECK_INT(stage_end(&g->run, PATIENCE_MS), ==, supervisor ? 70 : 128 + SIGKILL);
    int64_t died_ns = 0;
    for (int i = 0; i < 2; i++) {
        int64_t last_ns = atomic_load(&g->diary->pulses[i].last_ns);
        CHECK_INT(last_ns, <, next->began_ns);
        died_ns = last_ns > died_ns ? last_ns : died_ns;
    }
    CHECK_INT(next->began_ns - died_ns, <, check_ms(GIVEN_BACK_MS) * MS);
    return next->began_ns - killed_ns;
}

void rounds_given_back(int rounds)
{
    static const char *const who[] = {"snib", "its supervisor"};
    static struct server redis;
    static struct given_back g;
    char url[200];
    int64_t *took_ns = calloc((size_t)rounds, sizeof *took_ns);
    CHECK(took_ns != NULL);
    server_redis(&redis, (const char *const[]){"--requirepass", "open-sesame", NULL});
    stage_file();
    snprintf(url, sizeof url, "redis://:open-sesame@127.0.0.1:%d?quarantine=no", redis.port);
    setenv("SNIB_URL", url, 1);
    g.diary = stage_diary(g.path, "diary");
    g.next_diary = stage_diary(g.next_path, "next");
    for (int supervisor = 0; supervisor < 2; supervisor++) {
        for (int i = 0; i < rounds; i++) {
            took_ns[i] = given_back_once(&g, supervisor != 0);
        }
        qsort(took_ns, (size_t)rounds, sizeof *took_ns, by_size);
        int64_t median_ns = took_ns[rounds / 2];
        printf("# %d rounds: from the kill of %s to the next job: median %.1f ms, worst %.1f ms\n",
               rounds, who[supervisor], (double)median_ns / 1e6, (double)took_ns[rounds - 1] / 1e6);
    }
    free(took_ns);
}
