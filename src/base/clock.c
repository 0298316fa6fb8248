/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that reads a clock.
 *
 * No single clock of Linux is right for a lease. CLOCK_MONOTONIC stands still while the machine
 * sleeps and is slewed; CLOCK_BOOTTIME counts sleep but is slewed too, by up to 8 % under chrony;
 * CLOCK_MONOTONIC_RAW is not slewed but stands still during sleep. So an instant carries BOOTTIME
 * and RAW, and the larger difference counts: we would rather believe that a lease is over.
 */
#include "base/clock.h"

#include <time.h>

static const struct snib__clock *replaced;

void snib__clock_replace(const struct snib__clock *clock)
{
    replaced = clock;
}

static int64_t read_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct snib__instant snib__now(void)
{
    if (replaced) {
        return replaced->now();
    }
    return (struct snib__instant){read_ns(CLOCK_BOOTTIME), read_ns(CLOCK_MONOTONIC_RAW)};
}

int64_t snib__wall_us(void)
{
    return replaced ? replaced->wall_us() : read_ns(CLOCK_REALTIME) / 1000;
}

int64_t snib__elapsed_ns(struct snib__instant from, struct snib__instant to)
{
    int64_t boot = to.boot_ns - from.boot_ns;
    int64_t raw = to.raw_ns - from.raw_ns;
    return boot > raw ? boot : raw;
}

int64_t snib__later(int64_t at_ns, int64_t span_ns)
{
    return at_ns > SNIB__NEVER - span_ns ? SNIB__NEVER : at_ns + span_ns;
}
