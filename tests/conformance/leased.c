/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: renewed while the holder lives, over when it is silent, and never believed too long.
 */
#include "conformance.h"

static bool without_leases(void)
{
    return !with_leases();
}

TEST_WHEN(without_a_lease_there_is_no_deadline, without_leases)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    CHECK_INT(snib_left_ms(lease), ==, SNIB_FOREVER);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    CHECK_INT(snib_left_ms(lease), ==, SNIB_FOREVER);
    give(&lease);
    snib_close(client);
}

TEST(a_lock_is_held_beyond_its_ttl_as_long_as_its_holder_lives)
{
    static struct diary diary;
    snib *client = client_at(place_with(SHORT_TTL));
    snib *other = client_at(place_with(SHORT_TTL));
    snib_options options = trying(SNIB_EXCLUSIVE);
    options.on_event = diary_note;
    options.arg = &diary;
    int64_t start = check_now_ns();
    snib_lease *lease = take(client, "report", &options);
    while (elapsed_ms(start) < 3 * SHORT_TTL_MS) {
        must_be_held(other, "report");
        CHECK_INT(snib_left_ms(lease), >, 0);
        check_sleep_ms(50);
    }
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    CHECK(diary_find(&diary, SNIB_LOST) == NULL);
    give(&lease);
    must_be_free(other, "report");
    snib_close(other);
    snib_close(client);
}

TEST_WHEN(what_is_left_is_never_more_than_the_ttl, with_leases)
{
    snib *client = client_at(place_with(SHORT_TTL));
    snib_lease *lease = take(client, "report", NULL);
    int64_t start = check_now_ns();
    while (elapsed_ms(start) < 2 * SHORT_TTL_MS) {
        CHECK_INT(snib_left_ms(lease), <, SHORT_TTL_MS);
        check_sleep_ms(10);
    }
    give(&lease);
    snib_close(client);
}

TEST_WHEN(a_stopped_holder_learns_that_it_lost, with_leases)
{
    struct actor *actors = actors_new(2);
    actor_prepare(&actors[0], "report", "stopped");
    actor_prepare(&actors[1], "report", "next");
    actors[0].url = actors[1].url = place_with(SHORT_TTL);
    actor_spawn(&actors[0]);
    actor_spawn(&actors[1]);
    actor_go_and_hold(&actors[0]);
    actor_go_and_wait(&actors[1]);
    check_stop(actors[0].pid);
    actor_must_hold(&actors[1]);
    check_flag_set(&actors[0].let_go); /* the first thing it does is look, and release */
    check_cont(actors[0].pid);
    actor_await(&actors[0], &actors[0].over);
    CHECK_INT(atomic_load(&actors[0].left_at_end_ms), <=, 0);
    CHECK_INT(atomic_load(&actors[0].release_code), ==, SNIB_ELOST);
    CHECK_UINT(atomic_load(&actors[1].token), >, atomic_load(&actors[0].token));
    snib *client = client_here();
    must_be_held(client, "report");
    actor_let_go(&actors[1]);
    CHECK_INT(atomic_load(&actors[1].release_code), ==, SNIB_OK);
    actor_join(&actors[0]);
    actor_join(&actors[1]);
    snib_close(client);
}

TEST_WHEN(a_stopped_waiter_does_not_believe_an_old_grant, with_leases)
{
    struct actor *waiter = actors_new(1);
    actor_prepare(waiter, "report", "stopped");
    waiter->url = place_with(SHORT_TTL);
    actor_spawn(waiter);
    snib *client = client_at(place_with(SHORT_TTL));
    snib_lease *first = take(client, "report", NULL);
    actor_go_and_wait(waiter);
    check_stop(waiter->pid);
    give(&first); /* the engine may hand it to the stopped one, and take it back later */
    snib_lease *second = take(client, "report", NULL);
    check_cont(waiter->pid);
    for (int i = 0; i < 50; i++) {
        CHECK(!check_flag_is_set(&waiter->settled));
        CHECK_INT(snib_verify(second, NULL), ==, SNIB_OK);
        check_sleep_ms(10);
    }
    uint64_t token = snib_token(second);
    give(&second);
    actor_must_hold(waiter);
    CHECK_UINT(atomic_load(&waiter->token), >, token);
    actor_join(waiter);
    snib_close(client);
}

TEST_WHEN(a_min_left_is_there_on_arrival_or_the_lock_is_given_back, with_leases)
{
    snib *client = client_at(place_with(SHORT_TTL));
    for (int64_t wanted = 100; wanted <= SHORT_TTL_MS * 9 / 10; wanted += 100) {
        snib_options options = trying(SNIB_EXCLUSIVE);
        snib_lease *lease = NULL;
        options.min_left_ms = wanted;
        int code = snib_acquire(&lease, client, "report", &options, NULL);
        if (code == SNIB_OK) {
            give(&lease);
        } else {
            CHECK_INT(code, ==, SNIB_ELOST);
            snib_lease *next = take(client, "report", NULL);
            give(&next);
        }
    }
    snib_close(client);
}

static bool with_ttl_per_lock(void)
{
    return with_leases() && (engine_traits() & SNIB_TRAIT_TTL_PER_LOCK) != 0;
}

TEST_WHEN(each_lock_may_have_its_own_ttl, with_ttl_per_lock)
{
    snib *client = client_here();
    snib_options options = trying(SNIB_EXCLUSIVE);
    options.ttl_ms = 2000;
    snib_lease *brief = take(client, "brief", &options);
    options.ttl_ms = 20000;
    snib_lease *lasting = take(client, "lasting", &options);
    CHECK_INT(snib_left_ms(brief), <, 2000);
    CHECK_INT(snib_left_ms(lasting), >, 10000);
    CHECK_INT(snib_left_ms(lasting), <, 20000);
    give(&brief);
    give(&lasting);
    snib_close(client);
}
