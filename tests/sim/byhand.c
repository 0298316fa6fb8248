/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that wait, in a world by dice: a lease is verified or renewed by hand, and the world goes
 * on until the answer is there. And releases that want to be told how they ended.
 */
#include "sim.h"

/* ---- Verify and renew ------------------------------------------------------------------- */

static int64_t wanted_ttl_ms(const struct snib__hold *h)
{
    int64_t ttl_ms = world.config.ttl_ms;
    if (sim_chance(50) || ttl_ms / 2 < 100) {
        return 0;
    }
    return h->claim.ttl_ms < ttl_ms ? ttl_ms : ttl_ms / 2; /* longer, or shorter */
}

/* What was true before the call, to be compared with what is true after it. */
struct before {
    int renewals;
    bool no_renew;
    struct snib__instant granted, asked;
    int64_t max_hold_ns;
};

static void check_proved(const struct ask *ask, const struct before *before, bool renewed)
{
    const struct machine *m = &world.machines[ask->machine];
    const struct snib__hold *h = ask->lease->hold;
    const struct record *r = sim_record_of(h);
    SIM_CHECK(r->renewals > before->renewals, "proved without asking the engine");
    if (h->lost || h->stage > SNIB__STAGE_LOST) { /* since */
        return;
    }
    bool moved = h->granted.boot_ns != before->granted.boot_ns;
    if (!before->no_renew || !renewed) {
        SIM_CHECK(!moved && h->max_hold_ns == before->max_hold_ns,
                  "the maximum hold was moved by %s", renewed ? "a renewal" : "a verify");
    } else {
        SIM_CHECK(h->granted.boot_ns >= before->asked.boot_ns,
                  "renewed by hand, and the ttl has not begun anew");
        sim_reach(PATH_RENEWED_NO_RENEW);
    }
    SIM_CHECK(!h->no_renew || snib__validity_left_ns(h, sim_clock(m)) <= h->claim.ttl_ms * MS,
              "more than a ttl is left of what nobody renews");
}

void sim_prove(struct ask *ask)
{
    struct machine *m = &world.machines[ask->machine];
    if (!ask->used || !ask->lease || sim_closed(ask) || world.blocking || world.calm) {
        return;
    }
    sim_enter(m);
    const struct snib__hold *h = ask->lease->hold;
    struct before before = {
        .renewals = sim_record_of(h)->renewals,
        .no_renew = h->no_renew,
        .granted = h->granted,
        .asked = sim_clock(m),
        .max_hold_ns = h->max_hold_ns,
    };
    bool renews = sim_chance(60);
    int64_t ttl_ms = wanted_ttl_ms(h);
    snib_error error;
    sim_note(NOTE_PROVES, m->index, (int64_t)ask->ticket, renews ? ttl_ms : -1);
    world.blocking = ask->busy = true;
    int rc = renews ? snib_renew(ask->lease, ttl_ms, &error) : snib_verify(ask->lease, &error);
    world.blocking = ask->busy = false;
    sim_note(NOTE_PROVED, m->index, (int64_t)ask->ticket, rc);
    if (rc == SNIB_OK) {
        sim_reach(renews ? PATH_RENEWED_BY_HAND : PATH_VERIFIED);
        check_proved(ask, &before, renews);
    } else if (rc == SNIB_ELOST) {
        sim_reach(PATH_PROVE_LOST);
        SIM_CHECK(h->lost, "ELOST, and not lost");
    } else {
        sim_reach(PATH_PROVE_UNKNOWN);
        SIM_CHECK(rc == SNIB_EUNKNOWN, "a lease that is held: %s", snib_errname(rc));
    }
}

/* ---- Releases that are told ------------------------------------------------------------- */

static void on_released(int code, const snib_error *err, void *arg)
{
    struct ask *ask = arg;
    struct machine *m = &world.machines[ask->machine];
    sim_note(NOTE_RELEASED, m->index, (int64_t)ask->ticket, code);
    sim_reach(PATH_RELEASED_ASYNC);
    SIM_CHECK(ask->used && ask->finished && !ask->lease, "told of a release that nobody made");
    SIM_CHECK((code == SNIB_OK) == (err == NULL), "code %d, and an error: %d", code, err != NULL);
    SIM_CHECK(ask->saw_lost ? code == SNIB_ELOST
                            : code == SNIB_OK || code == SNIB_ELOST || code == SNIB_EUNKNOWN,
              "a release is told %s, lost: %d", snib_errname(code), ask->saw_lost);
    ask->used = false;
    m->released_async--;
}

bool sim_release_async(struct ask *ask, bool lost)
{
    struct machine *m = &world.machines[ask->machine];
    snib_error error;
    if (sim_closed(ask) || !sim_chance(world.config.released_async)) {
        return false;
    }
    int rc = snib_release_async(&ask->lease, on_released, ask, &error);
    sim_note(NOTE_RELEASES, m->index, (int64_t)ask->ticket, rc);
    if (rc < 0) {
        SIM_CHECK(rc == SNIB_ENOMEM && world.config.no_memory && ask->lease, "%s", error.message);
        return false;
    }
    SIM_CHECK(!ask->lease, "the lease is still there");
    ask->saw_lost = lost;
    m->released_async++;
    return true;
}
