/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening, closing and forking: what a client leaves behind, and what a child may not do.
 */
#include "crowd.h"

#include <sys/wait.h>
#include <unistd.h>

/* ---- Open ------------------------------------------------------------------------------- */

TEST(a_bad_url_is_refused_and_named)
{
    static const char *const bad[] = {"", "nonsense", "nonsense://host/", "://", "file"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char garbage;
        snib *client = (snib *)&garbage;
        snib_error error = {0};
        CHECK_INT(snib_open(&client, bad[i], &error), ==, SNIB_EINVAL);
        CHECK(client == NULL);
        CHECK(error.message[0] != '\0');
    }
    snib *client;
    snib_error error = {0};
    CHECK_INT(snib_open(&client, place_with("no-such-thing=1"), &error), ==, SNIB_EINVAL);
    CHECK(strstr(error.message, "no-such-thing") != NULL);
    CHECK_INT(snib_open(&client, place_with("ttl=soon"), &error), ==, SNIB_EINVAL);
    CHECK(strstr(error.message, "ttl") != NULL);
    CHECK_INT(snib_open(&client, place_with("ttl=2h"), &error), ==, SNIB_EINVAL);
    CHECK_INT(snib_open(&client, place_with("no-such-thing=1"), NULL), ==, SNIB_EINVAL);
}

TEST(a_client_says_which_url_it_uses)
{
    snib *client = client_here();
    CHECK(snib_url(client) != NULL);
    CHECK(strstr(snib_url(client), ":") != NULL);
    snib *again = client_at(snib_url(client)); /* and it is one that can be opened */
    snib_lease *lease = take(client, "report", NULL);
    must_be_held(again, "report");
    give(&lease);
    snib_close(again);
    snib_close(client);
}

TEST(opening_and_closing_leaves_nothing_behind)
{
    snib_close(NULL);
    snib_close(client_here());
    int threads = own_threads();
    int descriptors = check_fd_count();
    for (int i = 0; i < 50; i++) {
        snib *client = client_here();
        if (i % 2 == 0) {
            snib_options options = SNIB_OPTIONS;
            options.max_hold_ms = 60000; /* somebody must time it */
            snib_lease *lease = take(client, "report", &options);
            CHECK_INT(snib_fd(lease), >=, 0);
            give(&lease);
        }
        snib_close(client);
    }
    CHECK(at_most_threads(threads));
    CHECK_INT(check_fd_count(), ==, descriptors);
}

/* ---- Close ------------------------------------------------------------------------------ */

TEST(closing_gives_back_what_is_held)
{
    struct actor *next = actors_new(1);
    actor_prepare(next, "report", "next");
    actor_spawn(next);
    snib *client = client_here();
    static const char owner;
    snib_options mine = owned(&owner, SNIB_EXCLUSIVE);
    snib_lease *leases[2] = {take(client, "report", &mine), take(client, "report", &mine)};
    uint64_t token = snib_token(leases[0]);
    actor_go_and_wait(next);
    snib_close(client);
    actor_must_hold(next);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(snib_state(leases[i]), ==, SNIB_RELEASED);
        CHECK_INT(snib_left_ms(leases[i]), <=, 0);
        CHECK_UINT(snib_token(leases[i]), ==, token);
        CHECK_STR(snib_name(leases[i]), "report");
        CHECK_INT(snib_verify(leases[i], NULL), <, 0);
        give(&leases[i]);
    }
    CHECK(!check_flag_is_set(&next->over));
    actor_let_go(next);
    CHECK_INT(atomic_load(&next->release_code), ==, SNIB_OK);
    actor_join(next);
}

TEST(closing_ends_the_waits_of_other_threads)
{
    enum { WAITERS = 4 };
    struct actor *actors = actors_new(WAITERS);
    snib *holder = client_here();
    snib *client = client_here();
    snib_lease *lease = take(holder, "report", NULL);
    for (int i = 0; i < WAITERS; i++) {
        actor_prepare(&actors[i], i % 2 == 0 ? "report" : "other", "waiter");
        actors[i].options.wait_ms = i < 2 ? -1 : check_ms(4 * PATIENCE_MS);
    }
    snib_lease *other = take(holder, "other", NULL);
    for (int i = 0; i < 2; i++) {
        actor_thread(&actors[i], client);
        actor_go_and_wait(&actors[i]);
    }
    for (int i = 2; i < WAITERS; i++) { /* behind those, in the process's own line */
        actor_thread(&actors[i], client);
        actor_go(&actors[i]);
        actor_await(&actors[i], &actors[i].asking);
        while (thread_state(atomic_load(&actors[i].tid)) != 'S') {
            check_sleep_ms(1);
        }
    }
    snib_close(client);
    for (int i = 0; i < WAITERS; i++) {
        actor_await(&actors[i], &actors[i].settled);
        CHECK_INT(atomic_load(&actors[i].code), ==, SNIB_ECANCELED);
        actor_join(&actors[i]);
    }
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    give(&other);
    await_nobody(holder, "report");
    await_nobody(holder, "other");
    snib_close(holder);
}

static void close_with_pending(bool events)
{
    enum { PENDING = 100 };
    snib *holder = client_here();
    snib_lease *lease = take(holder, "report", NULL);
    snib_options forever = SNIB_OPTIONS;
    struct crowd *crowd = crowd_new(PENDING, events);
    for (int i = 0; i < PENDING; i++) {
        crowd_submit(crowd, i, "report", &forever);
    }
    snib_close(crowd->client); /* not crowd_end: the answers are in question */
    CHECK_INT(atomic_load(&crowd->answered), ==, PENDING);
    CHECK_INT(crowd_count(crowd, SNIB_ECANCELED), ==, PENDING);
    crowd->client = NULL;
    crowd_end(crowd);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    await_nobody(holder, "report");
    snib_close(holder);
}

TEST(closing_answers_what_is_pending_exactly_once)
{
    close_with_pending(false);
}

TEST(closing_answers_what_is_pending_exactly_once_with_dispatch)
{
    close_with_pending(true);
}

/* ---- Close from inside of a callback ---------------------------------------------------- */

struct closing {
    snib *client;
    struct check_flag closed;
};

static void close_in_done(snib_lease *lease, const snib_error *err, void *arg)
{
    struct closing *closing = arg;
    (void)err;
    CHECK(lease != NULL);
    snib_close(closing->client);
    CHECK_INT(snib_state(lease), ==, SNIB_RELEASED);
    give(&lease);
    check_flag_set(&closing->closed);
}

static void close_in_event(const snib_event *event, void *arg)
{
    struct closing *closing = arg;
    if (event->state == SNIB_LOST) {
        snib_close(closing->client);
        check_flag_set(&closing->closed);
    }
}

TEST(a_callback_may_close_the_client)
{
    static struct closing closing;
    snib_ticket ticket;
    closing.client = client_here();
    CHECK_INT(
        snib_acquire_async(&ticket, closing.client, "report", NULL, close_in_done, &closing, NULL),
        ==, SNIB_OK);
    check_flag_wait(&closing.closed, PATIENCE_MS);
    snib *client = client_here();
    must_be_free(client, "report");
    snib_close(client);
}

TEST(a_callback_in_dispatch_may_close_the_client)
{
    static struct closing closing;
    snib_ticket ticket;
    int fd;
    closing.client = client_here();
    CHECK_INT(snib_events(closing.client, &fd, NULL), ==, SNIB_OK);
    CHECK_INT(
        snib_acquire_async(&ticket, closing.client, "report", NULL, close_in_done, &closing, NULL),
        ==, SNIB_OK);
    CHECK(readable(fd, PATIENCE_MS));
    CHECK_INT(snib_dispatch(closing.client, 0), >=, 1);
    CHECK(check_flag_is_set(&closing.closed));
    snib *client = client_here();
    must_be_free(client, "report");
    snib_close(client);
}

TEST(an_event_may_close_the_client)
{
    static struct closing closing;
    closing.client = client_here();
    snib_options options = SNIB_OPTIONS;
    options.max_hold_ms = brief_hold_ms();
    options.on_event = close_in_event;
    options.arg = &closing;
    snib_lease *lease = take(closing.client, "report", &options);
    check_flag_wait(&closing.closed, PATIENCE_MS);
    CHECK_INT(snib_state(lease), ==, SNIB_LOST); /* sticky: it was lost before the close */
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
}

/* ---- Release ---------------------------------------------------------------------------- */

TEST(releasing_nothing_is_fine)
{
    snib_lease *none = NULL;
    snib_error error = {0};
    CHECK_INT(snib_release(&none, &error), ==, SNIB_OK);
    CHECK_INT(snib_release(&none, NULL), ==, SNIB_OK);
}

TEST(a_release_that_does_not_wait_frees_the_lock_all_the_same)
{
    struct actor *next = actors_new(1);
    actor_prepare(next, "report", "next");
    actor_spawn(next);
    snib *client = client_here();
    snib_options options = trying(SNIB_EXCLUSIVE);
    options.flags = SNIB_ASYNC_RELEASE;
    snib_lease *lease = take(client, "report", &options);
    uint64_t token = snib_token(lease);
    actor_go_and_wait(next);
    give(&lease);
    actor_must_hold(next);
    CHECK_UINT(atomic_load(&next->token), >, token);
    actor_let_go(next);
    lease = take(client, "report", NULL);
    give(&lease);
    actor_join(next);
    snib_close(client);
}
