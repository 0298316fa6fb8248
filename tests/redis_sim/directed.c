/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worlds by script: what dice would reach too seldom, and what a failure of must be told by name.
 */
#include "directed.h"

#include <stdio.h>

/* ---- Refusals --------------------------------------------------------------------------- */

DIRECTED(a_release_refused_by_a_busy_server_is_done_when_it_answers)
{
    for (int loading = 0; loading < 2; loading++) {
        struct config c = plain(2, 30000);
        world_begin(&c);
        struct ask *first = get_x(0);
        site_refuse(0, loading, 400);
        give_back(first);
        world_for(2000);
        struct ask *second = ask_x(1);
        world_for(100);
        SIM_CHECK(second->lease, "a release that was refused is not repeated");
        finish();
    }
}

DIRECTED(a_debt_outlives_the_connection_it_was_refused_on)
{
    struct config c = plain(2, 30000);
    world_begin(&c);
    struct ask *first = get_x(0);
    site_refuse(0, false, 30);
    give_back(first);
    world_for(20);
    site_pause(0, 3000); /* the repetition is met by silence */
    world_for(8000);
    struct ask *second = ask_x(1);
    world_for(100);
    SIM_CHECK(second->lease, "a release that was refused, and then lost, is not repeated");
    finish();
}

DIRECTED(a_restarted_server_that_is_too_busy_to_be_asked_is_not_believed)
{
    struct config c = plain(2, 6000);
    world_begin(&c);
    struct ask *first = get_x(0);
    machine(0)->cut_ns = SNIB__NEVER;
    site_restart(0, true, 10);
    world_for(11);
    site_refuse(0, false, 150);
    struct ask *second = ask_x(1);
    world_for(3000); /* promises.c looks for two who believe */
    SIM_CHECK(!second->lease, "granted on a server that may have lost leases");
    (void)first;
    machine(0)->cut_ns = 0;
    finish();
}

/* Granted in a quarantine, and given back. That is refused for a while, and comes after the wait
 * has gone on: under the same id it would be told "yours already", and then lose it. */
DIRECTED(who_gave_a_grant_back_goes_on_as_another)
{
    for (uint64_t seed = 1; seed <= 20; seed++) { /* their pauses are drawn */
        struct config c = plain(1, 6000);
        c.seed = seed;
        world_begin(&c);
        give_back(get_x(0));
        world_for(100);
        site_restart(0, true, 10);
        world_for(8300); /* of 8.6 s */
        struct ask *ask = ask_x(0);
        const struct snib__session *session = &machine(0)->client->session;
        for (int i = 0; i < 50 && session->undoing == 0; i++) {
            world_for(1);
        }
        SIM_CHECK(session->undoing == 1 && !ask->lease, "nothing was granted, or it was believed");
        site_refuse(0, false, 580);
        for (int i = 0; i < 4000 && !ask->lease; i++) {
            world_for(1);
        }
        SIM_CHECK(ask->lease, "not to be had after the quarantine");
        world_for(3000); /* promises.c looks whether the server knows of it */
        SIM_CHECK(session->undoing == 0, "what was granted in a quarantine is not given back");
        finish();
    }
}

DIRECTED(a_server_without_client_setname_has_a_queue)
{
    struct config c = plain(2, 30000);
    c.no_client = true;
    world_begin(&c);
    struct ask *first = get_x(0);
    struct ask *second = ask_x(1);
    world_for(300);
    SIM_CHECK(truth_of(0)->waiting == 1, "nobody stands in line");
    give_back(first);
    world_for(50);
    SIM_CHECK(second->lease, "handed over late");
    finish();
}

DIRECTED(with_a_password_nothing_long_leaves_before_it_was_accepted)
{
    struct config c = plain(2, 30000);
    c.password = c.greedy = true;
    world_begin(&c);
    struct ask *first = get_x(0);
    struct ask *second = ask_x(1);
    world_for(300);
    give_back(first);
    world_for(50);
    SIM_CHECK(second->lease, "handed over late");
    finish();
}

/* ---- Memory ----------------------------------------------------------------------------- */

DIRECTED(with_memory_full_leases_are_renewed_released_and_handed_over)
{
    struct config c = plain(3, 6000);
    world_begin(&c);
    struct ask *first = get_x(0);
    struct ask *second = ask_x(1);
    world_for(100);
    master()->model.full = true;
    world_for(12000);
    SIM_CHECK(snib_state(first->lease) == SNIB_HELD, "a lease was lost because memory is full");
    give_back(first);
    world_for(2000);
    SIM_CHECK(second->lease || !second->used, "neither handed over nor told");
    struct ask *third = ask_x(2);
    world_for(300);
    SIM_CHECK(!third->lease, "granted with memory full");
    SIM_CHECK(truth_of(0)->count <= 1, "%d hold it", truth_of(0)->count);
    master()->model.full = false;
    finish();
}

/* ---- Leases ----------------------------------------------------------------------------- */

DIRECTED(a_shorter_lease_does_not_shorten_the_key)
{
    struct config c = plain(3, 20000);
    c.retention_ms = 1000;
    world_begin(&c);
    struct ask *lasting = get_mode(0, SNIB_SHARED, 0);
    machine_pause(machine(0), 15000, false); /* renews nothing, and still believes */
    struct ask *brief = get_mode(1, SNIB_SHARED, 1000);
    give_back(brief);
    world_for(3000);
    struct ask *writer = ask_x(2);
    world_for(2000);
    SIM_CHECK(!writer->lease, "a writer beside a reader");
    (void)lasting;
    finish();
}

DIRECTED(a_clock_set_back_does_not_keep_a_dead_holder_alive)
{
    struct config c = plain(2, 3000);
    world_begin(&c);
    (void)get_x(0);
    machine_close(machine(0), true);
    site_step(0, -600000);
    struct ask *second = ask_x(1);
    world_for(6500);
    SIM_CHECK(second->lease, "a dead holder lives on");
    finish();
}

DIRECTED(tokens_grow_when_the_clock_is_set_back)
{
    struct config c = plain(2, 3000);
    world_begin(&c);
    struct ask *first = get_x(0);
    uint64_t token = snib_token(first->lease);
    give_back(first);
    world_for(5000); /* longer than any lease */
    SIM_CHECK(key_of(0), "the last token is forgotten with its lease");
    site_step(0, -600000);
    struct ask *second = get_x(1);
    CHECK_UINT(snib_token(second->lease), >, token);
    finish();
}

DIRECTED(neighbouring_tokens_stay_different)
{
    struct config c = plain(1, 3000);
    world_begin(&c);
    site_step(0, -600000); /* from here on the clock does not move them */
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        site_step(0, -100);
        struct ask *ask = get_x(0);
        CHECK_UINT(snib_token(ask->lease), >, last);
        last = snib_token(ask->lease);
        give_back(ask);
        world_for(10);
    }
    finish();
}

/* ---- The line --------------------------------------------------------------------------- */

DIRECTED(a_dead_writer_at_the_head_does_not_keep_readers_out)
{
    struct config c = plain(4, 30000);
    world_begin(&c);
    struct ask *reader = get_mode(0, SNIB_SHARED, 0);
    (void)ask_x(1);
    world_for(100);
    struct ask *behind = ask_mode(2, SNIB_SHARED, 0);
    world_for(100);
    SIM_CHECK(!behind->lease, "a reader has overtaken a writer");
    machine_pause(machine(1), 60000, false);
    world_for(7500); /* its ticket is over after five seconds, and a re-check follows */
    SIM_CHECK(behind->lease, "a silent writer keeps readers out");
    (void)reader;
    finish();
}

DIRECTED(a_waiter_that_is_dead_before_the_release_is_skipped_at_once)
{
    struct config c = plain(3, 30000);
    world_begin(&c);
    struct ask *first = get_x(0);
    (void)ask_x(1);
    world_for(100);
    struct ask *third = ask_x(2);
    world_for(100);
    for (int i = 0; i < world.wire_count; i++) {
        if (world.wires[i]->machine == 1) {
            wire_cut(world.wires[i], true);
        }
    }
    machine_close(machine(1), true);
    world_for(20);
    give_back(first);
    world_for(30);
    SIM_CHECK(third->lease, "a dead waiter is in the way");
    finish();
}

static void lose_messages_of(int number)
{
    for (int i = 0; i < world.wire_count; i++) {
        struct wire *w = world.wires[i];
        if (w->machine == number && w->peer && w->peer->channel_count > 0) {
            w->hole_down = true;
        }
    }
}

DIRECTED(a_lost_message_costs_a_recheck_and_not_the_ttl)
{
    struct config c = plain(2, 30000);
    world_begin(&c);
    struct ask *first = get_x(0);
    struct ask *second = ask_x(1);
    world_for(100);
    lose_messages_of(1);
    give_back(first);
    world_for(1400);
    SIM_CHECK(second->lease, "a lost message is not made up for");
    finish();
}

/* What is handed over is its own until it can have noticed: those behind it do not get it
 * meanwhile. */
DIRECTED(a_lost_message_does_not_cost_the_turn)
{
    struct config c = plain(3, 30000);
    world_begin(&c);
    struct ask *first = get_x(0);
    struct ask *second = ask_x(1);
    world_for(100);
    struct ask *third = ask_x(2);
    world_for(100);
    lose_messages_of(1);
    give_back(first);
    world_for(1400);
    SIM_CHECK(second->lease && !third->lease, "the turn has gone with the message");
    finish();
}

/* The message was held up while its reader was stopped; meanwhile the grant has lapsed, another has
 * the lock, and who waits was told so. */
static void hold_up_a_grant(int64_t step_ms)
{
    struct config c = plain(3, 30000);
    world_begin(&c);
    struct ask *first = get_x(0);
    struct ask *second = ask_x(1);
    world_for(100);
    struct ask *third = ask_x(2);
    world_for(100);
    for (int i = 0; i < world.wire_count; i++) {
        struct wire *w = world.wires[i];
        if (w->machine == 1 && w->peer && w->peer->channel_count > 0) {
            w->down_ns = world.now_ns + 4500 * MS;
        }
    }
    machine_pause(machine(1), 4000, false);
    give_back(first);
    world_for(3900);
    SIM_CHECK(third->lease, "a grant that nobody renews does not lapse");
    site_step(0, step_ms);
    world_for(2100);
    SIM_CHECK(third->lease && !second->lease, "a grant that has lapsed is believed");
    finish();
}

DIRECTED(a_grant_older_than_the_last_answer_is_not_believed)
{
    hold_up_a_grant(0);
}

DIRECTED(a_grant_older_than_the_last_answer_is_not_believed_by_a_clock_that_was_set_back)
{
    hold_up_a_grant(-60000);
}

/* Its release was swallowed; when its turn comes nobody there wants it any more. */
DIRECTED(a_grant_that_nobody_wants_is_given_back_at_once)
{
    struct config c = plain(3, 30000);
    snib_options o = SNIB_OPTIONS;
    c.names = 2;
    world_begin(&c);
    (void)ask_for(machine(0), 1, &o);
    world_for(50);
    (void)ask_for(machine(1), 1, &o); /* waits there, and so listens */
    struct ask *first = get_x(0);
    struct ask *second = ask_x(1);
    world_for(100);
    struct ask *third = ask_x(2);
    world_for(100);
    for (int i = 0; i < world.wire_count; i++) {
        struct wire *w = world.wires[i];
        if (w->machine == 1 && w->peer && w->peer->channel_count == 0) {
            w->hole_up = w->hole_down = true;
        }
    }
    enter(machine(1));
    second->cancelled = snib_cancel(machine(1)->client, second->ticket) == SNIB_OK;
    stir(machine(1));
    world_for(1500);
    give_back(first);
    world_for(200);
    SIM_CHECK(third->lease, "a grant that nobody wants is in the way");
    finish();
}

DIRECTED(a_line_and_the_work_of_a_script_are_bounded)
{
    struct config c = plain(2, 60000);
    world_begin(&c);
    struct ask *first = get_x(0);
    struct peer stranger = {.allowed = true};
    struct bytes out = {0};
    for (int i = 0; i < 4400; i++) { /* clients that were killed: nobody listens */
        struct snib__command command;
        struct snib__wish wish = {
            .prefix = "snib", .name = "name-0", .retention_ms = 3600000, .by_text = true};
        unsigned char id[SNIB__ID_SIZE] = {0};
        char inbox[40];
        struct arg argv[SNIB__COMMAND_MOST];
        memcpy(id, &i, sizeof i);
        id[sizeof id - 1] = 1;
        snprintf(inbox, sizeof inbox, "snib:inbox:%d", i);
        wish.id = id;
        wish.mode = SNIB_EXCLUSIVE;
        wish.ttl_ms = 60000;
        wish.inbox = inbox;
        wish.who = "nobody:1";
        wish.label = "";
        snib__layouts[SNIB__LAYOUT_NATIVE].attempt(&command, &wish);
        for (int k = 0; k < command.argc; k++) {
            argv[k] = (struct arg){command.argv[k], command.sizes[k]};
        }
        out.size = 0;
        model_run(&master()->model, &stranger, command.argc, argv, &out);
    }
    bytes_free(&out);
    master()->model.calls_most = 0; /* numbering anew is more, and seldom */
    enter(machine(0));
    CHECK_INT(truth_of(0)->waiting, <=, 4096);
    CHECK_INT(key_of(0)->count, <=, 2 * 4096 + 16);
    struct ask *second = ask_x(1);
    world_for(200);
    master()->model.calls_most = 0;
    give_back(first);
    world_for(3000);
    CHECK_INT(master()->model.calls_most, <=, 1200);
    SIM_CHECK(second->lease, "those who died are in the way");
    finish();
}

/* ---- Breaking --------------------------------------------------------------------------- */

DIRECTED(a_broken_lock_is_free_only_when_its_holder_has_given_it_back)
{
    struct config c = plain(3, 6000);
    world_begin(&c);
    struct ask *first = get_x(0);
    struct ask *second = ask_x(1);
    world_for(100);
    machine_pause(machine(0), 4000, false); /* does not hear of it, and believes */
    break_lock(machine(2), 0, false);
    world_for(1000);
    SIM_CHECK(!second->lease, "a broken lock was taken from who believes in it");
    world_for(3000);
    SIM_CHECK(snib_state(first->lease) == SNIB_LOST, "a holder was not told that it is broken");
    give_back(first);
    world_for(100);
    SIM_CHECK(second->lease, "given back, and not handed on");
    world_for(9000);
    SIM_CHECK(snib_state(second->lease) == SNIB_HELD, "the next holder is broken, too");
    finish();
}

/* ---- Answers that are lost -------------------------------------------------------------- */

/* Held up on its way, it comes when its release, on another connection, was done: within the time
 * it may take, and later. */
DIRECTED(an_attempt_that_comes_after_its_release_leaves_nothing)
{
    static const int64_t late_ms[] = {600, 1500};
    for (int i = 0; i < 2; i++) {
        struct config c = plain(2, 30000);
        world_begin(&c);
        give_back(get_x(0));
        world_for(20);
        struct wire *w = world.wires[0];
        w->up_ns = world.now_ns + late_ms[i] * MS;
        struct ask *first = ask_x(0);
        w->hole_down = w->reset = true;
        w->hole_up = true;
        stir(machine(0));
        world_for(100);
        SIM_CHECK(first->lease, "not repeated on another connection");
        give_back(first);
        world_for(late_ms[i]);
        struct ask *second = ask_x(1);
        world_for(100);
        SIM_CHECK(second->lease, "somebody who gave up holds it");
        finish();
    }
}

DIRECTED(a_release_whose_answer_was_lost_is_told_as_done)
{
    struct config c = plain(1, 30000);
    world_begin(&c);
    give_back(get_x(0)); /* the scripts are known now */
    world_for(20);
    struct ask *first = get_x(0);
    for (int i = 0; i < world.wire_count; i++) {
        if (!world.wires[i]->closed) {
            world.wires[i]->hole_down = true;
        }
    }
    snib_lease *lease = first->lease;
    lease->flags &= ~(unsigned)SNIB_ASYNC_RELEASE;
    struct event reset = {.kind = RESET_DOWN, .which = 0};
    post(&reset, world.now_ns + 20 * MS);
    snib_error error;
    enter(machine(0));
    world.blocking = machine(0)->driven = true;
    int rc = snib_release(&first->lease, &error);
    world.blocking = machine(0)->driven = false;
    first->used = false;
    CHECK_OK(rc, error.message);
    finish();
}

/* ---- Listing ---------------------------------------------------------------------------- */

static int count_seen(const snib_seen *seen, void *arg)
{
    (void)seen;
    ++*(int *)arg;
    return 0;
}

DIRECTED(a_foreign_key_under_the_prefix_does_not_end_a_list)
{
    struct config c = plain(1, 30000);
    c.names = 2;
    world_begin(&c);
    struct peer stranger = {.allowed = true};
    struct bytes out = {0};
    struct arg foreign[] = {{"SET", 3}, {"snib:{name-1}", 13}, {"x", 1}};
    model_run(&master()->model, &stranger, 3, foreign, &out);
    bytes_free(&out);
    (void)get_x(0);
    snib_error error;
    int seen = 0;
    enter(machine(0));
    world.blocking = machine(0)->driven = true;
    int rc = snib_list(machine(0)->client, "", count_seen, &seen, &error);
    world.blocking = machine(0)->driven = false;
    CHECK_OK(rc, error.message);
    CHECK_INT(seen, ==, 1);
    finish();
}

DIRECTED(what_another_version_has_written_is_refused)
{
    static const char state[] = "0 1794746193341000 1794746193341 1 1 2999999 3599999 1000 1010 11";
    struct config c = plain(1, 30000);
    c.mismatch = 1; /* EKIND may be */
    world_begin(&c);
    struct peer stranger = {.allowed = true};
    struct bytes out = {0};
    struct arg before[] = {{"HSET", 4}, {"snib:{name-0}", 13}, {"s", 1}, {state, sizeof state - 1}};
    struct arg delete[] = {{"DEL", 3}, {"snib:{name-0}", 13}};
    model_run(&master()->model, &stranger, 4, before, &out);
    struct ask *ask = ask_x(0);
    world_for(5000);
    SIM_CHECK(ask->finished && !ask->lease, "a lock of another version was taken");
    SIM_CHECK(key_of(0)->count == 1, "something was written beside it");
    model_run(&master()->model, &stranger, 2, delete, &out);
    bytes_free(&out);
    give_back(get_x(0));
    finish();
}
