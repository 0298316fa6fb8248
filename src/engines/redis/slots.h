/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_SLOTS_H
#define SNIB_REDIS_SLOTS_H

/*
 * Which server of a cluster has which key: slots, the map of them, and what a server says that is
 * asked for a slot it has not.
 */

#include "engines/redis/reply.h"

#define SNIB__SLOTS 16384
#define SNIB__PLACES 256 /* servers that a map may name, replicas included */

/* The slot of a key: of its hash tag, if it has one. */
unsigned snib__slot_of(const char *key);

/* Three letters that are in that slot. */
void snib__slot_tag(char out[4], unsigned slot);

struct snib__place {
    char host[256];
    int port;
    bool master; /* has slots, by the map */
};

bool snib__place_is(const struct snib__place *, const char *host, int port);

struct snib__slot_map {
    struct snib__place places[SNIB__PLACES];
    size_t count;
    uint16_t owner[SNIB__SLOTS]; /* the number of its place, from 1; 0: nobody has it */
};

/* What CLUSTER SLOTS answers to one who asked `from`, into an empty map. False: it is no such
 * answer. A map without any slot is one. */
bool snib__slots_read(struct snib__slot_map *, const struct snib__reply *,
                      const struct snib__place *from);

/* Note that a slot is there. False: the map names too many servers. */
bool snib__slots_set(struct snib__slot_map *, unsigned slot, const struct snib__place *);

unsigned snib__slots_covered(const struct snib__slot_map *); /* how many have an owner */

/* "MOVED 3999 10.0.0.2:6381", "ASK 3999 10.0.0.2:6381", said by `from`. False: it is neither. */
struct snib__redirect {
    bool asking; /* only what is asked next, and by ASKING */
    unsigned slot;
    struct snib__place to;
};

bool snib__redirect_read(struct snib__redirect *, const char *text, const struct snib__place *from);

#endif
