/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that use the library: they acquire, wait, change their mind, look, release, break each
 * other's locks. Every answer is compared with what can be true.
 */
#include "world.h"

#include <stdio.h>

const char *name_text(int name)
{
    static const char *const names[NAMES] = {"name-0", "name-1"};
    return names[name];
}

static void later(const struct ask *ask, enum event_kind kind, int64_t span)
{
    const struct machine *m = &world.machines[ask->machine];
    struct event event = {
        .kind = kind,
        .which = ask->machine,
        .ask = (int)(ask - m->asks),
        .turn = ask->turn,
    };
    post(&event, world.now_ns + span);
}

/* ---- Answers ---------------------------------------------------------------------------- */

static bool may_fail_with(const struct ask *ask, int code)
{
    const struct machine *m = &world.machines[ask->machine];
    const snib_options *o = &ask->options;
    bool over =
        o->wait_ms == 0 || (o->wait_ms > 0 && m->boot_ns - ask->started.boot_ns >= o->wait_ms * MS);
    switch (code) {
    case SNIB_ECANCELED:
        return ask->cancelled || m->closing;
    case SNIB_EBUSY:
        return over;
    case SNIB_EKIND:
        return world.config.mismatch > 0;
    case SNIB_EUNKNOWN:
        return over;
    case SNIB_EUNREACH:
    case SNIB_EUNSAFE:
    case SNIB_ELOST:
        return !world.config.clean;
    default:
        return false;
    }
}

/* Whoever was in line before another came is served before. */
static void check_order(const struct ask *ask)
{
    if (!world.config.clean || world.config.passing || layout()->lacks & SNIB_TRAIT_FAIR ||
        ask->options.mode != SNIB_EXCLUSIVE) {
        return;
    }
    for (int i = 0; i < world.config.machines; i++) {
        for (int k = 0; k < ASKS; k++) {
            const struct ask *other = &world.machines[i].asks[k];
            SIM_CHECK(!other->used || other->finished || other->cancelled || !other->queued_ns ||
                          other->name != ask->name || other->queued_ns >= ask->started_ns,
                      "machine %d was served before machine %d, which stood in line already",
                      ask->machine, i);
        }
    }
}

static void on_done(snib_lease *lease, const snib_error *err, void *arg)
{
    struct ask *ask = arg;
    SIM_CHECK(ask->used && !ask->finished, "answered twice");
    SIM_CHECK((lease != NULL) == (err == NULL), "neither a lease nor an error, or both");
    note(ask->machine, "ticket %llu: %s, token %llu %s", (unsigned long long)ask->ticket,
         err ? snib_errname(err->code) : "held", lease ? (unsigned long long)snib_token(lease) : 0,
         err ? err->message : "");
    ask->finished = true;
    if (err) {
        SIM_CHECK(may_fail_with(ask, err->code), "%s, which cannot be: %s", snib_errname(err->code),
                  err->message);
        SIM_CHECK(!ask->cancelled || err->code == SNIB_ECANCELED, "cancelled, but %s",
                  snib_errname(err->code));
        ask->used = false;
        return;
    }
    SIM_CHECK(!ask->cancelled, "cancelled, and granted");
    SIM_CHECK(snib_token(lease) != 0, "a lease without a token");
    check_order(ask);
    ask->lease = lease;
    if (!world.config.scripted || world.calm) {
        later(ask, GIVE_BACK, even_ns(world.calm ? 20 : world.config.hold_ms));
        if (chance(50)) {
            later(ask, LOOK, span_ns(world.config.hold_ms));
        }
    }
}

/* ---- Acting ----------------------------------------------------------------------------- */

struct ask *ask_for(struct machine *m, int name, const snib_options *options)
{
    struct ask *ask = NULL;
    for (int i = 0; i < ASKS && !ask; i++) {
        ask = m->asks[i].used ? NULL : &m->asks[i];
    }
    if (!ask) {
        return NULL;
    }
    uint64_t turn = ask->turn + 1;
    *ask = (struct ask){.used = true, .machine = m->index, .name = name, .life = m->life};
    ask->turn = turn;
    ask->options = *options;
    ask->started = clock_of(m);
    ask->started_ns = world.now_ns;
    ask->options.flags |= SNIB_ASYNC_RELEASE;
    enter(m);
    snib_error error;
    int rc = snib_acquire_async(&ask->ticket, m->client, name_text(name), &ask->options, on_done,
                                ask, &error);
    SIM_CHECK(rc == 0, "acquire: %s", error.message);
    note(m->index, "acquires %s, ticket %llu, mode %d, wait %lld ms, ttl %lld ms", name_text(name),
         (unsigned long long)ask->ticket, ask->options.mode, (long long)ask->options.wait_ms,
         (long long)ask->options.ttl_ms);
    stir(m);
    return ask;
}

void ask_any(struct machine *m)
{
    const struct config *c = &world.config;
    snib_options o = SNIB_OPTIONS;
    int name = (int)roll((uint64_t)c->names);
    unsigned permits = c->permits[name];
    bool awry = chance(c->mismatch);
    o.mode = (permits > 0) != awry ? SNIB_COUNTED
             : chance(c->shared)   ? SNIB_SHARED
                                   : SNIB_EXCLUSIVE;
    o.permits = o.mode != SNIB_COUNTED ? 1 : permits ? permits : 2;
    o.flags = chance(c->no_renew) ? SNIB_NO_RENEW : 0U;
    o.wait_ms = chance(c->try_once)   ? 0
                : chance(c->deadline) ? 1 + span_ns(c->ttl_ms * 2) / MS
                                      : -1;
    if (chance(c->own_ttl)) {
        o.ttl_ms = c->ttl_ms / 2 > 100 ? c->ttl_ms / 2 : 100;
    }
    if (chance(c->max_hold)) {
        o.max_hold_ms = 1 + span_ns(c->ttl_ms * 2) / MS;
    }
    m->asks_left--;
    struct ask *ask = ask_for(m, name, &o);
    if (ask && chance(c->cancel)) {
        later(ask, CANCEL, span_ns(c->ttl_ms));
    }
}

static void cancel(struct ask *ask)
{
    struct machine *m = &world.machines[ask->machine];
    if (!ask->used || ask->finished || ask->cancelled || ask->life != m->life) {
        return;
    }
    enter(m);
    int rc = snib_cancel(m->client, ask->ticket);
    note(m->index, "cancels ticket %llu: %d", (unsigned long long)ask->ticket, rc);
    ask->cancelled = rc == SNIB_OK;
    stir(m);
}

void look(struct ask *ask)
{
    struct machine *m = &world.machines[ask->machine];
    if (!ask->used || !ask->lease) {
        return;
    }
    enter(m);
    bool believed = believes(ask->lease->hold, m);
    int state = snib_state(ask->lease);
    SIM_CHECK(!ask->saw_lost || state == SNIB_LOST, "LOST is final, but the state is %d", state);
    SIM_CHECK(believed == (state == SNIB_HELD || state == SNIB_DOUBTFUL), "state %d, believed %d",
              state, believed);
    ask->saw_lost = state == SNIB_LOST;
    stir(m);
}

void give_back(struct ask *ask)
{
    struct machine *m = &world.machines[ask->machine];
    if (!ask->used || !ask->lease || ask->life != m->life) {
        return;
    }
    enter(m);
    int rc = snib_release(&ask->lease, NULL);
    note(m->index, "releases ticket %llu: %d", (unsigned long long)ask->ticket, rc);
    SIM_CHECK(!ask->lease && (rc == SNIB_OK || rc == SNIB_ELOST), "release answers %s",
              snib_errname(rc));
    ask->used = false;
    stir(m);
}

void break_lock(struct machine *m, int name, bool seize)
{
    enter(m);
    const struct truth *t = truth_of(name);
    if (!m->client || m->paused || m->closing || m->driven || world.blocking || t->count == 0) {
        return;
    }
    uint64_t token = t->holders[0].token;
    snib_error error;
    note(m->index, "%s %s with token %llu", seize ? "seizes" : "breaks", name_text(name),
         (unsigned long long)token);
    world.blocking = m->driven = true;
    world.seizing[name] += seize;
    int rc = seize ? snib_seize(m->client, name_text(name), token, &error)
                   : snib_break(m->client, name_text(name), token, &error);
    world.blocking = m->driven = false;
    note(m->index, "  which ends with %s", rc ? error.message : "OK");
    if (seize && rc != SNIB_EUNKNOWN) { /* else it may still come */
        world.seizing[name]--;
        rupture(name, false);
    }
    stir(m);
}

/* ---- What happens to users -------------------------------------------------------------- */

void user_event(const struct event *e)
{
    struct machine *m = &world.machines[e->which];
    struct ask *ask = &m->asks[e->ask];
    if (e->kind == ASK) {
        if (world.calm || m->asks_left <= 0) {
            return;
        }
        if (m->client && !m->closing) {
            ask_any(m);
        } else {
            m->asks_left--;
        }
        struct event again = {.kind = ASK, .which = m->index};
        post(&again, world.now_ns + span_ns(world.config.gap_ms));
        return;
    }
    if (ask->turn != e->turn || !m->client || m->closing) {
        return;
    }
    if (e->kind == CANCEL) {
        if (!world.calm) {
            cancel(ask);
        }
    } else if (e->kind == LOOK) {
        look(ask);
    } else {
        give_back(ask);
    }
}

bool users_idle(void)
{
    for (int i = 0; i < world.config.machines; i++) {
        const struct machine *m = &world.machines[i];
        for (int k = 0; k < ASKS; k++) {
            if (m->asks[k].used) {
                return false;
            }
        }
        if (m->client && (m->client->holds || m->client->session.undoing)) {
            return false;
        }
    }
    return true;
}
