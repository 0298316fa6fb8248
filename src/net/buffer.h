/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_NET_BUFFER_H
#define SNIB_NET_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(default)

/* Bytes on their way out: appended at the end, taken from the front. Zeroed is empty. */
struct snib__buffer {
    char *bytes;
    size_t from, to, room;
};

static inline size_t snib__buffer_left(const struct snib__buffer *b)
{
    return b->to - b->from;
}

bool snib__buffer_reserve(struct snib__buffer *,
                          size_t size); /* room behind `to`; false: no memory */
void snib__buffer_take(struct snib__buffer *, size_t size);
void snib__buffer_free(struct snib__buffer *); /* and wipe: passwords went through it */

#pragma GCC visibility pop

#endif
