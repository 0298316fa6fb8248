/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ears: which sharded channels an inbox listens to.
 *
 * In a cluster a message to a plain channel goes to every server, and many locks would fill the
 * bus with them. A sharded channel lives in a slot, as a lock does, and a script may speak only to
 * those in its lock's own. So there is one for each slot that somebody waits in. Its tag is three
 * letters that are in that slot, since a name would be too long for a ticket.
 *
 * When the slot moves the server ends the subscription by itself, which is how those who wait learn
 * of it. While it is on its way nobody can subscribe at either side without being sent to the
 * other; who waits then asks now and then.
 */
#include "engines/redis/ears.h"

#include "engines/redis/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void snib__ears_init(struct snib__ears *ears)
{
    snib__list_init(&ears->all);
}

void snib__ears_remove(struct snib__ears *ears, struct snib__ear_of_slot *ear)
{
    snib__table_remove(&ears->by_slot, &ear->entry);
    snib__list_remove(&ear->in_all);
    free(ear);
}

void snib__ears_close(struct snib__ears *ears)
{
    while (!snib__list_empty(&ears->all)) {
        snib__ears_remove(ears, SNIB__OF(ears->all.after, struct snib__ear_of_slot, in_all));
    }
    snib__table_free(&ears->by_slot);
}

void snib__ears_deafen(struct snib__ears *ears)
{
    for (struct snib__list *l = ears->all.after; l != &ears->all; l = l->after) {
        struct snib__ear_of_slot *ear = SNIB__OF(l, struct snib__ear_of_slot, in_all);
        ear->hears = false;
        ear->asked_ns = 0;
    }
}

/* Slots are few and known: their numbers spread well enough. */
static uint64_t hash_of(unsigned slot)
{
    return (uint64_t)slot * UINT64_C(0x9e3779b97f4a7c15);
}

struct snib__ear_of_slot *snib__ears_find(const struct snib__ears *ears, unsigned slot)
{
    struct snib__entry *e = snib__table_first(&ears->by_slot, hash_of(slot));
    for (; e; e = snib__entry_next(e)) {
        struct snib__ear_of_slot *ear = SNIB__OF(e, struct snib__ear_of_slot, entry);
        if (ear->slot == slot) {
            return ear;
        }
    }
    return NULL;
}

struct snib__ear_of_slot *snib__ears_add(struct snib__ears *ears, unsigned slot)
{
    struct snib__ear_of_slot *ear = calloc(1, sizeof *ear);
    if (!ear || !snib__table_add(&ears->by_slot, &ear->entry, hash_of(slot))) {
        free(ear);
        return NULL;
    }
    ear->slot = slot;
    snib__list_append(&ears->all, &ear->in_all);
    return ear;
}

struct snib__ear_of_slot *snib__ears_named(const struct snib__ears *ears, const char *channel)
{
    struct snib__ear_of_slot *ear = snib__ears_find(ears, snib__slot_of(channel));
    return ear && strcmp(ear->channel, channel) == 0 ? ear : NULL;
}

void snib__ear_name(struct snib__ear_of_slot *ear, const char *root, const char *hex)
{
    char tag[4];
    snib__slot_tag(tag, ear->slot);
    snprintf(ear->channel, sizeof ear->channel, "%.105s:{%s}:shard:%.32s", root, tag, hex);
}
