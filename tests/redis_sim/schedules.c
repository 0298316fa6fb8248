/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules by the ten thousand, in four cases so that they run side by side.
 *
 *     redis_sim --seed S             one schedule again, exactly as it was
 *     redis_sim --seed S --show all  and all that happens in it
 *     redis_sim --seed S --layout plain
 *
 * SNIB_REDIS_SIM_SCHEDULES=N: so many in all, instead of 50,000 (1,000 under a sanitizer).
 * SNIB_REDIS_SIM_SEED=N: from that seed on.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { PARTS = 4, ALL = 1000 };
#else
enum { PARTS = 4, ALL = 50000 };
#endif

static bool seed_given(void)
{
    return check_option("seed") != NULL;
}

bool no_seed(void)
{
    return !seed_given();
}

static uint64_t number_from(const char *variable, uint64_t normal)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : normal;
}

static void run_part(uint64_t part, enum snib__layout_row row)
{
    uint64_t n = (number_from("SNIB_REDIS_SIM_SCHEDULES", ALL) + PARTS - 1) / PARTS;
    uint64_t first = number_from("SNIB_REDIS_SIM_SEED", 1) + part * 100000000;
    uint64_t steps = 0, turns = 0;
    int64_t worst_ns = 0;
    for (uint64_t i = 0; i < n; i++) {
        world_run(first + i, row);
        steps += world.steps;
        turns += world.strangers[0].turns;
        worst_ns = world.worst_idle_ns > worst_ns ? world.worst_idle_ns : worst_ns;
    }
    printf("seeds %llu to %llu, %llu steps, free and wanted for %lld ms at most\n",
           (unsigned long long)first, (unsigned long long)(first + n - 1),
           (unsigned long long)steps, (long long)(worst_ns / MS));
    if (row != SNIB__LAYOUT_NATIVE && n > 100) {
        printf("another program had the first name %llu times\n", (unsigned long long)turns);
        CHECK_UINT(turns, >, n / 4);
    }
}

#define PART(number)                                                                               \
    TEST_CASE(schedules_of_the_whole_redis_protocol_keep_the_promises_##number, 36000, no_seed)    \
    {                                                                                              \
        run_part(number, SNIB__LAYOUT_NATIVE);                                                     \
    }

PART(0)
PART(1)
PART(2)
PART(3)

TEST_CASE(the_same_seed_gives_the_same_run, 60, no_seed)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        world_run(seed, SNIB__LAYOUT_NATIVE);
        uint64_t hash = world.hash, steps = world.steps;
        world_run(seed, SNIB__LAYOUT_NATIVE);
        CHECK_UINT(world.hash, ==, hash);
        CHECK_UINT(world.steps, ==, steps);
    }
    world_run(1, SNIB__LAYOUT_NATIVE);
    uint64_t one = world.hash;
    world_run(2, SNIB__LAYOUT_NATIVE);
    CHECK_UINT(world.hash, !=, one);
}

/* What they showed: debts that nobody asked for again; attempts that were always one answer behind,
 * on a connection that could not be asked what it is and was never replaced; a lease that nobody
 * renews, found free by a re-check and not by a message; a grant held up on its way, believed
 * because the clock was set back meanwhile; a client that went on asking a former master. */
TEST_CASE(schedules_that_once_failed_keep_the_promises, 60, no_seed)
{
    static const uint64_t seeds[] = {300000048, 5040875,   209016991, 300020690, 101146250,
                                     2024426,   101899308, 3189953,   103178189, 182004721};
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        world_run(seeds[i], SNIB__LAYOUT_NATIVE);
    }
}

/* A quarter of them each: their keys are simpler, and nobody stands in line. */
TEST_CASE(schedules_of_the_layout_plain_keep_the_promises, 36000, no_seed)
{
    run_part(4, SNIB__LAYOUT_PLAIN);
}

TEST_CASE(schedules_of_the_layout_redisson_keep_the_promises, 36000, no_seed)
{
    run_part(5, SNIB__LAYOUT_REDISSON);
}

static enum snib__layout_row row_asked_for(void)
{
    const char *name = check_option("layout");
    int row = SNIB__LAYOUT_NATIVE;
    while (name && row < SNIB__LAYOUTS - 1 && strcmp(snib__layouts[row].name, name) != 0) {
        row++;
    }
    return (enum snib__layout_row)row;
}

TEST_CASE(the_schedule_of_this_seed_keeps_the_promises, 60, seed_given)
{
    world_run(strtoull(check_option("seed"), NULL, 10), row_asked_for());
    printf("%llu steps, hash %016llx\n", (unsigned long long)world.steps,
           (unsigned long long)world.hash);
}
