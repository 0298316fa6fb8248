/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that ask an engine which does not answer: they say so, in time, once, and change nothing.
 */
#include "check.h"
#include "stage.h"

#include <snib.h>

#include <stdlib.h>

enum { PATIENCE_MS = 15000 };

static snib *open_fake(void)
{
    snib *client;
    snib_error error;
    setenv("SNIB_MODULES", TEST_MODULE_DIR, 1);
    CHECK_OK(snib_open(&client, getenv("SNIB_URL"), &error), error.message);
    return client;
}

static snib_lease *take(snib *client, const char *name)
{
    snib_lease *lease;
    snib_error error;
    CHECK_OK(snib_acquire(&lease, client, name, NULL, &error), error.message);
    return lease;
}

TEST(a_renewal_without_an_answer_leaves_the_lease_as_it_was)
{
    struct fake_state *engine = stage_fake("ttl=20s&timeout=100ms");
    snib *client = open_fake();
    snib_lease *lease = take(client, "x");
    snib_error error = {0};
    atomic_store(&engine->mute_renewals, 1);
    CHECK_INT(snib_renew(lease, 50000, &error), ==, SNIB_EUNKNOWN);
    CHECK_INT(error.code, ==, SNIB_EUNKNOWN);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    CHECK_INT(snib_left_ms(lease), <, 20000);
    CHECK_INT(snib_ttl_ms(lease), ==, 20000);
    atomic_store(&engine->mute_renewals, 0);
    CHECK_OK(snib_renew(lease, 0, &error), error.message);
    CHECK_INT(snib_ttl_ms(lease), ==, 20000);
    CHECK_OK(snib_renew(lease, 50000, &error), error.message);
    CHECK_INT(snib_ttl_ms(lease), ==, 50000);
    CHECK_OK(snib_release(&lease, &error), error.message);
    snib_close(client);
}

TEST(a_renewal_finds_that_the_lock_is_gone)
{
    struct fake_state *engine = stage_fake("ttl=20s");
    snib *client = open_fake();
    snib_lease *lease = take(client, "x");
    atomic_store(&engine->say_gone, 1);
    CHECK_INT(snib_renew(lease, 0, NULL), ==, SNIB_ELOST);
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
}

/* ---- Releases --------------------------------------------------------------------------- */

struct word {
    _Atomic int calls;
    _Atomic int code;
    struct check_flag over;
};

static void note_word(int code, const snib_error *err, void *arg)
{
    struct word *word = arg;
    CHECK(code < 0 && err != NULL && err->code == code);
    CHECK(strstr(err->message, "'x'") != NULL);
    atomic_store(&word->code, code);
    atomic_fetch_add(&word->calls, 1);
    check_flag_set(&word->over);
}

TEST(a_release_without_an_answer_is_told_as_unknown)
{
    struct fake_state *engine = stage_fake("ttl=20s&timeout=100ms");
    struct word *word = check_shared(sizeof *word);
    snib *client = open_fake();
    snib_lease *lease = take(client, "x");
    atomic_store(&engine->mute_releases, 1);
    CHECK_INT(snib_release_async(&lease, note_word, word, NULL), ==, SNIB_OK);
    check_flag_wait(&word->over, PATIENCE_MS);
    CHECK_INT(atomic_load(&word->code), ==, SNIB_EUNKNOWN);
    snib_close(client);
    CHECK_INT(atomic_load(&word->calls), ==, 1);
}

/* An engine that takes longer than it may: closing does not wait for it. */
TEST(a_release_that_is_still_under_way_when_the_client_has_closed_was_told)
{
    struct fake_state *engine = stage_fake("ttl=20s&timeout=100ms");
    struct word *word = check_shared(sizeof *word);
    snib *client = open_fake();
    snib_lease *lease = take(client, "x");
    atomic_store(&engine->delay_ms, 60000);
    CHECK_INT(snib_release_async(&lease, note_word, word, NULL), ==, SNIB_OK);
    int64_t start = check_now_ns();
    snib_close(client);
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(PATIENCE_MS));
    CHECK_INT(atomic_load(&word->calls), ==, 1);
    CHECK_INT(atomic_load(&word->code), ==, SNIB_EUNKNOWN);
}

/* ---- For a holder that is dead ---------------------------------------------------------- */

static void must_be_free(snib *client, const char *name)
{
    snib_options at_once = SNIB_OPTIONS;
    snib_lease *lease;
    snib_error error;
    at_once.wait_ms = 0;
    CHECK_OK(snib_acquire(&lease, client, name, &at_once, &error), error.message);
    CHECK_OK(snib_release(&lease, &error), error.message);
}

struct doomed {
    const char *name;
    struct check_flag held;
    char handle[SNIB_HANDLE_SIZE];
};

static void hold_and_die(void *arg)
{
    struct doomed *doomed = arg;
    snib_error error = {0};
    snib_lease *lease = take(open_fake(), doomed->name);
    CHECK_OK(snib_handle(lease, doomed->handle, sizeof doomed->handle, &error), error.message);
    check_flag_set(&doomed->held);
    check_sleep_ms(4 * PATIENCE_MS);
}

static void give_back_of_the_dead(const char *name)
{
    (void)stage_fake("ttl=60s");
    struct doomed *doomed = check_shared(sizeof *doomed);
    doomed->name = name;
    pid_t pid = check_spawn(hold_and_die, doomed);
    check_flag_wait(&doomed->held, PATIENCE_MS);
    check_kill(pid);
    snib *client = open_fake();
    snib_error error = {0};
    CHECK_OK(snib_give_back(client, doomed->handle, &error), error.message);
    must_be_free(client, name);
    CHECK_INT(snib_give_back(client, doomed->handle, &error), ==, SNIB_ELOST);
    snib_lease *lease = take(client, name);
    CHECK_INT(snib_give_back(client, doomed->handle, &error), ==, SNIB_ELOST);
    CHECK_OK(snib_verify(lease, &error), error.message); /* never a later holder's */
    CHECK_OK(snib_release(&lease, &error), error.message);
    snib_close(client);
}

TEST(a_dead_holders_lock_is_given_back_by_its_handle)
{
    give_back_of_the_dead("x");
}

TEST(a_handle_keeps_every_space_of_its_name)
{
    give_back_of_the_dead("  two spaces  before and behind ");
}

TEST(giving_back_without_an_answer_is_unknown)
{
    struct fake_state *engine = stage_fake("ttl=60s&timeout=100ms");
    char handle[SNIB_HANDLE_SIZE];
    snib *client = open_fake();
    snib *other = open_fake();
    snib_error error = {0};
    snib_lease *lease = take(client, "x");
    CHECK_OK(snib_handle(lease, handle, sizeof handle, &error), error.message);
    atomic_store(&engine->mute_releases, 1);
    CHECK_INT(snib_give_back(other, handle, &error), ==, SNIB_EUNKNOWN);
    CHECK_INT(error.code, ==, SNIB_EUNKNOWN);
    atomic_store(&engine->mute_releases, 0);
    CHECK_OK(snib_release(&lease, &error), error.message);
    snib_close(other);
    snib_close(client);
}
