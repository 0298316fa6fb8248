/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of nodes: of locks, of contenders in every dialect; and who is in the way of whom.
 */
#include "check.h"
#include "engines/zookeeper/contender.h"

#include <stdio.h>

static struct snib__zk_text text_of(const char *text)
{
    return (struct snib__zk_text){.at = text, .size = strlen(text)};
}

/* ---- Locks ------------------------------------------------------------------------------ */

static void must_encode(const char *name, bool top, const char *node)
{
    char out[SNIB__ZK_LOCK_MOST + 1], back[201];
    snib__zk_encode(name, top, out);
    CHECK_STR(out, node);
    CHECK(snib__zk_decode(text_of(node), top, back));
    CHECK_STR(back, name);
}

TEST(what_the_server_refuses_is_escaped_and_comes_back)
{
    must_encode("report", false, "report");
    must_encode("a/b", false, "a%2Fb");
    must_encode("a%2Fb", false, "a%252Fb");
    must_encode(".", false, "%2E");
    must_encode("..", false, "%2E.");
    must_encode("...", false, "...");
    must_encode("\xf0\x9f\x94\x92", false, "%F0%9F%94%92");
    must_encode("\xef\xbf\xbd", false, "%EF%BF%BD");
    must_encode("\xee\x80\x80x", false, "%EE%80%80x");
    must_encode("\xef\xbb\xbfx", false, "\xef\xbb\xbfx");
    must_encode("\xe9\x94\x81", false, "\xe9\x94\x81");
    must_encode("zookeeper", false, "zookeeper");
    must_encode("zookeeper", true, "%7Aookeeper");
}

TEST(a_node_that_no_name_makes_is_no_lock)
{
    static const char *const nodes[] = {"a%2fb", "%41", "a%", "a%2", "%zz", ".", "", "%00"};
    char out[201];
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        CHECK(!snib__zk_decode(text_of(nodes[i]), false, out));
    }
}

/* ---- Contenders ------------------------------------------------------------------------- */

static void must_parse(const char *node, enum snib__zk_sort sort, int64_t sequence)
{
    struct snib__zk_contender_name name = snib__zk_parse(text_of(node));
    CHECK_INT(name.sort, ==, sort);
    if (sort != SNIB__ZK_STRANGER) {
        CHECK_INT(name.sequence, ==, sequence);
    }
}

#define UUID "_c_4a1ef2c0-7d0c-4d29-9ea9-0fd0a1b2c3d4"
#define HEX "4a1ef2c07d0c4d299ea90fd0a1b2c3d4"

TEST(contenders_of_every_dialect_are_known)
{
    must_parse(UUID "-lock-0000000007", SNIB__ZK_MUTEX, 7);
    must_parse("_c_" HEX "-lock-0000000012", SNIB__ZK_MUTEX, 12); /* Go */
    must_parse(UUID "-__WRIT__0000000007", SNIB__ZK_WRITER, 7);
    must_parse(UUID "-__READ__0000000007", SNIB__ZK_READER, 7);
    must_parse(HEX "__lock__0000000007", SNIB__ZK_KAZOO_LOCK, 7);
    must_parse(HEX "__rlock__0000000007", SNIB__ZK_KAZOO_READER, 7);
    must_parse(UUID "-permits-3-0000000007", SNIB__ZK_PERMIT, 7);
    CHECK_UINT(snib__zk_parse(text_of(UUID "-permits-3-0000000007")).permits, ==, 3);
}

TEST(numbers_that_have_run_over_are_negative)
{
    must_parse(UUID "-lock--000000001", SNIB__ZK_MUTEX, -1);
    must_parse(UUID "-lock--2147483648", SNIB__ZK_MUTEX, -2147483648LL);
    must_parse(HEX "__lock__-000000001", SNIB__ZK_KAZOO_LOCK, -1);
}

TEST(whatever_else_is_there_is_a_stranger)
{
    must_parse("", SNIB__ZK_STRANGER, 0);
    must_parse("leases", SNIB__ZK_STRANGER, 0);
    must_parse("0000000007", SNIB__ZK_STRANGER, 0);
    must_parse(UUID "-latch-0000000007", SNIB__ZK_STRANGER, 0);
    must_parse(UUID "-lock-", SNIB__ZK_STRANGER, 0);
    must_parse(UUID "-lock-12", SNIB__ZK_STRANGER, 0);
    must_parse(UUID "-permits--0000000007", SNIB__ZK_STRANGER, 0);
    must_parse(UUID "-permits-0-0000000007", SNIB__ZK_STRANGER, 0);
}

TEST(our_own_names_are_those_of_the_dialect)
{
    static const unsigned char owner[16] = "0123456789abcdef";
    static const struct {
        enum snib__zk_dialect dialect;
        int mode;
        enum snib__zk_sort sort;
    } rows[] = {
        {SNIB__ZK_CURATOR, SNIB_EXCLUSIVE, SNIB__ZK_MUTEX},
        {SNIB__ZK_CURATOR, SNIB_SHARED, SNIB__ZK_READER},
        {SNIB__ZK_CURATOR_RW, SNIB_EXCLUSIVE, SNIB__ZK_WRITER},
        {SNIB__ZK_CURATOR_RW, SNIB_SHARED, SNIB__ZK_READER},
        {SNIB__ZK_KAZOO, SNIB_EXCLUSIVE, SNIB__ZK_KAZOO_LOCK},
        {SNIB__ZK_KAZOO, SNIB_SHARED, SNIB__ZK_KAZOO_READER},
        {SNIB__ZK_KAZOO, SNIB_COUNTED, SNIB__ZK_PERMIT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char node[SNIB__ZK_NODE_MOST + 16];
        snib__zk_stem(node, rows[i].dialect, rows[i].mode, 12, owner);
        strcat(node, "0000000042");
        must_parse(node, rows[i].sort, 42);
    }
}

/* The first half of the SHA-256 of "0123456789abcdef", with the marks of a UUID of version 8. */
TEST(the_uuid_is_the_hash_of_the_owner_id)
{
    char guid[SNIB__ZK_GUID_SIZE + 1];
    snib__zk_guid((const unsigned char *)"0123456789abcdef", guid);
    CHECK_STR(guid, "9f9f5111-f7b2-8a78-9f1f-1ddde5ebc2dd");
}

/* ---- Places ----------------------------------------------------------------------------- */

static struct snib__zk_place place_of(const char *const nodes[], const char *own, int mode,
                                      unsigned permits)
{
    static char bytes[4096];
    size_t used = 0;
    uint32_t count = 0;
    struct snib__zk_place place;
    while (nodes[count] != NULL) {
        count++;
    }
    memset(bytes, 0, sizeof bytes);
    bytes[3] = (char)count;
    used = 4;
    for (uint32_t i = 0; i < count; i++) {
        bytes[used + 3] = (char)strlen(nodes[i]);
        strcpy(bytes + used + 4, nodes[i]);
        used += 4 + strlen(nodes[i]);
    }
    struct snib__zk_reader r = {.at = bytes, .left = used + 68};
    memset(bytes + used, 0, 68);
    struct snib__zk_self self = {.node = own,
                                 .sequence = snib__zk_parse(text_of(own)).sequence,
                                 .mode = mode,
                                 .permits = permits};
    CHECK(snib__zk_place(&r, &self, &place));
    return place;
}

#define NODES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void next_must_be(const struct snib__zk_place *place, const char *node)
{
    CHECK_UINT(place->next.size, ==, strlen(node));
    CHECK(memcmp(place->next.at, node, place->next.size) == 0);
}

TEST(an_exclusive_one_waits_for_the_nearest_before_it_whatever_its_dialect)
{
    struct snib__zk_place place =
        place_of(NODES("c-lock-0000000009", "x__lock__0000000003", "r-__READ__0000000005", "noise",
                       "b-lock-0000000007"),
                 "b-lock-0000000007", SNIB_EXCLUSIVE, 1);
    CHECK(place.listed && !place.held && !place.clash);
    CHECK_UINT(place.in_the_way, ==, 2);
    next_must_be(&place, "r-__READ__0000000005");
    CHECK_UINT(place.first.size, ==, strlen("x__lock__0000000003"));
}

TEST(numbers_are_compared_as_numbers)
{
    struct snib__zk_place place = place_of(NODES("a-lock--000000002", "b-lock-0000000001"),
                                           "b-lock-0000000001", SNIB_EXCLUSIVE, 1);
    CHECK(!place.held);
    place = place_of(NODES("a-lock-0999999999", "b-lock-1000000000"), "a-lock-0999999999",
                     SNIB_EXCLUSIVE, 1);
    CHECK(place.held);
}

TEST(a_reader_waits_for_the_nearest_writer_only)
{
    struct snib__zk_place place =
        place_of(NODES("a-__READ__0000000001", "w-__WRIT__0000000002", "v-lock-0000000003",
                       "b-__READ__0000000004", "c-__READ__0000000005"),
                 "c-__READ__0000000005", SNIB_SHARED, 1);
    CHECK(!place.held);
    next_must_be(&place, "v-lock-0000000003");
    CHECK_INT(place.first_reader, ==, 1);
    place = place_of(NODES("a-__READ__0000000001", "w-__WRIT__0000000006", "c-__READ__0000000005"),
                     "c-__READ__0000000005", SNIB_SHARED, 1);
    CHECK(place.held);
}

/* Else "place 3" would be said of the one whom a status shows as the first who waits. */
TEST(readers_who_hold_are_not_counted_as_waiters)
{
    const char *const *nodes =
        NODES("c-__READ__0000000005", "a-__READ__0000000001", "b-__READ__0000000002",
              "w-lock-0000000003", "v-lock-0000000006");
    struct snib__zk_place place = place_of(nodes, "w-lock-0000000003", SNIB_EXCLUSIVE, 1);
    CHECK_UINT(place.before, ==, 2);
    CHECK_UINT(place.holders, ==, 2);
    place = place_of(nodes, "c-__READ__0000000005", SNIB_SHARED, 1);
    CHECK_UINT(place.before, ==, 3);
    CHECK_UINT(place.holders, ==, 2);
    place = place_of(nodes, "v-lock-0000000006", SNIB_EXCLUSIVE, 1);
    CHECK_UINT(place.before, ==, 4);
    CHECK_UINT(place.holders, ==, 2);
    nodes = NODES("w-lock-0000000001", "a-__READ__0000000002", "b-__READ__0000000003");
    CHECK_UINT(place_of(nodes, "b-__READ__0000000003", SNIB_SHARED, 1).holders, ==, 1);
}

/* They see every name: a writer behind them need not be warned of Curator's. */
TEST(readers_of_our_own_are_not_taken_for_curators)
{
    static const char own[] = "_c_9f9f5111-f7b2-8a78-9f1f-1ddde5ebc2dd-__READ__0000000001";
    static const char curators[] = "_c_9f9f5111-f7b2-4a78-9f1f-1ddde5ebc2dd-__READ__0000000002";
    static const char writer[] = "w-lock-0000000003";
    CHECK_UINT(place_of(NODES(own, writer), writer, SNIB_EXCLUSIVE, 1).sorts, ==, 0);
    CHECK_UINT(place_of(NODES(own, curators, writer), writer, SNIB_EXCLUSIVE, 1).sorts, ==,
               1U << SNIB__ZK_READER);
}

TEST(so_many_of_a_counted_lock_hold_as_there_are_permits)
{
    const char *const *nodes =
        NODES("a-permits-2-0000000001", "b-permits-2-0000000002", "c-permits-2-0000000003");
    CHECK(place_of(nodes, "b-permits-2-0000000002", SNIB_COUNTED, 2).held);
    CHECK(!place_of(nodes, "c-permits-2-0000000003", SNIB_COUNTED, 2).held);
}

TEST(who_came_first_says_what_kind_of_lock_it_is)
{
    const char *const *nodes = NODES("a-permits-2-0000000001", "b-lock-0000000002");
    CHECK(place_of(nodes, "b-lock-0000000002", SNIB_EXCLUSIVE, 1).clash);
    CHECK(!place_of(nodes, "a-permits-2-0000000001", SNIB_COUNTED, 2).clash);
    nodes = NODES("a-permits-2-0000000001", "b-permits-3-0000000002");
    CHECK(place_of(nodes, "b-permits-3-0000000002", SNIB_COUNTED, 3).clash);
    CHECK(place_of(NODES("a-__READ__0000000001", "b-permits-3-0000000002"),
                   "b-permits-3-0000000002", SNIB_COUNTED, 3)
              .clash);
}

TEST(a_node_that_was_deleted_is_not_listed)
{
    struct snib__zk_place place =
        place_of(NODES("b-lock-0000000002"), "a-lock-0000000001", SNIB_EXCLUSIVE, 1);
    CHECK(!place.listed && !place.held);
}

/* ---- Data ------------------------------------------------------------------------------- */

TEST(a_request_to_give_up_is_added_once_and_keeps_who_it_is)
{
    char marked[SNIB__ZK_DATA_ROOM];
    struct snib__zk_owner owner;
    CHECK(snib__zk_owner_mark(text_of("web3:4711 nightly report"), "ops:12", marked));
    snib__zk_owner_read(&owner, text_of(marked));
    CHECK(owner.broken);
    CHECK_STR(owner.who, "web3:4711");
    CHECK_STR(owner.label, "nightly report");
    CHECK_STR(owner.breaker, "ops:12");
    CHECK(!snib__zk_owner_mark(text_of(marked), "ops:13", marked));
}

TEST(clients_of_curator_are_asked_in_their_own_words)
{
    char marked[SNIB__ZK_DATA_ROOM];
    struct snib__zk_owner owner;
    CHECK(snib__zk_owner_mark(text_of("10.0.0.7"), "ops:12", marked));
    CHECK_STR(marked, "__REVOKE__");
    snib__zk_owner_read(&owner, text_of("__REVOKE__"));
    CHECK(owner.broken);
}

TEST(a_record_has_one_size_and_comes_back)
{
    char text[SNIB__ZK_RECORD_SIZE + 1];
    struct snib__zk_record record = {.token = UINT64_MAX / 2, .sequence = 2147483647}, back;
    snib__zk_record_write(&record, text);
    CHECK_UINT(strlen(text), ==, SNIB__ZK_RECORD_SIZE);
    CHECK(snib__zk_record_read(&back, text_of(text)));
    CHECK_UINT(back.token, ==, record.token);
    CHECK_INT(back.sequence, ==, record.sequence);
    CHECK(!snib__zk_record_read(&back, text_of("")));
    CHECK(!snib__zk_record_read(&back, text_of("snib-token 00000000000000000000 0000000001")));
    CHECK(!snib__zk_record_read(&back, text_of("another text that is of just this size.....")));
}
