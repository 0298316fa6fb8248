/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First contact: a server that was never heard of is an error in time, with its cause; one that
 * was in contact before is waited for.
 */
#include "redis_world.h"

enum { CONNECT_MS = 600 };
#define PARAMETERS "timeout=200ms&connect=600ms"

static struct server server;
static struct proxy proxy;

static snib *client_behind(enum proxy_door door)
{
    server_redis(&server, NULL);
    proxy_start(&proxy, server.port);
    proxy_door(&proxy, door);
    return client_of(url_of(proxy.port, PARAMETERS));
}

static int64_t since_ms(int64_t start_ns)
{
    return (check_now_ns() - start_ns) / 1000000;
}

static void must_give_up_in_time(enum proxy_door door)
{
    snib *client = client_behind(door);
    snib_lease *lease = NULL;
    snib_error error = {0};
    int64_t start = check_now_ns();
    CHECK_INT(snib_acquire(&lease, client, "report", NULL, &error), ==, SNIB_EUNREACH);
    CHECK_INT(since_ms(start), <, CONNECT_MS + check_ms(2000));
    CHECK(strstr(error.message, "127.0.0.1") || strstr(error.message, "no answer"));
    snib_close(client);
}

TEST(a_server_that_accepts_and_is_mute_is_an_error_in_time)
{
    must_give_up_in_time(PROXY_DARK);
}

TEST(a_host_that_drops_packets_is_an_error_in_time)
{
    must_give_up_in_time(PROXY_SILENT);
}

struct answers {
    atomic_int unreached, others;
};

static void count_answer(snib_lease *lease, const snib_error *err, void *arg)
{
    struct answers *answers = arg;
    bool unreached = !lease && err->code == SNIB_EUNREACH;
    atomic_fetch_add(unreached ? &answers->unreached : &answers->others, 1);
}

static bool all_answered(void *arg)
{
    struct answers *answers = arg;
    return atomic_load(&answers->unreached) + atomic_load(&answers->others) == 20;
}

TEST(every_wait_ends_when_the_server_was_never_heard_of)
{
    static struct answers answers;
    snib *client = client_behind(PROXY_DARK);
    for (int i = 0; i < 20; i++) { /* at the engine, and in line behind each other */
        snib_error error = {0};
        CHECK_OK(snib_acquire_async(NULL, client, i % 2 ? "one" : "two", NULL, count_answer,
                                    &answers, &error),
                 error.message);
    }
    CHECK(check_until(all_answered, &answers, PATIENCE_MS));
    CHECK_INT(atomic_load(&answers.unreached), ==, 20);
    snib_close(client);
}

static bool granted(void *lease)
{
    return atomic_load((_Atomic(snib_lease *) *)lease) != NULL;
}

/* The first request is sent, its answer comes while nobody can read it. */
static void stop_for(int ms)
{
    struct helper *helper;
    server_redis(&server, NULL);
    helper = helpers_new(1, url_of(server.port, "connect=2s&timeout=1s"), "report");
    helpers_spawn(helper, 1);
    server_pause(&server);
    check_flag_set(&helper->go);
    check_sleep_ms(300);
    check_stop(helper->pid);
    server_resume(&server);
    check_sleep_ms(ms);
    check_cont(helper->pid);
    helper_must_hold(helper);
    helper_end(helper);
}

TEST(time_in_which_this_process_was_stopped_is_no_silence_of_the_server)
{
    stop_for(2600);
}

TEST(what_was_answered_until_just_now_is_no_silence_of_the_server)
{
    stop_for(1850); /* it goes on when the time of contact has just ended */
}

TEST(with_retry_a_server_that_is_not_there_yet_is_waited_for)
{
    static _Atomic(snib_lease *) lease;
    snib *client = client_behind(PROXY_REFUSE);
    snib_options options = SNIB_OPTIONS;
    snib_error error = {0};
    options.flags = SNIB_RETRY;
    CHECK_OK(snib_acquire_async(NULL, client, "report", &options, note_grant, &lease, &error),
             error.message);
    check_sleep_ms(2 * CONNECT_MS);
    CHECK(!granted(&lease));
    proxy_door(&proxy, PROXY_OPEN);
    CHECK(check_until(granted, &lease, PATIENCE_MS));
    snib_lease *got = atomic_load(&lease);
    give(&got);
    snib_close(client);
}

TEST(who_was_in_contact_rides_an_outage_out)
{
    static _Atomic(snib_lease *) lease;
    snib *client = client_behind(PROXY_OPEN);
    snib_error error = {0};
    CHECK_OK(try_it(client, "report", &error), error.message);
    server_kill(&server);
    CHECK_INT(try_it(client, "report", &error), <, 0); /* a try does not wait */
    CHECK_OK(snib_acquire_async(NULL, client, "report", NULL, note_grant, &lease, &error),
             error.message);
    check_sleep_ms(2 * CONNECT_MS);
    CHECK(!granted(&lease));
    server_start(&server);
    CHECK(check_until(granted, &lease, PATIENCE_MS));
    snib_lease *got = atomic_load(&lease);
    give(&got);
    snib_close(client);
}

static void hear_silence(const snib_event *event, void *arg)
{
    if (event->state == SNIB_WAITING && strstr(event->why, "trying again")) {
        check_flag_set(arg);
    }
}

TEST(silence_is_told_to_who_waits)
{
    static struct check_flag told;
    snib *client = client_behind(PROXY_DARK);
    snib_lease *lease = NULL;
    snib_error error = {0};
    snib_options options = SNIB_OPTIONS;
    options.on_event = hear_silence;
    options.arg = &told;
    CHECK_INT(snib_acquire(&lease, client, "report", &options, &error), ==, SNIB_EUNREACH);
    CHECK(check_flag_is_set(&told));
    snib_close(client);
}
