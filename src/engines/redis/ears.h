/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_EARS_H
#define SNIB_REDIS_EARS_H

/*
 * Ears: the sharded channels that an inbox listens to, one for each slot that somebody waits in.
 */

#include "base/list.h"
#include "base/table.h"

#include <stdbool.h>
#include <stdint.h>

#define SNIB__EAR_NAME 180

struct snib__ears {
    struct snib__table by_slot;
    struct snib__list all;
};

struct snib__ear_of_slot {
    struct snib__entry entry;
    struct snib__list in_all;
    unsigned slot;
    char channel[SNIB__EAR_NAME];
    bool hears;       /* the server has confirmed it */
    int64_t asked_ns; /* when it was asked to; 0: not on this connection */
    int64_t used_ns;  /* when somebody last wanted it */
};

void snib__ears_init(struct snib__ears *);
void snib__ears_close(struct snib__ears *);
void snib__ears_deafen(struct snib__ears *); /* the connection is gone */

struct snib__ear_of_slot *snib__ears_find(const struct snib__ears *, unsigned slot);
struct snib__ear_of_slot *snib__ears_add(struct snib__ears *, unsigned slot); /* NULL: no memory */
void snib__ears_remove(struct snib__ears *, struct snib__ear_of_slot *);
/* Whose channel that is; NULL: nobody's. */
struct snib__ear_of_slot *snib__ears_named(const struct snib__ears *, const char *channel);

/* ROOT:{abc}:shard:HEX, in that slot; `hex` are 32 digits. */
void snib__ear_name(struct snib__ear_of_slot *, const char *root, const char *hex);

#endif
