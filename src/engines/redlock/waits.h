/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDLOCK_WAITS_H
#define SNIB_REDLOCK_WAITS_H

#include "engines/redlock/session.h"

/* Wait for the lock of this bid to be free; and no more. Without memory nobody listens, and it is
 * only asked about. */
void snib__waits_join(struct snib__redlock *, struct snib__redlock_bid *);
void snib__waits_leave(struct snib__redlock *, struct snib__redlock_bid *);

/* Would we hear it, from most servers? */
bool snib__waits_hears(const struct snib__redlock *, const struct snib__redlock_bid *);

/* What an inbox says: it is open; it listens there; this was said there. `told` is for each bid
 * that waits for it. */
typedef void snib__waits_told(struct snib__redlock *, struct snib__redlock_bid *,
                              const struct snib__server *);
void snib__waits_ready(struct snib__server *);
void snib__waits_subscribed(struct snib__server *, const char *channel, snib__waits_told *);
void snib__waits_heard(struct snib__server *, const char *channel, const char *word,
                       snib__waits_told *);

/* Somebody waits, or wants to hear of breaks: the inboxes are open. */
void snib__waits_await(struct snib__redlock *);

int64_t snib__waits_keep_time(struct snib__redlock *, int64_t now_ns);
void snib__waits_close(struct snib__redlock *);

#endif
