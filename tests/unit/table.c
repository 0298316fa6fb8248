/* SPDX-License-Identifier: Apache-2.0 */
/* The hash table: found, walked, grown, and left without memory. */
#include "base/table.h"

#include "base/hash.h"
#include "base/list.h"

#include "check.h"

enum { THINGS = 5000 };

struct thing {
    int number;
    bool there, seen;
    struct snib__entry entry;
};

static struct thing things[THINGS];

static struct thing *thing_of(const struct snib__entry *e)
{
    return SNIB__OF(e, struct thing, entry);
}

/* Many share a hash, and more share a bucket. */
static uint64_t hash_of(int number)
{
    return number % 3 == 0 ? 48 : (uint64_t)number * 16;
}

static struct thing *find(const struct snib__table *table, int number)
{
    struct snib__entry *e = snib__table_first(table, hash_of(number));
    while (e && thing_of(e)->number != number) {
        e = snib__entry_next(e);
    }
    return e ? thing_of(e) : NULL;
}

static void add(struct snib__table *table, int number)
{
    struct thing *t = &things[number];
    t->number = number;
    t->there = true;
    CHECK(snib__table_add(table, &t->entry, hash_of(number)));
}

static void drop(struct snib__table *table, int number)
{
    things[number].there = false;
    snib__table_remove(table, &things[number].entry);
}

static void check_all(const struct snib__table *table)
{
    size_t count = 0, walked = 0;
    for (int i = 0; i < THINGS; i++) {
        things[i].seen = false;
        count += things[i].there;
        CHECK(find(table, i) == (things[i].there ? &things[i] : NULL));
    }
    CHECK_UINT(table->count, ==, count);
    for (const struct snib__entry *e = NULL; (e = snib__table_next(table, e)) != NULL; walked++) {
        CHECK(thing_of(e)->there && !thing_of(e)->seen);
        thing_of(e)->seen = true;
    }
    CHECK_UINT(walked, ==, count);
}

TEST(a_table_that_is_zeroed_is_empty)
{
    struct snib__table table = {0};
    CHECK(snib__table_first(&table, 7) == NULL);
    CHECK(snib__table_next(&table, NULL) == NULL);
    snib__table_free(&table);
}

TEST(what_is_added_is_found_and_walked_while_the_table_grows)
{
    struct snib__table table = {0};
    for (int i = 0; i < THINGS; i++) {
        add(&table, i);
        CHECK_UINT(table.room & (table.room - 1), ==, 0);
        CHECK_UINT(table.room, >=, table.count);
        if (i < 40 || i % 1000 == 0) {
            check_all(&table);
        }
    }
    check_all(&table);
    snib__table_free(&table);
    CHECK_UINT(table.count, ==, 0);
}

TEST(what_is_removed_is_gone_and_nothing_else_is)
{
    struct snib__table table = {0};
    for (int i = 0; i < 600; i++) {
        add(&table, i);
    }
    for (int i = 0; i < 600; i += 2) {
        drop(&table, i);
    }
    check_all(&table);
    for (int i = 0; i < 600; i += 4) {
        add(&table, i);
    }
    check_all(&table);
    snib__table_free(&table);
}

TEST(a_walk_may_remove_what_it_has_passed)
{
    struct snib__table table = {0};
    for (int i = 0; i < 300; i++) {
        add(&table, i);
    }
    const struct snib__entry *e = snib__table_next(&table, NULL);
    int left = 0;
    while (e) {
        const struct snib__entry *next = snib__table_next(&table, e);
        if (thing_of(e)->number % 5 != 0) {
            drop(&table, thing_of(e)->number);
        } else {
            left++;
        }
        e = next;
    }
    CHECK_INT(left, ==, 60);
    check_all(&table);
    snib__table_free(&table);
}

TEST(a_hash_of_text_is_that_of_its_bytes)
{
    static const char text[] = "a/b";
    CHECK_UINT(snib__hash_text(text), ==, snib__hash_bytes(SNIB__HASH_START, text, 3));
    CHECK_UINT(snib__hash_text(""), ==, SNIB__HASH_START);
    CHECK_UINT(snib__hash_text("a"), ==, 0xaf63dc4c8601ec8cULL); /* as published for FNV-1a */
    CHECK_UINT(snib__hash_text("ab"), !=, snib__hash_text("ba"));
}
