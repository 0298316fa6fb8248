/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mode=session: what goes wrong with the server, its sessions, the way to it, and its holders.
 */
#include "overlap.h"
#include "postgres_world.h"
#include "proxy.h"

#include <signal.h>
#include <unistd.h>

/* ---- Sessions --------------------------------------------------------------------------- */

TEST(a_terminated_session_is_told_to_its_holder_and_its_lock_is_free)
{
    struct server pg;
    server_postgres(&pg, NULL);
    snib *client = client_at(pg.port, "ttl=30s"), *other = client_at(pg.port, "ttl=30s");
    snib_lease *lease = take(client, "name", NULL);
    int64_t start = check_now_ns();
    sql(&pg, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'");
    CHECK(check_until(is_lost, lease, LONG_MS));
    snib_lease *next = take(other, "name", NULL);
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(10000)); /* of 30 s */
    CHECK_UINT(snib_token(next), >, snib_token(lease));
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    give(next);
    give(take(client, "name", NULL)); /* by another session */
    snib_close(other);
    snib_close(client);
}

TEST(a_cancelled_wait_of_the_server_is_waited_again)
{
    struct server pg;
    server_postgres(&pg, NULL);
    struct holder *h = holder_new(url_at(pg.port, ""));
    pid_t pid = check_spawn(hold_it, h);
    snib *client = client_at(pg.port, "");
    snib_lease *lease = take(client, "name", NULL);
    check_flag_set(&h->go);
    for (int i = 0; i < 3; i++) {
        static const char waits[] =
            "SELECT count(pg_cancel_backend(pid)) FROM pg_locks WHERE NOT granted";
        int64_t end = check_now_ns() + LONG_MS * 1000000LL;
        while (strcmp(sql(&pg, waits), "1") != 0) {
            CHECK_INT(check_now_ns(), <, end);
        }
    }
    CHECK(!check_flag_is_set(&h->held));
    give(lease);
    check_flag_wait(&h->held, LONG_MS);
    check_flag_set(&h->let_go);
    check_join(pid, LONG_MS);
    CHECK_INT(atomic_load(&h->code), ==, SNIB_OK);
    CHECK_STR(sql(&pg, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
    snib_close(client);
}

TEST(names_and_labels_that_look_like_statements_are_only_text)
{
    static const char *const nasty[] = {"'; DROP SCHEMA snib CASCADE; --",
                                        "$1",
                                        "a\\'b\"c",
                                        "name') OR true --",
                                        "$$; SELECT 1; $$",
                                        "%s%n@"};
    for (int mode = 0; mode < 2; mode++) {
        struct server pg;
        server_postgres(&pg, (const char *const[]){"fsync=off", NULL});
        snib *client = client_at(pg.port, mode ? "mode=lease" : "");
        for (size_t i = 0; i < sizeof nasty / sizeof nasty[0]; i++) {
            snib_options options = SNIB_OPTIONS;
            options.label = nasty[sizeof nasty / sizeof nasty[0] - 1 - i];
            snib_lease *lease = take(client, nasty[i], &options);
            snib_error error;
            snib *other = client_at(pg.port, mode ? "mode=lease" : "");
            CHECK_INT(refused(other, nasty[i], &error), ==, SNIB_EBUSY);
            CHECK_UINT(error.holder_token, ==, snib_token(lease));
            CHECK(strstr(error.holder, options.label) != NULL);
            snib_close(other);
            give(lease);
        }
        CHECK_STR(sql(&pg, "SELECT to_regclass('snib.token') IS NOT NULL"), "t");
        snib_close(client);
        server_stop(&pg);
    }
}

TEST(a_schema_that_is_dropped_is_made_again_and_tokens_grow)
{
    for (int mode = 0; mode < 2; mode++) {
        struct server pg;
        server_postgres(&pg, (const char *const[]){"fsync=off", NULL});
        snib *client = client_at(pg.port, mode ? "mode=lease" : "");
        snib_lease *lease = take(client, "name", NULL);
        uint64_t token = snib_token(lease);
        give(lease);
        sql(&pg, "DROP SCHEMA snib CASCADE");
        lease = take(client, "name", NULL);
        CHECK_UINT(snib_token(lease), >, token);
        CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
        give(lease);
        snib_close(client);
        server_stop(&pg);
    }
}

TEST(looking_makes_no_tables)
{
    struct server pg;
    server_postgres(&pg, NULL);
    for (int mode = 0; mode < 2; mode++) {
        snib *client = client_at(pg.port, mode ? "mode=lease" : "");
        CHECK_INT(snib_break(client, "name", 7, NULL), ==, SNIB_ELOST);
        snib_close(client);
    }
    CHECK_STR(sql(&pg, "SELECT to_regnamespace('snib') IS NULL"), "t");
}

/* ---- The server ------------------------------------------------------------------------- */

static void restart(bool gently)
{
    struct server pg;
    snib_error error;
    server_postgres(&pg, NULL);
    snib *client = client_at(pg.port, "ttl=4s&max-lease=5s");
    snib_lease *lease = take(client, "name", NULL);
    uint64_t token = snib_token(lease);
    if (gently) {
        server_stop(&pg);
    } else {
        server_kill(&pg);
    }
    CHECK(check_until(is_lost, lease, LONG_MS));
    server_start(&pg);
    int64_t up = check_now_ns();
    snib *other = client_at(pg.port, "ttl=4s&max-lease=5s");
    CHECK_INT(refused(other, "name", &error), ==, SNIB_EUNSAFE);
    must_say(&error, "quarantine");
    snib *bold = client_at(pg.port, "ttl=4s&quarantine=no");
    snib_lease *first = take(bold, "other", NULL);
    CHECK_UINT(snib_token(first), >, token); /* a crash does not take tokens back */
    give(first);
    snib_lease *next = take(other, "name", NULL); /* it is waited for */
    CHECK_INT((check_now_ns() - up) / 1000000, >=, 6500);
    CHECK_UINT(snib_token(next), >, token);
    give(next);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    give(take(client, "name", NULL));
    snib_close(bold);
    snib_close(other);
    snib_close(client);
}

TEST_LIMIT(after_a_crash_of_the_server_nothing_is_granted_until_old_leases_are_over, 90)
{
    restart(false);
}

TEST_LIMIT(after_a_restart_of_the_server_nothing_is_granted_until_old_leases_are_over, 90)
{
    restart(true);
}

/* One that dies takes all sessions along, and the server goes on by itself. */
TEST_LIMIT(after_a_crash_of_one_session_tokens_grow_and_there_is_a_quarantine, 90)
{
    struct server pg;
    snib_error error;
    server_postgres(&pg, NULL);
    snib *client = client_at(pg.port, "ttl=4s&max-lease=30s");
    snib_lease *lease = take(client, "name", NULL);
    uint64_t token = snib_token(lease);
    pid_t victim = atoi(sql(&pg, "SELECT pid FROM pg_locks WHERE locktype = 'advisory'"));
    CHECK(kill(victim, SIGKILL) == 0);
    CHECK(check_until(is_lost, lease, LONG_MS));
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    snib *bold = client_at(pg.port, "quarantine=no");
    snib_options patient = SNIB_OPTIONS;
    patient.wait_ms = LONG_MS;
    patient.flags |= SNIB_RETRY;
    lease = take(bold, "name", &patient);
    CHECK_UINT(snib_token(lease), >, token + 100000);
    give(lease);
    snib *other = client_at(pg.port, "max-lease=30s");
    CHECK_INT(refused(other, "name", &error), ==, SNIB_EUNSAFE);
    snib_close(other);
    snib_close(bold);
    snib_close(client);
}

TEST(a_standby_and_a_read_only_server_are_refused)
{
    struct server pg;
    snib_error error;
    char path[256];
    server_postgres(&pg, NULL);
    sql(&pg, "ALTER ROLE snib SET default_transaction_read_only = on");
    snib *client = client_at(pg.port, "");
    CHECK_INT(refused(client, "name", &error), ==, SNIB_EUNSAFE);
    must_say(&error, "read-only");
    snib_close(client);
    server_stop(&pg);
    snprintf(path, sizeof path, "%s/data/standby.signal", pg.folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fclose(file) == 0);
    server_start(&pg);
    client = client_at(pg.port, "");
    CHECK_INT(refused(client, "name", &error), ==, SNIB_EUNSAFE);
    must_say(&error, "standby");
    snib_close(client);
}

TEST(a_wrong_password_is_denied_and_never_shown)
{
    struct server pg;
    snib_error error;
    char path[256], url[200];
    server_postgres(&pg, NULL);
    sql(&pg, "CREATE ROLE guest LOGIN PASSWORD 'right'");
    snprintf(path, sizeof path, "%s/data/pg_hba.conf", pg.folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL &&
          fputs("host all snib 127.0.0.1/32 trust\n"
                "host all all 127.0.0.1/32 scram-sha-256\n",
                file) > 0 &&
          fclose(file) == 0);
    sql(&pg, "SELECT pg_reload_conf()");
    snprintf(url, sizeof url, "postgres://guest:wr0ng@127.0.0.1:%d/postgres", pg.port);
    snib *client = client_of(url);
    int64_t end = check_now_ns() + LONG_MS * 1000000LL;
    int code = SNIB_OK;
    while (code != SNIB_EDENIED && check_now_ns() < end) {
        code = refused(client, "name", &error); /* until it has read its file */
    }
    CHECK_INT(code, ==, SNIB_EDENIED);
    must_say(&error, "password");
    CHECK(strstr(error.message, "wr0ng") == NULL);
    snib_close(client);
}

/* ---- The way ---------------------------------------------------------------------------- */

TEST_LIMIT(who_is_cut_off_stops_believing_before_the_next_one_holds, 60)
{
    struct server pg;
    struct proxy proxy;
    server_postgres(&pg, NULL);
    proxy_start(&proxy, pg.port);
    snib *client = client_at(proxy.port, "ttl=3s"), *other = client_at(pg.port, "ttl=3s");
    for (int way = PROXY_TO_SERVER; way <= PROXY_BOTH; way++) {
        snib_lease *lease = take(client, "name", NULL);
        proxy_set(&proxy, (enum proxy_way)way, PROXY_STALL, 0);
        snib_lease *next = take(other, "name", NULL);
        CHECK_INT(snib_state(lease), ==, SNIB_LOST);
        CHECK_UINT(snib_token(next), >, snib_token(lease));
        proxy_heal(&proxy);
        CHECK(snib_release(&lease, NULL) < 0);
        CHECK_INT(snib_verify(next, NULL), ==, SNIB_OK);
        give(next);
    }
    snib_close(other);
    snib_close(client);
}

/* Whatever is lost of an acquire, a wait and a release, nobody is left behind for longer than a
 * lease, and tokens grow. */
static void cut_at_each_step(int steps, const char *settings, const char *behind_the_proxy)
{
    struct server pg;
    struct proxy proxy;
    uint64_t last = 0;
    server_postgres(&pg, (const char *const[]){"fsync=off", NULL});
    proxy_start(&proxy, pg.port);
    snib *other = client_at(pg.port, settings);
    for (int step = 0; step < 2 * steps; step++) {
        snib *client = client_at(proxy.port, behind_the_proxy);
        snib_options patient = SNIB_OPTIONS;
        patient.wait_ms = LONG_MS;
        patient.flags |= SNIB_RETRY;
        proxy_after(&proxy, step % 2 ? PROXY_TO_SERVER : PROXY_TO_CLIENT, (uint64_t)(step / 2),
                    PROXY_TURNS, PROXY_THEN_RESET);
        for (int round = 0; round < 2; round++) {
            snib_lease *lease = take(client, "name", &patient);
            CHECK_UINT(snib_token(lease), >, last);
            last = snib_token(lease);
            snib_release(&lease, NULL);
        }
        snib_lease *next = take(other, "name", NULL);
        CHECK_UINT(snib_token(next), >, last);
        last = snib_token(next);
        give(next);
        snib_close(client);
        proxy_heal(&proxy);
    }
    snib_close(other);
}

TEST_LIMIT(the_way_is_cut_at_each_step, 120)
{
    cut_at_each_step(14, "ttl=2s", "ttl=2s&timeout=1s");
}

TEST_LIMIT(the_way_is_cut_at_each_step_with_mode_lease, 120)
{
    cut_at_each_step(10, "mode=lease&ttl=2s", "mode=lease&ttl=2s&timeout=1s");
}

/* ---- Holders ---------------------------------------------------------------------------- */

TEST_LIMIT(a_holder_that_is_stopped_has_lost_it_when_it_goes_on, 60)
{
    for (int mode = 0; mode < 2; mode++) {
        struct server pg;
        server_postgres(&pg, NULL);
        struct holder *h = holder_new(url_at(pg.port, mode ? "ttl=2s&mode=lease" : "ttl=2s"));
        pid_t pid = check_spawn(hold_it, h);
        check_flag_set(&h->go);
        check_flag_wait(&h->held, LONG_MS);
        CHECK(kill(pid, SIGSTOP) == 0);
        snib *client = client_at(pg.port, mode ? "ttl=2s&mode=lease" : "ttl=2s");
        snib_lease *lease = take(client, "name", NULL);
        CHECK_UINT(snib_token(lease), >, atomic_load(&h->token));
        check_flag_set(&h->let_go);
        CHECK(kill(pid, SIGCONT) == 0);
        check_join(pid, LONG_MS);
        CHECK_INT(atomic_load(&h->state), ==, SNIB_LOST);
        CHECK_INT(atomic_load(&h->code), ==, SNIB_ELOST);
        CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
        give(lease);
        snib_close(client);
        server_stop(&pg);
    }
}

/* ---- Many, killed at random ------------------------------------------------------------- */

struct crew {
    char url[300];
    struct overlap_log *log;
    struct check_flag stop;
};

static void work(void *arg)
{
    struct crew *crew = arg;
    snib *client = client_of(crew->url);
    while (!check_flag_is_set(&crew->stop)) {
        snib_lease *lease = take(client, "name", NULL);
        size_t belief = overlap_begin(
            crew->log, &(struct overlap_grant){.name = 1, .token = snib_token(lease)});
        check_sleep_ms(1);
        overlap_end(crew->log, belief);
        snib_release(&lease, NULL);
    }
    snib_close(client);
}

static void kill_some(const char *parameters)
{
    enum { CREW = 6, KILLS = 25 };
    struct server pg;
    pid_t pids[CREW];
    server_postgres(&pg, (const char *const[]){"fsync=off", NULL});
    struct crew *crew = check_shared(sizeof *crew);
    snprintf(crew->url, sizeof crew->url, "%s", url_at(pg.port, parameters));
    crew->log = overlap_open(200000);
    for (int i = 0; i < CREW; i++) {
        pids[i] = check_spawn(work, crew);
    }
    for (int i = 0; i < KILLS; i++) {
        check_sleep_ms(60);
        overlap_kill(crew->log, pids[i % CREW]);
        pids[i % CREW] = check_spawn(work, crew);
    }
    check_flag_set(&crew->stop);
    for (int i = 0; i < CREW; i++) {
        check_join(pids[i], LONG_MS);
    }
    overlap_assert(crew->log);
}

TEST_LIMIT(processes_that_are_killed_at_random_never_hold_together, 90)
{
    kill_some("");
}

TEST_LIMIT(processes_that_are_killed_at_random_never_hold_rows_together, 90)
{
    kill_some("mode=lease&ttl=1s");
}
