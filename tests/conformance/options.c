/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options: a value out of its range is refused, never rounded, and nothing of it remains.
 */
#include "conformance.h"

#include <limits.h>

struct bad_option {
    const char *what;
    void (*spoil)(snib_options *);
};

static char label_of_61[62];

#define BAD(name, change)                                                                          \
    static void name(snib_options *options)                                                        \
    {                                                                                              \
        change;                                                                                    \
    }

BAD(no_size, options->size = 0)
BAD(half_size, options->size = sizeof *options / 2)
BAD(short_size, options->size = offsetof(snib_options, stop_fd) - 1) /* of the first header */
BAD(no_such_mode, options->mode = 3)
BAD(negative_mode, options->mode = -1)
BAD(no_such_flag, options->flags = 8)
BAD(all_flags, options->flags = UINT_MAX)
BAD(reserved, options->reserved = 1)
BAD(wait_below_forever, options->wait_ms = -2)
BAD(wait_least, options->wait_ms = INT64_MIN)
BAD(negative_ttl, options->ttl_ms = -1)
BAD(ttl_above_max_lease, options->ttl_ms = 3600000)
BAD(endless_ttl, options->ttl_ms = INT64_MAX)
BAD(negative_hold, options->max_hold_ms = -1)
BAD(negative_left, options->min_left_ms = -1)
BAD(label_too_long, options->label = label_of_61)

static const struct bad_option bad_options[] = {
    {"size 0", no_size},
    {"half the size", half_size},
    {"a size one too small", short_size},
    {"mode 3", no_such_mode},
    {"mode -1", negative_mode},
    {"flag 8", no_such_flag},
    {"all flags", all_flags},
    {"reserved 1", reserved},
    {"wait_ms -2", wait_below_forever},
    {"wait_ms INT64_MIN", wait_least},
    {"ttl_ms -1", negative_ttl},
    {"a ttl above max-lease", ttl_above_max_lease},
    {"ttl_ms INT64_MAX", endless_ttl},
    {"max_hold_ms -1", negative_hold},
    {"min_left_ms -1", negative_left},
    {"a label of 61 bytes", label_too_long},
};

static void never_done(snib_lease *lease, const snib_error *err, void *arg)
{
    (void)lease;
    (void)err;
    (void)arg;
    FAIL("a refused acquire called back");
}

static void must_be_bad(snib *client, const char *what, const snib_options *options)
{
    static const char *const names[] = {"report"};
    snib_lease *lease = NULL;
    snib_ticket ticket;
    snib_error error = {0};
    int code = snib_acquire(&lease, client, "report", options, &error);
    if (code != SNIB_EINVAL) {
        FAIL("%s: answers %s", what, snib_errname(code));
    }
    CHECK(lease == NULL);
    CHECK_INT(error.code, ==, SNIB_EINVAL);
    CHECK(error.message[0] != '\0');
    CHECK_INT(snib_acquire_all(&lease, client, names, 1, options, NULL), ==, SNIB_EINVAL);
    CHECK(lease == NULL);
    CHECK_INT(snib_acquire_async(&ticket, client, "report", options, never_done, NULL, NULL), ==,
              SNIB_EINVAL);
}

TEST(options_out_of_range_are_refused)
{
    snib *client = client_here();
    memset(label_of_61, 'x', sizeof label_of_61 - 1);
    for (size_t i = 0; i < sizeof bad_options / sizeof bad_options[0]; i++) {
        snib_options options = SNIB_OPTIONS;
        bad_options[i].spoil(&options);
        must_be_bad(client, bad_options[i].what, &options);
    }
    must_be_free(client, "report");
    await_nobody(client, "report");
    snib_close(client);
}

TEST_WHEN(permits_out_of_range_are_refused, with_counted)
{
    static const unsigned bad[] = {0, 1001, UINT_MAX};
    snib *client = client_here();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snib_options options = counted(bad[i], 0);
        must_be_bad(client, "permits", &options);
    }
    static const unsigned good[] = {1, 2, 1000};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snib_options options = counted(good[i], 0);
        snib_lease *lease = take(client, "report", &options);
        give(&lease);
    }
    snib_close(client);
}

/* A struct of a later version is the present one with more at the end; zeros mean "as before". */
TEST(options_of_a_newer_header_are_taken_only_if_nothing_new_is_asked)
{
    struct {
        snib_options options;
        int64_t news;
    } later = {.options = SNIB_OPTIONS};
    snib *client = client_here();
    later.options.size = sizeof later;
    snib_lease *lease = take(client, "report", &later.options);
    give(&lease);
    later.news = 1;
    must_be_bad(client, "a member of a newer header", &later.options);
    snib_close(client);
}

TEST(options_at_their_limits_are_taken)
{
    char label[61];
    snib *client = client_here();
    snib_options options = trying(SNIB_EXCLUSIVE);
    memset(label, 'x', 60);
    label[60] = '\0';
    options.label = label;
    options.max_hold_ms = check_ms(PATIENCE_MS);
    options.flags = SNIB_ASYNC_RELEASE | SNIB_NO_RENEW;
    snib_lease *lease = take(client, "report", &options);
    struct sights sights;
    look(client, "report", &sights);
    CHECK_UINT(sights.count, ==, 1);
    CHECK_STR(sights.all[0].label, label);
    give(&lease);
    snib_close(client);
}

TEST(arguments_are_copied)
{
    char name[] = "report";
    char label[] = "nightly";
    snib *client = client_here();
    snib *other = client_here();
    snib_options options = trying(SNIB_EXCLUSIVE);
    options.label = label;
    snib_lease *lease = take(client, name, &options);
    memset(name, '#', sizeof name - 1);
    memset(label, '#', sizeof label - 1);
    memset(&options, 0xff, sizeof options);
    struct sights sights;
    look(other, "report", &sights);
    CHECK_UINT(sights.count, ==, 1);
    CHECK_STR(sights.all[0].label, "nightly");
    CHECK_STR(snib_name(lease), "report");
    give(&lease);
    snib_close(other);
    snib_close(client);
}

TEST(codes_have_names_and_texts)
{
    CHECK_STR(snib_errname(SNIB_EBUSY), "EBUSY");
    CHECK_STR(snib_errname(SNIB_OK), "OK");
    CHECK_STR(snib_strerror(SNIB_EBUSY), "held by another");
    for (int code = 0; code >= SNIB_ESYS; code--) {
        CHECK(snib_errname(code)[0] != '\0');
        CHECK(snib_strerror(code)[0] != '\0');
    }
    CHECK(snib_errname(4711) != NULL); /* also for what is no code */
    CHECK(snib_strerror(-4711) != NULL);
    CHECK(snib_version()[0] != '\0');
    CHECK_STR(snib_trait_name(SNIB_TRAIT_FAIR), "fair");
    CHECK(snib_trait_name(0) == NULL);
}
