/* SPDX-License-Identifier: Apache-2.0 */
/* A program without standard input: no descriptor of the core's takes its number. */
#include "scripted_engine.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { WAIT_MS = 5000 };

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void close_standard_input(void)
{
    close(0);
    CHECK(!is_open(0));
}

TEST(a_wait_is_stopped_in_a_program_without_standard_input)
{
    int stop = eventfd(1, EFD_CLOEXEC);
    CHECK(stop > 2);
    close_standard_input();
    script.attempt = script_queue;
    snib *client = script_client("script:");
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease = NULL;
    options.stop_fd = stop;
    options.wait_ms = WAIT_MS;
    int64_t start = check_now_ns();
    CHECK_INT(snib_acquire(&lease, client, "a", &options, NULL), ==, SNIB_ECANCELED);
    CHECK_INT(script_ms_since(start), <, WAIT_MS);
    CHECK(!is_open(0));
    snib_close(client);
    CHECK(!is_open(0));
    close(stop);
}

TEST(a_closed_standard_input_as_stop_descriptor_is_refused)
{
    close_standard_input();
    script.attempt = script_queue;
    snib *client = script_client("script:");
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease = NULL;
    options.stop_fd = 0;
    options.wait_ms = 100;
    CHECK_INT(snib_acquire(&lease, client, "a", &options, NULL), ==, SNIB_EINVAL);
    snib_close(client);
    CHECK(!is_open(0));
}

static atomic_int over;

static void note_end(snib_lease *lease, const snib_error *err, void *arg)
{
    (void)err, (void)arg;
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    atomic_store(&over, 1);
}

TEST(a_loop_of_ones_own_works_without_standard_input)
{
    close_standard_input();
    snib *client = script_client("script:");
    int fd = -1;
    CHECK_INT(snib_events(client, &fd, NULL), ==, SNIB_OK);
    CHECK_INT(fd, >, 2);
    CHECK_INT(snib_acquire_async(NULL, client, "a", NULL, note_end, NULL, NULL), ==, SNIB_OK);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int64_t start = check_now_ns();
    while (!atomic_load(&over) && script_ms_since(start) < check_ms(WAIT_MS)) {
        CHECK_INT(poll(&ready, 1, check_ms(WAIT_MS)), ==, 1);
        CHECK_INT(snib_dispatch(client, 0), >=, 0);
    }
    CHECK_INT(atomic_load(&over), ==, 1);
    CHECK(!is_open(0));
    snib_close(client);
    CHECK(!is_open(0));
}

TEST(the_descriptor_of_a_lease_is_not_standard_input)
{
    close_standard_input();
    snib *client = script_client("script:");
    snib_lease *lease = script_take(client, "a");
    CHECK_INT(snib_fd(lease), >, 2);
    CHECK(!is_open(0));
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    snib_close(client);
    CHECK(!is_open(0));
}

/* Nothing wakes this engine but what the core polls beside it. */
static void sleep_long(struct snib__session *s, int64_t until_ns)
{
    do {
    } while (snib__now().boot_ns < until_ns && !snib__sleep(s, NULL, 0, until_ns));
}

static struct snib__claim *in_queue;

static void grant_once(struct snib__claim *claim)
{
    if (atomic_load(&script.attempts) == 1) {
        script_grant(claim);
    } else {
        in_queue = claim;
        script_queue(claim);
    }
}

static void free_and_pass(struct snib__claim *claim)
{
    struct snib__claim *next = in_queue;
    in_queue = NULL;
    script_say(claim, SNIB__RELEASE, SNIB__FREED);
    if (next) {
        script_grant(next);
    }
}

static void *wait_in_thread(void *arg)
{
    snib_lease *lease = script_take(arg, "a");
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    return NULL;
}

static bool somebody_queues(void *arg)
{
    snib__enter(arg);
    bool queues = in_queue != NULL;
    snib__leave(arg);
    return queues;
}

TEST(a_thread_that_sleeps_is_woken_without_standard_input)
{
    static struct snib__engine engine;
    pthread_t thread;
    engine = script_engine;
    engine.drive = sleep_long;
    script.attempt = grant_once;
    script.release = free_and_pass;
    close_standard_input();
    snib *client = script_client_of(&engine, "script:?ttl=60s");
    snib_lease *lease = script_take(client, "a");
    CHECK_INT(pthread_create(&thread, NULL, wait_in_thread, client), ==, 0);
    CHECK(check_until(somebody_queues, client, PATIENCE_MS));
    check_sleep_ms(20); /* now it sleeps */
    CHECK_INT(client->sleeper.wake_fd, >, 2);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    CHECK_INT(pthread_join(thread, NULL), ==, 0);
    snib_close(client);
    CHECK(!is_open(0));
}
