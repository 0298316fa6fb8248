/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An owner that asks for what it has already gets it again at once: another lease of the same hold,
 * with the same token and no word to the engine. Exclusive covers shared; shared does not become
 * exclusive, because two owners who tried that would wait for each other.
 *
 * An owner whose hold was lost, and who has not released it, is told so and not let in again: it
 * must not think that it still has what it had. Unless it has been granted anew since.
 */
#include "core/reentry.h"

#include "core/client.h"
#include "core/validity.h"

static bool over(const struct snib__hold *h)
{
    if (!snib__hold_valid(h)) {
        return true;
    }
    return snib__validity_limited(h) && snib__validity_left_ns(h, snib__now()) <= 0;
}

static enum snib__reentry compare(const struct snib__hold *h, const snib_options *o)
{
    if (h->claim.mode == SNIB_COUNTED || o->mode == SNIB_COUNTED) {
        return h->claim.mode == o->mode && h->claim.permits == o->permits ? SNIB__REENTRY_ALLOWED
                                                                          : SNIB__REENTRY_KIND;
    }
    return h->claim.mode == SNIB_SHARED && o->mode == SNIB_EXCLUSIVE ? SNIB__REENTRY_UPGRADE
                                                                     : SNIB__REENTRY_ALLOWED;
}

enum snib__reentry snib__reentry(const struct snib__line *line, const snib_options *o,
                                 struct snib__hold **out)
{
    enum snib__reentry found = SNIB__REENTRY_NONE;
    for (const struct snib__list *l = line->holds.after; l != &line->holds; l = l->after) {
        struct snib__hold *h = SNIB__OF(l, struct snib__hold, in_line);
        if (h->owner != o->owner || h->lease_count == 0) {
            continue;
        }
        *out = h;
        if (!over(h)) {
            return compare(h, o);
        }
        found = SNIB__REENTRY_LOST; /* there may be another, granted since */
    }
    return found;
}
