/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "engines/redis/slots.h"

static const struct snib__place here = {.host = "10.0.0.1", .port = 6379};

TEST(keys_are_in_the_slots_that_redis_says)
{
    CHECK_INT(snib__slot_of("123456789"), ==, 0x31c3);
    CHECK_INT(snib__slot_of("foo"), ==, 12182);
    CHECK_INT(snib__slot_of("snib:{foo}"), ==, 12182);
    CHECK_INT(snib__slot_of("{foo}{bar}"), ==, 12182);
    CHECK_INT(snib__slot_of("a{foo"), !=, 12182);
    CHECK_INT(snib__slot_of("{}foo"), ==, 9500); /* an empty tag is none */
    CHECK_INT(snib__slot_of(""), ==, 0);
}

TEST(every_slot_has_a_tag)
{
    for (unsigned slot = 0; slot < SNIB__SLOTS; slot += 37) {
        char tag[4];
        snib__slot_tag(tag, slot);
        CHECK_INT(strlen(tag), ==, 3);
        CHECK_INT(snib__slot_of(tag), ==, slot);
    }
}

static struct snib__slot_map map;

static bool read_map(const char *bytes)
{
    const struct snib__reply *reply = NULL;
    struct snib__reader *reader = snib__reader_new();
    CHECK(reader != NULL && snib__reader_feed(reader, bytes, strlen(bytes)));
    CHECK_INT(snib__reader_next(reader, &reply), ==, 1);
    memset(&map, 0, sizeof map);
    bool read = snib__slots_read(&map, reply, &here);
    snib__reader_free(reader);
    return read;
}

#define NODE(host, port) "*3\r\n" host ":" port "\r\n$1\r\nx\r\n"

TEST(a_map_says_who_has_which_slot)
{
    CHECK(read_map(
        "*2\r\n"
        "*4\r\n:0\r\n:99\r\n" NODE("$1\r\na\r\n", "7001")
            NODE("$1\r\nb\r\n", "7002") "*3\r\n:100\r\n:16383\r\n" NODE("$1\r\na\r\n", "7003")));
    CHECK_INT(map.count, ==, 3);
    CHECK_INT(snib__slots_covered(&map), ==, SNIB__SLOTS);
    CHECK(snib__place_is(&map.places[map.owner[99] - 1], "a", 7001));
    CHECK(snib__place_is(&map.places[map.owner[100] - 1], "a", 7003));
    CHECK(map.places[0].master && !map.places[1].master && map.places[2].master);
}

TEST(a_server_without_a_host_is_where_it_was_reached)
{
    CHECK(read_map("*1\r\n*3\r\n:0\r\n:9\r\n" NODE("$0\r\n\r\n", "7001")));
    CHECK(snib__place_is(&map.places[0], "10.0.0.1", 7001));
    CHECK(read_map("*1\r\n*3\r\n:0\r\n:9\r\n" NODE("$-1\r\n", "7001")));
    CHECK(snib__place_is(&map.places[0], "10.0.0.1", 7001));
}

TEST(slots_of_a_server_whose_name_is_not_known_have_no_owner)
{
    CHECK(read_map("*1\r\n*3\r\n:0\r\n:9\r\n" NODE("$1\r\n?\r\n", "7001")));
    CHECK_INT(snib__slots_covered(&map), ==, 0);
}

TEST(a_map_that_makes_no_sense_is_none)
{
    CHECK(read_map("*0\r\n"));
    CHECK(!read_map("$1\r\nx\r\n"));
    CHECK(!read_map(":1\r\n"));
    CHECK(!read_map("*1\r\n:1\r\n"));
    CHECK(!read_map("*1\r\n*2\r\n:0\r\n:9\r\n"));
    CHECK(!read_map("*1\r\n*3\r\n:9\r\n:0\r\n" NODE("$1\r\na\r\n", "7001")));
    CHECK(!read_map("*1\r\n*3\r\n:-1\r\n:0\r\n" NODE("$1\r\na\r\n", "7001")));
    CHECK(!read_map("*1\r\n*3\r\n:0\r\n:16384\r\n" NODE("$1\r\na\r\n", "7001")));
    CHECK(!read_map("*1\r\n*3\r\n:0\r\n:9\r\n" NODE("$1\r\na\r\n", "0")));
    CHECK(!read_map("*1\r\n*3\r\n:0\r\n:9\r\n" NODE("$1\r\na\r\n", "65536")));
    CHECK(!read_map("*1\r\n*3\r\n$1\r\na\r\n:9\r\n" NODE("$1\r\na\r\n", "7001")));
}

TEST(more_servers_than_a_map_has_room_for_make_it_none)
{
    memset(&map, 0, sizeof map);
    for (int i = 0; i < SNIB__PLACES; i++) {
        CHECK(snib__slots_set(&map, 0, &(struct snib__place){.host = "a", .port = i + 1}));
    }
    CHECK(!snib__slots_set(&map, 0, &(struct snib__place){.host = "a", .port = 60000}));
    CHECK(snib__slots_set(&map, 1, &(struct snib__place){.host = "a", .port = 1}));
}

TEST(redirections_are_read)
{
    struct snib__redirect to;
    CHECK(snib__redirect_read(&to, "MOVED 3999 127.0.0.1:6381", &here));
    CHECK(!to.asking && to.slot == 3999 && snib__place_is(&to.to, "127.0.0.1", 6381));
    CHECK(snib__redirect_read(&to, "ASK 16383 host.example:7001", &here));
    CHECK(to.asking && to.slot == 16383 && snib__place_is(&to.to, "host.example", 7001));
    CHECK(snib__redirect_read(&to, "MOVED 1 ::1:7000", &here));
    CHECK(snib__place_is(&to.to, "::1", 7000));
    CHECK(snib__redirect_read(&to, "MOVED 1 :7000", &here));
    CHECK(snib__place_is(&to.to, "10.0.0.1", 7000));
}

TEST(what_is_no_redirection_is_none)
{
    static const char *const wrong[] = {
        "",          "MOVED",       "MOVED ",         "MOVED x h:1",     "MOVED 16384 h:1",
        "MOVED 1 h", "MOVED 1 h:",  "MOVED 1 h:0",    "MOVED 1 h:65536", "MOVED -1 h:1",
        "ASKING",    "ASK 1 h:1x ", "MOVED 1 ?:7000", "ERR MOVED 1 h:1"};
    struct snib__redirect to;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (snib__redirect_read(&to, wrong[i], &here)) {
            FAIL("%s", wrong[i]);
        }
    }
}
