/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in this process: who may go to the engine, and in which order.
 *
 * A thousand threads that want one exclusive lock are one claim at the engine: the first in line
 * asks, and when it is granted the second asks, so that it is in the engine's queue while the
 * first still holds. Shared and counted requests at the head of the line go together, a few at
 * a time. A request that only tries does not stand in line: the engine says busy or not.
 */
#include "core/client.h"

#include <stdlib.h>
#include <string.h>

#define TOGETHER 16U /* shared or counted claims of one name asked for at the same time */

static struct snib__place *look_up(snib *client, const char *name, uint64_t hash)
{
    struct snib__entry *e = snib__table_first(&client->places, hash);
    for (; e; e = snib__entry_next(e)) {
        struct snib__place *p = SNIB__OF(e, struct snib__place, entry);
        if (strcmp(p->name, name) == 0) {
            return p;
        }
    }
    return NULL;
}

struct snib__place *snib__place_find(snib *client, const char *name)
{
    return look_up(client, name, snib__hash_text(name));
}

struct snib__place *snib__place_get(snib *client, const char *name)
{
    if (client->last_place && strcmp(client->last_place->name, name) == 0) {
        return client->last_place;
    }
    uint64_t hash = snib__hash_text(name);
    struct snib__place *p = look_up(client, name, hash);
    if (p) {
        return p;
    }
    size_t size = strlen(name) + 1;
    p = malloc(sizeof *p + size);
    if (!p) {
        return NULL;
    }
    *p = (struct snib__place){.users = 0};
    if (!snib__table_add(&client->places, &p->entry, hash)) {
        free(p);
        return NULL;
    }
    memcpy(p->name, name, size);
    snib__list_init(&p->line);
    snib__list_init(&p->holds);
    return p;
}

static bool unused(const struct snib__place *place)
{
    return place->line.after == &place->line && place->users == 0;
}

static void forget(snib *client, struct snib__place *place)
{
    snib__table_remove(&client->places, &place->entry);
    free(place);
}

/* The one used last stays: most programs come back to the name they had. */
void snib__place_put(snib *client, struct snib__place *place)
{
    if (!unused(place) || place == client->last_place) {
        return;
    }
    struct snib__place *old = client->last_place;
    client->last_place = place;
    if (old && unused(old)) {
        forget(client, old);
    }
}

static bool may_go(const struct snib__place *place, const struct snib__request *r)
{
    if (snib__pass_awaited(place, r)) {
        return false;
    }
    if (place->asking == 0) {
        return true;
    }
    return r->options.mode != SNIB_EXCLUSIVE && r->options.mode == place->asking_mode &&
           place->asking < TOGETHER;
}

void snib__place_admit(snib *client, struct snib__place *place)
{
    if (place->line.after == &place->line) {
        snib__place_put(client, place);
        return;
    }
    place->users++; /* who is out of memory leaves at once: the place must not go with it */
    while (place->line.after != &place->line) {
        struct snib__request *r = SNIB__OF(place->line.after, struct snib__request, link);
        if (client->closing || place->line_held || !may_go(place, r)) {
            break;
        }
        snib__list_remove(&r->link);
        snib__request_again(r);
    }
    place->users--;
    snib__place_put(client, place);
}

void snib__places_free(snib *client)
{
    struct snib__entry *e;
    while ((e = snib__table_next(&client->places, NULL)) != NULL) {
        forget(client, SNIB__OF(e, struct snib__place, entry));
    }
    snib__table_free(&client->places);
}
