/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLOCK_H
#define SNIB_CLOCK_H

#include "engines/engine.h"

/* Where time comes from. Tests replace it before anything is opened; NULL is the kernel. */
struct snib__clock {
    struct snib__instant (*now)(void);
    int64_t (*wall_us)(void);
};
void snib__clock_replace(const struct snib__clock *clock);

#define SNIB__MS 1000000LL /* nanoseconds */

/* A bounded sum: never overflows, NEVER stays NEVER. */
int64_t snib__later(int64_t at_ns, int64_t span_ns);

#endif
