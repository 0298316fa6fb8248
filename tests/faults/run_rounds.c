/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's hard schedules, many times over; fewer where everything is slow. tests/cli has
 * a few of each. --rounds N plays those that have no number in their name N times.
 */
#include "check.h"
#include "rounds.h"

#include <stdlib.h>

static int rounds(int normal)
{
    const char *given = check_option("rounds");
    return given ? atoi(given) : normal / check_ms(1);
}

TEST_LIMIT(snib_stopped_past_its_deadline_100_rounds, 300)
{
    rounds_stopped(100 / check_ms(1));
}

TEST_LIMIT(a_job_that_ignores_term_200_rounds, 300)
{
    rounds_deaf(200 / check_ms(1));
}

TEST_LIMIT(snib_killed_at_any_instant_1000_rounds, 300)
{
    rounds_killed(1000 / check_ms(1));
}

TEST_LIMIT(wrapped_jobs_of_a_kernel_lock_killed_at_any_instant, 1200)
{
    rounds_wrapped(rounds(200), ROUNDS_FILE);
}

TEST_LIMIT(wrapped_jobs_of_a_lease_killed_at_any_instant, 1200)
{
    rounds_wrapped(rounds(100), ROUNDS_FAKE);
}

TEST_LIMIT(from_the_kill_to_the_next_holder_on_redis, 1200)
{
    rounds_given_back(rounds(20));
}
