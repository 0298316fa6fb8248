/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait=: what counts only when replicas have it, and what a master that was promoted may grant.
 *
 * The schedules are those that broke simpler forms of the same idea, on a master and two replicas
 * that are promoted by hand.
 */
#include "redis_witness.h"

/* ---- WAIT ------------------------------------------------------------------------------- */

static void grant_without_replicas(const char *parameters)
{
    snib_error error = {0};
    start();
    snib *client = client_at(group.nodes[0].port, parameters);
    CHECK_OK(try_it(client, "report", &error), error.message);
    redisContext *raw = raw_open(group.nodes[0].port);
    replicas(server_pause);
    CHECK_INT(refusal_of(client, &error), ==, SNIB_EUNSAFE);
    must_say(&error, "replicas that must have it");
    CHECK(check_until(is_free, raw, LEASE_MS / 2)); /* given back, not left to its lease */
    replicas(server_resume);
    CHECK_OK(try_it(client, "report", &error), error.message);
    redisFree(raw);
    snib_close(client);
}

TEST_LIMIT(a_grant_that_too_few_replicas_acknowledge_is_given_back, 60)
{
    grant_without_replicas("wait=1");
}

/* Not only by who gives up: others may be more lucky. */
TEST_LIMIT(who_waits_gives_back_what_too_few_replicas_acknowledged, 60)
{
    start_with_long_leases();
    struct helper *rival = rival_at(group.nodes[0].port);
    redisContext *raw = raw_open(group.nodes[0].port);
    struct counted goal = {raw, 2};
    replicas(server_pause);
    check_flag_set(&rival->go);
    CHECK(check_until(has_waited, &goal, PATIENCE_MS)); /* granted, and not acknowledged */
    CHECK(check_until(is_free, raw, lease_ms / 2));
    CHECK(!check_flag_is_set(&rival->held));
    replicas(server_resume);
    helper_must_hold(rival);
    helper_end(rival);
    redisFree(raw);
}

TEST_LIMIT(a_grant_that_no_majority_acknowledges_is_given_back, 60)
{
    grant_without_replicas("wait=majority");
}

TEST_LIMIT(wait_all_wants_every_replica, 60)
{
    snib_error error = {0};
    start();
    snib *client = client_at(group.nodes[0].port, "wait=all");
    CHECK_OK(try_it(client, "report", &error), error.message);
    server_pause(&group.nodes[2]);
    CHECK_INT(refusal_of(client, &error), ==, SNIB_EUNSAFE);
    must_say(&error, "1 of the 2");
    server_resume(&group.nodes[2]);
    snib_close(client);
}

TEST_LIMIT(a_renewal_that_no_replica_acknowledges_does_not_count, 60)
{
    start();
    snib *client = client_at(group.nodes[0].port, "wait=1");
    snib_lease *lease = take(client, "report", NULL);
    int64_t taken_ns = check_now_ns();
    redisContext *raw = raw_open(group.nodes[0].port);
    replicas(server_pause);
    while (snib_state(lease) != SNIB_LOST) {
        CHECK_INT(check_now_ns() - taken_ns, <, 2LL * LEASE_MS * 1000000);
        check_sleep_ms(5);
    }
    CHECK_INT(raw_calls(raw, "wait"), >=, 2); /* it was renewed, and asked for */
    replicas(server_resume);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    redisFree(raw);
    snib_close(client);
}

TEST_LIMIT(a_hand_over_counts_when_replicas_have_it, 60)
{
    start();
    struct helper *rival = rival_at(group.nodes[0].port);
    snib *client = client_at(group.nodes[0].port, "wait=majority");
    snib_lease *lease = take(client, "report", NULL);
    redisContext *raw = raw_open(group.nodes[0].port);
    check_flag_set(&rival->go);
    await_line(raw, "report", 1);
    replicas(server_pause);
    (void)snib_release(&lease, NULL);
    nobody_for(rival, NULL, LEASE_MS);
    replicas(server_resume);
    helper_must_hold(rival);
    helper_end(rival);
    redisFree(raw);
    snib_close(client);
}

/* ---- The epoch -------------------------------------------------------------------------- */

TEST_LIMIT(a_new_server_grants_nothing_for_as_long_as_a_lease, 60)
{
    snib_error error = {0};
    group_start(&group, &(struct group_wish){.nodes = 3});
    snib *client = client_at(group.nodes[0].port, "wait=majority");
    int64_t begun_ns = check_now_ns();
    CHECK_INT(refusal_of(client, &error), ==, SNIB_EUNSAFE);
    while (check_now_ns() - begun_ns < quarantine_ms() / 2 * 1000000LL) {
        snib *newcomer = client_at(group.nodes[0].port, "wait=majority"); /* saw nothing begin */
        CHECK_INT(try_it(newcomer, "report", &error), !=, SNIB_OK);
        snib_close(newcomer);
        check_sleep_ms(100);
    }
    snib_lease *lease = take(client, "report", NULL);
    CHECK_INT(check_now_ns() - begun_ns, >=, (quarantine_ms() - 100) * 1000000LL);
    give(&lease);
    snib *next = client_at(group.nodes[0].port, "wait=majority");
    CHECK_OK(try_it(next, "report", &error), error.message); /* once is enough */
    snib_close(next);
    snib_close(client);
}

/* A1: its clock must not start before the replicas are the new master's. */
TEST_LIMIT(a_replica_that_stays_with_the_old_master_keeps_the_new_one_waiting, 180)
{
    start_with_long_leases();
    struct helper *rival = rival_at(group.nodes[1].port);
    snib *client = client_at(group.nodes[0].port, "wait=majority");
    snib_lease *lease = take(client, "report", NULL);
    group_promote(&group, 1);
    check_flag_set(&rival->go);
    nobody_for(rival, lease, quarantine_ms() + 2000);
    group_follow(&group, 2, 1);
    must_follow(rival, lease);
    helper_end(rival);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
}

/* The copy that is promoted has never heard of the holder. */
TEST_LIMIT(a_copy_that_lags_lets_nobody_in_while_the_holder_believes, 180)
{
    struct proxy slow;
    start_with_long_leases();
    struct helper *rival = rival_at(group.nodes[1].port);
    proxy_start(&slow, group.nodes[0].port);
    group_do(group.nodes[1].port, "REPLICAOF 127.0.0.1 %d", slow.port);
    group_await_replicas(group.nodes[0].port, 2);
    proxy_set(&slow, PROXY_TO_CLIENT, PROXY_STALL, 0);
    snib *client = client_at(group.nodes[0].port, "wait=majority");
    snib_lease *lease = take(client, "report", NULL);
    group_promote(&group, 1);
    group_follow(&group, 2, 1);
    check_flag_set(&rival->go);
    must_follow(rival, lease);
    helper_end(rival);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
}

/* A2: what ended at the old master is still there in a copy that lags. */
TEST_LIMIT(a_lease_that_ended_is_not_renewed_in_a_copy_that_lags, 90)
{
    struct proxy slow, door;
    snib_error error = {0};
    start();
    proxy_start(&slow, group.nodes[0].port);
    proxy_start(&door, group.nodes[0].port);
    group_do(group.nodes[1].port, "REPLICAOF 127.0.0.1 %d", slow.port);
    group_await_replicas(group.nodes[0].port, 2);
    snib *client = client_at(door.port, "wait=majority");
    snib_lease *lease = take(client, "report", NULL);
    group_await_copies(&group);
    proxy_set(&slow, PROXY_TO_CLIENT, PROXY_STALL, 0); /* the copy has the lease, and no more */
    proxy_set(&door, PROXY_BOTH, PROXY_STALL, 0);
    snib *second = client_at(group.nodes[0].port, "wait=majority");
    snib_lease *other = take(second, "report", NULL);
    CHECK_INT(snib_left_ms(lease), <=, 0);
    group_promote(&group, 1);
    group_follow(&group, 2, 1);
    group_await_replicas(group.nodes[1].port, 1);
    proxy_target(&door, group.nodes[1].port);
    proxy_heal(&door);
    proxy_cut(&door, PROXY_RESET);
    while (snib_left_ms(other) > 0) {
        CHECK_INT(snib_left_ms(lease), <=, 0);
        check_sleep_ms(5);
    }
    CHECK_INT(snib_state(lease), ==, SNIB_LOST);
    (void)snib_release(&lease, &error);
    (void)snib_release(&other, &error);
    snib_close(second);
    snib_close(client);
}

/* A5: neither the client nor its connection notices that its server was something else meanwhile.
 */
TEST_LIMIT(a_promotion_is_seen_on_a_connection_that_survives_it, 60)
{
    snib_error error = {0};
    start();
    snib *client = client_at(group.nodes[0].port, "wait=majority");
    snib_stats stats = {.size = sizeof stats};
    CHECK_OK(try_it(client, "report", &error), error.message);
    group_promote(&group, 1);
    group_follow(&group, 0, 1);
    group_await_replicas(group.nodes[1].port, 1);
    group_promote(&group, 0);
    group_follow(&group, 1, 0);
    group_await_replicas(group.nodes[0].port, 2);
    CHECK_INT(refusal_of(client, &error), ==, SNIB_EUNSAFE);
    CHECK_INT(snib_stats_read(client, &stats), ==, SNIB_OK);
    CHECK_UINT(stats.reconnects, ==, 0);
    snib_close(client);
}

/* Whoever has it goes on having it, if the replicas follow the new master in time. */
TEST_LIMIT(a_lease_is_renewed_in_the_quarantine_and_nobody_else_is_let_in, 90)
{
    struct proxy door;
    char url[512];
    start_with_long_leases();
    proxy_start(&door, group.nodes[0].port);
    at(url, group.nodes[1].port, "wait=majority");
    struct helper *rival = helpers_new(1, url, "report");
    helpers_spawn(rival, 1);
    at(url, door.port, "wait=majority");
    snib *client = client_of(url);
    snib_lease *lease = take(client, "report", NULL);
    group_await_copies(&group);
    group_promote(&group, 1);
    group_follow(&group, 0, 1);
    group_follow(&group, 2, 1);
    proxy_target(&door, group.nodes[1].port);
    proxy_cut(&door, PROXY_RESET);
    check_flag_set(&rival->go);
    nobody_for(rival, lease, quarantine_ms() + 2000);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    give(&lease);
    helper_must_hold(rival);
    helper_end(rival);
    snib_close(client);
}

static void restart_under_a_holder(bool saved)
{
    struct proxy door;
    start_with_long_leases();
    struct helper *rival = rival_at(group.nodes[0].port);
    proxy_start(&door, group.nodes[0].port);
    snib *client = client_at(door.port, "wait=majority");
    snib_lease *lease = take(client, "report", NULL);
    if (saved) {
        group_do(group.nodes[0].port, "SAVE");
    }
    proxy_set(&door, PROXY_BOTH, PROXY_STALL, 0); /* it does not hear of it */
    server_kill(&group.nodes[0]);
    server_start(&group.nodes[0]);
    group_await_replicas(group.nodes[0].port, 2);
    CHECK_INT(snib_left_ms(lease), >, 0);
    check_flag_set(&rival->go);
    must_follow(rival, lease);
    helper_end(rival);
    proxy_heal(&door);
    proxy_cut(&door, PROXY_RESET);
    (void)snib_release(&lease, NULL);
    snib_close(client);
}

/* A12: the replicas have copied the empty master before anybody looked. */
TEST_LIMIT(a_master_that_comes_back_empty_lets_nobody_in_while_the_holder_believes, 180)
{
    restart_under_a_holder(false);
}

/* A8 */
TEST_LIMIT(a_master_that_comes_back_with_old_data_grants_nothing_at_first, 180)
{
    restart_under_a_holder(true);
}

/* A11: no epoch is no reason to begin at once. */
TEST_LIMIT(who_finds_everything_deleted_waits, 60)
{
    snib_error error = {0};
    start();
    snib *client = client_at(group.nodes[0].port, "wait=majority");
    snib_lease *lease = take(client, "report", NULL);
    group_do(group.nodes[0].port, "FLUSHALL");
    snib *newcomer = client_at(group.nodes[0].port, "wait=majority");
    CHECK_INT(refusal_of(newcomer, &error), ==, SNIB_EUNSAFE);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(newcomer);
    snib_close(client);
}

/* A10 */
TEST_LIMIT(a_second_promotion_begins_the_quarantine_anew, 90)
{
    start();
    struct helper *first = rival_at(group.nodes[1].port);
    struct helper *second = rival_at(group.nodes[2].port);
    group_promote(&group, 1);
    group_follow(&group, 0, 1);
    group_follow(&group, 2, 1);
    group_await_replicas(group.nodes[1].port, 2);
    check_flag_set(&first->go);
    nobody_for(first, NULL, quarantine_ms() / 2);
    int64_t promoted_ns = check_now_ns();
    group_promote(&group, 2);
    group_follow(&group, 0, 2);
    group_follow(&group, 1, 2);
    check_flag_set(&second->go);
    check_flag_wait(&second->held, 2 * PATIENCE_MS);
    CHECK_INT(atomic_load(&second->code), ==, SNIB_OK);
    CHECK_INT(atomic_load(&second->held_ns) - promoted_ns, >=, (quarantine_ms() - 100) * 1000000LL);
    CHECK(!check_flag_is_set(&first->held));
    helper_end(second);
    group_promote(&group, 1); /* so that the first one has an end, too */
    group_follow(&group, 2, 1);
    group_follow(&group, 0, 1);
    check_flag_wait(&first->held, 2 * PATIENCE_MS);
    helper_end(first);
}

/* The master takes the link that was lost for a replica, until it notices. */
TEST_LIMIT(a_replica_that_comes_back_is_not_counted_twice, 60)
{
    struct proxy link;
    snib_error error = {0};
    start();
    proxy_start(&link, group.nodes[0].port);
    group_do(group.nodes[1].port, "REPLICAOF 127.0.0.1 %d", link.port);
    group_await_replicas(group.nodes[0].port, 2);
    proxy_half_open(&link, PROXY_CLIENT_SIDE, PROXY_RESET);
    group_await_replicas(group.nodes[0].port, 3);
    snib *client = client_at(group.nodes[0].port, "wait=majority");
    CHECK_OK(try_it(client, "report", &error), error.message);
    CHECK_INT(group_online(group.nodes[0].port), ==, 3);
    snib_close(client);
}

/* A6: with more servers than clients count on, half of them is no majority. */
TEST_LIMIT(more_replicas_than_clients_count_on_are_refused, 60)
{
    snib_error error = {0};
    start();
    snib *client = client_at(group.nodes[0].port, "wait=majority&replicas=1");
    CHECK_INT(refusal_of(client, &error), ==, SNIB_EUNSAFE);
    must_say(&error, "replicas=2");
    group_do(group.nodes[0].port, "DEL snib:epoch");
    CHECK_INT(refusal_of(client, &error), ==, SNIB_EUNSAFE);
    must_say(&error, "this master has 2 replicas");
    snib_close(client);
}

TEST_LIMIT(another_max_lease_than_others_have_is_refused, 60)
{
    snib_error error = {0};
    char url[512];
    start();
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?ttl=1s&max-lease=3s&wait=majority",
             group.nodes[0].port);
    snib *client = client_of(url);
    CHECK_INT(refusal_of(client, &error), ==, SNIB_EUNSAFE);
    must_say(&error, "max-lease=2000ms");
    snib_close(client);
}

TEST_LIMIT(the_rights_that_are_printed_are_enough_and_without_wait_it_is_said, 60)
{
    char line[SNIB_RIGHTS_SIZE], url[512], *gap;
    snib_error error = {0};
    start();
    at(url, group.nodes[0].port, "wait=majority");
    snib *client = client_of(url);
    CHECK_INT(snib_rights(client, line, sizeof line, NULL), ==, SNIB_OK);
    snib_close(client);
    CHECK((gap = strstr(line, ">PASSWORD")) != NULL);
    memcpy(gap, ">sesame  ", 9);
    for (int i = 0; i < 3; i++) { /* users are not replicated */
        group_do(group.nodes[i].port, line);
    }
    snprintf(url, sizeof url, "redis://snib:sesame@127.0.0.1:%d?ttl=2s&max-lease=2s&wait=majority",
             group.nodes[0].port);
    client = client_of(url);
    CHECK_OK(try_it(client, "report", &error), error.message);
    group_do(group.nodes[0].port, "ACL SETUSER snib -wait");
    CHECK_INT(refusal_of(client, &error), ==, SNIB_EDENIED);
    must_say(&error, "wait");
    snib_close(client);
}

TEST(wait_takes_what_can_be_waited_for)
{
    static const char *const wrong[] = {"wait=0",
                                        "wait=3",
                                        "wait=2x",
                                        "wait=most",
                                        "wait=1&timeout=1s&wait-timeout=600ms",
                                        "replicas=2",
                                        "wait=1&layout=plain"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char url[200];
        snib *client = NULL;
        snib_error error = {0};
        snprintf(url, sizeof url, "redis://127.0.0.1?%s", wrong[i]);
        CHECK_INT(snib_open(&client, url, &error), ==, SNIB_EINVAL);
        must_say(&error, "wait");
    }
}
