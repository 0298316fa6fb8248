/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What snib asks a server for, without snib around it; docs/redis-protocol.md has what is where.
 */
#ifndef SNIB_BENCH_REDIS_REQUEST_H
#define SNIB_BENCH_REDIS_REQUEST_H

#include "engines/redis/packed.h"

enum { ID_SIZE = 17 };

struct request {
    char bytes[200];
    size_t size;
};

/* An exclusive attempt, for 30 s; inbox "": not willing to wait. */
static inline struct request request_of(const char id[ID_SIZE], const char *inbox)
{
    static const char info[] = "vm:1234 nightly";
    struct request r;
    char *to = snib__pack_bytes(r.bytes, id, ID_SIZE);
    *to++ = 'x';
    to = snib__pack(to, 30000, 4);   /* ttl */
    to = snib__pack(to, 3600000, 4); /* retention */
    to = snib__pack(to, 0, 8);       /* not after */
    to = snib__pack(to, 1, 4);       /* tokens */
    to = snib__pack(to, strlen(inbox), 1);
    to = snib__pack(to, 0, 4);    /* permits */
    to = snib__pack(to, 5000, 4); /* lease of the ticket */
    to = snib__pack(to, 2500, 4); /* hand-over lease */
    to = snib__pack(to, 1, 4);    /* turn */
    to = snib__pack_bytes(to, inbox, strlen(inbox));
    to = snib__pack_bytes(to, info, sizeof info - 1);
    r.size = (size_t)(to - r.bytes);
    return r;
}

#endif
