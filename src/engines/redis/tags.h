/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_TAGS_H
#define SNIB_REDIS_TAGS_H

/*
 * What is in a key whose name other programs chose.
 */

#include <stdbool.h>
#include <string.h>

/* Is there what a cluster hashes instead of the whole: from the first '{' to the next '}', if that
 * is anything? */
static inline bool snib__key_tagged(const char *key)
{
    const char *open = strchr(key, '{');
    const char *close = open ? strchr(open, '}') : NULL;
    return close && close > open + 1;
}

static inline bool snib__key_ends(const char *key, const char *end)
{
    size_t size = strlen(key), tail = strlen(end);
    return size >= tail && strcmp(key + size - tail, end) == 0;
}

#endif
