/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_CLOCK_H
#define SNIB_CLI_CLOCK_H

#include <stdint.h>
#include <sys/timerfd.h>
#include <time.h>

/* Instants are nanoseconds on CLOCK_BOOTTIME, which counts a suspended machine's sleep too. */
#define CLOCK_NEVER INT64_MAX
#define CLOCK_MS 1000000LL

static inline int64_t clock_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* `at_ns` may be NEVER. A timer set to the past fires at once. */
static inline void clock_arm(int timer_fd, int64_t at_ns)
{
    struct itimerspec at = {0};
    if (at_ns != CLOCK_NEVER) {
        int64_t ns = at_ns > 1 ? at_ns : 1; /* 0 would disarm it */
        at.it_value.tv_sec = ns / 1000000000;
        at.it_value.tv_nsec = ns % 1000000000;
    }
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

#endif
