/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REENTRY_H
#define SNIB_REENTRY_H

/* An owner asks for what it has: see reentry.c. */

#include "snib.h"

struct snib__line;
struct snib__hold;

enum snib__reentry {
    SNIB__REENTRY_NONE,    /* the owner does not have it */
    SNIB__REENTRY_ALLOWED, /* another lease of the hold */
    SNIB__REENTRY_LOST,    /* it had it, and has not released what was lost */
    SNIB__REENTRY_UPGRADE, /* has it shared and wants it exclusive */
    SNIB__REENTRY_KIND     /* has it as another kind of lock */
};

/* What is over by the clock counts as lost, whether anybody was told yet or not. */
enum snib__reentry snib__reentry(const struct snib__line *, const snib_options *,
                                 struct snib__hold **hold);

#endif
