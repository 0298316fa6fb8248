/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_BID_H
#define SNIB_REDIS_BID_H

#include "engines/redis/session.h"

/* The owner id as it goes over the wire. */
void snib__bid_id(const struct snib__bid *, unsigned char out[SNIB__ID_SIZE]);

/* Is it an attempt under an id that was given up since? Nobody wants its answer. */
bool snib__bid_has_undone(const struct snib__bid *, const struct snib__redis_call *);

/* An attempt may still arrive until then, by the server's clock; 0: at any time. */
void snib__bid_note_loose(struct snib__bid *, int64_t not_after_ms);

/* Who is meant by an id in a message. Adding one that is known, or removing one that is not, is
 * nothing; false: no memory. */
bool snib__bid_know(struct snib__redis *, struct snib__bid *);
void snib__bid_forget(struct snib__redis *, struct snib__bid *);
struct snib__bid *snib__bid_find(const struct snib__redis *, const unsigned char id[SNIB__ID_SIZE]);

/* Who waits, and when it wants to ask again: after this long, with jitter; all of them now. */
void snib__redis_line_join(struct snib__redis *, struct snib__bid *, int64_t after_ms);
void snib__redis_line_now(struct snib__redis *, struct snib__bid *); /* one that is in it */
void snib__redis_line_leave(struct snib__redis *, struct snib__bid *);
void snib__redis_line_hurry(struct snib__redis *);

/* Where grants of it are told, NULL while that is nowhere; and see to it that there is such a
 * place: false if that cannot be now. */
const char *snib__redis_inbox(struct snib__redis *, const struct snib__bid *);
bool snib__redis_open_inbox(struct snib__redis *, const struct snib__bid *);

/* Whether the inbox is wanted may have changed. */
void snib__redis_await(struct snib__redis *);

#endif
