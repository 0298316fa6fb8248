/*
 * The network between the members of an etcd cluster, in which one of them can be cut off.
 *
 * Members tell each other one address each, so a proxy before a member hears all the others. This
 * one looks who it is that calls (etcd says so in a header), and stalls what comes from, or goes
 * to, the member that is cut off. Clients do not come through here: they reach everybody.
 */
#ifndef SNIB_TESTS_ETCD_LINKS_H
#define SNIB_TESTS_ETCD_LINKS_H

#include "server_etcd.h"

enum { ETCD_MEMBERS = 3 };

struct etcd_links {
    int ports[ETCD_MEMBERS];
    int targets[ETCD_MEMBERS];
    int listeners[ETCD_MEMBERS];
    _Atomic uint64_t ids[ETCD_MEMBERS];
    _Atomic int cut; /* 1 + the member; 0: none */
    pid_t pid;
};

/* A cluster whose members reach each other this way only. */
struct etcd_links *etcd_links_start(struct server members[ETCD_MEMBERS]);
void etcd_links_cut(struct etcd_links *links, int member);
void etcd_links_mend(struct etcd_links *links);
void etcd_links_end(struct etcd_links *links);

#endif
