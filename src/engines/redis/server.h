/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_SERVER_H
#define SNIB_REDIS_SERVER_H

/*
 * One server and all that is asked of it, for those who have several.
 */

#include "engines/redis/session.h"

extern const struct snib__param snib__redis_params[];

/* Read the URL, and make ready what is the same for all servers. */
int snib__redis_open(struct snib__session *, snib_error *);

/* Nothing is asked yet; then, when its settings are there, of whom. */
void snib__redis_begin(struct snib__redis *, struct snib__session *);
void snib__redis_meet(struct snib__redis *);

/* Let go of all that is asked; the settings stay. */
void snib__redis_part(struct snib__redis *);

/* Do whatever is due; when to come back. */
int64_t snib__redis_keep_time(struct snib__redis *, int64_t now_ns);

#endif
