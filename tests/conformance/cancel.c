/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancelling: one answer, no residue, and the race with the grant has exactly one winner.
 */
#include "crowd.h"

#include <stdlib.h>

TEST(a_cancelled_wait_answers_once_and_leaves_no_residue)
{
    snib *holder = client_here();
    snib_lease *lease = take(holder, "report", NULL);
    struct crowd *crowd = crowd_new(1, false);
    snib_options forever = SNIB_OPTIONS;
    crowd_submit(crowd, 0, "report", &forever);
    if (with_fairness()) {
        await_waiters(holder, "report", 1);
    }
    CHECK_INT(snib_cancel(crowd->client, crowd->members[0].ticket), ==, SNIB_OK);
    crowd_await(crowd, 1);
    CHECK_INT(crowd_count(crowd, SNIB_ECANCELED), ==, 1);
    CHECK_INT(snib_cancel(crowd->client, crowd->members[0].ticket), ==, SNIB_ESTATE);
    if (with_fairness()) {
        await_waiters(holder, "report", 0);
    }
    give(&lease);
    must_be_free(holder, "report");
    await_nobody(holder, "report");
    crowd_end(crowd);
    snib_close(holder);
}

TEST(a_granted_one_cannot_be_cancelled)
{
    struct crowd *crowd = crowd_new(1, true);
    snib_options forever = SNIB_OPTIONS;
    crowd_submit(crowd, 0, "report", &forever);
    crowd_await(crowd, 1);
    CHECK_INT(snib_cancel(crowd->client, crowd->members[0].ticket), ==, SNIB_ESTATE);
    CHECK_INT(crowd_count(crowd, SNIB_OK), ==, 1);
    crowd_end(crowd);
}

TEST(a_ticket_that_never_was_cannot_be_cancelled)
{
    struct crowd *crowd = crowd_new(1, true);
    snib_options forever = SNIB_OPTIONS;
    CHECK_INT(snib_cancel(crowd->client, 0), ==, SNIB_ESTATE);
    CHECK_INT(snib_cancel(crowd->client, 1), ==, SNIB_ESTATE);
    CHECK_INT(snib_cancel(crowd->client, UINT64_MAX), ==, SNIB_ESTATE);
    crowd_submit(crowd, 0, "report", &forever);
    CHECK_INT(snib_cancel(crowd->client, crowd->members[0].ticket + 1), ==, SNIB_ESTATE);
    crowd_await(crowd, 1);
    CHECK_INT(crowd_count(crowd, SNIB_OK), ==, 1);
    crowd_end(crowd);
}

TEST(the_next_is_served_after_the_first_waiter_is_cancelled)
{
    struct actor *actors = actors_new(2);
    actor_prepare(&actors[0], "report", "holder");
    actor_prepare(&actors[1], "report", "next");
    actor_spawn(&actors[0]);
    actor_spawn(&actors[1]);
    actor_go_and_hold(&actors[0]);
    struct crowd *crowd = crowd_new(1, true);
    snib_options forever = SNIB_OPTIONS;
    crowd_submit(crowd, 0, "report", &forever);
    if (with_fairness()) {
        await_waiters(crowd->client, "report", 1);
    }
    actor_go_and_wait(&actors[1]);
    CHECK_INT(snib_cancel(crowd->client, crowd->members[0].ticket), ==, SNIB_OK);
    actor_let_go(&actors[0]);
    actor_must_hold(&actors[1]);
    crowd_await(crowd, 1);
    CHECK_INT(crowd_count(crowd, SNIB_ECANCELED), ==, 1);
    actor_join(&actors[1]);
    actor_join(&actors[0]);
    await_nobody(crowd->client, "report");
    crowd_end(crowd);
}

/* ---- Hundreds, at random ---------------------------------------------------------------- */

enum { PENDING = 1000, CANCELLED = 500 };

/* Same seed, same order: the race is with the grants, not with the dice. */
static void shuffle(int *order, int count, unsigned seed)
{
    for (int i = 0; i < count; i++) {
        order[i] = i;
    }
    for (int i = count - 1; i > 0; i--) {
        int j = (int)((unsigned)rand_r(&seed) % (unsigned)(i + 1));
        int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

static void cancel_some(bool events, unsigned seed)
{
    static int order[PENDING];
    snib_options forever = SNIB_OPTIONS;
    int cancelled = 0;
    snib *holder = client_here();
    snib_lease *lease = take(holder, "report", NULL);
    struct crowd *crowd = crowd_new(PENDING, events);
    for (int i = 0; i < PENDING; i++) {
        crowd_submit(crowd, i, "report", &forever);
    }
    shuffle(order, PENDING, seed);
    for (int i = 0; i < CANCELLED; i++) {
        if (i == CANCELLED / 2) {
            give(&lease); /* from here on the grants race with the cancels */
        }
        int code = snib_cancel(crowd->client, crowd->members[order[i]].ticket);
        CHECK(code == SNIB_OK || code == SNIB_ESTATE);
        CHECK(i >= CANCELLED / 2 || code == SNIB_OK);
        cancelled += code == SNIB_OK;
    }
    crowd_await(crowd, PENDING);
    CHECK_INT(crowd_count(crowd, SNIB_ECANCELED), ==, cancelled);
    CHECK_INT(crowd_count(crowd, SNIB_OK), ==, PENDING - cancelled);
    await_nobody(holder, "report");
    must_be_free(holder, "report");
    crowd_end(crowd);
    snib_close(holder);
}

TEST_LIMIT(hundreds_are_cancelled_at_random, 60)
{
    cancel_some(false, 20261115);
}

TEST_LIMIT(hundreds_are_cancelled_at_random_with_dispatch, 60)
{
    cancel_some(true, 511);
}

/* ---- From inside of a callback ---------------------------------------------------------- */

struct pair {
    snib *client;
    snib_ticket other;
    snib_lease *lease;
    _Atomic int cancel_code;
    _Atomic int other_code;
    struct check_flag both;
};

static void cancel_the_other(snib_lease *lease, const snib_error *err, void *arg)
{
    struct pair *pair = arg;
    (void)err;
    CHECK(lease != NULL);
    atomic_store(&pair->cancel_code, snib_cancel(pair->client, pair->other));
    give(&lease);
}

static void note_code(snib_lease *lease, const snib_error *err, void *arg)
{
    struct pair *pair = arg;
    CHECK(lease == NULL && err != NULL);
    atomic_store(&pair->other_code, err->code);
    check_flag_set(&pair->both);
}

TEST(a_callback_may_cancel_another_wait)
{
    static struct pair pair;
    snib_ticket first;
    snib_error error = {0};
    pair.client = client_here();
    snib_lease *left = take(pair.client, "left", NULL);
    snib_lease *right = take(pair.client, "right", NULL);
    CHECK_OK(snib_acquire_async(&pair.other, pair.client, "right", NULL, note_code, &pair, &error),
             error.message);
    CHECK_OK(snib_acquire_async(&first, pair.client, "left", NULL, cancel_the_other, &pair, &error),
             error.message);
    give(&left);
    check_flag_wait(&pair.both, PATIENCE_MS);
    CHECK_INT(atomic_load(&pair.cancel_code), ==, SNIB_OK);
    CHECK_INT(atomic_load(&pair.other_code), ==, SNIB_ECANCELED);
    give(&right);
    snib_close(pair.client);
}
