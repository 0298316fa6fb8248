/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to keys and back.
 */
#include "check.h"
#include "engines/etcd/keys.h"

static ProtobufCBinaryData bytes(const char *text)
{
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)(uintptr_t)text};
}

static void must_come_back(const char *name)
{
    char base[ETCD_BASE_MAX], key[ETCD_KEY_MAX], again[SNIB__NAME_MAX + 1];
    size_t size;
    etcd_key_base(base, "locks/", name);
    etcd_key(key, base, SNIB_EXCLUSIVE, 1, 0x1234);
    ProtobufCBinaryData data = bytes(key);
    CHECK(etcd_key_name(again, &size, "locks/", &data));
    CHECK_STR(again, name);
    CHECK_UINT(size, ==, strlen(base));
}

TEST(every_name_comes_back_from_its_key)
{
    char longest[SNIB__NAME_MAX + 1];
    must_come_back("report");
    must_come_back("a/b");
    must_come_back("100%");
    must_come_back("%2F");
    must_come_back("//");
    must_come_back("\xc3\xa4 b");
    memset(longest, '/', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    must_come_back(longest);
}

TEST(the_note_of_a_last_token_is_no_contender_of_any_lock)
{
    static const char *const names[] = {"@last", "%last", "last", "", "cafe"};
    char note[ETCD_BASE_MAX], base[ETCD_BASE_MAX], name[SNIB__NAME_MAX + 1];
    unsigned permits;
    size_t size;
    etcd_key_last(note, "locks/", "cafe");
    ProtobufCBinaryData data = bytes(note);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        etcd_key_base(base, "locks/", names[i]);
        CHECK_INT(etcd_key_class(&data, base, &permits), ==, ETCD_ALIEN);
    }
    if (etcd_key_name(name, &size, "locks/", &data)) { /* what a list would take it for */
        etcd_key_base(base, "locks/", name);
        CHECK_INT(etcd_key_class(&data, base, &permits), ==, ETCD_ALIEN);
    }
}

TEST(an_exclusive_key_is_that_of_go)
{
    char base[ETCD_BASE_MAX], end[ETCD_BASE_MAX], key[ETCD_KEY_MAX];
    etcd_key_base(base, "", "name");
    etcd_key_end(end, base);
    CHECK_STR(base, "name/");
    CHECK_STR(end, "name0");
    etcd_key(key, base, SNIB_EXCLUSIVE, 1, 0x694d8f31ab402c07);
    CHECK_STR(key, "name/694d8f31ab402c07");
}

static enum etcd_class class_of(const char *key)
{
    unsigned permits;
    ProtobufCBinaryData data = bytes(key);
    return etcd_key_class(&data, "name/", &permits);
}

TEST(keys_below_a_name_are_told_apart)
{
    unsigned permits;
    ProtobufCBinaryData counted = bytes("name/s0042-1f");
    CHECK_INT(class_of("name/1f"), ==, ETCD_EXCLUSIVE);
    CHECK_INT(class_of("name/r1f"), ==, ETCD_SHARED);
    CHECK_INT(etcd_key_class(&counted, "name/", &permits), ==, ETCD_COUNTED);
    CHECK_UINT(permits, ==, 42);
    CHECK_INT(class_of("name/below/1f"), ==, ETCD_ALIEN);
    CHECK_INT(class_of("name/"), ==, ETCD_ALIEN);
    CHECK_INT(class_of("names/1f"), ==, ETCD_ALIEN);
}

TEST(a_value_says_what_was_written)
{
    struct etcd_value out, in = {.since_ms = 123, .ttl_ms = 30000, .owner = 0xfeedULL << 40};
    char text[ETCD_VALUE_MAX];
    strcpy(in.who, "web3:4711");
    strcpy(in.label, "nightly");
    etcd_value_write(text, &in);
    ProtobufCBinaryData data = bytes(text);
    etcd_value_read(&out, &data);
    CHECK_STR(out.who, in.who);
    CHECK_STR(out.label, in.label);
    CHECK_STR(out.broken, "");
    CHECK_INT(out.since_ms, ==, in.since_ms);
    CHECK_INT(out.ttl_ms, ==, in.ttl_ms);
    CHECK_UINT(out.owner, ==, in.owner);
}
