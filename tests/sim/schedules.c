/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules by the hundred thousand, in eight cases so that they run side by side.
 *
 *     sim --seed S             one schedule again, exactly as it was
 *     sim --seed S --show all  and all that happens in it
 *
 * SNIB_SIM_SCHEDULES=N: so many in all, instead of 100,000 (2,000 under a sanitizer). A full set
 * must also have reached every path in the list of sim.h: a simulation that never gets anywhere
 * proves nothing. SNIB_SIM_PATHS=1 shows how often each was reached.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

enum { PARTS = 8, ALL = 100000, FEWER = 2000, ENOUGH_FOR_ALL_PATHS = 5000 };

static bool seed_given(void)
{
    return check_option("seed") != NULL;
}

bool sim_no_seed(void)
{
    return !seed_given();
}

static uint64_t schedules(void)
{
    const char *asked = getenv("SNIB_SIM_SCHEDULES");
    uint64_t n = asked ? strtoull(asked, NULL, 10) : sim_sanitized() ? FEWER : ALL;
    return (n + PARTS - 1) / PARTS;
}

static void check_paths(uint64_t runs)
{
    static const char *const names[] = {
#define SIM_TEXT(name) #name,
        SIM_PATHS(SIM_TEXT)
#undef SIM_TEXT
    };
    for (int i = 0; i < PATHS; i++) {
        if (getenv("SNIB_SIM_PATHS")) {
            printf("%12llu %s\n", (unsigned long long)sim_paths[i], names[i]);
        }
        bool possible = i != PATH_OUT_OF_MEMORY || !sim_sanitized();
        if (runs >= ENOUGH_FOR_ALL_PATHS && sim_paths[i] == 0 && possible) {
            FAIL("%llu schedules, and none reached %s", (unsigned long long)runs, names[i]);
        }
    }
}

static void run_part(uint64_t part)
{
    uint64_t n = schedules();
    for (uint64_t i = 0; i < n; i++) {
        sim_run(1 + part * 1000000 + i);
    }
    check_paths(n);
}

#define PART(number)                                                                               \
    TEST_CASE(a_hundred_thousand_schedules_keep_the_promises_##number, 120, sim_no_seed)           \
    {                                                                                              \
        run_part(number);                                                                          \
    }

PART(1)
PART(2)
PART(3)
PART(4)
PART(5)
PART(6)
PART(7)
PART(8)

TEST_CASE(the_same_seed_gives_the_same_run, 60, sim_no_seed)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        sim_run(seed);
        uint64_t first = world.hash;
        uint64_t steps = world.steps;
        sim_run(seed);
        CHECK_UINT(world.hash, ==, first);
        CHECK_UINT(world.steps, ==, steps);
    }
    sim_run(1);
    uint64_t one = world.hash;
    sim_run(2);
    CHECK_UINT(world.hash, !=, one);
}

TEST_CASE(the_schedule_of_this_seed_keeps_the_promises, 60, seed_given)
{
    sim_run(strtoull(check_option("seed"), NULL, 10));
    printf("%llu steps, hash %016llx\n", (unsigned long long)world.steps,
           (unsigned long long)world.hash);
}
