/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes on their way out.
 *
 * One block of memory that is moved to its start when the front has been sent, and kept when it is
 * empty: a client that pipelines sends the same sizes again and again. A block that had to grow
 * for a burst is given back.
 */
#include "net/buffer.h"

#include <stdlib.h>
#include <string.h>

#define FIRST 1024
#define KEEP 65536

bool snib__buffer_reserve(struct snib__buffer *b, size_t size)
{
    if (b->room - b->to < size && b->from > 0) {
        memmove(b->bytes, b->bytes + b->from, b->to - b->from);
        b->to -= b->from;
        b->from = 0;
    }
    if (b->room - b->to < size) {
        size_t room = b->room ? b->room : FIRST;
        while (room - b->to < size) {
            room *= 2;
        }
        char *grown = realloc(b->bytes, room);
        if (!grown) {
            return false;
        }
        b->bytes = grown;
        b->room = room;
    }
    return true;
}

void snib__buffer_take(struct snib__buffer *b, size_t size)
{
    b->from += size;
    if (b->from == b->to) {
        b->from = b->to = 0;
        if (b->room > KEEP) {
            snib__buffer_free(b);
        }
    }
}

void snib__buffer_free(struct snib__buffer *b)
{
    if (b->bytes) {
        explicit_bzero(b->bytes, b->room);
        free(b->bytes);
    }
    *b = (struct snib__buffer){0};
}
