/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking: who holds what, since when, who waits, in which order.
 */
#include "conformance.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* `since_ms` is the wall clock before it started; a second of slack for clocks of servers. */
static void must_show(const struct sight *sight, const struct actor *actor, int place_number,
                      int64_t since_ms)
{
    char pid[32];
    snprintf(pid, sizeof pid, ":%d", (int)actor->pid);
    CHECK_STR(sight->name, actor->name);
    CHECK_STR(sight->label, actor->label);
    CHECK(strstr(sight->who, pid) != NULL);
    CHECK_INT(sight->mode, ==, actor->options.mode);
    CHECK_INT(sight->place, ==, place_number);
    if (sight->since_unix_ms != 0) {
        CHECK_INT(sight->since_unix_ms, >=, since_ms - 1000);
        CHECK_INT(sight->since_unix_ms, <=, wall_ms() + 1000);
    }
    if (place_number > 0) {
        CHECK_UINT(sight->token, ==, 0);
    } else {
        CHECK_UINT(sight->token, ==, atomic_load(&actor->token));
        CHECK(sight->left_ms == -1 || sight->left_ms > 0);
        CHECK(with_leases() || sight->left_ms == -1 || sight->left_ms == SNIB_FOREVER);
    }
}

TEST(a_free_name_shows_nobody)
{
    struct sights sights;
    snib *client = client_here();
    look(client, "report", &sights);
    CHECK_UINT(sights.count, ==, 0);
    must_be_free(client, "report");
    look(client, "report", &sights);
    CHECK_UINT(sights.count, ==, 0);
    look_all(client, "", &sights);
    CHECK_UINT(sights.count, ==, 0);
    look_all(client, NULL, &sights);
    CHECK_UINT(sights.count, ==, 0);
    snib_close(client);
}

TEST(the_holder_is_shown)
{
    struct actor *holder = actors_new(1);
    struct sights sights;
    actor_prepare(holder, "report", "nightly");
    actor_spawn(holder);
    snib *client = client_here();
    int64_t since = wall_ms();
    actor_go_and_hold(holder);
    look(client, "report", &sights);
    CHECK_UINT(sights.count, ==, 1);
    must_show(&sights.all[0], holder, 0, since);
    actor_let_go(holder);
    await_nobody(client, "report");
    actor_join(holder);
    snib_close(client);
}

TEST(a_client_sees_itself)
{
    struct sights sights;
    char pid[32];
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    look(client, "report", &sights);
    CHECK_UINT(sights.count, ==, 1);
    snprintf(pid, sizeof pid, ":%d", (int)getpid());
    CHECK(strstr(sights.all[0].who, pid) != NULL);
    CHECK_STR(sights.all[0].label, "");
    CHECK_UINT(sights.all[0].token, ==, snib_token(lease));
    give(&lease);
    look(client, "report", &sights);
    CHECK_UINT(sights.count, ==, 0);
    snib_close(client);
}

TEST_WHEN(holders_come_first_then_waiters_in_order, with_fairness)
{
    enum { ACTORS = 4 };
    struct actor *actors = actors_new(ACTORS);
    struct sights sights;
    for (int i = 0; i < ACTORS; i++) {
        char label[32];
        snprintf(label, sizeof label, "number %d", i);
        actor_prepare(&actors[i], "report", label);
        actor_spawn(&actors[i]);
    }
    snib *client = client_here();
    int64_t since = wall_ms();
    actor_go_and_hold(&actors[0]);
    for (int i = 1; i < ACTORS; i++) {
        actor_go(&actors[i]);
        await_waiters(client, "report", (size_t)i);
    }
    for (int first = 0; first < ACTORS; first++) {
        look(client, "report", &sights);
        CHECK_UINT(sights.count, ==, (size_t)(ACTORS - first));
        for (int i = first; i < ACTORS; i++) {
            must_show(&sights.all[i - first], &actors[i], i - first, since);
        }
        actor_let_go(&actors[first]);
        if (first + 1 < ACTORS) {
            actor_must_hold(&actors[first + 1]);
            await_waiters(client, "report", (size_t)(ACTORS - first - 2));
        }
    }
    await_nobody(client, "report");
    for (int i = 0; i < ACTORS; i++) {
        actor_join(&actors[i]);
    }
    snib_close(client);
}

TEST_WHEN(all_readers_are_shown, with_shared)
{
    enum { READERS = 3 };
    struct actor *actors = actors_new(READERS);
    struct sights sights;
    for (int i = 0; i < READERS; i++) {
        actor_prepare(&actors[i], "map", "reader");
        actors[i].options.mode = SNIB_SHARED;
        actor_spawn(&actors[i]);
        actor_go_and_hold(&actors[i]);
    }
    snib *client = client_here();
    for (int left = READERS; left > 0; left--) {
        look(client, "map", &sights);
        CHECK_UINT(sights.count, ==, (size_t)left);
        CHECK_UINT(sights.waiters, ==, 0);
        for (int i = 0; i < left; i++) {
            CHECK_INT(sights.all[i].mode, ==, SNIB_SHARED);
            CHECK_STR(sights.all[i].label, "reader");
        }
        actor_join(&actors[left - 1]);
    }
    await_nobody(client, "map");
    snib_close(client);
}

TEST_WHEN(users_of_a_pool_are_shown_with_its_permits, with_counted)
{
    struct sights sights;
    snib *client = client_here();
    snib *other = client_here();
    snib_options one = counted(3, 0);
    snib_lease *first = take(client, "pool", &one);
    snib_lease *second = take(other, "pool", &one);
    look(other, "pool", &sights);
    CHECK_UINT(sights.count, ==, 2);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(sights.all[i].mode, ==, SNIB_COUNTED);
        CHECK_UINT(sights.all[i].permits, ==, 3);
        CHECK_INT(sights.all[i].place, ==, 0);
    }
    give(&first);
    give(&second);
    snib_close(other);
    snib_close(client);
}

/* ---- Lists ------------------------------------------------------------------------------ */

static size_t count_listed(snib *client, const char *prefix)
{
    struct sights sights;
    look_all(client, prefix, &sights);
    for (size_t i = 0; i < sights.count; i++) {
        CHECK(strncmp(sights.all[i].name, prefix, strlen(prefix)) == 0);
        CHECK_INT(sights.all[i].place, ==, 0);
    }
    return sights.count;
}

TEST(a_list_has_the_names_with_that_prefix)
{
    static const char *const names[] = {"job/1", "job/2", "job/20", "jobs", "other", "j%"};
    enum { NAMES = sizeof names / sizeof names[0] };
    snib_lease *leases[NAMES];
    snib *client = client_here();
    snib *other = client_here();
    for (int i = 0; i < NAMES; i++) {
        leases[i] = take(client, names[i], NULL);
    }
    must_be_free(client, "job/3"); /* was held, is not */
    CHECK_UINT(count_listed(other, ""), ==, NAMES);
    CHECK_UINT(count_listed(other, "job"), ==, 4);
    CHECK_UINT(count_listed(other, "job/"), ==, 3);
    CHECK_UINT(count_listed(other, "job/2"), ==, 2);
    CHECK_UINT(count_listed(other, "job/20"), ==, 1);
    CHECK_UINT(count_listed(other, "j%"), ==, 1);
    CHECK_UINT(count_listed(other, "%"), ==, 0);
    CHECK_UINT(count_listed(other, "nothing"), ==, 0);
    CHECK_UINT(count_listed(client, "job/"), ==, 3); /* its own, too */
    for (int i = 0; i < NAMES; i++) {
        give(&leases[i]);
    }
    CHECK_UINT(count_listed(other, ""), ==, 0);
    snib_close(other);
    snib_close(client);
}

TEST_WHEN(a_list_shows_waiters_too, with_fairness)
{
    struct actor *waiter = actors_new(1);
    struct sights sights;
    actor_prepare(waiter, "report", "waiter");
    actor_spawn(waiter);
    snib *client = client_here();
    snib_lease *lease = take(client, "report", NULL);
    actor_go(waiter);
    await_waiters(client, "report", 1);
    look_all(client, "rep", &sights);
    CHECK_UINT(sights.count, ==, 2);
    CHECK_UINT(sights.all[0].token, ==, snib_token(lease));
    CHECK_STR(sights.all[1].label, "waiter");
    CHECK_INT(sights.all[1].place, ==, 1);
    give(&lease);
    actor_join(waiter);
    snib_close(client);
}

static int stop_at_second(const snib_seen *seen, void *arg)
{
    (void)seen;
    return ++*(int *)arg == 2;
}

TEST(a_listing_ends_when_told)
{
    snib_lease *leases[5];
    snib *client = client_here();
    snib_error error = {0};
    int calls = 0;
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "job %d", i);
        leases[i] = take(client, name, NULL);
    }
    CHECK_OK(snib_list(client, "job", stop_at_second, &calls, &error), error.message);
    CHECK_INT(calls, ==, 2);
    for (int i = 0; i < 5; i++) {
        give(&leases[i]);
    }
    snib_close(client);
}

/* ---- Looking disturbs nobody ------------------------------------------------------------ */

struct busy {
    struct check_flag stop;
    _Atomic int rounds;
};

static void come_and_go(void *arg)
{
    struct busy *busy = arg;
    snib *client = client_here();
    while (!check_flag_is_set(&busy->stop)) {
        snib_lease *lease = take(client, "report", NULL);
        give(&lease);
        atomic_fetch_add(&busy->rounds, 1);
    }
    snib_close(client);
}

TEST_LIMIT(looking_does_not_disturb_those_at_work, 60)
{
    enum { LOOKS = 300, ROUNDS = 300 };
    struct busy *busy = check_shared(sizeof *busy);
    pid_t pids[3];
    struct sights sights;
    size_t held = 0;
    (void)place();
    for (int i = 0; i < 3; i++) {
        pids[i] = check_spawn(come_and_go, busy);
    }
    snib *client = client_here();
    int64_t start = check_now_ns();
    for (int i = 0; i < LOOKS || held == 0 || atomic_load(&busy->rounds) < ROUNDS; i++) {
        look(client, "report", &sights);
        CHECK_UINT(sights.count - sights.waiters, <=, 1);
        CHECK_UINT(sights.waiters, <=, 3);
        held += sights.count - sights.waiters;
        CHECK_INT(elapsed_ms(start), <, check_ms(2 * PATIENCE_MS));
    }
    check_flag_set(&busy->stop);
    for (int i = 0; i < 3; i++) {
        check_join(pids[i], PATIENCE_MS);
    }
    await_nobody(client, "report");
    snib_close(client);
}
