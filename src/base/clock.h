/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_BASE_CLOCK_H
#define SNIB_BASE_CLOCK_H

#include <stdint.h>

#pragma GCC visibility push(default)

#define SNIB__NEVER INT64_MAX
#define SNIB__MS 1000000LL /* nanoseconds */

/* A point in time on two clocks: CLOCK_BOOTTIME, which counts suspend, and CLOCK_MONOTONIC_RAW,
 * which is not slewed. What has elapsed between two instants is the larger of both differences. */
struct snib__instant {
    int64_t boot_ns;
    int64_t raw_ns;
};

struct snib__instant snib__now(void);
int64_t snib__elapsed_ns(struct snib__instant from, struct snib__instant to);
int64_t snib__wall_us(void); /* the wall clock: for tokens and for display, never for deadlines */

/* A bounded sum: never overflows, NEVER stays NEVER. */
int64_t snib__later(int64_t at_ns, int64_t span_ns);

#pragma GCC visibility pop

/* Where time comes from. Tests replace it before anything is opened; NULL is the kernel. */
struct snib__clock {
    struct snib__instant (*now)(void);
    int64_t (*wall_us)(void);
};
void snib__clock_replace(const struct snib__clock *clock);

#endif
