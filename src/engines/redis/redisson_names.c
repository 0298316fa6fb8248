/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the layout `redisson`, by Redisson's own rule: what belongs to a lock has the lock's
 * name in braces, unless a brace is in the name already.
 *
 *   NAME                             the lock
 *   redisson_lock_token:{NAME}       the counter of RFencedLock
 *   redisson_lock_queue:{NAME}       who waits for an RFairLock
 *   redisson_lock__channel:{NAME}    who waits for an RLock listens here
 *   redisson_rwlock:{NAME}           who waits for an RReadWriteLock
 *   {NAME}:FIELD:rwlock_timeout:1    the lease of a reader of one; ours also of a writer
 *   {NAME}:snib-fence                ours; NAME:snib-fenced of one with a brace
 *
 * The rule looks for a brace, and a cluster for a hash tag: a name with the one and without the
 * other has its parts in several slots, and Redisson can lock it there but not unlock it. It is
 * refused.
 */
#include "engines/redis/plain.h"
#include "engines/redis/redisson.h"
#include "engines/redis/rwlock.h"
#include "engines/redis/tags.h"

#include <stdio.h>
#include <string.h>

#define MARK ":snib-fence"
#define COUNTER "redisson_lock_token"

const struct snib__probe snib__redisson_probes[] = {
    {.words = {"HSET", "@", "probe", "1"}},
    {.words = {"HMGET", "@", "probe"}},
    {.words = {"HGETALL", "@"}},
    {.words = {"HEXISTS", "@", "probe"}},
    {.words = {"EXISTS", "@"}},
    SNIB__PROBES_OF_PEERS,
};

const struct snib__probe snib__rwlock_probes[] = {
    {.words = {"HSET", "@", "probe", "1"}},
    {.words = {"HMGET", "@", "probe"}},
    {.words = {"HGETALL", "@"}},
    {.words = {"HKEYS", "@"}},
    {.words = {"HDEL", "@", "other"}},
    {.words = {"EXISTS", "@"}},
    SNIB__PROBES_OF_PEERS,
};

/* The id as a UUID, and its last byte as the number of a thread. */
void snib__redisson_field(char out[SNIB__REDISSON_FIELD], const unsigned char id[SNIB__ID_SIZE])
{
    char digits[SNIB__PLAIN_ID + 1];
    snib__plain_id(digits, id);
    snprintf(out, SNIB__REDISSON_FIELD, "%.8s-%.4s-%.4s-%.4s-%.12s:%d", digits, digits + 8,
             digits + 12, digits + 16, digits + 20, id[SNIB__ID_SIZE - 1]);
}

const char *snib__redisson_refuses(const char *prefix, const char *name)
{
    char key[SNIB__KEY_MAX];
    snib__plain_key(key, prefix, name);
    if (strchr(key, '{') && !snib__key_tagged(key)) {
        return "a brace in the name, or in prefix=, that is no hash tag: Redisson cannot unlock "
               "that in a "
               "cluster";
    }
    if (snib__key_ends(name, MARK) || snib__key_ends(name, MARK "d") ||
        strncmp(key, "redisson_lock_", strlen("redisson_lock_")) == 0) {
        return "this name belongs to another lock";
    }
    return NULL;
}

/* BEFORE:{NAME}, or BEFORE:NAME */
static void behind(char out[SNIB__KEY_MAX], const char *before, const char *prefix,
                   const char *name)
{
    char key[SNIB__KEY_MAX];
    snib__plain_key(key, prefix, name);
    snprintf(out, SNIB__KEY_MAX, strchr(key, '{') ? "%.40s:%.440s" : "%.40s:{%.440s}", before, key);
}

void snib__redisson_fence(char out[SNIB__KEY_MAX], const char *prefix, const char *name)
{
    char key[SNIB__KEY_MAX];
    snib__plain_key(key, prefix, name);
    snprintf(out, SNIB__KEY_MAX, strchr(key, '{') ? "%.440s" MARK "d" : "{%.440s}" MARK, key);
}

void snib__redisson_counter(char out[SNIB__KEY_MAX], const char *prefix, const char *name)
{
    behind(out, COUNTER, prefix, name);
}

void snib__redisson_queue(char out[SNIB__KEY_MAX], const char *prefix, const char *name)
{
    behind(out, "redisson_lock_queue", prefix, name);
}

/* The second one is the server's own, and silent unless notify-keyspace-events says otherwise. */
size_t snib__redisson_channels(char out[SNIB__CHANNELS][SNIB__KEY_MAX], const char *prefix,
                               const char *database, const char *name)
{
    behind(out[0], "redisson_lock__channel", prefix, name);
    snprintf(out[1], SNIB__KEY_MAX, "__keyspace@%.6s__:%.100s%.300s", database, prefix, name);
    return 2;
}

size_t snib__rwlock_channels(char out[SNIB__CHANNELS][SNIB__KEY_MAX], const char *prefix,
                             const char *database, const char *name)
{
    size_t count = snib__redisson_channels(out, prefix, database, name);
    behind(out[0], "redisson_rwlock", prefix, name);
    return count;
}

/* {NAME}: or NAME: */
void snib__rwlock_before(char out[SNIB__KEY_MAX], const char *prefix, const char *name)
{
    char key[SNIB__KEY_MAX];
    snib__plain_key(key, prefix, name);
    snprintf(out, SNIB__KEY_MAX, strchr(key, '{') ? "%.400s:" : "{%.400s}:", key);
}

/* Without a prefix the first is all keys, and a server refuses others behind that. */
static void reach(char *out, size_t size, const char *const parts[], const char *prefix,
                  const char *database)
{
    size_t used = 0;
    for (size_t i = 0; parts[i] && used < size; i++) {
        if (i == 0 || prefix[0] || parts[i][0] != '~') {
            used += (size_t)snprintf(out + used, size - used, "%s%s* ", parts[i], prefix);
        }
    }
    if (used < size) {
        snprintf(out + used, size - used, "&%ssnib:* &__keyspace@%s__:%s*", prefix, database,
                 prefix);
    }
}

void snib__redisson_reach(char *out, size_t size, const char *prefix, const char *database)
{
    static const char *const parts[] = {"~",
                                        "~{",
                                        "~" COUNTER ":{",
                                        "~" COUNTER ":",
                                        "~redisson_lock_queue:{",
                                        "~redisson_lock_queue:",
                                        "&redisson_lock__channel:{",
                                        "&redisson_lock__channel:",
                                        NULL};
    reach(out, size, parts, prefix, database);
}

void snib__rwlock_reach(char *out, size_t size, const char *prefix, const char *database)
{
    static const char *const parts[] = {
        "~", "~{", "~" COUNTER ":{", "~" COUNTER ":", "&redisson_rwlock:{", "&redisson_rwlock:",
        NULL};
    reach(out, size, parts, prefix, database);
}

/* Of the counters: only what was ever fenced, by us or by them, is listed. */
void snib__redisson_pattern(char out[2 * SNIB__KEY_MAX], const char *prefix, const char *name)
{
    char escaped[SNIB__KEY_MAX];
    (void)name;
    snib__pattern_escape(escaped, prefix);
    snprintf(out, (size_t)2 * SNIB__KEY_MAX, COUNTER ":*%.400s*", escaped);
}

/* Of a counter, or of a lock. */
bool snib__redisson_name_of(char out[SNIB__KEY_MAX], const char *prefix, const char *key)
{
    char counter[SNIB__KEY_MAX];
    size_t head = strlen(COUNTER ":"), before = strlen(prefix);
    bool counts = strncmp(key, COUNTER ":", head) == 0;
    const char *name = counts ? key + head : key;
    size_t size = strlen(name);
    if (counts && name[0] == '{' && size > 2 && name[size - 1] == '}' &&
        !strchr(name + 1, '{')) { /* the braces may be the name's own */
        name++;
        size -= 2;
    }
    if (size <= before || size >= SNIB__KEY_MAX || strncmp(name, prefix, before) != 0) {
        return false;
    }
    memcpy(out, name + before, size - before);
    out[size - before] = '\0';
    snib__redisson_counter(counter, prefix, out);
    return !counts || strcmp(counter, key) == 0;
}
