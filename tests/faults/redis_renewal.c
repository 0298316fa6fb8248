/* SPDX-License-Identifier: Apache-2.0 */
/* Renewals to another ttl whose answers are late or lost: never do two believe in one lock. */
#include "redis_world.h"

#include <pthread.h>

static struct server server;
static struct proxy proxy;

static snib *client_through_the_proxy(const char *parameters)
{
    server_redis(&server, NULL);
    proxy_start(&proxy, server.port);
    return client_of(url_of(proxy.port, parameters));
}

/* Another client gets the lock in the end; then the first one knows that it has it no longer. */
static void must_pass_on_without_two_holders(snib_lease *first)
{
    snib *other = client_of(url_of(server.port, ""));
    snib_options options = waiting(PATIENCE_MS);
    snib_lease *second = take(other, "report", &options);
    CHECK_INT(snib_left_ms(first), ==, 0);
    CHECK_INT(snib_state(first), ==, SNIB_LOST);
    CHECK_UINT(snib_token(second), >, snib_token(first));
    give(&second);
    snib_close(other);
}

TEST(a_renewal_to_a_shorter_ttl_whose_answer_is_lost_makes_no_second_holder)
{
    snib *client = client_through_the_proxy("ttl=20s&timeout=1500ms");
    snib_lease *lease = take(client, "report", NULL);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK); /* the script is known */
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_STALL, 0);
    CHECK_INT(snib_renew(lease, 300, NULL), <, 0);
    must_pass_on_without_two_holders(lease);
    proxy_heal(&proxy);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
}

struct call {
    snib_lease *lease;
    int64_t ttl_ms;
    int rc;
    pthread_t thread;
};

static void *renew_in_thread(void *arg)
{
    struct call *c = arg;
    c->rc = snib_renew(c->lease, c->ttl_ms, NULL);
    return NULL;
}

static void renew(struct call *c)
{
    CHECK_INT(pthread_create(&c->thread, NULL, renew_in_thread, c), ==, 0);
}

static bool server_has_answered(void *arg)
{
    return proxy_counts(&proxy).from_server > *(uint64_t *)arg;
}

/* The first reaches the server; the second is asked for while the first one's answer is on its
 * way, and never gets there. */
TEST(a_renewal_to_a_longer_ttl_that_is_lost_makes_no_second_holder)
{
    snib *client = client_through_the_proxy("ttl=2s&timeout=5s");
    snib_lease *lease = take(client, "report", NULL);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK); /* the script is known */
    struct call first = {.lease = lease, .ttl_ms = 2000}, second = {lease, 60000, 0, 0};
    uint64_t heard = proxy_counts(&proxy).from_server;
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_DELAY, 150);
    renew(&first);
    CHECK(check_until(server_has_answered, &heard, PATIENCE_MS));
    proxy_set(&proxy, PROXY_TO_SERVER, PROXY_STALL, 0);
    renew(&second);
    CHECK_INT(pthread_join(first.thread, NULL), ==, 0);
    CHECK_INT(first.rc, ==, SNIB_OK);
    CHECK_INT(snib_left_ms(lease), <=, 2000);
    must_pass_on_without_two_holders(lease);
    CHECK_INT(pthread_join(second.thread, NULL), ==, 0);
    CHECK_INT(second.rc, <, 0);
    proxy_heal(&proxy);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
}
