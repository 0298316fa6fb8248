/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of chains. It doubles when there are as many entries as buckets and never shrinks:
 * a client that had 100,000 locks may have them again.
 */
#include "base/table.h"

#include <stdlib.h>

#define FIRST_ROOM 16

static struct snib__entry **bucket_of(const struct snib__table *t, uint64_t hash)
{
    return &t->buckets[hash & (t->room - 1)];
}

static void push(const struct snib__table *t, struct snib__entry *e)
{
    struct snib__entry **bucket = bucket_of(t, e->hash);
    e->next = *bucket;
    *bucket = e;
}

static bool grow(struct snib__table *t)
{
    struct snib__table larger = {.room = t->room ? t->room * 2 : FIRST_ROOM, .count = t->count};
    larger.buckets = calloc(larger.room, sizeof(struct snib__entry *));
    if (!larger.buckets) {
        return false;
    }
    for (size_t i = 0; i < t->room; i++) {
        struct snib__entry *next;
        for (struct snib__entry *e = t->buckets[i]; e; e = next) {
            next = e->next;
            push(&larger, e);
        }
    }
    free(t->buckets);
    *t = larger;
    return true;
}

bool snib__table_add(struct snib__table *t, struct snib__entry *e, uint64_t hash)
{
    if (t->count >= t->room && !grow(t)) {
        return false;
    }
    e->hash = hash;
    push(t, e);
    t->count++;
    return true;
}

void snib__table_remove(struct snib__table *t, struct snib__entry *e)
{
    struct snib__entry **at = bucket_of(t, e->hash);
    while (*at != e) {
        at = &(*at)->next;
    }
    *at = e->next;
    t->count--;
}

void snib__table_free(struct snib__table *t)
{
    free(t->buckets);
    *t = (struct snib__table){0};
}

struct snib__entry *snib__table_next(const struct snib__table *t, const struct snib__entry *e)
{
    if (e && e->next) {
        return e->next;
    }
    for (size_t i = e ? (e->hash & (t->room - 1)) + 1 : 0; i < t->room; i++) {
        if (t->buckets[i]) {
            return t->buckets[i];
        }
    }
    return NULL;
}
