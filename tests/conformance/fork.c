/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fork: in the child every call answers ESTATE, and nothing the child does harms the parent.
 *
 * Not here: the kernel locks of `file:` that a silent child keeps alive, which are that
 * engine's own test.
 */
#include "conformance.h"

#include <unistd.h>

struct inherited {
    snib *client;
    snib_lease *lease;
    snib_lease *second;
    snib_lease *third;
    snib_ticket ticket;
};

static int never_seen(const snib_seen *seen, void *arg)
{
    (void)arg;
    FAIL("a child sees %s", seen->name);
}

static void never_done(snib_lease *lease, const snib_error *err, void *arg)
{
    (void)lease;
    (void)err;
    (void)arg;
    FAIL("a child is called back");
}

static void never_all_done(snib_lease *const leases[], size_t n, const snib_error *err, void *arg)
{
    (void)leases;
    (void)n;
    never_done(NULL, err, arg);
}

static void never_released(int code, const snib_error *err, void *arg)
{
    (void)code;
    never_done(NULL, err, arg);
}

static int never_found(const snib_finding *finding, void *arg)
{
    (void)arg;
    FAIL("a child finds %s", finding->text);
}

static void try_newer_calls(struct inherited *had)
{
    static const char *const names[] = {"one", "two"};
    char handle[SNIB_HANDLE_SIZE];
    snib_ticket ticket;
    snib_stats stats = {.size = sizeof stats};
    CHECK_INT(
        snib_acquire_all_async(&ticket, had->client, names, 2, NULL, never_all_done, NULL, NULL),
        ==, SNIB_ESTATE);
    CHECK_INT(snib_renew(had->lease, 0, NULL), ==, SNIB_ESTATE);
    CHECK_INT(snib_ttl_ms(had->lease), ==, 0);
    CHECK_INT(snib_handle(had->lease, handle, sizeof handle, NULL), ==, SNIB_ESTATE);
    CHECK_INT(snib_give_back(had->client, "snib1 0 1 00112233445566778899aabbccddeeff x", NULL), ==,
              SNIB_ESTATE);
    CHECK_INT(snib_examine(had->client, never_found, NULL, NULL), ==, SNIB_ESTATE);
    CHECK_INT(snib_stats_read(had->client, &stats), ==, SNIB_ESTATE);
    CHECK_INT(snib_release_async(&had->third, never_released, NULL, NULL), ==, SNIB_ESTATE);
    CHECK(had->third == NULL);
}

static void try_every_call(void *arg)
{
    struct inherited *had = arg;
    static const char *const names[] = {"one", "two"};
    snib_lease *out[2];
    snib_ticket ticket;
    snib_error error;
    int fd;
    CHECK_INT(refused(had->client, "other", NULL, &error), ==, SNIB_ESTATE);
    CHECK_INT(snib_acquire_all(out, had->client, names, 2, NULL, NULL), ==, SNIB_ESTATE);
    CHECK(out[0] == NULL && out[1] == NULL);
    CHECK_INT(snib_acquire_async(&ticket, had->client, "other", NULL, never_done, NULL, NULL), ==,
              SNIB_ESTATE);
    CHECK_INT(snib_cancel(had->client, had->ticket), ==, SNIB_ESTATE);
    CHECK_INT(snib_events(had->client, &fd, NULL), ==, SNIB_ESTATE);
    CHECK_INT(snib_dispatch(had->client, 0), ==, SNIB_ESTATE);
    CHECK_INT(snib_inspect(had->client, "report", never_seen, NULL, NULL), ==, SNIB_ESTATE);
    CHECK_INT(snib_list(had->client, "", never_seen, NULL, NULL), ==, SNIB_ESTATE);
    CHECK_INT(snib_break(had->client, "report", 1, NULL), ==, SNIB_ESTATE);
    CHECK_INT(snib_verify(had->lease, NULL), ==, SNIB_ESTATE);
    CHECK_INT(snib_fd(had->lease), ==, SNIB_ESTATE);
    try_newer_calls(had);
    CHECK_INT(snib_release(&had->lease, &error), ==, SNIB_ESTATE);
    CHECK(had->lease == NULL);
    snib_close(had->client);
    CHECK_INT(snib_release(&had->second, NULL), ==, SNIB_ESTATE); /* also after the close */
}

static void only_close(void *arg)
{
    struct inherited *had = arg;
    snib_close(had->client);
}

static void only_release(void *arg)
{
    struct inherited *had = arg;
    CHECK_INT(snib_release(&had->lease, NULL), ==, SNIB_ESTATE);
}

static void do_nothing(void *arg)
{
    (void)arg;
}

static void be_cancelled(snib_lease *lease, const snib_error *err, void *arg)
{
    CHECK(lease == NULL && err->code == SNIB_ECANCELED);
    check_flag_set(arg);
}

/* The parent holds one lock, waits for another and goes on as if there had been no child. */
static void fork_and(void (*child)(void *))
{
    static struct check_flag cancelled;
    struct actor *other = actors_new(1);
    actor_prepare(other, "busy", "other");
    actor_spawn(other);
    actor_go_and_hold(other);
    static struct inherited had;
    had.client = client_here();
    snib_options options = SNIB_OPTIONS;
    options.max_hold_ms = 600000; /* so that the keeper has something to do */
    had.lease = take(had.client, "report", &options);
    had.second = take(had.client, "second", NULL);
    had.third = take(had.client, "third", NULL);
    CHECK_INT(
        snib_acquire_async(&had.ticket, had.client, "busy", NULL, be_cancelled, &cancelled, NULL),
        ==, SNIB_OK);
    uint64_t token = snib_token(had.lease);

    check_join(check_spawn(child, &had), PATIENCE_MS);

    CHECK_INT(snib_state(had.lease), ==, SNIB_HELD);
    CHECK_INT(snib_verify(had.lease, NULL), ==, SNIB_OK);
    CHECK_INT(snib_verify(had.second, NULL), ==, SNIB_OK);
    CHECK_INT(snib_verify(had.third, NULL), ==, SNIB_OK);
    snib *client = client_here();
    must_be_held(client, "report");
    must_be_held(client, "second");
    CHECK_INT(snib_cancel(had.client, had.ticket), ==, SNIB_OK);
    check_flag_wait(&cancelled, PATIENCE_MS);
    give(&had.lease);
    give(&had.second);
    give(&had.third);
    CHECK_UINT(must_be_free(client, "report"), >, token);
    must_be_free(had.client, "report");
    snib_close(had.client);
    snib_close(client);
    actor_join(other);
}

TEST(every_call_in_a_child_answers_that_it_is_the_wrong_process)
{
    fork_and(try_every_call);
}

TEST(a_child_that_closes_the_client_does_not_free_the_lock)
{
    fork_and(only_close);
}

TEST(a_child_that_releases_the_lease_does_not_free_the_lock)
{
    fork_and(only_release);
}

TEST(a_child_that_just_ends_does_not_free_the_lock)
{
    fork_and(do_nothing);
}

/* ---- A child with a client of its own --------------------------------------------------- */

static void contend(void *arg)
{
    snib *inherited = arg;
    snib_close(inherited);
    snib *client = client_here();
    must_be_held(client, "report");
    must_be_free(client, "other");
    snib_close(client);
}

/* A client with leases starts a thread, and the thread sanitizer cannot start one in a child that
 * was forked from a process with threads. */
static bool may_start_threads_in_a_child(void)
{
#ifdef __SANITIZE_THREAD__
    return !with_leases();
#else
    return true;
#endif
}

TEST_WHEN(a_child_with_a_client_of_its_own_contends_like_anybody, may_start_threads_in_a_child)
{
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    check_join(check_spawn(contend, client), PATIENCE_MS);
    give(&lease);
    snib_close(client);
}
