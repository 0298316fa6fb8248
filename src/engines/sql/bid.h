/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_BID_H
#define SNIB_SQL_BID_H

#include "engines/sql/session.h"

struct sql_bid *sql_bid_new(struct snib__claim *); /* NULL: no memory */
void sql_bid_phase(struct sql_bid *, enum sql_phase);
bool sql_bid_join(struct sql_bid *, struct sql_strand *); /* false: no memory */
void sql_bid_leave(struct sql_bid *);                     /* its strand */

/* Nothing of it is at the server, or on its way. Freed, if its claim is gone and nothing is asked.
 */
void sql_bid_rest(struct sql_bid *);

/* Something is to be answered within the time of a request. */
void sql_bid_owe(struct sql_bid *);

/* To an attempt, if one is owed or the last answer was QUEUED. */
void sql_bid_answer(struct sql_bid *, const struct snib__result *);
void sql_bid_say(struct sql_bid *, enum snib__status, const char *why);
void sql_bid_fail(struct sql_bid *, int code, int sys, const char *why);
void sql_bid_busy(struct sql_bid *);
void sql_bid_queued(struct sql_bid *);

/* The last word about the claim; nothing, if it is not owed. */
void sql_bid_released(struct sql_bid *, enum snib__status, const char *why);

void sql_bids_watch(struct sql *, int64_t now_ns); /* sets `attend` and `wake_ns` */
void sql_bids_close(struct sql *);

#endif
