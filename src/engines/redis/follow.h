/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_FOLLOW_H
#define SNIB_REDIS_FOLLOW_H

#include "engines/redis/session.h"

/* Of a URL that names sentinels: the session's connections follow the master. After the node was
 * made. Nothing for other URLs. */
int snib__follow_open(struct snib__redis *, snib_error *);
void snib__follow_close(struct snib__redis *);

/* Another run of a server than before grants from now on. */
void snib__follow_other(struct snib__redis *);

#endif
