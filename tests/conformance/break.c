/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Breaking a lock: only the one that was seen, and its holder learns of it.
 *
 * snib_break asks: the holder is told, and nobody else has the lock before it has gone or its lease
 * is over. snib_seize takes it away where the engine can (trait BREAKS). Where it cannot, because
 * the kernel holds it for the process, a holder that does not listen is named.
 */
#include "conformance.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

TEST(a_break_with_another_token_touches_nobody)
{
    struct actor *holder = actors_new(1);
    actor_prepare(holder, "report", "holder");
    actor_spawn(holder);
    actor_go_and_hold(holder);
    snib *client = client_here();
    snib_error error = {0};
    uint64_t token = atomic_load(&holder->token);
    int code = token > 1 ? SNIB_ELOST : SNIB_EINVAL; /* none is 0 */
    CHECK_INT(snib_break(client, "report", token - 1, &error), ==, code);
    CHECK_INT(error.code, ==, code);
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

/* ---- Taken away ------------------------------------------------------------------------- */

TEST_WHEN(a_seized_lock_is_free_and_its_holder_learns_of_it, with_break)
{
    struct actor *holder = actors_new(1);
    actor_prepare(holder, "report", "holder");
    holder->url = place_with(SHORT_TTL);
    actor_spawn(holder);
    actor_go_and_hold(holder);
    snib *client = client_here();
    snib_error error = {0};
    CHECK_OK(snib_seize(client, "report", atomic_load(&holder->token), &error), error.message);
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

TEST_WHEN(a_seized_lock_goes_to_the_next_in_line, with_break)
{
    struct actor *actors = actors_new(2);
    actor_prepare(&actors[0], "report", "holder");
    actor_prepare(&actors[1], "report", "next");
    actor_spawn(&actors[0]);
    actor_spawn(&actors[1]);
    actor_go_and_hold(&actors[0]);
    actor_go_and_wait(&actors[1]);
    snib *client = client_here();
    snib_error error = {0};
    CHECK_OK(snib_seize(client, "report", atomic_load(&actors[0].token), &error), error.message);
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
    CHECK_INT(snib_seize(client, "report", atomic_load(&holder->token), NULL), ==, SNIB_EBUSY);
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

/* ---- Asked ------------------------------------------------------------------------------ */

static bool with_long_leases(void)
{
    return with_break() && (engine_traits() & SNIB_TRAIT_TTL_PER_LOCK) != 0;
}

enum { LINGER_MS = 300, SETTLE_MS = 1500 };

struct polite {
    struct actor *actor;
    const char *url;  /* NULL: a lease that is renewed often */
    atomic_bool gone; /* about to release */
    char why[160];
};

static void note_why(const snib_event *event, void *arg)
{
    struct polite *polite = arg;
    if (event->state == SNIB_LOST) {
        snprintf(polite->why, sizeof polite->why, "%s", event->why);
        check_flag_set(&polite->actor->diary.seen[SNIB_LOST]);
    }
}

/* A lease that is renewed often, where there are leases: so the holder learns of it soon. */
static snib *soon_told(void)
{
    return with_leases() ? client_at(place_with("ttl=3s")) : client_here();
}

/* Holds until told that it is lost, by event or by descriptor, and gives up a while later. */
static void give_up_when_asked(void *arg)
{
    struct polite *polite = arg;
    struct actor *self = polite->actor;
    snib *client = polite->url ? client_at(polite->url) : soon_told();
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
    check_sleep_ms(LINGER_MS); /* a job takes its time to stop */
    atomic_store(&polite->gone, true);
    atomic_store(&self->release_code, snib_release(&lease, NULL));
    snib_close(client);
}

static void ask_to_give_up(const char *url, bool by_event)
{
    struct polite *polite = check_shared(sizeof *polite);
    polite->actor = actors_new(1);
    polite->url = url;
    struct actor *holder = polite->actor;
    snib_error error = {0};
    actor_prepare(holder, "report", "polite");
    holder->options.on_event = by_event ? note_why : NULL;
    holder->options.arg = polite;
    pid_t pid = check_spawn(give_up_when_asked, polite);
    actor_await(holder, &holder->settled);
    snib *client = client_here();
    CHECK_OK(snib_break(client, "report", atomic_load(&holder->token), &error), error.message);
    CHECK(atomic_load(&polite->gone)); /* and not a moment earlier */
    snib_lease *lease = take(client, "report", NULL);
    CHECK_UINT(snib_token(lease), >, atomic_load(&holder->token));
    check_join(pid, PATIENCE_MS);
    CHECK_INT(atomic_load(&holder->state_at_end), ==, SNIB_LOST);
    CHECK_INT(atomic_load(&holder->release_code), ==, SNIB_ELOST);
    if (by_event) {
        char us[32];
        snprintf(us, sizeof us, ":%d", (int)getpid());
        CHECK(strstr(polite->why, us) != NULL); /* who broke it */
    }
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    snib_close(client);
}

TEST(a_holder_that_listens_by_event_is_asked_and_gives_up)
{
    ask_to_give_up(NULL, true);
}

TEST(a_holder_that_listens_by_descriptor_is_asked_and_gives_up)
{
    ask_to_give_up(NULL, false);
}

/* Its next renewal would come later than anybody's patience ends. */
TEST_WHEN(a_holder_that_listens_is_asked_at_once, with_long_leases)
{
    ask_to_give_up(place_with("ttl=60s"), true);
}

TEST_WHEN(a_holder_learns_at_once_who_took_its_lock_away, with_long_leases)
{
    struct polite *polite = check_shared(sizeof *polite);
    polite->actor = actors_new(1);
    polite->url = place_with("ttl=60s");
    struct actor *holder = polite->actor;
    snib_error error = {0};
    char us[32];
    actor_prepare(holder, "report", "polite");
    holder->options.on_event = note_why;
    holder->options.arg = polite;
    pid_t pid = check_spawn(give_up_when_asked, polite);
    actor_await(holder, &holder->settled);
    check_sleep_ms(SETTLE_MS);
    snib *client = client_here();
    CHECK_OK(snib_seize(client, "report", atomic_load(&holder->token), &error), error.message);
    check_join(pid, PATIENCE_MS);
    snprintf(us, sizeof us, ":%d", (int)getpid());
    CHECK(strstr(polite->why, us) != NULL);
    snib_close(client);
}

TEST(who_waits_has_a_broken_lock_only_when_its_holder_has_gone)
{
    struct polite *polite = check_shared(sizeof *polite);
    polite->actor = actors_new(2);
    struct actor *holder = &polite->actor[0];
    struct actor *next = &polite->actor[1];
    snib_error error = {0};
    actor_prepare(holder, "report", "polite");
    actor_prepare(next, "report", "next");
    holder->options.on_event = note_why;
    holder->options.arg = polite;
    actor_spawn(next);
    pid_t pid = check_spawn(give_up_when_asked, polite);
    actor_await(holder, &holder->settled);
    actor_go_and_wait(next);
    snib *client = client_here();
    CHECK_OK(snib_break(client, "report", atomic_load(&holder->token), &error), error.message);
    actor_must_hold(next);
    CHECK(atomic_load(&polite->gone));
    check_join(pid, PATIENCE_MS);
    actor_join(next);
    snib_close(client);
}

/* It is told, and stays: then its lease is what ends it. */
TEST_WHEN(a_holder_that_does_not_go_keeps_it_until_its_lease_is_over, with_leases)
{
    struct actor *holder = actors_new(1);
    actor_prepare(holder, "report", "stubborn");
    holder->url = place_with("ttl=6s");
    actor_spawn(holder);
    actor_go_and_hold(holder);
    snib *client = client_at(place_with("timeout=1s"));
    snib_error error = {0};
    CHECK_INT(snib_break(client, "report", atomic_load(&holder->token), &error), ==, SNIB_EBUSY);
    must_be_held(client, "report");
    actor_await(holder, &holder->diary.seen[SNIB_LOST]);
    snib_lease *lease = take(client, "report", NULL); /* nobody renews it any more */
    CHECK_UINT(snib_token(lease), >, atomic_load(&holder->token));
    give(&lease);
    actor_let_go(holder);
    actor_join(holder);
    snib_close(client);
}
