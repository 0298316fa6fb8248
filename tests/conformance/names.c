/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names: every allowed one is a lock of its own and comes back as it was given; the others are
 * refused by every call that takes one.
 *
 * All odd names are held at the same time, so two that an engine confuses would show.
 */
#include "conformance.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

enum { LONGEST = 200 };

static const char *const odd_names[] = {
    "a",
    "A",
    "with space",
    " leading and trailing ",
    "a/b",
    "a%2Fb",
    "a%2fb",
    "%2F",
    "%",
    "%%",
    "a//b",
    "a/b/",
    ".",
    "..",
    "...",
    "a/../b",
    "./a",
    ".hidden",
    "-n",
    "--help",
    "{x}",
    "a{x}b",
    "x",
    "}{",
    "*",
    "[a-z]*?",
    "a:b",
    "a\\b",
    "a\"b'c`",
    "$HOME",
    "a;b|c&d",
    "#",
    "~",
    "\xc3\xa9",         /* e acute, composed */
    "e\xcc\x81",        /* the same letter, decomposed: another name */
    "\xe9\x94\x81",     /* three bytes */
    "\xf0\x9f\x94\x92", /* four bytes */
    "\xef\xbf\xbd",
    "\xef\xbb\xbfx", /* a byte order mark is part of the name */
    "NUL",
    "lock",
    "lock.lock",
    "snib:lock",
    "0",
    "00",
};
enum { ODD = sizeof odd_names / sizeof odd_names[0], LONG = 5, ALL = ODD + LONG };

/* As long as allowed: plain, differing at either end, and of bytes that engines like to escape. */
static void fill_names(char names[ALL][LONGEST + 1])
{
    for (int i = 0; i < ODD; i++) {
        snprintf(names[i], LONGEST + 1, "%s", odd_names[i]);
        if (!engine_serves(names[i])) {
            *strchr(names[i], '{') = '(';
        }
    }
    for (int i = ODD; i < ALL; i++) {
        memset(names[i], 'x', LONGEST);
        names[i][LONGEST] = '\0';
    }
    names[ODD + 1][LONGEST - 1] = 'y';
    names[ODD + 2][0] = 'y';
    memset(names[ODD + 3], '%', LONGEST);
    for (int i = 0; i < LONGEST; i += 4) {
        memcpy(names[ODD + 4] + i, "\xf0\x9f\x94\x92", 4);
    }
}

struct found {
    char (*names)[LONGEST + 1];
    int times[ALL];
    int others;
};

static int note_name(const snib_seen *seen, void *arg)
{
    struct found *found = arg;
    for (int i = 0; i < ALL; i++) {
        if (strcmp(found->names[i], seen->name) == 0) {
            found->times[i]++;
            return 0;
        }
    }
    found->others++;
    return 0;
}

TEST(odd_names_are_names_and_all_different)
{
    static char names[ALL][LONGEST + 1];
    static snib_lease *leases[ALL];
    static struct found found = {.names = names};
    snib *client = client_here();
    snib *other = client_here();
    snib_options at_once = trying(SNIB_EXCLUSIVE);
    snib_error error = {0};
    fill_names(names);
    for (int i = 0; i < ODD; i++) {
        if (!engine_serves(odd_names[i])) {
            CHECK_INT(refused(client, odd_names[i], &at_once, &error), ==, SNIB_EINVAL);
        }
    }
    for (int i = 0; i < ALL; i++) {
        leases[i] = take(client, names[i], &at_once);
    }
    for (int i = 0; i < ALL; i++) {
        CHECK_INT(refused(other, names[i], &at_once, &error), ==, SNIB_EBUSY);
        CHECK_UINT(error.holder_token, ==, snib_token(leases[i]));
    }
    CHECK_OK(snib_list(other, "", note_name, &found, &error), error.message);
    for (int i = 0; i < ALL; i++) {
        if (found.times[i] != 1) {
            FAIL("'%s' is listed %d times", names[i], found.times[i]);
        }
    }
    CHECK_INT(found.others, ==, 0);
    for (int i = 0; i < ALL; i++) {
        give(&leases[i]);
        must_be_free(other, names[i]);
    }
    snib_close(other);
    snib_close(client);
}

/* ---- Refused ---------------------------------------------------------------------------- */

static const char *const bad_names[] = {
    NULL,
    "",
    "a\nb",
    "\n",
    "a\tb",
    "\r",
    "\x01",
    "a\x1f",
    "a\x7f",
    "\x80",             /* a continuation byte alone */
    "a\xff",            /* never a byte of UTF-8 */
    "\xc3",             /* cut short */
    "\xe9\x94",         /* cut short */
    "\xf0\x9f\x94",     /* cut short */
    "\xc3(",            /* not continued */
    "\xc0\xaf",         /* '/' in two bytes */
    "\xe0\x80\xaf",     /* '/' in three */
    "\xf0\x80\x80\xaf", /* '/' in four */
    "\xc1\xbf",
    "\xed\xa0\x80",     /* a surrogate */
    "\xf4\x90\x80\x80", /* beyond U+10FFFF */
    "\xf5\x80\x80\x80",
};

static int never_seen(const snib_seen *seen, void *arg)
{
    (void)arg;
    FAIL("a bad name is shown: %s", seen->name);
}

static void never_done(snib_lease *lease, const snib_error *err, void *arg)
{
    (void)lease;
    (void)err;
    (void)arg;
    FAIL("a refused acquire called back");
}

static void must_be_refused_everywhere(snib *client, const char *name)
{
    const char *const names[] = {"good", name};
    snib_lease *out[2];
    snib_ticket ticket;
    snib_error error = {0};
    CHECK_INT(refused(client, name, NULL, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_acquire_all(out, client, names, 2, NULL, &error), ==, SNIB_EINVAL);
    CHECK(out[0] == NULL && out[1] == NULL);
    CHECK_INT(snib_acquire_async(&ticket, client, name, NULL, never_done, NULL, &error), ==,
              SNIB_EINVAL);
    CHECK_INT(snib_inspect(client, name, never_seen, NULL, &error), ==, SNIB_EINVAL);
    CHECK_INT(snib_break(client, name, 1, &error), ==, SNIB_EINVAL);
}

TEST(bad_names_are_refused_by_every_call)
{
    snib *client = client_here();
    char too_long[LONGEST + 2];
    memset(too_long, 'x', LONGEST + 1);
    too_long[LONGEST + 1] = '\0';
    must_be_refused_everywhere(client, too_long);
    for (size_t i = 0; i < sizeof bad_names / sizeof bad_names[0]; i++) {
        must_be_refused_everywhere(client, bad_names[i]);
    }
    must_be_free(client, "good");
    await_nobody(client, "good");
    snib_close(client);
}

/* ---- Paths ------------------------------------------------------------------------------ */

TEST_WHEN(a_path_also_takes_flock_on_it, on_file)
{
    char path[256];
    snprintf(path, sizeof path, "%s/a file.txt", check_tmpdir());
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    snib *client = client_here();
    snib_options at_once = trying(SNIB_EXCLUSIVE);

    CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
    CHECK_INT(refused(client, path, &at_once, NULL), ==, SNIB_EBUSY);
    CHECK(flock(fd, LOCK_UN) == 0);

    snib_lease *lease = take(client, path, &at_once);
    CHECK(flock(fd, LOCK_EX | LOCK_NB) != 0);
    CHECK(flock(fd, LOCK_SH | LOCK_NB) != 0);
    give(&lease);
    CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
    CHECK(flock(fd, LOCK_UN) == 0);

    snib_options reader = trying(SNIB_SHARED);
    lease = take(client, path, &reader);
    CHECK(flock(fd, LOCK_SH | LOCK_NB) == 0);
    CHECK(flock(fd, LOCK_EX | LOCK_NB) != 0);
    CHECK(flock(fd, LOCK_UN) == 0);
    give(&lease);
    close(fd);
    snib_close(client);
}

static void unlock_when_told(void *arg)
{
    struct actor *actor = arg;
    int fd = open(actor->name, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0);
    check_flag_set(&actor->go);
    check_flag_wait(&actor->let_go, PATIENCE_MS);
    CHECK(flock(fd, LOCK_UN) == 0);
    close(fd);
    check_flag_wait(&actor->over, PATIENCE_MS);
}

TEST_WHEN(a_path_waits_for_flock_and_is_granted, on_file)
{
    char path[200];
    snprintf(path, sizeof path, "%s/file", check_tmpdir());
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    close(fd);
    struct actor *actors = actors_new(2);
    actor_prepare(&actors[0], path, "flock");
    actor_prepare(&actors[1], path, "waiter");
    pid_t pid = check_spawn(unlock_when_told, &actors[0]);
    actor_spawn(&actors[1]);
    check_flag_wait(&actors[0].go, PATIENCE_MS);
    actor_go_and_wait(&actors[1]);
    check_flag_set(&actors[0].let_go);
    actor_must_hold(&actors[1]);
    check_flag_set(&actors[0].over); /* it unlocked and lived on; now it ends */
    check_join(pid, PATIENCE_MS);
    check_sleep_ms(50); /* the library may hear of that death, which is nothing to it any more */
    actor_let_go(&actors[1]);
    CHECK_INT(atomic_load(&actors[1].release_code), ==, SNIB_OK);
    actor_join(&actors[1]);
}
