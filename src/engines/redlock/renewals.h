/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDLOCK_RENEWALS_H
#define SNIB_REDLOCK_RENEWALS_H

#include "engines/redlock/bids.h"

/* Ask all who may have it to keep it; `by_itself`: the core has not asked for that. */
void snib__redlock_renew(struct snib__redlock *, struct snib__redlock_bid *, bool by_itself);

/* What a server said; or nothing, and will not. */
void snib__redlock_on_renew(struct snib__server *, struct snib__redlock_bid *,
                            const struct snib__redis_call *, const struct snib__layout_answer *);
void snib__redlock_on_renew_lost(struct snib__server *, struct snib__redlock_bid *);

/* Time: those who did not answer; those who do not have it yet. */
void snib__redlock_renew_late(struct snib__redlock *, struct snib__redlock_bid *);
void snib__redlock_complete(struct snib__redlock *, struct snib__redlock_bid *);

/* Breaks: it is held and somebody reacts; it is not, any more. What the inboxes say. */
void snib__redlock_listen(struct snib__redlock *, struct snib__redlock_bid *);
void snib__redlock_unlisten(struct snib__redlock *, struct snib__redlock_bid *);
void snib__redlock_broken(struct snib__server *, const char *text);

#endif
