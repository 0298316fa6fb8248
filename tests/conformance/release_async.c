/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving back without waiting, with a word when it is over: exactly one, and a true one.
 */
#include "conformance.h"

#include <stdio.h>

struct word {
    int fd; /* of snib_events; -1: callbacks come by themselves */
    snib *client;
    pthread_t caller;
    _Atomic int calls;
    _Atomic int code;
    struct check_flag over;
};

static void note_word(int code, const snib_error *err, void *arg)
{
    struct word *word = arg;
    CHECK((code == SNIB_OK) == (err == NULL));
    CHECK(err == NULL || (err->code == code && err->message[0] != '\0'));
    if (word->fd >= 0) {
        CHECK(pthread_equal(pthread_self(), word->caller));
    }
    atomic_store(&word->code, code);
    CHECK_INT(atomic_fetch_add(&word->calls, 1), ==, 0);
    check_flag_set(&word->over);
}

static struct word *new_word(snib *client)
{
    struct word *word = check_shared(sizeof *word);
    word->client = client;
    word->fd = -1;
    word->caller = pthread_self();
    return word;
}

static void give_async(snib_lease **lease, struct word *word)
{
    snib_error error = {0};
    CHECK_OK(snib_release_async(lease, note_word, word, &error), error.message);
    CHECK(*lease == NULL);
}

static bool is_over(void *arg)
{
    struct word *word = arg;
    if (word->fd >= 0 && readable(word->fd, 0)) {
        CHECK_INT(snib_dispatch(word->client, 0), >=, 0);
    }
    return check_flag_is_set(&word->over);
}

static int await_word(struct word *word)
{
    CHECK(check_until(is_over, word, PATIENCE_MS));
    return atomic_load(&word->code);
}

TEST(the_lock_is_free_when_an_asynchronous_release_is_told)
{
    snib *client = client_here();
    snib *other = client_here();
    snib_lease *lease = take(client, "report", NULL);
    struct word *word = new_word(client);
    give_async(&lease, word);
    CHECK_INT(await_word(word), ==, SNIB_OK);
    snib_options at_once = trying(SNIB_EXCLUSIVE);
    snib_lease *next = take(other, "report", &at_once);
    give(&next);
    snib_close(client);
    snib_close(other);
    CHECK_INT(atomic_load(&word->calls), ==, 1);
}

TEST(a_release_is_told_inside_dispatch)
{
    snib *client = client_here();
    struct word *word = new_word(client);
    CHECK_INT(snib_events(client, &word->fd, NULL), ==, SNIB_OK);
    snib_lease *lease = take(client, "report", NULL);
    give_async(&lease, word);
    CHECK(readable(word->fd, PATIENCE_MS));
    CHECK_INT(atomic_load(&word->calls), ==, 0);
    CHECK_INT(snib_dispatch(client, 0), ==, 1);
    CHECK_INT(atomic_load(&word->calls), ==, 1);
    CHECK_INT(atomic_load(&word->code), ==, SNIB_OK);
    CHECK_INT(snib_dispatch(client, 0), ==, 0);
    snib_close(client);
}

TEST(an_asynchronous_release_tells_of_a_loss)
{
    static struct diary diary;
    snib *client = client_here();
    snib_options options = trying(SNIB_EXCLUSIVE);
    options.max_hold_ms = brief_hold_ms();
    options.on_event = diary_note;
    options.arg = &diary;
    snib_lease *lease = take(client, "report", &options);
    check_flag_wait(&diary.seen[SNIB_LOST], PATIENCE_MS);
    snib_lease *next = take(client, "report", NULL);
    struct word *word = new_word(client);
    give_async(&lease, word);
    CHECK_INT(await_word(word), ==, SNIB_ELOST);
    CHECK_INT(snib_verify(next, NULL), ==, SNIB_OK); /* spared */
    give(&next);
    snib_close(client);
    CHECK_INT(atomic_load(&word->calls), ==, 1);
}

TEST(a_release_that_is_not_the_last_is_told_at_once)
{
    static const char owner;
    snib *client = client_here();
    snib *other = client_here();
    snib_options mine = owned(&owner, SNIB_EXCLUSIVE);
    snib_lease *first = take(client, "report", &mine);
    snib_lease *second = take(client, "report", &mine);
    struct word *words[2] = {new_word(client), new_word(client)};
    give_async(&first, words[0]);
    CHECK_INT(await_word(words[0]), ==, SNIB_OK);
    must_be_held(other, "report");
    CHECK_INT(snib_verify(second, NULL), ==, SNIB_OK);
    give_async(&second, words[1]);
    CHECK_INT(await_word(words[1]), ==, SNIB_OK);
    must_be_free(other, "report");
    snib_close(client);
    snib_close(other);
}

TEST(without_a_lease_or_a_function_nothing_is_released)
{
    snib *client = client_here();
    snib_lease *none = NULL;
    snib_lease *lease = take(client, "report", NULL);
    CHECK_INT(snib_release_async(NULL, note_word, NULL, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_release_async(&none, note_word, NULL, NULL), ==, SNIB_EINVAL);
    CHECK_INT(snib_release_async(&lease, NULL, NULL, NULL), ==, SNIB_EINVAL);
    CHECK(lease != NULL);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    snib_close(client);
}

/* ---- Close ------------------------------------------------------------------------------ */

static void close_after_release(bool events)
{
    enum { LEASES = 20 };
    snib *client = client_here();
    snib *other = client_here();
    struct word *words[LEASES];
    snib_lease *leases[LEASES];
    char name[24];
    int fd = -1;
    if (events) {
        CHECK_INT(snib_events(client, &fd, NULL), ==, SNIB_OK);
    }
    for (int i = 0; i < LEASES; i++) {
        snprintf(name, sizeof name, "report %d", i);
        leases[i] = take(client, name, NULL);
        words[i] = new_word(client);
    }
    for (int i = 0; i < LEASES; i++) {
        give_async(&leases[i], words[i]);
    }
    snib_close(client);
    for (int i = 0; i < LEASES; i++) {
        CHECK_INT(atomic_load(&words[i]->calls), ==, 1);
        CHECK_INT(atomic_load(&words[i]->code), ==, SNIB_OK);
        snprintf(name, sizeof name, "report %d", i);
        must_be_free(other, name);
    }
    snib_close(other);
}

TEST(closing_waits_for_the_word_of_every_release)
{
    close_after_release(false);
    close_after_release(true);
}

static void release_after_close(bool events)
{
    snib *client = client_here();
    struct word *word = new_word(client);
    snib_error error = {0};
    int fd;
    if (events) {
        CHECK_INT(snib_events(client, &fd, NULL), ==, SNIB_OK);
    }
    snib_lease *lease = take(client, "report", NULL);
    snib_close(client);
    CHECK_INT(snib_release_async(&lease, note_word, word, &error), ==, SNIB_ESTATE);
    CHECK(strstr(error.message, "closed") != NULL);
    CHECK(lease != NULL);
    give(&lease);
    CHECK_INT(atomic_load(&word->calls), ==, 0);
}

/* After snib_close nothing comes. */
TEST(after_the_close_a_lease_is_released_without_a_word)
{
    release_after_close(false);
    release_after_close(true);
}

/* ---- From inside of a callback ---------------------------------------------------------- */

static void release_granted(snib_lease *lease, const snib_error *err, void *arg)
{
    CHECK_OK(err != NULL ? err->code : SNIB_OK, err != NULL ? err->message : "");
    give_async(&lease, arg);
}

TEST(a_callback_may_release_without_waiting)
{
    snib *client = client_here();
    struct word *word = new_word(client);
    snib_ticket ticket;
    CHECK_INT(snib_acquire_async(&ticket, client, "report", NULL, release_granted, word, NULL), ==,
              SNIB_OK);
    CHECK_INT(await_word(word), ==, SNIB_OK);
    must_be_free(client, "report");
    snib_close(client);
    CHECK_INT(atomic_load(&word->calls), ==, 1);
}

struct listener {
    struct check_flag ready;
    snib_lease *lease;
    struct word *word;
};

static void release_lost(const snib_event *event, void *arg)
{
    struct listener *listener = arg;
    if (event->state == SNIB_LOST) {
        check_flag_wait(&listener->ready, PATIENCE_MS);
        give_async(&listener->lease, listener->word);
    }
}

TEST(an_event_may_release_its_own_lease_without_waiting)
{
    static struct listener listener;
    snib *client = client_here();
    snib_options options = trying(SNIB_EXCLUSIVE);
    options.max_hold_ms = brief_hold_ms();
    options.on_event = release_lost;
    options.arg = &listener;
    listener.word = new_word(client);
    listener.lease = take(client, "report", &options);
    check_flag_set(&listener.ready);
    CHECK_INT(await_word(listener.word), ==, SNIB_ELOST);
    snib_close(client);
    CHECK_INT(atomic_load(&listener.word->calls), ==, 1);
}

/* What is passed on inside of the process is over for the one who gave it. */
TEST(a_lock_that_goes_to_the_next_thread_is_told_as_released)
{
    struct actor *waiters = actors_new(3);
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    for (int i = 0; i < 3; i++) {
        actor_prepare(&waiters[i], "report", "");
        waiters[i].at_once = true;
        actor_thread(&waiters[i], client);
        actor_go_and_wait(&waiters[i]);
    }
    struct word *word = new_word(client);
    give_async(&lease, word);
    CHECK_INT(await_word(word), ==, SNIB_OK);
    for (int i = 0; i < 3; i++) {
        actor_must_hold(&waiters[i]);
        actor_join(&waiters[i]);
    }
    must_be_free(client, "report");
    snib_close(client);
    CHECK_INT(atomic_load(&word->calls), ==, 1);
}
