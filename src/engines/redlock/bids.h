/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDLOCK_BIDS_H
#define SNIB_REDLOCK_BIDS_H

#include "engines/redlock/session.h"

/* The owner id as it goes over the wire. */
void snib__redlock_id(const struct snib__redlock_bid *, unsigned char out[SNIB__ID_SIZE]);

/* Those that time is kept for. Twice is once; false: no memory. */
bool snib__redlock_enlist(struct snib__redlock *, struct snib__redlock_bid *);
void snib__redlock_delist(struct snib__redlock *, struct snib__redlock_bid *);

/* Its times may have changed. */
void snib__redlock_rearm(struct snib__redlock *, struct snib__redlock_bid *);

/* Be driven at this time. */
void snib__redlock_wake_by(struct snib__redlock *, int64_t at_ns);

/* Ask one server for the lock, or to keep it, or for the same token as the others; `before`: the
 * call that this repeats, or NULL. False: no memory. */
bool snib__redlock_ask_attempt(struct snib__server *, struct snib__redlock_bid *,
                               const struct snib__redis_call *before);
bool snib__redlock_ask_renew(struct snib__server *, struct snib__redlock_bid *,
                             const struct snib__redis_call *before);
bool snib__redlock_ask_agree(struct snib__server *, struct snib__redlock_bid *,
                             const struct snib__redis_call *before);

/* The largest of all their clocks when what is asked now arrives, in microseconds. A
 * server takes no token from us that is far ahead of its own clock. */
uint64_t snib__redlock_least_token(const struct snib__redlock *);

/* When those who were asked now are not waited for any more. */
int64_t snib__redlock_due_ns(const struct snib__redlock *);
int64_t snib__redlock_long_due_ns(const struct snib__redlock *); /* if there is none without them */

/* Give back whatever there may be of it, everywhere: its id is spent. */
void snib__redlock_give_back(struct snib__redlock *, struct snib__redlock_bid *);

#endif
