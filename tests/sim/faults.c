/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to machines: they are stopped, sent to sleep, cut off, killed; their clocks are
 * bent; somebody takes a lock away behind their back.
 *
 * Clocks keep to what the core assumes: the larger of both elapsed times is never more than 10 %
 * short. So either BOOTTIME is slewed by 9 % more than RAW and the machine never sleeps, or it
 * may sleep (RAW stands still) and BOOTTIME is within 5 %.
 */
#include "sim.h"

static int64_t between(int64_t least, int64_t most)
{
    return least + (int64_t)sim_roll((uint64_t)(most - least) + 1);
}

void sim_slew(struct machine *m)
{
    if (world.config.scripted) {
        return;
    }
    m->raw_ppm = between(-50000, 50000);
    if (world.config.suspend) {
        m->boot_ppm = between(-50000, 50000);
    } else if (world.config.slew) {
        int64_t slew = sim_chance(50) ? -90000 : between(-90000, 90000);
        m->boot_ppm = m->raw_ppm + slew + m->raw_ppm * slew / 1000000;
        sim_reach(PATH_SLEWED);
    } else {
        m->boot_ppm = m->raw_ppm;
    }
    sim_note(NOTE_RATES, m->index, m->boot_ppm, m->raw_ppm);
}

/* The engine sees its connection break, and says so. */
static void doubt(struct machine *m)
{
    if (!m->client || m->paused) {
        return;
    }
    sim_enter(m);
    snib__enter(m->client);
    if (sim_chance(50)) {
        sim_report_session(m, SNIB_DOUBTFUL);
    }
    for (size_t i = 0; i < m->live_count; i++) {
        struct record *r = world.records[m->live[i]];
        if (r->granted) {
            sim_report(r, SNIB_DOUBTFUL);
            sim_reach(PATH_REPORTED_DOUBTFUL);
        }
    }
    snib__settle(m->client);
    snib__leave(m->client);
}

static void cut(struct machine *m)
{
    int64_t ms = sim_even_ns(world.config.ttl_ms * 2) / MS;
    sim_note(NOTE_CUTS, m->index, ms, 0);
    sim_reach(PATH_CUT);
    m->cut_until_ns = world.now_ns + ms * MS;
    if (sim_chance(30)) {
        doubt(m);
    }
}

static void stall(struct machine *m)
{
    enum sim_channel channel = (enum sim_channel)sim_roll(CHANNELS);
    int64_t ms = sim_even_ns(world.config.ttl_ms * 2) / MS;
    sim_note(NOTE_STALLS, m->index, channel, ms);
    sim_reach(PATH_STALLED);
    m->stalled_ns[channel] = world.now_ns + ms * MS;
}

static void close_client(struct machine *m)
{
    if (!m->client || m->paused || m->driven || m->closing) {
        return;
    }
    bool killed = world.config.leased && sim_chance(50);
    if (m->released_async > 0 && (killed || world.blocking)) {
        return; /* what is to be told would not be: wait for it */
    }
    sim_close(m, killed);
    struct event event = {.kind = REOPEN, .machine = m->index};
    sim_post(&event, world.now_ns + sim_span_ns(world.config.ttl_ms));
}

void sim_fault_later(void)
{
    struct event event = {.kind = FAULT};
    if (world.config.between_faults_ms > 0) {
        sim_post(&event, world.now_ns + sim_span_ns(world.config.between_faults_ms));
    }
}

void sim_fault(void)
{
    const struct sim_config *c = &world.config;
    if (world.calm) {
        return;
    }
    sim_fault_later();
    struct machine *m = &world.machines[sim_roll((uint64_t)c->machines)];
    int all =
        c->pause + c->suspend + c->slew + c->cut + c->stall + c->close + c->evict + c->end_session;
    int at = (int)sim_roll((uint64_t)all);
    int64_t ms = sim_even_ns(c->ttl_ms * 2) / MS;
    if ((at -= c->pause) < 0) {
        sim_pause(m, ms, false);
    } else if ((at -= c->suspend) < 0) {
        sim_pause(m, ms, true);
    } else if ((at -= c->slew) < 0) {
        sim_slew(m);
    } else if ((at -= c->cut) < 0) {
        cut(m);
    } else if ((at -= c->stall) < 0) {
        stall(m);
    } else if ((at -= c->close) < 0) {
        close_client(m);
    } else if ((at -= c->evict) < 0) {
        sim_evict((int)sim_roll((uint64_t)c->names));
    } else if (at - c->end_session < 0 && m->client) {
        sim_end_session(m);
    }
}
