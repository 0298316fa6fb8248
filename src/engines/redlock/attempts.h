/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDLOCK_ATTEMPTS_H
#define SNIB_REDLOCK_ATTEMPTS_H

#include "engines/redlock/bids.h"

/* Ask for it: the first time, all servers at once. */
void snib__redlock_try(struct snib__redlock *, struct snib__redlock_bid *);

/* What a server said to an attempt, or to the token; or nothing, in time. */
void snib__redlock_on_attempt(struct snib__server *, struct snib__redlock_bid *,
                              struct snib__redis_call *, const struct snib__layout_answer *);
void snib__redlock_on_agree(struct snib__server *, struct snib__redlock_bid *,
                            const struct snib__redis_call *, const struct snib__layout_answer *);
void snib__redlock_on_refusal(struct snib__server *, struct snib__redlock_bid *,
                              struct snib__redis_call *, int code);
void snib__redlock_fail(struct snib__redlock *, struct snib__redlock_bid *, int code,
                        const char *why);

/* It may be free: this server says so. */
void snib__redlock_told(struct snib__redlock *, struct snib__redlock_bid *,
                        const struct snib__server *);

/* Time: those who did not answer; those who wait. */
void snib__redlock_attempt_late(struct snib__redlock *, struct snib__redlock_bid *);
void snib__redlock_attempt_again(struct snib__redlock *, struct snib__redlock_bid *);

#endif
