/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_AGENDA_H
#define SNIB_AGENDA_H

/*
 * What was decided and is to be done at the engine, as soon as no call of it is under way.
 *
 * Upcalls never enter the engine: they put an action here, and snib__settle performs it. An action
 * is part of what it is about, so that deciding never needs memory.
 */

#include "base/list.h"

struct snib;

struct snib__action {
    struct snib__list link; /* in client->agenda, or client->renewals, while it is to be done */
    void (*perform)(struct snib__action *);
};

static inline void snib__action_init(struct snib__action *a, void (*perform)(struct snib__action *))
{
    snib__list_init(&a->link);
    a->perform = perform;
}

static inline bool snib__action_waits(const struct snib__action *a)
{
    return !snib__list_empty(&a->link);
}

/* Not to be done, or not yet. */
static inline void snib__action_drop(struct snib__action *a)
{
    snib__list_remove(&a->link);
}

#endif
