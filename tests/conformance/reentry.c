/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Re-entrancy: only for an explicit owner, counted in the process, under one token.
 */
#include "conformance.h"

static const char owner_a, owner_b; /* their addresses are the owners */

TEST(an_owner_enters_again_without_waiting_under_the_same_token)
{
    struct actor *other = actors_new(1);
    actor_prepare(other, "cache", "other");
    actor_spawn(other);
    snib *client = client_here();
    snib_options mine = owned(&owner_a, SNIB_EXCLUSIVE);
    snib_lease *leases[3];
    for (int i = 0; i < 3; i++) {
        leases[i] = take(client, "cache", &mine);
        CHECK_UINT(snib_token(leases[i]), ==, snib_token(leases[0]));
        for (int j = 0; j < i; j++) {
            CHECK(leases[i] != leases[j]);
        }
    }
    actor_go_and_wait(other);
    mine.wait_ms = -1; /* also in front of somebody who waits */
    snib_lease *fourth = take(client, "cache", &mine);
    give(&fourth);
    for (int i = 0; i < 3; i++) {
        CHECK(!check_flag_is_set(&other->settled));
        must_be_held(client, "cache");
        CHECK_INT(snib_verify(leases[i], NULL), ==, SNIB_OK);
        give(&leases[i]); /* the first one first */
    }
    actor_must_hold(other);
    actor_join(other);
    snib_close(client);
}

TEST(the_lock_is_free_only_after_the_last_release_in_any_order)
{
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}};
    snib *client = client_here();
    snib *other = client_here();
    snib_options mine = owned(&owner_a, SNIB_EXCLUSIVE);
    for (size_t order = 0; order < sizeof orders / sizeof orders[0]; order++) {
        snib_lease *leases[3];
        for (int i = 0; i < 3; i++) {
            leases[i] = take(client, "cache", &mine);
        }
        for (int i = 0; i < 3; i++) {
            must_be_held(other, "cache");
            give(&leases[orders[order][i]]);
        }
        must_be_free(other, "cache");
    }
    snib_close(other);
    snib_close(client);
}

TEST(another_owner_is_refused)
{
    snib *client = client_here();
    snib_options mine = owned(&owner_a, SNIB_EXCLUSIVE);
    snib_options yours = owned(&owner_b, SNIB_EXCLUSIVE);
    snib_lease *lease = take(client, "cache", &mine);
    CHECK_INT(refused(client, "cache", &yours, NULL), ==, SNIB_EBUSY);
    give(&lease);
    lease = take(client, "cache", &yours);
    CHECK_INT(refused(client, "cache", &mine, NULL), ==, SNIB_EBUSY);
    give(&lease);
    snib_close(client);
}

TEST(without_an_owner_there_is_no_reentry)
{
    snib *client = client_here();
    snib_options nobody = trying(SNIB_EXCLUSIVE);
    snib_options mine = owned(&owner_a, SNIB_EXCLUSIVE);
    snib_lease *lease = take(client, "cache", &nobody);
    CHECK_INT(refused(client, "cache", &nobody, NULL), ==, SNIB_EBUSY);
    CHECK_INT(refused(client, "cache", &mine, NULL), ==, SNIB_EBUSY);
    give(&lease);
    lease = take(client, "cache", &mine);
    CHECK_INT(refused(client, "cache", &nobody, NULL), ==, SNIB_EBUSY);
    give(&lease);
    snib_close(client);
}

TEST(an_owner_of_one_name_does_not_own_another)
{
    snib *client = client_here();
    snib_options mine = owned(&owner_a, SNIB_EXCLUSIVE);
    snib_options yours = owned(&owner_b, SNIB_EXCLUSIVE);
    snib_lease *left = take(client, "left", &mine);
    snib_lease *right = take(client, "right", &yours);
    CHECK_INT(refused(client, "right", &mine, NULL), ==, SNIB_EBUSY);
    CHECK_INT(refused(client, "left", &yours, NULL), ==, SNIB_EBUSY);
    give(&left);
    give(&right);
    snib_close(client);
}

TEST(an_owner_that_let_go_waits_like_anybody)
{
    snib *client = client_here();
    snib_options mine = owned(&owner_a, SNIB_EXCLUSIVE);
    snib_options yours = owned(&owner_b, SNIB_EXCLUSIVE);
    snib_lease *first = take(client, "cache", &mine);
    uint64_t token = snib_token(first);
    give(&first);
    snib_lease *second = take(client, "cache", &yours);
    CHECK_UINT(snib_token(second), >, token);
    CHECK_INT(refused(client, "cache", &mine, NULL), ==, SNIB_EBUSY);
    give(&second);
    snib_close(client);
}

TEST(the_same_owner_in_another_client_is_another)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_options mine = owned(&owner_a, SNIB_EXCLUSIVE);
    snib_lease *lease = take(client, "cache", &mine);
    CHECK_INT(refused(other, "cache", &mine, NULL), ==, SNIB_EBUSY);
    give(&lease);
    snib_close(other);
    snib_close(client);
}

TEST(an_owner_that_needs_more_than_is_left_is_refused)
{
    snib *client = client_here();
    snib_options outer = owned(&owner_a, SNIB_EXCLUSIVE);
    snib_options inner = owned(&owner_a, SNIB_EXCLUSIVE);
    outer.max_hold_ms = 5000;
    inner.min_left_ms = 6000;
    snib_lease *lease = take(client, "cache", &outer);
    CHECK_INT(refused(client, "cache", &inner, NULL), ==, SNIB_ELOST);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD); /* the outer one is as it was */
    give(&lease);
    snib_close(client);
}

/* ---- Shared ----------------------------------------------------------------------------- */

TEST_WHEN(exclusive_covers_shared, with_shared)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_options reader = trying(SNIB_SHARED);
    snib_options writing = owned(&owner_a, SNIB_EXCLUSIVE);
    snib_options reading = owned(&owner_a, SNIB_SHARED);
    snib_lease *outer = take(client, "cache", &writing);
    snib_lease *inner = take(client, "cache", &reading);
    CHECK_UINT(snib_token(inner), ==, snib_token(outer));
    give(&inner);
    CHECK_INT(refused(other, "cache", &reader, NULL), ==, SNIB_EBUSY);

    inner = take(client, "cache", &reading);
    give(&outer); /* the inner one still stands on the exclusive grant */
    must_be_held(other, "cache");
    CHECK_INT(snib_verify(inner, NULL), ==, SNIB_OK);
    give(&inner);
    must_be_free(other, "cache");
    snib_close(other);
    snib_close(client);
}

TEST_WHEN(shared_does_not_become_exclusive, with_shared)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_options reading = owned(&owner_a, SNIB_SHARED);
    snib_options writing = owned(&owner_a, SNIB_EXCLUSIVE);
    snib_lease *lease = take(client, "cache", &reading);
    CHECK_INT(refused(client, "cache", &writing, NULL), ==, SNIB_EDEADLK);
    writing.wait_ms = -1; /* would wait for itself: the answer must not take a wait */
    CHECK_INT(refused(client, "cache", &writing, NULL), ==, SNIB_EDEADLK);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    snib_options reader = trying(SNIB_SHARED);
    snib_lease *second = take(other, "cache", &reader); /* the refused writer waits nowhere */
    give(&second);
    give(&lease);
    lease = take(client, "cache", &writing);
    give(&lease);
    snib_close(other);
    snib_close(client);
}

TEST_WHEN(a_shared_owner_enters_again_before_a_waiting_writer, with_shared)
{
    struct actor *writer = actors_new(1);
    actor_prepare(writer, "cache", "writer");
    actor_spawn(writer);
    snib *client = client_here();
    snib_options reading = owned(&owner_a, SNIB_SHARED);
    snib_lease *outer = take(client, "cache", &reading);
    actor_go_and_wait(writer);
    reading.wait_ms = -1; /* to wait behind the writer would be to wait for itself */
    snib_lease *inner = take(client, "cache", &reading);
    CHECK_UINT(snib_token(inner), ==, snib_token(outer));
    give(&outer);
    CHECK(!check_flag_is_set(&writer->settled));
    give(&inner);
    actor_must_hold(writer);
    actor_join(writer);
    snib_close(client);
}

/* ---- Threads as owners ------------------------------------------------------------------ */

enum { THREADS = 64 };

static void *note_thread(void *arg)
{
    const void **out = arg;
    *out = snib_thread();
    CHECK(*out != NULL);
    CHECK(snib_thread() == *out);
    return NULL;
}

static void must_be_different(const void *const *owners, int count)
{
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < i; j++) {
            CHECK(owners[i] != owners[j]);
        }
    }
}

TEST(no_two_threads_are_the_same_owner_even_one_after_another)
{
    const void *owners[THREADS + 1];
    pthread_t thread;
    note_thread(&owners[THREADS]);
    for (int i = 0; i < THREADS; i++) { /* the kernel and the C library reuse ids and stacks */
        CHECK(pthread_create(&thread, NULL, note_thread, &owners[i]) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    must_be_different(owners, THREADS + 1);
}

TEST(no_two_threads_are_the_same_owner_side_by_side)
{
    const void *owners[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, note_thread, &owners[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    must_be_different(owners, THREADS);
}

static void *be_refused(void *arg)
{
    snib_options mine = owned(snib_thread(), SNIB_EXCLUSIVE);
    CHECK_INT(refused(arg, "cache", &mine, NULL), ==, SNIB_EBUSY);
    return NULL;
}

TEST(a_thread_enters_again_and_another_does_not)
{
    snib *client = client_here();
    snib_options mine = owned(snib_thread(), SNIB_EXCLUSIVE);
    snib_lease *outer = take(client, "cache", &mine);
    snib_lease *inner = take(client, "cache", &mine);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, be_refused, client) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    give(&inner);
    give(&outer);
    snib_close(client);
}

/* ---- Asynchronous: the case that makes "by calling thread" wrong ------------------------ */

static void count_grant(snib_lease *lease, const snib_error *err, void *arg)
{
    (void)err;
    if (lease != NULL) {
        atomic_fetch_add((_Atomic int *)arg, 1);
        CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    }
}

TEST(asynchronous_acquires_of_one_thread_do_not_enter_together)
{
    enum { PENDING = 8 };
    static _Atomic int granted;
    snib *client = client_here();
    snib_error error = {0};
    snib_ticket ticket;
    int fd = -1;
    CHECK_OK(snib_events(client, &fd, &error), error.message);
    snib_options at_once = trying(SNIB_EXCLUSIVE);
    snib_options forever = SNIB_OPTIONS;
    snib_lease *lease = take(client, "cache", &at_once);
    for (int i = 0; i < PENDING; i++) {
        CHECK_OK(snib_acquire_async(&ticket, client, "cache", &forever, count_grant,
                                    (void *)&granted, &error),
                 error.message);
    }
    snib_dispatch(client, 0);
    CHECK_INT(atomic_load(&granted), ==, 0);
    give(&lease);
    int64_t end = check_now_ns() + check_ms(PATIENCE_MS) * INT64_C(1000000);
    while (atomic_load(&granted) < PENDING && check_now_ns() < end) {
        readable(fd, 1000);
        CHECK_INT(snib_dispatch(client, 0), >=, 0);
    }
    CHECK_INT(atomic_load(&granted), ==, PENDING);
    snib_close(client);
}
