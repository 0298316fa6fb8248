/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared and counted locks, and names used as two kinds at once.
 *
 * The kind of a name binds while anybody holds it or waits for it, and no longer.
 */
#include "conformance.h"

#include <stdio.h>

/* ---- Shared ----------------------------------------------------------------------------- */

TEST_WHEN(readers_hold_together_and_a_writer_waits_for_the_last, with_shared)
{
    struct actor *actors = actors_new(4);
    for (int i = 0; i < 3; i++) {
        actor_prepare(&actors[i], "map", "reader");
        actors[i].options.mode = SNIB_SHARED;
        actor_spawn(&actors[i]);
    }
    actor_prepare(&actors[3], "map", "writer");
    actor_spawn(&actors[3]);
    for (int i = 0; i < 3; i++) {
        actor_go_and_hold(&actors[i]); /* none lets go: they hold it together */
    }
    actor_go_and_wait(&actors[3]);
    for (int i = 0; i < 3; i++) {
        CHECK(!check_flag_is_set(&actors[3].settled));
        actor_let_go(&actors[i]);
        CHECK_INT(atomic_load(&actors[i].release_code), ==, SNIB_OK);
    }
    actor_must_hold(&actors[3]);
    for (int i = 3; i >= 0; i--) {
        actor_join(&actors[i]);
    }
}

TEST_WHEN(a_writer_excludes_readers_and_writers, with_shared)
{
    struct actor *actors = actors_new(3);
    actor_prepare(&actors[0], "map", "writer");
    actor_prepare(&actors[1], "map", "reader");
    actor_prepare(&actors[2], "map", "reader");
    actors[1].options.mode = SNIB_SHARED;
    actors[2].options.mode = SNIB_SHARED;
    for (int i = 0; i < 3; i++) {
        actor_spawn(&actors[i]);
    }
    actor_go_and_hold(&actors[0]);
    snib *client = client_here();
    snib_options reader = trying(SNIB_SHARED);
    CHECK_INT(refused(client, "map", &reader, NULL), ==, SNIB_EBUSY);
    must_be_held(client, "map");
    actor_go_and_wait(&actors[1]);
    actor_go_and_wait(&actors[2]);
    actor_let_go(&actors[0]);
    actor_must_hold(&actors[1]); /* both: one release lets all readers in */
    actor_must_hold(&actors[2]);
    for (int i = 0; i < 3; i++) {
        actor_join(&actors[i]);
    }
    snib_close(client);
}

TEST_WHEN(readers_and_writers_of_one_client_exclude_each_other, with_shared)
{
    snib *client = client_here();
    snib_options reader = trying(SNIB_SHARED);
    snib_options writer = trying(SNIB_EXCLUSIVE);
    snib_lease *first = take(client, "map", &reader);
    snib_lease *second = take(client, "map", &reader);
    CHECK_INT(refused(client, "map", &writer, NULL), ==, SNIB_EBUSY);
    give(&first);
    CHECK_INT(refused(client, "map", &writer, NULL), ==, SNIB_EBUSY);
    give(&second);
    first = take(client, "map", &writer);
    CHECK_INT(refused(client, "map", &reader, NULL), ==, SNIB_EBUSY);
    give(&first);
    snib_close(client);
}

TEST_WHEN(readers_carry_the_token_of_the_last_writer, with_shared)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_options reader = trying(SNIB_SHARED);
    uint64_t written = must_be_free(client, "map");
    snib_lease *first = take(client, "map", &reader);
    snib_lease *second = take(other, "map", &reader);
    CHECK_UINT(snib_token(first), ==, written);
    CHECK_UINT(snib_token(second), ==, written);
    give(&first);
    give(&second);
    uint64_t again = must_be_free(other, "map");
    CHECK_UINT(again, >, written);
    first = take(client, "map", &reader);
    CHECK_UINT(snib_token(first), ==, again);
    give(&first);
    snib_close(other);
    snib_close(client);
}

TEST_WHEN(a_waiting_writer_stops_new_readers, with_fair_shared)
{
    struct actor *writer = actors_new(1);
    actor_prepare(writer, "map", "writer");
    actor_spawn(writer);
    snib *client = client_here();
    snib *other = client_here();
    snib_options reader = trying(SNIB_SHARED);
    snib_lease *old = take(client, "map", &reader);
    snib_lease *also = take(other, "map", &reader); /* nobody waits yet */
    give(&also);
    actor_go_and_wait(writer);
    CHECK_INT(refused(other, "map", &reader, NULL), ==, SNIB_EBUSY);
    CHECK_INT(refused(client, "map", &reader, NULL), ==, SNIB_EBUSY); /* its own holder, too */
    give(&old);
    actor_must_hold(writer);
    actor_let_go(writer);
    old = take(client, "map", &reader);
    give(&old);
    actor_join(writer);
    snib_close(other);
    snib_close(client);
}

TEST_WHEN(a_writer_that_gave_up_lets_the_readers_in, with_fair_shared)
{
    struct actor *actors = actors_new(2);
    actor_prepare(&actors[0], "map", "writer");
    actor_prepare(&actors[1], "map", "reader");
    actors[0].options.wait_ms = check_ms(1000);
    actors[1].options.mode = SNIB_SHARED;
    actor_spawn(&actors[0]);
    actor_spawn(&actors[1]);
    snib *client = client_here();
    snib_options reader = trying(SNIB_SHARED);
    snib_lease *old = take(client, "map", &reader);
    actor_go_and_wait(&actors[0]);
    actor_go_and_wait(&actors[1]); /* behind the writer */
    actor_await(&actors[0], &actors[0].settled);
    CHECK_INT(atomic_load(&actors[0].code), ==, SNIB_EBUSY);
    actor_must_hold(&actors[1]); /* although the first reader has not let go */
    actor_join(&actors[1]);
    actor_join(&actors[0]);
    give(&old);
    snib_close(client);
}

/* ---- Counted ---------------------------------------------------------------------------- */

enum { PERMITS = 3 };

TEST_WHEN(a_counted_lock_has_so_many_holders_and_the_next_waits, with_counted)
{
    struct actor *actors = actors_new(PERMITS + 1);
    for (int i = 0; i <= PERMITS; i++) {
        actor_prepare(&actors[i], "pool", i < PERMITS ? "user" : "late");
        actors[i].options.mode = SNIB_COUNTED;
        actors[i].options.permits = PERMITS;
        actor_spawn(&actors[i]);
    }
    for (int i = 0; i < PERMITS; i++) {
        actor_go_and_hold(&actors[i]);
    }
    snib *client = client_here();
    snib_options one_more = counted(PERMITS, 0);
    CHECK_INT(refused(client, "pool", &one_more, NULL), ==, SNIB_EBUSY);
    actor_go_and_wait(&actors[PERMITS]);
    actor_let_go(&actors[1]); /* any of them, not just the first */
    actor_must_hold(&actors[PERMITS]);
    CHECK_INT(refused(client, "pool", &one_more, NULL), ==, SNIB_EBUSY);
    for (int i = PERMITS; i >= 0; i--) {
        actor_join(&actors[i]);
    }
    snib_close(client);
}

TEST_WHEN(a_counted_lock_counts_within_one_client, with_counted)
{
    snib *client = client_here();
    snib_options one = counted(PERMITS, 0);
    snib_lease *leases[PERMITS];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PERMITS; i++) {
            leases[i] = take(client, "pool", &one);
        }
        CHECK_INT(refused(client, "pool", &one, NULL), ==, SNIB_EBUSY);
        give(&leases[round]);
        leases[round] = take(client, "pool", &one);
        for (int i = 0; i < PERMITS; i++) {
            give(&leases[i]);
        }
    }
    snib_close(client);
}

TEST_CASE(a_counted_lock_of_a_thousand_is_filled, 120, with_counted)
{
    enum { MANY = 1000 };
    static snib_lease *leases[MANY];
    snib *client = client_here();
    snib_options one = counted(MANY, 0);
    for (int i = 0; i < MANY; i++) {
        leases[i] = take(client, "pool", &one);
    }
    CHECK_INT(refused(client, "pool", &one, NULL), ==, SNIB_EBUSY);
    for (int i = 0; i < MANY; i++) {
        give(&leases[i]);
    }
    must_be_free(client, "pool");
    snib_close(client);
}

/* ---- Two kinds at once ------------------------------------------------------------------ */

TEST_WHEN(other_permits_are_refused_while_it_is_held, with_counted)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_options three = counted(3, 0);
    snib_options five = counted(5, 0);
    snib_options five_later = counted(5, -1);
    snib_error error;
    snib_lease *lease = take(client, "pool", &three);
    CHECK_INT(refused(other, "pool", &five, &error), ==, SNIB_EKIND);
    CHECK(strstr(error.message, "pool") != NULL);
    CHECK_INT(refused(other, "pool", &five_later, NULL), ==, SNIB_EKIND); /* and does not wait */
    CHECK_INT(refused(client, "pool", &five, NULL), ==, SNIB_EKIND);
    give(&lease);
    lease = take(other, "pool", &five); /* free: the next user says what it is */
    CHECK_INT(refused(client, "pool", &three, NULL), ==, SNIB_EKIND);
    give(&lease);
    snib_close(other);
    snib_close(client);
}

TEST_WHEN(counted_and_exclusive_do_not_mix, with_counted)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_options pool = counted(2, 0);
    snib_options alone = trying(SNIB_EXCLUSIVE);
    snib_lease *lease = take(client, "pool", &pool);
    CHECK_INT(refused(other, "pool", &alone, NULL), ==, SNIB_EKIND);
    CHECK_INT(refused(client, "pool", &alone, NULL), ==, SNIB_EKIND);
    give(&lease);
    lease = take(client, "pool", &alone);
    CHECK_INT(refused(other, "pool", &pool, NULL), ==, SNIB_EKIND);
    CHECK_INT(refused(client, "pool", &pool, NULL), ==, SNIB_EKIND);
    give(&lease);
    must_be_free(other, "pool");
    snib_close(other);
    snib_close(client);
}

static bool with_counted_and_shared(void)
{
    return with_counted() && with_shared();
}

TEST_WHEN(counted_and_shared_do_not_mix, with_counted_and_shared)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_options pool = counted(2, 0);
    snib_options reader = trying(SNIB_SHARED);
    snib_lease *lease = take(client, "pool", &pool);
    CHECK_INT(refused(other, "pool", &reader, NULL), ==, SNIB_EKIND);
    give(&lease);
    lease = take(client, "pool", &reader);
    CHECK_INT(refused(other, "pool", &pool, NULL), ==, SNIB_EKIND);
    give(&lease);
    snib_close(other);
    snib_close(client);
}

TEST_WHEN(the_kind_is_free_again_after_a_crash, with_counted)
{
    struct actor *crashing = actors_new(1);
    actor_prepare(crashing, "pool", "crashing");
    crashing->options.mode = SNIB_COUNTED;
    crashing->options.permits = 2;
    crashing->url = with_leases() ? place_with(SHORT_TTL) : place();
    actor_spawn(crashing);
    actor_go_and_hold(crashing);
    snib *client = client_here();
    snib_options alone = trying(SNIB_EXCLUSIVE);
    CHECK_INT(refused(client, "pool", &alone, NULL), ==, SNIB_EKIND);
    check_kill(crashing->pid);
    await_nobody(client, "pool");
    must_be_free(client, "pool");
    snib_close(client);
}
