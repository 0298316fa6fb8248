/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is written into nodes.
 *
 * Into a contender's: who it is and its label, for people and as UTF-8, because other libraries
 * read it as such. Somebody who wants a holder to give up adds a line. Curator's word for that, to
 * holders that say they can be asked, is "__REVOKE__" in place of everything: it is understood, and
 * used where the node is not of ours.
 *
 * Into a lock's: the token of the last exclusive holder. Its size never changes, so that a writer
 * that knows no more than the size does not overwrite somebody else's data.
 */
#include "engines/zookeeper/contender.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REVOKE "__REVOKE__"
#define MARK "\nbroken by "
#define RECORD "snib-token "

static void copy(char *out, size_t room, const char *from, size_t size)
{
    size = size < room - 1 ? size : room - 1;
    while (size > 0 && ((unsigned char)from[size] & 0xc0) == 0x80 && size == room - 1) {
        size--; /* not in the middle of a letter */
    }
    memcpy(out, from, size);
    out[size] = '\0';
}

void snib__zk_owner_read(struct snib__zk_owner *out, struct snib__zk_text data)
{
    static const char mark[] = MARK;
    *out = (struct snib__zk_owner){.broken = false};
    if (data.size == strlen(REVOKE) && memcmp(data.at, REVOKE, data.size) == 0) {
        out->broken = true;
        return;
    }
    const char *end = data.size ? memmem(data.at, data.size, mark, sizeof mark - 1) : NULL;
    size_t size = data.size;
    if (end) {
        const char *breaker = end + sizeof mark - 1;
        out->broken = true;
        copy(out->breaker, sizeof out->breaker, breaker, data.size - (size_t)(breaker - data.at));
        size = (size_t)(end - data.at);
    }
    const char *space = size ? memchr(data.at, ' ', size) : NULL;
    size_t who = space ? (size_t)(space - data.at) : size;
    copy(out->who, sizeof out->who, data.at, who);
    if (space) {
        copy(out->label, sizeof out->label, space + 1, size - who - 1);
    }
}

bool snib__zk_owner_mark(struct snib__zk_text data, const char *who, char out[SNIB__ZK_DATA_ROOM])
{
    struct snib__zk_owner owner;
    snib__zk_owner_read(&owner, data);
    const char *colon = strchr(owner.who, ':');
    if (owner.broken) {
        return false;
    }
    if (!colon || !memchr(data.at, ' ', data.size) || data.size > SNIB__ZK_DATA_ROOM / 2) {
        strcpy(out, REVOKE); /* not of ours */
        return true;
    }
    snprintf(out, SNIB__ZK_DATA_ROOM, "%.*s" MARK "%s", (int)data.size, data.at, who);
    return true;
}

void snib__zk_record_write(const struct snib__zk_record *record, char out[SNIB__ZK_RECORD_SIZE + 1])
{
    int n = snprintf(out, SNIB__ZK_RECORD_SIZE + 1, RECORD "%020llu %010lld",
                     (unsigned long long)record->token, (long long)record->sequence);
    assert(n == SNIB__ZK_RECORD_SIZE);
    (void)n;
}

bool snib__zk_record_read(struct snib__zk_record *out, struct snib__zk_text data)
{
    char text[SNIB__ZK_RECORD_SIZE + 1], *end;
    *out = (struct snib__zk_record){.sequence = -1};
    if (data.size != SNIB__ZK_RECORD_SIZE || memcmp(data.at, RECORD, strlen(RECORD)) != 0) {
        return false;
    }
    memcpy(text, data.at, data.size);
    text[data.size] = '\0';
    out->token = strtoull(text + strlen(RECORD), &end, 10);
    out->sequence = *end == ' ' ? strtoll(end + 1, &end, 10) : -1;
    return *end == '\0' && out->token > 0 && out->sequence >= 0;
}
