/* SPDX-License-Identifier: Apache-2.0 */
/* Closing, and waiting, while other threads are in a call. */
#include "fake_engine.h"

#include <pthread.h>

static void drive_nothing(struct snib__session *s, int64_t until_ns)
{
    (void)until_ns;
    atomic_fetch_add(&fake.drives, 1);
    s->wake_ns = 0;
}

static snib *client_of(const struct snib__engine *engine)
{
    snib *client = NULL;
    snib_error error;
    CHECK_OK(snib__open_engine(&client, engine, "fake://here?timeout=100ms", false, &error),
             error.message);
    return client;
}

/* An engine with nothing to do returns at once. Who waits for the clock then sleeps, and does not
 * keep the mutex by asking it again and again. */
TEST(who_waits_for_the_clock_sleeps)
{
    struct snib__engine engine = fake_engine;
    engine.drive = drive_nothing;
    snib *client = client_of(&engine);
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease = NULL;
    fake.busy = true;
    options.wait_ms = 300;
    CHECK_INT(snib_acquire(&lease, client, "name", &options, NULL), ==, SNIB_EBUSY);
    CHECK_INT(atomic_load(&fake.drives), <, 50);
    snib_close(client);
}

static atomic_int asked;

static void never_answer(struct snib__query *query)
{
    (void)query;
    atomic_store(&asked, 1);
}

static void *inspect(void *arg)
{
    static snib_error error;
    int code = snib_inspect(arg, "name", NULL, NULL, &error);
    CHECK_INT(code, ==, SNIB_ECANCELED);
    CHECK(strstr(error.message, "closed") != NULL);
    return NULL;
}

/* The engine forgets it; the thread that asked does not wait for ever, nor in memory that is
 * freed. */
TEST(closing_ends_a_question_without_an_answer)
{
    snib *client = client_of(&fake_engine);
    pthread_t thread;
    fake.on_query = never_answer;
    CHECK_INT(pthread_create(&thread, NULL, inspect, client), ==, 0);
    while (!atomic_load(&asked)) {
        check_sleep_ms(1);
    }
    snib_close(client);
    CHECK_INT(pthread_join(thread, NULL), ==, 0);
}

static void close_it(const snib_event *event, void *arg)
{
    (void)event;
    snib_close(arg);
}

/* The thread that waits cannot leave before the callback has ended that closes. */
TEST(a_callback_about_a_wait_may_close)
{
    snib *client = client_of(&fake_engine);
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease = NULL;
    fake.busy = true;
    options.wait_ms = -1;
    options.on_event = close_it;
    options.arg = client;
    CHECK_INT(snib_acquire(&lease, client, "name", &options, NULL), ==, SNIB_ECANCELED);
}

static atomic_int other_gave_up;

static void wait_for_the_other(const snib_event *event, void *arg)
{
    (void)event, (void)arg;
    while (!atomic_load(&other_gave_up)) {
        check_sleep_ms(1);
    }
}

static void *wait_in_vain(void *arg)
{
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease = NULL;
    options.wait_ms = 300;
    CHECK_INT(snib_acquire(&lease, arg, "other", &options, NULL), ==, SNIB_EBUSY);
    atomic_store(&other_gave_up, 1);
    return NULL;
}

/* Who drives, and then has only a callback to wait for, lets another thread drive. */
TEST(a_slow_callback_stops_no_other_thread)
{
    snib *client = client_of(&fake_engine);
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease = NULL;
    pthread_t thread;
    fake.busy = true;
    options.wait_ms = 100;
    options.on_event = wait_for_the_other;
    CHECK_INT(pthread_create(&thread, NULL, wait_in_vain, client), ==, 0);
    CHECK_INT(snib_acquire(&lease, client, "name", &options, NULL), ==, SNIB_EBUSY);
    CHECK_INT(pthread_join(thread, NULL), ==, 0);
    snib_close(client);
}
