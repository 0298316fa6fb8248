/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDLOCK_CLOCKS_H
#define SNIB_REDLOCK_CLOCKS_H

#include "base/clock.h"

#include <stdbool.h>

/* A server's wall clock against our own: has it jumped? Zeroed: nothing is known. */
struct snib__clock_guard {
    bool known;
    int64_t low_ms, high_ms; /* server's time less ours, at the last answer */
    int64_t heard_ns;
};

/* The server's time was `server_ms` at some moment between these two. By how much it jumped, if it
 * did by more than clocks may differ in rate; `most_ms` is the most that is put down to that. */
int64_t snib__clock_guard_learn(struct snib__clock_guard *, struct snib__instant sent,
                                int64_t heard_ns, int64_t server_ms, int64_t most_ms);

#endif
