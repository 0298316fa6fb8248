/* SPDX-License-Identifier: Apache-2.0 */
/* Several names at once: a lease is nobody's, and nobody is told of it, before all are there. */
#include "scripted_engine.h"

static const char *const names[] = {"a", "b"};

/* The first is granted, the second stays in a queue until the case says so. */
static void grant_the_first(struct snib__claim *claim)
{
    if (atomic_load(&script.attempts) == 1) {
        script_grant(claim);
    } else {
        script_queue(claim);
    }
}

static void grant_the_second(snib *client)
{
    snib__enter(client);
    script_grant(script.claims[1]);
    snib__settle(client);
    snib__leave(client);
}

/* What a program may do that hears of a loss: give the lease back, there and then. */
static struct {
    atomic_int doubts, losses, notes;
} heard;

static void release_what_is_lost(const snib_event *event, void *arg)
{
    (void)arg;
    if (event->state == SNIB_LOST) {
        snib_lease *lease = event->lease;
        atomic_fetch_add(&heard.losses, 1);
        (void)snib_release(&lease, NULL);
    } else if (event->state == SNIB_DOUBTFUL) {
        atomic_fetch_add(&heard.doubts, 1);
    } else if (event->state == SNIB_HELD && strstr(event->why, "worth knowing")) {
        atomic_fetch_add(&heard.notes, 1);
    }
}

static snib_options listening(void)
{
    snib_options options = SNIB_OPTIONS;
    options.on_event = release_what_is_lost;
    return options;
}

/* ---- Asynchronous ----------------------------------------------------------------------- */

static struct {
    snib_lease *leases[2];
    int code;
    atomic_int times;
} done;

static void note_all(snib_lease *const leases[], size_t n, const snib_error *err, void *arg)
{
    (void)arg;
    done.code = err ? err->code : SNIB_OK;
    for (size_t i = 0; i < n; i++) {
        done.leases[i] = leases[i];
    }
    atomic_fetch_add(&done.times, 1);
}

static snib *begin_all(void)
{
    snib_options options = listening();
    snib *client = script_client("script:");
    CHECK_INT(snib_acquire_all_async(NULL, client, names, 2, &options, note_all, NULL, NULL), ==,
              SNIB_OK);
    script_await(&script.attempts, 2);
    return client;
}

static void give_both_back(snib_lease *leases[])
{
    CHECK_INT(snib_release(&leases[0], NULL), ==, SNIB_OK);
    CHECK_INT(snib_release(&leases[1], NULL), ==, SNIB_OK);
}

TEST(a_loss_before_all_are_there_is_told_to_no_listener_but_ends_the_whole)
{
    script.attempt = grant_the_first;
    snib *client = begin_all();
    script_report(client, script.claims[0], SNIB_LOST);
    check_sleep_ms(50); /* for an event that must not come */
    CHECK_INT(atomic_load(&heard.losses), ==, 0);
    CHECK_INT(atomic_load(&done.times), ==, 0);
    grant_the_second(client);
    script_await(&done.times, 1);
    CHECK_INT(done.code, ==, SNIB_ELOST);
    snib_close(client);
    CHECK_INT(atomic_load(&heard.losses), ==, 0);
    CHECK_INT(atomic_load(&done.times), ==, 1);
}

TEST(a_loss_after_all_are_there_is_told)
{
    script.attempt = grant_the_first;
    snib *client = begin_all();
    grant_the_second(client);
    script_await(&done.times, 1);
    CHECK_INT(done.code, ==, SNIB_OK);
    script_report(client, script.claims[0], SNIB_LOST);
    script_await(&heard.losses, 1); /* and released */
    CHECK_INT(snib_state(done.leases[1]), ==, SNIB_HELD);
    CHECK_INT(snib_release(&done.leases[1], NULL), ==, SNIB_OK);
    snib_close(client);
}

static void grant_with_a_note(struct snib__claim *claim)
{
    struct snib__result held = {.status = SNIB__HELD,
                                .token = ++script.token,
                                .since = snib__now(),
                                .lease_ms = claim->ttl_ms,
                                .reason = "worth knowing"};
    if (atomic_load(&script.attempts) == 1) {
        snib__answer(claim, SNIB__ATTEMPT, &held);
    } else {
        script_queue(claim);
    }
}

TEST(what_was_worth_knowing_at_a_grant_is_told_when_all_are_there)
{
    script.attempt = grant_with_a_note;
    snib *client = begin_all();
    check_sleep_ms(50); /* for an event that must not come */
    CHECK_INT(atomic_load(&heard.notes), ==, 0);
    grant_the_second(client);
    script_await(&done.times, 1);
    CHECK_INT(done.code, ==, SNIB_OK);
    script_await(&heard.notes, 1);
    give_both_back(done.leases);
    snib_close(client);
    CHECK_INT(atomic_load(&heard.notes), ==, 1);
}

TEST(a_doubt_from_before_all_are_there_is_told_then)
{
    script.attempt = grant_the_first;
    script.renew = script_mute; /* else it would end at once */
    snib *client = begin_all();
    script_report(client, script.claims[0], SNIB_DOUBTFUL);
    check_sleep_ms(50); /* for an event that must not come */
    CHECK_INT(atomic_load(&heard.doubts), ==, 0);
    grant_the_second(client);
    script_await(&done.times, 1);
    CHECK_INT(done.code, ==, SNIB_OK);
    script_await(&heard.doubts, 1);
    give_both_back(done.leases);
    snib_close(client);
}

/* ---- Blocking --------------------------------------------------------------------------- */

struct call {
    snib *client;
    snib_lease *leases[2];
    int rc;
    pthread_t thread;
};

static void *acquire_in_thread(void *arg)
{
    struct call *c = arg;
    snib_options options = listening();
    c->rc = snib_acquire_all(c->leases, c->client, names, 2, &options, NULL);
    return NULL;
}

static void begin_call(struct call *c)
{
    c->client = script_client("script:");
    CHECK_INT(pthread_create(&c->thread, NULL, acquire_in_thread, c), ==, 0);
    script_await(&script.attempts, 2);
}

TEST(a_blocking_call_that_loses_one_keeps_none_and_tells_no_listener)
{
    struct call c = {.rc = 0};
    script.attempt = grant_the_first;
    begin_call(&c);
    script_report(c.client, script.claims[0], SNIB_LOST);
    check_sleep_ms(50); /* for an event that must not come */
    grant_the_second(c.client);
    CHECK_INT(pthread_join(c.thread, NULL), ==, 0);
    CHECK_INT(c.rc, ==, SNIB_ELOST);
    CHECK(c.leases[0] == NULL && c.leases[1] == NULL);
    snib_close(c.client);
    CHECK_INT(atomic_load(&heard.losses), ==, 0);
}

TEST(a_blocking_call_tells_what_was_worth_knowing_when_all_are_there)
{
    struct call c = {.rc = 0};
    script.attempt = grant_with_a_note;
    begin_call(&c);
    CHECK_INT(atomic_load(&heard.notes), ==, 0);
    grant_the_second(c.client);
    CHECK_INT(pthread_join(c.thread, NULL), ==, 0);
    CHECK_INT(c.rc, ==, SNIB_OK);
    script_await(&heard.notes, 1);
    give_both_back(c.leases);
    snib_close(c.client);
}
