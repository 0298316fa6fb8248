/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an engine learns about all of its claims at once: that the server has ended the session
 * they belong to, that the connection is gone, that the service can do less than was hoped for.
 *
 * A report about the session reaches every claim there is: what was held is lost, what had a place
 * in the queue asks for another one, what was about to be proved starts again.
 */
#include "sim.h"

static bool told_so(const struct snib__hold *h, enum snib__stage before, enum snib_state state)
{
    switch (before) {
    case SNIB__STAGE_HELD:
    case SNIB__STAGE_DOUBTFUL:
        return state == SNIB_LOST ? h->lost : h->stage == SNIB__STAGE_DOUBTFUL;
    case SNIB__STAGE_PARKED:
        return state != SNIB_LOST || h->stage == SNIB__STAGE_ASKED;
    case SNIB__STAGE_PROVING:
        return state != SNIB_LOST || h->stage == SNIB__STAGE_RELEASING;
    default:
        return true;
    }
}

void sim_report_session(struct machine *m, enum snib_state state)
{
    sim_note(NOTE_REPORTS, m->index, -1, state);
    if (m->live_count > 1) {
        sim_reach(PATH_REPORTED_ALL);
    }
    for (size_t i = 0; i < m->live_count; i++) {
        struct record *r = world.records[m->live[i]];
        r->stage_before = r->hold->stage;
        if (state == SNIB_LOST) {
            r->reported = true;
            r->said_gone = r->said_gone || r->granted;
            r->parked = false;
            sim_reach_report(r->hold->stage);
        }
    }
    m->in_upcall++;
    m->said++;
    snib__report_session(&m->client->session, state, "the engine has noticed something");
    m->in_upcall--;
    for (size_t i = 0; i < m->live_count; i++) {
        const struct record *r = world.records[m->live[i]];
        SIM_CHECK(told_so(r->hold, r->stage_before, state),
                  "the session was reported, and claim %zu in stage %d has not heard it", r->number,
                  (int)r->stage_before);
    }
}

/* ---- Traits ----------------------------------------------------------------------------- */

static unsigned needs(int mode)
{
    return mode == SNIB_SHARED ? SNIB_TRAIT_SHARED : mode == SNIB_COUNTED ? SNIB_TRAIT_COUNTED : 0;
}

bool sim_withdrawn(const struct machine *m, int mode)
{
    return m->contact && needs(mode) & world.config.fewer;
}

/* The first word of the server. The engine says what it found, and more than it may. */
void sim_make_contact(struct machine *m)
{
    unsigned found = (sim_engine.traits | SNIB_TRAIT_BREAKS) & ~world.config.fewer;
    if (m->contact) {
        return;
    }
    m->contact = true;
    if (world.config.fewer) {
        sim_note(NOTE_WITHDRAWS, m->index, world.config.fewer, m->session);
        sim_reach(PATH_WITHDRAWN);
    }
    snib__traits(&m->client->session, found);
}

void sim_check_traits(const struct machine *m)
{
    unsigned gone = m->contact ? world.config.fewer : 0;
    SIM_CHECK(snib_traits(m->client) == (m->client->possible & ~gone),
              "the traits are %x, %x were possible and %x are withdrawn", snib_traits(m->client),
              m->client->possible, gone);
}
