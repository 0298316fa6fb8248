/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that runs out. The program's malloc, calloc and realloc are these, and refuse when the
 * dice say so and it is the core that asks. Under a sanitizer, which has its own, memory never
 * runs out.
 */
#include "sim.h"

#include <stdlib.h>

/* The simulation itself asks. Volatile: the compiler knows what realloc does, or thinks so. */
static volatile int own;

void *sim_memory(void *old, size_t size)
{
    own++;
    void *p = realloc(old, size);
    own--;
    CHECK(p != NULL);
    return p;
}

void sim_spare_memory(bool spare)
{
    own += spare ? 1 : -1;
}

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                             \
    !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)

/* glibc's own, by the names it exports for this. */
extern void *__libc_malloc(size_t size);               /* NOLINT(bugprone-reserved-identifier) */
extern void *__libc_calloc(size_t count, size_t size); /* NOLINT(bugprone-reserved-identifier) */
extern void *__libc_realloc(void *old, size_t size);   /* NOLINT(bugprone-reserved-identifier) */

bool sim_sanitized(void)
{
    return false;
}

static bool refused(void)
{
    if (own > 0 || world.config.no_memory == 0 || world.calm ||
        !sim_chance(world.config.no_memory)) {
        return false;
    }
    sim_note(NOTE_NO_MEMORY, world.current->index, 0, 0);
    sim_reach(PATH_OUT_OF_MEMORY);
    return true;
}

void *malloc(size_t size)
{
    return refused() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return refused() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return refused() ? NULL : __libc_realloc(old, size);
}

#else

bool sim_sanitized(void)
{
    return true;
}

#endif
