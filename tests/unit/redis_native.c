/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout `native`: names, answers and messages, whatever a server sends.
 */
#include "check.h"
#include "engines/redis/native.h"
#include "engines/redis/packed.h"

#include <stdio.h>

/* The bytes of an answer, or of a message. */
struct made {
    char bytes[200];
    size_t size;
};

static void add(struct made *m, uint64_t number, size_t size)
{
    m->size = (size_t)(snib__pack(m->bytes + m->size, number, size) - m->bytes);
}

static void add_text(struct made *m, const char *text)
{
    m->size = (size_t)(snib__pack_bytes(m->bytes + m->size, text, strlen(text)) - m->bytes);
}

static struct made begin(char letter)
{
    return (struct made){.bytes = {letter}, .size = 1};
}

static struct made held(uint64_t token, uint64_t left, uint64_t span)
{
    struct made m = begin('H');
    add(&m, token, 8);
    add(&m, left, 4);
    add(&m, span, 4);
    add(&m, 99, 8);
    return m;
}

static struct made queued(const char *info)
{
    struct made m = begin('Q');
    add(&m, 0, 1);
    add(&m, 2, 4);
    add(&m, 7, 8);
    add(&m, 500, 4);
    add(&m, 99, 8);
    add_text(&m, info);
    return m;
}

static bool read_reply(struct snib__layout_answer *a, const char *bytes, size_t size)
{
    static struct snib__reader *reader;
    const struct snib__reply *reply = NULL;
    snib__reader_free(reader);
    reader = snib__reader_new();
    CHECK(snib__reader_feed(reader, bytes, size));
    CHECK_INT(snib__reader_next(reader, &reply), ==, 1);
    return snib__native_answer(a, reply);
}

static bool read_answer(struct snib__layout_answer *a, struct made m)
{
    char bulk[240];
    int n = snprintf(bulk, sizeof bulk, "$%zu\r\n", m.size);
    memcpy(bulk + n, m.bytes, m.size);
    memcpy(bulk + (size_t)n + m.size, "\r\n", 2);
    return read_reply(a, bulk, (size_t)n + m.size + 2);
}

TEST(answers_are_read_by_their_letter)
{
    struct snib__layout_answer a;
    CHECK(read_answer(&a, held(7, 1500, 3)));
    CHECK(a.word == SNIB__ANSWER_HELD && a.token == 7 && a.left_ms == 1500 && a.span == 3);
    CHECK_INT(a.now_ms, ==, 99);
    CHECK(read_answer(&a, held(9007199254740991, 1500, 1)));
    CHECK_UINT(a.token, ==, 9007199254740991);
    CHECK(read_answer(&a, queued("host:1 a job")));
    CHECK(a.word == SNIB__ANSWER_QUEUED && a.place == 2 && a.holder_token == 7);
    CHECK_STR(a.holder, "host:1 a job");
    CHECK(!a.unfinished && a.now_ms == 99);
    CHECK(read_answer(&a, queued("host:1 ")));
    CHECK_STR(a.holder, "host:1");
    struct made m = begin('K');
    add(&m, 4, 4);
    add(&m, 99, 8);
    CHECK(read_answer(&a, m));
    CHECK(a.word == SNIB__ANSWER_KIND && a.permits == 4 && a.now_ms == 99);
    m = begin('X');
    add(&m, 99, 8);
    add_text(&m, "host:2");
    CHECK(read_answer(&a, m));
    CHECK(a.word == SNIB__ANSWER_BROKEN && a.now_ms == 99);
    CHECK_STR(a.holder, "host:2");
    m = begin('A');
    add(&m, 99, 8);
    add(&m, 1500, 4);
    CHECK(read_answer(&a, m));
    CHECK(a.word == SNIB__ANSWER_ASKED && a.holder_left_ms == 1500 && a.now_ms == 99);
}

TEST(the_answer_to_a_release_may_be_a_letter_alone)
{
    struct snib__layout_answer a;
    CHECK(read_answer(&a, begin('G')));
    CHECK(a.word == SNIB__ANSWER_GONE && a.now_ms == 0 && !a.unfinished);
    struct made m = begin('F');
    add(&m, 1, 1);
    add(&m, 99, 8);
    CHECK(read_answer(&a, m));
    CHECK(a.word == SNIB__ANSWER_DONE && a.now_ms == 99 && a.unfinished);
    m = begin('N'); /* to a renewal */
    add(&m, 99, 8);
    CHECK(read_answer(&a, m));
    CHECK(a.word == SNIB__ANSWER_NONE && a.now_ms == 99 && !a.unfinished);
}

TEST(answers_that_cannot_be_are_refused_or_bounded)
{
    static const char *const others[] = {"+OK\r\n", ":1\r\n", "*0\r\n", "$0\r\n\r\n",
                                         "*2\r\n$1\r\nH\r\n:7\r\n"};
    struct snib__layout_answer a;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        CHECK(!read_reply(&a, others[i], strlen(others[i])));
    }
    CHECK(!read_answer(&a, begin('w')));
    CHECK(!read_answer(&a, begin('\0')));
    CHECK(!read_answer(&a, held(0, 1500, 1)));
    CHECK(!read_answer(&a, held(7, 1500, 0)));
    struct made whole[] = {held(7, 1500, 1), queued("")};
    for (size_t i = 0; i < 2; i++) {
        CHECK(read_answer(&a, whole[i]));
        while (whole[i].size-- > 1) {
            CHECK(!read_answer(&a, whole[i]));
        }
    }
    struct made m = begin('B');
    memset(m.bytes + 1, 0xff, sizeof m.bytes - 1);
    m.size = sizeof m.bytes;
    CHECK(read_answer(&a, m));
    CHECK_INT(a.place, ==, INT32_MAX);
    CHECK_INT(a.holder_left_ms, <, INT64_MAX / 1000000);
    CHECK_UINT(strlen(a.holder), <, sizeof a.holder);
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

static struct made message(uint64_t token, uint64_t span, uint64_t left, uint64_t turn,
                           const char *key)
{
    struct made m = begin(2);
    add_text(&m, "0123456789abcdefg");
    add(&m, token, 8);
    add(&m, span, 4);
    add(&m, left, 4);
    add(&m, turn, 4);
    add_text(&m, key);
    return m;
}

static bool is_grant(struct made m)
{
    struct snib__layout_grant grant;
    return snib__native_grant(&grant, "snib", m.bytes, m.size);
}

TEST(a_message_is_a_grant_only_if_it_is_whole)
{
    struct made m = message(5, 2, 300, 99, "snib:{my report}");
    struct snib__layout_grant grant;
    CHECK(snib__native_grant(&grant, "snib", m.bytes, m.size));
    CHECK(memcmp(grant.id, "0123456789abcdefg", 17) == 0);
    CHECK_STR(grant.name, "my report");
    CHECK(grant.token == 5 && grant.span == 2 && grant.left_ms == 300 && grant.turn == 99);
    for (struct made cut = m; cut.size > 0;) {
        cut.bytes[--cut.size] = '\0';
        CHECK(!is_grant(cut));
    }
    m.bytes[0] = 3; /* of another version */
    CHECK(!is_grant(m));
    CHECK(!is_grant(message(0, 1, 1, 1, "snib:{a}")));
    CHECK(!is_grant(message(1, 0, 1, 1, "snib:{a}")));
    CHECK(!is_grant(message(1, 1, 0, 1, "snib:{a}")));
    CHECK(!is_grant(message(1, 1, 1, 0, "snib:{a}")));
    CHECK(!is_grant(message(1, 1, 1, 1, "other:{a}")));
    m = message(1, 1, 1, 1, "snib:{a}");
    m.bytes[m.size - 2] = '\0'; /* no name has that in it */
    CHECK(!is_grant(m));
}
