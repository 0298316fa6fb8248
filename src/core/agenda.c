/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a hold has to do at the engine, and whether it waits for an answer.
 *
 * A hold has one thing to do at a time: a release replaces whatever was to be done, and a renewal
 * is not asked for while an attempt is. `outstanding` counts the holds that wait for the engine:
 * as long as there is one, somebody must drive.
 */
#include "core/client.h"

#include <assert.h>

void snib__hold_do(struct snib__hold *h, enum snib__todo what)
{
    assert(h->todo == SNIB__TODO_NOTHING || what == SNIB__TODO_RELEASE || h->todo == what);
    h->todo = what;
    if (!snib__action_waits(&h->action)) {
        snib__list_append(&h->client->agenda, &h->action.link);
    }
}

void snib__hold_count(struct snib__hold *h)
{
    bool waits = h->renewal != SNIB__RENEWAL_NONE;
    switch (h->stage) {
    case SNIB__STAGE_ASKED:
    case SNIB__STAGE_PARKED:
    case SNIB__STAGE_PROVING:
    case SNIB__STAGE_RELEASING:
        waits = true;
        break;
    default:
        break;
    }
    if (waits != h->counted) {
        h->counted = waits;
        h->client->outstanding += waits ? 1U : -1U;
    }
}
