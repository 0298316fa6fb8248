/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ZOOKEEPER_ASKS_H
#define SNIB_ZOOKEEPER_ASKS_H

#include "engines/zookeeper/contender.h"

/* A request was appended; or not, and then the connection ends. */
void snib__contender_asked(struct snib__contender *, bool done);

/* About one node below the lock's; "": the lock's own. */
void snib__contender_ask(struct snib__contender *, enum snib__zk_kind, enum snib__zk_op,
                         const char *node, bool watch);

void snib__contender_ask_create(struct snib__contender *); /* and who is before it */
void snib__contender_ask_find(struct snib__contender *);   /* is our name there? */
void snib__contender_ask_list(struct snib__contender *);   /* who is before us? */
void snib__contender_ask_watch(struct snib__contender *);  /* tell us when it goes */
void snib__contender_ask_self(struct snib__contender *);   /* what becomes of a node that is held */
void snib__contender_ask_delete(struct snib__contender *);

#endif
