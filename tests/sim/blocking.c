/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocking calls, in a world without threads: the call drives the engine, and while it does
 * the world goes on.
 */
#include "directed.h"

static int acquire(snib_lease **out, int index, int64_t wait_ms, snib_error *error)
{
    snib_options o = SNIB_OPTIONS;
    char label[] = "name-0";
    o.wait_ms = wait_ms;
    o.label = label;
    sim_enter(machine(index));
    return snib_acquire(out, machine(index)->client, "name-0", &o, error);
}

DIRECTED(a_wait_ends_at_its_deadline_or_with_the_lock)
{
    struct sim_config c = directed_world(2, 30000);
    sim_begin(&c);
    struct ask *other = ask_and_get(1);
    snib_lease *lease;
    snib_error error;
    int64_t start_ns = world.now_ns;
    CHECK_INT(acquire(&lease, 0, 500, &error), ==, SNIB_EBUSY);
    CHECK_INT((world.now_ns - start_ns) / MS, ==, 500);
    CHECK_INT(acquire(&lease, 0, 0, &error), ==, SNIB_EBUSY);
    struct event give_back = {.kind = GIVE_BACK, .machine = 1, .turn = other->turn};
    sim_post(&give_back, world.now_ns + 100 * MS);
    start_ns = world.now_ns;
    CHECK_INT(acquire(&lease, 0, -1, &error), ==, SNIB_OK);
    CHECK_INT((world.now_ns - start_ns) / MS, <=, 110);
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_OK);
    CHECK_INT(world.locks[0].holding, ==, 0);
    finish();
}

DIRECTED(no_answer_is_neither_yes_nor_no)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    snib_lease *lease;
    snib_error error;
    cut_off(0, 5000);
    CHECK_INT(acquire(&lease, 0, 0, &error), ==, SNIB_EUNKNOWN);
    CHECK_INT(acquire(&lease, 0, 100, &error), ==, SNIB_EUNKNOWN);
    CHECK_INT(acquire(&lease, 0, -1, &error), ==, SNIB_OK);
    CHECK_INT(world.now_ns / MS, <=, 10000);
    CHECK_INT(snib_verify(lease, &error), ==, SNIB_OK);
    cut_off(0, 4000);
    CHECK_INT(snib_verify(lease, &error), ==, SNIB_EUNKNOWN);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    sim_for(2000);
    machine(0)->lose_answers = 1;
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_EUNKNOWN); /* freed, but who knows */
    CHECK_INT(world.locks[0].holding, ==, 0);
    finish();
}

DIRECTED(a_loss_is_told_apart_from_no_answer)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    snib_lease *lease;
    snib_error error;
    CHECK_INT(acquire(&lease, 0, -1, &error), ==, SNIB_OK);
    machine(0)->lose_answers = 1; /* nobody tells the holder */
    sim_evict(0);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    CHECK_INT(snib_verify(lease, &error), ==, SNIB_ELOST);
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_ELOST);

    CHECK_INT(acquire(&lease, 0, -1, &error), ==, SNIB_OK);
    sim_evict(0);
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_ELOST); /* learnt only now */
    finish();
}

DIRECTED(verify_wants_an_answer_to_its_own_question)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    snib_lease *lease;
    snib_error error;
    CHECK_INT(acquire(&lease, 0, -1, &error), ==, SNIB_OK);
    machine(0)->stalled_ns[RENEWALS] = world.now_ns + 12000 * MS;
    sim_for(10500);
    CHECK_INT(world.records[0]->renewals, ==, 1); /* on its way since before the question */
    sim_enter(machine(0));
    CHECK_INT(snib_verify(lease, &error), ==, SNIB_OK);
    CHECK_INT(world.records[0]->renewals, ==, 2);
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_OK);
    finish();
}

DIRECTED(an_owner_enters_again_without_a_word_to_the_engine)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    snib_lease *leases[3];
    snib_error error;
    snib_options o = SNIB_OPTIONS;
    o.owner = machine(0)->owners;
    o.label = "name-0";
    sim_enter(machine(0));
    for (int i = 0; i < 3; i++) {
        CHECK_INT(snib_acquire(&leases[i], machine(0)->client, "name-0", &o, &error), ==, SNIB_OK);
        CHECK_UINT(snib_token(leases[i]), ==, snib_token(leases[0]));
    }
    CHECK_UINT(world.record_count, ==, 1);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(world.locks[0].holding, ==, 1);
        CHECK_INT(snib_release(&leases[i], &error), ==, SNIB_OK);
    }
    CHECK_INT(world.locks[0].holding, ==, 0);
    finish();
}

DIRECTED(a_verify_does_not_wait_behind_the_regular_renewals)
{
    struct sim_config c = directed_world(1, 30000);
    c.names = 2;
    c.renewals = 1;
    sim_begin(&c);
    snib_options o = SNIB_OPTIONS;
    o.flags = SNIB_ASYNC_RELEASE;
    sim_ask(machine(0), 0, &o);
    struct ask *second = sim_ask(machine(0), 1, &o);
    machine(0)->lose_requests = 0;
    sim_for(9000);
    machine(0)->lose_requests = 1; /* of the renewals that are due, the first */
    sim_for(1500);
    CHECK_INT(second->lease->hold->renewal, ==, SNIB__RENEWAL_IN_TURN);
    sim_enter(machine(0));
    int64_t start_ns = world.now_ns;
    snib_error error;
    CHECK_INT(snib_verify(second->lease, &error), ==, SNIB_OK);
    CHECK_INT((world.now_ns - start_ns) / MS, <=, 5);
    finish();
}

static snib_lease *acquire_with(const snib_options *options)
{
    snib_options o = *options;
    snib_lease *lease;
    snib_error error;
    o.label = "name-0";
    sim_enter(machine(0));
    CHECK_INT(snib_acquire(&lease, machine(0)->client, "name-0", &o, &error), ==, SNIB_OK);
    return lease;
}

DIRECTED(a_renewal_by_hand_does_not_move_the_maximum_hold)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    snib_options o = SNIB_OPTIONS;
    snib_error error;
    o.max_hold_ms = 20000;
    snib_lease *lease = acquire_with(&o);
    sim_for(15000);
    sim_enter(machine(0));
    CHECK_INT(snib_renew(lease, 0, &error), ==, SNIB_OK);
    CHECK_INT(snib_left_ms(lease), <=, 5000);
    sim_for(5000);
    sim_enter(machine(0));
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_ELOST);
    finish();
}

DIRECTED(where_nobody_renews_a_renewal_by_hand_begins_the_ttl_anew)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    snib_options o = SNIB_OPTIONS;
    snib_error error;
    o.flags = SNIB_NO_RENEW;
    snib_lease *lease = acquire_with(&o);
    sim_for(20000);
    sim_enter(machine(0));
    CHECK_INT(snib_left_ms(lease), <=, 7000);
    CHECK_INT(snib_verify(lease, &error), ==, SNIB_OK);
    CHECK_INT(snib_left_ms(lease), <=, 10000);
    CHECK_INT(snib_renew(lease, 0, &error), ==, SNIB_OK);
    CHECK_INT(snib_left_ms(lease), >, 26000);
    sim_for(30000);
    sim_enter(machine(0));
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_ELOST);
    finish();
}

DIRECTED(an_older_answer_does_not_bring_back_a_ttl_that_was_shortened)
{
    struct sim_config c = directed_world(1, 30000);
    sim_begin(&c);
    snib_options o = SNIB_OPTIONS;
    snib_error error;
    snib_lease *lease = acquire_with(&o);
    machine(0)->stalled_ns[RENEWALS] = world.now_ns + 21000 * MS;
    sim_for(19500);
    CHECK_INT(snib_left_ms(lease), <, 9000);
    machine(0)->lose_requests = 100; /* those for 10 s, or their answers: who knows */
    sim_enter(machine(0));
    CHECK_INT(snib_renew(lease, 10000, &error), ==, SNIB_EUNKNOWN);
    sim_for(22500 - world.now_ns / MS); /* those for 30 s have been answered */
    sim_enter(machine(0));
    CHECK_INT(snib_left_ms(lease), >, 0);
    CHECK_INT(snib_left_ms(lease), <=, 9000);
    (void)snib_release(&lease, &error);
    finish();
}
