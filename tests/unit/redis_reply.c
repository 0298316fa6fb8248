/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies: built right, and never larger than they may be.
 */
#include "check.h"
#include "engines/redis/reply.h"

#include <stdio.h>
#include <stdlib.h>

/* 1: a reply; 0: more needed; -1: refused. */
static int read_all(struct snib__reader *reader, const char *bytes, size_t size, size_t step,
                    const struct snib__reply **out)
{
    int rc = 0;
    for (size_t at = 0; at < size && rc == 0; at += step) {
        size_t part = size - at < step ? size - at : step;
        if (!snib__reader_feed(reader, bytes + at, part)) {
            return -1;
        }
        rc = snib__reader_next(reader, out);
    }
    return rc;
}

TEST(a_reply_in_any_number_of_pieces_is_the_same)
{
    static const char bytes[] = "*5\r\n$4\r\nHELD\r\n:1790000000000001\r\n*2\r\n+OK\r\n-ERR no\r\n"
                                "$-1\r\n$3\r\n123\r\n";
    for (size_t step = 1; step < sizeof bytes; step++) {
        struct snib__reader *reader = snib__reader_new();
        const struct snib__reply *reply = NULL;
        CHECK_INT(read_all(reader, bytes, sizeof bytes - 1, step, &reply), ==, 1);
        CHECK_UINT(reply->count, ==, 5);
        CHECK_STR(snib__reply_text(reply, 0), "HELD");
        CHECK_INT(snib__reply_number(reply, 1), ==, 1790000000000001);
        CHECK_INT(reply->items[2]->items[1]->type, ==, REDIS_REPLY_ERROR);
        CHECK_STR(snib__reply_text(reply, 3), "");
        CHECK_INT(snib__reply_number(reply, 4), ==, 123);
        CHECK_STR(snib__reply_text(reply, 5), ""); /* not there */
        snib__reader_free(reader);
    }
}

TEST(what_is_too_large_is_refused_before_it_arrives)
{
    static const char *const huge[] = {
        "*2000000000\r\n",
        "*1000000\r\n",
        "*-7\r\n",
        "*300000\r\n*300000\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        "?\r\n",
        "HTTP/1.1 400 Bad Request\r\n",
    };
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        struct snib__reader *reader = snib__reader_new();
        const struct snib__reply *reply = NULL;
        int rc = read_all(reader, huge[i], strlen(huge[i]), 4096, &reply);
        if (rc != -1 && !(rc == 1 && i == 2)) {
            FAIL("reply %zu answers %d", i, rc);
        }
        snib__reader_free(reader);
    }
}

TEST(a_text_above_the_limit_is_refused)
{
    enum { SIZE = 1100000 };
    char *bytes = calloc(1, SIZE + 64);
    int n = snprintf(bytes, 64, "$%d\r\n", SIZE);
    memset(bytes + n, 'x', SIZE);
    memcpy(bytes + n + SIZE, "\r\n", 2);
    struct snib__reader *reader = snib__reader_new();
    const struct snib__reply *reply = NULL;
    CHECK_INT(read_all(reader, bytes, (size_t)n + SIZE + 2, 65536, &reply), ==, -1);
    snib__reader_free(reader);
    free(bytes);
}

TEST(an_endless_reply_is_refused)
{
    char bytes[65536];
    struct snib__reader *reader = snib__reader_new();
    const struct snib__reply *reply = NULL;
    memset(bytes, 'x', sizeof bytes);
    CHECK_INT(read_all(reader, "+", 1, 1, &reply), ==, 0);
    int fed = 0;
    while (snib__reader_feed(reader, bytes, sizeof bytes)) {
        CHECK_INT(++fed, <=, 256);
    }
    snib__reader_free(reader);
}

TEST(a_thousand_replies_need_no_more_memory_than_one)
{
    struct snib__reader *reader = snib__reader_new();
    for (int i = 0; i < 1000; i++) {
        const struct snib__reply *reply = NULL;
        CHECK_INT(read_all(reader, "*2\r\n$4\r\nHELD\r\n:7\r\n", 18, 18, &reply), ==, 1);
        CHECK_INT(snib__reply_number(reply, 1), ==, 7);
        CHECK_INT(snib__reader_next(reader, &reply), ==, 0);
    }
    snib__reader_free(reader);
}
