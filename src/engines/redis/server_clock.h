/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_SERVER_CLOCK_H
#define SNIB_REDIS_SERVER_CLOCK_H

#include "base/clock.h"

#include <stdbool.h>

/* The server's wall clock against our BOOTTIME, as an interval. Zeroed: nothing is known. */
struct snib__server_clock {
    bool known;
    int64_t low_ms, high_ms;
    int64_t jump_ms; /* the last jump that was seen and not yet told */
};

/* The server's time was `server_ms` at some moment between these two. */
void snib__server_clock_learn(struct snib__server_clock *, struct snib__instant sent,
                              int64_t heard_ns, int64_t server_ms);

/* What it shows at `sent` and so long after, at the latest; 0: not known. */
int64_t snib__server_clock_latest_ms(const struct snib__server_clock *, struct snib__instant sent,
                                     int64_t after_ms);

/* What it shows now: at least, and about. */
int64_t snib__server_clock_least_ms(const struct snib__server_clock *);
int64_t snib__server_clock_about_ms(const struct snib__server_clock *);

#endif
