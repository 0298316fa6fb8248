/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time, and what happens next.
 *
 * One step is one event, or one look of one machine at its clock and its letters, or one lease
 * that ends at the server; then every promise is checked. A machine that is paused does nothing,
 * but its clocks run on and its letters pile up. What comes at the same instant is ordered by
 * dice, but for leases that end: those come first, which is the worst for whoever believes
 * in them.
 */
#include "sim.h"

#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>

struct world world;

/* ---- Dice ------------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *state) /* splitmix64 */
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

uint64_t sim_roll(uint64_t sides)
{
    return sides > 1 ? draw(&world.dice) % sides : 0;
}

bool sim_chance(int percent)
{
    return percent > 0 && sim_roll(100) < (uint64_t)percent;
}

int64_t sim_span_ns(int64_t most_ms)
{
    if (most_ms <= 0) {
        return 0;
    }
    uint64_t most = (uint64_t)(most_ms * MS);
    return (int64_t)sim_roll((most >> sim_roll(7)) + 1);
}

int64_t sim_even_ns(int64_t most_ms)
{
    return sim_chance(50) ? sim_span_ns(most_ms) : (int64_t)sim_roll((uint64_t)(most_ms * MS) + 1);
}

/* What the core gets for the kernel's random numbers. */
static void random_bytes(void *out, size_t size)
{
    unsigned char *at = out;
    while (size > 0) {
        uint64_t word = draw(&world.bytes);
        size_t n = size < sizeof word ? size : sizeof word;
        memcpy(at, &word, n);
        at += n;
        size -= n;
    }
}

/* ---- Clocks ----------------------------------------------------------------------------- */

struct snib__instant sim_clock(const struct machine *m)
{
    return (struct snib__instant){m->boot_ns, m->raw_ns};
}

static struct snib__instant clock_now(void)
{
    return sim_clock(world.current);
}

static int64_t clock_wall_us(void)
{
    return world.now_ns / 1000;
}

void sim_enter(struct machine *m)
{
    world.current = m;
}

static int64_t at_rate(int64_t span_ns, int64_t ppm)
{
    return span_ns + span_ns / 1000 * ppm / 1000 + span_ns % 1000 * ppm / 1000000;
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
        if (!m->suspended) {
            m->raw_ns += at_rate(span, m->raw_ppm);
        }
    }
}

/* When a boot clock will show this, unless its rate changes. */
int64_t sim_true_time(const struct machine *m, int64_t boot_ns)
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

/* ---- Events ----------------------------------------------------------------------------- */

static bool sooner(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void sim_post(struct event *event, int64_t at_ns)
{
    if (world.event_count == world.event_room) {
        world.event_room = world.event_room ? world.event_room * 2 : 64;
        world.events = sim_memory(world.events, world.event_room * sizeof *world.events);
    }
    event->at_ns = at_ns > world.now_ns ? at_ns : world.now_ns;
    event->order = ++world.event_order;
    size_t slot = world.event_count++;
    while (slot > 0 && sooner(event, &world.events[(slot - 1) / 2])) {
        world.events[slot] = world.events[(slot - 1) / 2];
        slot = (slot - 1) / 2;
    }
    world.events[slot] = *event;
}

static struct event take_event(void)
{
    struct event first = world.events[0];
    struct event *last = &world.events[--world.event_count];
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

static void take_letter(const struct event *event)
{
    struct machine *m = &world.machines[event->machine];
    if (!m->client || m->life != event->message.life || m->dead || world.now_ns < m->cut_until_ns) {
        sim_note(NOTE_LOSES, m->index, event->message.kind, (int64_t)event->message.record);
        return;
    }
    if (m->letters == m->letter_room) {
        m->letter_room = m->letter_room ? m->letter_room * 2 : 16;
        m->inbox = sim_memory(m->inbox, m->letter_room * sizeof *m->inbox);
    }
    if (m->letters == 0) {
        m->look_ns = world.now_ns + sim_span_ns(world.calm ? 0 : world.config.lag_ms);
    }
    if (m->paused && event->message.kind == GRANTED) {
        sim_reach(PATH_GRANT_TO_A_PAUSED_MACHINE);
    }
    m->inbox[m->letters++] = event->message;
}

static void happen(const struct event *event)
{
    struct machine *m = &world.machines[event->machine];
    switch (event->kind) {
    case TO_SERVER:
        sim_arrive(&event->message);
        break;
    case TO_CLIENT:
        take_letter(event);
        break;
    case RESUME:
        sim_resume(m);
        break;
    case FAULT:
        sim_fault();
        break;
    case REOPEN:
        if (!m->client && !world.calm) {
            sim_open(m);
        }
        break;
    default:
        if (m->paused) {
            struct event later = *event;
            sim_post(&later, m->resume_ns + sim_span_ns(50));
        } else {
            sim_event(event);
        }
        break;
    }
}

/* ---- A machine looks -------------------------------------------------------------------- */

static int64_t machine_due(const struct machine *m)
{
    if (!m->client || m->paused) {
        return SNIB__NEVER;
    }
    int64_t due = m->letters > 0 ? m->look_ns : SNIB__NEVER;
    if (!m->driven && m->client->calls.after != &m->client->calls) {
        due = m->loop_ns < due ? m->loop_ns : due;
    }
    int64_t timer = sim_engine_due(m);
    if (!m->driven && snib__timers_next(&m->client->timers) < timer) {
        timer = snib__timers_next(&m->client->timers);
    }
    if (timer != SNIB__NEVER) {
        timer = sim_true_time(m, snib__later(timer, m->lag_ns));
    }
    return timer < due ? timer : due;
}

/* Which requests are about to run out, and where they are then. */
static void note_deadlines(const struct machine *m)
{
    static const enum sim_path by_stage[] = {
        [SNIB__STAGE_ASKED] = PATH_DEADLINE_ASKED,
        [SNIB__STAGE_PARKED] = PATH_DEADLINE_PARKED,
        [SNIB__STAGE_RESTING] = PATH_DEADLINE_RESTING,
        [SNIB__STAGE_PROVING] = PATH_DEADLINE_PROVING,
    };
    const struct snib__list *list = &m->client->requests;
    const struct snib__moment *heap = m->client->timers.heap;
    for (const struct snib__list *l = list->after; l != list; l = l->after) {
        const struct snib__request *r = SNIB__OF(l, struct snib__request, in_client);
        if (r->timed && r->timer.slot && heap[r->timer.slot - 1].due_ns <= m->boot_ns) {
            sim_reach(r->hold ? by_stage[r->hold->stage] : PATH_DEADLINE_IN_LINE);
        }
    }
}

static void read_letters(struct machine *m)
{
    size_t count = m->letters;
    if (count > 1) {
        sim_reach(PATH_SEVERAL_UPCALLS_AT_ONCE);
    }
    m->letters = 0; /* nothing arrives while these are read */
    for (size_t i = 0; i < count; i++) {
        sim_deliver(m, &m->inbox[i]);
    }
    sim_expire(m);
}

static void run_callbacks(struct machine *m)
{
    snib *client = m->client;
    if (!client || client->calls.after == &client->calls || m->loop_ns > world.now_ns) {
        return;
    }
    snib_dispatch(client, sim_chance(20) ? 1 : 0);
    if (m->client && world.config.slow_loop && !world.calm) {
        m->loop_ns = world.now_ns + sim_span_ns(world.config.ttl_ms);
    }
}

void sim_crank(struct machine *m)
{
    sim_enter(m);
    snib *client = m->client;
    if (m->driven) {
        pthread_mutex_lock(&client->lock);
        read_letters(m);
        pthread_mutex_unlock(&client->lock);
        return;
    }
    snib__enter(client);
    note_deadlines(m);
    if (!world.config.scripted && sim_chance(25)) { /* the timers may come before the letters */
        snib__settle(client);
    }
    read_letters(m);
    snib__settle(client);
    snib__leave(client);
    m->lag_ns = sim_span_ns(world.calm ? 0 : world.config.lag_ms);
    run_callbacks(m);
}

void sim_pause(struct machine *m, int64_t ms, bool suspended)
{
    if (m->paused) {
        return;
    }
    sim_note(NOTE_PAUSES, m->index, ms, suspended);
    sim_reach(suspended ? PATH_SUSPENDED : PATH_PAUSED);
    m->paused = true;
    m->suspended = suspended;
    m->resume_ns = world.now_ns + ms * MS;
    struct event resume = {.kind = RESUME, .machine = m->index};
    sim_post(&resume, m->resume_ns);
}

void sim_resume(struct machine *m)
{
    if (!m->paused) {
        return;
    }
    sim_note(NOTE_RESUMES, m->index, (int64_t)m->letters, m->boot_ns / 1000);
    m->paused = m->suspended = false;
    if (m->client) {
        sim_crank(m);
    }
}

/* ---- Steps ------------------------------------------------------------------------------ */

bool sim_step(int64_t limit_ns)
{
    int64_t at = world.event_count ? world.events[0].at_ns : SNIB__NEVER;
    struct machine *who = NULL;
    for (int i = 0; i < world.config.machines; i++) {
        int64_t due = machine_due(&world.machines[i]);
        if (due < at || (due == at && due != SNIB__NEVER && sim_chance(50))) {
            at = due;
            who = &world.machines[i];
        }
    }
    bool server = world.server_due_ns <= at;
    at = server ? world.server_due_ns : at;
    if (at > limit_ns || at == SNIB__NEVER) {
        if (limit_ns != SNIB__NEVER) {
            advance(limit_ns);
        }
        return false;
    }
    advance(at);
    world.steps++;
    if (server) {
        sim_server_expire();
    } else if (who) {
        sim_crank(who);
    } else {
        struct event event = take_event();
        happen(&event);
    }
    sim_check();
    return true;
}

void sim_for(int64_t ms)
{
    int64_t until = world.now_ns + ms * MS;
    while (sim_step(until)) {
    }
}

/* ---- Beginning and end ------------------------------------------------------------------ */

void sim_open(struct machine *m)
{
    const struct sim_config *c = &world.config;
    char url[120];
    snib_error error;
    snprintf(url, sizeof url, "sim://server?ttl=%lldms&timeout=%lldms&max-lease=%lldms&connect=1h",
             (long long)c->ttl_ms, (long long)c->timeout_ms,
             (long long)(c->ttl_ms < 1000 ? 1000 : c->ttl_ms));
    sim_note(NOTE_OPENS, m->index, c->ttl_ms, c->timeout_ms);
    sim_enter(m);
    m->life++;
    m->dead = false;
    m->letters = 0;
    m->loop_ns = 0;
    sim_spare_memory(true);
    int rc = snib__open_engine(&m->client, &sim_engine, url, true, &error);
    sim_spare_memory(false);
    SIM_CHECK(rc == 0, "cannot open: %s", error.message);
    if (c->renewals) {
        m->client->renewals_most = c->renewals;
    }
}

/* A close that waits for the engine, as it does where there are threads. The thread of callbacks
 * stays away because the program seems to have a loop, of which nothing comes. */
static void be_patient(struct machine *m)
{
    m->patient = world.blocking = true;
    m->closing_ns = m->boot_ns;
    if (m->undoing_count > 0) {
        sim_reach(PATH_CLOSED_WHILE_UNDOING);
    }
    m->client->manual = false;
    m->client->own_loop = true;
    m->client->event_fd = -1;
}

void sim_close(struct machine *m, bool dead)
{
    snib *client = m->client;
    sim_note(NOTE_CLOSES, m->index, dead, client->running != NULL);
    if (!snib__list_empty(&client->requests)) {
        sim_reach(PATH_CLOSED_WITH_WAITS);
    }
    for (int i = 0; i < ASKS; i++) {
        if (m->asks[i].used && m->asks[i].lease && m->asks[i].life == m->life) {
            sim_reach(PATH_CLOSED_WITH_LEASES);
        }
    }
    m->dead = dead;
    m->letters = 0;
    m->closing = true;
    if (!dead && !world.config.scripted && !world.blocking &&
        (m->released_async > 0 || sim_chance(50))) {
        be_patient(m);
    }
    sim_enter(m);
    snib_close(client); /* runs callbacks */
    m->client = NULL;
    m->closing = false;
    m->dead = false;
    if (m->patient) {
        m->patient = world.blocking = false;
    }
}

void sim_begin(const struct sim_config *config)
{
    static const struct snib__clock clock = {clock_now, clock_wall_us};
    struct world fresh = {
        .config = *config,
        .dice = config->seed * 2 + 1,
        .bytes = ~config->seed,
        .server_due_ns = SNIB__NEVER,
        .events = world.events,
        .event_room = world.event_room,
        .records = world.records,
        .record_room = world.record_room,
    };
    world = fresh;
    sim_trace_begin();
    snib__clock_replace(&clock);
    snib__random_replace(random_bytes);
    for (int i = 0; i < NAMES; i++) {
        world.locks[i].last_token = world.locks[i].exclusive_token = 1 + sim_roll(1000);
    }
    for (int i = 0; i < config->machines; i++) {
        struct machine *m = &world.machines[i];
        m->index = i;
        m->boot_ns = (int64_t)sim_roll(1000000) * 1000 * MS;
        m->raw_ns = (int64_t)sim_roll(1000000) * 1000 * MS;
        m->asks_left = config->asks;
        sim_slew(m);
        sim_open(m);
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
static void hurry_messages(void)
{
    int64_t latest = world.now_ns + 2 * world.config.delay_ms * MS;
    qsort(world.events, world.event_count, sizeof *world.events, by_time);
    for (size_t i = 0; i < world.event_count; i++) {
        struct event *e = &world.events[i];
        bool message = e->kind == TO_SERVER || e->kind == TO_CLIENT;
        e->at_ns = message && e->at_ns > latest ? latest : e->at_ns;
        e->order = ++world.event_order;
    }
    qsort(world.events, world.event_count, sizeof *world.events, by_time); /* sorted is a heap */
    for (int i = 0; i < world.config.machines; i++) {
        for (int k = 0; k < CHANNELS; k++) {
            int64_t *to_server = &world.machines[i].to_server_ns[k];
            int64_t *to_client = &world.machines[i].to_client_ns[k];
            *to_server = *to_server > latest ? latest : *to_server;
            *to_client = *to_client > latest ? latest : *to_client;
        }
    }
}

void sim_calm(void)
{
    sim_note(NOTE_CALM, -1, 0, 0);
    world.calm = true;
    world.recovered_ns = world.now_ns + world.config.ttl_ms * MS;
    hurry_messages();
    for (int i = 0; i < world.config.machines; i++) {
        struct machine *m = &world.machines[i];
        m->cut_until_ns = 0;
        m->lag_ns = 0;
        m->loop_ns = 0;
        m->lose_requests = m->lose_answers = 0;
        memset(m->stalled_ns, 0, sizeof m->stalled_ns);
        sim_resume(m);
        for (int k = 0; k < ASKS; k++) {
            sim_give_back_calmly(&m->asks[k]);
        }
    }
    sim_check();
    const struct sim_config *c = &world.config;
    int64_t bound = world.now_ns + 400 * (c->ttl_ms + c->timeout_ms + c->recheck_ms) * MS;
    while (!sim_users_idle() || !sim_server_idle()) {
        SIM_CHECK(sim_step(bound), "not all waits ended and all locks were freed in the calm");
    }
    while (sim_step(world.now_ns + (c->ttl_ms + c->timeout_ms) * 2 * MS)) {
    }
}

void sim_end(void)
{
    for (int i = 0; i < world.config.machines; i++) {
        struct machine *m = &world.machines[i];
        if (m->client) {
            sim_check_idle(m);
            sim_close(m, false);
        }
        free(m->live);
        free(m->inbox);
    }
    for (size_t i = 0; i < world.record_count; i++) {
        SIM_CHECK(!world.records[i]->claim, "claim %zu was never released", i);
        free(world.records[i]);
    }
    world.record_count = 0;
    snib__clock_replace(NULL);
    snib__random_replace(NULL);
}

void sim_run(uint64_t seed)
{
    struct sim_config config;
    sim_draw_config(&config, seed);
    config.show = check_option("show") != NULL;
    sim_begin(&config);
    for (int i = 0; i < config.machines; i++) {
        struct event event = {.kind = ASK, .machine = i};
        sim_post(&event, world.now_ns + sim_span_ns(config.gap_ms));
    }
    sim_fault_later();
    while (asks_left() && world.steps < 3000) {
        sim_step(SNIB__NEVER);
    }
    sim_for(sim_span_ns(config.ttl_ms * 2) / MS);
    sim_calm();
    sim_end();
}
