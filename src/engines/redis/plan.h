/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_PLAN_H
#define SNIB_REDIS_PLAN_H

/*
 * A plan: what a layout's scripts do, where no scripts are allowed. It looks at what was read,
 * decides, and says what is to be written; steps.c sees to it that nobody else has written
 * meanwhile. It keeps no state and sends nothing, as a layout does.
 */

#include "engines/redis/layout.h"

enum snib__plan_verb { SNIB__PLAN_ATTEMPT, SNIB__PLAN_RENEW, SNIB__PLAN_RELEASE, SNIB__PLAN_EVICT };

#define SNIB__PLAN_FENCE 1024

/* What was read at one moment. */
struct snib__sight {
    bool held; /* there is a key, and it is a string */
    char *value;
    size_t value_size;
    int64_t left_ms; /* as PTTL answers it */
    bool fenced;
    char *fence;
    size_t fence_size;
    int64_t now_us; /* the server's clock */
};

/* What follows from it. */
struct snib__decision {
    char answer[400]; /* as the script would; an error begins with '-' */
    size_t answer_size;
    /* What is to be written before that is true. */
    bool takes, extends, deletes; /* the lock: one of them at most */
    bool touches;                 /* the fence: so that whoever has looked at it looks again */
    bool keeps;                   /* the fence: written anew, */
    bool must_keep;               /* and nothing at all if that is refused */
    bool tells_freed, tells_broken;
    uint64_t token;
    int64_t ttl_ms, fence_ms;
    char fence[SNIB__PLAN_FENCE];
    size_t fence_size;
};

struct snib__plan {
    /* The keys: to WATCH and to read; the lock, then its fence. */
    void (*keys)(char lock[SNIB__KEY_MAX], char fence[SNIB__KEY_MAX], const struct snib__wish *);
    void (*decide)(struct snib__decision *, enum snib__plan_verb, const struct snib__wish *,
                   const struct snib__sight *);
    /* The next command to be written, from 0; false: there are no more. `dispensable`: without it
     * the rest is still right. */
    bool (*write)(struct snib__command *, const struct snib__decision *, const struct snib__wish *,
                  unsigned index, bool *dispensable);
};

extern const struct snib__plan snib__plain_plan;

#endif
