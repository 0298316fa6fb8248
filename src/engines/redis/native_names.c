/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of the layout `native`: PREFIX:{NAME}. The braces are what a cluster hashes.
 */
#include "engines/redis/native.h"

#include <stdio.h>
#include <string.h>

const struct snib__probe snib__native_probes[] = {
    {.words = {"HSET", "@", "probe", "1"}},
    {.words = {"HGET", "@", "probe"}},
    {.words = {"HMGET", "@", "probe"}},
    {.words = {"HGETALL", "@"}},
    {.words = {"HEXISTS", "@", "probe"}},
    {.words = {"HDEL", "@", "probe"}},
    {.words = {"TIME"}},
    {.words = {"PUBSUB", "NUMSUB", "#"}},
    {.words = {"PUBLISH", "#", "probe"}},
    {.words = {"SCAN", "0", "MATCH", "@", "COUNT", "1"}, .optional = true},
    {.words = {"INFO", "server"}, .optional = true},
    {.words = {"CONFIG", "GET", "save"}, .optional = true},
    {.words = {"CONFIG", "GET", "appendfsync"}, .optional = true},
    {.words = {NULL}},
};

const char *snib__native_refuses(const char *prefix, const char *name)
{
    (void)prefix;
    (void)name;
    return NULL;
}

void snib__native_key(char out[SNIB__KEY_MAX], const char *prefix, const char *name)
{
    snprintf(out, SNIB__KEY_MAX, "%.100s:{%.300s}", prefix, name);
}

void snib__native_root(char out[SNIB__KEY_MAX], const char *prefix)
{
    snprintf(out, SNIB__KEY_MAX, "%.100s", prefix);
}

/* None: there is a line in the hash, and whoever is granted the lock is told so in its inbox. */
size_t snib__native_channels(char out[SNIB__CHANNELS][SNIB__KEY_MAX], const char *prefix,
                             const char *database, const char *name)
{
    (void)out;
    (void)prefix;
    (void)database;
    (void)name;
    return 0;
}

bool snib__native_frees(size_t channel, const char *word)
{
    (void)channel;
    (void)word;
    return false;
}

void snib__native_reach(char *out, size_t size, const char *prefix, const char *database)
{
    (void)database;
    snprintf(out, size, "~%s:* &%s:*", prefix, prefix);
}

void snib__native_pattern(char out[2 * SNIB__KEY_MAX], const char *prefix, const char *name)
{
    char start[SNIB__KEY_MAX];
    snprintf(start, sizeof start, "%s:{%s", prefix, name);
    snib__pattern_escape(out, start);
    strcat(out, "*}");
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
