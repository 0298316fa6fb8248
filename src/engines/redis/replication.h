/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_REPLICATION_H
#define SNIB_REDIS_REPLICATION_H

#include "engines/redis/examine.h"

/* What an examination of a master asks beside the rest: which command comes at this place. False:
 * there are no more. */
bool snib__replication_ask(struct snib__command *, const struct snib__redis *, size_t place);
void snib__replication_reply(struct snib__examination *, size_t place, const struct snib__reply *);

/* Tell what was found about sentinels, replicas, failovers and the epoch. */
void snib__replication_tell(const struct snib__redis *, const struct snib__examination *);

#endif
