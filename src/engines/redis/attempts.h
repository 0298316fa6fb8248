/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_ATTEMPTS_H
#define SNIB_REDIS_ATTEMPTS_H

#include "engines/redis/errors.h"
#include "engines/redis/session.h"

/* Ask for it, unless the server may not grant anything: then the answer is given at once. */
void snib__attempts_try(struct snib__redis *, struct snib__bid *);

/* How often a bid that waits asks again. */
int64_t snib__attempts_recheck_ms(const struct snib__redis *, const struct snib__bid *);

/* What became of a call. */
void snib__attempts_answer(struct snib__redis *, struct snib__bid *, struct snib__redis_call *,
                           const struct snib__layout_answer *);
void snib__attempts_error(struct snib__redis *, struct snib__bid *, const struct snib__error *,
                          const char *text);
void snib__attempts_lost(struct snib__redis *, struct snib__bid *, enum snib__loss);
void snib__attempts_fail(struct snib__redis *, struct snib__bid *, int code, int sys,
                         const char *why);

/* It was granted by message; or there is no line to stand in. */
void snib__attempts_granted(struct snib__redis *, struct snib__bid *,
                            const struct snib__layout_grant *);
void snib__attempts_turned_away(struct snib__redis *, struct snib__bid *);

/* It was granted, and counts: enough replicas have it, or nobody asked for that. Or it does not. */
void snib__attempts_proven(struct snib__redis *, struct snib__bid *);
void snib__attempts_unproven(struct snib__redis *, struct snib__bid *, enum snib__verdict);

#endif
