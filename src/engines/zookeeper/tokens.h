/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ZOOKEEPER_TOKENS_H
#define SNIB_ZOOKEEPER_TOKENS_H

#include "engines/zookeeper/contender.h"

/* What a reader that is first learns of its token: from the lock's node, and by writing there. */
void snib__contender_record(struct snib__contender *, struct snib__zk_answer *);
void snib__contender_draw(struct snib__contender *, const struct snib__zk_answer *);

#endif
