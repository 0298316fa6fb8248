/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_BASE_TABLE_H
#define SNIB_BASE_TABLE_H

/*
 * A hash table through the things it holds. What makes two of them equal is the caller's business:
 *
 *     for (struct snib__entry *e = snib__table_first(t, hash); e; e = snib__entry_next(e)) {
 *         if (strcmp(SNIB__OF(e, struct thing, entry)->name, name) == 0) ...
 *     }
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

struct snib__entry {
    struct snib__entry *next; /* in the bucket */
    uint64_t hash;
};

/* Zeroed is empty. */
struct snib__table {
    struct snib__entry **buckets;
    size_t room, count; /* room: 0, or a power of two */
};

/* False: out of memory, nothing was added. */
bool snib__table_add(struct snib__table *, struct snib__entry *, uint64_t hash);
void snib__table_remove(struct snib__table *, struct snib__entry *);
void snib__table_free(struct snib__table *); /* the entries are the caller's */

/* All of them, one after the other, in no order; NULL gives the first. Nothing may be added or
 * removed between two calls but entries that were passed already. */
struct snib__entry *snib__table_next(const struct snib__table *, const struct snib__entry *);

#pragma GCC visibility pop

static inline struct snib__entry *snib__entry_match(struct snib__entry *e, uint64_t hash)
{
    while (e && e->hash != hash) {
        e = e->next;
    }
    return e;
}

/* Those with this hash, one after the other. */
static inline struct snib__entry *snib__table_first(const struct snib__table *t, uint64_t hash)
{
    return t->room ? snib__entry_match(t->buckets[hash & (t->room - 1)], hash) : NULL;
}

static inline struct snib__entry *snib__entry_next(const struct snib__entry *e)
{
    return snib__entry_match(e->next, e->hash);
}

#endif
