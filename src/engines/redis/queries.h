/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_QUERIES_H
#define SNIB_REDIS_QUERIES_H

#include "engines/redis/session.h"

/* The engine's part of a query: inspect, list or evict. */
struct snib__search {
    struct snib__query *query;
    struct snib__redis *at; /* the server that is asked */
    struct snib__list in_session;
    /* Instead of the end: there are other servers to be asked. NULL: that is all. */
    void (*then)(struct snib__search *);
    char **names;
    size_t count, room;
    size_t asked, answered; /* of the names */
    char cursor[24];        /* of the SCAN that is under way; "" for none */
    unsigned scans;
    unsigned under_way;
    bool asked_for;               /* evict: its holder was asked to give it up, */
    int64_t check_ns;             /* and this is when to see whether it has; 0: not now */
    int64_t due_ns;               /* and until when */
    int64_t left_ms;              /* it has it for this long at the most */
    bool cut;                     /* some of what was asked was lost with a connection */
    bool repeated;                /* and asked for again, once */
    unsigned look;                /* of those that read one name: the next one to be answered, */
    int64_t numbers[SNIB__LOOKS]; /* and what those before it have answered */
    bool asking;                  /* in a cluster: see the bid's */
    int code, sys;
    char why[520];
};

void snib__queries_inspect(struct snib__query *);
void snib__queries_evict(struct snib__query *);
/* The same, of a server that whoever calls has chosen. */
void snib__queries_begin(struct snib__redis *, struct snib__query *, bool evict);
/* Another server has that lock now. One call less is under way; with the last, ask there. */
void snib__queries_move(struct snib__search *, struct snib__redis *to, bool asking);
void snib__queries_finish(struct snib__search *);

void snib__queries_reply(struct snib__redis *, struct snib__redis_call *,
                         const struct snib__reply *);
void snib__queries_lost(struct snib__redis *, struct snib__redis_call *, enum snib__loss);
int64_t snib__queries_keep_time(struct snib__redis *, int64_t now_ns); /* when to come back */
void snib__queries_close(struct snib__redis *);                        /* ends all of them */

#endif
