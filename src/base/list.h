/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_BASE_LIST_H
#define SNIB_BASE_LIST_H

/*
 * A doubly linked list through the things it links. The head and the members are the same struct;
 * zeroed is not a list: use snib__list_init.
 */

#include <stdbool.h>
#include <stddef.h>

struct snib__list {
    struct snib__list *before, *after;
};

/* The thing that a member is part of. */
#define SNIB__OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void snib__list_init(struct snib__list *l)
{
    l->before = l->after = l;
}

static inline bool snib__list_empty(const struct snib__list *list)
{
    return list->after == list;
}

static inline void snib__list_append(struct snib__list *list, struct snib__list *l)
{
    l->before = list->before;
    l->after = list;
    list->before->after = l;
    list->before = l;
}

/* Leaves the member a list of its own, so that removing it twice does no harm. */
static inline void snib__list_remove(struct snib__list *l)
{
    l->before->after = l->after;
    l->after->before = l->before;
    snib__list_init(l);
}

#endif
