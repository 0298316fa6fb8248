/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_DEBTS_H
#define SNIB_REDIS_DEBTS_H

#include "engines/redis/session.h"

/* Something that must be released at the server, whoever it was for. */
struct snib__debt {
    struct snib__list in_session;
    char *name;
    unsigned char id[SNIB__ID_SIZE];
    int64_t loose_ms;
    int64_t until_ns; /* then it is over by itself: no lease is longer */
    int64_t retry_ns; /* when to ask again; SNIB__NEVER while it is under way */
    int64_t pause_ms;
    bool by_text;
    bool asking; /* in a cluster: see the bid's */
    bool unsure; /* it may have been done already, without an answer */
    /* A claim whose release this is, until it was answered: at this time at the latest. */
    struct snib__bid *bid;
    int64_t answer_by_ns;
};

/* The answer to a debt's claim; NULL: there is none in time. */
typedef void snib__debt_settled(struct snib__redis *, struct snib__bid *,
                                const struct snib__layout_answer *);

/* Release what there is of `id` under this name. Asked at once, or after a pause if the server has
 * refused it just now. NULL: no memory. */
struct snib__debt *snib__debts_add(struct snib__redis *, const char *name,
                                   const unsigned char id[SNIB__ID_SIZE], int64_t loose_ms,
                                   bool refused);

/* Another server has that lock now: ask there, soon. */
void snib__debts_move(struct snib__debt *, struct snib__redis *to, bool asking);

/* What became of calls whose subject is a debt. */
void snib__debts_reply(struct snib__redis *, struct snib__redis_call *, const struct snib__reply *,
                       snib__debt_settled *);
void snib__debts_lost(struct snib__redis *, struct snib__redis_call *, enum snib__loss);

/* Ask what is to be asked again; when to come back. */
int64_t snib__debts_keep_time(struct snib__redis *, int64_t now_ns, snib__debt_settled *);

void snib__debts_close(struct snib__redis *);

#endif
