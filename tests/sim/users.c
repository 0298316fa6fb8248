/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that use the library: they acquire, wait, change their mind, look at what they have,
 * pause, release early or late or twice (through re-entry), and close in the middle of it. And
 * they are suspicious: every answer is compared with what can be true.
 */
#include "sim.h"

#include <poll.h>
#include <stdio.h>

const char *sim_name(int name)
{
    static const char *const names[NAMES] = {"name-0", "name-1", "name-2"};
    return names[name];
}

void sim_later(const struct ask *ask, enum sim_event_kind kind, int64_t span_ns)
{
    struct machine *m = &world.machines[ask->machine];
    struct event event = {
        .kind = kind,
        .machine = ask->machine,
        .ask = (int)(ask - m->asks),
        .turn = ask->turn,
    };
    sim_post(&event, world.now_ns + span_ns);
}

bool sim_closed(const struct ask *ask)
{
    const struct machine *m = &world.machines[ask->machine];
    return !m->client || m->closing || m->life != ask->life;
}

static bool stands_in_line(const struct ask *ask)
{
    return ask->used && !ask->finished && !ask->several && ask->options.wait_ms != 0;
}

/* ---- Answers ---------------------------------------------------------------------------- */

/* Whoever asked earlier on the same machine is served earlier. */
static void check_order(const struct ask *ask)
{
    const struct machine *m = &world.machines[ask->machine];
    for (int i = 0; i < ASKS; i++) {
        const struct ask *other = &m->asks[i];
        SIM_CHECK(!stands_in_line(other) || other->life != ask->life || other->name != ask->name ||
                      other->number > ask->number,
                  "ticket %llu was served before ticket %llu", (unsigned long long)ask->ticket,
                  (unsigned long long)other->ticket);
    }
}

static void check_grant(struct ask *ask, const snib_lease *lease)
{
    const snib_options *o = &ask->options;
    SIM_CHECK(!ask->cancelled, "ticket %llu was cancelled and is granted",
              (unsigned long long)ask->ticket);
    SIM_CHECK(strcmp(snib_name(lease), sim_name(ask->name)) == 0, "a lease on another name");
    SIM_CHECK(snib_token(lease) != 0, "a lease without a token");
    bool again = lease != &lease->hold->first;
    if (again) {
        int held = lease->hold->claim.mode;
        SIM_CHECK(o->owner != NULL && lease->hold->owner == o->owner, "re-entry of a stranger");
        SIM_CHECK(held == o->mode || (held == SNIB_EXCLUSIVE && o->mode == SNIB_SHARED),
                  "re-entry with mode %d into mode %d", o->mode, held);
        sim_reach(PATH_REENTERED);
        ask->reentered = true;
        if (sim_clock(&world.machines[ask->machine]).boot_ns > ask->started.boot_ns) {
            sim_reach(PATH_REENTERED_FROM_LINE);
        }
    } else {
        SIM_CHECK(lease->hold->claim.mode == o->mode, "a lease of another mode");
        sim_reach(o->mode == SNIB_EXCLUSIVE ? PATH_GRANTED_EXCLUSIVE
                  : o->mode == SNIB_SHARED  ? PATH_GRANTED_SHARED
                                            : PATH_GRANTED_COUNTED);
        if (o->mode == SNIB_EXCLUSIVE && o->wait_ms != 0) {
            check_order(ask);
        }
        struct record *r = sim_record_of(lease->hold);
        SIM_CHECK(!r || o->mode != SNIB_EXCLUSIVE || r->told_token != snib_token(lease),
                  "two have been told token %llu", (unsigned long long)snib_token(lease));
        if (r) {
            r->told_token = snib_token(lease);
        }
    }
    if (!world.config.leased) {
        sim_reach(PATH_GRANTED_WITHOUT_LEASE);
    }
}

static bool deadline_passed(const struct ask *ask)
{
    const struct machine *m = &world.machines[ask->machine];
    int64_t waited_ns = m->boot_ns - ask->started.boot_ns;
    if (ask->several) { /* what each takes is counted on the faster clock, and they may take turns
                         */
        waited_ns = snib__elapsed_ns(ask->started, sim_clock(m)) * 5 / 4;
    }
    return ask->options.wait_ms > 0 && waited_ns >= ask->options.wait_ms * MS;
}

static bool engine_said_busy(const struct ask *ask)
{
    for (size_t i = 0; i < world.record_count; i++) {
        const struct record *r = world.records[i];
        if (r->said_busy && r->machine == ask->machine && r->life == ask->life &&
            r->ticket == ask->ticket) {
            return true;
        }
    }
    return false;
}

static bool may_fail_with(const struct ask *ask, int code)
{
    const snib_options *o = &ask->options;
    switch (code) {
    case SNIB_ECANCELED:
        return ask->cancelled || world.machines[ask->machine].closing;
    case SNIB_EBUSY:
    case SNIB_EUNKNOWN:
        if (o->wait_ms == 0) {
            sim_reach(code == SNIB_EBUSY ? PATH_TRY_BUSY : PATH_TRY_UNKNOWN);
            return code == SNIB_EUNKNOWN || engine_said_busy(ask);
        }
        return deadline_passed(ask);
    case SNIB_ELOST:
        sim_reach(o->min_left_ms > 0 ? PATH_MIN_LEFT_REFUSED : PATH_REENTRY_REFUSED_LOST);
        return o->min_left_ms > 0 || o->owner || ask->several;
    case SNIB_EKIND:
        if (o->owner) {
            sim_reach(PATH_REENTRY_REFUSED_KIND);
        }
        return world.config.mismatch > 0;
    case SNIB_EDEADLK:
        sim_reach(PATH_REENTRY_REFUSED_DEADLOCK);
        return o->owner && o->mode == SNIB_EXCLUSIVE;
    case SNIB_ENOTSUP:
        return world.config.fewer && o->mode != SNIB_EXCLUSIVE;
    case SNIB_ENOMEM:
        return world.config.no_memory > 0;
    case SNIB_EDENIED:
        sim_reach(PATH_REFUSED_BY_ENGINE);
        return world.config.refused > 0;
    default:
        return false;
    }
}

/* A callback that does something at once. */
static void act_in_callback(struct ask *ask)
{
    struct machine *m = &world.machines[ask->machine];
    if (world.calm || !sim_chance(world.config.hasty)) {
        return;
    }
    switch (sim_roll(8)) {
    case 0:
    case 1:
        sim_give_back(ask);
        break;
    case 2:
        if (!sim_closed(ask)) {
            sim_cancel(&m->asks[sim_roll(ASKS)]);
        }
        break;
    case 3:
        if (!m->closing && m->client && world.config.close && sim_chance(30) &&
            (m->released_async == 0 || !world.blocking)) {
            sim_reach(PATH_CLOSED_IN_CALLBACK);
            sim_close(m, false);
        }
        break;
    default:
        if (m->asks_left > 0 && !sim_closed(ask)) {
            sim_ask_any(m);
        }
        break;
    }
}

void sim_refused(struct ask *ask, const snib_error *err)
{
    SIM_CHECK(!ask->cancelled || err->code == SNIB_ECANCELED, "cancelled, but %s",
              snib_errname(err->code));
    SIM_CHECK(may_fail_with(ask, err->code), "ticket %llu: %s, which cannot be: %s",
              (unsigned long long)ask->ticket, snib_errname(err->code), err->message);
    SIM_CHECK(err->message[0] != '\0', "an error without a message");
    ask->finished = true;
    ask->used = false;
}

void sim_finished(struct ask *ask, snib_lease *lease)
{
    ask->finished = true;
    ask->lease = lease;
    ask->told = SNIB_HELD;
    sim_note(NOTE_TOKEN, ask->machine, (int64_t)snib_token(lease), 0);
    if (!world.config.scripted || world.calm) {
        int64_t hold_ms = world.calm ? 5 : world.config.hold_ms;
        sim_later(ask, GIVE_BACK, sim_even_ns(hold_ms));
        for (uint64_t n = sim_roll(3); n > 0; n--) {
            sim_later(ask, LOOK, sim_span_ns(hold_ms));
        }
        if (sim_chance(world.config.by_hand)) {
            sim_later(ask, PROVE, sim_even_ns(hold_ms));
        }
    }
}

static void on_done(snib_lease *lease, const snib_error *err, void *arg)
{
    struct ask *ask = arg;
    int code = err ? err->code : SNIB_OK;
    SIM_CHECK(world.current == &world.machines[ask->machine], "another machine's callback");
    sim_note(NOTE_DONE, ask->machine, (int64_t)ask->ticket, code);
    SIM_CHECK(ask->used && !ask->finished, "ticket %llu is answered twice",
              (unsigned long long)ask->ticket);
    SIM_CHECK((lease != NULL) == (err == NULL), "neither a lease nor an error, or both");
    SIM_CHECK(!ask->over || code == SNIB_ELOST || code == SNIB_ENOMEM,
              "the owner's lock was over by the clock, and the answer is %s", snib_errname(code));
    if (!lease) {
        sim_refused(ask, err);
        return;
    }
    ask->finished = true;
    check_grant(ask, lease);
    sim_finished(ask, lease);
    act_in_callback(ask);
}

static void on_event(const snib_event *event, void *arg)
{
    struct ask *ask = arg;
    sim_note(NOTE_EVENT, ask->machine, (int64_t)event->ticket, event->state);
    SIM_CHECK(ask->used && event->ticket == ask->ticket, "an event of another ticket");
    SIM_CHECK(event->why && event->why[0], "an event without a reason");
    if (event->state == SNIB_WAITING) {
        SIM_CHECK(!ask->finished && !event->lease, "waiting, after the answer");
        sim_reach(PATH_EVENT_WAITING);
        return;
    }
    SIM_CHECK(ask->finished && event->lease == ask->lease, "an event before the answer");
    SIM_CHECK(ask->told != SNIB_LOST, "an event after LOST");
    SIM_CHECK(event->state == SNIB_HELD || event->state == SNIB_DOUBTFUL ||
                  event->state == SNIB_LOST,
              "an event of state %d", event->state);
    ask->told = event->state;
    if (event->state == SNIB_LOST) {
        ask->saw_lost = true;
        sim_reach(PATH_EVENT_LOST);
    }
    act_in_callback(ask);
}

/* ---- Acting ----------------------------------------------------------------------------- */

struct ask *sim_free_ask(struct machine *m, int name, const snib_options *options)
{
    struct ask *ask = NULL;
    for (int i = 0; i < ASKS && !ask; i++) {
        ask = m->asks[i].used ? NULL : &m->asks[i];
    }
    if (!ask) {
        return NULL;
    }
    uint64_t turn = ask->turn + 1;
    *ask = (struct ask){.used = true, .machine = m->index, .life = m->life, .turn = turn};
    ask->number = ++m->asked;
    ask->name = name;
    ask->options = *options;
    ask->started = sim_clock(m);
    return ask;
}

/* Its owner had the lock, and by the clock has it no more. */
static bool was_lost(const struct machine *m, int name, const void *owner)
{
    bool had = false;
    const struct snib__list *all = &m->client->all_holds;
    for (const struct snib__list *l = all->after; owner && l != all; l = l->after) {
        const struct snib__hold *h = SNIB__OF(l, struct snib__hold, in_client);
        if (h->owner == owner && h->lease_count > 0 && strcmp(h->line->name, sim_name(name)) == 0) {
            if (sim_believes(h, m)) {
                return false;
            }
            had = true;
        }
    }
    return had;
}

struct ask *sim_ask(struct machine *m, int name, const snib_options *options)
{
    struct ask *ask = sim_free_ask(m, name, options);
    if (!ask) {
        return NULL;
    }
    ask->over = was_lost(m, name, options->owner);
    if (ask->over) {
        sim_reach(PATH_ASKED_WHEN_OVER);
    }
    sim_enter(m);
    char borrowed[16], label[16];
    snprintf(borrowed, sizeof borrowed, "%s", sim_name(name));
    snprintf(label, sizeof label, "%s", sim_name(name));
    snib_options o = *options;
    o.label = label;
    o.on_event = options->on_event ? on_event : NULL;
    o.arg = ask;
    snib_error error;
    sim_note(NOTE_ASKS, m->index, name, 0);
    sim_note(NOTE_OPTIONS, m->index, o.mode, o.wait_ms);
    sim_note(NOTE_LIMITS, m->index, o.max_hold_ms, o.min_left_ms);
    sim_note(NOTE_OWNER, m->index, o.owner ? (const char *)o.owner - m->owners : -1, o.ttl_ms);
    bool withdrawn = sim_withdrawn(m, o.mode);
    int rc = snib_acquire_async(&ask->ticket, m->client, borrowed, &o, on_done, ask, &error);
    SIM_CHECK(rc == 0 || (m->closing && rc == SNIB_ESTATE) ||
                  (world.config.no_memory && rc == SNIB_ENOMEM) ||
                  (withdrawn && rc == SNIB_ENOTSUP),
              "acquire: %s", error.message);
    SIM_CHECK(!withdrawn || rc < 0, "a lock of mode %d, which the service does not have",
              options->mode);
    memset(borrowed, '?', sizeof borrowed); /* arguments are copied */
    memset(label, '?', sizeof label);
    memset(&o, 0xa5, sizeof o);
    sim_note(NOTE_ASKS, m->index, name, (int64_t)ask->ticket);
    if (rc < 0) {
        ask->used = false;
        return NULL;
    }
    return ask;
}

void sim_ask_any(struct machine *m)
{
    const struct sim_config *c = &world.config;
    snib_options o = SNIB_OPTIONS;
    int name = (int)sim_roll((uint64_t)c->names);
    unsigned permits = c->permits[name];
    bool awry = sim_chance(c->mismatch);
    o.mode = (permits > 0) != awry   ? SNIB_COUNTED
             : sim_chance(c->shared) ? SNIB_SHARED
                                     : SNIB_EXCLUSIVE;
    o.permits = o.mode != SNIB_COUNTED ? 1 : permits ? permits : 2;
    o.flags = SNIB_ASYNC_RELEASE | (sim_chance(c->no_renew) ? SNIB_NO_RENEW : 0U);
    o.wait_ms = sim_chance(c->try_once)   ? 0
                : sim_chance(c->deadline) ? 1 + sim_span_ns(c->ttl_ms * 2) / MS
                                          : -1;
    int64_t ttl_ms = c->ttl_ms;
    if (sim_chance(25) && ttl_ms > 200) {
        o.ttl_ms = ttl_ms = ttl_ms / 2;
    }
    if (sim_chance(c->max_hold)) {
        o.max_hold_ms = 1 + sim_span_ns(ttl_ms * 2) / MS;
    }
    if (sim_chance(c->min_left)) {
        int64_t most = ttl_ms * 85 / 100;
        most = o.max_hold_ms && o.max_hold_ms < most ? o.max_hold_ms : most;
        o.min_left_ms = 1 + (int64_t)sim_roll((uint64_t)most);
    }
    if (sim_chance(c->owner)) {
        o.owner = &m->owners[sim_roll(OWNERS)];
    }
    o.on_event = sim_chance(60) ? on_event : NULL;
    m->asks_left--;
    if (sim_chance(c->several) && sim_ask_any_several(m, &o)) {
        return;
    }
    struct ask *ask = sim_ask(m, name, &o);
    if (ask && sim_chance(c->cancel)) {
        sim_later(ask, CANCEL, sim_span_ns(c->ttl_ms));
    }
}

static void reach_cancel(const struct machine *m, const struct ask *ask)
{
    static const enum sim_path by_stage[] = {
        [SNIB__STAGE_ASKED] = PATH_CANCEL_ASKED,
        [SNIB__STAGE_PARKED] = PATH_CANCEL_PARKED,
        [SNIB__STAGE_RESTING] = PATH_CANCEL_RESTING,
        [SNIB__STAGE_PROVING] = PATH_CANCEL_PROVING,
    };
    const struct snib__list *list = &m->client->requests;
    for (const struct snib__list *l = list->after; l != list; l = l->after) {
        const struct snib__request *r = SNIB__OF(l, struct snib__request, in_client);
        if (r->ticket == ask->ticket) {
            sim_reach(r->hold ? by_stage[r->hold->stage] : PATH_CANCEL_IN_LINE);
        }
    }
}

void sim_cancel(struct ask *ask)
{
    struct machine *m = &world.machines[ask->machine];
    if (!ask->used || !ask->ticket || sim_closed(ask) || ask->cancelled) {
        return;
    }
    reach_cancel(m, ask);
    sim_enter(m);
    int rc = snib_cancel(m->client, ask->ticket);
    sim_note(NOTE_CANCELS, m->index, (int64_t)ask->ticket, rc);
    SIM_CHECK(rc == SNIB_OK || rc == SNIB_ESTATE, "cancel answers %d", rc);
    SIM_CHECK(rc == SNIB_ESTATE || !ask->finished, "cancelled after the answer");
    ask->cancelled = rc == SNIB_OK;
    if (rc == SNIB_ESTATE) {
        sim_reach(PATH_CANCEL_TOO_LATE);
    }
}

/* The descriptor says the same as the state. Asking for it may bring the engine's word. */
static void check_descriptor(struct ask *ask)
{
    const struct snib__hold *h = ask->lease->hold;
    const struct record *r = sim_record_of(h);
    bool listened = h->claim.listens;
    int renewals = r->renewals;
    struct pollfd fd = {.fd = snib_fd(ask->lease), .events = POLLIN};
    SIM_CHECK(fd.fd >= 0, "no descriptor");
    SIM_CHECK(listened || h->renewal != SNIB__RENEWAL_IN_TURN,
              "an urgent renewal waits behind the regular ones");
    SIM_CHECK(listened || !snib__hold_valid(h) || r->renewals > renewals || r->open[SNIB__RENEW],
              "the engine does not hear that somebody listens");
    int state = snib_state(ask->lease);
    SIM_CHECK(poll(&fd, 1, 0) == (state != SNIB_HELD), "the descriptor of a lease in state %d",
              state);
}

void sim_look(struct ask *ask)
{
    struct machine *m = &world.machines[ask->machine];
    if (!ask->used || !ask->lease) {
        return;
    }
    sim_enter(m);
    const struct snib__hold *h = ask->lease->hold;
    bool believed = sim_believes(h, m);
    if (!believed && (h->stage == SNIB__STAGE_HELD || h->stage == SNIB__STAGE_DOUBTFUL)) {
        sim_reach(PATH_LOOKED_BEFORE_THE_TIMER);
    }
    int state = snib_state(ask->lease);
    int64_t left_ms = snib_left_ms(ask->lease);
    sim_note(NOTE_LOOKS, m->index, state, left_ms);
    SIM_CHECK(!ask->saw_lost || state == SNIB_LOST, "LOST is final, but state is %d", state);
    SIM_CHECK(believed == (state == SNIB_HELD || state == SNIB_DOUBTFUL), "state %d, believed %d",
              state, believed);
    SIM_CHECK(believed || left_ms <= 0, "state %d with %lld ms left", state, (long long)left_ms);
    SIM_CHECK(state != SNIB_RELEASED || sim_closed(ask), "RELEASED, but the client is open");
    ask->saw_lost = state == SNIB_LOST;
    if (!sim_closed(ask) && sim_chance(5)) {
        check_descriptor(ask);
    }
}

void sim_give_back(struct ask *ask)
{
    struct machine *m = &world.machines[ask->machine];
    if (!ask->used || !ask->lease) {
        return;
    }
    if (ask->busy) { /* a lease is not released under a call about it */
        sim_later(ask, GIVE_BACK, sim_span_ns(10) + MS);
        return;
    }
    sim_enter(m);
    const struct snib__hold *h = ask->lease->hold;
    bool lost = h->lost || (!sim_closed(ask) && !sim_believes(h, m));
    sim_reach(lost              ? PATH_RELEASED_AFTER_LOSS
              : sim_closed(ask) ? PATH_RELEASED_AFTER_CLOSE
                                : PATH_RELEASED_BEFORE_LOSS);
    const struct record *r = sim_closed(ask) ? NULL : sim_record_of(h);
    SIM_CHECK(!r || !r->survives || r->reported || h->stage == SNIB__STAGE_HELD ||
                  world.now_ns < world.recovered_ns,
              "kept through the calm, but in stage %d", (int)h->stage);
    if (sim_release_async(ask, lost)) {
        return;
    }
    snib_error error;
    int rc = snib_release(&ask->lease, &error);
    sim_note(NOTE_RELEASES, m->index, (int64_t)ask->ticket, rc);
    SIM_CHECK(!ask->lease, "the lease is still there");
    SIM_CHECK(rc == (lost ? SNIB_ELOST : SNIB_OK), "release answers %s, lost: %d", snib_errname(rc),
              lost);
    ask->used = false;
}

/* In the calm all give back soon; but some stay a while, and whoever has time enough to renew
 * must not lose anything any more. */
void sim_give_back_calmly(struct ask *ask)
{
    const struct sim_config *c = &world.config;
    struct machine *m = &world.machines[ask->machine];
    if (!ask->used || !ask->lease) {
        return;
    }
    if (sim_closed(ask) || !c->leased || sim_chance(50)) {
        sim_later(ask, GIVE_BACK, sim_span_ns(10));
        return;
    }
    sim_later(ask, GIVE_BACK, c->ttl_ms * 3 / 2 * MS);
    const struct snib__hold *h = ask->lease->hold;
    struct record *r = sim_record_of(h);
    int64_t needed_ms = h->claim.ttl_ms / 12 + 3 * c->timeout_ms + 6 * c->delay_ms + 200;
    r->survives = sim_believes(h, m) && !h->no_renew && h->max_hold_ns == SNIB__NEVER &&
                  !r->broken && !r->reported &&
                  snib__validity_left_ns(h, sim_clock(m)) > needed_ms * MS;
    if (r->survives) {
        sim_reach(PATH_KEPT_THROUGH_THE_CALM);
    }
}

/* ---- What happens to users -------------------------------------------------------------- */

void sim_event(const struct event *event)
{
    struct machine *m = &world.machines[event->machine];
    struct ask *ask = &m->asks[event->ask];
    if (event->kind == ASK) {
        if (world.calm || m->asks_left <= 0) {
            return;
        }
        if (m->client) {
            sim_ask_any(m);
        } else {
            m->asks_left--;
        }
        struct event again = {.kind = ASK, .machine = m->index};
        sim_post(&again, world.now_ns + sim_span_ns(world.config.gap_ms));
        return;
    }
    if (ask->turn != event->turn) {
        return;
    }
    switch (event->kind) {
    case CANCEL:
        if (!world.calm) {
            sim_cancel(ask);
        }
        break;
    case LOOK:
        sim_look(ask);
        break;
    case PROVE:
        sim_prove(ask);
        break;
    default:
        sim_give_back(ask);
        break;
    }
}

bool sim_users_idle(void)
{
    for (int i = 0; i < world.config.machines; i++) {
        const struct machine *m = &world.machines[i];
        for (int k = 0; k < ASKS; k++) {
            if (m->asks[k].used) {
                return false;
            }
        }
        if (m->client && (m->client->holds || m->client->calls.after != &m->client->calls)) {
            return false;
        }
    }
    return true;
}
