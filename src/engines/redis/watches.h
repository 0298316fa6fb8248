/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_WATCHES_H
#define SNIB_REDIS_WATCHES_H

#include "engines/redis/session.h"

/* Wait for the lock of this bid to be free; and no more. Without memory nobody listens, and it is
 * only asked about. */
void snib__watches_join(struct snib__redis *, struct snib__bid *);
void snib__watches_leave(struct snib__redis *, struct snib__bid *);

/* Would we hear it? */
bool snib__watches_hears(const struct snib__bid *);

/* Was it told to be free since then? */
bool snib__watches_told_since(const struct snib__bid *, struct snib__instant sent);

/* What the inbox says: it is open; it listens there; this was said there. */
void snib__watches_ready(struct snib__redis *);
void snib__watches_subscribed(struct snib__redis *, const char *channel);
void snib__watches_heard(struct snib__redis *, const char *channel, const char *word);

/* Stop listening where nobody waits any more. */
int64_t snib__watches_keep_time(struct snib__redis *, int64_t now_ns);

void snib__watches_close(struct snib__redis *);

#endif
