/* SPDX-License-Identifier: Apache-2.0 */
/* How far two words are apart. */
#include "base/distance.h"

#include "check.h"

static void check_distance(const char *a, const char *b, size_t expected)
{
    CHECK_UINT(snib__distance(a, b), ==, expected);
    CHECK_UINT(snib__distance(b, a), ==, expected);
}

TEST(a_distance_counts_letters_inserted_deleted_and_changed)
{
    check_distance("", "", 0);
    check_distance("redis", "redis", 0);
    check_distance("", "redis", 5);
    check_distance("redis", "reds", 1);
    check_distance("redis", "rebis", 1);
    check_distance("redis", "reddis", 1);
    check_distance("redis", "rdeis", 2); /* two letters exchanged are two changes */
    check_distance("kitten", "sitting", 3);
    check_distance("ttl", "timeout", 6);
}

TEST(words_that_are_too_long_are_infinitely_far_apart)
{
    char longest[SNIB__DISTANCE_MOST + 1], longer[SNIB__DISTANCE_MOST + 2];
    memset(longest, 'a', sizeof longest);
    memset(longer, 'a', sizeof longer);
    longest[sizeof longest - 1] = longer[sizeof longer - 1] = '\0';
    check_distance(longest, "", SNIB__DISTANCE_MOST);
    check_distance(longest, longest, 0);
    check_distance(longer, "a", SIZE_MAX);
}
