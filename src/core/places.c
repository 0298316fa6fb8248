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

static uint64_t hash_of(const char *name)
{
    uint64_t hash = 14695981039346656037ULL; /* FNV-1a */
    for (; *name; name++) {
        hash = (hash ^ (unsigned char)*name) * 1099511628211ULL;
    }
    return hash;
}

static struct snib__place *look_up(snib *client, const char *name, uint64_t hash)
{
    if (!client->bucket_count) {
        return NULL;
    }
    struct snib__place *p = client->buckets[hash & (client->bucket_count - 1)];
    while (p && (p->hash != hash || strcmp(p->name, name) != 0)) {
        p = p->next;
    }
    return p;
}

struct snib__place *snib__place_find(snib *client, const char *name)
{
    return look_up(client, name, hash_of(name));
}

static bool grow(snib *client)
{
    size_t count = client->bucket_count ? client->bucket_count * 2 : 16;
    struct snib__place **buckets = calloc(count, sizeof *buckets);
    if (!buckets) {
        return false;
    }
    for (size_t i = 0; i < client->bucket_count; i++) {
        struct snib__place *next;
        for (struct snib__place *p = client->buckets[i]; p; p = next) {
            next = p->next;
            p->next = buckets[p->hash & (count - 1)];
            buckets[p->hash & (count - 1)] = p;
        }
    }
    free(client->buckets);
    client->buckets = buckets;
    client->bucket_count = count;
    return true;
}

struct snib__place *snib__place_get(snib *client, const char *name)
{
    if (client->last_place && strcmp(client->last_place->name, name) == 0) {
        return client->last_place;
    }
    uint64_t hash = hash_of(name);
    struct snib__place *p = look_up(client, name, hash);
    if (p) {
        return p;
    }
    if (client->place_count >= client->bucket_count && !grow(client)) {
        return NULL;
    }
    size_t size = strlen(name) + 1;
    p = malloc(sizeof *p + size);
    if (!p) {
        return NULL;
    }
    *p = (struct snib__place){.hash = hash};
    memcpy(p->name, name, size);
    snib__ring(&p->line);
    snib__ring(&p->holds);
    struct snib__place **bucket = &client->buckets[hash & (client->bucket_count - 1)];
    p->next = *bucket;
    *bucket = p;
    client->place_count++;
    return p;
}

static bool unused(const struct snib__place *place)
{
    return place->line.after == &place->line && place->users == 0;
}

static void forget(snib *client, struct snib__place *place)
{
    struct snib__place **at = &client->buckets[place->hash & (client->bucket_count - 1)];
    while (*at != place) {
        at = &(*at)->next;
    }
    *at = place->next;
    client->place_count--;
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
        snib__unlink(&r->link);
        snib__request_again(r);
    }
    place->users--;
    snib__place_put(client, place);
}

void snib__places_free(snib *client)
{
    for (size_t i = 0; i < client->bucket_count; i++) {
        while (client->buckets[i]) {
            struct snib__place *p = client->buckets[i];
            client->buckets[i] = p->next;
            free(p);
        }
    }
    free(client->buckets);
}
