/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ZOOKEEPER_TRIAL_H
#define SNIB_ZOOKEEPER_TRIAL_H

/*
 * May a lock be taken below the base path? Tried, and undone.
 */

#include "engines/zookeeper/contender.h"

struct snib__zk_trial {
    char below[SNIB__ZK_BASE_MOST + 1]; /* the nearest node that is there; "" for the root */
    int32_t error;                      /* of the first part that was refused, */
    int part;                           /* which is this one */
};

void snib__zk_trial_begin(struct snib__zk_trial *, const struct snib__zk *);

/* False: no memory. */
bool snib__zk_trial_ask(struct snib__zk *, struct snib__zk_trial *, void *subject);

/* False: that node is not there, ask again. */
bool snib__zk_trial_answered(struct snib__zk_trial *, struct snib__zk_answer *);

/* What is refused, as in "may not ...", or NULL. */
const char *snib__zk_trial_refused(const struct snib__zk_trial *);

#endif
