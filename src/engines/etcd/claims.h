/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_CLAIMS_H
#define SNIB_ETCD_CLAIMS_H

#include "engines/etcd/session.h"

/* The slots. */
void etcd_claims_attempt(struct snib__claim *);
void etcd_claims_renew(struct snib__claim *const claims[], size_t n);
void etcd_claims_release(struct snib__claim *);

#endif
