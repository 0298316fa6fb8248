/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the layout `plain`.
 *
 *   PREFIX NAME                               the lock: the very key that other programs use
 *   PREFIX snib-fence:{PREFIX NAME}           its fence, in the same slot of a cluster
 *   PREFIX NAME :snib-fence                   the same, of a name that has a hash tag already
 *   PREFIX snib:freed:NAME                    who waits for it listens here
 *   PREFIX snib:inbox:... PREFIX snib:broken  as ever
 *
 * All begin with the prefix, so that one pattern of an ACL allows them. A name that would be
 * another one's fence is refused.
 */
#include "engines/redis/plain.h"
#include "engines/redis/tags.h"

#include <stdio.h>
#include <string.h>

#define MARK "snib-fence"

const struct snib__probe snib__plain_probes[] = {
    {.words = {"SET", "@", "probe", "PX", "1000"}},
    {.words = {"MGET", "@"}},
    {.words = {"GET", "@"}},
    {.words = {"SETRANGE", "@", "0", "probe"}},
    SNIB__PROBES_OF_PEERS,
};

const char *snib__plain_refuses(const char *prefix, const char *name)
{
    if (strpbrk(prefix, "{}") && !snib__key_tagged(prefix)) {
        return "a brace in prefix= that is no hash tag: the lock and its fence would be in two "
               "slots";
    }
    if (strncmp(name, MARK ":{", sizeof MARK + 1) == 0 || snib__key_ends(name, ":" MARK)) {
        return "this name is that of another lock's fence";
    }
    return NULL;
}

void snib__plain_key(char out[SNIB__KEY_MAX], const char *prefix, const char *name)
{
    snprintf(out, SNIB__KEY_MAX, "%.100s%.300s", prefix, name);
}

void snib__plain_fence(char out[SNIB__KEY_MAX], const char *prefix, const char *name)
{
    char key[SNIB__KEY_MAX];
    snib__plain_key(key, prefix, name);
    if (snib__key_tagged(key)) {
        snprintf(out, SNIB__KEY_MAX, "%.400s:" MARK, key);
    } else {
        snprintf(out, SNIB__KEY_MAX, "%.90s" MARK ":{%.400s}", prefix, key);
    }
}

void snib__plain_root(char out[SNIB__KEY_MAX], const char *prefix)
{
    snprintf(out, SNIB__KEY_MAX, "%.100ssnib", prefix);
}

void snib__plain_channel(char out[SNIB__KEY_MAX], const char *prefix, const char *name)
{
    snprintf(out, SNIB__KEY_MAX, "%.100ssnib:freed:%.300s", prefix, name);
}

/* The second one is the server's own, and silent unless notify-keyspace-events says otherwise. */
size_t snib__plain_channels(char out[SNIB__CHANNELS][SNIB__KEY_MAX], const char *prefix,
                            const char *database, const char *name)
{
    snib__plain_channel(out[0], prefix, name);
    snprintf(out[1], SNIB__KEY_MAX, "__keyspace@%.6s__:%.100s%.300s", database, prefix, name);
    return 2;
}

bool snib__plain_frees(size_t channel, const char *word)
{
    return channel == 0 || strcmp(word, "del") == 0 || strcmp(word, "expired") == 0 ||
           strcmp(word, "evicted") == 0 || strcmp(word, "rename_from") == 0;
}

void snib__plain_reach(char *out, size_t size, const char *prefix, const char *database)
{
    snprintf(out, size, "~%s* &%ssnib:* &__keyspace@%s__:%s*", prefix, prefix, database, prefix);
}

/* Of the fences: only what snib has used is listed, and nobody else's strings are read. */
void snib__plain_pattern(char out[2 * SNIB__KEY_MAX], const char *prefix, const char *name)
{
    (void)name;
    snib__pattern_escape(out, prefix);
    strcat(out, "*" MARK "*");
}

/* Of a fence, or of a lock. */
bool snib__plain_name_of(char out[SNIB__KEY_MAX], const char *prefix, const char *key)
{
    size_t before = strlen(prefix), size = strlen(key);
    char fence[SNIB__KEY_MAX];
    if (size <= before || size >= SNIB__KEY_MAX || strncmp(key, prefix, before) != 0) {
        return false;
    }
    const char *name = key + before;
    size_t length = size - before, head = strlen(MARK ":{") + before;
    if (strncmp(name, MARK ":{", strlen(MARK ":{")) == 0 && key[size - 1] == '}' &&
        length > head + 1 && strncmp(name + strlen(MARK ":{"), prefix, before) == 0) {
        name += head;
        length -= head + 1;
    } else if (snib__key_ends(key, ":" MARK) && length > strlen(":" MARK)) {
        length -= strlen(":" MARK);
    }
    memcpy(out, name, length);
    out[length] = '\0';
    snib__plain_fence(fence, prefix, out);
    return strcmp(fence, key) == 0 || name == key + before;
}
