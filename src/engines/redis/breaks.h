/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_BREAKS_H
#define SNIB_REDIS_BREAKS_H

#include "engines/redis/session.h"

/* It is held: if somebody reacts to what happens, it wants to hear when it is broken. Then it is
 * not held any more. Twice is once. */
void snib__breaks_listen(struct snib__redis *, struct snib__bid *);
void snib__breaks_unlisten(struct snib__redis *, struct snib__bid *);

/* Is it still ours? The core is told as if it had asked for a renewal. */
void snib__breaks_ask(struct snib__redis *, struct snib__bid *);

/* The server says that it is still ours: whoever broke something, it was not this. */
void snib__breaks_deny(struct snib__bid *);

/* Open the inbox if it is time; when to come back. */
int64_t snib__breaks_keep_time(struct snib__redis *, int64_t now_ns);

/* What the node says: breaks are heard from now on; or "WHO KEY", a lock of that key was broken. */
void snib__breaks_ready(struct snib__redis *);
void snib__breaks_message(struct snib__redis *, const char *message);

void snib__breaks_close(struct snib__redis *);

#endif
