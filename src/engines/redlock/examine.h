/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDLOCK_EXAMINE_H
#define SNIB_REDLOCK_EXAMINE_H

#include "engines/redlock/session.h"

/* What was found out about one server. */
struct snib__checked {
    bool done, lost;
    char why[240];         /* it was lost */
    char refused[300];     /* a lock of our own was, by this; "": it worked */
    int64_t round_trip_ns; /* 0: not measured */
    int64_t ahead_ms;      /* its clock, of our BOOTTIME */
    unsigned under_way;
};

/* The engine's part of an examination. */
struct snib__checkup {
    struct snib__query *query;
    struct snib__list in_session;
    char name[40]; /* of a lock that nobody else has */
    unsigned char id[SNIB__ID_SIZE];
    struct snib__checked servers[SNIB__SERVERS_MOST];
};

void snib__checkup(struct snib__query *);
void snib__checkup_reply(struct snib__server *, struct snib__redis_call *,
                         const struct snib__reply *);
void snib__checkup_lost(struct snib__server *, struct snib__redis_call *, enum snib__loss);
void snib__checkup_close(struct snib__redlock *); /* ends all of them */

#endif
