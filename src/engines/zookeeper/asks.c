/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a contender asks of the service. A request for which there is no memory ends the connection:
 * after it, what was not asked is asked again.
 */
#include "engines/zookeeper/asks.h"

#include <stdio.h>
#include <string.h>

/* A request was appended, or there was no memory for it: then the connection ends. */
void snib__contender_asked(struct snib__contender *c, bool done)
{
    if (done) {
        c->under_way++;
        c->calls++;
    } else {
        snib__zk_link_end(&c->zk->at.link, 0, "out of memory");
    }
}

void snib__contender_ask(struct snib__contender *c, enum snib__zk_kind kind, enum snib__zk_op op,
                         const char *node, bool watch)
{
    char path[SNIB__ZK_PATH_ROOM];
    snib__contender_path(c, node, path);
    snib__contender_asked(c, snib__zk_ask(&c->zk->at, kind, c, op, path, watch));
}

/* Is our name there? The answer knows of everything that was done before. */
void snib__contender_ask_find(struct snib__contender *c)
{
    struct snib__zk_session *at = &c->zk->at;
    struct snib__instant now = snib__now();
    snib__contender_asked(c, snib__zk_ask_proof(at, c->lock, now) &&
                                 snib__zk_ask_since(at, SNIB__ZK_ASK_FIND, c, SNIB__ZK_CHILDREN,
                                                    c->lock, false, now));
}

/* What becomes of a node that is held. Nothing waits for the answer. */
void snib__contender_ask_self(struct snib__contender *c)
{
    snib__contender_ask(c, SNIB__ZK_ASK_SELF, SNIB__ZK_GET_DATA, c->node, true);
    c->under_way--;
}

void snib__contender_ask_list(struct snib__contender *c)
{
    bool watch = c->mode == SNIB_COUNTED && c->claim->may_queue;
    snib__contender_ask(c, SNIB__ZK_ASK_LIST, SNIB__ZK_CHILDREN, "", watch);
    if (c->mode == SNIB_SHARED) {
        snib__contender_ask(c, SNIB__ZK_ASK_RECORD, SNIB__ZK_GET_DATA, "", false);
    }
}

/* Every node on the way to the lock's, and that one. Who has them already says so. */
static void ask_parents(struct snib__contender *c)
{
    struct snib__zk *z = c->zk;
    struct snib__zk_creation creation = {
        .op = z->no_containers ? SNIB__ZK_CREATE : SNIB__ZK_CONTAINER,
        .data = "",
        .rights = z->rights,
        .flags = z->no_containers ? SNIB__ZK_PERSISTENT : SNIB__ZK_IS_CONTAINER,
    };
    char path[SNIB__ZK_PATH_ROOM];
    const char *end = c->lock;
    do {
        end = strchrnul(end + 1, '/');
        snprintf(path, sizeof path, "%.*s", (int)(end - c->lock), c->lock);
        creation.path = path;
        snib__contender_asked(c, snib__zk_ask_create(&z->at, SNIB__ZK_ASK_PARENT, c, &creation));
    } while (*end);
}

void snib__contender_ask_create(struct snib__contender *c)
{
    struct snib__zk *z = c->zk;
    char path[SNIB__ZK_PATH_ROOM], data[SNIB__ZK_DATA_ROOM];
    snprintf(data, sizeof data, "%s %s", z->who, c->claim->label);
    snib__contender_path(c, c->stem, path);
    c->denied = false;
    if (c->needs_parents) {
        c->needs_parents = false;
        ask_parents(c);
    }
    struct snib__zk_creation creation = {
        .op = SNIB__ZK_CREATE2,
        .path = path,
        .data = data,
        .rights = z->rights,
        .flags = SNIB__ZK_EPHEMERAL_SEQUENTIAL,
    };
    c->presence = SNIB__ZK_MAKING;
    c->standing = SNIB__ZK_UNPLACED;
    c->sent = true;
    c->deleting = c->broken = c->was_held = false;
    snib__contender_asked(c, snib__zk_ask_create(&z->at, SNIB__ZK_ASK_CREATE, c, &creation));
    snib__contender_ask_list(c);
}

void snib__contender_ask_watch(struct snib__contender *c)
{
    if (strcmp(c->first, c->next) != 0) {
        snib__contender_ask(c, SNIB__ZK_ASK_RIVAL, SNIB__ZK_GET_DATA, c->first, false);
    }
    snib__contender_ask(c, SNIB__ZK_ASK_WATCH, SNIB__ZK_GET_DATA, c->next, true);
}

void snib__contender_ask_delete(struct snib__contender *c)
{
    struct snib__zk *z = c->zk;
    char path[SNIB__ZK_PATH_ROOM], data[SNIB__ZK_RECORD_SIZE + 1];
    bool records = c->was_held && c->mode == SNIB_EXCLUSIVE && c->recordable && !z->no_records;
    if (c->refusal.status == SNIB__BUSY && c->first[0]) {
        snib__contender_ask(c, SNIB__ZK_ASK_RIVAL, SNIB__ZK_GET_DATA, c->first, false);
    }
    snib__contender_path(c, c->node, path);
    c->recording = records;
    if (records) {
        struct snib__zk_record record = {.token = c->token, .sequence = c->sequence};
        snib__zk_record_write(&record, data);
        snib__contender_asked(
            c, snib__zk_ask_set_and_delete(&z->at, SNIB__ZK_ASK_DELETE, c, c->lock, data, path));
    } else {
        snib__contender_asked(c, snib__zk_ask_delete(&z->at, SNIB__ZK_ASK_DELETE, c, path));
    }
}
