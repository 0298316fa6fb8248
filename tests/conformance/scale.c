/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Very many of a thing: twenty thousand, or as many as the engine's row says. What is done to each
 * of them takes no longer because there are many.
 *
 * The bounds are loose. Work that grew with the square of the number would miss them by far.
 */
#include "crowd.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define MANY engine_many()

enum { MOST_MS = 20000 };

TEST_LIMIT(very_many_waits_are_cancelled_one_by_one, 90)
{
    snib *holder = client_here();
    snib_lease *lease = take(holder, "report", NULL);
    struct crowd *crowd = crowd_new(MANY, false);
    snib_options forever = SNIB_OPTIONS;
    int64_t start = check_now_ns();
    for (int i = 0; i < MANY; i++) {
        crowd_submit(crowd, i, "report", &forever);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(snib_cancel(crowd->client, crowd->members[i].ticket), ==, SNIB_OK);
    }
    crowd_await(crowd, MANY);
    CHECK_INT(elapsed_ms(start), <, check_ms(MOST_MS));
    CHECK_INT(crowd_count(crowd, SNIB_ECANCELED), ==, MANY);
    crowd_end(crowd);
    give(&lease);
    must_be_free(holder, "report");
    snib_close(holder);
}

/* Milliseconds for closing a client that holds so many leases of one name. */
static int64_t close_with_entries(int count)
{
    static const char owner;
    snib_lease **leases = calloc((size_t)count, sizeof *leases);
    CHECK(leases != NULL);
    snib *client = client_here();
    snib_options mine = owned(&owner, SNIB_EXCLUSIVE);
    for (int i = 0; i < count; i++) {
        CHECK_INT(snib_acquire(&leases[i], client, "report", &mine, NULL), ==, SNIB_OK);
    }
    int64_t start = check_now_ns();
    snib_close(client);
    for (int i = 0; i < count; i++) {
        CHECK_INT(snib_release(&leases[i], NULL), ==, SNIB_OK);
    }
    int64_t took_ms = elapsed_ms(start);
    free(leases);
    return took_ms;
}

TEST_LIMIT(a_client_closes_with_very_many_leases_of_one_name, 90)
{
    CHECK_INT(close_with_entries(MANY), <, check_ms(MOST_MS));
    snib *client = client_here();
    must_be_free(client, "report");
    snib_close(client);
}

/* Where each name needs a descriptor, a file and a page of the disk, a tenth must do. */
static int how_many(void)
{
    struct rlimit limit;
    if (!on_file()) {
        return MANY;
    }
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    return MANY / 10;
}

TEST_LIMIT(a_client_closes_with_very_many_names_held, 90)
{
    int count = how_many();
    snib *client = client_at(place_with("timeout=60s")); /* what closing may take */
    snib_lease **leases = calloc((size_t)count, sizeof *leases);
    char name[24];
    CHECK(leases != NULL);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "job/%d", i);
        CHECK_INT(snib_acquire(&leases[i], client, name, NULL, NULL), ==, SNIB_OK);
    }
    int64_t start = check_now_ns();
    snib_close(client);
    CHECK_INT(elapsed_ms(start), <, check_ms(MOST_MS));
    snib *other = client_here();
    for (int i = 0; i < count; i += count / 20) {
        snprintf(name, sizeof name, "job/%d", i);
        must_be_free(other, name);
    }
    for (int i = 0; i < count; i++) {
        CHECK_INT(snib_state(leases[i]), ==, SNIB_RELEASED);
        CHECK_INT(snib_release(&leases[i], NULL), ==, SNIB_OK);
    }
    snib_close(other);
    free(leases);
}
