/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_STEPS_H
#define SNIB_REDIS_STEPS_H

#include "engines/redis/plan.h"
#include "engines/redis/session.h"

/* Ask a layout's attempt, renewal, release or eviction of the server: by a script, or step by step
 * where there are none. Either way the answer, or the loss, comes by the node's upcalls, for
 * `call`. False: no memory. */
bool snib__steps_ask(struct snib__redis *, enum snib__plan_verb, const struct snib__redis_call *,
                     const struct snib__wish *);
void snib__steps_drop(struct snib__redis *, const void *subject); /* wants no more answers */

/* In a cluster: for the command that follows, a slot that is on its way there counts as there. */
bool snib__steps_asking(struct snib__redis *);

/* Is this error a refusal of scripts, and can it be done without? Then it is, from now on. */
bool snib__steps_switch(struct snib__redis *, const char *error);

/* What became of one of its calls. */
void snib__steps_reply(struct snib__redis *, const struct snib__redis_call *,
                       const struct snib__reply *);
void snib__steps_lost(struct snib__redis *, struct snib__redis_call *, enum snib__loss);

void snib__steps_close(struct snib__redis *);

#endif
