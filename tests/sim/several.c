/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that want several locks at once: all of them or none, under one ticket. Until they are
 * told, the leases are the core's; afterwards each is as good as one that was asked for alone.
 */
#include "sim.h"

#include <stdio.h>

/* Those that the core has taken for somebody who has not been told yet. */
unsigned sim_several_leases(const struct machine *m, const struct snib__hold *h)
{
    unsigned n = 0;
    for (int i = 0; i < ASKS; i++) {
        const struct ask *ask = &m->asks[i];
        if (!ask->used || !ask->several || ask->life != m->life) {
            continue;
        }
        for (const struct snib__list *l = h->leases.after; l != &h->leases; l = l->after) {
            n += SNIB__OF(l, const struct snib_lease, link)->ticket == ask->ticket;
        }
    }
    return n;
}

/* One deadline for all of them. */
bool sim_several_in_time(const struct machine *m, snib_ticket ticket, int64_t bound_ns)
{
    for (int i = 0; i < ASKS; i++) {
        const struct ask *ask = &m->asks[i];
        if (ask->used && ask->several && ask->life == m->life && ask->ticket == ticket &&
            ask->options.wait_ms > 0) {
            int64_t waited_ns = m->boot_ns - ask->started.boot_ns;
            return waited_ns <= ask->options.wait_ms * MS * 5 / 4 + bound_ns;
        }
    }
    return true;
}

static void check_none_kept(const struct machine *m, const struct ask *ask)
{
    if (!m->client || ask->life != m->life) {
        return;
    }
    const struct snib__list *all = &m->client->all_holds;
    for (const struct snib__list *k = all->after; k != all; k = k->after) {
        const struct snib__hold *h = SNIB__OF(k, struct snib__hold, in_client);
        for (const struct snib__list *l = h->leases.after; l != &h->leases; l = l->after) {
            SIM_CHECK(SNIB__OF(l, const struct snib_lease, link)->ticket != ask->ticket,
                      "ticket %llu was refused, and '%s' is kept", (unsigned long long)ask->ticket,
                      h->line->name);
        }
    }
}

static int name_of(const snib_lease *lease)
{
    return snib_name(lease)[strlen(snib_name(lease)) - 1] - '0';
}

static void take(struct machine *m, struct ask *ask, snib_lease *lease)
{
    SIM_CHECK(sim_believes(lease->hold, m), "one of several was lost when all were told");
    SIM_CHECK(snib_token(lease) != 0, "a lease without a token");
    ask->name = name_of(lease);
    ask->reentered = lease != &lease->hold->first;
    sim_finished(ask, lease);
}

static void on_all(snib_lease *const leases[], size_t n, const snib_error *err, void *arg)
{
    struct ask *ask = arg;
    struct machine *m = &world.machines[ask->machine];
    int code = err ? err->code : SNIB_OK;
    sim_note(NOTE_DONE, ask->machine, (int64_t)ask->ticket, code);
    SIM_CHECK(ask->used && !ask->finished && ask->several, "ticket %llu is answered twice",
              (unsigned long long)ask->ticket);
    SIM_CHECK((leases != NULL) == (err == NULL), "neither leases nor an error, or both");
    if (!leases) {
        sim_reach(code == SNIB_ELOST ? PATH_SEVERAL_LOST : PATH_SEVERAL_REFUSED);
        check_none_kept(m, ask);
        sim_refused(ask, err);
        return;
    }
    SIM_CHECK(!ask->cancelled, "cancelled, and granted");
    sim_reach(PATH_SEVERAL_GRANTED);
    ask->several = false;
    snib_options o = ask->options;
    snib_ticket ticket = ask->ticket;
    for (size_t i = 1; i < n; i++) {
        struct ask *other = sim_free_ask(m, 0, &o);
        snib_lease *lease = leases[i];
        if (other) {
            other->ticket = ticket;
            take(m, other, lease);
        } else {
            (void)snib_release(&lease, NULL);
        }
    }
    take(m, ask, leases[0]);
}

struct ask *sim_ask_several(struct machine *m, const int names[], size_t n,
                            const snib_options *options)
{
    struct ask *ask = sim_free_ask(m, names[0], options);
    if (!ask) {
        return NULL;
    }
    ask->several = true;
    ask->options.on_event = NULL;
    sim_enter(m);
    char borrowed[NAMES][16], label[] = "several";
    const char *list[NAMES];
    for (size_t i = 0; i < n; i++) {
        snprintf(borrowed[i], sizeof borrowed[i], "%s", sim_name(names[i]));
        list[i] = borrowed[i];
        sim_note(NOTE_ASKS, m->index, names[i], 0);
    }
    snib_options o = *options;
    o.on_event = NULL;
    o.label = label;
    snib_error error;
    bool withdrawn = sim_withdrawn(m, o.mode);
    int rc = snib_acquire_all_async(&ask->ticket, m->client, list, n, &o, on_all, ask, &error);
    SIM_CHECK(rc == 0 || (m->closing && rc == SNIB_ESTATE) ||
                  (world.config.no_memory && rc == SNIB_ENOMEM) ||
                  (withdrawn && rc == SNIB_ENOTSUP),
              "acquire of several: %s", error.message);
    memset(borrowed, '?', sizeof borrowed); /* arguments are copied */
    memset(label, '?', sizeof label);
    memset(list, 0, sizeof list);
    sim_note(NOTE_ASKS, m->index, (int64_t)n, (int64_t)ask->ticket);
    if (rc < 0) {
        ask->used = false;
        return NULL;
    }
    return ask;
}

/* Names of one kind, in any order. False: there are not enough of them. */
bool sim_ask_any_several(struct machine *m, const snib_options *options)
{
    int names[NAMES];
    size_t n = 0;
    for (int i = 0; i < world.config.names; i++) {
        if (!world.config.permits[i]) {
            names[n++] = i;
        }
    }
    if (n < 2 || options->mode == SNIB_COUNTED) {
        return false;
    }
    size_t first = sim_roll(n);
    int swapped = names[0];
    names[0] = names[first];
    names[first] = swapped;
    struct ask *ask = sim_ask_several(m, names, 2 + sim_roll(n - 1), options);
    if (ask && sim_chance(world.config.cancel)) {
        sim_later(ask, CANCEL, sim_span_ns(world.config.ttl_ms));
    }
    return true;
}
