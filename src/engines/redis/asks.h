/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_ASKS_H
#define SNIB_REDIS_ASKS_H

#include "engines/redis/session.h"

/* Ask for a bid. `before` is the call that this one repeats, or NULL. False: no memory. */
bool snib__ask_attempt(struct snib__redis *, struct snib__bid *,
                       const struct snib__redis_call *before);
bool snib__ask_renew(struct snib__redis *, struct snib__bid *,
                     const struct snib__redis_call *before);
bool snib__ask_release(struct snib__redis *, struct snib__bid *,
                       const struct snib__redis_call *before);

/* The same once more. */
bool snib__ask_again(struct snib__redis *, const struct snib__redis_call *before);

#endif
