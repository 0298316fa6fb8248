/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_EXAMINE_H
#define SNIB_REDIS_EXAMINE_H

#include "engines/redis/session.h"

/* The engine's part of an examination. */
struct snib__examination {
    struct snib__query *query;
    struct snib__list in_session;
};

void snib__examine(struct snib__query *);
void snib__examine_reply(struct snib__redis *, struct snib__call *, const struct snib__reply *);
void snib__examine_lost(struct snib__redis *, struct snib__call *, enum snib__loss);
int64_t snib__examine_keep_time(struct snib__redis *, int64_t now_ns);
void snib__examine_close(struct snib__redis *); /* ends all of them */

#endif
