/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits that end when a descriptor of the caller's becomes readable: wherever the waiter stands,
 * whoever drives, and with nothing left of the attempt.
 */
#include "conformance.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

static int quiet_descriptor(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK_INT(fd, >=, 0);
    return fd;
}

static void make_readable(int fd)
{
    uint64_t one = 1;
    CHECK(write(fd, &one, sizeof one) == (ssize_t)sizeof one);
}

static snib_options stopped_by(int fd)
{
    snib_options options = SNIB_OPTIONS;
    options.stop_fd = fd;
    return options;
}

/* A thread of `client` that waits for "report" until it is stopped. */
static void start_waiter(struct actor *waiter, snib *client, const char *label, int fd)
{
    actor_prepare(waiter, "report", label);
    waiter->options.stop_fd = fd;
    actor_thread(waiter, client);
    actor_go_and_wait(waiter);
}

static void must_be_stopped(struct actor *waiter)
{
    actor_await(waiter, &waiter->settled);
    CHECK_INT(atomic_load(&waiter->code), ==, SNIB_ECANCELED);
    CHECK_INT(waiter->error.code, ==, SNIB_ECANCELED);
    CHECK(waiter->error.message[0] != '\0');
    actor_join(waiter);
}

static void must_leave_nothing(snib *client, snib_lease **held)
{
    if (with_fairness()) {
        await_waiters(client, "report", 0);
    }
    give(held);
    must_be_free(client, "report");
    await_nobody(client, "report");
}

TEST(a_readable_descriptor_ends_a_wait_in_the_engines_queue)
{
    struct actor *waiter = actors_new(1);
    snib *holder = client_here();
    snib *client = client_here();
    int fd = quiet_descriptor();
    snib_lease *lease = take(holder, "report", NULL);
    start_waiter(waiter, client, "stopped", fd);
    if (with_fairness()) {
        await_waiters(holder, "report", 1);
    }
    make_readable(fd);
    must_be_stopped(waiter);
    must_leave_nothing(holder, &lease);
    CHECK_INT(fcntl(fd, F_GETFD), >=, 0); /* still the caller's */
    close(fd);
    snib_close(client);
    snib_close(holder);
}

/* Two threads of one client; the first is at the engine and drives. */
static void stop_one_of_two(bool first)
{
    struct actor *waiters = actors_new(2);
    snib *holder = client_here();
    snib *client = client_here();
    int fd = quiet_descriptor();
    snib_lease *lease = take(holder, "report", NULL);
    start_waiter(&waiters[0], client, "first", first ? fd : -1);
    start_waiter(&waiters[1], client, "second", first ? -1 : fd);
    struct actor *stopped = &waiters[first ? 0 : 1];
    struct actor *served = &waiters[first ? 1 : 0];
    make_readable(fd);
    must_be_stopped(stopped);
    CHECK(!check_flag_is_set(&served->settled));
    give(&lease);
    actor_must_hold(served);
    must_be_held(holder, "report");
    actor_join(served);
    must_be_free(holder, "report");
    await_nobody(holder, "report");
    close(fd);
    snib_close(client);
    snib_close(holder);
}

TEST(one_in_line_behind_a_thread_that_drives_is_stopped)
{
    stop_one_of_two(false);
}

TEST(the_thread_that_drives_is_stopped_and_the_next_one_drives)
{
    stop_one_of_two(true);
}

static void end_quietly(snib_lease *lease, const snib_error *err, void *arg)
{
    (void)arg;
    CHECK(lease == NULL && err->code == SNIB_ECANCELED);
}

/* An asynchronous acquire is driven by the library's own thread, which was asleep already. */
TEST(one_who_waits_while_the_keeper_drives_is_stopped)
{
    struct actor *waiter = actors_new(1);
    snib *holder = client_here();
    snib *client = client_here();
    int fd = quiet_descriptor();
    snib_ticket ticket;
    snib_lease *lease = take(holder, "report", NULL);
    snib_lease *other = take(holder, "other", NULL);
    CHECK_INT(snib_acquire_async(&ticket, client, "other", NULL, end_quietly, NULL, NULL), ==,
              SNIB_OK);
    if (with_fairness()) {
        await_waiters(holder, "other", 1);
    }
    start_waiter(waiter, client, "stopped", fd);
    make_readable(fd);
    must_be_stopped(waiter);
    must_leave_nothing(holder, &lease);
    CHECK_INT(snib_cancel(client, ticket), ==, SNIB_OK);
    give(&other);
    close(fd);
    snib_close(client);
    snib_close(holder);
}

TEST(a_descriptor_that_is_readable_already_ends_the_wait_at_once)
{
    snib *holder = client_here();
    snib *client = client_here();
    int fd = quiet_descriptor();
    make_readable(fd);
    snib_options options = stopped_by(fd);
    snib_lease *lease = take(holder, "report", NULL);
    CHECK_INT(refused(client, "report", &options, NULL), ==, SNIB_ECANCELED);
    CHECK_INT(refused(holder, "report", &options, NULL), ==, SNIB_ECANCELED);
    must_leave_nothing(holder, &lease);
    close(fd);
    snib_close(client);
    snib_close(holder);
}

TEST(a_pipe_whose_other_end_is_closed_ends_the_wait)
{
    struct actor *waiter = actors_new(1);
    snib *client = client_here();
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    snib_lease *lease = take(client, "report", NULL);
    start_waiter(waiter, client, "stopped", ends[0]);
    close(ends[1]);
    must_be_stopped(waiter);
    must_leave_nothing(client, &lease);
    close(ends[0]);
    snib_close(client);
}

TEST(a_quiet_descriptor_changes_nothing)
{
    struct actor *waiter = actors_new(1);
    snib *client = client_here();
    int fd = quiet_descriptor();
    snib_options options = stopped_by(fd);
    snib_lease *lease = take(client, "report", &options);
    start_waiter(waiter, client, "served", fd);
    give(&lease);
    actor_must_hold(waiter);
    actor_join(waiter);
    options.wait_ms = brief_ms();
    lease = take(client, "report", NULL);
    CHECK_INT(refused(client, "report", &options, NULL), ==, SNIB_EBUSY);
    give(&lease);
    close(fd);
    snib_close(client);
}

TEST(what_cannot_be_waited_for_is_refused)
{
    static const char *const names[] = {"report", "other"};
    snib *client = client_here();
    snib_lease *leases[2];
    char path[300];
    snprintf(path, sizeof path, "%s/plain", check_tmpdir());
    int file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    int closed = fcntl(file, F_DUPFD_CLOEXEC, 500); /* a number that nobody takes meanwhile */
    CHECK(file >= 0 && closed >= 500);
    close(closed);
    const int bad[] = {closed, file, -2, INT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snib_options options = stopped_by(bad[i]);
        CHECK_INT(refused(client, "report", &options, NULL), ==, SNIB_EINVAL);
        CHECK_INT(snib_acquire_all(leases, client, names, 2, &options, NULL), ==, SNIB_EINVAL);
        CHECK(leases[0] == NULL && leases[1] == NULL);
    }
    close(file);
    must_be_free(client, "report");
    await_nobody(client, "report");
    await_nobody(client, "other");
    snib_close(client);
}

TEST(a_try_does_not_look_at_the_descriptor)
{
    snib *holder = client_here();
    snib *client = client_here();
    int fd = quiet_descriptor();
    make_readable(fd);
    snib_options options = trying(SNIB_EXCLUSIVE);
    options.stop_fd = fd;
    snib_lease *lease = take(holder, "report", &options);
    CHECK_INT(refused(client, "report", &options, NULL), ==, SNIB_EBUSY);
    give(&lease);
    close(fd);
    snib_close(client);
    snib_close(holder);
}

static void never_done(snib_lease *lease, const snib_error *err, void *arg)
{
    (void)lease;
    (void)err;
    (void)arg;
    FAIL("a refused acquire called back");
}

static void never_all_done(snib_lease *const leases[], size_t n, const snib_error *err, void *arg)
{
    (void)leases;
    (void)n;
    never_done(NULL, err, arg);
}

TEST(asynchronous_acquires_have_cancel_instead)
{
    static const char *const names[] = {"report"};
    snib *client = client_here();
    int fd = quiet_descriptor();
    snib_options options = stopped_by(fd);
    snib_ticket ticket = 1;
    snib_error error = {0};
    CHECK_INT(snib_acquire_async(&ticket, client, "report", &options, never_done, NULL, &error), ==,
              SNIB_EINVAL);
    CHECK(strstr(error.message, "snib_cancel") != NULL);
    CHECK_INT(
        snib_acquire_all_async(&ticket, client, names, 1, &options, never_all_done, NULL, &error),
        ==, SNIB_EINVAL);
    CHECK_UINT(ticket, ==, 0);
    close(fd);
    snib_close(client);
}

/* ---- Several ---------------------------------------------------------------------------- */

TEST(many_threads_of_two_clients_are_stopped_by_one_descriptor)
{
    enum { WAITERS = 40 };
    struct actor *waiters = actors_new(WAITERS);
    snib *holder = client_here();
    snib *clients[2] = {client_here(), client_here()};
    int fd = quiet_descriptor();
    snib_lease *lease = take(holder, "report", NULL);
    for (int i = 0; i < WAITERS; i++) {
        start_waiter(&waiters[i], clients[i % 2], "stopped", fd);
    }
    make_readable(fd);
    for (int i = 0; i < WAITERS; i++) {
        must_be_stopped(&waiters[i]);
    }
    must_leave_nothing(holder, &lease);
    close(fd);
    snib_close(clients[0]);
    snib_close(clients[1]);
    snib_close(holder);
}

struct several {
    snib *client;
    snib_options options;
    int code;
    struct check_flag over;
};

static void *acquire_several(void *arg)
{
    static const char *const names[] = {"ant", "bee", "cat"};
    struct several *several = arg;
    snib_lease *leases[3];
    several->code = snib_acquire_all(leases, several->client, names, 3, &several->options, NULL);
    CHECK(leases[0] == NULL && leases[1] == NULL && leases[2] == NULL);
    check_flag_set(&several->over);
    return NULL;
}

static bool is_held(void *arg)
{
    struct sights sights;
    look(arg, "ant", &sights);
    return sights.count > 0;
}

TEST(a_stopped_wait_for_several_keeps_none)
{
    static struct several several;
    pthread_t thread;
    snib *holder = client_here();
    int fd = quiet_descriptor();
    several.client = client_here();
    several.options = stopped_by(fd);
    snib_lease *lease = take(holder, "bee", NULL);
    CHECK(pthread_create(&thread, NULL, acquire_several, &several) == 0);
    CHECK(check_until(is_held, holder, PATIENCE_MS)); /* the first of them */
    if (with_fairness()) {
        await_waiters(holder, "bee", 1);
    }
    make_readable(fd);
    check_flag_wait(&several.over, PATIENCE_MS);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_INT(several.code, ==, SNIB_ECANCELED);
    must_be_free(holder, "ant");
    must_be_free(holder, "cat");
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    must_be_free(holder, "bee");
    close(fd);
    snib_close(several.client);
    snib_close(holder);
}

/* ---- Descriptors ------------------------------------------------------------------------ */

TEST(stopping_leaves_no_descriptor_behind)
{
    enum { STOPS = 100, OF_THE_CLIENT = 40 };
    (void)place();
    int fd = quiet_descriptor();
    int before = check_fd_count();
    snib *holder = client_here();
    snib *client = client_here();
    snib_options options = stopped_by(fd);
    snib_lease *lease = take(holder, "report", NULL);
    make_readable(fd);
    for (int i = 0; i < STOPS; i++) {
        CHECK_INT(refused(client, "report", &options, NULL), ==, SNIB_ECANCELED);
    }
    CHECK_INT(check_fd_count(), <, before + OF_THE_CLIENT);
    give(&lease);
    snib_close(client);
    snib_close(holder);
    CHECK_INT(check_fd_count(), ==, before);
    close(fd);
}

/* Until the process may have no more of them. */
static size_t use_up_descriptors(int *used, size_t size)
{
    size_t n = 0;
    while (n < size && (used[n] = fcntl(0, F_DUPFD_CLOEXEC, 3)) >= 0) {
        n++;
    }
    CHECK_UINT(n, <, size);
    return n;
}

TEST(too_many_descriptors_are_not_the_callers_mistake)
{
    enum { MOST = 256 };
    static int used[MOST];
    struct rlimit limit;
    snib *client = client_here();
    int fd = quiet_descriptor();
    snib_options options = stopped_by(fd);
    snib_lease *lease = take(client, "report", &options);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    struct rlimit low = {.rlim_cur = MOST, .rlim_max = limit.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    size_t n = use_up_descriptors(used, MOST);
    CHECK_INT(refused(client, "report", &options, NULL), ==, SNIB_ESYS);
    while (n > 0) {
        close(used[--n]);
    }
    give(&lease);
    must_be_free(client, "report");
    close(fd);
    snib_close(client);
}

struct bystander {
    snib *client;
    struct check_flag go;
};

static void close_and_stay(void *arg)
{
    struct bystander *bystander = arg;
    snib_close(bystander->client);
    check_flag_wait(&bystander->go, 4 * PATIENCE_MS);
}

/* The child has copies of everything, so nothing ends by being closed here. */
TEST(a_child_with_the_same_descriptors_disturbs_no_wait)
{
    struct actor *waiters = actors_new(3);
    struct bystander *bystander = check_shared(sizeof *bystander);
    snib *holder = client_here();
    snib *client = client_here();
    int first = quiet_descriptor();
    int second = quiet_descriptor();
    snib_lease *lease = take(holder, "report", NULL);
    start_waiter(&waiters[0], client, "served", first);
    start_waiter(&waiters[1], client, "stopped", second);
    bystander->client = client;
    pid_t child = check_spawn(close_and_stay, bystander);
    make_readable(second);
    must_be_stopped(&waiters[1]);
    give(&lease);
    actor_must_hold(&waiters[0]);
    actor_join(&waiters[0]);

    make_readable(first); /* nobody waits for it any more */
    lease = take(holder, "report", NULL);
    int third = quiet_descriptor();
    start_waiter(&waiters[2], client, "stopped", third);
    CHECK(!check_flag_is_set(&waiters[2].settled));
    make_readable(third);
    must_be_stopped(&waiters[2]);
    must_leave_nothing(holder, &lease);
    check_flag_set(&bystander->go);
    check_join(child, PATIENCE_MS);
    close(first);
    close(second);
    close(third);
    snib_close(client);
    snib_close(holder);
}
