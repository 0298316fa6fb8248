/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that end without a word: holders and waiters killed, and the tokens over that.
 *
 * Not here: crashes by the dozen under load, which is exclusion.c.
 */
#include "conformance.h"

#include <stdio.h>

/* A ttl a case can wait for; without leases the place itself. */
static const char *mortal_place(void)
{
    return with_leases() ? place_with(SHORT_TTL) : place();
}

static void prepare_mortal(struct actor *actor, const char *name, const char *label, int mode)
{
    actor_prepare(actor, name, label);
    actor->url = mortal_place();
    actor->options.mode = mode;
}

/* The lock of `dead` goes to `heir`, who waits for it, when `dead` is killed. */
static void kill_and_inherit(struct actor *dead, struct actor *heir)
{
    actor_spawn(dead);
    actor_spawn(heir);
    actor_go_and_hold(dead);
    actor_go_and_wait(heir);
    int64_t killed_ns = check_now_ns();
    check_kill(dead->pid);
    actor_must_hold(heir);
    CHECK_INT((atomic_load(&heir->settled_ns) - killed_ns) / 1000000, <=,
              orphan_bound_ms(SHORT_TTL_MS));
}

TEST(a_killed_holder_is_followed_by_the_next)
{
    struct actor *actors = actors_new(2);
    prepare_mortal(&actors[0], "report", "dead", SNIB_EXCLUSIVE);
    prepare_mortal(&actors[1], "report", "heir", SNIB_EXCLUSIVE);
    kill_and_inherit(&actors[0], &actors[1]);
    CHECK_UINT(atomic_load(&actors[1].token), >, atomic_load(&actors[0].token));
    actor_join(&actors[1]);
}

TEST_WHEN(a_killed_reader_lets_the_writer_in, with_shared)
{
    struct actor *actors = actors_new(2);
    prepare_mortal(&actors[0], "map", "reader", SNIB_SHARED);
    prepare_mortal(&actors[1], "map", "writer", SNIB_EXCLUSIVE);
    kill_and_inherit(&actors[0], &actors[1]);
    actor_join(&actors[1]);
}

TEST_WHEN(a_killed_writer_lets_the_readers_in, with_shared)
{
    struct actor *actors = actors_new(2);
    prepare_mortal(&actors[0], "map", "writer", SNIB_EXCLUSIVE);
    prepare_mortal(&actors[1], "map", "reader", SNIB_SHARED);
    kill_and_inherit(&actors[0], &actors[1]);
    CHECK_UINT(atomic_load(&actors[1].token), >=, atomic_load(&actors[0].token));
    actor_join(&actors[1]);
}

TEST_WHEN(a_killed_user_frees_its_permit, with_counted)
{
    struct actor *actors = actors_new(3);
    for (int i = 0; i < 3; i++) {
        prepare_mortal(&actors[i], "pool", "user", SNIB_COUNTED);
        actors[i].options.permits = 2;
    }
    actor_spawn(&actors[2]);
    actor_go_and_hold(&actors[2]);
    kill_and_inherit(&actors[0], &actors[1]);
    CHECK(!check_flag_is_set(&actors[2].over));
    actor_join(&actors[1]);
    actor_join(&actors[2]);
}

TEST(a_killed_holder_is_not_shown)
{
    struct actor *dead = actors_new(1);
    struct sights sights;
    prepare_mortal(dead, "report", "dead", SNIB_EXCLUSIVE);
    actor_spawn(dead);
    snib *client = client_here();
    actor_go_and_hold(dead);
    look(client, "report", &sights);
    CHECK_UINT(sights.count, ==, 1);
    check_kill(dead->pid);
    await_nobody(client, "report");
    look_all(client, "", &sights);
    CHECK_UINT(sights.count, ==, 0);
    CHECK_UINT(must_be_free(client, "report"), >, atomic_load(&dead->token));
    snib_close(client);
}

TEST_WHEN(a_killed_waiter_is_not_in_the_way, with_fairness)
{
    struct actor *actors = actors_new(3);
    struct sights sights;
    actor_prepare(&actors[0], "report", "holder");
    prepare_mortal(&actors[1], "report", "dead", SNIB_EXCLUSIVE);
    actor_prepare(&actors[2], "report", "next");
    for (int i = 0; i < 3; i++) {
        actor_spawn(&actors[i]);
    }
    snib *client = client_here();
    actor_go_and_hold(&actors[0]);
    actor_go(&actors[1]);
    await_waiters(client, "report", 1);
    actor_go(&actors[2]);
    await_waiters(client, "report", 2);
    check_kill(actors[1].pid);
    await_waiters(client, "report", 1);
    look(client, "report", &sights);
    CHECK_UINT(sights.count, ==, 2);
    CHECK_STR(sights.all[1].label, "next");
    CHECK_INT(sights.all[1].place, ==, 1);
    actor_let_go(&actors[0]);
    actor_must_hold(&actors[2]);
    actor_join(&actors[2]);
    actor_join(&actors[0]);
    await_nobody(client, "report");
    snib_close(client);
}

TEST_WHEN(the_last_waiter_killed_leaves_nothing, with_fairness)
{
    struct actor *waiter = actors_new(1);
    prepare_mortal(waiter, "report", "dead", SNIB_EXCLUSIVE);
    actor_spawn(waiter);
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    actor_go(waiter);
    await_waiters(client, "report", 1);
    check_kill(waiter->pid);
    await_waiters(client, "report", 0);
    give(&lease);
    must_be_free(client, "report");
    await_nobody(client, "report");
    snib_close(client);
}

TEST(all_of_a_crowd_killed_leaves_a_free_lock)
{
    enum { CROWD = 6 };
    struct actor *actors = actors_new(CROWD);
    uint64_t last = 0;
    for (int i = 0; i < CROWD; i++) {
        prepare_mortal(&actors[i], "report", "doomed", SNIB_EXCLUSIVE);
        actor_spawn(&actors[i]);
    }
    actor_go_and_hold(&actors[0]);
    for (int i = 1; i < CROWD; i++) {
        actor_go_and_wait(&actors[i]);
    }
    for (int i = 0; i < CROWD; i++) { /* some of them may have been granted it meanwhile */
        check_kill(actors[i].pid);
    }
    for (int i = 0; i < CROWD; i++) {
        uint64_t token = atomic_load(&actors[i].token);
        last = token > last ? token : last;
    }
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    CHECK_UINT(snib_token(lease), >, last);
    give(&lease);
    snib_close(client);
}

/* ---- Tokens ----------------------------------------------------------------------------- */

TEST(tokens_grow_from_grant_to_grant)
{
    snib *clients[2] = {client_here(), client_here()};
    uint64_t last = 0;
    for (int i = 0; i < 200; i++) {
        snib_lease *lease = take(clients[i % 3 == 0], "report", NULL);
        CHECK_UINT(snib_token(lease), >, last);
        last = snib_token(lease);
        CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
        CHECK_UINT(snib_token(lease), ==, last);
        give(&lease);
    }
    snib_close(clients[0]);
    snib_close(clients[1]);
}

TEST(tokens_grow_when_a_client_is_opened_anew)
{
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        snib *client = client_here();
        uint64_t token = must_be_free(client, "report");
        CHECK_UINT(token, >, last);
        last = token;
        snib_close(client);
    }
}

TEST_LIMIT(tokens_grow_over_processes_and_crashes, 60)
{
    enum { LIVES = 24 };
    bool at_once = (engine_traits() & SNIB_TRAIT_AT_ONCE) != 0;
    int lives = at_once ? LIVES : 6;
    struct actor *actors = actors_new(LIVES);
    uint64_t last = 0;
    for (int i = 0; i < lives; i++) {
        prepare_mortal(&actors[i], "report", "mortal", SNIB_EXCLUSIVE);
        actor_spawn(&actors[i]);
        actor_go_and_hold(&actors[i]);
        CHECK_UINT(atomic_load(&actors[i].token), >, last);
        last = atomic_load(&actors[i].token);
        if (i % 3 == 0) {
            actor_join(&actors[i]);
        } else {
            check_kill(actors[i].pid);
        }
    }
}
