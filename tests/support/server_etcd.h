/*
 * etcd as a child of the test: see server.h.
 */
#ifndef SNIB_TESTS_SERVER_ETCD_H
#define SNIB_TESTS_SERVER_ETCD_H

#include "server.h"

/* One member, at 127.0.0.1:port. `extra`: more arguments, ended by NULL; may be NULL.
 * $SNIB_TEST_ETCD names another program than etcd in PATH. */
void server_etcd(struct server *server, const char *const extra[]);

/* Several members of one cluster, which has a leader. Their ports are theirs: none is tried again
 * on others. In two steps: their ports are known, they run. `peers`: where the others reach each of
 * them; NULL: at ports[1]. */
void server_etcd_cluster_init(struct server members[], int count);
void server_etcd_cluster_start(struct server members[], int count, const int peers[],
                               const char *const extra[]);
void server_etcd_cluster(struct server members[], int count, const char *const extra[]);

#endif
