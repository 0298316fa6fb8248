/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait=: what must not be taken for a proof, although it looks like one; and servers that have, or
 * say, something unexpected.
 */
#include "redis_witness.h"

/* ---- What was given back ---------------------------------------------------------------- */

enum { HAND_OVER_MS = 2500 }; /* the lease of what is told by message */

/* The connection for commands of whoever comes by `door` goes through `slow`, all others do not. */
struct detour {
    struct proxy door, slow;
};

static void detour_start(struct detour *d, int port)
{
    proxy_start(&d->slow, port);
    proxy_start(&d->door, d->slow.port);
}

struct said {
    struct proxy *proxy;
    uint64_t bytes; /* that its clients have sent */
};

static bool has_said(void *arg)
{
    const struct said *said = arg;
    return proxy_counts(said->proxy).from_client >= said->bytes;
}

static snib *patient_at(int port, const char *parameters)
{
    char url[512];
    snprintf(url, 512, "redis://127.0.0.1:%d?ttl=%dms&max-lease=%dms&timeout=20s&%s", port,
             lease_ms, lease_ms, parameters);
    return client_of(url);
}

static bool is_granted(void *lease)
{
    return atomic_load((_Atomic(snib_lease *) *)lease) != NULL;
}

/* It asks whether it is its turn, is told so by message, gives that back because too few replicas
 * have it, and asks again: then the first question is answered "yours". */
TEST_LIMIT(an_answer_from_before_a_grant_was_given_back_does_not_count, 90)
{
    struct detour detour;
    snib_options options = SNIB_OPTIONS;
    _Atomic(snib_lease *) granted = NULL;
    lease_ms = HAND_OVER_MS; /* less is left of longer ones than is believed without asking */
    start();
    int port = group.nodes[0].port;
    detour_start(&detour, port);
    struct helper *second = rival_at(port);
    snib *client = client_at(port, "wait=majority");
    snib *first = patient_at(detour.door.port, "wait=majority&wait-timeout=100ms");
    snib_lease *lease = take(client, "report", NULL);
    redisContext *raw = raw_open(port);
    CHECK_INT(try_it(first, "report", NULL), ==, SNIB_EBUSY); /* on a connection for commands */
    proxy_target(&detour.door, port);
    options.flags = SNIB_RETRY;
    options.label = "whoever asks says more than whoever gives back";
    CHECK_INT(snib_acquire_async(NULL, first, "report", &options, note_grant, &granted, NULL), ==,
              SNIB_OK);
    await_line(raw, "report", 1);
    check_flag_set(&second->go);
    await_line(raw, "report", 2);
    proxy_set(&detour.slow, PROXY_TO_SERVER, PROXY_DRIBBLE, 600000); /* read, and kept */
    uint64_t before = proxy_counts(&detour.slow).from_client;
    struct said said = {&detour.slow, before + 1};
    CHECK(check_until(has_said, &said, PATIENCE_MS));
    uint64_t question = proxy_counts(&detour.slow).from_client - before;
    replicas(server_pause);
    (void)snib_release(&lease, NULL);
    said.bytes = before + question + 1; /* it gives back */
    CHECK(check_until(has_said, &said, PATIENCE_MS));
    replicas(server_resume);
    said.bytes += question; /* and asks once more */
    CHECK(check_until(has_said, &said, PATIENCE_MS));
    proxy_heal(&detour.slow);
    helper_must_hold(second);
    for (int64_t until_ns = check_now_ns() + LEASE_MS * 1000000LL; check_now_ns() < until_ns;) {
        CHECK(!is_granted(&granted));
        check_sleep_ms(5);
    }
    helper_end(second);
    CHECK(check_until(is_granted, &granted, PATIENCE_MS));
    lease = atomic_load(&granted);
    give(&lease);
    redisFree(raw);
    snib_close(first);
    snib_close(client);
}

/* ---- Who granted it --------------------------------------------------------------------- */

struct blocked {
    int port;
    long long clients;
};

static bool are_blocked(void *arg)
{
    const struct blocked *b = arg;
    return group_info(b->port, "blocked_clients") >= b->clients;
}

static bool is_held(void *raw)
{
    return raw_state(raw, "report", STATE_HOLDERS) == 1;
}

static void want(snib *client, const char *name, _Atomic(snib_lease *) *granted)
{
    snib_options options = SNIB_OPTIONS;
    snib_error error = {0};
    options.flags = SNIB_RETRY;
    CHECK_OK(snib_acquire_async(NULL, client, name, &options, note_grant, granted, &error),
             error.message);
}

/* What the master granted waits for its turn to be proven when both connections break. They come
 * back to a replica, which is promoted before it is asked. */
TEST_LIMIT(what_one_server_granted_is_not_proven_by_another, 90)
{
    struct proxy door;
    _Atomic(snib_lease *) other = NULL, granted = NULL;
    lease_ms = LONG_LEASE_MS;
    group_start(&group, &(struct group_wish){.nodes = 3});
    int old = group.nodes[0].port, new = group.nodes[1].port;
    proxy_start(&door, old);
    group_follow(&group, 2, 1);
    group_await_replicas(new, 1);
    group_do(new, "REPLICAOF 127.0.0.1 1"); /* a replica of nobody */
    snib *client = patient_at(door.port, "wait=1&wait-timeout=10s&quarantine=no");
    redisContext *raw = raw_open(old), *there = raw_open(new);
    want(client, "other", &other);
    struct blocked waits = {old, 1}, paused = {new, 2};
    CHECK(check_until(are_blocked, &waits, PATIENCE_MS));
    want(client, "report", &granted);
    CHECK(check_until(is_held, raw, PATIENCE_MS));
    group_do(new, "CLIENT PAUSE 600000 WRITE"); /* it greets, and does nothing */
    proxy_target(&door, new);
    proxy_cut(&door, PROXY_RESET);
    CHECK(check_until(are_blocked, &paused, PATIENCE_MS));
    group_promote(&group, 1);
    group_do(new, "CLIENT UNPAUSE");
    CHECK(check_until(is_granted, &granted, PATIENCE_MS));
    CHECK(is_held(there));
    snib_lease *lease = atomic_load(&granted);
    give(&lease);
    CHECK(check_until(is_granted, &other, PATIENCE_MS));
    lease = atomic_load(&other);
    give(&lease);
    redisFree(raw);
    redisFree(there);
    snib_close(client);
}

/* ---- A new replication id --------------------------------------------------------------- */

static bool has_no_second_id(void *port)
{
    redisReply *info = group_ask(*(int *)port, "INFO replication");
    bool none = info && info->str && strstr(info->str, "master_replid2:0000") != NULL;
    if (info) {
        freeReplyObject(info);
    }
    return none;
}

/* It has the epoch of when it was the master before, and has forgotten, for want of replicas, that
 * there was another one since. */
TEST_LIMIT(a_former_master_that_is_promoted_again_lets_nobody_in_while_the_holder_believes, 180)
{
    start_with_long_leases();
    int former = group.nodes[0].port, master = group.nodes[1].port;
    struct helper *rival = rival_at(former);
    group_do(former, "CONFIG SET repl-backlog-ttl 1");
    group_promote(&group, 1);
    group_follow(&group, 2, 1);
    group_follow(&group, 0, 1);
    group_await_replicas(master, 2);
    group_do(former, "REPLICAOF 127.0.0.1 1"); /* it hears no more */
    group_open_epoch(master, "snib", 3, lease_ms);
    snib *client = client_at(master, "wait=majority");
    snib_lease *lease = take(client, "report", NULL);
    group_promote(&group, 0);
    server_kill(&group.nodes[1]);
    CHECK(check_until(has_no_second_id, &former, PATIENCE_MS));
    group_follow(&group, 2, 0);
    group_await_replicas(former, 1);
    CHECK_INT(snib_left_ms(lease), >, 0);
    check_flag_set(&rival->go);
    must_follow(rival, lease);
    helper_end(rival);
    CHECK_INT(snib_release(&lease, NULL), !=, SNIB_OK);
    snib_close(client);
}

/* ---- Too many --------------------------------------------------------------------------- */

static void nobody_loses(snib_lease *lease, int ms)
{
    for (int64_t until_ns = check_now_ns() + ms * 1000000LL; check_now_ns() < until_ns;) {
        CHECK_INT(snib_left_ms(lease), >, 0);
        check_sleep_ms(5);
    }
}

/* Backups and monitors read a master's stream without being one of its replicas. */
TEST_LIMIT(whoever_only_reads_the_stream_is_no_replica, 60)
{
    snib_error error = {0};
    start();
    int port = group.nodes[0].port;
    snib *client = client_at(port, "wait=majority");
    snib_lease *lease = take(client, "other", NULL);
    redisContext *reader = raw_open(port);
    int sent = 0;
    CHECK_INT(redisAppendCommand(reader, "SYNC"), ==, REDIS_OK);
    while (!sent) {
        CHECK_INT(redisBufferWrite(reader, &sent), ==, REDIS_OK);
    }
    group_await_replicas(port, 3);
    CHECK_OK(try_it(client, "report", &error), error.message);
    nobody_loses(lease, 2 * lease_ms);
    give(&lease);
    redisFree(reader);
    snib_close(client);
}

static bool has_two_replicas(void *port)
{
    return group_info(*(int *)port, "connected_slaves") == 2;
}

TEST_LIMIT(with_a_replica_too_many_leases_go_on_and_the_others_wait, 90)
{
    snib_error error = {0};
    start();
    int port = group.nodes[0].port;
    struct helper *rival = rival_at(port);
    snib *client = client_at(port, "wait=majority");
    snib_lease *lease = take(client, "other", NULL);
    group_start_node(&group, 3);
    group_await_replicas(port, 3);
    CHECK_INT(refusal_of(client, &error), ==, SNIB_EUNSAFE);
    must_say(&error, "this master has 3 replicas");
    check_flag_set(&rival->go);
    nobody_for(rival, lease, 2 * lease_ms);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    group_promote(&group, 3);
    CHECK(check_until(has_two_replicas, &port, PATIENCE_MS));
    helper_must_hold(rival);
    helper_end(rival);
    give(&lease);
    snib_close(client);
}

/* ---- Asking again ----------------------------------------------------------------------- */

static uint64_t last_token(redisContext *raw)
{
    redisReply *reply = redisCommand(raw, "HGET snib:{report} s");
    CHECK(reply != NULL && reply->type == REDIS_REPLY_STRING && reply->len >= 27);
    struct snib__packed p = snib__packed_from(reply->str, reply->len);
    (void)snib__packed_bytes(&p, 19);
    uint64_t token = snib__packed_number(&p, 8);
    freeReplyObject(reply);
    return token;
}

/* Each grant that is given back costs an id, and a claim has not so many of them. */
TEST_LIMIT(who_waits_asks_for_replicas_before_it_asks_for_the_lock_again, 60)
{
    start_with_long_leases();
    struct helper *rival = rival_at(group.nodes[0].port);
    redisContext *raw = raw_open(group.nodes[0].port);
    struct counted goal = {raw, 2}; /* the first one is behind a script that is not known */
    replicas(server_pause);
    check_flag_set(&rival->go);
    CHECK(check_until(has_waited, &goal, PATIENCE_MS));
    CHECK(check_until(is_free, raw, lease_ms / 2)); /* granted, not acknowledged, given back */
    uint64_t token = last_token(raw);
    goal.waits = raw_calls(raw, "wait") + 3;
    CHECK(check_until(has_waited, &goal, PATIENCE_MS));
    CHECK_UINT(last_token(raw), ==, token);
    replicas(server_resume);
    helper_must_hold(rival);
    CHECK_UINT(atomic_load(&rival->token), >, token);
    helper_end(rival);
    redisFree(raw);
}

TEST_LIMIT(a_clock_that_is_set_back_does_not_make_a_quarantine_longer, 60)
{
    start();
    int port = group.nodes[0].port;
    struct helper *rival = rival_at(port);
    redisContext *raw = raw_open(port);
    struct counted goal = {raw, 2}; /* the first one is behind a script that is not known */
    group_do(port, "HSET snib:epoch at %lld", ((long long)time(NULL) + 3600) * 1000);
    check_flag_set(&rival->go);
    CHECK(check_until(has_waited, &goal, PATIENCE_MS));
    CHECK(!check_flag_is_set(&rival->held));
    group_do(port, "HSET snib:epoch at 1"); /* caught up */
    helper_must_hold(rival);
    helper_end(rival);
    redisFree(raw);
}
