/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Breaking a lock: only the one that was seen, and its holder learns of it.
 *
 * Where the engine can take a lock away (trait BREAKS), it does. Where it cannot, because the
 * kernel holds it for the process, a holder that listens is asked, and one that does not is named.
 */
#include "conformance.h"

#include <poll.h>
#include <stdio.h>

TEST(a_break_with_another_token_touches_nobody)
{
    struct actor *holder = actors_new(1);
    actor_prepare(holder, "report", "holder");
    actor_spawn(holder);
    actor_go_and_hold(holder);
    snib *client = client_here();
    snib_error error = {0};
    uint64_t token = atomic_load(&holder->token);
    CHECK_INT(snib_break(client, "report", token - 1, &error), ==, SNIB_ELOST);
    CHECK_INT(error.code, ==, SNIB_ELOST);
    CHECK_INT(snib_break(client, "report", token + 1, NULL), ==, SNIB_ELOST);
    CHECK_INT(snib_break(client, "free", token, NULL), ==, SNIB_ELOST);
    must_be_held(client, "report");
    actor_let_go(holder);
    CHECK_INT(atomic_load(&holder->state_at_end), ==, SNIB_HELD);
    CHECK_INT(atomic_load(&holder->release_code), ==, SNIB_OK);
    CHECK_INT(snib_break(client, "report", token, NULL), ==, SNIB_ELOST); /* was, is no longer */
    actor_join(holder);
    snib_close(client);
}

TEST_WHEN(a_broken_lock_is_free_and_its_holder_learns_of_it, with_break)
{
    struct actor *holder = actors_new(1);
    actor_prepare(holder, "report", "holder");
    holder->url = place_with(SHORT_TTL);
    actor_spawn(holder);
    actor_go_and_hold(holder);
    snib *client = client_here();
    snib_error error = {0};
    CHECK_OK(snib_break(client, "report", atomic_load(&holder->token), &error), error.message);
    snib_lease *lease = take(client, "report", NULL);
    CHECK_UINT(snib_token(lease), >, atomic_load(&holder->token));
    actor_await(holder, &holder->diary.seen[SNIB_LOST]);
    CHECK_INT(diary_find(&holder->diary, SNIB_LOST)->left_ms, ==, 0); /* whatever its lease had */
    actor_let_go(holder);
    CHECK_INT(atomic_load(&holder->state_at_end), ==, SNIB_LOST);
    CHECK_INT(atomic_load(&holder->release_code), ==, SNIB_ELOST);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    actor_join(holder);
    snib_close(client);
}

TEST_WHEN(a_broken_lock_goes_to_the_next_in_line, with_break)
{
    struct actor *actors = actors_new(2);
    actor_prepare(&actors[0], "report", "holder");
    actor_prepare(&actors[1], "report", "next");
    actors[0].url = place_with(SHORT_TTL); /* it does not let go before its lease is over */
    actor_spawn(&actors[0]);
    actor_spawn(&actors[1]);
    actor_go_and_hold(&actors[0]);
    actor_go_and_wait(&actors[1]);
    snib *client = client_here();
    snib_error error = {0};
    CHECK_OK(snib_break(client, "report", atomic_load(&actors[0].token), &error), error.message);
    actor_must_hold(&actors[1]);
    actor_join(&actors[0]);
    actor_join(&actors[1]);
    snib_close(client);
}

/* ---- Where the engine cannot ------------------------------------------------------------ */

TEST_WHEN(a_holder_that_does_not_listen_keeps_it_and_is_named, without_break)
{
    struct actor *holder = actors_new(1);
    char pid[32];
    actor_prepare(holder, "report", "deaf");
    holder->options.on_event = NULL;
    actor_spawn(holder);
    actor_go_and_hold(holder);
    snib *client = client_here();
    snib_error error = {0};
    CHECK_INT(snib_break(client, "report", atomic_load(&holder->token), &error), ==, SNIB_EBUSY);
    snprintf(pid, sizeof pid, "%d", (int)holder->pid);
    if (strstr(error.message, pid) == NULL) {
        FAIL("the message should name process %s and says: %s", pid, error.message);
    }
    must_be_held(client, "report");
    actor_let_go(holder);
    CHECK_INT(atomic_load(&holder->state_at_end), ==, SNIB_HELD);
    CHECK_INT(atomic_load(&holder->release_code), ==, SNIB_OK);
    actor_join(holder);
    snib_close(client);
}

/* Holds until told that it is lost, by event or by descriptor, and gives up then. */
static void give_up_when_asked(void *arg)
{
    struct actor *self = arg;
    snib *client = client_here();
    snib_lease *lease = take(client, "report", &self->options);
    atomic_store(&self->token, snib_token(lease));
    if (self->options.on_event == NULL) {
        int fd = snib_fd(lease);
        CHECK_INT(fd, >=, 0);
        check_flag_set(&self->settled);
        CHECK(readable(fd, PATIENCE_MS));
    } else {
        check_flag_set(&self->settled);
        check_flag_wait(&self->diary.seen[SNIB_LOST], PATIENCE_MS);
    }
    atomic_store(&self->state_at_end, snib_state(lease));
    atomic_store(&self->release_code, snib_release(&lease, NULL));
    snib_close(client);
}

static void ask_to_give_up(bool by_event)
{
    struct actor *holder = actors_new(1);
    snib_error error = {0};
    actor_prepare(holder, "report", "polite");
    if (!by_event) {
        holder->options.on_event = NULL;
    }
    pid_t pid = check_spawn(give_up_when_asked, holder);
    actor_await(holder, &holder->settled);
    snib *client = client_here();
    CHECK_OK(snib_break(client, "report", atomic_load(&holder->token), &error), error.message);
    snib_lease *lease = take(client, "report", NULL);
    CHECK_UINT(snib_token(lease), >, atomic_load(&holder->token));
    check_join(pid, PATIENCE_MS);
    CHECK_INT(atomic_load(&holder->state_at_end), ==, SNIB_LOST);
    CHECK_INT(atomic_load(&holder->release_code), ==, SNIB_ELOST);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    snib_close(client);
}

TEST_WHEN(a_holder_that_listens_by_event_is_asked_and_gives_up, without_break)
{
    ask_to_give_up(true);
}

TEST_WHEN(a_holder_that_listens_by_descriptor_is_asked_and_gives_up, without_break)
{
    ask_to_give_up(false);
}
