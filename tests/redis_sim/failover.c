/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worlds by script: another server is the master now, and nobody was cut off from the former one.
 */
#include "directed.h"

DIRECTED(renewals_and_releases_reach_the_new_master)
{
    for (int version = 6; version <= 7; version++) {
        struct config c = plain(2, 6000);
        c.version = version;
        c.quarantine = false;
        world_begin(&c);
        struct ask *first = get_x(0);
        servers_fail_over(false);
        world_for(12000);
        SIM_CHECK(snib_state(first->lease) == SNIB_HELD, "a lease was lost although the new "
                                                         "master has it and answers");
        servers_fail_over(false);
        give_back(first);
        world_for(2500);
        struct ask *second = ask_x(1);
        world_for(100);
        SIM_CHECK(second->lease, "a release refused by the former master is not repeated");
        finish();
    }
}

/* Nothing more is asked of it, however much is under way. */
DIRECTED(a_busy_client_leaves_a_former_master_after_one_answer)
{
    struct config c = plain(1, 30000);
    int granted = 0;
    c.quarantine = false;
    c.delay_ms = 10;
    world_begin(&c);
    struct ask *first = ask_x(0);
    world_for(200);
    give_back(first);
    world_for(200);
    servers_fail_over(false);
    for (int i = 0; i < 40; i++) {
        snib_options o = SNIB_OPTIONS;
        o.mode = SNIB_SHARED;
        o.wait_ms = 0;
        SIM_CHECK(ask_for(machine(0), 0, &o), "the machine asks for too much");
        world_for(9); /* so that something always is under way */
        for (int k = 0; k < ASKS; k++) {
            struct ask *old = &machine(0)->asks[k];
            if (old->used && old->finished) {
                granted += old->lease != NULL;
                give_back(old);
            }
        }
    }
    SIM_CHECK(granted > 20, "%d were granted", granted);
    finish();
}

DIRECTED(after_a_failover_the_inbox_follows_the_commands)
{
    struct config c = plain(3, 30000);
    c.quarantine = false;
    world_begin(&c);
    struct ask *first = get_x(0);
    struct ask *second = ask_x(1);
    world_for(100);
    servers_fail_over(false);
    world_for(11000); /* the re-checks, and the holder's renewal, find the new master */
    give_back(first);
    world_for(100);
    SIM_CHECK(second->lease, "no message has reached who waits");
    finish();
}

/* Nobody stands in line there, so nothing that a waiter asks for would be written. */
DIRECTED(who_waits_beside_other_programs_leaves_a_former_master)
{
    for (int row = SNIB__LAYOUT_PLAIN; row <= SNIB__LAYOUT_RWLOCK; row++) {
        struct config c = plain(2, 30000);
        c.quarantine = false;
        c.layout = (enum snib__layout_row)row;
        world_begin(&c);
        struct ask *first = get_x(0);
        struct ask *second = ask_x(1);
        world_for(100);
        servers_fail_over(false); /* the former one still has the lock of the first */
        give_back(first);
        world_for(6000);
        SIM_CHECK(second->lease, "%s: who waits asks a former master on and on", layout()->name);
        finish();
    }
}

/* It has become a replica, and what it has may be old: it does not say "yours already". */
static void ask_former_master(int mode)
{
    struct config c = plain(1, 30000);
    world_begin(&c);
    struct peer stranger = {.allowed = true};
    struct bytes out = {0};
    unsigned char id[SNIB__ID_SIZE] = {1};
    for (int i = 0; i < 3; i++) {
        struct snib__command command;
        struct snib__wish wish = {.prefix = "snib",
                                  .name = "name-0",
                                  .id = id,
                                  .mode = mode,
                                  .retention_ms = 3600000,
                                  .by_text = true,
                                  .ttl_ms = 1000,
                                  .who = "nobody:1",
                                  .label = ""};
        struct arg argv[SNIB__COMMAND_MOST];
        snib__layouts[SNIB__LAYOUT_NATIVE].attempt(&command, &wish);
        for (int k = 0; k < command.argc; k++) {
            argv[k] = (struct arg){command.argv[k], command.sizes[k]};
        }
        master()->model.replica = i == 2;
        out.size = 0;
        model_run(&master()->model, &stranger, command.argc, argv, &out);
        bytes_add(&out, "", 1);
        SIM_CHECK((strstr(out.at, "READONLY") != NULL) == (i == 2), "it says %s", out.at);
    }
    master()->model.replica = false;
    bytes_free(&out);
    world_for(2000);
    give_back(get_x(0));
    finish();
}

DIRECTED(a_former_master_does_not_say_whose_a_lock_is)
{
    ask_former_master(SNIB_EXCLUSIVE);
    ask_former_master(SNIB_SHARED);
}
