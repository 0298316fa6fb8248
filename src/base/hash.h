/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_BASE_HASH_H
#define SNIB_BASE_HASH_H

/* FNV-1a: for tables and for names, never against somebody who chooses what is hashed. */

#include <stddef.h>
#include <stdint.h>

#define SNIB__HASH_START 14695981039346656037ULL

static inline uint64_t snib__hash_byte(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * 1099511628211ULL;
}

static inline uint64_t snib__hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < size; i++) {
        hash = snib__hash_byte(hash, p[i]);
    }
    return hash;
}

static inline uint64_t snib__hash_text(const char *text)
{
    uint64_t hash = SNIB__HASH_START;
    for (; *text; text++) {
        hash = snib__hash_byte(hash, (unsigned char)*text);
    }
    return hash;
}

#endif
