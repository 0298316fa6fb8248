/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thing goes wrong at the worst moment: for acquire, renew, release and hand-over.
 *
 * A client behind the proxy meets the fault; another, beside it, wants the same lock. Whatever
 * happens, no call lasts longer than its bound, nobody believes in the lock together with somebody
 * else, no answer is a lie, and when all is over the lock is free within one ttl.
 */
#include "redis_world.h"

enum { TTL_MS = 2500, TIMEOUT_MS = 400 };
#define PARAMETERS "ttl=2500ms&timeout=400ms"

static struct server server;
static struct proxy proxy;
static struct overlap_log *beliefs;

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

/* All of a reply of so many bytes but its last byte. */
static void lose_last_byte_of(size_t size)
{
    size_t whole = (size_t)snprintf(NULL, 0, "$%zu\r\n", size) + size + 2;
    proxy_after(&proxy, PROXY_TO_CLIENT, whole - 1, PROXY_BYTES, PROXY_THEN_RESET);
}

static void lose_last_byte_of_a_grant(void)
{
    lose_last_byte_of(25);
}

static void lose_last_byte_of_a_renewal(void)
{
    lose_last_byte_of(25);
}

static void lose_last_byte_of_a_release(void)
{
    lose_last_byte_of(1);
}

static void lose_last_byte_of_a_message(void)
{
    static const char before[] = "*3\r\n$7\r\nmessage\r\n"
                                 "$43\r\nsnib:inbox:0123456789abcdef0123456789abcdef\r\n$55\r\n";
    size_t whole = sizeof before - 1 + 42 + strlen("snib:{report}") + 2;
    proxy_after(&proxy, PROXY_TO_CLIENT, whole - 1, PROXY_BYTES, PROXY_THEN_RESET);
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

static void dribble(void)
{
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_DRIBBLE, 20);
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

static void refuse(void)
{
    proxy_door(&proxy, PROXY_REFUSE);
    proxy_cut(&proxy, PROXY_RESET);
}

typedef void fault(void);

/* ---- Scenery ---------------------------------------------------------------------------- */

static void begin(void)
{
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

/* Believe in a lease until it is over or `span_ms` have passed; answers its state then. */
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

/* Somebody beside the fault gets it within a ttl. */
static void must_come_free(void)
{
    snib *client = client_of(url_of(server.port, PARAMETERS));
    snib_options options = waiting(TTL_MS + 1500 + check_ms(1500));
    snib_lease *lease = take(client, "report", &options);
    believe(lease, 10);
    give(&lease);
    snib_close(client);
    overlap_assert(beliefs);
    redisContext *raw = raw_open(server.port);
    raw_no_script_failed(raw);
    redisFree(raw);
}

/* ---- Acquire ---------------------------------------------------------------------------- */

static void acquire_meets(fault *happen, int64_t wait_ms)
{
    begin();
    snib *client = client_of(url_of(proxy.port, PARAMETERS));
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

#define ACQUIRE(what, how)                                                                         \
    TEST(a_try_meets_##what)                                                                       \
    {                                                                                              \
        acquire_meets(how, 0);                                                                     \
    }                                                                                              \
    TEST(a_wait_meets_##what)                                                                      \
    {                                                                                              \
        acquire_meets(how, 1000);                                                                  \
    }

ACQUIRE(a_lost_request, lose_request)
ACQUIRE(half_a_request, lose_half_request)
ACQUIRE(a_lost_reply, lose_reply)
ACQUIRE(half_a_reply, lose_half_reply)
ACQUIRE(swallowed_requests, swallow_requests)
ACQUIRE(swallowed_replies, swallow_replies)
ACQUIRE(stalled_requests, stall_requests)
ACQUIRE(stalled_replies, stall_replies)
ACQUIRE(a_dribble, dribble)
ACQUIRE(a_cut, cut)
ACQUIRE(a_half_open_connection, half_open)
ACQUIRE(a_vanished_host, vanish)
ACQUIRE(a_refusing_port, refuse)

TEST(a_try_meets_a_reply_without_its_last_byte)
{
    acquire_meets(lose_last_byte_of_a_grant, 0);
    CHECK_UINT(proxy_counts(&proxy).fired, ==, 1);
}
TEST(a_wait_meets_a_reply_without_its_last_byte)
{
    acquire_meets(lose_last_byte_of_a_grant, 1000);
    CHECK_UINT(proxy_counts(&proxy).fired, ==, 1);
}

/* ---- Renew ------------------------------------------------------------------------------ */

static bool is_sure(void *arg)
{
    return snib_state(arg) != SNIB_DOUBTFUL;
}

/* `lasts`: the fault stays for longer than the ttl, so the lease must be given up in time. */
static void renew_meets(fault *happen, bool lasts)
{
    begin();
    struct helper *helpers = helpers_new(1, url_of(server.port, PARAMETERS), "report");
    helpers_spawn(helpers, 1);
    snib *client = client_of(url_of(proxy.port, PARAMETERS));
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers->go); /* wants it all the while */
    happen();
    int state = believe(lease, 2 * TTL_MS);
    if (lasts) {
        CHECK(state == SNIB_LOST || snib_left_ms(lease) <= 0);
        helper_must_hold(helpers);
        helper_end(helpers);
    } else { /* where the machine did nothing for a while, it may just be in doubt */
        CHECK(check_until(is_sure, lease, PATIENCE_MS));
        CHECK_INT(snib_state(lease), ==, SNIB_HELD);
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

TEST(a_renewal_survives_a_lost_request)
{
    renew_meets(lose_request, false);
}
TEST(a_renewal_survives_half_a_request)
{
    renew_meets(lose_half_request, false);
}
TEST(a_renewal_survives_a_lost_reply)
{
    renew_meets(lose_reply, false);
}
TEST(a_renewal_survives_half_a_reply)
{
    renew_meets(lose_half_reply, false);
}
TEST(a_renewal_survives_a_reply_without_its_last_byte)
{
    renew_meets(lose_last_byte_of_a_renewal, false);
    CHECK_UINT(proxy_counts(&proxy).fired, ==, 1);
}
TEST(a_renewal_survives_a_cut)
{
    renew_meets(cut, false);
}
TEST(a_renewal_survives_a_half_open_connection)
{
    renew_meets(half_open, false);
}
TEST(a_lease_ends_in_time_when_requests_are_swallowed)
{
    renew_meets(swallow_requests, true);
}
TEST(a_lease_ends_in_time_when_requests_stall)
{
    renew_meets(stall_requests, true);
}
TEST(a_lease_ends_in_time_when_the_host_vanishes)
{
    renew_meets(vanish, true);
}
TEST(a_lease_ends_in_time_when_the_port_refuses)
{
    renew_meets(refuse, true);
}

/* ---- Release ---------------------------------------------------------------------------- */

static void release_meets(fault *happen, bool passes)
{
    begin();
    snib *client = client_of(url_of(proxy.port, PARAMETERS));
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

TEST(a_release_survives_a_lost_request)
{
    release_meets(lose_request, true);
}
TEST(a_release_survives_half_a_request)
{
    release_meets(lose_half_request, true);
}
TEST(a_release_whose_reply_is_lost_is_not_called_lost)
{
    release_meets(lose_reply, true);
}
TEST(a_release_survives_half_a_reply)
{
    release_meets(lose_half_reply, true);
}
TEST(a_release_survives_a_reply_without_its_last_byte)
{
    release_meets(lose_last_byte_of_a_release, true);
    CHECK_UINT(proxy_counts(&proxy).fired, ==, 1);
}
TEST(a_release_survives_a_cut)
{
    release_meets(cut, true);
}
TEST(a_release_meets_a_half_open_connection)
{
    release_meets(half_open, false);
}
TEST(a_release_meets_swallowed_requests)
{
    release_meets(swallow_requests, false);
}
TEST(a_release_meets_stalled_replies)
{
    release_meets(stall_replies, false);
}
TEST(a_release_meets_a_vanished_host)
{
    release_meets(vanish, false);
}

/* The way of messages hangs; that of commands does not. */
TEST(what_is_free_is_found_while_the_inbox_cannot_be_opened)
{
    _Atomic(snib_lease *) waited = NULL;
    snib_error error = {0};
    begin();
    snib *holder = client_of(url_of(server.port, ""));
    snib *client = client_of(url_of(proxy.port, "timeout=30s"));
    snib_lease *lease = take(holder, "report", NULL);
    CHECK_OK(try_it(client, "other", &error), error.message);
    proxy_door(&proxy, PROXY_DARK);
    CHECK_OK(snib_acquire_async(NULL, client, "report", NULL, note_grant, &waited, &error),
             error.message);
    check_sleep_ms(500);
    int64_t start = check_now_ns();
    give(&lease);
    while (!atomic_load(&waited)) {
        CHECK_INT(since_ms(start), <, 1300 + check_ms(3000));
        check_sleep_ms(5);
    }
    lease = atomic_load(&waited);
    give(&lease);
    snib_close(client);
    snib_close(holder);
}

/* ---- Looking ---------------------------------------------------------------------------- */

TEST(looking_survives_a_connection_that_ends_meanwhile)
{
    fault *const faults[] = {lose_request, lose_reply, lose_half_reply, cut};
    begin();
    snib *holder = client_of(url_of(server.port, ""));
    snib *client = client_of(url_of(proxy.port, "timeout=5s"));
    redisContext *raw = raw_open(server.port);
    snib_lease *leases[200];
    for (int i = 0; i < 200; i++) {
        char name[24];
        snprintf(name, sizeof name, "many/%d", i);
        leases[i] = take(holder, name, NULL);
    }
    for (int i = 0; i < 2000; i++) { /* so that there is more than one page */
        raw_number(raw, "HSET snib:{many/page%d} x y", i);
    }
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        snib_error error = {0};
        int one = 0, all = 0;
        CHECK_OK(snib_inspect(client, "many/7", count_seen, &one, &error), error.message);
        faults[i]();
        CHECK_OK(snib_inspect(client, "many/7", count_seen, &one, &error), error.message);
        CHECK_INT(one, ==, 2);
        faults[i]();
        CHECK_OK(snib_list(client, "many/", count_seen, &all, &error), error.message);
        CHECK_INT(all, ==, 200);
        proxy_heal(&proxy);
    }
    /* In the middle of the answers: who was shown already is not shown again. */
    for (uint64_t bytes = 100; bytes < 60000; bytes += 2500) {
        snib_error error = {0};
        int all = 0;
        proxy_after(&proxy, PROXY_TO_CLIENT, bytes, PROXY_BYTES, PROXY_THEN_RESET);
        CHECK_OK(snib_list(client, "many/", count_seen, &all, &error), error.message);
        CHECK_INT(all, ==, 200);
        proxy_heal(&proxy);
    }
    CHECK_UINT(proxy_counts(&proxy).fired, >=, 25);
    redisFree(raw);
    for (int i = 0; i < 200; i++) {
        give(&leases[i]);
    }
    snib_close(holder);
    snib_close(client);
}

/* ---- Hand-over -------------------------------------------------------------------------- */

static void hand_over_meets(fault *happen, bool lasts)
{
    begin();
    redisContext *raw = raw_open(server.port);
    struct helper *helpers = helpers_new(1, url_of(proxy.port, PARAMETERS), "report");
    helpers_spawn(helpers, 1);
    snib *client = client_of(url_of(server.port, PARAMETERS));
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers->go);
    await_line(raw, "report", 1);
    happen();
    int64_t start = check_now_ns();
    give(&lease);
    if (lasts) {
        must_come_free(); /* the one in line cannot be reached: the next gets it */
        heal();
    }
    check_flag_wait(&helpers->held, PATIENCE_MS);
    CHECK_INT(atomic_load(&helpers->code), ==, SNIB_OK);
    if (!lasts) {
        CHECK_INT(since_ms(start), <, 2 * TTL_MS + check_ms(2000));
    }
    helper_end(helpers);
    must_come_free();
    redisFree(raw);
    snib_close(client);
}

TEST(a_hand_over_survives_a_cut)
{
    hand_over_meets(cut, false);
}
TEST(a_hand_over_survives_a_lost_message)
{
    hand_over_meets(lose_reply, false);
}
TEST(a_hand_over_survives_half_a_message)
{
    hand_over_meets(lose_half_reply, false);
}
TEST(a_hand_over_survives_a_message_without_its_last_byte)
{
    hand_over_meets(lose_last_byte_of_a_message, false);
    CHECK_UINT(proxy_counts(&proxy).fired, ==, 1);
}
TEST(a_hand_over_survives_a_half_open_connection)
{
    hand_over_meets(half_open, false);
}
TEST(a_hand_over_to_a_silent_waiter_goes_on_to_the_next)
{
    hand_over_meets(stall_replies, true);
}
TEST(a_hand_over_to_a_deaf_waiter_goes_on_to_the_next)
{
    hand_over_meets(swallow_replies, true);
}

/* ---- Nobody there ----------------------------------------------------------------------- */

TEST(a_refused_connection_is_told_at_once)
{
    begin();
    proxy_door(&proxy, PROXY_REFUSE);
    snib *client = client_of(url_of(proxy.port, "timeout=5s"));
    snib_error error = {0};
    int64_t start = check_now_ns();
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_EUNREACH);
    CHECK_INT(since_ms(start), <, 2000);
    snib_lease *lease = NULL;
    CHECK_INT(snib_acquire(&lease, client, "report", NULL, &error), ==, SNIB_EUNREACH);
    CHECK_INT(since_ms(start), <, 4000);
    int seen = 0;
    CHECK_INT(snib_list(client, "", count_seen, &seen, &error), ==, SNIB_EUNREACH);
    CHECK(strncmp(error.message, "redis: 127.0.0.1:", 17) == 0); /* and no name */
    proxy_door(&proxy, PROXY_OPEN);
    CHECK_INT(try_it(client, "report", &error), ==, SNIB_OK); /* as soon as it is there */
    snib_close(client);
}

TEST(a_host_that_drops_packets_is_told_in_time)
{
    begin();
    proxy_door(&proxy, PROXY_SILENT);
    snib *client = client_of(url_of(proxy.port, PARAMETERS));
    snib_error error = {0};
    int64_t start = check_now_ns();
    CHECK_INT(try_it(client, "report", &error), <, 0);
    CHECK(error.code == SNIB_EUNREACH || error.code == SNIB_EUNKNOWN);
    CHECK_INT(since_ms(start), <, TIMEOUT_MS + check_ms(1000));
    snib_close(client);
}
