/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One member, and what goes wrong with it, with the way to it, and with the keys.
 */
#include "etcd_world.h"
#include "port.h"
#include "proxy.h"
#include "tls_link.h"

/* ---- Keys and leases -------------------------------------------------------------------- */

TEST(nothing_is_left_when_a_client_is_closed)
{
    struct server etcd;
    server_etcd(&etcd, NULL);
    snib *client = client_at(etcd.port, "");
    for (int i = 0; i < 5; i++) {
        give(take(client, "name", NULL));
    }
    snib_lease *first = take(client, "one", NULL), *second = take(client, "two", NULL);
    give(first);
    give(second);
    snib_close(client);
    CHECK_INT(etcd_keys(&etcd, "name/"), ==, 0);
    CHECK_INT(etcd_leases(&etcd), ==, 0);
}

TEST(a_deleted_key_is_told_to_its_holder)
{
    struct server etcd;
    server_etcd(&etcd, NULL);
    snib *client = client_at(etcd.port, "ttl=3s");
    snib_lease *lease = take(client, "name", NULL);
    char why[200];
    etcd_delete(&etcd, "name/");
    CHECK(check_until(is_lost, lease, LONG_MS));
    CHECK_INT(snib_reason(lease, why, sizeof why), ==, SNIB_OK);
    CHECK(strstr(why, "gone") != NULL);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
    CHECK_INT(etcd_leases(&etcd), ==, 0);
}

TEST(a_revoked_lease_is_told_to_its_holder)
{
    struct server etcd;
    server_etcd(&etcd, NULL);
    snib *client = client_at(etcd.port, "ttl=3s");
    snib_lease *lease = take(client, "name", NULL);
    etcd_revoke(&etcd, etcd_lease_of(&etcd, "name/", 0));
    CHECK(check_until(is_lost, lease, LONG_MS));
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(client);
}

static bool has_waiter(void *etcd)
{
    return etcd_keys(etcd, "name/") == 2;
}

/* Whatever is done to those who wait, they stand in line again and get their turn. */
static void disturb_a_waiter(void (*disturb)(struct server *))
{
    struct server etcd;
    char url[200];
    server_etcd(&etcd, NULL);
    snprintf(url, sizeof url, "etcd://127.0.0.1:%d?ttl=10s", etcd.port);
    struct waiter *w = waiter_new(url);
    pid_t pid = check_spawn(wait_in_line, w);
    snib *client = client_of(url);
    snib_lease *lease = take(client, "name", NULL);
    check_flag_set(&w->go);
    CHECK(check_until(has_waiter, &etcd, LONG_MS));
    disturb(&etcd);
    check_sleep_ms(300);
    CHECK(!check_flag_is_set(&w->held));
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    uint64_t token = snib_token(lease);
    give(lease);
    check_flag_wait(&w->held, LONG_MS);
    CHECK_UINT(atomic_load(&w->token), >, token);
    check_flag_set(&w->let_go);
    check_join(pid, LONG_MS);
    snib_close(client);
    CHECK_INT(etcd_keys(&etcd, "name/"), ==, 0);
    CHECK_INT(etcd_leases(&etcd), ==, 0);
}

static void revoke_second(struct server *etcd)
{
    etcd_revoke(etcd, etcd_lease_of(etcd, "name/", 1));
}

TEST(a_waiter_whose_lease_is_revoked_stands_in_line_again)
{
    disturb_a_waiter(revoke_second);
}

static void compact(struct server *etcd)
{
    etcd_put(etcd, "other", 0);
    etcd_compact(etcd);
}

TEST(a_compaction_during_a_wait_does_no_harm)
{
    disturb_a_waiter(compact);
}

static void restart_gently(struct server *etcd)
{
    server_restart(etcd); /* SIGTERM: current versions say good-bye (GOAWAY) */
}

TEST(a_restart_of_the_member_is_outlasted_by_who_holds_and_who_waits)
{
    disturb_a_waiter(restart_gently);
}

static void restart_hard(struct server *etcd)
{
    server_kill(etcd);
    server_start(etcd);
}

TEST(a_killed_member_is_outlasted_by_who_holds_and_who_waits)
{
    disturb_a_waiter(restart_hard);
}

/* ---- Neighbours ------------------------------------------------------------------------- */

TEST(a_key_of_go_or_etcdctl_is_waited_for_and_excludes)
{
    struct server etcd;
    server_etcd(&etcd, NULL);
    snib *client = client_at(etcd.port, "");
    snib_options at_once = SNIB_OPTIONS;
    snib_lease *lease;
    snib_error error;
    at_once.wait_ms = 0;
    etcd_put(&etcd, "name/694d8f31ab402c07", 0); /* as concurrency.Mutex names its key */
    CHECK_INT(snib_acquire(&lease, client, "name", &at_once, &error), ==, SNIB_EBUSY);
    CHECK(strstr(error.message, "another etcd client") != NULL);
    uint64_t token = error.holder_token;
    CHECK_INT(snib_break(client, "name", token, &error), ==, SNIB_ENOTSUP);
    CHECK(strstr(error.message, "--force") != NULL);
    CHECK_OK(snib_seize(client, "name", token, &error), error.message);
    give(take(client, "name", &at_once));
    snib_close(client);
}

TEST(a_name_and_one_below_it_do_not_meet)
{
    struct server etcd;
    server_etcd(&etcd, NULL);
    snib *client = client_at(etcd.port, "");
    snib_options at_once = SNIB_OPTIONS, counted = SNIB_OPTIONS, shared = SNIB_OPTIONS;
    at_once.wait_ms = counted.wait_ms = shared.wait_ms = 0;
    counted.mode = SNIB_COUNTED;
    counted.permits = 2;
    shared.mode = SNIB_SHARED;
    snib_lease *below = take(client, "name/below", &at_once);
    etcd_put(&etcd, "name/bar/694d8f31ab402c07", 0); /* Go's, of another lock */
    give(take(client, "name", &at_once));
    give(take(client, "name", &shared));
    give(take(client, "name", &counted));
    snib_lease *lease = take(client, "name", NULL);
    CHECK_INT(snib_verify(below, NULL), ==, SNIB_OK);
    give(lease);
    give(below);
    snib_close(client);
}

/* ---- The member is full ----------------------------------------------------------------- */

TEST(a_space_alarm_is_told_and_what_is_held_can_be_kept_and_given_back)
{
    struct server etcd;
    server_etcd(&etcd, NULL);
    snib *client = client_at(etcd.port, "ttl=10s");
    snib_lease *lease = take(client, "name", NULL), *other;
    snib_options at_once = SNIB_OPTIONS;
    snib_error error;
    at_once.wait_ms = 0;
    etcd_post(&etcd, "maintenance/alarm", "{\"action\":\"ACTIVATE\",\"alarm\":\"NOSPACE\"}");
    CHECK_INT(snib_acquire(&other, client, "other", &at_once, &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "space exceeded") != NULL);
    CHECK(strstr(error.message, "disarm") != NULL);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(lease);
    CHECK_INT(etcd_keys(&etcd, "name/"), ==, 0);
    etcd_post(&etcd, "maintenance/alarm",
              "{\"action\":\"DEACTIVATE\",\"memberID\":\"0\",\"alarm\":\"NOSPACE\"}");
    snib_close(client);
}

/* A watch would take the only stream there is: then those who wait look now and then. */
TEST(one_stream_at_a_time_is_enough)
{
    struct server etcd;
    char url[200];
    server_etcd(&etcd, (const char *const[]){"--max-concurrent-streams=1", NULL});
    snprintf(url, sizeof url, "etcd://127.0.0.1:%d?ttl=2s", etcd.port);
    struct waiter *w = waiter_new(url);
    pid_t pid = check_spawn(wait_in_line, w);
    snib *client = client_of(url);
    snib_lease *lease = take(client, "name", NULL);
    check_flag_set(&w->go);
    CHECK(check_until(has_waiter, &etcd, LONG_MS));
    give(lease);
    check_flag_wait(&w->held, LONG_MS);
    check_flag_set(&w->let_go);
    check_join(pid, LONG_MS);
    snib_close(client);
}

/* ---- The way to it ---------------------------------------------------------------------- */

/* Answers are lost after the member has acted, at every step of the way. */
TEST_LIMIT(a_connection_that_is_cut_at_any_step_leaves_nothing_behind, 60)
{
    struct server etcd;
    struct proxy proxy;
    server_etcd(&etcd, NULL);
    proxy_start(&proxy, etcd.port);
    for (int step = 0; step < 12; step++) {
        snib *client = client_at(proxy.port, "timeout=5s&ttl=5s");
        snib_lease *lease;
        snib_error error;
        snib_options options = SNIB_OPTIONS;
        options.wait_ms = check_ms(LONG_MS);
        options.flags = SNIB_RETRY;
        proxy_after(&proxy, PROXY_TO_CLIENT, (uint64_t)step, PROXY_TURNS, PROXY_THEN_RESET);
        for (int i = 0; i < 3; i++) {
            CHECK_OK(snib_acquire(&lease, client, "name", &options, &error), error.message);
            int code = snib_release(&lease, &error);
            CHECK(code == SNIB_OK || code == SNIB_EUNKNOWN);
        }
        proxy_heal(&proxy);
        snib_close(client);
        CHECK_INT(etcd_keys(&etcd, "name/"), ==, 0);
        CHECK_INT(etcd_leases(&etcd), ==, 0);
    }
}

TEST(a_client_that_is_cut_off_stops_believing_before_another_has_it)
{
    struct server etcd;
    struct proxy proxy;
    char url[200];
    server_etcd(&etcd, NULL);
    proxy_start(&proxy, etcd.port);
    snprintf(url, sizeof url, "etcd://127.0.0.1:%d?ttl=3s", etcd.port);
    struct waiter *w = waiter_new(url);
    pid_t pid = check_spawn(wait_in_line, w);
    snib *client = client_at(proxy.port, "ttl=3s&timeout=1s");
    snib_lease *lease = take(client, "name", NULL);
    check_flag_set(&w->go);
    CHECK(check_until(has_waiter, &etcd, LONG_MS));
    proxy_set(&proxy, PROXY_BOTH, PROXY_STALL, 0);
    while (snib_left_ms(lease) > 0) {
        CHECK(!check_flag_is_set(&w->held));
        check_sleep_ms(2);
    }
    int64_t stopped_ns = check_now_ns();
    check_flag_wait(&w->held, LONG_MS);
    CHECK_INT(atomic_load(&w->held_ns), >, stopped_ns);
    CHECK_UINT(atomic_load(&w->token), >, snib_token(lease));
    proxy_heal(&proxy);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    check_flag_set(&w->let_go);
    check_join(pid, LONG_MS);
    snib_close(client);
    CHECK_INT(etcd_keys(&etcd, "name/"), ==, 0);
}

/* If the answer is lost, the key may be under the new lease already: that one must not be older
 * than the question. */
TEST(a_shorter_ttl_whose_answer_is_lost_does_not_outlive_the_key)
{
    struct server etcd;
    struct proxy proxy;
    server_etcd(&etcd, NULL);
    proxy_start(&proxy, etcd.port);
    snib *client = client_at(proxy.port, "ttl=60s&timeout=2s");
    snib_options brief = SNIB_OPTIONS;
    brief.ttl_ms = 4000;
    give(take(client, "warm", &brief)); /* the first lease of a client is never kept, */
    give(take(client, "warm", &brief)); /* the second one is */
    check_sleep_ms(1500);               /* and has aged */
    snib_lease *lease = take(client, "name", NULL);
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_STALL, 0);
    int code = snib_renew(lease, 4000, NULL);
    CHECK_INT(code, ==, SNIB_EUNKNOWN);
    while (snib_left_ms(lease) > 0) {
        int there = etcd_keys(&etcd, "name/");
        CHECK(there == 1 || snib_left_ms(lease) <= 0);
        check_sleep_ms(5);
    }
    proxy_heal(&proxy);
    code = snib_release(&lease, NULL); /* the answers may come in the last moment */
    CHECK(code == SNIB_ELOST || code == SNIB_OK);
    snib_close(client);
    CHECK_INT(etcd_keys(&etcd, "name/"), ==, 0);
}

static void ignore(const snib_event *event, void *arg)
{
    (void)event, (void)arg;
}

/* Its next renewal comes later than anybody waits for here. */
TEST(a_holder_that_listens_hears_of_a_break_after_its_connection_was_lost)
{
    struct server etcd;
    server_etcd(&etcd, NULL);
    snib *client = client_at(etcd.port, "ttl=400s&max-lease=400s");
    snib_options listening = SNIB_OPTIONS;
    listening.wait_ms = check_ms(LONG_MS);
    listening.on_event = ignore;
    snib_lease *lease = take(client, "name", &listening);
    check_sleep_ms(800); /* its key is watched by now */
    restart_hard(&etcd);
    snib *other = client_at(etcd.port, "timeout=500ms");
    CHECK_INT(snib_break(other, "name", snib_token(lease), NULL), ==, SNIB_EBUSY);
    CHECK(check_until(is_lost, lease, LONG_MS));
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(other);
    snib_close(client);
}

/* Of two, none may be lost. */
TEST(the_loss_of_a_member_is_survived_only_with_three_of_them)
{
    static const char *const urls[] = {"etcd://a,b", "etcd://a,b,c"};
    for (int i = 0; i < 2; i++) {
        snib *client = client_of(urls[i]);
        CHECK_INT((snib_traits(client) & SNIB_TRAIT_SURVIVES_SERVER_LOSS) != 0, ==, i);
        snib_close(client);
    }
}

/* A break is written into the key; another ttl puts the key anew, and must not wipe it out. */
TEST(a_break_is_not_lost_when_the_ttl_changes)
{
    struct server etcd;
    server_etcd(&etcd, NULL);
    snib *client = client_at(etcd.port, "ttl=60s"), *other = client_at(etcd.port, "timeout=200ms");
    snib_lease *lease = take(client, "name", NULL);
    char why[200];
    CHECK_INT(snib_break(other, "name", snib_token(lease), NULL), ==, SNIB_EBUSY);
    CHECK_INT(snib_renew(lease, 30000, NULL), ==, SNIB_ELOST);
    CHECK_INT(snib_reason(lease, why, sizeof why), ==, SNIB_OK);
    CHECK(strstr(why, "broken by") != NULL);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib_close(other);
    snib_close(client);
    CHECK_INT(etcd_keys(&etcd, "name/"), ==, 0);
}

TEST(what_is_not_etcd_is_said)
{
    struct server redis;
    snib *client;
    snib_lease *lease;
    snib_error error;
    server_redis(&redis, NULL);
    client = client_at(redis.port, "connect=3s&timeout=1s");
    CHECK_INT(snib_acquire(&lease, client, "name", NULL, &error), <, 0);
    CHECK(error.message[0] != '\0');
    snib_close(client);
}

TEST(who_is_not_there_is_told_at_once)
{
    snib_lease *lease;
    snib_error error;
    snib *client = client_at(port_claim(), "");
    int64_t start = check_now_ns();
    CHECK_INT(snib_acquire(&lease, client, "name", NULL, &error), ==, SNIB_EUNREACH);
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(2000));
    CHECK(strstr(error.message, "127.0.0.1") != NULL);
    snib_close(client);
}

static int count_seen(const snib_seen *seen, void *arg)
{
    (void)seen;
    *(int *)arg += 1;
    return 0;
}

static int count_bad(const snib_finding *finding, void *arg)
{
    *(int *)arg += finding->verdict == SNIB_BAD;
    return 0;
}

TEST(questions_to_a_server_that_never_answered_end_in_time)
{
    struct server etcd;
    int bad = 0, seen = 0;
    server_etcd(&etcd, NULL);
    server_pause(&etcd); /* connections are made, and nobody reads */
    snib *client = client_at(etcd.port, "connect=300ms&timeout=20s");
    int64_t start = check_now_ns();
    CHECK_INT(snib_inspect(client, "name", count_seen, &seen, NULL), <, 0);
    CHECK_INT(snib_list(client, "", count_seen, &seen, NULL), <, 0);
    CHECK_INT(snib_examine(client, count_bad, &bad, NULL), ==, SNIB_OK);
    CHECK_INT(bad, ==, 1);
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(5000));
    snib_close(client);
    server_resume(&etcd);
}

/* ---- Who it is -------------------------------------------------------------------------- */

TEST(over_tls_the_server_and_the_client_are_verified)
{
    struct server etcd;
    char cert[300], key[300], trusted[400], ca[300], own[300], url[1200];
    snib_lease *lease;
    snib_error error;
    snib_options at_once = SNIB_OPTIONS;
    at_once.wait_ms = 0;
    snprintf(cert, sizeof cert, "--cert-file=%s", tls_file("good.crt"));
    snprintf(key, sizeof key, "--key-file=%s", tls_file("good.pem"));
    snprintf(ca, sizeof ca, "%s", tls_file("authority.crt"));
    snprintf(own, sizeof own, "%s", tls_file("client.pem"));
    snprintf(trusted, sizeof trusted, "--trusted-ca-file=%s", ca);
    server_etcd(&etcd, (const char *const[]){"--listen-client-urls=https://127.0.0.1:@PORT0@",
                                             "--advertise-client-urls=https://127.0.0.1:@PORT0@",
                                             cert, key, trusted, "--client-cert-auth", NULL});
    snprintf(url, sizeof url, "etcds://localhost:%d?ca=%s&cert=%s", etcd.port, ca, own);
    snib *client = client_of(url);
    give(take(client, "name", NULL));
    snib_close(client);

    snprintf(url, sizeof url, "etcds://localhost:%d?ca=%s&connect=2s", etcd.port, ca);
    client = client_of(url); /* shows no certificate */
    CHECK_INT(snib_acquire(&lease, client, "name", &at_once, &error), <, 0);
    snib_close(client);

    snprintf(url, sizeof url, "etcds://localhost:%d?cert=%s&connect=2s", etcd.port, own);
    client = client_of(url); /* does not know that authority */
    CHECK_INT(snib_acquire(&lease, client, "name", &at_once, &error), ==, SNIB_EUNREACH);
    CHECK(strstr(error.message, "certificate") != NULL);
    snib_close(client);

    snprintf(url, sizeof url, "etcds://localhost:%d?cert=%s&tls=insecure", etcd.port, own);
    client = client_of(url); /* nor wants to */
    give(take(client, "name", NULL));
    snib_close(client);
}

TEST(without_the_module_its_package_is_named)
{
    snib *client;
    snib_error error;
    setenv("SNIB_MODULES", check_tmpdir(), 1);
    CHECK_INT(snib_open(&client, "etcd://127.0.0.1", &error), ==, SNIB_ENOTSUP);
    CHECK(strstr(error.message, "snib-engine-etcd") != NULL);
    CHECK(strstr(error.message, "SNIB_MODULES") == NULL);
    setenv("SNIB_MODULES", "build/release/engines", 1);
    if (snib_open(&client, "etcd://127.0.0.1", &error) == SNIB_OK) {
        snib_close(client); /* this machine has it installed */
        return;
    }
    CHECK(strstr(error.message, "SNIB_MODULES does not count: it is no absolute path") != NULL);
}
