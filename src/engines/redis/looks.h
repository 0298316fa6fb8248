/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_LOOKS_H
#define SNIB_REDIS_LOOKS_H

#include "engines/redis/cluster.h"
#include "engines/redis/examine.h"

/* An examination of a cluster: of all its masters, and then of the one that has a lock's slot. */
struct snib__look {
    struct snib__examination examination; /* first: one is the other */
    struct snib__query *query;
    struct snib__list in_cluster;
    unsigned under_way;
    unsigned masters, replicas;
    unsigned bare;    /* masters without a replica */
    unsigned failed;  /* masters that say that the cluster is down */
    char silent[200]; /* masters that did not answer; "": all did */
};

void snib__looks_examine(struct snib__query *);
void snib__looks_reply(struct snib__cluster *, struct snib__redis *, struct snib__redis_call *,
                       const struct snib__reply *);
void snib__looks_lost(struct snib__cluster *, struct snib__redis *, struct snib__redis_call *,
                      enum snib__loss);
void snib__looks_settle(struct snib__cluster *); /* the scout has come back */
void snib__looks_close(struct snib__cluster *);

#endif
