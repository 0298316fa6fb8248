/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be true after every step, and what must be left at the end.
 *
 * Belief is what a program would see if it looked now: a lease in state HELD or DOUBTFUL with time
 * left by its own clock. Whoever believes must be a holder at the server, by the server's clock;
 * and those who believe must fit together. Not so, because it is not promised: for grants asked for
 * before a step of the server's clock forward, before a failover to a copy that lags, before a lock
 * was seized, before data were lost where nobody keeps a quarantine. These are told at their next
 * renewal: from the first one that was answered since, they are held to the promise again. Data
 * lost behind a quarantine is no excuse for two who believe; only the server has forgotten then.
 */
#include "world.h"

struct belief {
    const struct snib__hold *hold;
    const struct machine *machine;
};

static struct belief beliefs[NAMES][HOLDERS];
static int belief_count[NAMES];
static bool wanted[NAMES];

bool believes(const struct snib__hold *h, const struct machine *m)
{
    return !h->lost && h->lease_count > 0 && snib__hold_valid(h) &&
           snib__validity_left_ns(h, clock_of(m)) > 0;
}

static int name_of(const struct snib__hold *h)
{
    return h->claim.name[strlen(h->claim.name) - 1] - '0';
}

/* ---- Belief ----------------------------------------------------------------------------- */

static void check_truth(const struct snib__hold *h, const struct machine *m, int name)
{
    const struct truth *t = truth_of(name);
    int64_t now_ms = model_now_ms(&master()->model);
    for (int i = 0; i < t->count; i++) {
        if (t->holders[i].token == h->granted_token && t->holders[i].until_ms > now_ms) {
            return;
        }
    }
    SIM_CHECK(false, "machine %d believes in %s with token %llu, the server does not", m->index,
              name_text(name), (unsigned long long)h->granted_token);
}

static void look_at(const struct snib__hold *h, const struct machine *m)
{
    int name = name_of(h);
    if (h->stage <= SNIB__STAGE_RESTING && h->claim.may_queue && !m->paused &&
        world.now_ns >= m->cut_ns && h->request) {
        wanted[name] = true;
    }
    if (h->stage == SNIB__STAGE_PARKED && h->request) {
        for (int k = 0; k < ASKS; k++) {
            struct ask *ask = (struct ask *)&m->asks[k];
            if (ask->used && ask->ticket == h->request->ticket && !ask->queued_ns) {
                ask->queued_ns = world.now_ns;
            }
        }
    }
    if (!believes(h, m) || world.seizing[name] || h->since.boot_ns <= m->rupture_ns[name]) {
        return;
    }
    if (h->since.boot_ns > m->lost_ns[name] && !master()->down) {
        check_truth(h, m, name);
    }
    SIM_CHECK(belief_count[name] < HOLDERS, "too many believers");
    beliefs[name][belief_count[name]++] = (struct belief){h, m};
}

static void check_exclusion(int name)
{
    int n = belief_count[name];
    for (int i = 0; i < n; i++) {
        const struct snib__hold *h = beliefs[name][i].hold;
        int mode = h->claim.mode;
        SIM_CHECK(mode != SNIB_EXCLUSIVE || n == 1, "machine %d believes to have %s alone, %d do",
                  beliefs[name][i].machine->index, name_text(name), n);
        SIM_CHECK(mode != SNIB_COUNTED || n <= (int)h->claim.permits, "%d hold %s of %u permits", n,
                  name_text(name), h->claim.permits);
        for (int k = 0; k < i; k++) {
            const struct snib__hold *other = beliefs[name][k].hold;
            SIM_CHECK(mode == other->claim.mode, "modes %d and %d hold %s", mode, other->claim.mode,
                      name_text(name));
            SIM_CHECK(mode != SNIB_COUNTED || h->token != other->token, "a token twice");
        }
        /* Of what was forgotten the next token is only at least the clock, which may be behind. */
        bool forgotten = h->since.boot_ns <= beliefs[name][i].machine->lost_ns[name];
        SIM_CHECK(forgotten || !stranger_believes(name), /* others have no quarantine */
                  "machine %d and another program believe to have %s",
                  beliefs[name][i].machine->index, name_text(name));
        if (forgotten && (world.config.step_back || layout()->counts)) {
            continue;
        }
        if (mode == SNIB_EXCLUSIVE && world.top_token[name] != h->token) {
            SIM_CHECK(h->token > world.top_token[name], "token %llu after token %llu",
                      (unsigned long long)h->token, (unsigned long long)world.top_token[name]);
            world.top_token[name] = h->token;
            world.top_holder[name] = h;
        } else if (mode == SNIB_EXCLUSIVE) {
            SIM_CHECK(world.top_holder[name] == h, "two have had token %llu",
                      (unsigned long long)h->token);
        }
    }
}

/* ---- Those who wait --------------------------------------------------------------------- */

/* How long a lock may be free while somebody waits who could have it. Nobody is told of a lease
 * that ran out: the next re-check finds it. */
static int64_t idle_bound_ns(bool ran_out)
{
    const struct config *c = &world.config;
    if (c->clean) {
        /* Some other programs do not tell, either. */
        bool quiet = ran_out || c->strangers;
        return (16 * c->delay_ms + 4 * c->lag_ms + 40 + (quiet ? 1300 : 0)) * MS;
    }
    return (5000 + 1300 + 2 * c->timeout_ms + 20 * c->delay_ms) * MS;
}

static bool held_there(int name)
{
    const struct truth *t = truth_of(name);
    int64_t now_ms = model_now_ms(&master()->model);
    for (int i = 0; i < t->count; i++) {
        if (t->holders[i].until_ms > now_ms) {
            return true;
        }
    }
    return false;
}

static void check_idle(int name)
{
    int64_t settled_ns = world.calm_ns + (2 * world.config.timeout_ms + 6000) * MS;
    bool counts = world.config.clean || (world.calm && world.now_ns >= settled_ns);
    bool grants = !world.config.quarantine ||
                  !(world.config.restart + world.config.failover); /* else it may be waited out */
    if (!counts || !grants || !wanted[name] || belief_count[name] > 0 || held_there(name)) {
        world.idle_ns[name] = 0;
        return;
    }
    if (!world.idle_ns[name]) {
        world.idle_ns[name] = world.now_ns;
        world.ran_out[name] = truth_of(name)->count > 0;
    }
    int64_t idle_ns = world.now_ns - world.idle_ns[name];
    world.worst_idle_ns = idle_ns > world.worst_idle_ns ? idle_ns : world.worst_idle_ns;
    SIM_CHECK(idle_ns <= idle_bound_ns(world.ran_out[name]),
              "%s was free for %lld ms, and somebody waits", name_text(name),
              (long long)(idle_ns / MS));
}

/* ---- Keys ------------------------------------------------------------------------------- */

static void check_keys(void)
{
    const struct model *m = &master()->model;
    size_t keys = 0;
    for (int i = 0; i < DATABASES; i++) {
        keys += m->databases[i].count;
    }
    static const size_t most[SNIB__LAYOUTS] = {1, 2, 3, 8};
    size_t each = most[world.config.layout];
    SIM_CHECK(keys <= each * (size_t)world.config.names, "%zu keys for %d names", keys,
              world.config.names);
    SIM_CHECK(m->calls_most <= 1200, "a script made %u calls", m->calls_most);
}

void check_world(void)
{
    for (int name = 0; name < world.config.names; name++) {
        belief_count[name] = 0;
        wanted[name] = false;
    }
    if (!world.current) {
        return;
    }
    for (int i = 0; i < world.config.machines; i++) {
        const struct machine *m = &world.machines[i];
        const struct snib__list *all = m->client ? &m->client->all_holds : NULL;
        for (const struct snib__list *l = all ? all->after : NULL; l != all; l = l->after) {
            look_at(SNIB__OF(l, struct snib__hold, in_client), m);
        }
    }
    for (int name = 0; name < world.config.names; name++) {
        check_exclusion(name);
        if (world.config.clean || world.calm) {
            check_idle(name);
        }
    }
    check_keys();
}

/* ---- The end ---------------------------------------------------------------------------- */

static struct ask *try_turn(struct machine *m, int name)
{
    snib_options o = SNIB_OPTIONS;
    o.mode = world.config.permits[name] ? SNIB_COUNTED : SNIB_EXCLUSIVE;
    o.permits = world.config.permits[name] ? world.config.permits[name] : 1;
    struct ask *ask = ask_for(m, name, &o);
    while (!ask->finished) {
        SIM_CHECK(world_step(world.now_ns + 100000 * MS), "a free lock is not to be had");
    }
    return ask;
}

static void take_turn(int name)
{
    struct machine *m = &world.machines[0];
    if (!m->client) {
        machine_open(m);
    }
    struct ask *ask = try_turn(m, name);
    if (!ask->lease) { /* an idle connection to a former master: the next one is another */
        SIM_CHECK(world.config.failover, "a free lock is refused");
        ask = try_turn(m, name);
    }
    SIM_CHECK(ask->lease, "a free lock is refused");
    give_back(ask);
    while (!users_idle()) {
        SIM_CHECK(world_step(world.now_ns + 100000 * MS), "a release does not come to an end");
    }
}

/* What is kept beside the keys of other programs goes by itself, but for Redisson's counters. */
static void check_kept(void)
{
    static const char counter[] = "redisson_lock_token:";
    const struct config *c = &world.config;
    const struct model *m = &master()->model;
    for (int i = 0; i < DATABASES; i++) {
        for (size_t n = 0; n < m->databases[i].count; n++) {
            const struct key *k = &m->databases[i].keys[n];
            bool counts = layout()->counts && k->name.size > sizeof counter &&
                          memcmp(k->name.at, counter, sizeof counter - 1) == 0;
            int64_t left_ms = k->expires_ms - model_now_ms(m);
            if (k->expires_ms > 0 && left_ms <= 0) {
                continue; /* over, and not looked at since */
            }
            int64_t most_ms = c->retention_ms + c->max_lease_ms * 2 + 125000 + world.set_back_ms;
            SIM_CHECK(counts || (k->expires_ms > 0 && left_ms <= most_ms), "%.*s stays for %lld ms",
                      (int)k->name.size, k->name.at, (long long)left_ms);
            SIM_CHECK(k->count == 1 && key_bytes(k) < 4000, "%.*s has %zu bytes", (int)k->name.size,
                      k->name.at, key_bytes(k));
        }
    }
}

/* Everybody left. When all that may still be under way is over, one more comes and goes: then a
 * name is a few fields, which go by themselves. */
void check_left_over(void)
{
    const struct config *c = &world.config;
    world_for(c->max_lease_ms * 11 / 10 + 65000 + world.set_back_ms);
    for (int name = 0; name < c->names; name++) {
        take_turn(name);
        struct key *k = key_of(name);
        if (c->layout != SNIB__LAYOUT_NATIVE) {
            SIM_CHECK(!k, "%s is still there", name_text(name));
            check_kept();
        }
        if (k) {
            SIM_CHECK(k->count <= 4 && key_bytes(k) <= 13000,
                      "%zu fields, %zu bytes are left of %s", k->count, key_bytes(k),
                      name_text(name));
            SIM_CHECK(k->expires_ms > 0, "what is left of %s never expires", name_text(name));
            int64_t left_ms = k->expires_ms - model_now_ms(&master()->model);
            SIM_CHECK(left_ms <= c->retention_ms * 3 / 2 + 71000 + world.set_back_ms,
                      "what is left of %s stays for %lld ms", name_text(name), (long long)left_ms);
        }
    }
}
