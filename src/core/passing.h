/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_PASSING_H
#define SNIB_PASSING_H

/* One grant for several requests of this process, one after the other: see passing.c. */

#include "core/line.h"

unsigned snib__passing_wanted(const struct snib__request *); /* tokens */
void snib__passing_begin(struct snib__hold *, unsigned span);
void snib__passing_end(struct snib__hold *);
bool snib__passing_awaited(const struct snib__line *, const struct snib__request *);

/* Released, and nobody has it: who of those in line may have it without the engine? NULL: nobody.
 */
struct snib__request *snib__passing_next(const struct snib__hold *, struct snib__instant now);
/* The hold is that request's now, with the next token. */
void snib__passing_go(struct snib__hold *, struct snib__request *, struct snib__instant now);

#endif
