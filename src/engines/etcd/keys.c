/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to keys, keys to names, and what stands in a key's value.
 *
 * The value is lines of text: "snib 1", who, label, since and ttl in ms, a hash of the owner id,
 * and who broke the lock. Other clients neither read nor write it; a key of theirs is an exclusive
 * contender that says nothing of itself. 64 bits of hash do not give 128 bits of owner id away.
 */
#include "engines/etcd/keys.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *escape(char *to, const char *name)
{
    for (; *name; name++) {
        if (*name == '/' || *name == '%') {
            to += sprintf(to, "%%%02X", (unsigned char)*name);
        } else {
            *to++ = *name;
        }
    }
    *to = '\0';
    return to;
}

void etcd_key_base(char out[ETCD_BASE_MAX], const char *prefix, const char *name)
{
    char *end = escape(stpcpy(out, prefix), name);
    strcpy(end, "/");
}

void etcd_key_last(char out[ETCD_BASE_MAX], const char *prefix, const char *name)
{
    escape(stpcpy(stpcpy(out, prefix), "%last/"), name); /* no name is written like that */
}

void etcd_key_end(char out[ETCD_BASE_MAX], const char *base)
{
    size_t size = strlen(base);
    memcpy(out, base, size + 1);
    if (size > 0) {
        out[size - 1]++; /* '/' becomes '0' */
    }
}

void etcd_key(char out[ETCD_KEY_MAX], const char *base, int mode, unsigned permits, int64_t lease)
{
    if (mode == SNIB_COUNTED) {
        snprintf(out, ETCD_KEY_MAX, "%ss%04u-%" PRIx64, base, permits, (uint64_t)lease);
    } else {
        snprintf(out, ETCD_KEY_MAX, "%s%s%" PRIx64, base, mode == SNIB_SHARED ? "r" : "",
                 (uint64_t)lease);
    }
}

enum etcd_class etcd_key_class(const ProtobufCBinaryData *key, const char *base, unsigned *permits)
{
    size_t size = strlen(base);
    *permits = 1;
    if (key->len <= size || memcmp(key->data, base, size) != 0 ||
        memchr(key->data + size, '/', key->len - size)) {
        return ETCD_ALIEN;
    }
    const uint8_t *rest = key->data + size;
    if (rest[0] == 'r') {
        return ETCD_SHARED;
    }
    if (rest[0] == 's' && key->len - size > 6 && rest[5] == '-') {
        unsigned number = 0;
        for (int i = 1; i < 5; i++) {
            unsigned digit_at = (unsigned)rest[i] - '0';
            number = number * 10 + (digit_at < 10 ? digit_at : 0);
        }
        *permits = number;
        return ETCD_COUNTED;
    }
    return ETCD_EXCLUSIVE;
}

static int digit(uint8_t letter)
{
    return letter >= '0' && letter <= '9'   ? letter - '0'
           : letter >= 'A' && letter <= 'F' ? letter - 'A' + 10
                                            : -1;
}

bool etcd_key_name(char out[SNIB__NAME_MAX + 1], size_t *base_size, const char *prefix,
                   const ProtobufCBinaryData *key)
{
    size_t at = strlen(prefix), to = 0;
    if (key->len < at || memcmp(key->data, prefix, at) != 0) {
        return false;
    }
    for (; at < key->len && key->data[at] != '/' && to < SNIB__NAME_MAX; at++) {
        int letter = key->data[at];
        if (letter == '%' && at + 2 < key->len && digit(key->data[at + 1]) >= 0 &&
            digit(key->data[at + 2]) >= 0) {
            letter = digit(key->data[at + 1]) * 16 + digit(key->data[at + 2]);
            at += 2;
        }
        if ((letter >= 0 && letter < ' ') || letter == 127) {
            return false;
        }
        out[to++] = (char)letter;
    }
    out[to] = '\0';
    *base_size = at + 1;
    return to > 0 && at < key->len && key->data[at] == '/';
}

/* ---- Values ----------------------------------------------------------------------------- */

uint64_t etcd_value_owner(const unsigned char owner[16])
{
    return snib__hash_bytes(SNIB__HASH_START, owner, 16);
}

void etcd_value_write(char out[ETCD_VALUE_MAX], const struct etcd_value *v)
{
    snprintf(out, ETCD_VALUE_MAX, "snib 1\n%s\n%s\n%" PRId64 "\n%" PRId64 "\n%016" PRIx64 "\n%s\n",
             v->who, v->label, v->since_ms, v->ttl_ms, v->owner, v->broken);
}

static void copy_line(char *out, size_t room, const char *line)
{
    size_t to = 0;
    for (; *line && to + 1 < room; line++) {
        out[to++] = (unsigned char)*line < ' ' || *line == 127 ? '?' : *line;
    }
    out[to] = '\0';
}

void etcd_value_read(struct etcd_value *v, const ProtobufCBinaryData *bytes)
{
    char text[ETCD_VALUE_MAX], none[1] = "", *lines[7], *rest = text;
    size_t size = bytes->len < sizeof text - 1 ? bytes->len : sizeof text - 1;
    *v = (struct etcd_value){0};
    if (size < 7 || memcmp(bytes->data, "snib 1\n", 7) != 0) {
        return;
    }
    memcpy(text, bytes->data, size);
    text[size] = '\0';
    for (int i = 0; i < 7; i++) {
        char *line = strsep(&rest, "\n");
        lines[i] = line ? line : none;
    }
    copy_line(v->who, sizeof v->who, lines[1]);
    copy_line(v->label, sizeof v->label, lines[2]);
    v->since_ms = strtoll(lines[3], NULL, 10);
    v->ttl_ms = strtoll(lines[4], NULL, 10);
    v->owner = strtoull(lines[5], NULL, 16);
    copy_line(v->broken, sizeof v->broken, lines[6]);
}
