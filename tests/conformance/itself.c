/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for itself reads so: EBUSY caused by this process says it, and no other does.
 */
#include "conformance.h"

static void must_say(const snib_error *error, bool ourselves)
{
    CHECK_INT(error->code, ==, SNIB_EBUSY);
    if ((strstr(error->message, "this process") != NULL) != ourselves) {
        FAIL("'%s' is said, but it is %s process", error->message, ourselves ? "this" : "another");
    }
}

/* Tried, and waited for. */
static void must_be_busy(snib *client, const snib_options *options, bool ourselves)
{
    snib_options brief = *options;
    snib_error error = {0};
    CHECK_INT(refused(client, "report", options, &error), ==, SNIB_EBUSY);
    must_say(&error, ourselves);
    brief.wait_ms = brief_ms();
    CHECK_INT(refused(client, "report", &brief, &error), ==, SNIB_EBUSY);
    must_say(&error, ourselves);
}

TEST(a_lock_held_by_the_same_client_is_said_to_be_held_by_this_process)
{
    snib *client = client_here();
    snib_options at_once = trying(SNIB_EXCLUSIVE);
    snib_options labelled = trying(SNIB_EXCLUSIVE);
    labelled.label = "nightly";
    snib_lease *lease = take(client, "report", &labelled);
    must_be_busy(client, &at_once, true);
    give(&lease);
    snib_close(client);
}

TEST(a_lock_held_by_another_client_of_this_process_is_said_to_be)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_options at_once = trying(SNIB_EXCLUSIVE);
    snib_lease *lease = take(other, "report", NULL);
    must_be_busy(client, &at_once, true);
    give(&lease);
    snib_close(other);
    snib_close(client);
}

TEST(a_lock_held_by_another_process_is_not_said_to_be_held_by_this_one)
{
    struct actor *holder = actors_new(1);
    actor_prepare(holder, "report", "holder");
    actor_spawn(holder);
    actor_go_and_hold(holder);
    snib *client = client_here();
    snib_options at_once = trying(SNIB_EXCLUSIVE);
    must_be_busy(client, &at_once, false);
    actor_join(holder);
    snib_close(client);
}

/* Its handle is still there, the lock is not. */
TEST(a_lock_that_this_process_has_lost_is_not_said_to_be_held_by_it)
{
    static struct diary diary;
    struct actor *next = actors_new(1);
    actor_prepare(next, "report", "next");
    actor_spawn(next);
    snib *client = client_here();
    snib_options at_once = trying(SNIB_EXCLUSIVE);
    snib_options passing = trying(SNIB_EXCLUSIVE);
    passing.max_hold_ms = brief_hold_ms();
    passing.on_event = diary_note;
    passing.arg = &diary;
    snib_lease *lost = take(client, "report", &passing);
    check_flag_wait(&diary.seen[SNIB_LOST], PATIENCE_MS);
    actor_go_and_hold(next);
    must_be_busy(client, &at_once, false);
    CHECK_INT(snib_release(&lost, NULL), ==, SNIB_ELOST);
    actor_join(next);
    snib_close(client);
}

TEST_WHEN(a_process_that_has_one_of_two_permits_is_said_to_hold_it_too, with_counted)
{
    struct actor *holder = actors_new(1);
    actor_prepare(holder, "report", "holder");
    holder->options.mode = SNIB_COUNTED;
    holder->options.permits = 2;
    actor_spawn(holder);
    actor_go_and_hold(holder);
    snib *client = client_here();
    snib_options options = counted(2, 0);
    snib_lease *lease = take(client, "report", &options);
    snib_error error = {0};
    CHECK_INT(refused(client, "report", &options, &error), ==, SNIB_EBUSY);
    must_say(&error, true);
    if (strstr(error.message, "holder") != NULL) { /* the other one was named */
        CHECK(strstr(error.message, "which is this process") == NULL);
    }
    give(&lease);
    actor_join(holder);
    snib_close(client);
}
