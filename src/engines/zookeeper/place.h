/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ZOOKEEPER_PLACE_H
#define SNIB_ZOOKEEPER_PLACE_H

/*
 * Who of the children of a lock's node is in the way of one of them.
 */

#include "engines/zookeeper/names.h"

struct snib__zk_self {
    const char *node; /* "": not known */
    int64_t sequence;
    int mode; /* enum snib_mode */
    unsigned permits;
};

struct snib__zk_place {
    bool listed;      /* it is there itself */
    bool clash;       /* somebody before it uses the lock as another kind */
    bool held;        /* nobody is in the way */
    unsigned before;  /* contenders with smaller numbers */
    unsigned holders; /* of those before it, if it is not held */
    unsigned in_the_way;
    int64_t first_reader; /* the smallest number of a reader, its own included; -1: none */
    unsigned clash_permits;
    unsigned sorts; /* bits 1 << sort of all contenders but itself and readers of snib's */
    struct snib__zk_text next; /* of those in the way, the nearest */
    enum snib__zk_sort next_sort;
    struct snib__zk_text first; /* of all before it */
    enum snib__zk_sort first_sort;
    struct snib__zk_stat parent;
};

/* From an answer to CHILDREN; the texts point into it. False: not such an answer. */
bool snib__zk_place(struct snib__zk_reader *, const struct snib__zk_self *,
                    struct snib__zk_place *out);

/* The child whose name starts with this; false: none. */
bool snib__zk_find(struct snib__zk_reader *, const char *stem, struct snib__zk_text *out);

#endif
