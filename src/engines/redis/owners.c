/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owner ids: what they look like on the wire, and whose they are.
 *
 * An id is the claim's 128 random bits in hexadecimal. If the engine gave a grant back by itself
 * (the server turned out to be in quarantine), that id is dead for ever, and the claim goes on
 * under a number behind it. Only claims that may wait are in the table: only they get messages.
 */
#include "engines/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void snib__ticket_id(const struct snib__ticket *t, char out[SNIB__ID_MAX])
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *owner = t->claim->owner;
    for (size_t i = 0; i < sizeof t->claim->owner; i++) {
        out[2 * i] = digits[owner[i] >> 4];
        out[2 * i + 1] = digits[owner[i] & 15];
    }
    out[32] = '\0';
    if (t->life) {
        snprintf(out + 32, SNIB__ID_MAX - 32, "-%u", (unsigned)t->life);
    }
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_owner(unsigned char out[16], const char *id)
{
    for (size_t i = 0; i < 16; i++) {
        int high = digit_of(id[2 * i]);
        int low = high < 0 ? -1 : digit_of(id[2 * i + 1]);
        if (low < 0) {
            return false;
        }
        out[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* Random already: any of its bits will do. */
static size_t bucket_of(const struct snib__redis *r, const unsigned char owner[16])
{
    size_t bits;
    memcpy(&bits, owner, sizeof bits);
    return bits & (r->bucket_count - 1);
}

static bool grow(struct snib__redis *r)
{
    size_t before = r->bucket_count;
    size_t count = before ? before * 2 : 16;
    struct snib__ticket **old = r->buckets;
    struct snib__ticket **buckets = calloc(count, sizeof(struct snib__ticket *));
    if (!buckets) {
        return before > 0; /* longer chains will do */
    }
    r->buckets = buckets;
    r->bucket_count = count;
    for (size_t i = 0; i < before; i++) {
        struct snib__ticket *next;
        for (struct snib__ticket *t = old[i]; t; t = next) {
            next = t->next;
            size_t at = bucket_of(r, t->claim->owner);
            t->next = buckets[at];
            buckets[at] = t;
        }
    }
    free(old);
    return true;
}

bool snib__owners_add(struct snib__redis *r, struct snib__ticket *t)
{
    if (t->known) {
        return true;
    }
    if (r->owner_count >= r->bucket_count && !grow(r)) {
        return false;
    }
    size_t at = bucket_of(r, t->claim->owner);
    t->next = r->buckets[at];
    r->buckets[at] = t;
    r->owner_count++;
    t->known = true;
    return true;
}

void snib__owners_remove(struct snib__redis *r, struct snib__ticket *t)
{
    if (!t->known) {
        return;
    }
    struct snib__ticket **p = &r->buckets[bucket_of(r, t->claim->owner)];
    while (*p != t) {
        p = &(*p)->next;
    }
    *p = t->next;
    r->owner_count--;
    t->known = false;
}

struct snib__ticket *snib__owners_find(struct snib__redis *r, const char *id)
{
    unsigned char owner[16];
    char own[SNIB__ID_MAX];
    if (strlen(id) < 32 || !r->bucket_count || !read_owner(owner, id)) {
        return NULL;
    }
    for (struct snib__ticket *t = r->buckets[bucket_of(r, owner)]; t; t = t->next) {
        if (memcmp(t->claim->owner, owner, sizeof owner) == 0) {
            snib__ticket_id(t, own);
            return strcmp(own, id) == 0 ? t : NULL;
        }
    }
    return NULL;
}
