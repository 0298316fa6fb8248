/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ZOOKEEPER_QUERIES_H
#define SNIB_ZOOKEEPER_QUERIES_H

#include "engines/zookeeper/trial.h"

/* A child of a lock's node, looked at. */
struct snib__zk_sight {
    struct snib__zk_contender_name what;
    uint64_t token;
    int64_t since_ms;
    struct snib__zk_owner owner;
    bool there;   /* it was, when it was read */
    bool holds;   /* it is one of those that hold */
    bool awaited; /* evict: that it goes */
    char *data;
    char node[SNIB__ZK_SIBLING_MOST + 1];
};

enum snib__zk_look_stage {
    SNIB__ZK_LOOK_NAMES, /* which locks are there? */
    SNIB__ZK_LOOK_NODES, /* who is at the next one? */
    SNIB__ZK_LOOK_MARK,  /* evict: ask the holder, or take it away */
    SNIB__ZK_LOOK_STAYS, /* evict: is it still there? */
    SNIB__ZK_LOOK_PROBE, /* examine */
    SNIB__ZK_LOOK_PROBED
};

/* A query under way. */
struct snib__zk_look {
    struct snib__query *query;
    struct snib__list link;
    enum snib__zk_look_stage stage;
    int64_t due_ns;
    unsigned under_way;
    bool asked; /* the service may have heard of it */
    bool evicts;
    bool examines;
    bool hidden; /* something of the present lock may not be read */
    size_t left_out;
    char **names; /* locks to look at */
    size_t name_count, name_room, name_at;
    struct snib__zk_sight *sights;
    size_t sight_count;
    struct snib__zk_record record;
    struct snib__zk_probe *probe; /* examine.c */
    int64_t round_ns;             /* examine: how long a proof took */
    int32_t error;                /* examine: of a look at the base path */
    struct snib__zk_trial trial;
};

void snib__zk_inspect(struct snib__query *);
void snib__zk_evict(struct snib__query *);
void snib__zk_look_submit(struct snib__query *, enum snib__zk_look_stage);

void snib__zk_look_step(struct snib__zk *, struct snib__zk_look *);
void snib__zk_look_finish(struct snib__zk *, struct snib__zk_look *, int code, const char *why);
void snib__zk_look_answered(struct snib__zk *, const struct snib__zk_call *,
                            struct snib__zk_answer *);
void snib__zk_look_lost(struct snib__zk *, const struct snib__zk_call *);

void snib__zk_queries_ready(struct snib__zk *);
void snib__zk_queries_event(struct snib__zk *, const struct snib__zk_event *);
void snib__zk_queries_unreachable(struct snib__zk *, int code);
void snib__zk_queries_tick(struct snib__zk *, int64_t now_ns);
int64_t snib__zk_queries_next(const struct snib__zk *);

#endif
