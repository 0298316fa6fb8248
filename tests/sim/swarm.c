/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world for each seed. Every kind of trouble is switched on or off by the dice and then gets a
 * rate of its own: a world with everything at once hides what one fault does alone.
 */
#include "sim.h"

static int maybe(int percent, int most)
{
    return sim_chance(percent) ? 1 + (int)sim_roll((uint64_t)most) : 0;
}

static void draw_network(struct sim_config *c)
{
    static const int64_t delays_ms[] = {0, 1, 20, 200};
    c->delay_ms = delays_ms[sim_roll(4)];
    c->delay_ms = c->delay_ms > c->ttl_ms / 8 ? c->ttl_ms / 8 : c->delay_ms;
    c->slow = maybe(30, 20);
    c->lose = maybe(40, 20);
    c->lose_answer = maybe(40, 20);
    c->twice = maybe(30, 20);
    c->late = sim_chance(60);
    c->inside = sim_chance(25) ? (sim_chance(30) ? 100 : 50) : 0;
    c->refused = maybe(10, 10);
    c->no_memory = maybe(10, 15);
    c->lag_ms = sim_chance(30) ? c->ttl_ms / 50 : 0;
    c->slow_loop = sim_chance(25);
}

static void draw_faults(struct sim_config *c)
{
    c->between_faults_ms = sim_chance(75) ? c->ttl_ms / 2 : 0;
    c->pause = maybe(50, 4);
    c->suspend = maybe(25, 4);
    c->slew = maybe(25, 4);
    c->cut = maybe(40, 4);
    c->stall = maybe(40, 4);
    c->close = maybe(20, 2);
    c->evict = maybe(10, 3);
    c->end_session = maybe(15, 3);
    if (c->pause + c->suspend + c->slew + c->cut + c->stall + c->close + c->evict +
            c->end_session ==
        0) {
        c->between_faults_ms = 0;
    }
}

static void draw_users(struct sim_config *c)
{
    c->asks = 3 + (int)sim_roll(sim_chance(90) ? 13 : 40);
    c->shared = maybe(50, 80);
    c->try_once = maybe(50, 50);
    c->deadline = maybe(70, 70);
    c->cancel = maybe(50, 40);
    c->owner = maybe(50, 100);
    c->max_hold = maybe(30, 50);
    c->min_left = maybe(30, 50);
    c->no_renew = maybe(20, 40);
    c->mismatch = maybe(10, 30);
    c->hasty = maybe(30, 60);
    c->several = maybe(30, 40);
    c->by_hand = maybe(30, 60);
    c->released_async = maybe(40, 80);
    c->hold_ms = sim_chance(50) ? c->ttl_ms * 2 : c->ttl_ms / 4;
    c->gap_ms = c->ttl_ms / (c->asks > 15 ? 100 : sim_chance(50) ? 1 : 10);
}

/* Only clocks that differ and users that want something: here nothing may be lost. */
static void draw_clean(struct sim_config *c)
{
    c->clean = true;
    c->slow = c->lose = c->lose_answer = c->refused = c->no_memory = 0;
    c->pause = c->suspend = c->cut = c->stall = c->evict = c->end_session = 0;
    c->between_faults_ms = c->slew + c->close ? c->between_faults_ms : 0;
    int64_t most_ms = c->timeout_ms / 4 < c->ttl_ms / 40 ? c->timeout_ms / 4 : c->ttl_ms / 40;
    c->delay_ms = c->delay_ms > most_ms ? most_ms : c->delay_ms;
    c->lag_ms = c->lag_ms > most_ms ? most_ms : c->lag_ms;
}

void sim_draw_config(struct sim_config *c, uint64_t seed)
{
    static const int64_t ttls_ms[] = {150, 1000, 3000, 10000, 30000};
    world.dice = seed;
    sim_roll(2); /* seeds are small numbers: stir */
    *c = (struct sim_config){.seed = seed};
    c->machines = 1 + (int)sim_roll(MACHINES);
    c->names = 1 + (int)sim_roll(NAMES);
    c->style = (enum sim_style)sim_roll(3);
    c->leased = !sim_chance(15);
    c->ttl_ms = ttls_ms[sim_roll(5)];
    c->timeout_ms = c->ttl_ms / (sim_chance(50) ? 20 : 4);
    c->timeout_ms = c->timeout_ms < 10 ? 10 : c->timeout_ms;
    c->recheck_ms = c->ttl_ms / (sim_chance(50) ? 10 : 3);
    c->handover_ms = c->style == HANDS_OVER && sim_chance(40) ? c->ttl_ms / 4 : 0;
    for (int i = 0; i < c->names; i++) {
        c->permits[i] = sim_chance(25) ? 1 + (unsigned)sim_roll(3) : 0;
    }
    c->longer = c->leased && sim_chance(15) ? 1 + (int)sim_roll(100) : 0;
    if (sim_chance(10)) {
        c->fewer = sim_chance(50) ? SNIB_TRAIT_SHARED : SNIB_TRAIT_COUNTED;
    }
    c->span = c->leased && sim_chance(50) ? 2 + (unsigned)sim_roll(5) : 0;
    c->renewals = sim_chance(30) ? 1 + (unsigned)sim_roll(3) : 0;
    draw_network(c);
    draw_faults(c);
    draw_users(c);
    if (sim_chance(8)) {
        draw_clean(c);
    }
}
