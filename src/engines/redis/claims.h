/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_CLAIMS_H
#define SNIB_REDIS_CLAIMS_H

/*
 * Claims: attempt, renew and release, and what the server says to them.
 */

#include "engines/redis/session.h"

/* The slots. */
void snib__claims_attempt(struct snib__claim *);
void snib__claims_renew(struct snib__claim *const claims[], size_t n);
void snib__claims_release(struct snib__claim *);
void snib__claims_flush(struct snib__session *);

/* The same, of a server that whoever calls has chosen. */
void snib__claims_attempt_at(struct snib__redis *, struct snib__claim *);
void snib__claims_renew_at(struct snib__redis *, struct snib__claim *const claims[], size_t n);
void snib__claims_release_at(struct snib__redis *, struct snib__claim *);

/* A call that will be answered by nobody, because it was asked of the wrong server. */
void snib__claims_leave_ring(struct snib__bid *, const struct snib__redis_call *);

/* It may have been executed, and its answer was lost: what follows from that. */
void snib__claims_note_loss(struct snib__bid *, const struct snib__redis_call *, enum snib__loss);

/* What became of calls whose subject is a bid. */
void snib__claims_reply(struct snib__redis *, struct snib__redis_call *,
                        const struct snib__reply *);
void snib__claims_lost(struct snib__redis *, struct snib__redis_call *, enum snib__loss);

/* The answer to a release that had become a debt. */
void snib__claims_settled(struct snib__redis *, struct snib__bid *,
                          const struct snib__layout_answer *);

/* A renewal counts, or does not: see witness.h. */
void snib__claims_proven(struct snib__redis *, struct snib__bid *);
void snib__claims_unproven(struct snib__redis *, struct snib__bid *);

#endif
