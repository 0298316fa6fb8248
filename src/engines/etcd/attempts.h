/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_ATTEMPTS_H
#define SNIB_ETCD_ATTEMPTS_H

#include "engines/etcd/session.h"

/* Ask for it: the lease is there. */
void etcd_attempt_ask(struct etcd *, struct etcd_claim *);

/* Look who is ahead of one that stands in line. */
void etcd_attempt_list(struct etcd *, struct etcd_claim *);

/* The lease was kept alive, or will not be: go on if that was awaited. */
void etcd_attempt_kept(struct etcd *, struct etcd_claim *);

/* In line: somebody ahead went. */
void etcd_attempt_ahead(struct etcd *, struct etcd_claim *, const struct etcd_gone *);
void etcd_attempt_place_lost(struct etcd *, struct etcd_claim *, const char *why);

/* No answer, or a bad one, to the grant of a lease or to an attempt. */
void etcd_attempt_fail(struct etcd *, struct etcd_claim *, const struct etcd_call *);

/* Nobody can be reached: those in line look at once, and hear it. */
void etcd_attempts_unreachable(struct etcd *);

/* Those in line that are due: keep alive, and look. When to come back. */
int64_t etcd_attempts_keep_time(struct etcd *, int64_t now_ns);

#endif
