/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules that break naive locks on one Redis server, one case each. The numbers are those that
 * cases called safety_NN carry in their names; others go by what they show:
 *
 * - 1: safety_1_a_grant_older_than_the_last_answer_is_not_believed
 * - 20, 23, 37: a_dead_waiter_is_skipped_at_once_even_if_somebody_listens_to_everything
 * - 21, 22: without_memory_leases_are_renewed_released_handed_over_and_none_is_granted
 * - 23: a_stopped_waiter_costs_the_hand_over_lease_and_no_more
 * - 24: a_dead_writer_at_the_head_does_not_keep_readers_out
 * - 25: a_grant_that_nobody_here_wants_is_given_back_at_once
 * - 25: a_lost_message_costs_a_recheck_and_not_the_ttl
 * - 26: a_handed_over_lock_has_the_validity_that_was_asked_for
 * - 28: neighbouring_tokens_stay_different_however_large
 * - 29: safety_29_... in redis_passing.c, tokens_grow_when_the_servers_clock_is_set_back
 * - 30: a_shorter_lease_does_not_cut_a_longer_one
 * - 32: a_clock_set_back_does_not_keep_a_dead_holder_alive
 * - 34: safety_34_...
 * - 36: a_forged_grant_is_not_believed; redis_breaks.c
 * - 39: redis_greeting.c
 *
 * 27, 31, 33 and 35 are about replicas and clusters, which this engine does not use.
 */
#include "clock_shim.h"
#include "engines/redis/script.h"
#include "redis_world.h"

static struct server server;
static const char first_place[10] = {'q', ':', 1}; /* in line: the field */

static redisContext *begin(void)
{
    server_redis(&server, NULL);
    return raw_open(server.port);
}

static int64_t since_ms(int64_t start_ns)
{
    return (check_now_ns() - start_ns) / 1000000;
}

/* ---- Who is alive ----------------------------------------------------------------------- */

TEST(a_dead_waiter_is_skipped_at_once_even_if_somebody_listens_to_everything)
{
    redisContext *raw = begin();
    redisContext *spy = raw_open(server.port);
    freeReplyObject(redisCommand(spy, "PSUBSCRIBE *")); /* makes every PUBLISH count one */
    struct helper *helpers = helpers_new(2, url_of(server.port, ""), "report");
    helpers_spawn(helpers, 2);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    for (int i = 0; i < 2; i++) {
        check_flag_set(&helpers[i].go);
        await_line(raw, "report", i + 1);
    }
    check_kill(helpers[0].pid);
    check_sleep_ms(50); /* the server must have seen the connection go */
    int64_t start = check_now_ns();
    give(&lease);
    helper_must_hold(&helpers[1]);
    CHECK_INT(since_ms(start), <, check_ms(700)); /* no lease was waited for */
    helper_end(&helpers[1]);
    snib_close(client);
    redisFree(spy);
    redisFree(raw);
}

TEST(a_stopped_waiter_costs_the_hand_over_lease_and_no_more)
{
    redisContext *raw = begin();
    struct helper *helpers = helpers_new(2, url_of(server.port, ""), "report");
    helpers_spawn(helpers, 2);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    for (int i = 0; i < 2; i++) {
        check_flag_set(&helpers[i].go);
        await_line(raw, "report", i + 1);
    }
    check_stop(helpers[0].pid); /* still subscribed: counts as alive */
    int64_t start = check_now_ns();
    give(&lease);
    helper_must_hold(&helpers[1]);
    CHECK_INT(since_ms(start), <, 2500 + 1250 + check_ms(2000)); /* ttl is 30 s */
    check_cont(helpers[0].pid);
    check_sleep_ms(300);
    CHECK(!check_flag_is_set(&helpers[0].held)); /* does not believe the old message */
    check_flag_set(&helpers[1].let_go);
    helper_must_hold(&helpers[0]);
    CHECK_UINT(atomic_load(&helpers[0].token), >, atomic_load(&helpers[1].token));
    helper_end(&helpers[0]);
    helper_end(&helpers[1]);
    snib_close(client);
    redisFree(raw);
}

TEST(a_dead_writer_at_the_head_does_not_keep_readers_out)
{
    redisContext *raw = begin();
    struct helper *helpers = helpers_new(2, url_of(server.port, ""), "map");
    helpers[1].options.mode = SNIB_SHARED;
    helpers_spawn(helpers, 2);
    snib *client = client_of(url_of(server.port, ""));
    snib_options reading = waiting(0);
    reading.mode = SNIB_SHARED;
    snib_lease *lease = take(client, "map", &reading);
    for (int i = 0; i < 2; i++) {
        check_flag_set(&helpers[i].go);
        await_line(raw, "map", i + 1);
    }
    check_kill(helpers[0].pid);
    helper_must_hold(&helpers[1]); /* although nobody released anything */
    helper_end(&helpers[1]);
    give(&lease);
    snib_close(client);
    redisFree(raw);
}

/* ---- Messages --------------------------------------------------------------------------- */

TEST(a_lost_message_costs_a_recheck_and_not_the_ttl)
{
    redisContext *raw = begin();
    struct helper *helpers = helpers_new(1, url_of(server.port, ""), "report");
    helpers_spawn(helpers, 1);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers->go);
    await_line(raw, "report", 1);
    /* The ticket names an inbox where somebody else listens: the message goes astray. */
    redisContext *thief = raw_open(server.port);
    freeReplyObject(redisCommand(thief, "SUBSCRIBE snib:inbox:thief"));
    redisReply *ticket =
        redisCommand(raw, "HGET snib:{report} %b", first_place, sizeof first_place);
    enum { NAME_SIZE_AT = 46, NAME_AT = 63, OURS = 43, THIEVES = 16 };
    char changed[600];
    CHECK(ticket->len > NAME_AT + OURS && ticket->len < sizeof changed);
    CHECK(memcmp(ticket->str + NAME_AT, "snib:inbox:", 11) == 0);
    memcpy(changed, ticket->str, NAME_AT);
    changed[NAME_SIZE_AT] = THIEVES;
    memcpy(changed + NAME_AT, "snib:inbox:thief", THIEVES);
    size_t rest = ticket->len - NAME_AT - OURS;
    memcpy(changed + NAME_AT + THIEVES, ticket->str + NAME_AT + OURS, rest);
    freeReplyObject(ticket);
    raw_number(raw, "HSET snib:{report} %b %b", first_place, sizeof first_place, changed,
               NAME_AT + THIEVES + rest);
    int64_t start = check_now_ns();
    give(&lease);
    helper_must_hold(helpers);
    CHECK_INT(since_ms(start), <, 1300 + check_ms(1000));
    helper_end(helpers);
    snib_close(client);
    redisFree(thief);
    redisFree(raw);
}

TEST(a_forged_grant_is_not_believed)
{
    redisContext *raw = begin();
    struct helper *helpers = helpers_new(1, url_of(server.port, ""), "report");
    char inbox[128];
    helpers_spawn(helpers, 1);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers->go);
    await_line(raw, "report", 1);
    raw_inbox(raw, inbox, sizeof inbox);
    static const char *const forged[] = {
        "",
        " ",
        "x y z",
        "%s %n",
        "00000000000000000000000000000000 99 1 30000 1794746193341 snib:{report}",
        "\2\2\2\2\2\2\2\2\2\2\2\2\2\2\2\2\2\2",
        "\2snib:{report}",
    };
    for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
        CHECK_INT(raw_number(raw, "PUBLISH %s %b", inbox, forged[i], strlen(forged[i])), ==, 1);
    }
    char zeros[17] = {0};
    for (size_t size = 0; size <= 51;
         size++) { /* nobody's id, whole at last and too short before */
        struct raw_message message = raw_grant(zeros, 7);
        CHECK_INT(message.size, ==, 51);
        CHECK_INT(raw_number(raw, "PUBLISH %s %b", inbox, message.bytes, size), ==, 1);
    }
    check_sleep_ms(200);
    CHECK(!check_flag_is_set(&helpers->held));
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK); /* and it was not given back for us */
    give(&lease);
    helper_must_hold(helpers);
    helper_end(helpers);
    snib_close(client);
    redisFree(raw);
}

static void forget_lease(snib_lease *lease, const snib_error *err, void *arg)
{
    (void)err;
    (void)arg;
    CHECK(lease == NULL);
}

static redisReply *raw_ticket(redisContext *raw)
{
    redisReply *ticket =
        redisCommand(raw, "HGET snib:{report} %b", first_place, sizeof first_place);
    CHECK(ticket != NULL && ticket->type == REDIS_REPLY_STRING);
    return ticket;
}

struct ticket_before {
    redisContext *raw;
    const redisReply *record;
};

/* A re-check gives the ticket a fresh lease. */
static bool asked_again(void *arg)
{
    struct ticket_before *before = arg;
    redisReply *ticket = raw_ticket(before->raw);
    bool changed = memcmp(ticket->str, before->record->str, 8) != 0;
    freeReplyObject(ticket);
    return changed;
}

/* Messages and answers come on two connections: this one was overtaken by a later "queued". */
TEST(safety_1_a_grant_older_than_the_last_answer_is_not_believed)
{
    redisContext *raw = begin();
    struct helper *helpers = helpers_new(1, url_of(server.port, ""), "report");
    char inbox[128];
    helpers_spawn(helpers, 1);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers->go);
    await_line(raw, "report", 1);
    raw_inbox(raw, inbox, sizeof inbox);
    redisReply *ticket = raw_ticket(raw);
    struct ticket_before before = {raw, ticket};
    CHECK(check_until(asked_again, &before, PATIENCE_MS));  /* so it has heard that it is queued */
    struct raw_message old = raw_grant(ticket->str + 8, 1); /* as if before it stood in line */
    CHECK_INT(raw_number(raw, "PUBLISH %s %b", inbox, old.bytes, old.size), ==, 1);
    check_sleep_ms(200);
    CHECK(!check_flag_is_set(&helpers->held));
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(&lease);
    helper_must_hold(helpers);
    helper_end(helpers);
    freeReplyObject(ticket);
    snib_close(client);
    redisFree(raw);
}

/* Waits that end leave gaps, which somebody must walk over when the lock is released. */
TEST(a_line_of_ended_waits_is_closed_up)
{
    redisContext *raw = begin();
    struct helper *helpers = helpers_new(2, url_of(server.port, ""), "report");
    helpers_spawn(helpers, 2);
    snib *client = client_of(url_of(server.port, ""));
    snib *hasty = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers[0].go);
    await_line(raw, "report", 1);
    for (int i = 0; i < 290; i++) {
        snib_ticket wait;
        snib_error error = {0};
        CHECK_OK(snib_acquire_async(&wait, hasty, "report", NULL, forget_lease, NULL, &error),
                 error.message);
        await_line(raw, "report", 2);
        CHECK_INT(snib_cancel(hasty, wait), ==, SNIB_OK);
        await_line(raw, "report", 1);
    }
    check_flag_set(&helpers[1].go); /* behind the gaps */
    await_line(raw, "report", 2);
    CHECK_INT(raw_state(raw, "report", STATE_TAIL) - raw_state(raw, "report", STATE_HEAD), <, 100);
    give(&lease);
    helper_must_hold(&helpers[0]);
    CHECK(!check_flag_is_set(&helpers[1].held));
    helper_end(&helpers[0]);
    helper_must_hold(&helpers[1]);
    helper_end(&helpers[1]);
    raw_no_script_failed(raw);
    snib_close(hasty);
    snib_close(client);
    redisFree(raw);
}

static bool nobody_holds(void *raw)
{
    return raw_state(raw, "report", STATE_HOLDERS) == 0;
}

TEST(a_grant_that_nobody_here_wants_is_given_back_at_once)
{
    redisContext *raw = begin();
    struct helper *helpers = helpers_new(1, url_of(server.port, ""), "other");
    char inbox[128];
    helpers_spawn(helpers, 1);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *other = take(client, "other", NULL);
    check_flag_set(&helpers->go); /* its client has an inbox, and listens */
    await_line(raw, "other", 1);
    raw_inbox(raw, inbox, sizeof inbox);
    snib_lease *lease = take(client, "report", NULL);
    struct raw_request request = raw_request(1, inbox, 60000, 1);
    freeReplyObject(redisCommand(raw, "EVAL %b 1 snib:{report} %b",
                                 snib__native_attempt_script.text, snib__native_attempt_script.size,
                                 request.bytes, request.size));
    CHECK_INT(raw_state(raw, "report", STATE_WAITERS), ==, 1);
    give(&lease); /* goes to a claim that does not exist */
    CHECK(check_until(nobody_holds, raw, 2000));
    give(&other);
    helper_must_hold(helpers);
    helper_end(helpers);
    snib_close(client);
    redisFree(raw);
}

TEST(a_handed_over_lock_has_the_validity_that_was_asked_for)
{
    redisContext *raw = begin();
    struct helper *helpers = helpers_new(1, url_of(server.port, ""), "report");
    helpers->options.min_left_ms = 20000; /* the hand-over lease is far less */
    helpers_spawn(helpers, 1);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers->go);
    await_line(raw, "report", 1);
    give(&lease);
    helper_must_hold(helpers);
    helper_end(helpers);
    CHECK_INT(atomic_load(&helpers->release_code), ==, SNIB_OK);
    snib_close(client);
    redisFree(raw);
}

/* ---- Memory ----------------------------------------------------------------------------- */

TEST(without_memory_leases_are_renewed_released_handed_over_and_none_is_granted)
{
    redisContext *raw = begin();
    struct helper *helpers = helpers_new(2, url_of(server.port, "ttl=3s"), "report");
    snprintf(helpers[1].name, sizeof helpers[1].name, "left");
    helpers[1].options.wait_ms = 1500;
    helpers_spawn(helpers, 2);
    snib *client = client_of(url_of(server.port, "ttl=3s"));
    snib_lease *lease = take(client, "report", NULL);
    snib_lease *left = take(client, "left", NULL);
    snib_error error = {0};
    for (int i = 0; i < 2; i++) {
        check_flag_set(&helpers[i].go);
        await_line(raw, helpers[i].name, 1);
    }
    raw_fill_memory(raw);
    CHECK_INT(try_it(client, "new", &error), ==, SNIB_EUNSAFE);
    CHECK_INT(raw_number(raw, "EXISTS snib:{new}"), ==, 0);
    check_sleep_ms(4000); /* more than a ttl: renewed, and re-checked, without memory */
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    check_flag_wait(&helpers[1].held, PATIENCE_MS);
    CHECK_INT(atomic_load(&helpers[1].code), ==, SNIB_EBUSY); /* and it could leave the line: */
    await_line(raw, "left", 0);
    give(&left);
    give(&lease);
    helper_must_hold(&helpers[0]);
    raw_number(raw, "CONFIG SET maxmemory 0");
    helper_end(&helpers[0]);
    helper_end(&helpers[1]);
    snib_close(client);
    redisFree(raw);
}

struct burst {
    snib_lease **leases;
    atomic_int count;
};

static void keep_lease(snib_lease *lease, const snib_error *err, void *arg)
{
    struct burst *burst = arg;
    CHECK_OK(lease ? SNIB_OK : err->code, err->message);
    burst->leases[atomic_load(&burst->count)] = lease;
    atomic_fetch_add(&burst->count, 1);
}

/* All of them in one write would keep the connection busy for as long as they take. */
TEST(safety_34_many_renewals_do_not_hold_up_others)
{
    enum { MANY = 5000 };
    redisContext *raw = begin();
    snib *client = client_of(url_of(server.port, "ttl=6s"));
    snib_lease **leases = calloc(MANY, sizeof(snib_lease *));
    for (int i = 0; i < MANY; i++) {
        char name[24];
        snprintf(name, sizeof name, "many/%d", i);
        leases[i] = take(client, name, NULL);
    }
    int64_t start = check_now_ns(), longest_ms = 0;
    while (since_ms(start) < 5000) { /* two rounds of renewals */
        int64_t asked = check_now_ns();
        snib_lease *lease = take(client, "report", NULL);
        give(&lease);
        longest_ms = since_ms(asked) > longest_ms ? since_ms(asked) : longest_ms;
        check_sleep_ms(2);
    }
    CHECK_INT(longest_ms, <, check_ms(1000));
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(snib_state(leases[i]), ==, SNIB_HELD);
        give(&leases[i]);
    }
    free(leases);
    snib_close(client);
    redisFree(raw);
}

/* Many that are due at the same moment are under way some at a time: here none is answered. */
TEST(safety_34_renewals_take_turns)
{
    enum { MANY = 5000, MOST = 2000 };
    redisContext *raw = begin();
    struct proxy proxy;
    proxy_start(&proxy, server.port);
    snib *client = client_of(url_of(proxy.port, "ttl=9s&timeout=4s"));
    struct burst burst = {.leases = calloc(MANY, sizeof(snib_lease *))};
    for (int i = 0; i < MANY; i++) {
        char name[24];
        snib_error error = {0};
        snprintf(name, sizeof name, "many/%d", i);
        CHECK_OK(snib_acquire_async(NULL, client, name, NULL, keep_lease, &burst, &error),
                 error.message);
    }
    int64_t start = check_now_ns();
    while (atomic_load(&burst.count) < MANY) {
        CHECK_INT(since_ms(start), <, check_ms(10000));
        check_sleep_ms(1);
    }
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_STALL, 0);
    long long before = raw_calls(raw, "evalsha");
    while (raw_calls(raw, "evalsha") == before) { /* until their time comes */
        CHECK_INT(since_ms(start), <, 20000);
        check_sleep_ms(10);
    }
    check_sleep_ms(500);
    CHECK_INT(raw_calls(raw, "evalsha") - before, <=, MOST);
    proxy_heal(&proxy);
    while (raw_calls(raw, "evalsha") < before + MANY) {
        CHECK_INT(since_ms(start), <, 25000);
        check_sleep_ms(10);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(snib_state(burst.leases[i]), ==, SNIB_HELD);
        give(&burst.leases[i]);
    }
    free(burst.leases);
    snib_close(client);
    redisFree(raw);
}

/* ---- Tokens and time -------------------------------------------------------------------- */

TEST(neighbouring_tokens_stay_different_however_large)
{
    redisContext *raw = begin();
    snib *client = client_of(url_of(server.port, ""));
    raw_set_free(raw, "report", 9007199254740001, 3600);
    for (uint64_t want = 9007199254740002; want < 9007199254740010; want++) {
        snib_lease *lease = take(client, "report", NULL);
        CHECK_UINT(snib_token(lease), ==, want);
        give(&lease);
    }
    snib_close(client);
    redisFree(raw);
}

/* The key lives as long as the longest lease in it, whoever came last. */
static void longer_lease_counts(const char *brief_url, const char *lasting_url, bool brief_first)
{
    redisContext *raw = begin();
    snib *client = client_of(url_of(server.port, lasting_url));
    snib *other = client_of(url_of(server.port, brief_url));
    snib_options reading = waiting(0);
    reading.mode = SNIB_SHARED;
    snib_lease *brief = brief_first ? take(other, "map", &reading) : NULL;
    snib_lease *lasting = take(client, "map", &reading);
    brief = brief ? brief : take(other, "map", &reading);
    CHECK_INT(raw_number(raw, "PTTL snib:{map}"), >, 50000);
    give(&brief);
    CHECK_INT(raw_number(raw, "PTTL snib:{map}"), >, 50000);
    snib_close(other);
    check_sleep_ms(1200);
    CHECK_INT(snib_verify(lasting, NULL), ==, SNIB_OK);
    give(&lasting);
    /* and nothing stays for ever */
    CHECK_INT(raw_number(raw, "PTTL snib:{map}"), <=, 3600 * 1500 + 1000);
    snib_close(client);
    redisFree(raw);
}

TEST(a_shorter_lease_does_not_cut_a_longer_one)
{
    longer_lease_counts("ttl=1s&retention=1s", "ttl=60s&retention=1s", false);
    redisContext *raw = raw_open(server.port);
    CHECK_INT(raw_number(raw, "PTTL snib:{map}"), <=, 60000 + 1500 + 1000);
    redisFree(raw);
}

/* Those with another idea of how long a token is kept must not shorten what others hold. */
TEST(a_longer_lease_counts_whatever_the_retention)
{
    longer_lease_counts("ttl=3s&retention=1s", "ttl=60s&retention=1h", true);
}

static void begin_with_clock(struct clock_shim *clock)
{
    clock_shim_open(clock);
    server_init(&server, "redis");
    clock_shim_use(clock, &server);
    server_redis_prepare(&server, NULL);
    server_start(&server);
}

TEST(tokens_grow_when_the_servers_clock_is_set_back)
{
    struct clock_shim clock;
    begin_with_clock(&clock);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    uint64_t token = snib_token(lease);
    give(&lease);
    clock_shim_wall(&clock, -30 * 60 * 1000);
    for (int i = 0; i < 3; i++) {
        lease = take(client, "report", NULL);
        CHECK_UINT(snib_token(lease), >, token);
        token = snib_token(lease);
        give(&lease);
    }
    snib_close(client);
}

TEST(a_clock_set_back_does_not_keep_a_silent_writer_in_line)
{
    struct clock_shim clock;
    begin_with_clock(&clock);
    redisContext *raw = raw_open(server.port);
    struct helper *writer = helpers_new(1, url_of(server.port, ""), "report");
    helpers_spawn(writer, 1);
    snib *client = client_of(url_of(server.port, ""));
    snib_options reading = waiting(PATIENCE_MS);
    reading.mode = SNIB_SHARED;
    snib_lease *one = take(client, "report", &reading);
    check_flag_set(&writer->go);
    await_line(raw, "report", 1);
    check_stop(writer->pid); /* connected, and silent */
    clock_shim_wall(&clock, -600 * 1000);
    int64_t start = check_now_ns();
    snib_lease *two = take(client, "report", &reading);
    CHECK_INT(since_ms(start), <, 6000 + check_ms(4000));
    give(&two);
    give(&one);
    check_cont(writer->pid);
    helper_must_hold(writer);
    helper_end(writer);
    snib_close(client);
    redisFree(raw);
}

TEST(a_clock_set_back_does_not_keep_a_dead_holder_alive)
{
    struct clock_shim clock;
    begin_with_clock(&clock);
    struct helper *helpers = helpers_new(1, url_of(server.port, "ttl=2s"), "report");
    helpers_spawn(helpers, 1);
    check_flag_set(&helpers->go);
    helper_must_hold(helpers);
    snib *client = client_of(url_of(server.port, "ttl=2s"));
    check_kill(helpers->pid);
    clock_shim_wall(&clock, -3600 * 1000);
    snib_options options = waiting(2000 + 1300 + check_ms(3000));
    snib_lease *lease = take(client, "report", &options);
    CHECK_UINT(snib_token(lease), >, atomic_load(&helpers->token));
    give(&lease);
    snib_close(client);
}

static void note_the_jump(const snib_event *event, void *arg)
{
    if (event->state == SNIB_HELD && strstr(event->why, "clock jumped by +20")) {
        atomic_store((atomic_bool *)arg, true);
    }
}

TEST(a_clock_set_forward_is_no_loss_for_who_could_renew)
{
    struct clock_shim clock;
    begin_with_clock(&clock);
    snib *client = client_of(url_of(server.port, "ttl=2s"));
    atomic_bool told = false;
    snib_options options = waiting(PATIENCE_MS);
    options.on_event = note_the_jump;
    options.arg = &told;
    snib_lease *lease = take(client, "report", &options);
    clock_shim_wall(&clock, 20 * 1000); /* the lease is over, by the server's clock */
    for (int i = 0; i < 15; i++) {
        check_sleep_ms(200);
        CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    }
    CHECK(atomic_load(&told));
    snib *other = client_of(url_of(server.port, "ttl=2s"));
    snib_error error = {0};
    CHECK_INT(try_it(other, "report", &error), ==, SNIB_EBUSY);
    give(&lease);
    lease = take(client, "report", NULL); /* the not-after times have learnt it, too */
    give(&lease);
    snib_close(other);
    snib_close(client);
}

TEST(whoever_lost_it_to_a_jump_of_the_clock_learns_at_the_next_renewal)
{
    struct clock_shim clock;
    begin_with_clock(&clock);
    snib *client = client_of(url_of(server.port, "ttl=3s"));
    snib *other = client_of(url_of(server.port, "ttl=3s"));
    snib_lease *lease = take(client, "report", NULL);
    clock_shim_wall(&clock, 20 * 1000);
    snib_lease *next = take(other, "report", NULL);
    CHECK_UINT(snib_token(next), >, snib_token(lease)); /* the resource can tell them apart */
    int64_t start = check_now_ns();
    while (snib_state(lease) != SNIB_LOST) {
        CHECK_INT(since_ms(start), <, 1000 + check_ms(1500));
        check_sleep_ms(10);
    }
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    CHECK_INT(snib_verify(next, NULL), ==, SNIB_OK);
    give(&next);
    snib_close(other);
    snib_close(client);
}

/* ---- Scripts and connections ------------------------------------------------------------ */

TEST(forgotten_scripts_are_sent_again)
{
    redisContext *raw = begin();
    snib *client = client_of(url_of(server.port, "ttl=3s"));
    for (int i = 0; i < 5; i++) {
        raw_number(raw, "SCRIPT FLUSH");
        snib_lease *lease = take(client, "report", NULL);
        raw_number(raw, "SCRIPT FLUSH");
        CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
        raw_number(raw, "SCRIPT FLUSH");
        give(&lease);
    }
    snib_close(client);
    redisFree(raw);
}

TEST(killed_connections_are_replaced_and_nobody_loses_anything)
{
    redisContext *raw = begin();
    struct helper *helpers = helpers_new(1, url_of(server.port, ""), "report");
    helpers_spawn(helpers, 1);
    snib *client = client_of(url_of(server.port, ""));
    snib_lease *lease = take(client, "report", NULL);
    check_flag_set(&helpers->go);
    await_line(raw, "report", 1);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(raw_number(raw, "CLIENT KILL TYPE normal"), >=, 1);
        CHECK_INT(raw_number(raw, "CLIENT KILL TYPE pubsub"), ==, 1);
        CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
        check_sleep_ms(300); /* the waiter is back in its place by then */
        CHECK_INT(raw_state(raw, "report", STATE_WAITERS), ==, 1);
    }
    int64_t start = check_now_ns();
    give(&lease);
    helper_must_hold(helpers);
    CHECK_INT(since_ms(start), <, check_ms(1000));
    helper_end(helpers);
    snib_close(client);
    redisFree(raw);
}
