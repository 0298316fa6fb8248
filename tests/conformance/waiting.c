/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trying, waiting, giving up, and the order in which waiters are served.
 *
 * Lower bounds on time are exact, upper bounds only tell "ends" from "hangs": how fast a
 * hand-over is, is measured in bench/.
 */
#include "conformance.h"

#include <stdio.h>
#include <unistd.h>

enum { QUEUE = 5 };

/* ---- Try -------------------------------------------------------------------------------- */

TEST(a_try_is_refused_at_once_and_names_the_holder)
{
    struct actor *holder = actors_new(1);
    char pid[32];
    snib_error error;
    actor_prepare(holder, "report", "nightly");
    actor_spawn(holder);
    actor_go_and_hold(holder);

    snib *client = client_here();
    snib_options at_once = trying(SNIB_EXCLUSIVE);
    int64_t start = check_now_ns();
    CHECK_INT(refused(client, "report", &at_once, &error), ==, SNIB_EBUSY);
    CHECK_INT(elapsed_ms(start), <, check_ms(3000));
    snprintf(pid, sizeof pid, ":%d", (int)holder->pid);
    CHECK(strstr(error.holder, pid) != NULL);
    CHECK(strstr(error.holder, "nightly") != NULL);
    CHECK_UINT(error.holder_token, ==, atomic_load(&holder->token));
    CHECK_INT(error.holder_left_ms, >=, -1);
    CHECK(strstr(error.message, "report") != NULL);

    actor_join(holder);
    must_be_free(client, "report");
    snib_close(client);
}

TEST(a_try_within_one_client_is_refused_and_names_this_process)
{
    snib *client = client_here();
    snib_options at_once = trying(SNIB_EXCLUSIVE);
    snib_options labelled = trying(SNIB_EXCLUSIVE);
    snib_error error;
    char pid[32];
    labelled.label = "own";
    snib_lease *lease = take(client, "report", &labelled);
    CHECK_INT(refused(client, "report", &at_once, &error), ==, SNIB_EBUSY);
    snprintf(pid, sizeof pid, ":%d", (int)getpid());
    CHECK(strstr(error.holder, pid) != NULL);
    CHECK_UINT(error.holder_token, ==, snib_token(lease));
    give(&lease);
    snib_close(client);
}

TEST(a_free_lock_is_taken_by_a_try)
{
    snib *client = client_here();
    uint64_t first = must_be_free(client, "report");
    CHECK_UINT(must_be_free(client, "report"), >, first);
    snib_close(client);
}

TEST(an_error_struct_is_optional)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_options at_once = trying(SNIB_EXCLUSIVE);
    snib_lease *lease = take(client, "report", NULL);
    snib_lease *second = lease;
    CHECK_INT(snib_acquire(&second, other, "report", &at_once, NULL), ==, SNIB_EBUSY);
    CHECK(second == NULL);
    CHECK_INT(snib_acquire(&second, other, "", &at_once, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(other);
    snib_close(client);
}

/* ---- Deadlines -------------------------------------------------------------------------- */

/* Answers how long a wait of `wait_ms` lasted that must not be granted. */
static int64_t wait_in_vain(snib *client, const char *name, int64_t wait_ms, snib_error *error)
{
    snib_options options = SNIB_OPTIONS;
    options.wait_ms = wait_ms;
    int64_t start = check_now_ns();
    CHECK_INT(refused(client, name, &options, error), ==, SNIB_EBUSY);
    return (check_now_ns() - start) / 1000000;
}

TEST(a_wait_ends_at_its_deadline_and_not_before)
{
    struct actor *holder = actors_new(1);
    snib_error error;
    actor_prepare(holder, "report", "nightly");
    actor_spawn(holder);
    actor_go_and_hold(holder);

    snib *client = client_here();
    for (int64_t more_ms = 0; more_ms <= 300; more_ms += 133) {
        int64_t wait_ms = (with_leases() ? brief_ms() : 1) + more_ms;
        int64_t took_ms = wait_in_vain(client, "report", wait_ms, &error);
        CHECK_INT(took_ms, >=, wait_ms);
        CHECK_INT(took_ms, <, wait_ms + check_ms(3000));
        CHECK_UINT(error.holder_token, ==, atomic_load(&holder->token));
        CHECK(strstr(error.holder, "nightly") != NULL);
    }
    CHECK(!check_flag_is_set(&holder->over));
    actor_join(holder);
    must_be_free(client, "report");
    snib_close(client);
}

TEST(a_wait_within_one_client_ends_at_its_deadline)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    snib_error error;
    int64_t took_ms = wait_in_vain(client, "report", brief_ms(), &error);
    CHECK_INT(took_ms, >=, brief_ms());
    CHECK_INT(took_ms, <, brief_ms() + check_ms(3000));
    CHECK_UINT(error.holder_token, ==, snib_token(lease));
    give(&lease);
    must_be_free(client, "report");
    snib_close(client);
}

TEST(a_wait_can_end_in_a_grant)
{
    struct actor *waiter = actors_new(1);
    actor_prepare(waiter, "report", "later");
    waiter->options.wait_ms = check_ms(PATIENCE_MS);
    actor_spawn(waiter);

    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    uint64_t first = snib_token(lease);
    actor_go_and_wait(waiter);
    int64_t released_ns = check_now_ns();
    give(&lease);
    actor_must_hold(waiter);
    CHECK_INT(atomic_load(&waiter->settled_ns), >=, released_ns);
    CHECK_UINT(atomic_load(&waiter->token), >, first);
    must_be_held(client, "report");
    actor_let_go(waiter);
    CHECK_INT(atomic_load(&waiter->release_code), ==, SNIB_OK);
    actor_join(waiter);
    snib_close(client);
}

TEST(a_waiting_event_says_who_is_in_the_way)
{
    struct actor *actors = actors_new(2);
    char pid[32];
    actor_prepare(&actors[0], "report", "holder");
    actor_prepare(&actors[1], "report", "waiter");
    actor_spawn(&actors[0]);
    actor_spawn(&actors[1]);
    actor_go_and_hold(&actors[0]);
    actor_go_and_wait(&actors[1]);

    const struct entry *entry = diary_find(&actors[1].diary, SNIB_WAITING);
    CHECK(entry != NULL && !entry->has_lease);
    CHECK_UINT(entry->ticket, ==, 0);
    snprintf(pid, sizeof pid, ":%d", (int)actors[0].pid);
    if (strstr(entry->why, pid) == NULL) {
        FAIL("the event should name %s and says: %s", pid, entry->why);
    }
    actor_let_go(&actors[0]);
    actor_must_hold(&actors[1]);
    actor_join(&actors[1]);
    actor_join(&actors[0]);
}

/* ---- Those who give up ------------------------------------------------------------------ */

TEST(a_waiter_that_gave_up_is_not_in_the_way)
{
    struct actor *actors = actors_new(2);
    actor_prepare(&actors[0], "report", "quitter");
    actors[0].options.wait_ms = check_ms(1000); /* long enough to be told that it waits */
    actor_prepare(&actors[1], "report", "patient");
    actor_spawn(&actors[0]);
    actor_spawn(&actors[1]);

    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    actor_go_and_wait(&actors[0]);
    actor_go_and_wait(&actors[1]);
    actor_await(&actors[0], &actors[0].over);
    CHECK_INT(atomic_load(&actors[0].code), ==, SNIB_EBUSY);
    if (with_fairness()) {
        struct sights sights;
        await_waiters(client, "report", 1);
        look(client, "report", &sights);
        CHECK_STR(sights.all[1].label, "patient");
    }
    give(&lease);
    actor_must_hold(&actors[1]);
    actor_join(&actors[0]);
    actor_join(&actors[1]);
    await_nobody(client, "report");
    snib_close(client);
}

/* ---- Order ------------------------------------------------------------------------------ */

static void prepare_queue(struct actor *actors, const char *name)
{
    for (int i = 0; i < QUEUE; i++) {
        char label[32];
        snprintf(label, sizeof label, "w%d", i + 1);
        actor_prepare(&actors[i], name, label);
        actors[i].at_once = true;
    }
}

/* Tokens grow with each grant, so they are the order of service. */
static void must_be_served_in_order(struct actor *actors, uint64_t before)
{
    for (int i = 0; i < QUEUE; i++) {
        actor_must_hold(&actors[i]);
        CHECK_UINT(atomic_load(&actors[i].token), >, before);
        before = atomic_load(&actors[i].token);
    }
    for (int i = 0; i < QUEUE; i++) {
        actor_join(&actors[i]);
    }
}

TEST_WHEN(processes_are_served_in_the_order_they_came, with_fairness)
{
    struct actor *actors = actors_new(QUEUE);
    prepare_queue(actors, "report");
    for (int i = 0; i < QUEUE; i++) {
        actor_spawn(&actors[i]);
    }
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    uint64_t first = snib_token(lease);
    for (int i = QUEUE - 1; i >= 0; i--) { /* in another order than they were started */
        struct sights sights;
        size_t waiting = (size_t)(QUEUE - i);
        actor_go(&actors[i]);
        await_waiters(client, "report", waiting);
        look(client, "report", &sights);
        CHECK_UINT(sights.count, ==, waiting + 1);
        CHECK_INT(sights.all[waiting].place, ==, (int)waiting);
        CHECK_STR(sights.all[waiting].label, actors[i].label);
    }
    give(&lease);
    for (int i = QUEUE - 1; i >= 0; i--) {
        actor_must_hold(&actors[i]);
        CHECK_UINT(atomic_load(&actors[i].token), >, first);
        first = atomic_load(&actors[i].token);
    }
    for (int i = 0; i < QUEUE; i++) {
        actor_join(&actors[i]);
    }
    snib_close(client);
}

/* A thread that was told to go is asleep in its acquire: nothing else makes it sleep for long. */
static bool is_asleep(void *arg)
{
    struct actor *actor = arg;
    for (int sample = 0; sample < 5; sample++) {
        if (check_flag_is_set(&actor->settled) || thread_state(atomic_load(&actor->tid)) != 'S') {
            return false;
        }
        check_sleep_ms(2);
    }
    return true;
}

TEST_WHEN(threads_of_one_client_are_served_in_the_order_they_came, with_fairness)
{
    struct actor *actors = actors_new(QUEUE);
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    uint64_t first = snib_token(lease);
    prepare_queue(actors, "report");
    for (int i = 0; i < QUEUE; i++) {
        actor_thread(&actors[i], client);
        actor_go(&actors[i]);
        actor_await(&actors[i], &actors[i].asking);
        CHECK(check_until(is_asleep, &actors[i], PATIENCE_MS));
    }
    give(&lease);
    must_be_served_in_order(actors, first);
    snib_close(client);
}

TEST(every_waiter_of_one_client_is_told_that_it_waits)
{
    struct actor *actors = actors_new(QUEUE);
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    prepare_queue(actors, "report");
    for (int i = 0; i < QUEUE; i++) {
        actor_thread(&actors[i], client);
        actor_go_and_wait(&actors[i]);
    }
    give(&lease);
    for (int i = 0; i < QUEUE; i++) {
        actor_join(&actors[i]);
    }
    snib_close(client);
}

TEST_WHEN(clients_of_one_process_are_served_in_the_order_they_came, with_fairness)
{
    struct actor *actors = actors_new(QUEUE);
    snib *clients[QUEUE];
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    uint64_t first = snib_token(lease);
    prepare_queue(actors, "report");
    for (int i = 0; i < QUEUE; i++) {
        clients[i] = client_here();
        actor_thread(&actors[i], clients[i]);
        actor_go(&actors[i]);
        await_waiters(client, "report", (size_t)i + 1);
    }
    give(&lease);
    must_be_served_in_order(actors, first);
    for (int i = 0; i < QUEUE; i++) {
        snib_close(clients[i]);
    }
    snib_close(client);
}

/* A release wakes the next by itself: engines also look now and then, as a net for lost wakes,
 * and a queue that moved only by that would take many times as long as this allows. */
TEST_WHEN(a_queue_moves_on_by_being_woken, with_fairness)
{
    enum { LONG_QUEUE = 12 };
    struct actor *actors = actors_new(LONG_QUEUE);
    snib *clients[LONG_QUEUE];
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    for (int i = 0; i < LONG_QUEUE; i++) {
        actor_prepare(&actors[i], "report", "waiter");
        actors[i].at_once = true;
        clients[i] = client_here();
        actor_thread(&actors[i], clients[i]);
        actor_go(&actors[i]);
        await_waiters(client, "report", (size_t)i + 1);
    }
    int64_t start = check_now_ns();
    give(&lease);
    for (int i = 0; i < LONG_QUEUE; i++) {
        actor_must_hold(&actors[i]);
    }
    CHECK_INT(elapsed_ms(start), <, check_ms(6000));
    for (int i = 0; i < LONG_QUEUE; i++) {
        actor_join(&actors[i]);
        snib_close(clients[i]);
    }
    snib_close(client);
}

TEST_WHEN(a_newcomer_does_not_overtake_those_who_wait, with_fairness)
{
    struct actor *actors = actors_new(2);
    actor_prepare(&actors[0], "report", "holder");
    actor_prepare(&actors[1], "report", "waiter");
    actor_spawn(&actors[0]);
    actor_spawn(&actors[1]);
    snib *client = client_here();
    actor_go_and_hold(&actors[0]);
    actor_go(&actors[1]);
    await_waiters(client, "report", 1);
    check_stop(actors[1].pid); /* so that it cannot take what it is given, for now */
    actor_let_go(&actors[0]);
    must_be_held(client, "report"); /* by, or for, the one that waited */
    check_cont(actors[1].pid);
    actor_must_hold(&actors[1]);
    actor_join(&actors[1]);
    actor_join(&actors[0]);
    snib_close(client);
}
