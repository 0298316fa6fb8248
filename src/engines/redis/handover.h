/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_HANDOVER_H
#define SNIB_REDIS_HANDOVER_H

#include "engines/redis/session.h"

/* Re-check those in line that are due. */
void snib__handover_keep_time(struct snib__redis *, int64_t now_ns);

/* What the node says of its inbox. */
void snib__handover_ready(struct snib__redis *);
/* In a cluster: locks in that slot are told of here from now on, or no more. */
void snib__handover_slot(struct snib__redis *, unsigned slot, bool hears);
void snib__handover_failed(struct snib__redis *);
void snib__handover_message(struct snib__redis *, const char *message, size_t size);

#endif
