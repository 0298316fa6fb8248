/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renewing by hand: the way to go on where nobody renews, and never a way past a limit.
 */
#include "conformance.h"

/* Long enough for a machine that is held up between two renewals. */
enum { TTL_MS = 3000, STEP_MS = 200 };
#define HAND_TTL "ttl=3s"

static snib_options by_hand(struct diary *diary)
{
    snib_options options = trying(SNIB_EXCLUSIVE);
    options.flags = SNIB_NO_RENEW;
    if (diary != NULL) {
        options.on_event = diary_note;
        options.arg = diary;
    }
    return options;
}

static void renew(snib_lease *lease, int64_t ttl_ms)
{
    snib_error error = {0};
    CHECK_OK(snib_renew(lease, ttl_ms, &error), error.message);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
}

static int not_renewed(snib_lease *lease, int64_t ttl_ms)
{
    snib_error error = {0};
    int code = snib_renew(lease, ttl_ms, &error);
    CHECK_INT(code, <, 0);
    CHECK_INT(error.code, ==, code);
    CHECK(error.message[0] != '\0');
    return code;
}

TEST_LIMIT(renewed_by_hand_a_lease_outlives_its_ttl_and_ends_one_ttl_after_the_last, 60)
{
    static struct diary diary;
    snib *client = client_at(place_with(HAND_TTL));
    snib *other = client_at(place_with(HAND_TTL));
    snib_options options = by_hand(&diary);
    int64_t start = check_now_ns();
    int64_t last = start;
    snib_lease *lease = take(client, "report", &options);
    while (elapsed_ms(start) < 2 * TTL_MS) {
        last = check_now_ns();
        renew(lease, 0);
        must_be_held(other, "report");
        check_sleep_ms(STEP_MS);
    }
    CHECK(diary_find(&diary, SNIB_LOST) == NULL);
    check_flag_wait(&diary.seen[SNIB_LOST], PATIENCE_MS);
    int64_t lost_ns = diary_find(&diary, SNIB_LOST)->at_ns;
    CHECK_INT((lost_ns - last) / 1000000, >=, TTL_MS * 85 / 100); /* 10 % are for drift */
    CHECK_INT((lost_ns - last) / 1000000, <, TTL_MS + check_ms(5000));
    snib_lease *next = take(other, "report", NULL);
    CHECK_UINT(snib_token(next), >, snib_token(lease));
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    give(&next);
    snib_close(other);
    snib_close(client);
}

TEST(a_lease_in_doubt_for_lack_of_renewal_is_held_again_when_renewed_by_hand)
{
    static struct diary diary;
    snib *client = client_at(place_with(HAND_TTL));
    snib_options options = by_hand(&diary);
    snib_lease *lease = take(client, "report", &options);
    int fd = snib_fd(lease);
    CHECK_INT(fd, >=, 0);
    check_flag_wait(&diary.seen[SNIB_DOUBTFUL], PATIENCE_MS);
    CHECK(readable(fd, 0));
    int64_t left = snib_left_ms(lease);
    CHECK_INT(left, <=, TTL_MS / 3);
    renew(lease, 0);
    CHECK(!readable(fd, 0));
    CHECK_INT(snib_left_ms(lease), >, left);
    check_flag_wait(&diary.seen[SNIB_HELD], PATIENCE_MS);
    CHECK(diary_find(&diary, SNIB_LOST) == NULL);
    give(&lease);
    snib_close(client);
}

TEST_WHEN(a_renewal_moves_the_deadline_on, with_leases)
{
    snib *client = client_at(place_with("ttl=20s"));
    snib_options options = by_hand(NULL);
    snib_lease *lease = take(client, "report", &options);
    int64_t first = snib_left_ms(lease);
    check_sleep_ms(100);
    int64_t second = snib_left_ms(lease);
    CHECK_INT(second, <=, first - 50);
    renew(lease, 0);
    CHECK_INT(snib_left_ms(lease), >, second);
    CHECK_INT(snib_left_ms(lease), <, 20000);
    give(&lease);
    snib_close(client);
}

static bool with_ttl_per_lock(void)
{
    return with_leases() && (engine_traits() & SNIB_TRAIT_TTL_PER_LOCK) != 0;
}

TEST_WHEN(a_lease_may_be_renewed_with_another_ttl, with_ttl_per_lock)
{
    snib *client = client_here();
    snib_options options = trying(SNIB_EXCLUSIVE);
    options.ttl_ms = 5000;
    snib_lease *lease = take(client, "report", &options);
    CHECK_INT(snib_ttl_ms(lease), ==, 5000);
    renew(lease, 40000);
    CHECK_INT(snib_ttl_ms(lease), ==, 40000);
    CHECK_INT(snib_left_ms(lease), >, 20000);
    struct sights sights;
    look(client, "report", &sights);
    CHECK_UINT(sights.count, ==, 1);
    CHECK_INT(sights.all[0].left_ms, >, 20000); /* the engine knows it too */
    renew(lease, 0);
    CHECK_INT(snib_ttl_ms(lease), ==, 40000);
    renew(lease, 5000);
    CHECK_INT(snib_ttl_ms(lease), ==, 5000);
    CHECK_INT(snib_left_ms(lease), <, 5000);
    give(&lease);
    snib_close(client);
}

TEST_WHEN(without_renewal_another_ttl_is_the_one_that_begins_anew, with_ttl_per_lock)
{
    snib *client = client_at(place_with(SHORT_TTL));
    snib_options options = by_hand(NULL);
    snib_lease *lease = take(client, "report", &options);
    CHECK_INT(snib_left_ms(lease), <, SHORT_TTL_MS);
    renew(lease, 20000);
    CHECK_INT(snib_left_ms(lease), >, 10000);
    check_sleep_ms(SHORT_TTL_MS);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    snib_close(client);
}

TEST(a_ttl_out_of_range_renews_nothing)
{
    static const int64_t bad[] = {-1, 1, 99, 60001, INT64_MIN, INT64_MAX};
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    int64_t ttl_ms = snib_ttl_ms(lease);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_INT(not_renewed(lease, bad[i]), ==, SNIB_EINVAL);
    }
    CHECK_INT(snib_renew(NULL, 0, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_ttl_ms(lease), ==, ttl_ms);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    snib_close(client);
}

static bool without_leases(void)
{
    return !with_leases();
}

TEST_WHEN(without_a_lease_a_renewal_verifies, without_leases)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    CHECK_INT(snib_ttl_ms(lease), ==, 0);
    renew(lease, 0);
    renew(lease, 5000);
    CHECK_INT(snib_left_ms(lease), ==, SNIB_FOREVER);
    CHECK_INT(snib_ttl_ms(lease), ==, 0);
    give(&lease);
    snib_close(client);
}

TEST(a_lost_lease_is_not_renewed)
{
    static struct diary diary;
    snib *client = client_here();
    snib_options options = by_hand(&diary);
    options.max_hold_ms = brief_hold_ms();
    snib_lease *lease = take(client, "report", &options);
    check_flag_wait(&diary.seen[SNIB_LOST], PATIENCE_MS);
    CHECK_INT(not_renewed(lease, 0), ==, SNIB_ELOST);
    if (with_ttl_per_lock() || !with_leases()) {
        CHECK_INT(not_renewed(lease, 5000), ==, SNIB_ELOST);
    }
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    must_be_free(client, "report");
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
}

TEST(the_lease_of_a_closed_client_is_not_renewed)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    snib_close(client);
    CHECK_INT(not_renewed(lease, 0), ==, SNIB_ESTATE);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_ESTATE);
    give(&lease);
}

/* Renews until that fails; answers after how long. */
static int64_t renewed_for_ms(const snib_options *options)
{
    snib *client = client_at(place_with(HAND_TTL));
    int64_t start = check_now_ns();
    snib_lease *lease = take(client, "report", options);
    int code = SNIB_OK;
    while (code == SNIB_OK && elapsed_ms(start) < check_ms(PATIENCE_MS)) {
        check_sleep_ms(STEP_MS / 2);
        code = snib_renew(lease, 0, NULL);
    }
    int64_t lasted_ms = elapsed_ms(start);
    CHECK_INT(code, ==, SNIB_ELOST);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    must_be_free(client, "report");
    snib_close(client);
    return lasted_ms;
}

static void must_end_after(int64_t max_hold_ms, unsigned flags)
{
    snib_options options = trying(SNIB_EXCLUSIVE);
    options.max_hold_ms = max_hold_ms;
    options.flags = flags;
    int64_t lasted_ms = renewed_for_ms(&options);
    CHECK_INT(lasted_ms, >=, max_hold_ms);
    CHECK_INT(lasted_ms, <, max_hold_ms + check_ms(5000));
}

TEST(a_maximum_of_the_users_own_is_not_moved_by_a_renewal)
{
    must_end_after(700, 0);
    must_end_after(700, SNIB_NO_RENEW);
}

TEST(a_maximum_of_the_users_own_beyond_the_ttl_ends_what_is_renewed_by_hand)
{
    must_end_after(TTL_MS + 1000, SNIB_NO_RENEW);
}

TEST_WHEN(the_ttl_of_a_lease_is_what_the_engine_granted, with_leases)
{
    snib *client = client_at(place_with("ttl=7s"));
    snib_lease *lease = take(client, "report", NULL);
    CHECK_INT(snib_ttl_ms(lease), ==, 7000);
    CHECK_INT(snib_ttl_ms(NULL), ==, 0);
    give(&lease);
    snib_close(client);
}
