/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ZOOKEEPER_NAMES_H
#define SNIB_ZOOKEEPER_NAMES_H

/*
 * Names of nodes: a lock's, below the base path, and a contender's, below the lock's.
 */

#include "engines/zookeeper/wire.h"

enum {
    SNIB__ZK_BASE_MOST = 255,
    SNIB__ZK_LOCK_MOST = 600,    /* a name of 200 bytes, all of them escaped */
    SNIB__ZK_NODE_MOST = 96,     /* a contender's, of ours */
    SNIB__ZK_SIBLING_MOST = 250, /* anybody's: longer ones are strangers */
    SNIB__ZK_PATH_ROOM = 1200,
    SNIB__ZK_GUID_SIZE = 36
};

/* Whose names new nodes get. All of them are understood. */
enum snib__zk_dialect { SNIB__ZK_CURATOR, SNIB__ZK_CURATOR_RW, SNIB__ZK_KAZOO };

/* What a child of a lock's node is. */
enum snib__zk_sort {
    SNIB__ZK_STRANGER, /* none of ours, and none that anybody waits for */
    SNIB__ZK_MUTEX,    /* Curator's mutex, Go's, and ours */
    SNIB__ZK_WRITER,   /* Curator's read/write lock */
    SNIB__ZK_READER,
    SNIB__ZK_KAZOO_LOCK,
    SNIB__ZK_KAZOO_READER,
    SNIB__ZK_PERMIT /* our own counted lock */
};

struct snib__zk_contender_name {
    enum snib__zk_sort sort;
    int64_t sequence;
    unsigned permits; /* of a PERMIT */
};

static inline bool snib__zk_reads(enum snib__zk_sort sort)
{
    return sort == SNIB__ZK_READER || sort == SNIB__ZK_KAZOO_READER;
}

/* The node of a lock's name. `top`: directly below the root, where "zookeeper" is taken. */
void snib__zk_encode(const char *name, bool top, char out[SNIB__ZK_LOCK_MOST + 1]);

/* The name back, at most 200 bytes; false: not a node that encode makes. */
bool snib__zk_decode(struct snib__zk_text node, bool top, char out[201]);

struct snib__zk_contender_name snib__zk_parse(struct snib__zk_text node);

/* All but the sequence number, which the server appends. `mode` is of enum snib_mode. */
void snib__zk_stem(char out[SNIB__ZK_NODE_MOST], enum snib__zk_dialect, int mode, unsigned permits,
                   const unsigned char owner[16]);

/* guid.c: a UUID that is the owner id's alone and does not give it away. */
void snib__zk_guid(const unsigned char owner[16], char out[SNIB__ZK_GUID_SIZE + 1]);

#endif
