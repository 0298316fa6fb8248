/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_REPLY_H
#define SNIB_REDIS_REPLY_H

#include <hiredis/read.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One reply. Lives until the next one is asked for. */
struct snib__reply {
    int type; /* REDIS_REPLY_... */
    int64_t integer;
    const char *text; /* never NULL, ends with a zero; "" unless it is a text */
    size_t size;
    struct snib__reply **items;
    size_t count;
};

struct snib__reader;

struct snib__reader *snib__reader_new(void); /* NULL: no memory */
void snib__reader_free(struct snib__reader *);

/* False: more than any answer of ours can be, or no memory. The connection is of no more use. */
bool snib__reader_feed(struct snib__reader *, const char *bytes, size_t size);

/* 1: *out is a reply; 0: more bytes are needed; -1: not the protocol, or beyond its limits. */
int snib__reader_next(struct snib__reader *, const struct snib__reply **out);

/* An item of an array, read leniently: what is not there is "", or 0. */
const char *snib__reply_text(const struct snib__reply *, size_t index);
const char *snib__reply_bytes(const struct snib__reply *, size_t index, size_t *size);
int64_t snib__reply_number(const struct snib__reply *, size_t index);

#endif
