/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_TICK_H
#define SNIB_FILE_TICK_H

#include <stdint.h>
#include <time.h>

/* A coarse clock, nearly free: it moves every few milliseconds. */
static inline int64_t file_tick(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000LL + now.tv_nsec;
}

#define PATH_CHECK_NS 100000000LL /* paths are followed again when the last time is so long ago */

#endif
