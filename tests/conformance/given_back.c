/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a dead process, given back by its handle long before its ttl is over.
 */
#include "conformance.h"

#include <stdio.h>
#include <unistd.h>

/* A lease that ends by itself only after the case is over. */
#define LONG_TTL "ttl=60s"

static bool with_handles(void)
{
    return !on_file();
}

static int not_given_back(snib *client, const char *handle)
{
    snib_error error = {0};
    int code = snib_give_back(client, handle, &error);
    CHECK_INT(code, <, 0);
    CHECK_INT(error.code, ==, code);
    CHECK(error.message[0] != '\0');
    return code;
}

/* Is the lock still there when its process is gone? */
static bool with_remains(void)
{
    return with_handles() && (engine_traits() & SNIB_TRAIT_AT_ONCE) == 0;
}

static bool without_remains(void)
{
    return with_handles() && !with_remains();
}

struct doomed {
    char name[201];
    int mode;
    unsigned permits;
    struct check_flag held;
    char handle[SNIB_HANDLE_SIZE];
};

/* Holds until it is killed. */
static void hold_and_die(void *arg)
{
    struct doomed *doomed = arg;
    snib *client = client_at(place_with(LONG_TTL));
    snib_options options = trying(doomed->mode);
    snib_error error = {0};
    options.permits = doomed->permits;
    snib_lease *lease = take(client, doomed->name, &options);
    CHECK_OK(snib_handle(lease, doomed->handle, sizeof doomed->handle, &error), error.message);
    check_flag_set(&doomed->held);
    for (;;) {
        pause();
    }
}

static struct doomed *kill_a_holder(const char *name, int mode, unsigned permits)
{
    struct doomed *doomed = check_shared(sizeof *doomed);
    (void)place();
    snprintf(doomed->name, sizeof doomed->name, "%s", name);
    doomed->mode = mode;
    doomed->permits = permits;
    pid_t pid = check_spawn(hold_and_die, doomed);
    check_flag_wait(&doomed->held, PATIENCE_MS);
    check_kill(pid);
    return doomed;
}

static void give_back_of_the_dead(const char *name, int mode, unsigned permits)
{
    struct doomed *doomed = kill_a_holder(name, mode, permits);
    snib *client = client_at(place_with(LONG_TTL));
    snib_error error = {0};
    must_be_held(client, name);
    int64_t start = check_now_ns();
    CHECK_OK(snib_give_back(client, doomed->handle, &error), error.message);
    must_be_free(client, name);
    CHECK_INT(elapsed_ms(start), <, check_ms(PATIENCE_MS)); /* of 60 s */
    CHECK_INT(not_given_back(client, doomed->handle), ==, SNIB_ELOST);
    await_nobody(client, name);
    snib_close(client);
}

TEST_WHEN(the_lock_of_a_killed_process_is_given_back_by_its_handle, with_remains)
{
    give_back_of_the_dead("report", SNIB_EXCLUSIVE, 1);
}

TEST_WHEN(a_name_that_begins_with_a_space_is_given_back_too, with_remains)
{
    give_back_of_the_dead("  report of 3 words", SNIB_EXCLUSIVE, 1);
}

static bool with_shared_handles(void)
{
    return with_remains() && with_shared();
}

TEST_WHEN(the_share_of_a_killed_reader_is_given_back_by_its_handle, with_shared_handles)
{
    give_back_of_the_dead("map", SNIB_SHARED, 1);
}

static bool with_counted_handles(void)
{
    return with_remains() && with_counted();
}

TEST_WHEN(the_permit_of_a_killed_holder_is_given_back_by_its_handle, with_counted_handles)
{
    struct doomed *doomed = kill_a_holder("pool", SNIB_COUNTED, 2);
    snib *client = client_at(place_with(LONG_TTL));
    snib_options options = counted(2, 0);
    snib_lease *one = take(client, "pool", &options);
    CHECK_INT(refused(client, "pool", &options, NULL), ==, SNIB_EBUSY);
    snib_error error = {0};
    CHECK_OK(snib_give_back(client, doomed->handle, &error), error.message);
    options.wait_ms = check_ms(PATIENCE_MS);
    snib_lease *two = take(client, "pool", &options);
    CHECK_INT(snib_verify(one, NULL), ==, SNIB_OK);
    give(&one);
    give(&two);
    snib_close(client);
}

TEST_WHEN(who_waits_behind_the_dead_is_served_when_it_is_given_back, with_remains)
{
    struct actor *next = actors_new(1);
    actor_prepare(next, "report", "next");
    actor_spawn(next);
    struct doomed *doomed = kill_a_holder("report", SNIB_EXCLUSIVE, 1);
    actor_go_and_wait(next);
    snib *client = client_at(place_with(LONG_TTL));
    snib_error error = {0};
    CHECK_OK(snib_give_back(client, doomed->handle, &error), error.message);
    actor_must_hold(next);
    CHECK_INT(not_given_back(client, doomed->handle), ==, SNIB_ELOST);
    actor_let_go(next);
    CHECK_INT(atomic_load(&next->release_code), ==, SNIB_OK);
    actor_join(next);
    snib_close(client);
}

TEST_WHEN(the_handle_of_a_lock_that_ended_with_its_process_says_so, without_remains)
{
    struct doomed *doomed = kill_a_holder("report", SNIB_EXCLUSIVE, 1);
    snib *client = client_at(place_with(LONG_TTL));
    snib_lease *lease = take(client, "report", NULL);
    CHECK_INT(not_given_back(client, doomed->handle), ==, SNIB_ELOST);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    snib_close(client);
}

TEST_WHEN(an_old_handle_never_touches_a_later_holder, with_handles)
{
    char handle[SNIB_HANDLE_SIZE];
    snib *client = client_here();
    snib *other = client_here();
    snib_lease *lease = take(client, "report", NULL);
    CHECK_INT(snib_handle(lease, handle, sizeof handle, NULL), ==, SNIB_OK);
    give(&lease);
    CHECK_INT(not_given_back(other, handle), ==, SNIB_ELOST); /* of nobody's */
    lease = take(client, "report", NULL);
    CHECK_INT(not_given_back(other, handle), ==, SNIB_ELOST);
    CHECK_INT(not_given_back(client, handle), ==, SNIB_ELOST);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    must_be_held(other, "report");
    give(&lease);
    snib_close(other);
    snib_close(client);
}
