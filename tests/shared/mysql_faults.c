/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mode=session at a MariaDB server, and what goes wrong with it, with the way to it, with its
 * sessions and its tables.
 */
#include "mysql_world.h"
#include "proxy.h"

#include <unistd.h>

/* ---- The server ------------------------------------------------------------------------- */

TEST(a_killed_server_takes_the_lock_away_at_once_and_grants_nothing_after_its_restart)
{
    struct server mariadb;
    snib_error error = {0};
    server_mariadb(&mariadb, NULL);
    snib *client = client_at(mariadb.port, "ttl=30s&quarantine=no");
    snib_lease *lease = take(client, "name");
    uint64_t token = snib_token(lease);
    server_kill(&mariadb);
    CHECK(check_until(is_lost, lease, LONG_MS));
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    server_start(&mariadb);
    snib *careful = client_at(mariadb.port, "max-lease=5m");
    CHECK_INT(try_take(careful, "name", 0, &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "quarantine") != NULL);
    snib_close(careful);
    lease = take(client, "name"); /* the same client, which outlasted it */
    CHECK_UINT(snib_token(lease), >, token);
    give(lease);
    snib_close(client);
}

static bool waits_one(void *mariadb)
{
    return waits_at(mariadb) == 1;
}

struct other {
    char url[300];
    struct check_flag go, held, let_go;
    _Atomic uint64_t token;
    _Atomic int64_t held_ns;
};

/* Another process, which wants "name" when told so. */
static void be_other(void *arg)
{
    struct other *o = arg;
    check_flag_wait(&o->go, 4 * LONG_MS);
    snib *client = client_of(o->url);
    snib_lease *lease = take(client, "name");
    atomic_store(&o->held_ns, check_now_ns());
    atomic_store(&o->token, snib_token(lease));
    check_flag_set(&o->held);
    check_flag_wait(&o->let_go, 4 * LONG_MS);
    give(lease);
    snib_close(client);
}

static struct other *other_new(pid_t *pid, const char *url)
{
    struct other *o = check_shared(sizeof *o);
    snprintf(o->url, sizeof o->url, "%s", url);
    *pid = check_spawn(be_other, o);
    return o;
}

static void other_end(struct other *o, pid_t pid)
{
    check_flag_wait(&o->held, LONG_MS);
    check_flag_set(&o->let_go);
    check_join(pid, LONG_MS);
}

TEST(who_waits_outlasts_a_restart_of_the_server)
{
    struct server mariadb;
    pid_t pid;
    server_mariadb(&mariadb, NULL);
    struct other *o = other_new(&pid, url_at(mariadb.port, "quarantine=no"));
    snib *client = client_at(mariadb.port, "quarantine=no");
    snib_lease *lease = take(client, "name");
    check_flag_set(&o->go);
    CHECK(check_until(waits_one, &mariadb, LONG_MS));
    server_kill(&mariadb);
    CHECK(check_until(is_lost, lease, LONG_MS));
    server_start(&mariadb);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    other_end(o, pid);
    snib_close(client);
}

/* ---- Sessions that are killed ----------------------------------------------------------- */

TEST(a_killed_session_is_told_to_its_holder_and_the_next_has_the_lock)
{
    struct server mariadb;
    pid_t pid;
    server_mariadb(&mariadb, NULL);
    struct other *o = other_new(&pid, url_at(mariadb.port, "quarantine=no"));
    snib *client = client_at(mariadb.port, "quarantine=no&ttl=60s");
    snib_lease *lease = take(client, "name");
    check_flag_set(&o->go);
    CHECK(check_until(waits_one, &mariadb, LONG_MS));
    server_mariadb_ask(&mariadb, "KILL CONNECTION %llu", holder_of(&mariadb, "name"));
    CHECK(check_until(is_lost, lease, LONG_MS));
    check_flag_wait(&o->held, LONG_MS);
    CHECK_UINT(atomic_load(&o->token), >, snib_token(lease));
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    other_end(o, pid);
    snib_close(client);
}

struct killer {
    struct check_flag stop;
    char socket[256];
};

/* Kills statements, of whoever asks something, until told to stop. */
static void kill_statements(void *arg)
{
    struct killer *k = arg;
    char command[1024];
    snprintf(command, sizeof command,
             "mariadb --no-defaults -uroot -S %s -N -e \"SELECT CONCAT('KILL QUERY ',id,';') FROM "
             "information_schema.processlist WHERE user='snib' AND command='Query'\" | "
             "mariadb --no-defaults -f -uroot -S %s >/dev/null 2>&1",
             k->socket, k->socket);
    while (!check_flag_is_set(&k->stop)) {
        int status = system(command); /* NOLINT: the folder is ours */
        (void)status;
    }
}

TEST_LIMIT(statements_that_are_killed_leave_no_lock_and_lose_none, 60)
{
    struct server mariadb;
    struct killer *k = check_shared(sizeof *k);
    server_mariadb(&mariadb, NULL);
    snprintf(k->socket, sizeof k->socket, "%s/socket", mariadb.folder);
    pid_t pid = check_spawn(kill_statements, k);
    snib *one = client_at(mariadb.port, "quarantine=no");
    snib *two = client_at(mariadb.port, "quarantine=no");
    uint64_t last = 0;
    for (int i = 0; i < 150; i++) {
        snib_lease *lease = take(i % 2 ? one : two, "name");
        CHECK_UINT(snib_token(lease), >, last);
        last = snib_token(lease);
        int code = try_take(i % 2 ? two : one, "name", i % 3 ? 0 : 20, NULL);
        CHECK(code == SNIB_EBUSY || code == SNIB_EUNKNOWN); /* killed again and again */
        give(lease);
    }
    check_flag_set(&k->stop);
    check_join(pid, LONG_MS);
    snib_close(one);
    snib_close(two);
}

/* ---- The way to it ---------------------------------------------------------------------- */

TEST(a_cut_connection_is_a_lost_lock_and_the_next_has_it_at_once)
{
    struct server mariadb;
    struct proxy proxy;
    server_mariadb(&mariadb, NULL);
    proxy_start(&proxy, mariadb.port);
    snib *client = client_at(proxy.port, "quarantine=no&ttl=60s");
    snib *direct = client_at(mariadb.port, "quarantine=no");
    snib_lease *lease = take(client, "name");
    proxy_cut(&proxy, PROXY_RESET);
    CHECK(check_until(is_lost, lease, LONG_MS));
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    give(take(direct, "name"));
    give(take(client, "name")); /* over a new connection */
    snib_close(direct);
    snib_close(client);
}

TEST(a_holder_that_is_cut_off_stops_believing_before_the_next_one_enters)
{
    struct server mariadb;
    struct proxy proxy;
    pid_t pid;
    server_mariadb(&mariadb, NULL);
    proxy_start(&proxy, mariadb.port);
    struct other *o = other_new(&pid, url_at(mariadb.port, "quarantine=no&ttl=3s"));
    snib *client = client_at(proxy.port, "quarantine=no&ttl=3s");
    snib_lease *lease = take(client, "name");
    check_flag_set(&o->go);
    CHECK(check_until(waits_one, &mariadb, LONG_MS));
    proxy_set(&proxy, PROXY_BOTH, PROXY_SWALLOW, 0);
    CHECK(check_until(is_lost, lease, LONG_MS));
    int64_t lost_ns = check_now_ns();
    check_flag_wait(&o->held, LONG_MS);
    CHECK_INT(atomic_load(&o->held_ns), >, lost_ns - 50 * 1000000); /* looked at every few ms */
    CHECK_UINT(atomic_load(&o->token), >, snib_token(lease));
    proxy_cut(&proxy, PROXY_RESET);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_ELOST);
    other_end(o, pid);
    snib_close(client);
}

TEST_LIMIT(replies_that_are_lost_leave_nothing_behind, 60)
{
    struct server mariadb;
    struct proxy proxy;
    server_mariadb(&mariadb, NULL);
    proxy_start(&proxy, mariadb.port);
    snib *client = client_at(proxy.port, "quarantine=no");
    snib *direct = client_at(mariadb.port, "quarantine=no");
    uint64_t last = 0;
    give(take(client, "name"));
    for (uint64_t bytes = 0; bytes < 260; bytes += 13) { /* of an attempt, or of its release */
        proxy_after(&proxy, PROXY_TO_CLIENT, bytes, PROXY_BYTES, PROXY_THEN_RESET);
        snib_lease *lease = take(client, "name");
        CHECK_UINT(snib_token(lease), >, last);
        last = snib_token(lease);
        int code = snib_release(&lease, NULL);
        CHECK(code == SNIB_OK || code == SNIB_EUNKNOWN || code == SNIB_ELOST);
        give(take(direct, "name"));
    }
    proxy_heal(&proxy);
    snib_close(direct);
    snib_close(client);
}

TEST(an_attempt_that_arrives_after_its_client_has_left_takes_nothing_for_long)
{
    struct server mariadb;
    struct proxy proxy;
    snib_error error = {0};
    server_mariadb(&mariadb, NULL);
    proxy_start(&proxy, mariadb.port);
    snib *direct = client_at(mariadb.port, "quarantine=no");
    for (int held = 0; held < 2; held++) {
        snib *client = client_at(proxy.port, "quarantine=no&timeout=300ms&ttl=60s");
        give(take(client, "name"));
        snib_lease *lease = held ? take(direct, "name") : NULL;
        proxy_set(&proxy, PROXY_TO_SERVER, PROXY_STALL, 0);
        CHECK_INT(try_take(client, "name", 200, &error), ==, SNIB_EUNKNOWN);
        snib_close(client);
        proxy_heal(&proxy); /* now it arrives, and behind it the end of its connection */
        if (lease) {
            CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
            give(lease);
        }
        for (int i = 0; i < 10; i++) {
            give(take(direct, "name"));
        }
    }
    snib_close(direct);
}

/* ---- Tables ----------------------------------------------------------------------------- */

TEST(tables_that_are_dropped_are_made_again_and_tokens_go_on)
{
    struct server mariadb;
    server_mariadb(&mariadb, NULL);
    snib *client = client_at(mariadb.port, "quarantine=no");
    snib *other = client_at(mariadb.port, "quarantine=no");
    snib_lease *lease = take(client, "name");
    uint64_t token = snib_token(lease);
    server_mariadb_ask(&mariadb, "DROP TABLE snib_names, snib_waits");
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    CHECK_INT(try_take(other, "name", 0, NULL), ==, SNIB_EBUSY);
    give(lease);
    lease = take(other, "name");
    CHECK_UINT(snib_token(lease), >, token);
    give(lease);
    snib_close(other);
    snib_close(client);
}

static int see_nobody(const snib_seen *seen, void *arg)
{
    (void)arg;
    FAIL("%s is there", seen->name);
    return 0;
}

TEST(who_only_looks_makes_no_tables)
{
    struct server mariadb;
    snib_error error;
    server_mariadb(&mariadb, NULL);
    snib *client = client_at(mariadb.port, "quarantine=no");
    CHECK_OK(snib_inspect(client, "name", see_nobody, NULL, &error), error.message);
    CHECK_OK(snib_list(client, "", see_nobody, NULL, &error), error.message);
    CHECK_INT(snib_break(client, "name", 1, NULL), ==, SNIB_ELOST);
    CHECK_UINT(ASK_NUMBER(&mariadb, "SELECT COUNT(*) FROM information_schema.tables WHERE "
                                    "table_schema='snib'"),
               ==, 0);
    snib_close(client);
}
