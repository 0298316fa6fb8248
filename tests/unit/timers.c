/* SPDX-License-Identifier: Apache-2.0 */
/* The heap of timers beside a plain list of what is set. */
#include "base/timers.h"

#include "check.h"

#include <stdlib.h>

enum { TIMERS = 300, STEPS = 200000, SPAN = 1000 };

static struct snib__timer timers[TIMERS];
static int64_t expected[TIMERS]; /* SNIB__NEVER: not set */

static int64_t earliest(void)
{
    int64_t due = SNIB__NEVER;
    for (int i = 0; i < TIMERS; i++) {
        due = expected[i] < due ? expected[i] : due;
    }
    return due;
}

TEST(timers_fire_in_order_whatever_was_set_moved_or_cleared)
{
    struct snib__timers heap = {0};
    uint32_t seed = 1;
    for (int i = 0; i < TIMERS; i++) {
        CHECK(snib__timers_join(&heap));
        expected[i] = SNIB__NEVER;
    }
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 1664525 + 1013904223;
        int which = (int)(seed >> 8) % TIMERS;
        int64_t due = (int64_t)(seed >> 4) % SPAN;
        switch (seed >> 30) {
        case 0:
        case 1:
            snib__timer_set(&heap, &timers[which], due);
            expected[which] = due;
            break;
        case 2:
            snib__timer_clear(&heap, &timers[which]);
            expected[which] = SNIB__NEVER;
            break;
        default: {
            int64_t first = earliest();
            struct snib__timer *fired = snib__timers_due(&heap, due);
            CHECK((fired != NULL) == (first <= due));
            if (fired) {
                CHECK_INT(expected[fired - timers], ==, first);
                expected[fired - timers] = SNIB__NEVER;
            }
            break;
        }
        }
        if (step % 64 == 0) {
            CHECK_INT(snib__timers_next(&heap), ==, earliest());
        }
    }
    for (int i = 0; i < TIMERS; i++) {
        snib__timers_leave(&heap, &timers[i]);
    }
    CHECK_INT(snib__timers_next(&heap), ==, SNIB__NEVER);
    free(heap.heap);
}
