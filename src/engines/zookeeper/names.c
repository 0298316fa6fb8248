/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of nodes.
 *
 * A lock's node is its name, so that clients of other libraries can use the same path; what the
 * server would refuse or take for a path is written as %XX: '/', the letters that it does not allow
 * (beyond the first 65,536, private ones, some others), "." and "..", and '%' itself.
 *
 * A contender's node ends in the number the server gave it, behind a word that says what it is:
 *
 *     _c_UUID-lock-0000000007         Curator's mutex, Go's          exclusive
 *     _c_UUID-__WRIT__0000000007      Curator's read/write lock      exclusive
 *     _c_UUID-__READ__0000000007                                     shared
 *     UUID__lock__0000000007          kazoo                          exclusive
 *     UUID__rlock__0000000007                                        shared
 *     _c_UUID-permits-3-0000000007    ours alone                     counted, one of 3
 *
 * Whatever else is there is a stranger: never waited for, never in the way.
 */
#include "engines/zookeeper/names.h"

#include "snib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Locks -------------------------------------------------------------------------------- */

/* How many bytes from here on the server would not take; 0: it takes this one. The text is UTF-8:
 * checked by the core. */
static size_t refused(const unsigned char *p)
{
    if (*p == '/' || *p == '%') {
        return 1;
    }
    if (*p >= 0xf0) {
        return 4;
    }
    bool private = *p == 0xee || (*p == 0xef && p[1] <= 0xa3);
    bool special = *p == 0xef && p[1] == 0xbf && p[2] >= 0xb0;
    return private || special ? 3 : 0;
}

void snib__zk_encode(const char *name, bool top, char out[SNIB__ZK_LOCK_MOST + 1])
{
    static const char digits[] = "0123456789ABCDEF";
    const unsigned char *p = (const unsigned char *)name;
    bool taken = strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
                 (top && strcmp(name, "zookeeper") == 0);
    size_t escape = taken ? 1 : 0;
    while (*p) {
        escape = escape ? escape : refused(p);
        if (escape == 0) {
            *out++ = (char)*p++;
            continue;
        }
        for (; escape > 0 && *p; escape--, p++) {
            *out++ = '%';
            *out++ = digits[*p >> 4];
            *out++ = digits[*p & 15];
        }
    }
    *out = '\0';
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool snib__zk_decode(struct snib__zk_text node, bool top, char out[201])
{
    char again[SNIB__ZK_LOCK_MOST + 1];
    size_t n = 0;
    for (size_t i = 0; i < node.size; i++) {
        char c = node.at[i];
        if (c == '%') {
            int high = i + 2 < node.size ? digit_of(node.at[i + 1]) : -1;
            int low = high >= 0 ? digit_of(node.at[i + 2]) : -1;
            if (low < 0) {
                return false;
            }
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (n == 200 || c == '\0') {
            return false;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    snib__zk_encode(out, top, again);
    return n > 0 && strlen(again) == node.size && memcmp(again, node.at, node.size) == 0;
}

/* ---- Contenders --------------------------------------------------------------------------- */

static bool ends_with(const char *at, size_t size, const char *word)
{
    size_t length = strlen(word);
    return size >= length && memcmp(at + size - length, word, length) == 0;
}

/* "...-permits-3-" */
static bool parse_permits(const char *at, size_t size, unsigned *permits)
{
    unsigned long value = 0;
    size_t first = size - 1;
    if (size == 0 || at[size - 1] != '-') {
        return false;
    }
    while (first > 0 && at[first - 1] >= '0' && at[first - 1] <= '9') {
        first--;
    }
    if (first == size - 1 || size - 1 - first > 9 || !ends_with(at, first, "-permits-")) {
        return false;
    }
    for (size_t i = first; i < size - 1; i++) {
        value = value * 10 + (unsigned long)(at[i] - '0');
    }
    *permits = (unsigned)value;
    return value > 0;
}

/* What it is, without the number. */
static enum snib__zk_sort sort_of(const char *at, size_t size, unsigned *permits)
{
    static const struct {
        const char *word;
        enum snib__zk_sort sort;
    } words[] = {{"lock-", SNIB__ZK_MUTEX},
                 {"__WRIT__", SNIB__ZK_WRITER},
                 {"__READ__", SNIB__ZK_READER},
                 {"__lock__", SNIB__ZK_KAZOO_LOCK},
                 {"__rlock__", SNIB__ZK_KAZOO_READER}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (ends_with(at, size, words[i].word)) {
            return words[i].sort;
        }
    }
    return parse_permits(at, size, permits) ? SNIB__ZK_PERMIT : SNIB__ZK_STRANGER;
}

struct snib__zk_contender_name snib__zk_parse(struct snib__zk_text node)
{
    struct snib__zk_contender_name out = {.sort = SNIB__ZK_STRANGER};
    size_t first = node.size;
    int64_t number = 0;
    while (first > 0 && node.size - first < 10 && node.at[first - 1] >= '0' &&
           node.at[first - 1] <= '9') {
        first--;
    }
    if (node.size - first < 9 || node.size > SNIB__ZK_SIBLING_MOST) {
        return out;
    }
    for (size_t i = first; i < node.size; i++) {
        number = number * 10 + (node.at[i] - '0');
    }
    out.sequence = number;
    out.sort = sort_of(node.at, first, &out.permits);
    if (out.sort == SNIB__ZK_STRANGER && first > 0 && node.at[first - 1] == '-') {
        out.sequence = -number; /* the server's counter has run over */
        out.sort = sort_of(node.at, first - 1, &out.permits);
    }
    return out;
}

void snib__zk_stem(char out[SNIB__ZK_NODE_MOST], enum snib__zk_dialect dialect, int mode,
                   unsigned permits, const unsigned char owner[16])
{
    char guid[SNIB__ZK_GUID_SIZE + 1];
    snib__zk_guid(owner, guid);
    if (mode == SNIB_COUNTED) {
        snprintf(out, SNIB__ZK_NODE_MOST, "_c_%s-permits-%u-", guid, permits);
    } else if (dialect == SNIB__ZK_KAZOO) {
        snprintf(out, SNIB__ZK_NODE_MOST, "%.8s%.4s%.4s%.4s%s%s", guid, guid + 9, guid + 14,
                 guid + 19, guid + 24, mode == SNIB_SHARED ? "__rlock__" : "__lock__");
    } else {
        const char *writes = dialect == SNIB__ZK_CURATOR_RW ? "__WRIT__" : "lock-";
        snprintf(out, SNIB__ZK_NODE_MOST, "_c_%s-%s", guid,
                 mode == SNIB_SHARED ? "__READ__" : writes);
    }
}
