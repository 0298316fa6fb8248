/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_PROOFS_H
#define SNIB_REDIS_PROOFS_H

#include "engines/redis/session.h"

/* wait=: what is granted and renewed counts when replicas have it. After the node was made. Nothing
 * without it. */
int snib__proofs_open(struct snib__redis *, snib_error *);
void snib__proofs_close(struct snib__redis *);

/* Another run of a server than before grants from now on. */
void snib__proofs_other(struct snib__redis *);

#endif
