/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_CLUSTER_H
#define SNIB_ETCD_CLUSTER_H

/*
 * The members of one cluster: calls go to one of them, and to the next when it falls silent.
 */

#include "engines/engine.h"
#include "engines/etcd/connection.h"

struct etcd_cluster_upcalls {
    void (*unreachable)(void *owner); /* every member has been tried in vain, for the first time */
};

struct etcd_cluster {
    const struct etcd_cluster_upcalls *upcalls;
    void *owner;
    struct etcd_connection members[SNIB__HOSTS_MAX];
    size_t count;
    size_t at;                 /* the member that calls go to */
    struct snib__list waiting; /* calls without a connection, oldest first */
    int64_t timeout_ms, connect_ms;
    int64_t stall_ms;   /* a call that is not answered for so long goes to the next member */
    int64_t dial_ns;    /* not to be dialled before */
    int64_t pause_ms;   /* grows with each failure */
    size_t failures;    /* members in a row that could not be reached */
    uint64_t greetings; /* connections that worked */
    bool greeted;       /* the one in use is counted in it */
    const char *user, *password; /* NULL: none */
    char *token;
    struct etcd_call *authenticating;
    int sys;       /* of the last failure; each member knows why it was */
    bool troubled; /* one of them does */
    bool lost;     /* a connection, since time was last kept: others have something to do */
};

void etcd_cluster_init(struct etcd_cluster *, const struct etcd_cluster_upcalls *, void *owner);

/* Takes the call; its `end` comes later, never from in here. */
void etcd_cluster_submit(struct etcd_cluster *, struct etcd_call *);

/* Whoever asked does not want to know any more; `end` does not come. */
void etcd_cluster_drop(struct etcd_cluster *, struct etcd_call *);

/* Send what is to be sent. Not from inside a call's `message`. */
void etcd_cluster_flush(struct etcd_cluster *);

int64_t etcd_cluster_keep_time(struct etcd_cluster *, int64_t now_ns); /* when to come back */
size_t etcd_cluster_poll(const struct etcd_cluster *, struct pollfd *out, size_t most);
void etcd_cluster_step(struct etcd_cluster *);
void etcd_cluster_close(struct etcd_cluster *);

/* Who did not answer, and why: "a:2379, b:2379: no answer in time; c:2379: ...". "": nobody. */
void etcd_cluster_explain(const struct etcd_cluster *, char *out, size_t size);

/* The connection that is in use; NULL: there is none at the moment. */
struct etcd_connection *etcd_cluster_joined(struct etcd_cluster *);

#endif
