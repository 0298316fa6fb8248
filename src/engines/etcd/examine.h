/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_EXAMINE_H
#define SNIB_ETCD_EXAMINE_H

#include "engines/etcd/session.h"

/* In query->state. */
struct etcd_examination {
    struct snib__query *query;
    int under_way;
    bool reached;
};

void etcd_examine(struct snib__query *);

#endif
