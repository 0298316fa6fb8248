/* SPDX-License-Identifier: Apache-2.0 */
#include "engines/zookeeper/examine.h"

void snib__zk_examine(struct snib__query *query)
{
    snib__finish(query, SNIB_OK, 0, NULL);
}

size_t snib__zk_examine_poll(struct snib__zk *z, struct pollfd *p)
{
    (void)z;
    (void)p;
    return 0;
}

void snib__zk_examine_step(struct snib__zk *z, short revents)
{
    (void)z;
    (void)revents;
}

void snib__zk_examine_tick(struct snib__zk *z, int64_t now_ns)
{
    (void)z;
    (void)now_ns;
}

void snib__zk_examine_end(struct snib__zk *z)
{
    (void)z;
}
