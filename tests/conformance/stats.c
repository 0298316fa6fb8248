/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a service exports about its locks: every number after a known sequence.
 */
#include "crowd.h"

static snib_stats read_stats(snib *client)
{
    snib_stats stats = {.size = sizeof stats};
    CHECK_INT(snib_stats_read(client, &stats), ==, SNIB_OK);
    CHECK_UINT(stats.size, ==, sizeof stats);
    return stats;
}

static bool has_one_claim(void *client)
{
    return read_stats(client).held == 1;
}

TEST(a_new_client_has_counted_nothing)
{
    snib *client = client_here();
    snib_stats none = {.size = sizeof none};
    snib_stats stats = read_stats(client);
    CHECK(memcmp(&stats, &none, sizeof stats) == 0);
    snib_close(client);
}

TEST(the_counters_tell_what_has_happened)
{
    static const char owner;
    snib *client = client_here();
    snib *other = client_here();
    snib_options mine = owned(&owner, SNIB_EXCLUSIVE);
    snib_options at_once = trying(SNIB_EXCLUSIVE);
    snib_lease *first = take(client, "report", &mine);
    snib_lease *again = take(client, "report", &mine);
    snib_lease *foreign = take(other, "other", NULL);
    CHECK_INT(refused(client, "other", &at_once, NULL), ==, SNIB_EBUSY);
    at_once.mode = SNIB_SHARED;
    at_once.owner = &owner;
    snib_options counted_mine = counted(3, 0);
    counted_mine.owner = &owner;
    CHECK_INT(refused(client, "report", &counted_mine, NULL), ==,
              with_counted() ? SNIB_EKIND : SNIB_ENOTSUP);

    snib_stats stats = read_stats(client);
    CHECK_UINT(stats.acquired, ==, 2);
    CHECK_UINT(stats.busy, ==, 1);
    CHECK_UINT(stats.failed, ==, with_counted() ? 1 : 0); /* else it was never asked for */
    CHECK_UINT(stats.lost, ==, 0);
    CHECK(check_until(has_one_claim, client, PATIENCE_MS)); /* two leases; the refused one leaves */
    CHECK_UINT(stats.waiting, ==, 0);
    CHECK_UINT(stats.reconnects, ==, 0);
    give(&first);
    give(&again);
    give(&foreign);
    CHECK_UINT(read_stats(client).held, ==, 0);
    CHECK_UINT(read_stats(client).acquired, ==, 2); /* counters never go back */
    snib_close(other);
    snib_close(client);
}

TEST(waits_are_counted_and_timed)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_options brief = SNIB_OPTIONS;
    brief.wait_ms = brief_ms();
    snib_lease *foreign = take(other, "report", NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(refused(client, "report", &brief, NULL), ==, SNIB_EBUSY);
    }
    snib_stats stats = read_stats(client);
    CHECK_UINT(stats.busy, ==, 2);
    CHECK_UINT(stats.waited, ==, 2);
    CHECK_UINT(stats.wait_us, >=, 2 * (uint64_t)brief_ms() * 1000);
    CHECK_UINT(stats.wait_us, <, (uint64_t)check_ms(PATIENCE_MS) * 1000);
    give(&foreign);
    snib_close(other);
    snib_close(client);
}

TEST(those_who_wait_now_are_counted_until_they_have_their_answer)
{
    enum { WAITERS = 7 };
    snib *holder = client_here();
    snib_lease *lease = take(holder, "report", NULL);
    snib_options forever = SNIB_OPTIONS;
    struct crowd *crowd = crowd_new(WAITERS, false);
    for (int i = 0; i < WAITERS; i++) {
        crowd_submit(crowd, i, "report", &forever);
    }
    CHECK_UINT(read_stats(crowd->client).waiting, ==, WAITERS);
    CHECK_INT(snib_cancel(crowd->client, crowd->members[3].ticket), ==, SNIB_OK);
    CHECK_UINT(read_stats(crowd->client).waiting, ==, WAITERS - 1);
    CHECK_UINT(read_stats(crowd->client).failed, ==, 1);
    give(&lease);
    crowd_await(crowd, WAITERS);
    snib_stats stats = read_stats(crowd->client);
    CHECK_UINT(stats.waiting, ==, 0);
    CHECK_UINT(stats.acquired, ==, WAITERS - 1);
    CHECK_UINT(stats.waited, >=, WAITERS - 1); /* the first may have come just in time */
    crowd_end(crowd);
    snib_close(holder);
}

TEST(losses_are_counted)
{
    static struct diary diary;
    snib *client = client_here();
    snib_options options = trying(SNIB_EXCLUSIVE);
    options.max_hold_ms = brief_hold_ms();
    options.on_event = diary_note;
    options.arg = &diary;
    snib_lease *lease = take(client, "report", &options);
    check_flag_wait(&diary.seen[SNIB_LOST], PATIENCE_MS);
    CHECK_UINT(read_stats(client).lost, ==, 1);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    CHECK_UINT(read_stats(client).lost, ==, 1);
    snib_close(client);
}

TEST(renewals_are_counted)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    uint64_t before = read_stats(client).renewals;
    for (int i = 0; i < 3; i++) {
        CHECK_INT(snib_renew(lease, 0, NULL), ==, SNIB_OK);
    }
    CHECK_UINT(read_stats(client).renewals, >=, before + 3);
    CHECK_UINT(read_stats(client).renewals_late, ==, 0);
    give(&lease);
    snib_close(client);
}

/* A program that was built when the struct was shorter, or will be when it is longer. */
TEST(no_more_is_written_than_the_caller_has_room_for)
{
    struct {
        snib_stats stats;
        uint64_t beyond[2];
    } room;
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    memset(&room, 0x5a, sizeof room);
    room.stats.size = offsetof(snib_stats, busy);
    CHECK_INT(snib_stats_read(client, &room.stats), ==, SNIB_OK);
    CHECK_UINT(room.stats.size, ==, offsetof(snib_stats, busy));
    CHECK_UINT(room.stats.acquired, ==, 1);
    CHECK_UINT(room.stats.busy, ==, UINT64_C(0x5a5a5a5a5a5a5a5a));
    room.stats.size = sizeof room;
    CHECK_INT(snib_stats_read(client, &room.stats), ==, SNIB_OK);
    CHECK_UINT(room.stats.size, ==, sizeof room.stats);
    CHECK_UINT(room.beyond[0], ==, UINT64_C(0x5a5a5a5a5a5a5a5a));
    give(&lease);
    snib_close(client);
}

TEST(without_room_for_numbers_there_are_none)
{
    snib *client = client_here();
    snib_stats stats = {.size = 0};
    CHECK_INT(snib_stats_read(client, &stats), ==, SNIB_EINVAL);
    stats.size = sizeof stats.size - 1;
    CHECK_INT(snib_stats_read(client, &stats), ==, SNIB_EINVAL);
    CHECK_INT(snib_stats_read(client, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_stats_read(NULL, &stats), ==, SNIB_EINVAL);
    snib_close(client);
}
