/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_QUERIES_H
#define SNIB_ETCD_QUERIES_H

#include "engines/etcd/session.h"

/* In query->state: an inspection, a listing or a break. */
struct etcd_query {
    struct snib__query *query;
    struct snib__list place;
    int64_t due_ns;         /* a break: until when it is waited for */
    int64_t check_ns;       /* the next look; 0: a call is under way */
    char key[ETCD_KEY_MAX]; /* a break: whose */
    bool marked;            /* it was asked to give up */
    /* An inspection: what was found, and the leases of holders that are being asked for. */
    struct etcd_sight *sights;
    size_t sight_count;
    Pb__RangeResponse *range;
    size_t under_way;
};

void etcd_queries_inspect(struct snib__query *);
void etcd_queries_evict(struct snib__query *);
int64_t etcd_queries_keep_time(struct etcd *, int64_t now_ns);
void etcd_queries_close(struct etcd *);

#endif
