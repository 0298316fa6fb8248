/*
 * The overlap checker finds what it must find, and nothing in an honest history.
 */
#include "overlap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum { US = 1000 };

static const struct overlap_grant exclusive = {.name = 1, .mode = OVERLAP_EXCLUSIVE};
static const struct overlap_grant shared = {.name = 1, .mode = OVERLAP_SHARED};
static const struct overlap_grant counted = {.name = 1, .mode = OVERLAP_COUNTED, .permits = 2};

static struct overlap_report judge(struct overlap_log *log)
{
    struct overlap_report report;
    bool clean = overlap_check(log, &report);
    CHECK(clean == (report.overlaps == 0 && report.token_slips == 0));
    CHECK(clean == (report.text[0] == '\0'));
    return report;
}

static void believe(struct overlap_log *log, const struct overlap_grant *grant, pid_t owner,
                    int from_us, int to_us)
{
    overlap_add(log, grant, owner, (int64_t)from_us * US, (int64_t)to_us * US);
}

TEST(an_honest_history_is_clean)
{
    struct overlap_log *log = overlap_open(100);
    struct overlap_grant other_name = {.name = 2};
    believe(log, &exclusive, 10, 100, 200);
    believe(log, &other_name, 11, 150, 250);
    believe(log, &exclusive, 11, 200, 300); /* from the very instant */
    believe(log, &shared, 12, 300, 400);
    believe(log, &shared, 13, 350, 450);
    believe(log, &exclusive, 10, 450, 500);
    believe(log, &counted, 14, 500, 600);
    believe(log, &counted, 15, 510, 590);
    believe(log, &counted, 16, 590, 700);
    struct overlap_report report = judge(log);
    CHECK_INT(report.beliefs, ==, 9);
    CHECK_INT(report.overlaps, ==, 0);
    CHECK_INT(report.open, ==, 0);
    overlap_assert(log);
}

TEST(two_exclusive_beliefs_at_once_are_found)
{
    struct overlap_log *log = overlap_open(100);
    believe(log, &exclusive, 10, 190, 300); /* the order of writing does not matter */
    believe(log, &exclusive, 11, 100, 200);
    struct overlap_report report = judge(log);
    CHECK_INT(report.overlaps, ==, 1);
    CHECK_INT(report.worst_us, ==, 10);
    CHECK(strstr(report.text, "process 11 (exclusive") != NULL);
    CHECK(strstr(report.text, "for 10 us") != NULL);
}

TEST(an_overlap_behind_a_short_belief_is_found)
{
    struct overlap_log *log = overlap_open(100);
    believe(log, &exclusive, 10, 100, 900);
    believe(log, &exclusive, 11, 200, 300);
    believe(log, &exclusive, 12, 400, 500);
    CHECK_INT(judge(log).overlaps, ==, 2);
    CHECK_INT(judge(log).worst_us, ==, 100);
}

TEST(shared_against_exclusive_is_found)
{
    struct overlap_log *log = overlap_open(100);
    believe(log, &shared, 10, 100, 300);
    believe(log, &shared, 11, 120, 140);
    believe(log, &exclusive, 12, 200, 250);
    CHECK_INT(judge(log).overlaps, ==, 1);
    CHECK_INT(judge(log).worst_us, ==, 50);
    believe(log, &shared, 13, 240, 260);
    CHECK_INT(judge(log).overlaps, ==, 2);
}

TEST(one_permit_too_many_is_found)
{
    struct overlap_log *log = overlap_open(100);
    believe(log, &counted, 10, 100, 200);
    believe(log, &counted, 11, 110, 300);
    believe(log, &counted, 12, 190, 300);
    struct overlap_report report = judge(log);
    CHECK_INT(report.overlaps, ==, 1);
    CHECK_INT(report.worst_us, ==, 10);
}

TEST(a_token_that_does_not_grow_is_found)
{
    struct overlap_log *log = overlap_open(100);
    struct overlap_grant grant = exclusive;
    const uint64_t tokens[] = {7, 8, 8, UINT64_MAX, 9};
    for (int i = 0; i < 5; i++) {
        grant.token = tokens[i];
        believe(log, &grant, 10 + i, 100 + 10 * i, 105 + 10 * i);
    }
    struct overlap_report report = judge(log);
    CHECK_INT(report.overlaps, ==, 0);
    CHECK_INT(report.token_slips, ==, 2);
    CHECK(strstr(report.text, "process 12 was granted token 8 after process 11 had 8") != NULL);
}

TEST(an_open_belief_lasts_until_death_or_deadline)
{
    struct overlap_log *log = overlap_open(100);
    size_t first = overlap_add(log, &exclusive, 10, 100 * US, 0);
    believe(log, &exclusive, 11, 300, 400);
    CHECK_INT(judge(log).overlaps, ==, 1);
    CHECK_INT(judge(log).open, ==, 1);

    overlap_deadline(log, first, 290 * US);
    CHECK_INT(judge(log).overlaps, ==, 0);
    overlap_deadline(log, first, 310 * US);
    CHECK_INT(judge(log).worst_us, ==, 10);
    overlap_died(log, 10, 250 * US);
    CHECK_INT(judge(log).overlaps, ==, 0);
    CHECK_INT(judge(log).open, ==, 0);
}

TEST(a_grant_noted_in_the_moment_of_death_is_no_belief)
{
    struct overlap_log *log = overlap_open(100);
    overlap_died(log, 10, 100 * US);
    overlap_add(log, &exclusive, 10, 101 * US, 0);
    believe(log, &exclusive, 11, 102, 200);
    CHECK_INT(judge(log).overlaps, ==, 0);
}

/* ---- With real processes ---------------------------------------------------------------- */

struct world {
    struct overlap_log *log;
    struct racy_counter counter;
    struct check_flag enough;
    _Atomic uint64_t token;
    char path[256];
};

static struct world *world;

static struct world *make_world(void)
{
    world = check_shared(sizeof *world);
    world->log = overlap_open(200000);
    snprintf(world->path, sizeof world->path, "%s/lock", check_tmpdir());
    return world;
}

/* flock(2) is an honest lock that dies with its holder. */
static void work_under_a_lock(void *arg)
{
    (void)arg;
    int descriptor = open(world->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(descriptor >= 0);
    while (!check_flag_is_set(&world->enough)) {
        CHECK_INT(flock(descriptor, LOCK_EX), ==, 0);
        struct overlap_grant grant = {.name = 1, .token = atomic_fetch_add(&world->token, 1) + 1};
        size_t belief = overlap_begin(world->log, &grant);
        racy_increment(&world->counter, 100);
        overlap_end(world->log, belief);
        flock(descriptor, LOCK_UN);
    }
    close(descriptor);
}

static bool counter_grew(void *arg)
{
    return atomic_load(&world->counter.done) >= *(uint64_t *)arg;
}

TEST(an_honest_lock_with_killed_holders_is_clean)
{
    pid_t pids[4];
    make_world();
    for (int i = 0; i < 4; i++) {
        pids[i] = check_spawn(work_under_a_lock, NULL);
    }
    for (uint64_t round = 1; round <= 20; round++) {
        uint64_t target = round * 20;
        CHECK(check_until(counter_grew, &target, 20000));
        overlap_kill(world->log, pids[round % 4]);
        pids[round % 4] = check_spawn(work_under_a_lock, NULL);
    }
    check_flag_set(&world->enough);
    for (int i = 0; i < 4; i++) {
        check_join(pids[i], 10000);
    }
    overlap_assert(world->log);
    struct overlap_report report = judge(world->log);
    CHECK_INT(report.beliefs, >=, 400);
    CHECK_INT(report.open, ==, 0);
    CHECK_INT(racy_lost(&world->counter, atomic_load(&world->counter.word)), ==, 0);
}

static struct check_barrier *together;

static void work_without_a_lock(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        check_barrier_wait(together, 2, 10000);
        size_t belief = overlap_begin(world->log, &exclusive);
        check_barrier_wait(together, 2, 10000);
        racy_increment(&world->counter, 1000);
        racy_increment_file(&world->counter, world->path, 0);
        check_barrier_wait(together, 2, 10000);
        overlap_end(world->log, belief);
    }
}

TEST(no_lock_at_all_is_found)
{
    make_world();
    together = check_shared(sizeof *together);
    pid_t other = check_spawn(work_without_a_lock, NULL);
    work_without_a_lock(NULL);
    check_join(other, 10000);
    CHECK_INT(judge(world->log).overlaps, >=, 20);
}

TEST(a_lost_update_is_counted)
{
    struct racy_counter counter = {.word = 0};
    char path[256];
    snprintf(path, sizeof path, "%s/counter", check_tmpdir());
    CHECK_UINT(racy_read_file(path), ==, 0);
    for (uint64_t i = 1; i <= 5; i++) {
        CHECK_UINT(racy_increment_file(&counter, path, 0), ==, i);
    }
    CHECK_UINT(racy_read_file(path), ==, 5);
    CHECK_INT(racy_lost(&counter, 5), ==, 0);
    CHECK_INT(racy_lost(&counter, 3), ==, 2);
    CHECK_INT(racy_lost(&counter, 6), ==, -1);
    atomic_fetch_add(&counter.begun, 1); /* one was killed, perhaps after its write */
    CHECK_INT(racy_lost(&counter, 6), ==, 0);
    CHECK_INT(racy_lost(&counter, 5), ==, 0);
    CHECK_UINT(racy_increment(&counter, 0), ==, 1);
}
