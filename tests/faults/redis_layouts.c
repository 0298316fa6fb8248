/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thing goes wrong at the worst moment, with the layouts that other programs share: as
 * redis_faults.c has it for ours.
 */
#include "redis_world.h"

enum { TTL_MS = 1500, TIMEOUT_MS = 400 };

static struct server server;
static struct proxy proxy;
static struct overlap_log *beliefs;
static const char *layout;

static const struct overlap_grant the_lock = {.name = 1};

/* ---- Faults ----------------------------------------------------------------------------- */

static void lose_request(void)
{
    proxy_after(&proxy, PROXY_TO_SERVER, 0, PROXY_BYTES, PROXY_THEN_RESET);
}

static void lose_half_request(void)
{
    proxy_after(&proxy, PROXY_TO_SERVER, 60, PROXY_BYTES, PROXY_THEN_RESET);
}

static void lose_reply(void)
{
    proxy_after(&proxy, PROXY_TO_CLIENT, 0, PROXY_BYTES, PROXY_THEN_RESET);
}

static void lose_half_reply(void)
{
    proxy_after(&proxy, PROXY_TO_CLIENT, 7, PROXY_BYTES, PROXY_THEN_CLOSE);
}

/* Where a script has answered, or the first of two flights. */
static void lose_a_later_reply(void)
{
    proxy_after(&proxy, PROXY_TO_CLIENT, 45, PROXY_BYTES, PROXY_THEN_RESET);
}

static void swallow_requests(void)
{
    proxy_set(&proxy, PROXY_TO_SERVER, PROXY_SWALLOW, 0);
}

static void swallow_replies(void)
{
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_SWALLOW, 0);
}

static void stall_requests(void)
{
    proxy_set(&proxy, PROXY_TO_SERVER, PROXY_STALL, 0);
}

static void stall_replies(void)
{
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_STALL, 0);
}

static void cut(void)
{
    proxy_cut(&proxy, PROXY_RESET);
}

static void half_open(void)
{
    proxy_half_open(&proxy, PROXY_SERVER_SIDE, PROXY_RESET);
}

static void vanish(void)
{
    proxy_door(&proxy, PROXY_SILENT);
    proxy_half_open(&proxy, PROXY_SERVER_SIDE, PROXY_CLOSE);
}

/* It comes back without its data, and without the scripts. */
static void restart(void)
{
    server_kill(&server);
    server_start(&server);
}

typedef void fault(void);

/* ---- Scenery ---------------------------------------------------------------------------- */

static const char *url_at(int port)
{
    char parameters[120];
    snprintf(parameters, sizeof parameters, "ttl=1500ms&timeout=400ms&%s", layout);
    return url_of(port, parameters);
}

static void begin(const char *with)
{
    layout = with;
    server_redis(&server, NULL);
    proxy_start(&proxy, server.port);
    beliefs = overlap_open(1000);
}

static void heal(void)
{
    proxy_heal(&proxy);
    proxy_door(&proxy, PROXY_OPEN);
    proxy_cut(&proxy, PROXY_RESET);
}

static int64_t since_ms(int64_t start_ns)
{
    return (check_now_ns() - start_ns) / 1000000;
}

static int believe(snib_lease *lease, int64_t span_ms)
{
    struct overlap_grant grant = the_lock;
    grant.token = snib_token(lease);
    size_t belief = overlap_begin(beliefs, &grant);
    int64_t start = check_now_ns();
    int64_t left_ms;
    while ((left_ms = snib_left_ms(lease)) > 0 && since_ms(start) < span_ms) {
        overlap_deadline(beliefs, belief, check_now_ns() + left_ms * 1000000);
        check_sleep_ms(2);
    }
    overlap_end(beliefs, belief);
    return snib_state(lease);
}

static void must_come_free(void)
{
    snib *client = client_of(url_at(server.port));
    snib_options options = waiting(TTL_MS + 1500 + check_ms(1500));
    snib_lease *lease = take(client, "report", &options);
    believe(lease, 10);
    give(&lease);
    snib_close(client);
    overlap_assert(beliefs);
}

/* ---- Cases ------------------------------------------------------------------------------ */

static void acquire_meets(const char *with, fault *happen, int64_t wait_ms)
{
    begin(with);
    snib *client = client_of(url_at(proxy.port));
    snib_error error = {0};
    CHECK_INT(try_it(client, "warm", &error), ==, SNIB_OK);
    snib_options options = waiting(wait_ms);
    snib_lease *lease = NULL;
    happen();
    int64_t start = check_now_ns();
    int code = snib_acquire(&lease, client, "report", &options, &error);
    CHECK_INT(since_ms(start), <, wait_ms + 2 * TIMEOUT_MS + check_ms(1000));
    if (code == SNIB_OK) {
        believe(lease, 50);
        code = snib_release(&lease, &error);
        CHECK(code == SNIB_OK || code == SNIB_EUNKNOWN);
    } else {
        CHECK(code == SNIB_EUNKNOWN || code == SNIB_EUNREACH);
    }
    heal();
    must_come_free();
    snib_close(client);
}

static void renew_meets(const char *with, fault *happen, bool lasts)
{
    begin(with);
    struct helper *helpers = helpers_new(1, url_at(server.port), "report");
    helpers_spawn(helpers, 1);
    snib *client = client_of(url_at(proxy.port));
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers->go); /* wants it all the while */
    happen();
    int state = believe(lease, 2 * TTL_MS);
    if (lasts) {
        CHECK(state == SNIB_LOST || snib_left_ms(lease) <= 0);
        helper_must_hold(helpers);
        helper_end(helpers);
    } else {
        CHECK_INT(state, ==, SNIB_HELD);
        CHECK(!check_flag_is_set(&helpers->held));
    }
    heal();
    int code = snib_release(&lease, NULL);
    CHECK(lasts ? code == SNIB_ELOST : code == SNIB_OK || code == SNIB_EUNKNOWN);
    if (!lasts) {
        helper_must_hold(helpers);
        helper_end(helpers);
    }
    must_come_free();
    snib_close(client);
}

static void release_meets(const char *with, fault *happen, bool passes)
{
    begin(with);
    snib *client = client_of(url_at(proxy.port));
    snib_lease *lease = take(client, "report", NULL);
    happen();
    int64_t start = check_now_ns();
    int code = snib_release(&lease, NULL);
    CHECK_INT(since_ms(start), <, 2 * TIMEOUT_MS + check_ms(1000));
    CHECK(code == SNIB_OK || (!passes && code == SNIB_EUNKNOWN)); /* never ELOST */
    heal();
    must_come_free();
    snib_close(client);
}

/* The holder's lease is gone with the data: it is told, and waits for nothing. */
static void holder_meets_a_restart(const char *with)
{
    begin(with);
    snib *client = client_of(url_at(server.port));
    snib_lease *lease = take(client, "report", NULL);
    restart();
    int64_t start = check_now_ns();
    while (snib_state(lease) != SNIB_LOST) {
        CHECK_INT(since_ms(start), <, TTL_MS + check_ms(3000));
        check_sleep_ms(5);
    }
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    must_come_free(); /* the scripts are sent anew */
    snib_close(client);
}

/* Nothing new is granted without memory; what is held is kept, and given back. Without scripts it
 * is not: the server queues nothing for EXEC then. */
static void memory_is_full(const char *with)
{
    bool kept = strstr(with, "scripts=no") == NULL;
    begin(with);
    snib *client = client_of(url_at(server.port));
    snib_error error = {0};
    redisContext *raw = raw_open(server.port);
    snib_lease *lease = take(client, "report", NULL);
    raw_fill_memory(raw);
    int state = believe(lease, 2 * TTL_MS);
    CHECK(kept ? state == SNIB_HELD : snib_left_ms(lease) <= 0);
    CHECK_INT(try_it(client, "another", &error), ==, SNIB_EUNSAFE);
    CHECK_INT(snib_release(&lease, &error), ==, kept ? SNIB_OK : SNIB_ELOST);
    raw_number(raw, "CONFIG SET maxmemory 0");
    must_come_free();
    snib_close(client);
    redisFree(raw);
}

#define LAYOUT(word, with)                                                                         \
    TEST(with_##word##_a_try_meets_a_lost_request)                                                 \
    {                                                                                              \
        acquire_meets(with, lose_request, 0);                                                      \
    }                                                                                              \
    TEST(with_##word##_a_try_meets_half_a_request)                                                 \
    {                                                                                              \
        acquire_meets(with, lose_half_request, 0);                                                 \
    }                                                                                              \
    TEST(with_##word##_a_try_meets_a_lost_reply)                                                   \
    {                                                                                              \
        acquire_meets(with, lose_reply, 0);                                                        \
    }                                                                                              \
    TEST(with_##word##_a_wait_meets_a_lost_reply)                                                  \
    {                                                                                              \
        acquire_meets(with, lose_reply, 1000);                                                     \
    }                                                                                              \
    TEST(with_##word##_a_wait_meets_half_a_reply)                                                  \
    {                                                                                              \
        acquire_meets(with, lose_half_reply, 1000);                                                \
    }                                                                                              \
    TEST(with_##word##_a_wait_meets_a_later_lost_reply)                                            \
    {                                                                                              \
        acquire_meets(with, lose_a_later_reply, 1000);                                             \
    }                                                                                              \
    TEST(with_##word##_a_wait_meets_swallowed_requests)                                            \
    {                                                                                              \
        acquire_meets(with, swallow_requests, 1000);                                               \
    }                                                                                              \
    TEST(with_##word##_a_wait_meets_swallowed_replies)                                             \
    {                                                                                              \
        acquire_meets(with, swallow_replies, 1000);                                                \
    }                                                                                              \
    TEST(with_##word##_a_wait_meets_stalled_requests)                                              \
    {                                                                                              \
        acquire_meets(with, stall_requests, 1000);                                                 \
    }                                                                                              \
    TEST(with_##word##_a_wait_meets_a_cut)                                                         \
    {                                                                                              \
        acquire_meets(with, cut, 1000);                                                            \
    }                                                                                              \
    TEST(with_##word##_a_wait_meets_a_half_open_connection)                                        \
    {                                                                                              \
        acquire_meets(with, half_open, 1000);                                                      \
    }                                                                                              \
    TEST(with_##word##_a_wait_meets_a_vanished_host)                                               \
    {                                                                                              \
        acquire_meets(with, vanish, 1000);                                                         \
    }                                                                                              \
    TEST(with_##word##_a_wait_meets_a_restart)                                                     \
    {                                                                                              \
        acquire_meets(with, restart, 1000);                                                        \
    }                                                                                              \
    TEST(with_##word##_a_renewal_survives_a_lost_request)                                          \
    {                                                                                              \
        renew_meets(with, lose_request, false);                                                    \
    }                                                                                              \
    TEST(with_##word##_a_renewal_survives_a_lost_reply)                                            \
    {                                                                                              \
        renew_meets(with, lose_reply, false);                                                      \
    }                                                                                              \
    TEST(with_##word##_a_renewal_survives_a_later_lost_reply)                                      \
    {                                                                                              \
        renew_meets(with, lose_a_later_reply, false);                                              \
    }                                                                                              \
    TEST(with_##word##_a_renewal_survives_a_cut)                                                   \
    {                                                                                              \
        renew_meets(with, cut, false);                                                             \
    }                                                                                              \
    TEST(with_##word##_a_lease_ends_in_time_when_requests_are_swallowed)                           \
    {                                                                                              \
        renew_meets(with, swallow_requests, true);                                                 \
    }                                                                                              \
    TEST(with_##word##_a_lease_ends_in_time_when_replies_stall)                                    \
    {                                                                                              \
        renew_meets(with, stall_replies, true);                                                    \
    }                                                                                              \
    TEST(with_##word##_a_release_survives_a_lost_request)                                          \
    {                                                                                              \
        release_meets(with, lose_request, true);                                                   \
    }                                                                                              \
    TEST(with_##word##_a_release_whose_reply_is_lost_is_not_called_lost)                           \
    {                                                                                              \
        release_meets(with, lose_reply, true);                                                     \
    }                                                                                              \
    TEST(with_##word##_a_release_survives_a_later_lost_reply)                                      \
    {                                                                                              \
        release_meets(with, lose_a_later_reply, true);                                             \
    }                                                                                              \
    TEST(with_##word##_a_release_survives_a_cut)                                                   \
    {                                                                                              \
        release_meets(with, cut, true);                                                            \
    }                                                                                              \
    TEST(with_##word##_a_release_meets_stalled_replies)                                            \
    {                                                                                              \
        release_meets(with, stall_replies, false);                                                 \
    }                                                                                              \
    TEST(with_##word##_a_holder_learns_of_a_restart)                                               \
    {                                                                                              \
        holder_meets_a_restart(with);                                                              \
    }                                                                                              \
    TEST(with_##word##_a_lock_is_held_when_the_memory_is_full)                                     \
    {                                                                                              \
        memory_is_full(with);                                                                      \
    }

LAYOUT(plain, "layout=plain")
LAYOUT(plain_without_scripts, "layout=plain&scripts=no")
LAYOUT(redisson, "layout=redisson")
LAYOUT(redisson_rw, "layout=redisson-rw")
