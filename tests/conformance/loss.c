/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Losing a lock, and learning of it in time: max_hold and NO_RENEW, which every engine has.
 *
 * The order is the promise: the holder is told (DOUBTFUL, then LOST) before anybody else can
 * have the lock, and whatever it does afterwards does not touch the new owner.
 */
#include "conformance.h"

#include <stdio.h>

/* A hold a case can see the end of; and one whose last third, in which its end is announced, is
 * longer than a machine does nothing. */
enum { HOLD_MS = 1500, LONG_HOLD_MS = 3000 };

static snib_options for_a_while(int64_t max_hold_ms, struct diary *diary)
{
    snib_options options = trying(SNIB_EXCLUSIVE);
    options.max_hold_ms = max_hold_ms;
    if (diary != NULL) {
        options.on_event = diary_note;
        options.arg = diary;
    }
    return options;
}

/* The lease is over, for good. */
static void must_be_lost(snib_lease *lease)
{
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    CHECK_INT(snib_left_ms(lease), <=, 0);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_ELOST);
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
}

static void give_lost(snib_lease **lease)
{
    snib_error error = {0};
    CHECK_INT(snib_release(lease, &error), ==, SNIB_ELOST);
    CHECK_INT(error.code, ==, SNIB_ELOST);
    CHECK(*lease == NULL);
}

TEST(a_holder_is_told_before_the_next_can_enter)
{
    static struct diary diary;
    struct actor *next = actors_new(1);
    actor_prepare(next, "report", "next");
    actor_spawn(next);
    snib *client = client_here();
    snib_options options = for_a_while(LONG_HOLD_MS, &diary);
    int64_t start = check_now_ns();
    snib_lease *lease = take(client, "report", &options);
    actor_go_and_wait(next);
    check_flag_wait(&diary.seen[SNIB_LOST], PATIENCE_MS);
    must_be_lost(lease);
    actor_must_hold(next);

    const struct entry *doubtful = diary_find(&diary, SNIB_DOUBTFUL);
    const struct entry *lost = diary_find(&diary, SNIB_LOST);
    CHECK(doubtful != NULL && doubtful < lost);
    CHECK(doubtful->has_lease && lost->has_lease);
    CHECK(doubtful->why[0] != '\0' && lost->why[0] != '\0');
    CHECK_INT(lost->left_ms, <=, 0);
    CHECK_INT(lost->at_ns - start, >=, LONG_HOLD_MS * INT64_C(1000000));
    CHECK_INT(lost->at_ns - start, <, (LONG_HOLD_MS + check_ms(5000)) * INT64_C(1000000));
    CHECK_INT(atomic_load(&next->settled_ns) - start, >=, LONG_HOLD_MS * INT64_C(1000000));
    CHECK_UINT(atomic_load(&next->token), >, snib_token(lease));

    give_lost(&lease);
    actor_let_go(next);
    CHECK_INT(atomic_load(&next->state_at_end), ==, SNIB_HELD);
    CHECK_INT(atomic_load(&next->release_code), ==, SNIB_OK);
    actor_join(next);
    snib_close(client);
}

TEST(a_late_release_spares_the_new_owner)
{
    struct actor *actors = actors_new(2);
    actor_prepare(&actors[0], "report", "late");
    actor_prepare(&actors[1], "report", "new");
    actors[0].options.max_hold_ms = HOLD_MS;
    actor_spawn(&actors[0]);
    actor_spawn(&actors[1]);
    snib *client = client_here();
    actor_go_and_hold(&actors[0]);
    actor_go_and_hold(&actors[1]);
    actor_let_go(&actors[0]);
    CHECK_INT(atomic_load(&actors[0].release_code), ==, SNIB_ELOST);
    CHECK_INT(atomic_load(&actors[0].state_at_end), ==, SNIB_LOST);
    CHECK_INT(atomic_load(&actors[0].left_at_end_ms), <=, 0);
    actor_join(&actors[0]); /* and its client is closed */
    must_be_held(client, "report");
    actor_let_go(&actors[1]);
    CHECK_INT(atomic_load(&actors[1].release_code), ==, SNIB_OK);
    CHECK_INT(atomic_load(&actors[1].state_at_end), ==, SNIB_HELD);
    actor_join(&actors[1]);
    must_be_free(client, "report");
    snib_close(client);
}

TEST(the_descriptor_of_a_lease_is_readable_from_doubt_on)
{
    snib *client = client_here();
    snib_options options = for_a_while(HOLD_MS, NULL);
    snib_lease *lease = take(client, "report", &options);
    int64_t taken = check_now_ns();
    int fd = snib_fd(lease);
    CHECK_INT(fd, >=, 0);
    CHECK_INT(snib_fd(lease), ==, fd);
    if (readable(fd, 0)) { /* too soon, unless this process was held up */
        CHECK_INT(elapsed_ms(taken), >=, HOLD_MS / 4);
    }
    CHECK(readable(fd, PATIENCE_MS));
    CHECK(snib_state(lease) == SNIB_DOUBTFUL || snib_state(lease) == SNIB_LOST);
    while (snib_left_ms(lease) > 0) {
        CHECK_INT(elapsed_ms(taken), <, check_ms(PATIENCE_MS));
        check_sleep_ms(1);
    }
    CHECK(readable(fd, PATIENCE_MS));
    snib *other = client_here();
    snib_lease *next = take(other, "report", NULL); /* although nobody listened or released */
    CHECK(readable(fd, 0));
    must_be_lost(lease);
    give_lost(&lease);
    CHECK_INT(snib_verify(next, NULL), ==, SNIB_OK);
    give(&next);
    snib_close(other);
    snib_close(client);
}

TEST(a_descriptor_asked_for_after_the_loss_is_readable)
{
    static struct diary diary;
    snib *client = client_here();
    snib_options options = for_a_while(HOLD_MS / 2, &diary);
    snib_lease *lease = take(client, "report", &options);
    check_flag_wait(&diary.seen[SNIB_LOST], PATIENCE_MS);
    int fd = snib_fd(lease);
    CHECK_INT(fd, >=, 0);
    CHECK(readable(fd, 0));
    give_lost(&lease);
    snib_close(client);
}

TEST(a_held_lease_has_a_quiet_descriptor)
{
    snib *client = client_here();
    int before = check_fd_count();
    snib_lease *lease = take(client, "report", NULL);
    int fd = snib_fd(lease);
    CHECK_INT(fd, >=, 0);
    CHECK(!readable(fd, 50));
    give(&lease);
    snib_close(client);
    CHECK_INT(check_fd_count(), <=, before);
}

TEST(what_is_left_only_shrinks)
{
    static struct diary diary;
    snib *client = client_here();
    snib_options options = for_a_while(HOLD_MS, &diary);
    snib_lease *lease = take(client, "report", &options);
    int64_t last = HOLD_MS;
    while (!check_flag_is_set(&diary.seen[SNIB_LOST])) {
        int64_t left = snib_left_ms(lease);
        CHECK_INT(left, <=, last);
        last = left;
        check_sleep_ms(1);
    }
    CHECK_INT(snib_left_ms(lease), <=, 0);
    give_lost(&lease);
    snib_close(client);
}

TEST(a_lease_released_in_time_is_never_called_lost)
{
    static struct diary early, late;
    snib *client = client_here();
    snib_options options = for_a_while(check_ms(1200), &early);
    snib_options clock = for_a_while(check_ms(1600), &late);
    snib_lease *lease = take(client, "report", &options);
    snib_lease *ticking = take(client, "clock", &clock);
    give(&lease);
    check_flag_wait(&late.seen[SNIB_LOST], PATIENCE_MS);
    CHECK(diary_find(&early, SNIB_LOST) == NULL);
    give_lost(&ticking);
    must_be_free(client, "report");
    snib_close(client);
}

TEST(an_owner_that_lost_it_does_not_enter_again)
{
    static struct diary diary;
    static const char owner;
    snib *client = client_here();
    snib *other = client_here();
    snib_options options = for_a_while(HOLD_MS, &diary);
    options.owner = &owner;
    snib_lease *lost = take(client, "report", &options);
    check_flag_wait(&diary.seen[SNIB_LOST], PATIENCE_MS);
    options.wait_ms = check_ms(PATIENCE_MS);
    int code = refused(client, "report", &options, NULL); /* its outer lock is gone: no way in */
    CHECK_INT(code, ==, SNIB_ELOST);
    snib_lease *next = take(other, "report", NULL);
    uint64_t token = snib_token(lost);
    give_lost(&lost);
    options.wait_ms = 0;
    CHECK_INT(refused(client, "report", &options, NULL), ==, SNIB_EBUSY);
    give(&next);
    snib_options again = owned(&owner, SNIB_EXCLUSIVE);
    snib_lease *fresh = take(client, "report", &again);
    CHECK_UINT(snib_token(fresh), >, token);
    give(&fresh);
    snib_close(other);
    snib_close(client);
}

TEST_WHEN(a_reader_that_held_too_long_lets_the_writer_in, with_shared)
{
    struct actor *actors = actors_new(2);
    actor_prepare(&actors[0], "map", "reader");
    actor_prepare(&actors[1], "map", "writer");
    actors[0].options.mode = SNIB_SHARED;
    actors[0].options.max_hold_ms = HOLD_MS;
    actor_spawn(&actors[0]);
    actor_spawn(&actors[1]);
    actor_go_and_hold(&actors[0]);
    actor_go_and_hold(&actors[1]);
    actor_let_go(&actors[0]);
    CHECK_INT(atomic_load(&actors[0].release_code), ==, SNIB_ELOST);
    actor_let_go(&actors[1]);
    CHECK_INT(atomic_load(&actors[1].release_code), ==, SNIB_OK);
    actor_join(&actors[0]);
    actor_join(&actors[1]);
}

TEST(without_renewal_a_lease_ends_after_one_ttl)
{
    static struct diary diary;
    snib *client = client_at(place_with(SHORT_TTL));
    snib *other = client_at(place_with(SHORT_TTL));
    snib_options options = for_a_while(0, &diary);
    options.flags = SNIB_NO_RENEW;
    int64_t start = check_now_ns();
    snib_lease *lease = take(client, "report", &options);
    CHECK_INT(snib_left_ms(lease), <=, SHORT_TTL_MS);
    must_be_held(other, "report");
    check_flag_wait(&diary.seen[SNIB_LOST], PATIENCE_MS);
    int64_t lost_ns = diary_find(&diary, SNIB_LOST)->at_ns;
    CHECK_INT((lost_ns - start) / 1000000, >=, SHORT_TTL_MS * 85 / 100); /* 10 % are for drift */
    must_be_lost(lease);
    snib_lease *next = take(other, "report", NULL);
    CHECK_UINT(snib_token(next), >, snib_token(lease));
    give_lost(&lease);
    give(&next);
    snib_close(other);
    snib_close(client);
}

TEST(less_than_is_needed_is_given_back)
{
    snib *client = client_here();
    snib *other = client_here();
    int held = 0;
    for (int i = 0; i < 20; i++) {
        snib_options options = for_a_while(1000, NULL);
        snib_lease *lease = NULL;
        options.min_left_ms = 990 + i % 10 + (i == 19);
        int code = snib_acquire(&lease, client, "report", &options, NULL);
        if (code == SNIB_OK) {
            held++;
            int release_code = snib_release(&lease, NULL);
            CHECK(release_code == SNIB_OK || release_code == SNIB_ELOST);
        } else {
            CHECK_INT(code, ==, SNIB_ELOST);
            CHECK(lease == NULL);
        }
        snib_lease *next = take(other, "report", NULL); /* given back either way */
        give(&next);
    }
    CHECK_INT(held, <, 20); /* the last asked for more than can be left */
    snib_close(other);
    snib_close(client);
}

TEST(an_impossible_min_left_is_refused)
{
    snib *client = client_at(place_with(SHORT_TTL));
    snib_options options = for_a_while(HOLD_MS, NULL);
    options.min_left_ms = HOLD_MS + 1;
    CHECK_INT(refused(client, "report", &options, NULL), ==, SNIB_EINVAL);
    if (with_leases()) {
        options.max_hold_ms = 0;
        options.min_left_ms = SHORT_TTL_MS + 1;
        CHECK_INT(refused(client, "report", &options, NULL), ==, SNIB_EINVAL);
    }
    must_be_free(client, "report");
    snib_close(client);
}
