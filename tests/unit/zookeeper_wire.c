/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZooKeeper's protocol: bytes that are sent, bytes that come back, and bytes that do not make
 * sense.
 */
#include "check.h"
#include "engines/zookeeper/wire.h"

static struct snib__buffer out;

static void must_be(const char *bytes, size_t size)
{
    CHECK_UINT(snib__buffer_left(&out), ==, size);
    CHECK(memcmp(out.bytes + out.from, bytes, size) == 0);
    snib__buffer_free(&out);
}

#define MUST_BE(bytes) must_be((bytes), sizeof(bytes) - 1)

TEST(a_hello_carries_the_session)
{
    static const unsigned char password[] = "0123456789abcdef";
    struct snib__zk_hello hello = {
        .last_seen = 0x0102030405060708, .timeout_ms = 4000, .session = -2, .password = password};
    CHECK(snib__zk_put_hello(&out, &hello));
    MUST_BE("\0\0\0\x2d"
            "\0\0\0\0"
            "\1\2\3\4\5\6\7\10"
            "\0\0\x0f\xa0"
            "\xff\xff\xff\xff\xff\xff\xff\xfe"
            "\0\0\0\x10"
            "0123456789abcdef"
            "\0");
}

TEST(requests_are_made_to_measure)
{
    static const struct snib__zk_right rights[] = {{31, "world", "anyone"}, {0, NULL, NULL}};
    struct snib__zk_creation creation = {.op = SNIB__ZK_CREATE2,
                                         .path = "/a",
                                         .data = "me",
                                         .rights = rights,
                                         .flags = SNIB__ZK_EPHEMERAL_SEQUENTIAL};
    CHECK(snib__zk_put_create(&out, 7, &creation));
    MUST_BE("\0\0\0\x33"
            "\0\0\0\7\0\0\0\x0f"
            "\0\0\0\2/a"
            "\0\0\0\2me"
            "\0\0\0\1\0\0\0\x1f\0\0\0\5world\0\0\0\6anyone"
            "\0\0\0\3");
    CHECK(snib__zk_put_path(&out, 8, SNIB__ZK_CHILDREN, "/a", true));
    MUST_BE("\0\0\0\x0f\0\0\0\x08\0\0\0\x0c\0\0\0\2/a\1");
    CHECK(snib__zk_put_path(&out, 9, SNIB__ZK_SYNC, "/", false));
    MUST_BE("\0\0\0\x0d\0\0\0\x09\0\0\0\x09\0\0\0\1/");
    CHECK(snib__zk_put_bare(&out, SNIB__ZK_XID_PING, SNIB__ZK_PING));
    MUST_BE("\0\0\0\x08\xff\xff\xff\xfe\0\0\0\x0b");
    CHECK(snib__zk_put_delete(&out, 10, "/a"));
    MUST_BE("\0\0\0\x12\0\0\0\x0a\0\0\0\2\0\0\0\2/a\xff\xff\xff\xff");
}

TEST(a_multi_has_its_parts_and_an_end)
{
    CHECK(snib__zk_put_set_and_delete(&out, 11, "/a", "x", "/a/b"));
    MUST_BE("\0\0\0\x3e\0\0\0\x0b\0\0\0\x0e"
            "\0\0\0\5\0\xff\xff\xff\xff\0\0\0\2/a\0\0\0\1x\xff\xff\xff\xff"
            "\0\0\0\2\0\xff\xff\xff\xff\0\0\0\4/a/b\xff\xff\xff\xff"
            "\xff\xff\xff\xff\1\xff\xff\xff\xff");
    CHECK(snib__zk_put_proof(&out, 12, "/a"));
    MUST_BE("\0\0\0\x24\0\0\0\x0c\0\0\0\x0e"
            "\0\0\0\x0d\0\xff\xff\xff\xff\0\0\0\2/a\xff\xff\xff\xff"
            "\xff\xff\xff\xff\1\xff\xff\xff\xff");
}

TEST(a_frame_is_whole_or_not_there_yet)
{
    size_t size = 0;
    CHECK_INT(snib__zk_frame("\0\0\0", 3, &size), ==, 0);
    CHECK_INT(snib__zk_frame("\0\0\0\2x", 5, &size), ==, 0);
    CHECK_INT(snib__zk_frame("\0\0\0\2xy", 6, &size), ==, 1);
    CHECK_UINT(size, ==, 2);
    CHECK_INT(snib__zk_frame("\0\0\0\0", 4, &size), ==, 1);
    CHECK_UINT(size, ==, 0);
}

TEST(a_frame_of_a_senseless_size_is_none)
{
    size_t size = 0;
    CHECK_INT(snib__zk_frame("\xff\xff\xff\xff", 4, &size), ==, -1);
    CHECK_INT(snib__zk_frame("\x7f\xff\xff\xff", 4, &size), ==, -1);
}

TEST(an_answer_that_is_cut_short_is_bad_and_reads_as_zero)
{
    struct snib__zk_stat stat;
    struct snib__zk_reader r = {.at = "\0\0\0\0\0\0\0\5\0\0", .left = 10};
    CHECK(!snib__zk_get_stat(&r, &stat));
    CHECK_INT(stat.created, ==, 5);
    CHECK_INT(stat.owner, ==, 0);
    struct snib__zk_text text;
    r = (struct snib__zk_reader){.at = "\0\0\0\x09xy", .left = 6};
    CHECK(!snib__zk_get_text(&r, &text));
    CHECK_UINT(text.size, ==, 0);
    int32_t count;
    r = (struct snib__zk_reader){.at = "\x00\xff\xff\xff", .left = 4};
    CHECK(!snib__zk_get_count(&r, &count));
}

TEST(a_welcome_of_an_old_server_says_nothing_about_reading_only)
{
    struct snib__zk_welcome welcome;
    struct snib__zk_reader r = {.at = "\0\0\0\0\0\0\x0f\xa0\0\0\0\0\0\0\0\7\0\0\0\x10"
                                      "0123456789abcdef",
                                .left = 36};
    CHECK(snib__zk_get_welcome(&r, &welcome));
    CHECK_INT(welcome.timeout_ms, ==, 4000);
    CHECK_INT(welcome.session, ==, 7);
    CHECK(!welcome.read_only);
    r = (struct snib__zk_reader){.at = "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10"
                                       "0123456789abcdef\1",
                                 .left = 37};
    CHECK(snib__zk_get_welcome(&r, &welcome));
    CHECK_INT(welcome.timeout_ms, ==, 0); /* the session is over */
    CHECK(welcome.read_only);
}

TEST(a_multi_that_was_undone_says_why)
{
    int32_t error = 1;
    int part = -1;
    struct snib__zk_reader r = {.at = "\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0"
                                      "\xff\xff\xff\xff\0\xff\xff\xff\x9b\xff\xff\xff\x9b"
                                      "\xff\xff\xff\xff\1\xff\xff\xff\xff",
                                .left = 35};
    CHECK(snib__zk_get_multi(&r, &error, &part));
    CHECK_INT(error, ==, SNIB__ZK_NO_NODE);
    char done[9 + 68 + 9 + 9] = {[3] = 5, [9 + 68 + 3] = 2, [9 + 68 + 9 + 4] = 1};
    r = (struct snib__zk_reader){.at = done, .left = sizeof done};
    CHECK(snib__zk_get_multi(&r, &error, &part));
    CHECK_INT(error, ==, SNIB__ZK_OK);
    r = (struct snib__zk_reader){.at = done, .left = sizeof done - 9};
    CHECK(!snib__zk_get_multi(&r, &error, &part));
}
