/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ZOOKEEPER_EXAMINE_H
#define SNIB_ZOOKEEPER_EXAMINE_H

#include "engines/zookeeper/queries.h"

void snib__zk_examine(struct snib__query *);

/* For drive. False: nothing to poll. */
bool snib__zk_examine_poll(struct snib__zk *, struct pollfd *);
void snib__zk_examine_step(struct snib__zk *);
void snib__zk_examine_tick(struct snib__zk *, int64_t now_ns);
int64_t snib__zk_examine_next(const struct snib__zk *);
void snib__zk_examine_end(struct snib__zk *);

#endif
