/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_MYSQL_DIGEST_H
#define SNIB_MYSQL_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* SHA-256 (FIPS 180-4). */
struct mysql_digest {
    uint32_t state[8];
    uint64_t size;
    unsigned char block[64];
};

void mysql_digest_begin(struct mysql_digest *);
void mysql_digest_add(struct mysql_digest *, const void *bytes, size_t size);
void mysql_digest_end(struct mysql_digest *, unsigned char out[32]);

#endif
