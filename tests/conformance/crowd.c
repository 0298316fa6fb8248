/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many asynchronous acquires of one client: see crowd.h.
 */
#include "crowd.h"

#include <stdio.h>
#include <stdlib.h>

static void member_done(snib_lease *lease, const snib_error *err, void *arg)
{
    struct member *member = arg;
    struct crowd *crowd = member->crowd;
    CHECK_INT(atomic_fetch_add(&crowd->inside, 1), ==, 0);
    if (crowd->fd >= 0) {
        CHECK(pthread_equal(pthread_self(), crowd->dispatcher));
    }
    if (lease != NULL) {
        CHECK_STR(snib_name(lease), member->name);
        CHECK_INT(snib_state(lease), ==, SNIB_HELD);
        atomic_store(&member->token, snib_token(lease));
        CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    } else {
        CHECK(err != NULL && err->code < 0 && err->message[0] != '\0');
        atomic_store(&member->code, err->code);
    }
    atomic_fetch_sub(&crowd->inside, 1);
    CHECK_INT(atomic_fetch_add(&member->calls, 1), ==, 0);
    atomic_fetch_add(&crowd->answered, 1);
}

struct crowd *crowd_new(int count, bool events)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    CHECK(crowd != NULL);
    crowd->members = calloc((size_t)count, sizeof *crowd->members);
    CHECK(crowd->members != NULL);
    crowd->client = client_here();
    crowd->count = count;
    crowd->fd = -1;
    crowd->dispatcher = pthread_self();
    if (events) {
        snib_error error = {0};
        CHECK_OK(snib_events(crowd->client, &crowd->fd, &error), error.message);
        CHECK_INT(crowd->fd, >=, 0);
    }
    return crowd;
}

void crowd_submit(struct crowd *crowd, int index, const char *name, const snib_options *options)
{
    struct member *member = &crowd->members[index];
    snib_error error = {0};
    member->crowd = crowd;
    snprintf(member->name, sizeof member->name, "%s", name);
    CHECK_OK(snib_acquire_async(&member->ticket, crowd->client, name, options, member_done, member,
                                &error),
             error.message);
    CHECK_UINT(member->ticket, !=, 0);
}

struct crowd_goal {
    struct crowd *crowd;
    int answered;
};

static bool crowd_answered(void *arg)
{
    struct crowd_goal *goal = arg;
    if (goal->crowd->fd >= 0 && readable(goal->crowd->fd, 0)) {
        CHECK_INT(snib_dispatch(goal->crowd->client, 0), >=, 0);
    }
    return atomic_load(&goal->crowd->answered) >= goal->answered;
}

void crowd_await(struct crowd *crowd, int answered)
{
    struct crowd_goal goal = {.crowd = crowd, .answered = answered};
    if (!check_until(crowd_answered, &goal, 2 * PATIENCE_MS)) {
        FAIL("%d answers expected, %d came", answered, atomic_load(&crowd->answered));
    }
}

int crowd_count(const struct crowd *crowd, int code)
{
    int found = 0;
    for (int i = 0; i < crowd->count; i++) {
        CHECK_INT(atomic_load(&crowd->members[i].calls), ==, 1);
        found += atomic_load(&crowd->members[i].code) == code;
    }
    return found;
}

void crowd_end(struct crowd *crowd)
{
    snib_close(crowd->client);
    for (int i = 0; i < crowd->count; i++) {
        CHECK_INT(atomic_load(&crowd->members[i].calls), ==, 1);
    }
    CHECK_INT(atomic_load(&crowd->inside), ==, 0);
    free(crowd->members);
    free(crowd);
}
