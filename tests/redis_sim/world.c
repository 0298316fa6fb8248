/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time, and what happens next.
 *
 * One step is one event, or one look of one machine at its clock and its connections; then every
 * promise is checked. A machine does what a thread does that drives the engine: it sleeps on the
 * descriptors and until the moment that the engine named, and while nothing is outstanding it looks
 * at no descriptor at all. Paused, it does nothing, but its clocks run on and bytes pile up.
 */
#include "world.h"

#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>

struct world world;

extern const struct snib__engine snib__engine_redis;

/* ---- Dice ------------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *state) /* splitmix64 */
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

uint64_t roll(uint64_t sides)
{
    return sides > 1 ? draw(&world.dice) % sides : 0;
}

bool chance(int percent)
{
    return percent > 0 && roll(100) < (uint64_t)percent;
}

int64_t span_ns(int64_t most_ms)
{
    return most_ms <= 0 ? 0 : (int64_t)roll(((uint64_t)(most_ms * MS) >> roll(7)) + 1);
}

int64_t even_ns(int64_t most_ms)
{
    return chance(50) ? span_ns(most_ms) : (int64_t)roll((uint64_t)(most_ms * MS) + 1);
}

static void random_bytes(void *out, size_t size)
{
    unsigned char *at = out;
    while (size > 0) {
        uint64_t word = draw(&world.random);
        size_t n = size < sizeof word ? size : sizeof word;
        memcpy(at, &word, n);
        at += n;
        size -= n;
    }
}

/* ---- Clocks ----------------------------------------------------------------------------- */

struct snib__instant clock_of(const struct machine *m)
{
    return (struct snib__instant){m->boot_ns, m->raw_ns};
}

static struct snib__instant clock_now(void)
{
    return clock_of(world.current);
}

static int64_t clock_wall_us(void)
{
    return world.now_ns / 1000;
}

void enter(struct machine *m)
{
    world.current = m;
}

static int64_t at_rate(int64_t span, int64_t ppm)
{
    return span + span / 1000 * ppm / 1000 + span % 1000 * ppm / 1000000;
}

static void advance(int64_t to_ns)
{
    int64_t span = to_ns - world.now_ns;
    if (span <= 0) {
        return;
    }
    world.now_ns = to_ns;
    for (int i = 0; i < world.config.machines; i++) {
        struct machine *m = &world.machines[i];
        m->boot_ns += at_rate(span, m->boot_ppm);
        m->raw_ns += m->suspended ? 0 : at_rate(span, m->raw_ppm);
    }
    servers_tick();
}

int64_t true_time(const struct machine *m, int64_t boot_ns)
{
    int64_t left = boot_ns - m->boot_ns;
    if (left <= 0) {
        return world.now_ns;
    }
    if (left < 4000 * 1000 * MS) {
        left = left * 1000000 / (1000000 + m->boot_ppm) + 1;
    }
    return snib__later(world.now_ns, left);
}

/* Either slewed, or suspended: what the core assumes of its clocks. */
void machine_slew(struct machine *m)
{
    if (world.config.scripted) {
        return;
    }
    m->raw_ppm = (int64_t)roll(80001) - 40000;
    m->boot_ppm = m->raw_ppm;
    if (world.config.suspend) {
        m->boot_ppm = (int64_t)roll(80001) - 40000;
    } else if (world.config.slew) {
        int64_t slew = chance(50) ? -80000 : (int64_t)roll(160001) - 80000;
        m->boot_ppm = m->raw_ppm + slew;
    }
}

/* ---- Events ----------------------------------------------------------------------------- */

static bool sooner(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void post(const struct event *given, int64_t at_ns)
{
    struct event event = *given;
    if (world.event_count == world.event_room) {
        world.event_room = world.event_room ? world.event_room * 2 : 64;
        world.events = realloc(world.events, world.event_room * sizeof *world.events);
        CHECK(world.events != NULL);
    }
    event.at_ns = at_ns > world.now_ns ? at_ns : world.now_ns;
    event.order = ++world.event_order;
    size_t slot = world.event_count++;
    while (slot > 0 && sooner(&event, &world.events[(slot - 1) / 2])) {
        world.events[slot] = world.events[(slot - 1) / 2];
        slot = (slot - 1) / 2;
    }
    world.events[slot] = event;
}

static struct event take_event(void)
{
    struct event first = world.events[0];
    const struct event *last = &world.events[--world.event_count];
    size_t slot = 0;
    for (;;) {
        size_t child = slot * 2 + 1;
        if (child >= world.event_count) {
            break;
        }
        if (child + 1 < world.event_count &&
            sooner(&world.events[child + 1], &world.events[child])) {
            child++;
        }
        if (!sooner(&world.events[child], last)) {
            break;
        }
        world.events[slot] = world.events[child];
        slot = child;
    }
    world.events[slot] = *last;
    return first;
}

static void happen(const struct event *e)
{
    struct machine *m = &world.machines[e->which < MACHINES ? e->which : 0];
    if (e->kind <= CONNECTED) {
        wire_event(e);
    } else if (e->kind >= SERVER_BACK) {
        site_event(e);
    } else if (e->kind == FAULT) {
        fault();
    } else if (e->kind == RESUME) {
        machine_resume(m);
    } else if (e->kind == REOPEN) {
        if (!m->client && !world.calm) {
            machine_open(m);
        }
    } else if (e->kind == STRANGER) {
        stranger_event(e);
    } else if (m->paused) {
        post(e, m->resume_ns + span_ns(50));
    } else {
        user_event(e);
    }
}

/* ---- A machine looks -------------------------------------------------------------------- */

void stir(struct machine *m)
{
    m->look_ns = world.now_ns;
}

static short ready_of(const struct pollfd *p)
{
    const struct wire *w = wire_of(p->fd);
    return w && !w->closed ? wire_ready(w, p->events) : 0;
}

static bool any_ready(struct pollfd fds[], size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        fds[i].revents = ready_of(&fds[i]);
        any = any || fds[i].revents;
    }
    return any;
}

/* When a full connection takes more. */
static int64_t room_ns(const struct pollfd fds[], size_t n)
{
    int64_t at = SNIB__NEVER;
    for (size_t i = 0; i < n; i++) {
        const struct wire *w = wire_of(fds[i].fd);
        if (w && w->up && fds[i].events & POLLOUT && w->full_ns > world.now_ns) {
            at = w->full_ns < at ? w->full_ns : at;
        }
    }
    return at;
}

/* Inside a call that waits: the world goes on. */
static bool sleep_blocked(struct machine *m, snib *client, struct pollfd fds[], size_t n,
                          int64_t until_ns)
{
    client->sleeper.wake_fd = -1;
    client->sleeper.asleep = true;
    client->sleeper.until_ns = until_ns;
    bool roused = false;
    while (!roused) {
        if (!m->paused && any_ready(fds, n)) {
            break;
        }
        if (!m->paused && m->boot_ns >= until_ns) {
            break;
        }
        int64_t limit = m->paused ? m->resume_ns : true_time(m, until_ns);
        int64_t room = room_ns(fds, n);
        limit = room < limit ? room : limit;
        pthread_mutex_unlock(&client->lock);
        bool stepped = world_step(limit);
        pthread_mutex_lock(&client->lock);
        SIM_CHECK(stepped || limit != SNIB__NEVER, "a call waits, and nothing will happen");
        enter(m);
        if (client->closer) {
            snib__close_check(client);
        }
        roused = client->sleeper.nudged || (client->closer && client->closer->ready) ||
                 m->look_ns <= world.now_ns;
    }
    if (m->look_ns <= world.now_ns) {
        m->look_ns = SNIB__NEVER;
    }
    client->sleeper.asleep = client->sleeper.nudged = false;
    return roused;
}

bool host_sleep(struct machine *m, snib *client, struct pollfd fds[], size_t n, int64_t until_ns)
{
    if (m->driven) {
        return sleep_blocked(m, client, fds, n, until_ns);
    }
    if (any_ready(fds, n) || m->boot_ns >= until_ns) {
        return false;
    }
    m->slept = true;
    m->sleep_ns = until_ns;
    m->fd_count = n;
    memcpy(m->fds, fds, n * sizeof *fds);
    return true;
}

static int64_t machine_due(const struct machine *m)
{
    if (!m->client || m->paused || m->driven || m->closing) {
        return SNIB__NEVER;
    }
    int64_t due = m->look_ns;
    int64_t timer = m->sleep_ns == SNIB__NEVER ? SNIB__NEVER : true_time(m, m->sleep_ns);
    int64_t room = m->attends ? room_ns(m->fds, m->fd_count) : SNIB__NEVER;
    timer = room < timer ? room : timer;
    return timer < due ? timer : due;
}

void crank(struct machine *m)
{
    snib *client = m->client;
    int rounds = 0;
    enter(m);
    m->look_ns = SNIB__NEVER;
    snib__enter(client);
    for (m->slept = false; !m->slept;) {
        int64_t due = snib__settle(client);
        int64_t wake = client->session.wake_ns;
        m->attends = snib__must_drive(client);
        m->sleep_ns = wake && wake < due ? wake : due;
        if (!m->attends) {
            break;
        }
        client->answered = false;
        client->session.wake_ns = 0;
        client->session.engine->drive(&client->session, due);
        SIM_CHECK(++rounds < 10000, "the engine goes round and round");
    }
    int64_t due = snib__settle(client);
    m->sleep_ns = due < m->sleep_ns ? due : m->sleep_ns;
    snib__leave(client);
    for (int i = 0; m->client == client && client->calls.after != &client->calls && i < 1000; i++) {
        snib_dispatch(client, 0);
        stir(m); /* a callback may have asked for something */
    }
}

void machine_pause(struct machine *m, int64_t ms, bool suspended)
{
    if (m->paused) {
        return;
    }
    note(m->index, "stops for %lld ms, suspended: %d", (long long)ms, suspended);
    m->paused = true;
    m->suspended = suspended;
    m->resume_ns = world.now_ns + ms * MS;
    struct event resume = {.kind = RESUME, .which = m->index};
    post(&resume, m->resume_ns);
}

void machine_resume(struct machine *m)
{
    if (m->paused) {
        note(m->index, "goes on");
        m->paused = m->suspended = false;
        stir(m);
    }
}

/* ---- Steps ------------------------------------------------------------------------------ */

bool world_step(int64_t limit_ns)
{
    int64_t at = world.event_count ? world.events[0].at_ns : SNIB__NEVER;
    struct machine *who = NULL;
    for (int i = 0; i < world.config.machines; i++) {
        int64_t due = machine_due(&world.machines[i]);
        if (due < at || (due == at && due != SNIB__NEVER && chance(50))) {
            at = due;
            who = &world.machines[i];
        }
    }
    if (at > limit_ns || at == SNIB__NEVER) {
        if (limit_ns != SNIB__NEVER) {
            advance(limit_ns);
        }
        return false;
    }
    advance(at);
    world.steps++;
    if (who) {
        note_number((uint64_t)who->index + 1000);
        crank(who);
    } else {
        struct event event = take_event();
        note_number(event.kind * 10000U + (uint64_t)event.which);
        happen(&event);
        if (event.kind <= DATA_DOWN) {
            free(event.bytes);
        }
    }
    check_world();
    return true;
}

void world_for(int64_t ms)
{
    int64_t until = world.now_ns + ms * MS;
    while (world_step(until)) {
    }
}

/* ---- Machines come and go --------------------------------------------------------------- */

void machine_open(struct machine *m)
{
    const struct config *c = &world.config;
    char url[300];
    snib_error error;
    snprintf(url, sizeof url,
             "redis://%sserver:1%s?ttl=%lldms&timeout=%lldms&max-lease=%lldms&connect=1h"
             "&retention=%lldms&quarantine=%s&passing=%s&layout=%s",
             c->password ? ":secret@" : "", c->database ? "/3" : "", (long long)c->ttl_ms,
             (long long)c->timeout_ms, (long long)c->max_lease_ms, (long long)c->retention_ms,
             c->quarantine ? "yes" : "no", c->passing ? "yes" : "no", layout()->name);
    note(m->index, "opens %s", url);
    enter(m);
    m->life++;
    m->dead = false;
    m->look_ns = m->sleep_ns = SNIB__NEVER;
    int rc = snib__open_engine(&m->client, &snib__engine_redis, url, true, &error);
    SIM_CHECK(rc == 0, "cannot open: %s", error.message);
}

/* Dead: killed; what it says from now on is not heard. Else it waits for the engine, as a program
 * does that has threads: its callbacks stay away because it seems to have a loop of its own. */
void machine_close(struct machine *m, bool dead)
{
    snib *client = m->client;
    note(m->index, "closes, dead: %d", dead);
    m->dead = dead;
    m->closing = true;
    if (dead) {
        wires_of_machine_end(m, chance(30));
    } else {
        m->driven = world.blocking = true;
        client->manual = false;
        client->own_loop = true;
        client->event_fd = -1;
    }
    enter(m);
    int64_t from_ns = m->boot_ns;
    snib_close(client);
    if (!dead) {
        m->driven = world.blocking = false;
        SIM_CHECK(m->boot_ns - from_ns <= (world.config.timeout_ms + 600) * MS || m->paused ||
                      world.config.pause || world.config.suspend,
                  "a close took %lld ms", (long long)((m->boot_ns - from_ns) / MS));
    }
    m->client = NULL;
    m->closing = m->dead = false;
    m->attends = false;
    for (int i = 0; i < ASKS; i++) {
        struct ask *ask = &m->asks[i];
        if (ask->used && ask->lease && ask->life == m->life) {
            snib_release(&ask->lease, NULL);
        }
        ask->used = false;
    }
}

/* ---- Beginning and end ------------------------------------------------------------------ */

void world_begin(const struct config *config)
{
    static const struct snib__clock clock = {clock_now, clock_wall_us};
    struct world fresh = {
        .config = *config,
        .dice = config->seed * 2 + 1,
        .random = ~config->seed,
        .events = world.events,
        .event_room = world.event_room,
    };
    world = fresh;
    trace_begin();
    snib__clock_replace(&clock);
    snib__random_replace(random_bytes);
    servers_begin();
    for (int i = 0; i < config->machines; i++) {
        struct machine *m = &world.machines[i];
        m->index = i;
        m->boot_ns = (int64_t)(1 + roll(1000000)) * 1000 * MS;
        m->raw_ns = (int64_t)(1 + roll(1000000)) * 1000 * MS;
        m->asks_left = config->asks;
        if (config->seen) {
            snprintf(m->run.id, sizeof m->run.id, "%s", master()->model.run_id);
            m->run.durable = config->aof;
        }
        machine_slew(m);
        machine_open(m);
    }
}

static bool asks_left(void)
{
    for (int i = 0; i < world.config.machines; i++) {
        if (world.machines[i].asks_left > 0) {
            return true;
        }
    }
    return false;
}

static int by_time(const void *a, const void *b)
{
    return sooner(a, b) ? -1 : 1;
}

/* What is still on its way arrives soon, in the order it would have come. */
static void hurry(void)
{
    int64_t latest = world.now_ns + 2 * world.config.delay_ms * MS;
    qsort(world.events, world.event_count, sizeof *world.events, by_time);
    for (size_t i = 0; i < world.event_count; i++) {
        struct event *e = &world.events[i];
        bool soon = e->kind <= CONNECTED || e->kind >= SERVER_BACK;
        e->at_ns = soon && e->at_ns > latest ? latest : e->at_ns;
        e->order = ++world.event_order;
    }
    qsort(world.events, world.event_count, sizeof *world.events, by_time); /* sorted is a heap */
    for (int i = 0; i < world.wire_count; i++) {
        struct wire *w = world.wires[i];
        w->up_ns = w->up_ns > latest ? latest : w->up_ns;
        w->down_ns = w->down_ns > latest ? latest : w->down_ns;
        w->full_ns = 0;
        if (w->hole_up && w->peer) { /* the kernel notices in the end */
            struct event end = {.kind = END_UP, .which = i};
            post(&end, w->up_ns);
        }
    }
}

/* For the reader of a failure. */
static const char *whats_left(void)
{
    static char text[400];
    size_t n = 0;
    for (int i = 0; i < world.config.machines; i++) {
        const struct machine *m = &world.machines[i];
        for (int k = 0; k < ASKS && n < 300; k++) {
            if (m->asks[k].used) {
                n += (size_t)snprintf(text + n, sizeof text - n, "machine %d ticket %llu, ", i,
                                      (unsigned long long)m->asks[k].ticket);
            }
        }
        if (m->client && n < 300) {
            n += (size_t)snprintf(text + n, sizeof text - n, "machine %d: %u holds, %d undone; ", i,
                                  m->client->holds, m->client->session.undoing);
        }
    }
    return text;
}

void world_calm(void)
{
    const struct config *c = &world.config;
    note(-1, "faults end here");
    world.calm = true;
    world.calm_ns = world.now_ns;
    hurry();
    for (int i = 0; i < c->machines; i++) {
        struct machine *m = &world.machines[i];
        m->cut_ns = 0;
        machine_resume(m);
        for (int k = 0; k < ASKS; k++) {
            struct event event = {.kind = GIVE_BACK, .which = i, .ask = k, .turn = m->asks[k].turn};
            post(&event, world.now_ns + span_ns(c->ttl_ms));
        }
    }
    for (int i = 0; i < SERVERS; i++) {
        world.servers[i].model.full = false;
    }
    /* Beside other programs the lock of a dead one lives longer by what the clock was set back. */
    int64_t back_ms = c->layout == SNIB__LAYOUT_NATIVE ? 0 : world.set_back_ms;
    int64_t bound = world.now_ns + (20 * c->ttl_ms + 4 * c->max_lease_ms + 60000 + back_ms) * MS;
    while (!users_idle()) {
        SIM_CHECK(world_step(bound), "not all waits have ended: %s", whats_left());
    }
}

void world_end(void)
{
    for (int i = 0; i < world.config.machines; i++) {
        if (world.machines[i].client) {
            machine_close(&world.machines[i], false);
        }
    }
    while (world.event_count > 0) {
        struct event event = take_event();
        if (event.kind <= DATA_DOWN) {
            free(event.bytes); /* NOLINT(clang-analyzer-unix.Malloc): each event has its own */
        }
    }
    servers_end();
    wires_free();
    snib__clock_replace(NULL);
    snib__random_replace(NULL);
}

void world_run(uint64_t seed, enum snib__layout_row row)
{
    struct config config;
    draw_config(&config, seed);
    fit_layout(&config, row);
    config.show = check_option("show") != NULL;
    world_begin(&config);
    for (int i = 0; i < config.machines; i++) {
        struct event event = {.kind = ASK, .which = i};
        post(&event, world.now_ns + span_ns(config.gap_ms));
    }
    fault_later();
    strangers_begin();
    while (asks_left() && world.steps < 4000) {
        world_step(SNIB__NEVER);
    }
    world_for(span_ns(config.ttl_ms) / MS);
    world_calm();
    check_left_over();
    world_end();
}
