/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two servers, one of them the master: it is the one that answers at the address. The other has a
 * copy of it, as old as the last time that something was copied.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

#define EPOCH_US INT64_C(1700000000000000)
#define DAY_US (24LL * 3600 * 1000000)

struct site *master(void)
{
    return &world.servers[world.master];
}

void servers_tick(void)
{
    for (int i = 0; i < SERVERS; i++) {
        struct site *s = &world.servers[i];
        s->model.now_us = EPOCH_US + world.now_ns / 1000 + s->offset_us;
    }
}

void servers_begin(void)
{
    const struct config *c = &world.config;
    for (int i = 0; i < SERVERS; i++) {
        struct site *s = &world.servers[i];
        struct model *m = &s->model;
        s->offset_us = (int64_t)roll(1000000);
        m->version = c->version;
        m->password = c->password ? "secret" : NULL;
        m->greedy = c->greedy;
        m->no_client = c->no_client;
        m->aof = c->aof;
        m->order = roll(1 << 30);
        m->replica = i != world.master;
        model_start(m, EPOCH_US + s->offset_us - DAY_US, c->seed * 16 + ++world.runs);
    }
    servers_tick();
}

void servers_end(void)
{
    for (int i = 0; i < SERVERS; i++) {
        model_free(&world.servers[i].model);
        keys_clear(&world.servers[i].copy);
    }
}

/* ---- Keys ------------------------------------------------------------------------------- */

static struct keyspace *keys_at(struct site *s)
{
    return &s->model.databases[world.config.database ? 3 : 0];
}

const struct snib__layout *layout(void)
{
    return &snib__layouts[world.config.layout];
}

struct key *key_of(int name)
{
    char text[SNIB__KEY_MAX];
    layout()->key(text, layout()->prefix, name_text(name));
    return keys_find(keys_at(master()), (struct arg){text, strlen(text)},
                     model_now_ms(&master()->model));
}

static void add_holder(void *arg, const snib_seen *seen)
{
    struct truth *t = arg;
    if (seen->token == 0) {
        t->waiting++;
    } else if (t->count < HOLDERS) {
        t->holders[t->count].token = seen->token;
        t->holders[t->count++].until_ms = model_now_ms(&master()->model) + seen->left_ms;
    }
}

/* What the server says to one of the commands that read a lock, even while it answers nobody. */
static const struct bytes *look_by_command(int name, unsigned look)
{
    static struct bytes out;
    struct snib__command command;
    struct snib__wish wish = {.prefix = layout()->prefix, .name = name_text(name)};
    struct arg argv[SNIB__COMMAND_MOST];
    struct peer asker = {.allowed = true, .database = world.config.database ? 3 : 0};
    bool busy = master()->model.busy, loading = master()->model.loading;
    layout()->inspect(&command, &wish, look);
    for (int i = 0; i < command.argc; i++) {
        argv[i] = (struct arg){command.argv[i], command.sizes[i]};
    }
    out.size = 0;
    master()->model.busy = master()->model.loading = false;
    model_run(&master()->model, &asker, command.argc, argv, &out);
    master()->model.busy = busy;
    master()->model.loading = loading;
    return &out;
}

/* As the engine itself reads the key, whatever is in it. */
const struct truth *truth_of(int name)
{
    struct truth *t = &world.truth[name];
    const struct key *k = key_of(name);
    uint64_t version = k ? k->version : 0;
    if (version == t->version && version) {
        return t;
    }
    *t = (struct truth){.version = version};
    if (!k) {
        return t;
    }
    const struct snib__reply *reply = NULL;
    int64_t numbers[SNIB__LOOKS] = {0};
    int64_t ahead_ms = model_now_ms(&master()->model) - snib__now().boot_ns / MS;
    struct snib__server_clock clock = {.known = true, .low_ms = ahead_ms, .high_ms = ahead_ms};
    struct snib__reader *reader = snib__reader_new();
    CHECK(reader != NULL);
    for (unsigned look = 0; look < layout()->looks; look++) {
        const struct bytes *out = look_by_command(name, look);
        CHECK(snib__reader_feed(reader, out->at, out->size));
        CHECK_INT(snib__reader_next(reader, &reply), ==, 1);
        if (look + 1 < layout()->looks) {
            numbers[look] = reply->integer;
        }
    }
    CHECK(reply != NULL);
    int code = layout()->show(reply, numbers, name_text(name), &clock, add_holder, t);
    CHECK(code == 0 || code == SNIB_EKIND);
    snib__reader_free(reader);
    return t;
}

/* ---- Serving ---------------------------------------------------------------------------- */

void site_serve(int index, struct wire *w)
{
    struct site *s = &world.servers[index];
    if (!s->down && !s->paused && w->peer) {
        model_serve(&s->model, w->peer);
        wires_flush(index);
    }
}

static void serve_all(int index)
{
    struct site *s = &world.servers[index];
    uint64_t first = roll(PEERS);
    for (uint64_t i = 0; i < PEERS; i++) {
        struct peer *p = s->model.peers[(first + i) % PEERS];
        if (p && p->in.size > 0) {
            site_serve(index, p->owner);
        }
    }
}

/* ---- What happens to them --------------------------------------------------------------- */

void rupture(int name, bool forgotten_only)
{
    for (int i = 0; i < world.config.machines; i++) {
        struct machine *m = &world.machines[i];
        m->lost_ns[name] = m->boot_ns;
        if (!forgotten_only) {
            m->rupture_ns[name] = m->boot_ns;
        }
    }
    stranger_rupture(name);
    if (!forgotten_only || world.config.step_back || layout()->counts) {
        world.top_token[name] = 0; /* at least the clock, which may be behind; or counted anew */
    }
}

static void rupture_all(bool forgotten_only)
{
    for (int i = 0; i < world.config.names; i++) {
        rupture(i, forgotten_only);
    }
}

static void drop_connections(int index)
{
    for (int i = 0; i < world.wire_count; i++) {
        struct wire *w = world.wires[i];
        if (w->server == index && w->peer) {
            wire_cut(w, chance(50));
            model_hang_up(&world.servers[index].model, w->peer);
            w->peer = NULL;
        }
    }
}

void site_restart(int index, bool lose_data, int64_t down_ms)
{
    struct site *s = &world.servers[index];
    const struct config *c = &world.config;
    if (s->down) {
        return;
    }
    lose_data = lose_data && !c->aof;
    note(-1, "server %d ends for %lld ms, loses its data: %d", index, (long long)down_ms,
         lose_data);
    drop_connections(index);
    s->down = true;
    if (lose_data) {
        keys_clear(keys_at(s));
        if (index == world.master) {
            rupture_all(c->quarantine && c->seen &&
                        !c->failover); /* a copy has no run of its own */
        }
    }
    struct event back = {.kind = SERVER_BACK, .which = index};
    post(&back, world.now_ns + down_ms * MS);
}

void site_pause(int index, int64_t ms)
{
    struct site *s = &world.servers[index];
    if (!s->paused) {
        note(-1, "server %d stops for %lld ms", index, (long long)ms);
        s->paused = true;
        struct event event = {.kind = SERVER_GOES_ON, .which = index};
        post(&event, world.now_ns + ms * MS);
    }
}

void site_refuse(int index, bool loading, int64_t ms)
{
    struct model *m = &world.servers[index].model;
    if (!m->busy && !m->loading) {
        note(-1, "server %d is %s for %lld ms", index, loading ? "loading" : "busy", (long long)ms);
        *(loading ? &m->loading : &m->busy) = true;
        struct event event = {.kind = SERVER_ANSWERS, .which = index};
        post(&event, world.now_ns + ms * MS);
    }
}

void site_step(int index, int64_t by_ms)
{
    note(-1, "the clock of server %d is set by %lld ms", index, (long long)by_ms);
    world.servers[index].offset_us += by_ms * 1000;
    world.set_back_ms -= by_ms < 0 ? by_ms : 0;
    servers_tick();
    if (by_ms > 0) {
        rupture_all(false);
    }
}

void servers_fail_over(bool lagging)
{
    int from = world.master, to = 1 - world.master;
    struct site *old = &world.servers[from], *fresh = &world.servers[to];
    if (old->down || fresh->down || old->paused) {
        return;
    }
    note(-1, "server %d is the master now; lags: %d", to, lagging);
    if (!lagging) {
        keys_copy(&old->copy, keys_at(old));
    }
    keys_copy(keys_at(fresh), &old->copy);
    if (lagging) {
        rupture_all(false);
    }
    /* Its clock is another one; a replica has what it copied, the time included. */
    if (fresh->offset_us != old->offset_us) {
        fresh->offset_us = old->offset_us;
    }
    old->model.replica = true;
    fresh->model.replica = false;
    world.master = to;
    memset(world.truth, 0, sizeof world.truth);
    servers_tick();
}

void site_event(const struct event *e)
{
    struct site *s = &world.servers[e->which];
    switch (e->kind) {
    case SERVER_BACK:
        note(-1, "server %d is up again", e->which);
        s->down = false;
        model_start(&s->model, s->model.now_us, world.config.seed * 16 + ++world.runs);
        break;
    case SERVER_GOES_ON:
        note(-1, "server %d goes on", e->which);
        s->paused = false;
        serve_all(e->which);
        break;
    case SERVER_ANSWERS:
        note(-1, "server %d answers again", e->which);
        s->model.busy = s->model.loading = false;
        break;
    default:
        keys_copy(&s->copy, keys_at(s));
        if (!world.calm) {
            struct event again = {.kind = REPLICATE, .which = world.master};
            post(&again, world.now_ns + span_ns(world.config.ttl_ms));
        }
        break;
    }
}
