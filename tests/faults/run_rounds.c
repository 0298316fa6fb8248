/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's hard schedules, many times over; fewer where everything is slow. tests/cli has
 * a few of each.
 */
#include "check.h"
#include "rounds.h"

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
