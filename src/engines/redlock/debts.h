/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDLOCK_DEBTS_H
#define SNIB_REDLOCK_DEBTS_H

#include "engines/redlock/session.h"

struct snib__redlock_debt;

/* What a server answered to the release of a bid; `loss`: nothing, and it is asked for again. */
typedef void snib__redlock_freed(struct snib__redlock_bid *, unsigned server, bool loss,
                                 enum snib__answer_word, bool repeated);

/* Release what this server has of `id`, or may get; NULL: no memory, it is left to its lease. */
struct snib__redlock_debt *snib__redlock_owe(struct snib__server *, const char *name,
                                             const unsigned char id[SNIB__ID_SIZE],
                                             int64_t loose_ms, int64_t ttl_ms);

/* A bid wants to hear of it; and no more, with NULL. */
void snib__redlock_debt_tell(struct snib__redlock_debt *, struct snib__redlock_bid *,
                             snib__redlock_freed *);

/* What became of calls whose subject is a debt. */
void snib__redlock_debt_reply(struct snib__server *, struct snib__redis_call *,
                              const struct snib__reply *);
void snib__redlock_debt_lost(struct snib__redis_call *, enum snib__loss);

int64_t snib__redlock_debts_keep_time(struct snib__redlock *, int64_t now_ns);
void snib__redlock_debts_close(struct snib__redlock *);

#endif
