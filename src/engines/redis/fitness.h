/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_FITNESS_H
#define SNIB_REDIS_FITNESS_H

/*
 * What a server says about itself, and whether it may keep locks.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed: nothing is known. */
struct snib__fitness {
    char run_id[48];
    char product[16]; /* "redis", "valkey", "keydb" */
    char version[24]; /* its own; Valkey also claims to be a Redis */
    int64_t uptime_s; /* by its wall clock; -1: unknown */
    bool narrow;      /* 32 bits */
    bool replica;
    bool cluster;
    bool limited; /* maxmemory is set */
    char policy[32];
    bool aof;
    char fsync[16]; /* appendfsync; "": unknown */
    char save[100]; /* when it makes a snapshot; "": never, or unknown */
    bool saves_known;
    int64_t replicas;
};

/* What a section of INFO has. */
void snib__fitness_info(struct snib__fitness *, const char *info);

/* "appendfsync", "everysec", as CONFIG GET answers. */
void snib__fitness_setting(struct snib__fitness *, const char *name, const char *value);

bool snib__fitness_evicts(const struct snib__fitness *);
bool snib__fitness_durable(const struct snib__fitness *); /* what it answered, it keeps */

/* 0 if the version is not known, else major × 100 + minor: 602 for 6.2.14. */
int snib__fitness_version(const struct snib__fitness *);

/* May it keep locks? If not, `why` says why. */
bool snib__fitness_judge(const struct snib__fitness *, bool may_evict, char *why, size_t size);

#endif
