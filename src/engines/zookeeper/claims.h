/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ZOOKEEPER_CLAIMS_H
#define SNIB_ZOOKEEPER_CLAIMS_H

#include "engines/zookeeper/contender.h"

/* The slots. */
void snib__zk_attempt(struct snib__claim *);
void snib__zk_renew(struct snib__claim *const claims[], size_t n);
void snib__zk_release(struct snib__claim *);

/* An answer, or a loss, of one of their requests. */
void snib__zk_claims_answered(struct snib__zk *, const struct snib__zk_call *,
                              struct snib__zk_answer *);
void snib__zk_claims_lost(struct snib__zk *, const struct snib__zk_call *);
void snib__zk_claims_event(struct snib__zk *, const struct snib__zk_event *);

/* The service: connected, gone, without us, out of reach. */
void snib__zk_claims_ready(struct snib__zk *);
void snib__zk_claims_down(struct snib__zk *);
void snib__zk_claims_over(struct snib__zk *, const char *why);
void snib__zk_claims_unreachable(struct snib__zk *, int code);

void snib__zk_claims_tick(struct snib__zk *, int64_t now_ns);
int64_t snib__zk_claims_next(const struct snib__zk *);
void snib__zk_claims_end(struct snib__zk *); /* forget all */

/* Whoever submits sends. */
void snib__zk_dispatch(struct snib__zk *, bool idle);

#endif
