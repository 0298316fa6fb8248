/*
 * ZooKeeper servers for tests: one alone, or an ensemble.
 *
 *     struct server zookeeper;
 *     server_zookeeper(&zookeeper, NULL);           127.0.0.1:zookeeper.port
 *
 *     struct server members[ZOOKEEPER_MEMBERS];
 *     server_zookeeper_ensemble_init(members);
 *     server_zookeeper_ensemble_start(members, NULL, NULL);
 *
 * Small heaps, no fsync, a tick of 200 ms: sessions from 400 ms on. `extra`: more lines of the
 * configuration, or NULL.
 */
#ifndef SNIB_TESTS_SERVER_ZOOKEEPER_H
#define SNIB_TESTS_SERVER_ZOOKEEPER_H

#include "server.h"

enum { ZOOKEEPER_TICK_MS = 200 };

void server_zookeeper(struct server *server, const char *extra);

/* The same after server_init, for those who want to know the ports before. */
void server_zookeeper_at(struct server *server, const char *extra);

enum { ZOOKEEPER_MEMBERS = 3 };

/* Each member reaches the one that leads through routes[from][to], a port that leads to that
 * member's `ports[1]`, and it elects through `ports[2]`. Zero: directly. */
struct zookeeper_routes {
    int ports[ZOOKEEPER_MEMBERS][ZOOKEEPER_MEMBERS];
};

/* Names, ports, folders; then, with or without routes, all are started. */
void server_zookeeper_ensemble_init(struct server members[ZOOKEEPER_MEMBERS]);
void server_zookeeper_ensemble_start(struct server members[ZOOKEEPER_MEMBERS],
                                     const struct zookeeper_routes *routes, const char *extra);

/* "leader", "follower", "standalone", or "" if it does not say. */
const char *server_zookeeper_mode(const struct server *server, char out[32]);

/* Which of them leads, once one of them does and is followed by the others that run. */
int server_zookeeper_leader(struct server members[ZOOKEEPER_MEMBERS]);

#endif
