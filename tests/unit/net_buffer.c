/*
 * Bytes on their way out: in order, whatever is appended and taken in between.
 */
#include "check.h"
#include "net/buffer.h"

static void put(struct snib__buffer *b, char first, size_t size)
{
    CHECK(snib__buffer_reserve(b, size));
    for (size_t i = 0; i < size; i++) {
        b->bytes[b->to++] = (char)(first + (char)(i % 26));
    }
}

TEST(bytes_come_out_as_they_went_in)
{
    struct snib__buffer b = {0};
    size_t in = 0, out = 0;
    for (size_t round = 0; round < 2000; round++) {
        size_t size = round * 37 % 211;
        CHECK(snib__buffer_reserve(&b, size));
        for (size_t i = 0; i < size; i++) {
            b.bytes[b.to++] = (char)(in++ % 251);
        }
        for (size_t some = snib__buffer_left(&b) / 2; some > 0; some--) {
            CHECK_INT(b.bytes[b.from], ==, (char)(out++ % 251));
            snib__buffer_take(&b, 1);
        }
    }
    CHECK_INT(in - out, ==, snib__buffer_left(&b));
    snib__buffer_free(&b);
}

TEST(what_was_sent_makes_room_before_memory_does)
{
    struct snib__buffer b = {0};
    put(&b, 'a', 1000);
    size_t room = b.room;
    snib__buffer_take(&b, 900);
    put(&b, 'A', 900);
    CHECK_INT(b.room, ==, room);
    CHECK_INT(snib__buffer_left(&b), ==, 1000);
    CHECK_INT(b.bytes[b.from], ==, 'a' + 900 % 26);
    CHECK_INT(b.bytes[b.from + 100], ==, 'A');
    snib__buffer_free(&b);
}

TEST(a_burst_gives_its_memory_back)
{
    struct snib__buffer b = {0};
    put(&b, 'a', 10);
    snib__buffer_take(&b, 10);
    CHECK(b.bytes); /* what is used again and again is kept */
    put(&b, 'a', 1000000);
    snib__buffer_take(&b, 1000000);
    CHECK(!b.bytes);
    CHECK_INT(b.room, ==, 0);
}
