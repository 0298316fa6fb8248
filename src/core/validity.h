/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_VALIDITY_H
#define SNIB_VALIDITY_H

/* How long a hold is valid by the clock, and what falls due along it: see validity.c. */

#include "base/clock.h"

#include <stdbool.h>

struct snib__hold;

/* The engine keeps it for so long, counted from `since`. */
void snib__validity_set(struct snib__hold *, struct snib__instant since, int64_t lease_ms);

/* It may end earlier than was granted: that long from `now`, if it does not before. */
void snib__validity_cap(struct snib__hold *, struct snib__instant now, int64_t lease_ms);

/* What is taken off a lease for clocks that differ. */
int64_t snib__drift_ns(int64_t span_ns);

bool snib__validity_limited(const struct snib__hold *); /* does the clock matter to it at all? */
int64_t snib__validity_left_ns(const struct snib__hold *, struct snib__instant now);
void snib__max_hold_set(struct snib__hold *); /* by what the user said, and NO_RENEW */
int64_t snib__max_hold_left_ns(const struct snib__hold *, struct snib__instant now);

/* Of a hold with a lease: the engine has been silent for this long. */
int64_t snib__silence_ns(const struct snib__hold *, struct snib__instant now);
bool snib__silent_too_long(const struct snib__hold *, struct snib__instant now);
bool snib__max_hold_near(const struct snib__hold *, struct snib__instant now);

bool snib__renews(const struct snib__hold *); /* has a lease, and wants it to go on */
int64_t snib__until_renewal_ns(const struct snib__hold *, struct snib__instant now);
int64_t snib__until_pressing_ns(const struct snib__hold *, struct snib__instant now);
bool snib__renewal_due(const struct snib__hold *, struct snib__instant now);

/* How long until somebody should look again; NEVER: not at all. */
int64_t snib__until_next_ns(const struct snib__hold *, struct snib__instant now);

#endif
