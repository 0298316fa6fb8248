/*
 * A Redis Cluster as children of the test: masters 0, 1, 2 with a third of the slots each, and
 * replicas 3, 4, 5 of them in this order.
 *
 *     static struct redis_cluster cluster;
 *     redis_cluster_start(&cluster);          all slots are served, all replicas follow
 *     redis_cluster_url(&cluster, url, sizeof url, "ttl=3s");
 *
 * Everything here fails the case instead of returning an error.
 */
#ifndef SNIB_TESTS_REDIS_CLUSTER_H
#define SNIB_TESTS_REDIS_CLUSTER_H

#include "server.h"

enum { CLUSTER_MASTERS = 3, CLUSTER_MEMBERS = 6, CLUSTER_SLOTS = 16384 };

struct redis_cluster {
    struct server members[CLUSTER_MEMBERS];
    char ids[CLUSTER_MEMBERS][48];
    void (*prepare)(struct server *, int member); /* before its start; NULL: nothing to do */
};

void redis_cluster_start(struct redis_cluster *cluster);

/* All members in the URL, and these parameters. */
void redis_cluster_url(const struct redis_cluster *cluster, char *url, size_t size,
                       const char *parameters);

/* A command to one member, split at blanks; its answer as text (numbers too), cut to `size`, of an
 * error with '-' in front. False: it could not be asked. */
bool redis_cluster_ask(const struct redis_cluster *cluster, int member, const char *command,
                       char *answer, size_t size);

/* Which member serves this slot, as `member` sees it; -1: none. */
int redis_cluster_owner(const struct redis_cluster *cluster, int member, int slot);

/* Begin to move a slot, take its keys along, end it; or all three. */
void redis_cluster_open_slot(const struct redis_cluster *cluster, int slot, int from, int to);
void redis_cluster_move_keys(const struct redis_cluster *cluster, int slot, int from, int to);
void redis_cluster_close_slot(const struct redis_cluster *cluster, int slot, int to);
void redis_cluster_move_slot(const struct redis_cluster *cluster, int slot, int from, int to);

#endif
