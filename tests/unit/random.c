/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes: of any length, other ones in a forked child; and the spread of a pause. */
#include "base/random.h"

#include "base/clock.h"

#include "check.h"

#include <pthread.h>
#include <unistd.h>

enum { DRAWS = 2000 };

static bool all_zero(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i]) {
            return false;
        }
    }
    return true;
}

TEST(random_bytes_of_any_length_fill_what_was_asked_and_no_more)
{
    unsigned char bytes[602];
    for (size_t size = 0; size <= 600; size += size < 20 ? 1 : 29) {
        memset(bytes, 0, sizeof bytes);
        snib__random(bytes + 1, size);
        CHECK(bytes[0] == 0 && bytes[size + 1] == 0);
        CHECK(size < 8 || !all_zero(bytes + 1 + size - 8, 8));
    }
}

TEST(random_ids_do_not_repeat)
{
    static uint64_t drawn[DRAWS];
    for (int i = 0; i < DRAWS; i++) {
        snib__random(&drawn[i], sizeof drawn[i]);
        for (int k = 0; k < i; k++) {
            CHECK_UINT(drawn[i], !=, drawn[k]);
        }
    }
}

struct ids {
    uint64_t parent[8], child[8];
};

static void draw(uint64_t ids[8])
{
    for (int i = 0; i < 8; i++) {
        snib__random(&ids[i], sizeof ids[i]);
    }
}

static void draw_in_child(void *arg)
{
    draw(((struct ids *)arg)->child);
}

TEST(a_forked_child_draws_other_numbers_than_its_parent)
{
    struct ids *ids = check_shared(sizeof *ids);
    uint64_t first;
    snib__random(&first, sizeof first); /* from here on there is a stock to inherit */
    pid_t child = check_spawn(draw_in_child, ids);
    draw(ids->parent);
    check_join(child, 10000);
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 8; k++) {
            CHECK_UINT(ids->parent[i], !=, ids->child[k]);
        }
    }
}

static void *draw_in_thread(void *arg)
{
    draw(arg);
    return NULL;
}

TEST(threads_draw_from_stocks_of_their_own)
{
    uint64_t here[8], there[8];
    pthread_t thread;
    draw(here);
    CHECK_INT(pthread_create(&thread, NULL, draw_in_thread, there), ==, 0);
    CHECK_INT(pthread_join(thread, NULL), ==, 0);
    for (int i = 0; i < 8; i++) {
        CHECK_UINT(here[i], !=, there[i]);
    }
}

/* ---- Jitter ----------------------------------------------------------------------------- */

static unsigned char source_byte;

static void constant_source(void *out, size_t size)
{
    memset(out, source_byte, size);
}

TEST(jitter_is_between_three_and_five_quarters)
{
    int64_t span = 1000 * SNIB__MS, least = SNIB__NEVER, most = 0;
    for (int i = 0; i < 10000; i++) {
        int64_t pause = snib__jitter(span);
        least = pause < least ? pause : least;
        most = pause > most ? pause : most;
    }
    CHECK_INT(least, >=, span * 3 / 4);
    CHECK_INT(most, <=, span * 5 / 4);
    CHECK_INT(least, <, span * 76 / 100); /* and all of it is used */
    CHECK_INT(most, >, span * 124 / 100);
    CHECK_INT(snib__jitter(0), ==, 0);
}

TEST(jitter_reaches_its_ends_and_not_beyond)
{
    snib__random_replace(constant_source);
    source_byte = 0;
    CHECK_INT(snib__jitter(1000), ==, 750);
    source_byte = 0xff;
    CHECK_INT(snib__jitter(1000), ==, 1250);
    CHECK_INT(snib__jitter(3), ==, 4); /* 3 - 3 / 4 + 1 */
    snib__random_replace(NULL);
}
