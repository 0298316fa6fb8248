/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to machines, connections and servers.
 */
#include "world.h"

void fault_later(void)
{
    struct event event = {.kind = FAULT};
    if (world.config.between_faults_ms > 0) {
        post(&event, world.now_ns + span_ns(world.config.between_faults_ms));
    }
    if (world.config.failover && world.steps == 0) {
        struct event copy = {.kind = REPLICATE, .which = world.master};
        post(&copy, world.now_ns);
    }
}

static struct wire *some_wire(const struct machine *m)
{
    struct wire *found = NULL;
    uint64_t n = 0;
    for (int i = 0; i < world.wire_count; i++) {
        struct wire *w = world.wires[i];
        if (w->machine == m->index && !w->closed && w->up && roll(++n) == 0) {
            found = w;
        }
    }
    return found;
}

static void end_client(struct machine *m, bool dead)
{
    if (!m->client || m->driven || m->closing || (!dead && (world.blocking || m->paused))) {
        return;
    }
    machine_close(m, dead);
    struct event event = {.kind = REOPEN, .which = m->index};
    post(&event, world.now_ns + span_ns(world.config.ttl_ms));
}

static void cut(struct machine *m)
{
    if (chance(50)) {
        m->cut_ns = world.now_ns + even_ns(world.config.ttl_ms);
    }
    for (int i = 0; i < world.wire_count; i++) {
        struct wire *w = world.wires[i];
        if (w->machine == m->index && !w->closed && chance(60)) {
            wire_cut(w, chance(50));
        }
    }
}

static void hole(struct machine *m)
{
    struct wire *w = some_wire(m);
    if (w) {
        uint64_t how = roll(3);
        note(m->index, "connection %d swallows: %d", w->number, (int)how);
        w->hole_up = w->hole_up || how != 0;
        w->hole_down = w->hole_down || how != 1;
    }
}

void fault(void)
{
    const struct config *c = &world.config;
    if (world.calm) {
        return;
    }
    fault_later();
    struct machine *m = &world.machines[roll((uint64_t)c->machines)];
    int name = (int)roll((uint64_t)c->names);
    int64_t ms = even_ns(c->ttl_ms * 3 / 2) / MS;
    int all = c->pause + c->suspend + c->slew + c->kill + c->close + c->cut + c->hole +
              c->server_pause + c->busy + c->loading + c->memory + c->restart + c->failover +
              c->step_back + c->step_forward + c->forget_scripts + c->break_lock + c->seize;
    int at = (int)roll((uint64_t)all);
    if ((at -= c->pause) < 0) {
        machine_pause(m, ms, false);
    } else if ((at -= c->suspend) < 0) {
        machine_pause(m, ms, true);
    } else if ((at -= c->slew) < 0) {
        machine_slew(m);
    } else if ((at -= c->kill) < 0) {
        end_client(m, true);
    } else if ((at -= c->close) < 0) {
        end_client(m, false);
    } else if ((at -= c->cut) < 0) {
        cut(m);
    } else if ((at -= c->hole) < 0) {
        hole(m);
    } else if ((at -= c->server_pause) < 0) {
        site_pause(world.master, ms);
    } else if ((at -= c->busy) < 0) {
        site_refuse(world.master, false, ms);
    } else if ((at -= c->loading) < 0) {
        site_refuse(world.master, true, ms);
    } else if ((at -= c->memory) < 0) {
        master()->model.full = !master()->model.full;
        note(-1, "memory is full: %d", master()->model.full);
    } else if ((at -= c->restart) < 0) {
        site_restart(world.master, chance(c->lose_data), ms / 4);
    } else if ((at -= c->failover) < 0) {
        servers_fail_over(chance(c->lag));
    } else if ((at -= c->step_back) < 0) {
        /* Tokens survive less than the retention, in all. */
        int64_t most_ms = c->retention_ms * 3 / 4 - world.set_back_ms;
        most_ms = most_ms < 20000 ? most_ms : 20000;
        site_step(world.master, -1 - span_ns(most_ms) / MS);
    } else if ((at -= c->step_forward) < 0) {
        site_step(world.master, 1 + span_ns(20000) / MS);
    } else if ((at -= c->forget_scripts) < 0) {
        master()->model.known_scripts = 0;
    } else if (at < c->break_lock) {
        break_lock(m, name, false);
    } else {
        break_lock(m, name, true);
    }
}
