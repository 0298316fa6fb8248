/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted, what is found: statistics, inspections, examinations. */
#include "fake_engine.h"

#include <stdio.h>

static snib_stats stats_of(snib *client)
{
    snib_stats stats = {.size = sizeof stats};
    CHECK_INT(snib_stats_read(client, &stats), ==, SNIB_OK);
    CHECK_UINT(stats.size, ==, sizeof stats);
    return stats;
}

static int try(snib *client, const char *name, int64_t wait_ms)
{
    snib_options o = SNIB_OPTIONS;
    snib_lease *lease = NULL;
    o.wait_ms = wait_ms;
    int rc = snib_acquire(&lease, client, name, &o, NULL);
    if (rc == 0) {
        CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    }
    return rc;
}

TEST(a_client_counts_what_happens_to_it)
{
    snib *client = fake_client("fake://here");
    snib_lease *lease = fake_acquire(client, NULL);
    CHECK_UINT(stats_of(client).acquired, ==, 1);
    CHECK_UINT(stats_of(client).held, ==, 1);
    CHECK_UINT(stats_of(client).waited, ==, 0);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    CHECK_UINT(stats_of(client).renewals, ==, 1);
    snib__enter(client);
    client->session.reconnects = 3;
    snib__report(&lease->hold->claim, SNIB_LOST, "somebody took it away");
    snib__leave(client);
    CHECK_UINT(stats_of(client).lost, ==, 1);
    CHECK_UINT(stats_of(client).reconnects, ==, 3);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    fake.busy = true;
    CHECK_INT(try(client, "a", 0), ==, SNIB_EBUSY);
    CHECK_INT(try(client, "a", 30), ==, SNIB_EBUSY);
    CHECK_UINT(stats_of(client).busy, ==, 2);
    CHECK_UINT(stats_of(client).waited, >=, 1);
    CHECK_UINT(stats_of(client).wait_us, >=, 29000);
    CHECK_UINT(stats_of(client).held, ==, 0);
    CHECK_UINT(stats_of(client).waiting, ==, 0);
    CHECK_UINT(stats_of(client).failed, ==, 0);
    snib_close(client);
}

TEST(a_program_with_an_older_header_gets_as_much_as_it_knows)
{
    snib *client = fake_client("fake://here");
    CHECK_INT(try(client, "a", -1), ==, SNIB_OK);
    snib_stats stats;
    memset(&stats, 0xa5, sizeof stats);
    stats.size = offsetof(snib_stats, busy);
    CHECK_INT(snib_stats_read(client, &stats), ==, SNIB_OK);
    CHECK_UINT(stats.acquired, ==, 1);
    CHECK_UINT(stats.busy, ==, 0xa5a5a5a5a5a5a5a5ULL); /* not touched */
    stats.size = 1;
    CHECK_INT(snib_stats_read(client, &stats), ==, SNIB_EINVAL);
    CHECK_INT(snib_stats_read(client, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_stats_read(NULL, &stats), ==, SNIB_EINVAL);
    snib_close(client);
}

/* ---- Examinations ----------------------------------------------------------------------- */

static void find_three(struct snib__query *query)
{
    char text[] = "the server may forget locks";
    CHECK_STR(query->name, "");
    snib__found(query, &(snib_finding){.verdict = SNIB_GOOD, .about = "reach", .text = "reached"});
    snib__found(query, &(snib_finding){.verdict = SNIB_BAD,
                                       .about = "eviction",
                                       .text = text,
                                       .remedy = "set noeviction"});
    memset(text, '?', sizeof text - 1); /* what an engine says is copied */
    snib__found(query, &(snib_finding){.verdict = SNIB_WARNING, .about = "clock"});
    snib__finish(query, SNIB_OK, 0, NULL);
}

static char told[400];

static int note(const snib_finding *f, void *arg)
{
    size_t used = strlen(told);
    CHECK_UINT(f->size, ==, sizeof *f);
    snprintf(told + used, sizeof told - used, "%d %s: %s (%s)\n", f->verdict, f->about, f->text,
             f->remedy ? f->remedy : "-");
    int *most = arg;
    return --*most <= 0;
}

TEST(an_examination_tells_each_finding_in_order)
{
    fake.on_query = find_three;
    snib *client = fake_client("fake://here");
    int most = 10;
    CHECK_INT(snib_examine(client, note, &most, NULL), ==, SNIB_OK);
    CHECK_STR(told, "0 reach: reached (-)\n"
                    "2 eviction: the server may forget locks (set noeviction)\n"
                    "1 clock:  (-)\n");
    told[0] = '\0';
    most = 1;
    CHECK_INT(snib_examine(client, note, &most, NULL), ==, SNIB_OK);
    CHECK_STR(told, "0 reach: reached (-)\n"); /* and no more, as it was told */
    snib_close(client);
}

static void find_and_fail(struct snib__query *query)
{
    snib__found(query, &(snib_finding){.about = "reach", .text = "reached"});
    snib__finish(query, SNIB_EUNKNOWN, 0, "it broke off");
}

TEST(an_examination_that_breaks_off_tells_nothing_but_why)
{
    fake.on_query = find_and_fail;
    snib *client = fake_client("fake://here");
    snib_error error;
    int most = 10;
    CHECK_INT(snib_examine(client, note, &most, &error), ==, SNIB_EUNKNOWN);
    CHECK(strstr(error.message, "it broke off") != NULL);
    CHECK_STR(told, "");
    CHECK_INT(snib_examine(client, NULL, NULL, &error), ==, SNIB_EINVAL);
    CHECK_INT(snib_examine(NULL, note, &most, &error), ==, SNIB_EINVAL);
    snib_close(client);
}

static int some_rights(const struct snib__session *s, char *out, size_t size)
{
    (void)s;
    return snprintf(out, size, "GRANT all");
}

TEST(rights_fit_or_are_refused)
{
    struct snib__engine engine = fake_engine;
    snib *client = fake_client("fake://here"), *other = NULL;
    char line[20];
    CHECK_INT(snib_rights(client, line, sizeof line, NULL), ==, SNIB_ENOTSUP);
    CHECK_STR(line, "");
    engine.rights = some_rights;
    CHECK_INT(snib__open_engine(&other, &engine, "fake://here", false, NULL), ==, SNIB_OK);
    CHECK_INT(snib_rights(other, line, 10, NULL), ==, SNIB_OK);
    CHECK_STR(line, "GRANT all");
    CHECK_INT(snib_rights(other, line, 9, NULL), ==, SNIB_EINVAL);
    CHECK_STR(line, "");
    CHECK_INT(snib_rights(other, NULL, 9, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_rights(NULL, line, 9, NULL), ==, SNIB_EINVAL);
    snib_close(other);
    snib_close(client);
}

/* ---- Arguments -------------------------------------------------------------------------- */

static void on_released(int code, const snib_error *err, void *arg)
{
    (void)code, (void)err, (void)arg;
}

TEST(calls_without_their_arguments_are_refused)
{
    snib *client = fake_client("fake://here");
    snib_lease *lease = NULL;
    snib_stats stats = {.size = sizeof stats};
    int fd;
    CHECK_INT(snib_acquire(NULL, client, "a", NULL, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_acquire(&lease, NULL, "a", NULL, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_acquire_async(NULL, client, "a", NULL, NULL, NULL, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_release_async(&lease, on_released, NULL, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_verify(NULL, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_renew(NULL, 0, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_inspect(NULL, "a", NULL, NULL, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_break(client, "a", 0, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_break(client, "", 1, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_events(client, NULL, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_events(NULL, &fd, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_dispatch(client, 0), ==, SNIB_ESTATE);
    CHECK_INT(snib_dispatch(NULL, 0), ==, SNIB_ESTATE);
    CHECK_INT(snib_cancel(NULL, 1), ==, SNIB_ESTATE);
    CHECK_INT(snib_state(NULL), ==, SNIB_RELEASED);
    CHECK_INT(snib_fd(NULL), ==, SNIB_ESTATE);
    CHECK_INT(snib_ttl_ms(NULL), ==, 0);
    CHECK_INT(snib_left_ms(NULL), ==, 0);
    CHECK(snib_name(NULL) == NULL && snib_url(NULL) == NULL && snib_token(NULL) == 0);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK); /* nothing to release */
    snib_close(NULL);
    snib_close(client);
}

static void on_done(snib_lease *lease, const snib_error *err, void *arg)
{
    (void)lease, (void)err, (void)arg;
}

static void on_all(snib_lease *const leases[], size_t n, const snib_error *err, void *arg)
{
    (void)leases, (void)n, (void)err, (void)arg;
}

TEST(options_that_do_not_fit_are_refused)
{
    static const char *const names[] = {"a", "b"};
    snib *client = fake_client("fake://here");
    snib_lease *lease = NULL;
    snib_error error;
    snib_options o = SNIB_OPTIONS;
    o.permits = 2;
    CHECK_INT(snib_acquire(&lease, client, "a", &o, &error), ==, SNIB_EINVAL);
    CHECK(strstr(error.message, "permits 2 without") != NULL);
    o = (snib_options)SNIB_OPTIONS;
    o.stop_fd = -2;
    CHECK_INT(snib_acquire(&lease, client, "a", &o, &error), ==, SNIB_EINVAL);
    o.stop_fd = 0;
    CHECK_INT(snib_acquire_async(NULL, client, "a", &o, on_done, NULL, &error), ==, SNIB_EINVAL);
    CHECK(strstr(error.message, "use snib_cancel") != NULL);
    CHECK_INT(snib_acquire_all_async(NULL, client, names, 2, &o, on_all, NULL, &error), ==,
              SNIB_EINVAL);
    CHECK(strstr(error.message, "use snib_cancel") != NULL);
    CHECK_INT(snib_acquire_all_async(NULL, client, names, 0, NULL, on_all, NULL, &error), ==,
              SNIB_EINVAL);
    CHECK_INT(snib_acquire_all_async(NULL, client, names, 2, NULL, NULL, NULL, &error), ==,
              SNIB_EINVAL);
    CHECK_INT(snib_open(NULL, "fake://here", &error), ==, SNIB_EINVAL);
    snib_close(client);
}

TEST(a_ttl_is_refused_where_the_engine_has_one_for_all)
{
    static struct snib__engine leased;
    snib *client = NULL;
    leased = fake_engine;
    leased.traits |= SNIB_TRAIT_LEASED;
    CHECK_INT(snib__open_engine(&client, &leased, "fake://here?ttl=10s", false, NULL), ==, SNIB_OK);
    snib_options o = SNIB_OPTIONS;
    snib_lease *lease = NULL;
    o.ttl_ms = 20000;
    CHECK_INT(snib_acquire(&lease, client, "a", &o, NULL), ==, SNIB_ENOTSUP);
    o.ttl_ms = 99;
    CHECK_INT(snib_acquire(&lease, client, "a", &o, NULL), ==, SNIB_EINVAL);
    snib_close(client);
}
