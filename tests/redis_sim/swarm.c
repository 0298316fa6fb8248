/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world for each seed. Every kind of trouble is switched on or off by the dice and then gets a
 * rate of its own: a world with everything at once hides what one fault does alone.
 */
#include "world.h"

static int maybe(int percent, int most)
{
    return chance(percent) ? 1 + (int)roll((uint64_t)most) : 0;
}

static void draw_faults(struct config *c)
{
    c->between_faults_ms = c->ttl_ms / (2 << roll(3));
    c->pause = maybe(30, 4);
    c->suspend = maybe(10, 3);
    c->slew = maybe(15, 3);
    c->kill = maybe(20, 3);
    c->close = maybe(15, 2);
    c->cut = maybe(30, 4);
    c->hole = maybe(25, 4);
    c->server_pause = maybe(12, 3);
    c->busy = maybe(15, 3);
    c->loading = maybe(8, 2);
    c->memory = maybe(10, 3);
    c->restart = maybe(10, 2);
    c->lose_data = chance(60) ? 100 : 0;
    c->failover = maybe(10, 3);
    c->lag = chance(50) ? 100 : 0;
    c->step_back = maybe(10, 3);
    c->step_forward = maybe(5, 2);
    c->forget_scripts = maybe(15, 2);
    c->break_lock = maybe(10, 3);
    c->seize = maybe(5, 2);
    c->slew += 1; /* at least something */
}

static void draw_users(struct config *c)
{
    c->asks = 2 + (int)roll(chance(90) ? 5 : 16);
    c->shared = maybe(40, 80);
    c->try_once = maybe(30, 50);
    c->deadline = maybe(50, 60);
    c->cancel = maybe(40, 40);
    c->max_hold = maybe(10, 50);
    c->no_renew = maybe(10, 40);
    c->own_ttl = maybe(30, 60);
    c->mismatch = maybe(5, 30);
    c->hold_ms = chance(60) ? c->ttl_ms / 4 : c->ttl_ms;
    c->gap_ms = c->ttl_ms / (chance(50) ? 4 : 20);
}

void fit_layout(struct config *c, enum snib__layout_row row)
{
    c->layout = row;
    if (row == SNIB__LAYOUT_NATIVE) {
        return;
    }
    c->strangers = c->seed % 2;
    c->shared = c->mismatch = 0;
    for (int i = 0; i < NAMES; i++) {
        c->permits[i] = 0;
    }
}

void draw_config(struct config *c, uint64_t seed)
{
    static const int64_t ttls_ms[] = {1000, 3000, 3000, 10000};
    static const int64_t delays_ms[] = {0, 1, 10, 60};
    world.dice = seed;
    roll(2); /* seeds are small numbers: stir */
    *c = (struct config){.seed = seed};
    c->machines = 1 + (int)roll(MACHINES);
    c->names = 1 + (int)roll(NAMES);
    c->ttl_ms = ttls_ms[roll(4)];
    c->timeout_ms = c->ttl_ms / (chance(50) ? 10 : 4);
    c->max_lease_ms = c->ttl_ms;
    c->retention_ms = chance(50) ? 1000 : 3600000;
    c->version = chance(50) ? 6 : 7;
    c->quarantine = chance(50);
    c->seen = chance(80);
    c->passing = chance(40);
    c->password = chance(15);
    c->greedy = c->password && chance(50);
    c->database = chance(15);
    c->no_client = chance(10);
    c->aof = chance(10);
    for (int i = 0; i < c->names; i++) {
        c->permits[i] = chance(20) ? 1 + (unsigned)roll(3) : 0;
    }
    c->delay_ms = delays_ms[roll(4)];
    c->delay_ms = c->delay_ms > c->timeout_ms / 8 ? c->timeout_ms / 8 : c->delay_ms;
    c->lag_ms = chance(20) ? c->ttl_ms / 100 : 0;
    draw_users(c);
    if (chance(20)) {
        c->clean = true;
        c->delay_ms = c->delay_ms > 10 ? 10 : c->delay_ms;
        c->pieces = maybe(30, 20);
        return;
    }
    c->slow = maybe(25, 10);
    c->pieces = maybe(25, 20);
    c->full = maybe(15, 10);
    draw_faults(c);
}
