/* SPDX-License-Identifier: Apache-2.0 */
/* Engines that do not keep to the contract: they get wrong answers, but nobody hangs. */
#include "scripted_engine.h"

enum { WAIT_MS = 300, SOON_MS = 3000 };

/* The deadline fires, and no processor was kept busy until then. */
static void must_end_at_its_deadline(snib *client)
{
    int64_t start = check_now_ns();
    CHECK_INT(script_try(client, WAIT_MS), <, 0);
    CHECK_INT(script_ms_since(start), >=, WAIT_MS - 1);
    CHECK_INT(script_ms_since(start), <, check_ms(SOON_MS));
    CHECK_INT(atomic_load(&script.attempts), <, 200);
}

/* ---- Attempts --------------------------------------------------------------------------- */

static void grant_what_is_over(struct snib__claim *claim)
{
    struct snib__result held = {.status = SNIB__HELD, .token = 1, .since = snib__now()};
    snib__answer(claim, SNIB__ATTEMPT, &held);
}

static void prove_what_is_over(struct snib__claim *claim)
{
    struct snib__result held = {.status = SNIB__HELD, .token = 1, .since = snib__now()};
    snib__answer(claim, SNIB__RENEW, &held);
}

TEST(grants_that_are_over_already_stop_no_deadline)
{
    script.attempt = grant_what_is_over;
    script.renew = prove_what_is_over;
    snib *client = script_client("script:");
    must_end_at_its_deadline(client);
    snib_close(client);
}

static void grant_without_a_date(struct snib__claim *claim)
{
    struct snib__result held = {.status = SNIB__HELD, .token = 1, .lease_ms = claim->ttl_ms};
    snib__answer(claim, SNIB__ATTEMPT, &held);
}

static void prove_without_a_date(struct snib__claim *claim)
{
    struct snib__result held = {.status = SNIB__HELD, .token = 1, .lease_ms = claim->ttl_ms};
    snib__answer(claim, SNIB__RENEW, &held);
}

TEST(grants_without_a_date_stop_no_deadline)
{
    script.attempt = grant_without_a_date;
    script.renew = prove_without_a_date;
    snib *client = script_client("script:");
    must_end_at_its_deadline(client);
    snib_close(client);
}

TEST(a_try_that_is_put_into_a_queue_is_busy)
{
    script.attempt = script_queue;
    snib *client = script_client("script:");
    int64_t start = check_now_ns();
    CHECK_INT(script_try(client, 0), ==, SNIB_EBUSY);
    CHECK_INT(script_ms_since(start), <, check_ms(SOON_MS));
    snib_close(client);
}

static void queue_and_rouse(struct snib__claim *claim)
{
    script_say(claim, SNIB__ATTEMPT, SNIB__QUEUED);
    script_say(claim, SNIB__ATTEMPT, SNIB__BUSY);
}

TEST_LIMIT(an_engine_that_always_says_worth_an_attempt_now_stops_no_deadline, 10)
{
    script.attempt = queue_and_rouse;
    snib *client = script_client("script:");
    int64_t start = check_now_ns();
    CHECK_INT(script_try(client, WAIT_MS), ==, SNIB_EBUSY);
    CHECK_INT(script_ms_since(start), <, check_ms(SOON_MS));
    snib_close(client);
}

static int64_t patience_ms;

static void ask_for_endless_patience(struct snib__claim *claim)
{
    struct snib__result busy = {.status = SNIB__BUSY, .retry_ms = patience_ms};
    snib__answer(claim, SNIB__ATTEMPT, &busy);
}

TEST(a_pause_without_end_stops_no_deadline)
{
    static const int64_t endless_ms[] = {INT64_MAX, (1LL << 58) + 1}; /* in ns: -1 ms, 1 ms */
    script.attempt = ask_for_endless_patience;
    snib *client = script_client("script:");
    for (int i = 0; i < 2; i++) {
        patience_ms = endless_ms[i];
        atomic_store(&script.attempts, 0);
        must_end_at_its_deadline(client);
        CHECK_INT(atomic_load(&script.attempts), <=, 10); /* the last ones just before its end */
    }
    snib_close(client);
}

static void grant_for_ever(struct snib__claim *claim)
{
    struct snib__result held = {
        .status = SNIB__HELD, .token = 1, .since = snib__now(), .lease_ms = INT64_MAX};
    snib__answer(claim, SNIB__ATTEMPT, &held);
}

TEST(a_lease_of_all_time_is_a_long_one)
{
    script.attempt = grant_for_ever;
    snib *client = script_client("script:");
    snib_lease *lease = script_take(client, "a");
    CHECK_INT(snib_left_ms(lease), >, 24LL * 3600 * 1000);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
}

/* ---- While held ------------------------------------------------------------------------- */

TEST(a_verify_whose_answer_has_no_date_proves_nothing)
{
    script.renew = prove_without_a_date;
    snib *client = script_client_unleased();
    snib_lease *lease = script_take(client, "a");
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_EUNKNOWN);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
}

TEST(a_report_that_all_is_well_changes_nothing)
{
    snib *client = script_client("script:");
    snib_lease *lease = script_take(client, "a");
    script_report(client, script.claims[0], SNIB_HELD);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    script_report(client, script.claims[0], SNIB_RELEASED);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    script_report(client, script.claims[0], SNIB_DOUBTFUL);
    script_report(client, script.claims[0], SNIB_HELD); /* only a renewal says that */
    CHECK_INT(snib_state(lease), ==, SNIB_DOUBTFUL);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
}

static void answer_a_release_with_held(struct snib__claim *claim)
{
    script_say(claim, SNIB__RELEASE, SNIB__HELD);
}

TEST(a_release_whose_answer_is_not_freed_is_unknown)
{
    script.release = answer_a_release_with_held;
    snib *client = script_client("script:");
    snib_lease *lease = script_take(client, "a");
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_EUNKNOWN);
    snib_close(client);
}

/* ---- What it can do --------------------------------------------------------------------- */

TEST(names_are_not_listed_where_the_engine_says_that_it_cannot)
{
    snib *client = script_client("script:");
    CHECK_INT(snib_list(client, "", NULL, NULL, NULL), ==, SNIB_ENOTSUP);
    CHECK_INT(atomic_load(&script.queries), ==, 0); /* and is not asked */
    CHECK_INT(snib_inspect(client, "a", NULL, NULL, NULL), ==, SNIB_OK);
    CHECK_INT(atomic_load(&script.queries), ==, 1);
    snib_close(client);
}

static int name_fewer_traits(struct snib__session *s)
{
    snib__traits(s, SNIB_TRAIT_LEASED | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED);
    return SNIB_OK;
}

TEST(traits_that_are_named_in_open_are_kept)
{
    script.open = name_fewer_traits;
    snib *client = script_client("script:");
    CHECK_UINT(snib_traits(client), ==, SNIB_TRAIT_LEASED | SNIB_TRAIT_SHARED); /* of its own */
    snib_close(client);
}

TEST(a_minimum_of_all_time_is_refused)
{
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease = NULL;
    options.min_left_ms = INT64_MAX;
    snib *client = script_client("script:");
    CHECK_INT(snib_acquire(&lease, client, "a", &options, NULL), ==, SNIB_EINVAL);
    snib_close(client);
    client = script_client_unleased();
    CHECK_INT(snib_acquire(&lease, client, "a", &options, NULL), ==, SNIB_EINVAL);
    CHECK(lease == NULL);
    snib_close(client);
}
