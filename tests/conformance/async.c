/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acquires without waiting: thousands pending, no thread for each, one answer for each.
 */
#include "crowd.h"

#include <stdio.h>
#include <stdlib.h>

enum { PENDING = 1000, MANY_NAMES = 100 };

/* ---- Thousands pending ------------------------------------------------------------------ */

static void must_be_granted_in_order(const struct crowd *crowd)
{
    for (int i = 1; i < crowd->count; i++) {
        CHECK_UINT(atomic_load(&crowd->members[i].token), >,
                   atomic_load(&crowd->members[i - 1].token));
    }
}

/* Another process holds the name; all wait; then each gets it once. */
static void wait_on_one_name(bool events)
{
    struct actor *holder = actors_new(1);
    snib_options forever = SNIB_OPTIONS;
    actor_prepare(holder, "report", "holder");
    actor_spawn(holder);
    actor_go_and_hold(holder);
    int threads = own_threads();
    struct crowd *crowd = crowd_new(PENDING, events);
    for (int i = 0; i < PENDING; i++) {
        crowd_submit(crowd, i, "report", &forever);
    }
    CHECK(at_most_threads(threads + (events ? 1 : 2)));
    CHECK_INT(atomic_load(&crowd->answered), ==, 0);
    actor_let_go(holder);
    crowd_await(crowd, PENDING);
    CHECK(at_most_threads(threads + (events ? 1 : 2)));
    CHECK_INT(crowd_count(crowd, SNIB_OK), ==, PENDING);
    if (with_fairness()) {
        must_be_granted_in_order(crowd);
    }
    must_be_free(crowd->client, "report");
    crowd_end(crowd);
    actor_join(holder);
}

TEST_LIMIT(a_thousand_waits_on_one_name_need_no_thread_each, 60)
{
    wait_on_one_name(false);
}

TEST_LIMIT(a_thousand_waits_on_one_name_are_served_in_dispatch, 60)
{
    wait_on_one_name(true);
}

static void name_of(char *name, size_t size, int index)
{
    snprintf(name, size, "report %d", index % MANY_NAMES);
}

static void wait_on_many_names(bool events)
{
    snib_lease *held[MANY_NAMES];
    snib_options forever = SNIB_OPTIONS;
    char name[24];
    int threads = own_threads();
    struct crowd *crowd = crowd_new(PENDING, events);
    snib *holder = client_here();
    for (int i = 0; i < MANY_NAMES; i++) {
        name_of(name, sizeof name, i);
        held[i] = take(holder, name, NULL);
    }
    for (int i = 0; i < PENDING; i++) {
        name_of(name, sizeof name, i);
        crowd_submit(crowd, i, name, &forever);
    }
    CHECK(at_most_threads(threads + 2 * (events ? 1 : 2)));
    CHECK_INT(atomic_load(&crowd->answered), ==, 0);
    for (int i = MANY_NAMES - 1; i >= 0; i--) {
        give(&held[i]);
    }
    crowd_await(crowd, PENDING);
    CHECK_INT(crowd_count(crowd, SNIB_OK), ==, PENDING);
    for (int i = 0; i < MANY_NAMES; i++) {
        name_of(name, sizeof name, i);
        must_be_free(holder, name);
    }
    crowd_end(crowd);
    snib_close(holder);
}

TEST_LIMIT(a_thousand_waits_on_a_hundred_names_need_no_thread_each, 60)
{
    wait_on_many_names(false);
}

TEST_LIMIT(a_thousand_waits_on_a_hundred_names_are_served_in_dispatch, 60)
{
    wait_on_many_names(true);
}

/* ---- One at a time ---------------------------------------------------------------------- */

TEST(callbacks_run_only_inside_dispatch_once_events_was_called)
{
    enum { FREE_NAMES = 5 };
    char name[24];
    snib_options forever = SNIB_OPTIONS;
    int threads = own_threads();
    struct crowd *crowd = crowd_new(FREE_NAMES, true);
    CHECK(!readable(crowd->fd, 0));
    CHECK_INT(snib_dispatch(crowd->client, 0), ==, 0);
    for (int i = 0; i < FREE_NAMES; i++) {
        name_of(name, sizeof name, i);
        crowd_submit(crowd, i, name, &forever);
    }
    CHECK(readable(crowd->fd, PATIENCE_MS));
    CHECK_INT(atomic_load(&crowd->answered), ==, 0);
    CHECK(at_most_threads(threads + 1));
    while (atomic_load(&crowd->answered) < FREE_NAMES) {
        int before = atomic_load(&crowd->answered);
        CHECK(readable(crowd->fd, PATIENCE_MS));
        int ran = snib_dispatch(crowd->client, 2);
        CHECK_INT(ran, >=, 0);
        CHECK_INT(ran, <=, 2);
        CHECK_INT(atomic_load(&crowd->answered), ==, before + ran);
    }
    CHECK_INT(snib_dispatch(crowd->client, 0), ==, 0);
    CHECK(!readable(crowd->fd, 0));
    CHECK_INT(crowd_count(crowd, SNIB_OK), ==, FREE_NAMES);
    crowd_end(crowd);
}

struct slow {
    snib *client;
    atomic_int begun, ended;
    struct check_flag inside, go_on;
    snib_lease *leases[2];
};

static void be_slow(snib_lease *lease, const snib_error *err, void *arg)
{
    struct slow *slow = arg;
    (void)err;
    CHECK_INT(atomic_load(&slow->begun), ==, atomic_load(&slow->ended));
    slow->leases[atomic_fetch_add(&slow->begun, 1)] = lease;
    check_flag_set(&slow->inside);
    check_flag_wait(&slow->go_on, PATIENCE_MS);
    atomic_fetch_add(&slow->ended, 1);
}

static void *dispatch_all(void *arg)
{
    struct slow *slow = arg;
    while (atomic_load(&slow->ended) < 2) {
        CHECK_INT(snib_dispatch(slow->client, 1), >=, 0);
        check_sleep_ms(1);
    }
    return NULL;
}

TEST(callbacks_run_one_at_a_time_whoever_dispatches)
{
    static struct slow slow;
    pthread_t thread;
    snib_error error = {0};
    int fd;
    slow.client = client_here();
    CHECK_OK(snib_events(slow.client, &fd, &error), error.message);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(
            snib_acquire_async(NULL, slow.client, i ? "two" : "one", NULL, be_slow, &slow, &error),
            error.message);
    }
    CHECK(readable(fd, PATIENCE_MS));
    CHECK(pthread_create(&thread, NULL, dispatch_all, &slow) == 0);
    check_flag_wait(&slow.inside, PATIENCE_MS);
    for (int i = 0; i < 100; i++) {
        CHECK_INT(snib_dispatch(slow.client, 0), ==, 0);
        check_sleep_ms(1);
    }
    CHECK_INT(atomic_load(&slow.begun), ==, 1);
    check_flag_set(&slow.go_on);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK(slow.leases[i] != NULL);
        give(&slow.leases[i]);
    }
    snib_close(slow.client);
}

struct nested {
    snib *client;
    snib_lease *leases[2];
    atomic_int calls;
    struct check_flag inside;
    atomic_bool over;
};

/* The first one dispatches, and the second one runs inside of it. */
static void dispatch_within(const snib_event *event, void *arg)
{
    struct nested *nested = arg;
    if (event->state != SNIB_LOST) {
        return;
    }
    if (atomic_fetch_add(&nested->calls, 1) == 0) {
        nested->leases[0] = event->lease;
        while (atomic_load(&nested->calls) < 2) {
            CHECK_INT(snib_dispatch(nested->client, 1), >=, 0);
        }
        check_sleep_ms(100);
        atomic_store(&nested->over, true);
    } else {
        check_flag_set(&nested->inside);
        check_sleep_ms(200); /* time for the other thread to get it wrong */
    }
}

static void *release_first(void *arg)
{
    struct nested *nested = arg;
    check_flag_wait(&nested->inside, PATIENCE_MS);
    snib_lease *lease = nested->leases[0];
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    CHECK(atomic_load(&nested->over));
    return NULL;
}

TEST(a_release_waits_for_a_callback_that_has_others_inside)
{
    static struct nested nested;
    pthread_t thread;
    snib_error error = {0};
    int fd;
    nested.client = client_here();
    CHECK_OK(snib_events(nested.client, &fd, &error), error.message);
    snib_options options = SNIB_OPTIONS;
    options.max_hold_ms = brief_hold_ms();
    options.on_event = dispatch_within;
    options.arg = &nested;
    snib_lease *one = take(nested.client, "one", &options);
    snib_lease *two = take(nested.client, "two", &options);
    CHECK(pthread_create(&thread, NULL, release_first, &nested) == 0);
    while (!atomic_load(&nested.over)) {
        CHECK(readable(fd, PATIENCE_MS));
        CHECK_INT(snib_dispatch(nested.client, 1), >=, 0);
    }
    pthread_join(thread, NULL);
    snib_lease *left = nested.leases[0] == one ? two : one;
    CHECK_INT(snib_release(&left, NULL), ==, SNIB_ELOST);
    snib_close(nested.client);
}

TEST(an_asynchronous_try_is_refused_in_its_callback)
{
    snib *holder = client_here();
    snib_lease *lease = take(holder, "report", NULL);
    struct crowd *crowd = crowd_new(3, false);
    snib_options at_once = trying(SNIB_EXCLUSIVE);
    for (int i = 0; i < 3; i++) {
        crowd_submit(crowd, i, "report", &at_once);
    }
    crowd_await(crowd, 3);
    CHECK_INT(crowd_count(crowd, SNIB_EBUSY), ==, 3);
    crowd_end(crowd);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    snib_close(holder);
}

TEST(asynchronous_waits_end_at_their_deadlines)
{
    enum { WAITS = 20 };
    snib *holder = client_here();
    snib_lease *lease = take(holder, "report", NULL);
    struct crowd *crowd = crowd_new(WAITS, true);
    /* Time for the first of them to hear that it is held. */
    int64_t first_ms = with_leases() ? brief_ms() : check_ms(100);
    int64_t start = check_now_ns();
    /* The last to come has the least patience, so that the first, who is told that it is held, is
     * in front to the end. On a machine that stalls meanwhile, too: these are moments. */
    for (int i = 0; i < WAITS; i++) {
        snib_options options = SNIB_OPTIONS;
        int64_t until_ms = first_ms + 10 * (WAITS - 1 - i), now_ms = elapsed_ms(start);
        options.wait_ms = until_ms > now_ms ? until_ms - now_ms : 1;
        crowd_submit(crowd, i, "report", &options);
    }
    crowd_await(crowd, 1);
    CHECK_INT(elapsed_ms(start), >=, first_ms);
    crowd_await(crowd, WAITS);
    CHECK_INT(elapsed_ms(start), >=, first_ms + 10 * (WAITS - 1));
    CHECK_INT(crowd_count(crowd, SNIB_EBUSY), ==, WAITS);
    give(&lease);
    must_be_free(holder, "report");
    crowd_end(crowd);
    snib_close(holder);
}

TEST(a_refused_start_never_calls_back)
{
    snib *client = client_here();
    snib_options bad = SNIB_OPTIONS;
    snib_ticket ticket = 7;
    snib_error error = {0};
    int fd;
    CHECK_OK(snib_events(client, &fd, &error), error.message);
    bad.mode = 99;
    /* A `done` of NULL would be called if anything were. */
    CHECK_INT(snib_acquire_async(&ticket, client, "report", &bad, NULL, NULL, &error), ==,
              SNIB_EINVAL);
    CHECK_INT(error.code, ==, SNIB_EINVAL);
    CHECK_INT(snib_acquire_async(&ticket, client, "", NULL, NULL, NULL, &error), ==, SNIB_EINVAL);
    CHECK_INT(snib_dispatch(client, 0), ==, 0);
    must_be_free(client, "report");
    snib_close(client);
}

static int compare_tickets(const void *a, const void *b)
{
    snib_ticket left = *(const snib_ticket *)a;
    snib_ticket right = *(const snib_ticket *)b;
    return left < right ? -1 : left > right;
}

TEST(no_ticket_is_given_twice)
{
    enum { TICKETS = 300 };
    static snib_ticket tickets[TICKETS];
    struct crowd *crowd = crowd_new(TICKETS, false);
    snib_options options = SNIB_OPTIONS;
    for (int i = 0; i < TICKETS; i++) {
        crowd_submit(crowd, i, "report", &options);
        tickets[i] = crowd->members[i].ticket;
        if (i % 3 == 0) {
            crowd_await(crowd, i + 1); /* so that its slot could be used again */
        }
    }
    crowd_await(crowd, TICKETS);
    qsort(tickets, TICKETS, sizeof tickets[0], compare_tickets);
    for (int i = 1; i < TICKETS; i++) {
        CHECK_UINT(tickets[i], >, tickets[i - 1]);
    }
    crowd_end(crowd);
}

/* ---- What a callback may do ------------------------------------------------------------- */

struct chain {
    snib *client;
    int left;
    struct check_flag end;
};

static void chain_on(snib_lease *lease, const snib_error *err, void *arg)
{
    struct chain *chain = arg;
    (void)err;
    CHECK(lease != NULL);
    snib_lease *other = take(chain->client, "other", NULL); /* even one that could wait */
    give(&other);
    struct sights sights;
    look(chain->client, "report", &sights);
    CHECK_UINT(sights.count, ==, 1);
    if (--chain->left > 0) {
        snib_ticket ticket;
        CHECK_INT(snib_acquire_async(&ticket, chain->client, "report", NULL, chain_on, chain, NULL),
                  ==, SNIB_OK);
    } else {
        check_flag_set(&chain->end);
    }
    give(&lease);
}

TEST(a_callback_may_acquire_release_and_look)
{
    static struct chain chain = {.left = 20};
    snib_ticket ticket;
    snib_error error = {0};
    chain.client = client_here();
    CHECK_OK(snib_acquire_async(&ticket, chain.client, "report", NULL, chain_on, &chain, &error),
             error.message);
    check_flag_wait(&chain.end, PATIENCE_MS);
    snib_close(chain.client);
}

static void keep_lease(snib_lease *lease, const snib_error *err, void *arg)
{
    (void)err;
    *(snib_lease **)arg = lease;
}

TEST(an_asynchronous_lease_is_the_callers_and_its_events_carry_the_ticket)
{
    static struct diary diary;
    snib_lease *lease = NULL;
    snib_ticket ticket = 0;
    snib_error error = {0};
    int fd;
    snib *holder = client_here();
    snib *client = client_here();
    snib_options options = SNIB_OPTIONS;
    options.on_event = diary_note;
    options.arg = &diary;
    CHECK_OK(snib_events(client, &fd, &error), error.message);
    snib_lease *first = take(holder, "report", NULL);
    CHECK_OK(snib_acquire_async(&ticket, client, "report", &options, keep_lease, &lease, &error),
             error.message);
    while (diary_find(&diary, SNIB_WAITING) == NULL) {
        CHECK(readable(fd, PATIENCE_MS));
        snib_dispatch(client, 1);
    }
    CHECK_UINT(diary_find(&diary, SNIB_WAITING)->ticket, ==, ticket);
    CHECK(!diary_find(&diary, SNIB_WAITING)->has_lease);
    give(&first);
    while (lease == NULL) {
        CHECK(readable(fd, PATIENCE_MS));
        snib_dispatch(client, 0);
    }
    must_be_held(holder, "report");
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    must_be_free(holder, "report");
    snib_close(client);
    snib_close(holder);
}
