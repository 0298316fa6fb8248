/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's clock. Each answer brings it along; as an interval against our own it gives the
 * not-after times of requests, and shows when it jumped.
 */
#include "engines/redis/server_clock.h"

#define JUMP_MS 1000

void snib__server_clock_learn(struct snib__server_clock *c, struct snib__instant sent,
                              int64_t heard_ns, int64_t server_ms)
{
    int64_t low_ms = server_ms - heard_ns / SNIB__MS - 1;
    int64_t high_ms = server_ms - sent.boot_ns / SNIB__MS + 1;
    if (c->known && low_ms > c->high_ms + JUMP_MS) {
        c->jump_ms = low_ms - c->high_ms;
    } else if (c->known && high_ms < c->low_ms - JUMP_MS) {
        c->jump_ms = high_ms - c->low_ms;
    }
    c->known = true;
    c->low_ms = low_ms;
    c->high_ms = high_ms;
}

int64_t snib__server_clock_latest_ms(const struct snib__server_clock *c, struct snib__instant sent,
                                     int64_t after_ms)
{
    return c->known ? sent.boot_ns / SNIB__MS + c->high_ms + after_ms : 0;
}

int64_t snib__server_clock_least_ms(const struct snib__server_clock *c)
{
    return snib__now().boot_ns / SNIB__MS + c->low_ms;
}

int64_t snib__server_clock_about_ms(const struct snib__server_clock *c)
{
    return snib__now().boot_ns / SNIB__MS + (c->low_ms + c->high_ms) / 2;
}
