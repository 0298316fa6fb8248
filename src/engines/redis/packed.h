/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_PACKED_H
#define SNIB_REDIS_PACKED_H

/*
 * Numbers as scripts pack them: little-endian, without a sign, one behind the other. A script keeps
 * them exact up to 2^53.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What is left to be read. */
struct snib__packed {
    const char *at;
    size_t left;
    bool failed; /* it was too short; what was read then is 0 */
};

static inline struct snib__packed snib__packed_from(const char *bytes, size_t size)
{
    return (struct snib__packed){.at = bytes, .left = size};
}

/* The next `size` bytes; NULL: there are not so many. */
static inline const char *snib__packed_bytes(struct snib__packed *p, size_t size)
{
    const char *bytes = p->at;
    if (p->left < size) {
        p->failed = true;
        return NULL;
    }
    p->at += size;
    p->left -= size;
    return bytes;
}

/* A number of `size` bytes, 8 at the most. */
static inline uint64_t snib__packed_number(struct snib__packed *p, size_t size)
{
    uint64_t number = 0;
    const char *bytes = snib__packed_bytes(p, size);
    for (size_t i = size; bytes && i > 0; i--) {
        number = number << 8 | (unsigned char)bytes[i - 1];
    }
    return number;
}

/* The same, and no more than fits. */
static inline int64_t snib__packed_within(struct snib__packed *p, size_t size, int64_t most)
{
    uint64_t number = snib__packed_number(p, size);
    return number > (uint64_t)most ? most : (int64_t)number;
}

/* Write one, and where the next goes. */
static inline char *snib__pack(char *to, uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        *to++ = (char)(number >> (8 * i) & 255);
    }
    return to;
}

static inline char *snib__pack_bytes(char *to, const void *bytes, size_t size)
{
    memcpy(to, bytes, size);
    return to + size;
}

#endif
