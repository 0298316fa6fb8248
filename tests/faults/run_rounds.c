/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's hard schedules, many times over. tests/cli has a few of each.
 */
#include "check.h"
#include "rounds.h"

TEST_LIMIT(stopped_snib_a_hundred_times, 300)
{
    rounds_stopped(100);
}

TEST_LIMIT(a_job_that_ignores_term_two_hundred_times, 600)
{
    rounds_deaf(200);
}

TEST_LIMIT(killed_snib_a_thousand_times, 600)
{
    rounds_killed(1000);
}
