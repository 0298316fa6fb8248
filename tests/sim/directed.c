/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules that are known to break locks, step by step; the dice stay in the cup. The clocks of
 * all machines run with true time here, every message takes one millisecond.
 */
#include "directed.h"

struct sim_config directed_world(int machines, int64_t ttl_ms)
{
    return (struct sim_config){
        .scripted = true,
        .machines = machines,
        .names = 1,
        .leased = true,
        .style = HANDS_OVER,
        .ttl_ms = ttl_ms,
        .timeout_ms = ttl_ms / 10,
        .recheck_ms = ttl_ms / 3,
        .delay_ms = 1,
        .late = true,
    };
}

struct machine *machine(int index)
{
    return &world.machines[index];
}

struct ask *ask_for(int index, int64_t wait_ms)
{
    snib_options o = SNIB_OPTIONS;
    o.flags = SNIB_ASYNC_RELEASE;
    o.wait_ms = wait_ms;
    struct ask *ask = sim_ask(machine(index), 0, &o);
    CHECK(ask != NULL);
    sim_check();
    return ask;
}

struct ask *ask_and_get(int index)
{
    struct ask *ask = ask_for(index, -1);
    sim_for(10);
    CHECK(holds(ask));
    return ask;
}

bool holds(struct ask *ask)
{
    if (!ask->lease) {
        return false;
    }
    sim_enter(&world.machines[ask->machine]);
    return sim_believes(ask->lease->hold, &world.machines[ask->machine]);
}

enum snib__stage stage_of(const struct ask *ask)
{
    for (size_t i = world.record_count; i > 0; i--) {
        const struct record *r = world.records[i - 1];
        if (r->machine == ask->machine && r->ticket == ask->ticket && r->hold) {
            return r->hold->stage;
        }
    }
    return SNIB__STAGE_RELEASED;
}

void cut_off(int index, int64_t ms)
{
    machine(index)->cut_until_ns = world.now_ns + ms * MS;
}

void finish(void)
{
    sim_calm();
    sim_end();
}

/* ---- Old grants ------------------------------------------------------------------------- */

DIRECTED(a_grant_read_after_a_pause_is_proved_first)
{
    struct sim_config c = directed_world(3, 1000);
    sim_begin(&c);
    struct ask *a = ask_and_get(0);
    struct ask *b = ask_for(1, -1);
    sim_for(10);
    CHECK_INT(stage_of(b), ==, SNIB__STAGE_PARKED);
    struct ask *other = ask_for(2, -1);
    sim_for(10);
    sim_pause(machine(1), 5000, false);
    sim_give_back(a);
    sim_for(10);
    CHECK_INT(world.locks[0].holders[0].machine, ==, 1); /* the server has given it to b */
    sim_for(2000);
    CHECK(holds(other)); /* which did not hear, and lost it again */
    uint64_t token = snib_token(other->lease);
    sim_for(2965);
    CHECK_INT(machine(1)->letters, >=, 1);
    sim_for(10); /* b goes on, and reads that it was granted */
    CHECK(holds(other));
    CHECK(!b->finished);
    sim_for(100);
    CHECK_INT(stage_of(b), ==, SNIB__STAGE_PARKED); /* under another owner id */
    sim_give_back(other);
    sim_for(20);
    CHECK(holds(b));
    CHECK_UINT(snib_token(b->lease), >, token);
    finish();
}

/* Regular renewals take turns; but who would be in doubt soon does not wait for an answer that does
 * not come. */
DIRECTED(renewals_that_press_do_not_wait_for_their_turn)
{
    enum { LOCKS = 3 };
    struct sim_config c = directed_world(1, 30000);
    c.names = LOCKS;
    c.renewals = 1;
    c.timeout_ms = 25000;
    sim_begin(&c);
    for (int i = 0; i < LOCKS; i++) {
        snib_options o = SNIB_OPTIONS;
        o.flags = SNIB_ASYNC_RELEASE;
        CHECK(sim_ask(machine(0), i, &o) != NULL);
    }
    sim_for(100);
    machine(0)->stalled_ns[RENEWALS] = world.now_ns + 20000 * MS;
    sim_for(12000);
    CHECK_UINT(machine(0)->client->renewals_out, ==, 1);
    sim_for(5000);
    CHECK_UINT(machine(0)->client->renewals_out, ==, LOCKS);
    finish();
}

DIRECTED(a_repeated_attempt_counts_from_what_is_left)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    machine(0)->lose_answers = 1;
    struct ask *a = ask_for(0, -1);
    sim_for(2990);
    CHECK(!a->finished); /* granted at the server, and nobody knows */
    CHECK_INT(world.locks[0].holding, ==, 1);
    int64_t ends_ns = world.locks[0].holders[0].ends_ns;
    sim_for(1000);
    CHECK(holds(a)); /* repeated: "yours already" */
    CHECK(world.locks[0].holders[0].ends_ns == ends_ns);
    sim_enter(machine(0));
    int64_t left_ms = snib_left_ms(a->lease);
    CHECK_INT(left_ms, <=, (ends_ns - world.now_ns) / MS);
    cut_off(0, 60000); /* no renewal gets through */
    sim_for(left_ms - 1);
    CHECK(holds(a));
    sim_for(2);
    CHECK(!holds(a));
    CHECK_INT(world.locks[0].holding, ==, 1); /* known before the server gives it away */
    finish();
}

DIRECTED(a_late_answer_of_an_old_attempt_does_not_bring_its_token)
{
    struct sim_config c = directed_world(2, 1000);
    sim_begin(&c);
    machine(0)->lose_answers = 1;
    struct ask *a = ask_for(0, -1);
    sim_for(10);
    struct message old = {
        .kind = ANSWER, .about = ATTEMPT, .life = 1, .status = SNIB__HELD, .left_ms = 1000};
    old.token = world.locks[0].holders[0].token;
    old.sent = sim_clock(machine(0));
    cut_off(0, 2000);
    struct ask *b = ask_for(1, -1);
    sim_for(1990);
    CHECK(holds(b)); /* the first lease has ended */
    sim_give_back(b);
    machine(0)->lose_answers = 1;
    for (int i = 0; i < 1000 && world.records[0]->token == old.token; i++) {
        sim_for(5);
    }
    CHECK_INT(world.locks[0].holding, ==, 1); /* granted to a once more, under the same id */
    CHECK_UINT(world.locks[0].holders[0].token, >, old.token);
    CHECK(!a->finished);
    struct event event = {.kind = TO_CLIENT, .message = old};
    sim_post(&event, world.now_ns);
    sim_for(50);
    CHECK(holds(a));
    CHECK_UINT(snib_token(a->lease), ==, world.locks[0].holders[0].token);
    finish();
}

/* ---- Late releases ---------------------------------------------------------------------- */

DIRECTED(a_late_release_cannot_hit_the_next_grant)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    struct ask *a = ask_and_get(0);
    struct message late = {.kind = RELEASE, .life = 1, .owner = world.records[0]->owner};
    sim_give_back(a);
    struct ask *b = ask_and_get(0);
    CHECK_UINT(world.records[1]->owner, !=, world.records[0]->owner);
    sim_arrive(&late); /* the release once more, overtaken by the new grant */
    sim_for(100);
    CHECK(holds(b));
    CHECK_INT(world.locks[0].holding, ==, 1);
    finish();
}

DIRECTED(a_release_follows_an_attempt_that_is_still_on_its_way)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    machine(0)->stalled_ns[MAIN] = world.now_ns + 10000 * MS;
    struct ask *a = ask_for(0, 1000);
    sim_for(1010);
    CHECK(!a->used); /* answered: unknown */
    CHECK(world.records[0]->released);
    CHECK_INT(world.locks[0].holding, ==, 0);
    sim_for(9000);
    CHECK_UINT(world.locks[0].last_token, ==, world.records[0]->token); /* granted after all */
    CHECK_INT(world.locks[0].holding, ==, 0);                           /* and given back */
    CHECK_INT(world.records[0]->attempts, ==, 1);
    finish();
}

/* ---- Release against keeper ------------------------------------------------------------- */

DIRECTED(what_comes_in_during_a_release_is_dropped)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    struct ask *a = ask_and_get(0);
    struct record *r = world.records[0];
    machine(0)->lose_requests = 1;
    sim_for(10100);
    CHECK_INT(r->renewals, ==, 1); /* sent, and lost */
    machine(0)->stalled_ns[MAIN] = world.now_ns + 1000 * MS;
    sim_give_back(a);
    CHECK_INT(r->hold->stage, ==, SNIB__STAGE_RELEASING);
    struct message answer = {
        .kind = ANSWER, .about = RENEW, .life = 1, .status = SNIB__HELD, .left_ms = 30000};
    answer.token = world.locks[0].holders[0].token;
    answer.sent = sim_clock(machine(0));
    struct event event = {.kind = TO_CLIENT, .message = answer};
    sim_post(&event, world.now_ns); /* still yours */
    event.message.about = ATTEMPT;
    sim_post(&event, world.now_ns); /* granted */
    event.message.status = SNIB__QUEUED;
    sim_post(&event, world.now_ns);
    event.message.kind = EVICTED; /* lost */
    sim_post(&event, world.now_ns);
    sim_for(500);
    CHECK_INT(r->hold->stage, ==, SNIB__STAGE_RELEASING);
    CHECK_INT(r->renewals, ==, 1);
    CHECK_INT(r->attempts, ==, 1);
    sim_for(600);
    CHECK(r->claim == NULL);
    CHECK_INT(machine(0)->client->holds, ==, 0);
    finish();
}

DIRECTED(what_is_lost_is_not_renewed)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    struct ask *a = ask_and_get(0);
    const struct record *r = world.records[0];
    machine(0)->lose_requests = 1;
    sim_for(10100);
    CHECK_INT(r->renewals, ==, 1); /* sent, and lost */
    sim_pause(machine(0), 2600, false);
    struct message answer = {
        .kind = ANSWER, .about = RENEW, .life = 1, .status = SNIB__HELD, .left_ms = 30000};
    answer.status = SNIB__UNKNOWN; /* so that another renewal is due */
    struct event event = {.kind = TO_CLIENT, .message = answer};
    sim_post(&event, world.now_ns);
    event.message.kind = EVICTED; /* but by then it is lost */
    sim_post(&event, world.now_ns);
    sim_for(2700);
    sim_enter(machine(0));
    CHECK_INT(snib_state(a->lease), ==, SNIB_LOST);
    CHECK_INT(r->renewals, ==, 1);
    finish();
}

DIRECTED(what_is_lost_stays_lost_and_is_released_all_the_same)
{
    struct sim_config c = directed_world(1, 1000);
    sim_begin(&c);
    struct ask *a = ask_and_get(0);
    struct record *r = world.records[0];
    sim_for(400);
    cut_off(0, 2000);
    sim_for(1500);
    sim_enter(machine(0));
    CHECK_INT(snib_state(a->lease), ==, SNIB_LOST);
    CHECK_INT(world.locks[0].holding, ==, 0);
    sim_for(1000);
    struct message answer = {
        .kind = ANSWER, .about = RENEW, .life = 1, .status = SNIB__HELD, .left_ms = 1000};
    answer.token = r->token;
    answer.sent = sim_clock(machine(0));
    struct event event = {.kind = TO_CLIENT, .message = answer};
    sim_post(&event, world.now_ns);
    sim_for(10);
    sim_enter(machine(0));
    CHECK_INT(snib_state(a->lease), ==, SNIB_LOST);
    CHECK_INT(snib_left_ms(a->lease), <=, 0);
    CHECK(!r->released);
    CHECK_INT(snib_release(&a->lease, NULL), ==, SNIB_ELOST);
    CHECK(r->released);
    a->used = false;
    finish();
}

DIRECTED(a_clock_jump_is_no_loss_when_the_renewal_succeeds)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    struct ask *a = ask_and_get(0);
    machine(0)->boot_ns += 22000 * MS; /* two thirds of the ttl, and no time has passed */
    sim_enter(machine(0));
    CHECK_INT(snib_state(a->lease), ==, SNIB_DOUBTFUL);
    sim_for(100);
    sim_enter(machine(0));
    CHECK_INT(snib_state(a->lease), ==, SNIB_HELD);
    CHECK_INT(snib_left_ms(a->lease), >, 26000);
    finish();
}

DIRECTED(a_short_lease_is_renewed_in_time)
{
    struct sim_config c = directed_world(2, 30000);
    c.handover_ms = 3000;
    sim_begin(&c);
    struct ask *b = ask_for(1, -1);
    sim_for(100);
    CHECK(holds(b));
    struct ask *a = ask_for(0, -1);
    sim_for(100);
    sim_give_back(b);
    sim_for(50);
    CHECK(holds(a)); /* handed over for 3 s: believed at once */
    uint64_t index = world.locks[0].holders[0].record;
    CHECK_INT(world.records[index]->renewals, ==, 0);
    sim_for(1500);
    CHECK_INT(world.records[index]->renewals, ==, 1); /* not in 10 s */
    CHECK_INT(snib_left_ms(a->lease), >, 20000);
    finish();
}

DIRECTED(a_lease_for_more_than_was_asked_is_renewed_later)
{
    struct sim_config c = directed_world(1, 6000);
    c.longer = 100;
    sim_begin(&c);
    struct ask *a = ask_and_get(0);
    CHECK_INT(snib_ttl_ms(a->lease), ==, 12000);
    sim_for(3500);
    CHECK_INT(world.records[0]->renewals, ==, 0); /* not in 2 s */
    sim_for(1000);
    CHECK_INT(world.records[0]->renewals, ==, 1);
    CHECK_INT(snib_left_ms(a->lease), >, 6000);
    finish();
}

/* ---- Sessions --------------------------------------------------------------------------- */

DIRECTED(the_end_of_a_session_is_told_to_every_claim)
{
    struct sim_config c = directed_world(2, 30000);
    c.names = NAMES;
    sim_begin(&c);
    snib_options o = SNIB_OPTIONS;
    o.flags = SNIB_ASYNC_RELEASE;
    struct ask *other = sim_ask(machine(1), 0, &o);
    sim_for(10);
    struct ask *asks[NAMES];
    for (int name = 0; name < NAMES; name++) {
        asks[name] = sim_ask(machine(0), name, &o);
    }
    sim_for(10);
    CHECK_INT(stage_of(asks[0]), ==, SNIB__STAGE_PARKED);
    sim_end_session(machine(0));
    sim_for(5);
    sim_enter(machine(0));
    for (int name = 1; name < NAMES; name++) {
        CHECK_INT(snib_state(asks[name]->lease), ==, SNIB_LOST);
    }
    CHECK_INT(stage_of(asks[0]), ==, SNIB__STAGE_PARKED); /* in the queue again */
    CHECK(holds(other));
    sim_give_back(other);
    sim_for(10);
    CHECK(holds(asks[0]));
    finish();
}

/* ---- Not more than needed --------------------------------------------------------------- */

DIRECTED(a_short_max_hold_needs_no_proof)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    snib_options o = SNIB_OPTIONS;
    o.flags = SNIB_ASYNC_RELEASE;
    o.max_hold_ms = 500;
    struct ask *a = sim_ask(machine(0), 0, &o);
    sim_for(10);
    CHECK(holds(a));
    CHECK_INT(world.records[0]->renewals, ==, 0);
    sim_for(500);
    CHECK(!holds(a)); /* and it is given back at once */
    CHECK_INT(world.locks[0].holding, ==, 0);
    finish();
}

DIRECTED(without_renewal_a_lock_handed_over_for_a_moment_lasts_a_ttl)
{
    struct sim_config c = directed_world(2, 30000);
    c.handover_ms = 3000;
    sim_begin(&c);
    struct ask *a = ask_and_get(0);
    snib_options o = SNIB_OPTIONS;
    o.flags = SNIB_ASYNC_RELEASE | SNIB_NO_RENEW;
    struct ask *b = sim_ask(machine(1), 0, &o);
    sim_for(10);
    CHECK_INT(stage_of(b), ==, SNIB__STAGE_PARKED);
    sim_give_back(a);
    sim_for(10);
    CHECK(holds(b));
    CHECK_INT(snib_left_ms(b->lease), >, 25000);
    finish();
}

DIRECTED(renewals_that_are_due_together_go_out_together)
{
    struct sim_config c = directed_world(1, 30000);
    c.names = NAMES;
    sim_begin(&c);
    snib_options o = SNIB_OPTIONS;
    o.flags = SNIB_ASYNC_RELEASE;
    for (int name = 0; name < NAMES; name++) {
        struct ask *a = sim_ask(machine(0), name, &o);
        sim_for(10);
        CHECK(holds(a));
    }
    sim_for(10000);
    for (int i = 0; i < NAMES; i++) {
        CHECK_INT(world.records[i]->renewals, ==, 1);
    }
    CHECK_UINT(world.renew_calls, ==, 1);
    finish();
}

DIRECTED(an_owner_in_line_enters_with_its_first_grant)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    struct machine *m = machine(0);
    snib_options o = SNIB_OPTIONS;
    o.flags = SNIB_ASYNC_RELEASE;
    struct ask *stranger = sim_ask(m, 0, &o);
    o.owner = &m->owners[0];
    struct ask *first = sim_ask(m, 0, &o);
    o.owner = NULL;
    struct ask *between = sim_ask(m, 0, &o);
    o.owner = &m->owners[0];
    o.mode = SNIB_SHARED;
    struct ask *again = sim_ask(m, 0, &o);
    sim_for(10);
    CHECK(holds(stranger));
    CHECK(!first->finished && !between->finished && !again->finished);
    sim_give_back(stranger);
    sim_for(10);
    CHECK(holds(first) && holds(again));
    CHECK_UINT(snib_token(first->lease), ==, snib_token(again->lease));
    CHECK(!between->finished);
    sim_give_back(first);
    sim_for(10);
    CHECK(holds(again) && !between->finished);
    sim_give_back(again);
    sim_for(10);
    CHECK(holds(between));
    finish();
}
