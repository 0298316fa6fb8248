/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine outside of libsnib that talks to a server: tests/module/tcp/, loaded by its scheme, and
 * built of nothing but what libsnib.so offers to modules.
 */
#include "check.h"
#include "lock_server.h"
#include "port.h"
#include "proxy.h"
#include "tls_link.h"

#include <snib.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LONG_MS = 10000 };

static snib *open_at(const char *host, int port, const char *parameters)
{
    char url[200];
    snib *client;
    snib_error error;
    setenv("SNIB_MODULES", TEST_MODULE_DIR, 1);
    snprintf(url, sizeof url, "tcp://%s:%d?%s", host, port, parameters);
    CHECK_OK(snib_open(&client, url, &error), error.message);
    return client;
}

static snib *open_client(int port)
{
    return open_at("127.0.0.1", port, "poll=20ms");
}

static snib_lease *acquire(snib *client, const char *name, const snib_options *options)
{
    snib_lease *lease;
    snib_error error;
    CHECK_OK(snib_acquire(&lease, client, name, options, &error), error.message);
    return lease;
}

static void release(snib_lease *lease)
{
    snib_error error;
    CHECK_OK(snib_release(&lease, &error), error.message);
}

static snib_options within(int64_t wait_ms, int64_t ttl_ms)
{
    snib_options options = SNIB_OPTIONS;
    options.wait_ms = wait_ms;
    options.ttl_ms = ttl_ms;
    return options;
}

static bool nothing_held(void *server)
{
    return atomic_load(&((struct lock_server *)server)->held) == 0;
}

/* ---- Holding ---------------------------------------------------------------------------- */

TEST(a_lock_of_a_server_is_acquired_and_released_by_a_module)
{
    struct lock_server *server = lock_server_start();
    snib *client = open_client(server->port);
    for (int i = 1; i <= 3; i++) {
        snib_lease *lease = acquire(client, "a name, with / and \xc3\xa4", NULL);
        snib_error error;
        CHECK_UINT(snib_token(lease), ==, i);
        CHECK_OK(snib_verify(lease, &error), error.message);
        release(lease);
    }
    snib_close(client);
    CHECK_INT(server->held, ==, 0);
}

TEST(the_host_is_resolved_by_work_that_may_block)
{
    struct lock_server *server = lock_server_start();
    snib *client = open_at("localhost", server->port, "poll=20ms");
    release(acquire(client, "name", NULL));
    snib_close(client);
}

TEST(two_clients_contend_and_the_second_knows_the_first)
{
    struct lock_server *server = lock_server_start();
    snib *first = open_client(server->port), *second = open_client(server->port);
    snib_options now = within(0, 0);
    snib_error error;
    snib_lease *lease = acquire(first, "name", NULL), *other;
    char pid[24];
    snprintf(pid, sizeof pid, ":%d", (int)getpid());
    CHECK_INT(snib_acquire(&other, second, "name", &now, &error), ==, SNIB_EBUSY);
    CHECK_UINT(error.holder_token, ==, snib_token(lease));
    CHECK(strstr(error.holder, pid));
    CHECK_INT(error.holder_left_ms, >, 0);
    release(lease);
    release(acquire(second, "name", &now));
    snib_close(first);
    snib_close(second);
}

struct waiter {
    int port;
    struct check_flag held, busy;
};

static void on_wait(const snib_event *event, void *arg)
{
    if (event->state == SNIB_WAITING) {
        check_flag_set(arg);
    }
}

static void wait_in_line(void *arg)
{
    struct waiter *waiter = arg;
    check_flag_wait(&waiter->held, LONG_MS);
    snib *client = open_client(waiter->port);
    snib_options options = within(check_ms(LONG_MS), 0);
    options.on_event = on_wait;
    options.arg = &waiter->busy;
    snib_lease *lease = acquire(client, "name", &options);
    CHECK_UINT(snib_token(lease), ==, 2);
    release(lease);
    snib_close(client);
}

TEST(who_waits_gets_the_lock_when_it_is_free)
{
    struct lock_server *server = lock_server_start();
    struct waiter *waiter = check_shared(sizeof *waiter);
    waiter->port = server->port;
    pid_t pid = check_spawn(wait_in_line, waiter);
    snib *client = open_client(server->port);
    snib_lease *lease = acquire(client, "name", NULL);
    check_flag_set(&waiter->held);
    check_flag_wait(&waiter->busy, LONG_MS);
    release(lease);
    check_join(pid, LONG_MS);
    snib_close(client);
}

TEST(a_lease_is_renewed_for_longer_than_it_lasts)
{
    struct lock_server *server = lock_server_start();
    snib *client = open_client(server->port);
    snib_options options = within(-1, check_ms(2000));
    snib_lease *lease = acquire(client, "name", &options);
    check_sleep_ms(check_ms(4500));
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    CHECK_INT(server->held, ==, 1);
    CHECK_INT(server->renewals, >=, 2);
    release(lease);
    snib_close(client);
}

/* ---- Losing ----------------------------------------------------------------------------- */

TEST(a_lock_that_was_taken_away_is_lost)
{
    struct lock_server *server = lock_server_start();
    snib *holder = open_client(server->port), *other = open_client(server->port);
    snib_options options = within(-1, check_ms(2000));
    snib_lease *lease = acquire(holder, "name", &options);
    snib_error error;
    CHECK_INT(snib_break(other, "name", snib_token(lease) + 1, &error), ==, SNIB_ELOST);
    CHECK_OK(snib_break(other, "name", snib_token(lease), &error), error.message);
    struct pollfd p = {.fd = snib_fd(lease), .events = POLLIN};
    CHECK_INT(poll(&p, 1, check_ms(LONG_MS)), ==, 1); /* the next renewal finds out */
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_ELOST);
    snib_close(holder);
    snib_close(other);
}

TEST(a_lock_whose_server_falls_silent_is_lost_in_time)
{
    struct lock_server *server = lock_server_start();
    snib *client = open_at("127.0.0.1", server->port, "timeout=200ms");
    snib_options options = within(-1, check_ms(800));
    snib_lease *lease = acquire(client, "name", &options);
    int64_t end_ns = check_now_ns() + check_ms(800) * 1000000LL;
    check_stop(server->pid);
    for (int64_t now_ns = check_now_ns(); snib_state(lease) != SNIB_LOST; now_ns = check_now_ns()) {
        CHECK_INT(now_ns, <, end_ns); /* read before the state: it must have been lost by then */
        check_sleep_ms(1);
    }
    check_cont(server->pid);
    snib_error error;
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_ELOST);
    snib_close(client);
}

TEST(a_cut_connection_is_made_again)
{
    struct lock_server *server = lock_server_start();
    struct proxy proxy;
    proxy_start(&proxy, server->port);
    snib *client = open_client(proxy.port);
    snib_lease *lease = acquire(client, "name", NULL);
    proxy_cut(&proxy, PROXY_RESET);
    snib_error error;
    int64_t until_ns = check_now_ns() + check_ms(LONG_MS) * 1000000LL;
    while (snib_verify(lease, &error) != SNIB_OK) {
        CHECK_INT(error.code, ==, SNIB_EUNKNOWN);
        CHECK_INT(check_now_ns(), <, until_ns);
    }
    release(lease);
    snib_close(client);
    CHECK_INT(proxy_counts(&proxy).accepted, >=, 2);
}

TEST(a_server_that_is_not_there_is_told_at_once)
{
    snib *client = open_client(port_claim());
    snib_lease *lease;
    snib_error error;
    int64_t before_ns = check_now_ns();
    CHECK_INT(snib_acquire(&lease, client, "name", NULL, &error), ==, SNIB_EUNREACH);
    CHECK_INT(check_now_ns() - before_ns, <, check_ms(2000) * 1000000LL);
    CHECK(strstr(error.message, "Connection refused"));
    snib_close(client);
}

TEST(a_module_speaks_tls)
{
    struct lock_server *server = lock_server_start();
    struct server peer;
    char forward[24], parameters[300];
    snprintf(forward, sizeof forward, "forward=%d", server->port);
    tls_serve(&peer, "good.pem", (const char *const[]){forward, NULL});
    snprintf(parameters, sizeof parameters, "ca=%s", tls_file("authority.crt"));
    snib *client = open_at("localhost", peer.port, parameters);
    for (int i = 1; i <= 3; i++) {
        snib_lease *lease = acquire(client, "name", NULL);
        CHECK_UINT(snib_token(lease), ==, i);
        release(lease);
    }
    snib_close(client);
    CHECK_INT(server->held, ==, 0);

    snib_lease *lease;
    snib_error error;
    snprintf(parameters, sizeof parameters, "ca=%s", tls_file("stranger.crt"));
    client = open_at("localhost", peer.port, parameters);
    CHECK_INT(snib_acquire(&lease, client, "name", NULL, &error), ==, SNIB_EUNREACH);
    CHECK(strstr(error.message, "tcp: lock 'name': the certificate of localhost is signed by an "));
    snib_close(client);
}

/* ---- Undoing ---------------------------------------------------------------------------- */

/* The server has granted it and nobody here heard so; then it cannot be reached until close. */
TEST(close_undoes_a_grant_whose_answer_was_lost)
{
    struct lock_server *server = lock_server_start();
    struct proxy proxy;
    proxy_start(&proxy, server->port);
    snib *client = open_at("127.0.0.1", proxy.port, "timeout=2s");
    release(acquire(client, "other", NULL)); /* so that the connection stands */
    proxy_door(&proxy, PROXY_REFUSE);
    proxy_after(&proxy, PROXY_TO_CLIENT, 0, PROXY_BYTES, PROXY_THEN_RESET);
    snib_options options = within(200, 60000);
    snib_lease *lease;
    snib_error error;
    CHECK_INT(snib_acquire(&lease, client, "name", &options, &error), ==, SNIB_EUNKNOWN);
    proxy_await_fired(&proxy, LONG_MS);
    CHECK_INT(server->held, ==, 1);
    check_sleep_ms(
        200); /* until the release, too, has found nobody: that cannot be seen from here */
    proxy_heal(&proxy);
    proxy_door(&proxy, PROXY_OPEN);
    snib_close(client);
    CHECK_INT(server->held, ==, 0);
}

TEST(a_release_without_an_answer_is_undone_without_anybody_waiting)
{
    struct lock_server *server = lock_server_start();
    struct proxy proxy;
    proxy_start(&proxy, server->port);
    snib *client = open_at("127.0.0.1", proxy.port, "timeout=1s");
    snib_options options = within(-1, 60000);
    snib_lease *lease = acquire(client, "name", &options);
    snib_error error;
    proxy_after(&proxy, PROXY_TO_SERVER, 0, PROXY_BYTES, PROXY_THEN_RESET);
    CHECK_INT(snib_release(&lease, &error), ==, SNIB_EUNKNOWN);
    CHECK(check_until(nothing_held, server, check_ms(LONG_MS)));
    snib_close(client);
}

TEST(close_is_bounded_when_nothing_can_be_undone)
{
    struct lock_server *server = lock_server_start();
    snib *client = open_at("127.0.0.1", server->port, "timeout=300ms");
    snib_options options = within(-1, 60000);
    snib_lease *lease = acquire(client, "name", &options);
    check_stop(server->pid);
    int64_t before_ns = check_now_ns();
    snib_close(client);
    CHECK_INT(check_now_ns() - before_ns, <, check_ms(3000) * 1000000LL);
    snib_release(&lease, NULL);
    check_cont(server->pid);
}

/* ---- Looking ---------------------------------------------------------------------------- */

struct sight {
    int count;
    char names[64], label[64], who[64];
    uint64_t token;
    int64_t left_ms, since_unix_ms;
};

static int see(const snib_seen *seen, void *arg)
{
    struct sight *sight = arg;
    sight->count++;
    size_t used = strlen(sight->names);
    snprintf(sight->names + used, sizeof sight->names - used, "%s;", seen->name);
    snprintf(sight->label, sizeof sight->label, "%s", seen->label);
    snprintf(sight->who, sizeof sight->who, "%s", seen->who);
    sight->token = seen->token;
    sight->left_ms = seen->left_ms;
    sight->since_unix_ms = seen->since_unix_ms;
    return 0;
}

TEST(holders_are_inspected_and_listed)
{
    struct lock_server *server = lock_server_start();
    snib *client = open_client(server->port), *other = open_client(server->port);
    struct sight one = {0}, none = {0}, some = {0}, all = {0};
    snib_options options = SNIB_OPTIONS;
    snib_error error;
    options.label = "for a \xe2\x98\x83";
    snib_lease *leases[] = {acquire(client, "a 1", &options), acquire(client, "a 2", NULL),
                            acquire(client, "b", NULL)};
    CHECK_OK(snib_inspect(other, "a 1", see, &one, &error), error.message);
    CHECK_OK(snib_inspect(other, "a", see, &none, &error), error.message);
    CHECK_OK(snib_list(other, "a", see, &some, &error), error.message);
    CHECK_OK(snib_list(other, NULL, see, &all, &error), error.message);
    CHECK_INT(one.count, ==, 1);
    CHECK_STR(one.names, "a 1;");
    CHECK_STR(one.label, "for a \xe2\x98\x83");
    CHECK_UINT(one.token, ==, snib_token(leases[0]));
    CHECK(one.left_ms > 0 && one.since_unix_ms > 0 && strchr(one.who, ':'));
    CHECK_INT(none.count, ==, 0);
    CHECK_STR(some.names, "a 1;a 2;");
    CHECK_STR(all.names, "a 1;a 2;b;");
    for (int i = 0; i < 3; i++) {
        release(leases[i]);
    }
    snib_close(client);
    snib_close(other);
}

static int note(const snib_finding *finding, void *arg)
{
    char *text = arg;
    size_t used = strlen(text);
    snprintf(text + used, 200 - used, "%d %s%s;", finding->verdict, finding->about,
             finding->remedy ? " mend" : "");
    return 0;
}

TEST(an_examination_ends_when_a_foreign_thread_rouses_the_engine)
{
    struct lock_server *server = lock_server_start();
    snib *client = open_client(server->port);
    snib_error error;
    for (int i = 0; i < 20; i++) {
        char text[200] = "";
        CHECK_OK(snib_examine(client, note, text, &error), error.message);
        CHECK_STR(text, "0 reach;0 name;");
    }
    snib_close(client);
}

TEST(a_server_that_cannot_be_reached_is_a_finding)
{
    snib *client = open_client(port_claim());
    snib_error error;
    char text[200] = "";
    CHECK_OK(snib_examine(client, note, text, &error), error.message);
    CHECK_STR(text, "2 reach mend;");
    snib_close(client);
}
