/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDLOCK_CLAIMS_H
#define SNIB_REDLOCK_CLAIMS_H

#include "engines/redlock/session.h"

void snib__redlock_claim(struct snib__claim *);
void snib__redlock_claims_renew(struct snib__claim *const claims[], size_t n);
void snib__redlock_release(struct snib__claim *);

/* What became of calls whose subject is a bid. */
void snib__redlock_reply(struct snib__server *, struct snib__redis_call *,
                         const struct snib__reply *);
void snib__redlock_lost(struct snib__server *, struct snib__redis_call *, enum snib__loss);

/* Whatever is due; when to come back. */
int64_t snib__redlock_claims_keep_time(struct snib__redlock *, int64_t now_ns);

#endif
