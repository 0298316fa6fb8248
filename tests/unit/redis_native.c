/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout `native`: names, answers and messages, whatever a server sends.
 */
#include "check.h"
#include "engines/redis/native.h"

static bool read_answer(struct snib__layout_answer *a, const char *bytes)
{
    static struct snib__reader *reader;
    const struct snib__reply *reply = NULL;
    snib__reader_free(reader);
    reader = snib__reader_new();
    CHECK(snib__reader_feed(reader, bytes, strlen(bytes)));
    CHECK_INT(snib__reader_next(reader, &reply), ==, 1);
    return snib__native_answer(a, reply);
}

TEST(answers_are_read_by_their_word)
{
    struct snib__layout_answer a;
    CHECK(read_answer(&a, "*5\r\n$4\r\nHELD\r\n:7\r\n:1500\r\n:3\r\n:99\r\n"));
    CHECK(a.word == SNIB__ANSWER_HELD && a.token == 7 && a.left_ms == 1500 && a.span == 3);
    CHECK_INT(a.now_ms, ==, 99);
    CHECK(read_answer(&a, "*4\r\n$4\r\nHELD\r\n:7\r\n:1500\r\n:99\r\n"));
    CHECK(a.word == SNIB__ANSWER_HELD && a.span == 1 && a.now_ms == 99);
    CHECK(read_answer(&a, "*6\r\n$6\r\nQUEUED\r\n:2\r\n:7\r\n:500\r\n:99\r\n$15\r\n88 host:1 a "
                          "job\r\n"));
    CHECK(a.word == SNIB__ANSWER_QUEUED && a.place == 2 && a.holder_token == 7);
    CHECK_STR(a.holder, "host:1 a job");
    CHECK(!a.unfinished && a.now_ms == 99);
    CHECK(read_answer(&a, "*3\r\n$4\r\nKIND\r\n:4\r\n:99\r\n"));
    CHECK(a.word == SNIB__ANSWER_KIND && a.permits == 4 && a.now_ms == 99);
    CHECK(read_answer(&a, "*2\r\n$5\r\nFREED\r\n:99\r\n"));
    CHECK(a.word == SNIB__ANSWER_DONE && a.now_ms == 99);
}

TEST(answers_that_cannot_be_are_refused_or_bounded)
{
    struct snib__layout_answer a;
    CHECK(!read_answer(&a, "+OK\r\n"));
    CHECK(!read_answer(&a, "*1\r\n$4\r\nHELD\r\n"));
    CHECK(!read_answer(&a, "*2\r\n$4\r\nWHAT\r\n:1\r\n"));
    CHECK(!read_answer(&a, "*5\r\n$4\r\nHELD\r\n:-7\r\n:1500\r\n:3\r\n:99\r\n"));
    CHECK(!read_answer(&a, "*5\r\n$4\r\nHELD\r\n:0\r\n:1500\r\n:3\r\n:99\r\n"));
    CHECK(read_answer(&a, "*5\r\n$4\r\nHELD\r\n:7\r\n:-1500\r\n:1\r\n:99\r\n"));
    CHECK_INT(a.left_ms, ==, 0);
    CHECK(read_answer(&a, "*6\r\n$4\r\nBUSY\r\n:-1\r\n:7\r\n:9223372036854775807\r\n:99\r\n"
                          "$0\r\n\r\n"));
    CHECK_INT(a.place, ==, 0);
    CHECK_INT(a.holder_left_ms, <, INT64_MAX / 1000000);
    CHECK_STR(a.holder, "");
}

TEST(a_key_that_is_not_ours_has_no_name)
{
    static const char *const foreign[] = {
        "",
        "s",
        "snib",
        "snib:",
        "snib:{",
        "snib:{}",
        "snib:{report",
        "snib:report}",
        "sniP:{report}",
        "snibb:{report}",
        "other:{report}",
    };
    char name[SNIB__KEY_MAX];
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        if (snib__native_name_of(name, "snib", foreign[i])) {
            FAIL("%s has the name %s", foreign[i], name);
        }
    }
    CHECK(snib__native_name_of(name, "snib", "snib:{a}"));
    CHECK_STR(name, "a");
    CHECK(snib__native_name_of(name, "snib", "snib:{a{b}:c}"));
    CHECK_STR(name, "a{b}:c");
}

TEST(a_message_is_a_grant_only_if_it_is_whole)
{
    static const char *const bad[] = {
        "",
        "id",
        "id 1 1 1 1",
        "id 1 1 1 1 other:{a}",
        "id 0 1 1 1 snib:{a}",
        "id 1 0 1 1 snib:{a}",
        "id 1 1 -1 1 snib:{a}",
        "id 1 1 1 0 snib:{a}",
        " 1 1 1 1 snib:{a}",
        "0123456789012345678901234567890123456789 1 1 1 1 snib:{a}",
    };
    struct snib__layout_grant grant;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (snib__native_grant(&grant, "snib", bad[i])) {
            FAIL("a grant: %s", bad[i]);
        }
    }
    CHECK(snib__native_grant(&grant, "snib", "id 5 2 300 99 snib:{my report}"));
    CHECK_STR(grant.id, "id");
    CHECK_STR(grant.name, "my report");
    CHECK(grant.token == 5 && grant.span == 2 && grant.left_ms == 300 && grant.now_ms == 99);
}
