/* SPDX-License-Identifier: Apache-2.0 */
/* Renewals by hand, and what their answers, or none, do to what a holder believes. */
#include "scripted_engine.h"

enum { SHORT_MS = 200, LONG_MS = 60000 };

static bool is_lost(void *lease)
{
    return snib_state(lease) == SNIB_LOST;
}

/* ---- Answers that do not come ----------------------------------------------------------- */

TEST(a_renewal_that_shortens_counts_even_if_nobody_knows_of_it)
{
    script.renew = script_renew_unknown;
    snib *client = script_client("script:?ttl=10s");
    snib_lease *lease = script_take(client, "a");
    CHECK_INT(snib_renew(lease, SHORT_MS, NULL), ==, SNIB_EUNKNOWN);
    CHECK_INT(snib_left_ms(lease), <=, SHORT_MS);
    CHECK(check_until(is_lost, lease, 3000));
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
}

TEST(a_renewal_that_shortens_and_is_never_answered_ends_the_lease)
{
    script.renew = script_mute;
    snib *client = script_client("script:?ttl=10s");
    snib_lease *lease = script_take(client, "a");
    int64_t start = check_now_ns();
    CHECK_INT(snib_renew(lease, SHORT_MS, NULL), ==, SNIB_ELOST);
    CHECK_INT(script_ms_since(start), <, check_ms(3000));
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
}

TEST(after_a_renewal_that_nobody_knows_of_the_next_one_asks_for_the_ttl_of_before)
{
    script.renew = script_renew_unknown;
    snib *client = script_client("script:?ttl=10s");
    snib_lease *lease = script_take(client, "a");
    CHECK_INT(snib_renew(lease, 5000, NULL), ==, SNIB_EUNKNOWN);
    CHECK_INT(snib_left_ms(lease), <=, 5000);
    snib__enter(client);
    script.renew = NULL;
    snib__leave(client);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    CHECK_INT(snib_left_ms(lease), >, 5000);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
}

TEST(a_renewal_that_lengthens_promises_nothing_before_it_is_answered)
{
    script.renew = script_renew_unknown;
    snib *client = script_client("script:?ttl=10s");
    snib_lease *lease = script_take(client, "a");
    CHECK_INT(snib_renew(lease, LONG_MS, NULL), ==, SNIB_EUNKNOWN);
    CHECK_INT(snib_left_ms(lease), <=, 10000);
    CHECK_INT(snib_left_ms(lease), >, 0);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
}

/* ---- Answers that come later ------------------------------------------------------------ */

static struct {
    struct snib__claim *claim; /* of the first renewal, which is not answered at once */
    struct snib__instant sent;
} kept;

static void keep_the_first(struct snib__claim *claim)
{
    if (kept.claim) {
        script_renew_unknown(claim);
    } else {
        kept.claim = claim;
        kept.sent = snib__now();
    }
}

struct call {
    snib_lease *lease;
    int64_t ttl_ms; /* 0: verify */
    int rc;
    pthread_t thread;
};

static void *ask_in_thread(void *arg)
{
    struct call *c = arg;
    c->rc = c->ttl_ms ? snib_renew(c->lease, c->ttl_ms, NULL) : snib_verify(c->lease, NULL);
    return NULL;
}

static void ask(struct call *c)
{
    CHECK_INT(pthread_create(&c->thread, NULL, ask_in_thread, c), ==, 0);
}

static bool two_ask(void *arg)
{
    snib_lease *lease = arg;
    snib *client = lease->hold->client;
    snib__enter(client);
    const struct snib__list *all = &lease->hold->verifiers;
    bool two = all->after != all && all->after->after != all;
    snib__leave(client);
    return two;
}

TEST(the_answer_of_an_earlier_renewal_is_not_booked_with_the_ttl_of_a_later_one)
{
    script.renew = keep_the_first;
    snib *client = script_client("script:?ttl=10s");
    snib_lease *lease = script_take(client, "a");
    struct call first = {.lease = lease}, second = {.lease = lease, .ttl_ms = LONG_MS};
    ask(&first);
    script_await(&script.renewals, 1);
    ask(&second);
    CHECK(check_until(two_ask, lease, PATIENCE_MS));
    snib__enter(client);
    script_prove(kept.claim, kept.sent); /* by an engine that looks at the claim only now */
    snib__settle(client);
    snib__leave(client);
    CHECK_INT(pthread_join(first.thread, NULL), ==, 0);
    CHECK_INT(pthread_join(second.thread, NULL), ==, 0);
    CHECK_INT(first.rc, ==, SNIB_OK);
    CHECK_INT(second.rc, ==, SNIB_EUNKNOWN);
    CHECK_INT(snib_left_ms(lease), <=, 10000);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
}

static void note_and_leave_unknown(struct snib__claim *claim)
{
    if (!kept.claim) {
        kept.claim = claim;
        kept.sent = snib__now();
    }
    script_renew_unknown(claim);
}

TEST(an_answer_from_before_a_renewal_that_shortens_lengthens_nothing)
{
    script.renew = note_and_leave_unknown;
    snib *client = script_client("script:?ttl=10s");
    snib_lease *lease = script_take(client, "a");
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_EUNKNOWN);
    CHECK_INT(snib_renew(lease, 2000, NULL), ==, SNIB_EUNKNOWN);
    struct snib__result late = {
        .status = SNIB__HELD, .token = script.token, .since = kept.sent, .lease_ms = 10000};
    snib__enter(client);
    snib__answer(kept.claim, SNIB__RENEW, &late);
    snib__leave(client);
    CHECK_INT(snib_left_ms(lease), <=, 2000);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
}

/* ---- Answers that say something else ---------------------------------------------------- */

static void prove_another_grant(struct snib__claim *claim)
{
    script.token += 7;
    script_prove(claim, snib__now());
}

TEST(a_renewal_that_names_another_grant_is_a_loss)
{
    script.renew = prove_another_grant;
    snib *client = script_client("script:");
    snib_lease *lease = script_take(client, "a");
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_ELOST);
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
}

TEST(a_doubt_without_a_lease_ends_with_a_verify_that_succeeds)
{
    snib *client = script_client_unleased();
    snib_lease *lease = script_take(client, "a");
    script_report(client, script.claims[0], SNIB_DOUBTFUL);
    CHECK_INT(snib_state(lease), ==, SNIB_DOUBTFUL);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    CHECK_INT(snib_left_ms(lease), ==, INT64_MAX);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
}
