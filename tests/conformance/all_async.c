/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several names at once, without waiting: all or none, one answer, one ticket.
 */
#include "conformance.h"

#include <stdlib.h>

enum { NAMES = 3 };
static const char *const left_to_right[] = {"ant", "bee", "cat"};
static const char *const right_to_left[] = {"cat", "bee", "ant"};

/* What became of one. */
struct outcome {
    snib *client;
    int fd; /* of snib_events; -1: callbacks come by themselves */
    pthread_t caller;
    snib_ticket ticket;
    _Atomic int calls;
    _Atomic int code;
    snib_lease *leases[NAMES];
    struct check_flag over;
};

static void note_outcome(snib_lease *const leases[], size_t n, const snib_error *err, void *arg)
{
    struct outcome *outcome = arg;
    if (outcome->fd >= 0) {
        CHECK(pthread_equal(pthread_self(), outcome->caller));
    }
    if (leases != NULL) {
        CHECK(err == NULL);
        CHECK_UINT(n, ==, NAMES);
        memcpy(outcome->leases, leases, sizeof outcome->leases);
    } else {
        CHECK_UINT(n, ==, 0);
        CHECK(err != NULL && err->code < 0 && err->message[0] != '\0');
        atomic_store(&outcome->code, err->code);
    }
    CHECK_INT(atomic_fetch_add(&outcome->calls, 1), ==, 0);
    check_flag_set(&outcome->over);
}

static void prepare(struct outcome *outcome, bool events)
{
    memset(outcome, 0, sizeof *outcome);
    outcome->client = client_here();
    outcome->fd = -1;
    outcome->caller = pthread_self();
    if (events) {
        snib_error error = {0};
        CHECK_OK(snib_events(outcome->client, &outcome->fd, &error), error.message);
    }
}

static void submit(struct outcome *outcome, const char *const names[], const snib_options *options)
{
    snib_error error = {0};
    CHECK_OK(snib_acquire_all_async(&outcome->ticket, outcome->client, names, NAMES, options,
                                    note_outcome, outcome, &error),
             error.message);
    CHECK_UINT(outcome->ticket, !=, 0);
}

static bool is_over(void *arg)
{
    struct outcome *outcome = arg;
    if (outcome->fd >= 0 && readable(outcome->fd, 0)) {
        CHECK_INT(snib_dispatch(outcome->client, 0), >=, 0);
    }
    return check_flag_is_set(&outcome->over);
}

static int await_outcome(struct outcome *outcome)
{
    CHECK(check_until(is_over, outcome, PATIENCE_MS));
    CHECK_INT(snib_cancel(outcome->client, outcome->ticket), ==, SNIB_ESTATE);
    return atomic_load(&outcome->code);
}

static void end(struct outcome *outcome)
{
    snib_close(outcome->client);
    CHECK_INT(atomic_load(&outcome->calls), ==, 1);
}

static void all_must_be_free(snib *client)
{
    for (int i = 0; i < NAMES; i++) {
        must_be_free(client, left_to_right[i]);
        await_nobody(client, left_to_right[i]);
    }
}

static void give_all(struct outcome *outcome)
{
    for (int i = 0; i < NAMES; i++) {
        give(&outcome->leases[i]);
    }
}

/* ---- Granted ---------------------------------------------------------------------------- */

static void take_all(bool events)
{
    static struct outcome outcome;
    snib *other = client_here();
    prepare(&outcome, events);
    submit(&outcome, right_to_left, NULL);
    CHECK_INT(await_outcome(&outcome), ==, SNIB_OK);
    for (int i = 0; i < NAMES; i++) {
        CHECK_STR(snib_name(outcome.leases[i]), right_to_left[i]);
        CHECK_INT(snib_state(outcome.leases[i]), ==, SNIB_HELD);
        CHECK_INT(snib_verify(outcome.leases[i], NULL), ==, SNIB_OK);
        must_be_held(other, right_to_left[i]);
    }
    give_all(&outcome);
    all_must_be_free(other);
    end(&outcome);
    snib_close(other);
}

TEST(several_leases_come_with_one_call_in_the_order_of_the_names)
{
    take_all(false);
}

TEST(several_leases_come_inside_dispatch)
{
    take_all(true);
}

TEST(what_was_given_to_an_asynchronous_acquire_of_several_is_copied)
{
    static struct outcome outcome;
    char texts[NAMES][8] = {"cat", "bee", "ant"};
    const char *names[NAMES] = {texts[0], texts[1], texts[2]};
    char label[] = "nightly";
    snib *other = client_here();
    snib_lease *lease = take(other, "ant", NULL);
    prepare(&outcome, false);
    snib_options options = SNIB_OPTIONS;
    options.label = label;
    submit(&outcome, names, &options);
    memset(texts, '#', sizeof texts);
    memset(names, 0, sizeof names);
    memset(label, '#', sizeof label - 1);
    memset(&options, 0xff, sizeof options);
    give(&lease);
    CHECK_INT(await_outcome(&outcome), ==, SNIB_OK);
    CHECK_STR(snib_name(outcome.leases[0]), "cat");
    struct sights sights;
    look(other, "cat", &sights);
    CHECK_UINT(sights.count, ==, 1);
    CHECK_STR(sights.all[0].label, "nightly");
    give_all(&outcome);
    end(&outcome);
    snib_close(other);
}

TEST(an_owner_gets_again_what_it_has_among_several)
{
    static struct outcome outcome;
    static const char owner;
    prepare(&outcome, false);
    snib_options mine = owned(&owner, SNIB_EXCLUSIVE);
    snib_lease *first = take(outcome.client, "bee", &mine);
    snib_lease *second = take(outcome.client, "cat", &mine);
    submit(&outcome, left_to_right, &mine);
    CHECK_INT(await_outcome(&outcome), ==, SNIB_OK);
    CHECK_UINT(snib_token(outcome.leases[1]), ==, snib_token(first));
    CHECK_UINT(snib_token(outcome.leases[2]), ==, snib_token(second));
    give_all(&outcome);
    CHECK_INT(snib_verify(first, NULL), ==, SNIB_OK);
    give(&first);
    give(&second);
    all_must_be_free(outcome.client);
    end(&outcome);
}

/* ---- Refused ---------------------------------------------------------------------------- */

TEST(one_name_that_is_held_means_none_of_several)
{
    for (int held = 0; held < NAMES; held++) {
        static struct outcome outcome;
        snib *other = client_here();
        snib_options at_once = trying(SNIB_EXCLUSIVE);
        snib_lease *lease = take(other, left_to_right[held], NULL);
        prepare(&outcome, held == 1);
        submit(&outcome, right_to_left, &at_once);
        CHECK_INT(await_outcome(&outcome), ==, SNIB_EBUSY);
        CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
        give(&lease);
        all_must_be_free(other);
        end(&outcome);
        snib_close(other);
    }
}

TEST(one_deadline_for_all_of_an_asynchronous_acquire)
{
    enum { FIRST_MS = 2000, WAIT_MS = 3000 };
    static struct outcome outcome;
    snib *other = client_here();
    snib_options passing = trying(SNIB_EXCLUSIVE);
    snib_options options = SNIB_OPTIONS;
    passing.max_hold_ms = FIRST_MS;
    options.wait_ms = WAIT_MS;
    snib_lease *first = take(other, "ant", &passing); /* ends while the others wait for it */
    snib_lease *last = take(other, "cat", NULL);
    prepare(&outcome, false);
    int64_t start = check_now_ns();
    submit(&outcome, left_to_right, &options);
    CHECK_INT(await_outcome(&outcome), ==, SNIB_EBUSY);
    CHECK_INT(elapsed_ms(start), >=, WAIT_MS);
    CHECK_INT(elapsed_ms(start), <, WAIT_MS + FIRST_MS * 3 / 4); /* else each had its own */
    CHECK_INT(snib_release(&first, NULL), ==, SNIB_ELOST);
    give(&last);
    all_must_be_free(other);
    end(&outcome);
    snib_close(other);
}

TEST(several_are_not_told_as_held_when_the_first_was_lost_meanwhile)
{
    enum { SHORT_MS = 300, LATER_MS = 1500 };
    static struct outcome outcome;
    snib *other = client_here();
    snib_options passing = trying(SNIB_EXCLUSIVE);
    snib_options options = SNIB_OPTIONS;
    passing.max_hold_ms = LATER_MS;
    options.max_hold_ms = SHORT_MS;
    snib_lease *last = take(other, "cat", &passing);
    prepare(&outcome, false);
    submit(&outcome, left_to_right, &options);
    CHECK_INT(await_outcome(&outcome), ==, SNIB_ELOST);
    CHECK_INT(snib_release(&last, NULL), ==, SNIB_ELOST);
    all_must_be_free(other);
    end(&outcome);
    snib_close(other);
}

TEST(bad_arguments_of_several_are_refused_at_once)
{
    static struct outcome outcome;
    static const char *const twice[] = {"ant", "bee", "ant"};
    static const char *const bad[] = {"ant", "", "cat"};
    static const char *const none[] = {"ant", NULL, "cat"};
    static const char *many[1001];
    snib_ticket ticket = 1;
    snib *client = client_here();
    for (size_t i = 0; i < 1001; i++) {
        many[i] = "ant";
    }
    const struct {
        const char *const *names;
        size_t n;
    } rows[] = {{twice, 3}, {bad, 3}, {none, 3}, {left_to_right, 0}, {NULL, 3}, {many, 1001}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snib_error error = {0};
        CHECK_INT(snib_acquire_all_async(&ticket, client, rows[i].names, rows[i].n, NULL,
                                         note_outcome, &outcome, &error),
                  ==, SNIB_EINVAL);
        CHECK(error.message[0] != '\0');
        CHECK_UINT(ticket, ==, 0);
    }
    CHECK_INT(snib_acquire_all_async(&ticket, client, left_to_right, NAMES, NULL, NULL, NULL, NULL),
              ==, SNIB_EINVAL);
    CHECK_INT(snib_acquire_all_async(&ticket, NULL, left_to_right, NAMES, NULL, note_outcome,
                                     &outcome, NULL),
              ==, SNIB_EINVAL);
    all_must_be_free(client);
    snib_close(client);
    CHECK_INT(atomic_load(&outcome.calls), ==, 0);
}

/* ---- Cancelled, closed ------------------------------------------------------------------ */

static bool first_is_held(void *arg)
{
    struct sights sights;
    look(arg, "ant", &sights);
    return sights.count > 0 && sights.all[0].place == 0;
}

/* It waits for the name with this index, and has those before it. */
static snib_lease *let_wait(struct outcome *outcome, snib *other, int index, bool events)
{
    snib_lease *lease = take(other, left_to_right[index], NULL);
    prepare(outcome, events);
    submit(outcome, right_to_left, NULL);
    CHECK(check_until(first_is_held, other, PATIENCE_MS)); /* by one or the other */
    if (with_fairness()) {
        await_waiters(other, left_to_right[index], 1);
    }
    CHECK_INT(atomic_load(&outcome->calls), ==, 0);
    return lease;
}

static void cancel_at(int index, bool events)
{
    static struct outcome outcome;
    snib *other = client_here();
    snib_lease *lease = let_wait(&outcome, other, index, events);
    CHECK_INT(snib_cancel(outcome.client, outcome.ticket), ==, SNIB_OK);
    CHECK_INT(snib_cancel(outcome.client, outcome.ticket), ==, SNIB_ESTATE);
    CHECK_INT(await_outcome(&outcome), ==, SNIB_ECANCELED);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    all_must_be_free(other);
    end(&outcome);
    snib_close(other);
}

TEST(several_are_cancelled_while_the_first_is_waited_for)
{
    cancel_at(0, false);
}

TEST(several_are_cancelled_while_a_later_one_is_waited_for)
{
    cancel_at(2, false);
    cancel_at(1, true);
}

static void close_at(int index, bool events)
{
    static struct outcome outcome;
    snib *other = client_here();
    snib_lease *lease = let_wait(&outcome, other, index, events);
    snib_close(outcome.client);
    CHECK_INT(atomic_load(&outcome.calls), ==, 1);
    CHECK_INT(atomic_load(&outcome.code), ==, SNIB_ECANCELED);
    give(&lease);
    all_must_be_free(other);
    snib_close(other);
}

TEST(closing_ends_an_acquire_of_several_with_nothing_kept)
{
    close_at(0, false);
    close_at(2, false);
    close_at(2, true);
}

static bool all_are_held(void *arg)
{
    struct sights sights;
    look_all(arg, "", &sights);
    return sights.count == NAMES;
}

/* All are there, and nobody has dispatched yet. */
TEST(closing_takes_back_several_that_were_not_told_yet)
{
    static struct outcome outcome;
    snib *other = client_here();
    prepare(&outcome, true);
    submit(&outcome, left_to_right, NULL);
    CHECK(check_until(all_are_held, other, PATIENCE_MS));
    CHECK(readable(outcome.fd, PATIENCE_MS));
    snib_close(outcome.client);
    CHECK_INT(atomic_load(&outcome.calls), ==, 1);
    CHECK_INT(atomic_load(&outcome.code), ==, SNIB_ECANCELED);
    all_must_be_free(other);
    snib_close(other);
}

/* ---- From inside of a callback ---------------------------------------------------------- */

struct relay {
    snib *client;
    int left;
    struct check_flag over;
};

static void take_again(snib_lease *const leases[], size_t n, const snib_error *err, void *arg)
{
    struct relay *relay = arg;
    snib_error error = {0};
    CHECK_OK(err != NULL ? err->code : SNIB_OK, err != NULL ? err->message : "");
    for (size_t i = 0; i < n; i++) {
        snib_lease *lease = leases[i];
        give(&lease);
    }
    if (--relay->left == 0) {
        check_flag_set(&relay->over);
        return;
    }
    CHECK_OK(snib_acquire_all_async(NULL, relay->client,
                                    relay->left % 2 ? left_to_right : right_to_left, NAMES, NULL,
                                    take_again, relay, &error),
             error.message);
}

TEST(a_callback_may_ask_for_several_again)
{
    static struct relay relay;
    static const char *const names[] = {"ant", "bee", "cat"};
    snib_error error = {0};
    relay.client = client_here();
    relay.left = 20;
    CHECK_OK(
        snib_acquire_all_async(NULL, relay.client, names, NAMES, NULL, take_again, &relay, &error),
        error.message);
    check_flag_wait(&relay.over, PATIENCE_MS);
    all_must_be_free(relay.client);
    snib_close(relay.client);
}
