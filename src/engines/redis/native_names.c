/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of the layout `native`: PREFIX:{NAME}. The braces are what a cluster hashes.
 */
#include "engines/redis/native.h"

#include <stdio.h>
#include <string.h>

void snib__native_key(struct snib__command *c, const struct snib__wish *wish)
{
    snib__command_format(c, "%s:{%s}", wish->prefix, wish->name);
}

void snib__native_pattern(char out[2 * SNIB__KEY_MAX], const char *prefix, const char *name)
{
    char start[SNIB__KEY_MAX];
    size_t n = 0;
    snprintf(start, sizeof start, "%s:{%s", prefix, name);
    for (const char *p = start; *p && n + 5 < (size_t)2 * SNIB__KEY_MAX; p++) {
        if (strchr("*?[]^-\\", *p)) {
            out[n++] = '\\';
        }
        out[n++] = *p;
    }
    strcpy(out + n, "*}");
}

bool snib__native_name_of(char out[SNIB__KEY_MAX], const char *prefix, const char *key)
{
    size_t before = strlen(prefix), size = strlen(key);
    if (size < before + 4 || strncmp(key, prefix, before) != 0 || key[before] != ':' ||
        key[before + 1] != '{' || key[size - 1] != '}') {
        return false;
    }
    size_t length = size - before - 3;
    if (length >= SNIB__KEY_MAX) {
        return false;
    }
    memcpy(out, key + before + 2, length);
    out[length] = '\0';
    return true;
}
