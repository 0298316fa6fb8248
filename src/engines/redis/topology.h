/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_TOPOLOGY_H
#define SNIB_REDIS_TOPOLOGY_H

/*
 * A master and its replicas, as it sees them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SNIB__REPLICAS_MOST 16

struct snib__replica {
    char where[80]; /* "host:port" */
    bool online;    /* follows; else it is being copied to */
    int64_t behind; /* bytes that it has not acknowledged */
    int64_t lag_s;  /* since it last said something */
};

/* Zeroed: nothing is known. */
struct snib__topology {
    bool known;
    char rid[48]; /* its replication id */
    int64_t offset;
    struct snib__replica each[SNIB__REPLICAS_MOST];
    size_t count;
    bool min_known, ttl_known;
    int64_t min_replicas;  /* min-replicas-to-write */
    int64_t backlog_ttl_s; /* repl-backlog-ttl */
    struct {
        bool known; /* it was asked for */
        char rid[48];
        bool ok;
        int64_t at_ms, servers, max_lease_ms;
    } epoch;
};

void snib__topology_info(struct snib__topology *, const char *info); /* "INFO replication" */
void snib__topology_setting(struct snib__topology *, const char *name, const char *value);

/* How far behind is the one that is behind most, and how many follow? */
int64_t snib__topology_behind(const struct snib__topology *);
size_t snib__topology_online(const struct snib__topology *);

#endif
