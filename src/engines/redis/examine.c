/* SPDX-License-Identifier: Apache-2.0 */
#include "engines/redis/examine.h"

void snib__examine(struct snib__query *query)
{
    struct snib__redis *r = snib__redis_of(query->session);
    snib_finding finding = {.verdict = SNIB_GOOD, .about = "server", .text = r->settings.where};
    snib__found(query, &finding);
    snib__finish(query, SNIB_OK, 0, NULL);
}

void snib__examine_reply(struct snib__redis *r, struct snib__call *call,
                         const struct snib__reply *reply)
{
    (void)r;
    (void)call;
    (void)reply;
}

void snib__examine_lost(struct snib__redis *r, struct snib__call *call, enum snib__loss how)
{
    (void)r;
    (void)call;
    (void)how;
}

int64_t snib__examine_keep_time(struct snib__redis *r, int64_t now_ns)
{
    (void)r;
    (void)now_ns;
    return SNIB__NEVER;
}

void snib__examine_close(struct snib__redis *r)
{
    (void)r;
}
