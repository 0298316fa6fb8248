/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mode=lease: what goes wrong, and what a row must outlast.
 */
#include "postgres_world.h"
#include "proxy.h"

#include <signal.h>

TEST_LIMIT(a_row_outlasts_a_crash_of_the_server_and_its_holder_keeps_it, 60)
{
    struct server pg;
    server_postgres(&pg, NULL);
    snib *client = client_at(pg.port, "mode=lease&ttl=20s");
    snib_lease *lease = take(client, "name", NULL);
    uint64_t token = snib_token(lease);
    server_kill(&pg);
    server_start(&pg);
    snib *other = client_at(pg.port, "mode=lease&ttl=20s");
    CHECK_INT(refused(other, "name", NULL), ==, SNIB_EBUSY);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    give(lease);
    lease = take(other, "name", NULL);
    CHECK_UINT(snib_token(lease), >, token);
    give(lease);
    snib_close(other);
    snib_close(client);
}

TEST(a_row_outlasts_a_connection_that_breaks)
{
    struct server pg;
    struct proxy proxy;
    server_postgres(&pg, NULL);
    proxy_start(&proxy, pg.port);
    snib *client = client_at(proxy.port, "mode=lease&ttl=20s");
    snib *other = client_at(pg.port, "mode=lease&ttl=20s");
    snib_lease *lease = take(client, "name", NULL);
    proxy_cut(&proxy, PROXY_RESET);
    CHECK_INT(refused(other, "name", NULL), ==, SNIB_EBUSY);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(lease);
    give(take(other, "name", NULL));
    snib_close(other);
    snib_close(client);
}

/* What a late request on an old connection would do, done by hand. */
TEST(an_attempt_of_an_older_session_comes_too_late)
{
    static const char attempt[] =
        "SELECT what FROM snib.attempt((SELECT key FROM snib.locks), 'name', 0, 1, "
        "(SELECT owner FROM snib.stakes), (SELECT session - 1 FROM snib.stakes), 'old', '', "
        "60000, true)";
    struct server pg;
    server_postgres(&pg, NULL);
    snib *client = client_at(pg.port, "mode=lease");
    snib_lease *lease = take(client, "name", NULL);
    CHECK_STR(sql(&pg, attempt), "late");
    CHECK_STR(sql(&pg, "SELECT snib.release(key, owner, session - 1, false, 1) FROM snib.stakes"),
              "f");
    CHECK_STR(sql(&pg, "SELECT what FROM snib.renew((SELECT session - 1 FROM snib.stakes), "
                       "(SELECT key::text FROM snib.stakes), (SELECT owner FROM snib.stakes), "
                       "'60000')"),
              "lost");
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(lease);
    snib_close(client);
}

TEST(an_attempt_after_a_release_that_was_unsure_comes_too_late)
{
    struct server pg;
    server_postgres(&pg, NULL);
    snib *client = client_at(pg.port, "mode=lease");
    give(take(client, "name", NULL));
    sql(&pg, "SELECT snib.release(key, 'gone', 9, true, 60000) FROM snib.locks");
    CHECK_STR(sql(&pg, "SELECT what FROM snib.attempt((SELECT key FROM snib.locks), 'name', 0, 1, "
                       "'gone', 8, 'old', '', 60000, true)"),
              "late");
    give(take(client, "name", NULL)); /* and is in nobody's way */
    snib_close(client);
}

static PGconn *connected(const struct server *pg)
{
    char where[100];
    snprintf(where, sizeof where, "host=127.0.0.1 port=%d user=snib dbname=postgres", pg->port);
    PGconn *db = PQconnectdb(where);
    CHECK(PQstatus(db) == CONNECTION_OK);
    return db;
}

TEST(a_renewal_that_is_not_committed_yet_keeps_others_out)
{
    static const char attempt[] = "SELECT what FROM snib.attempt((SELECT key FROM snib.locks), "
                                  "'name', 0, 1, 'b', 9, 'b', '', 60000, false)";
    struct server pg;
    server_postgres(&pg, NULL);
    snib *client = client_at(pg.port, "mode=lease");
    give(take(client, "name", NULL)); /* the tables, and a row */
    CHECK_STR(sql(&pg, "SELECT what FROM snib.attempt((SELECT key FROM snib.locks), 'name', 0, 1, "
                       "'a', 5, 'a', '', 2000, false)"),
              "held");
    PGconn *one = connected(&pg), *two = connected(&pg);
    PQclear(PQexec(one, "BEGIN"));
    PGresult *renewed = PQexec(one, "SELECT what FROM snib.renew(6, (SELECT key::text FROM "
                                    "snib.locks), 'a', '60000')");
    CHECK_STR(PQgetvalue(renewed, 0, 0), "held");
    PQclear(renewed);
    int64_t end = check_now_ns() + LONG_MS * 1000000LL;
    while (strcmp(sql(&pg, "SELECT until < clock_timestamp() FROM snib.stakes"), "t") != 0) {
        CHECK_INT(check_now_ns(), <, end);
    }
    CHECK(PQsendQuery(two, attempt) == 1);
    while (strcmp(sql(&pg, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted"), "t") != 0) {
        CHECK_INT(check_now_ns(), <, end);
    }
    PQclear(PQexec(one, "COMMIT"));
    PGresult *result = PQgetResult(two);
    CHECK_STR(PQgetvalue(result, 0, 0), "busy");
    PQclear(result);
    PQfinish(one);
    PQfinish(two);
    snib_close(client);
}

TEST_LIMIT(a_waiter_that_was_killed_is_in_nobodys_way, 60)
{
    struct server pg;
    server_postgres(&pg, NULL);
    const char *url = url_at(pg.port, "mode=lease&ttl=60s");
    struct holder *first = holder_new(url), *second = holder_new(url);
    pid_t dead = check_spawn(hold_it, first), pid = check_spawn(hold_it, second);
    snib *client = client_of(url);
    snib_lease *lease = take(client, "name", NULL);
    struct holder *both[] = {first, second};
    for (int i = 0; i < 2; i++) {
        char count[16];
        int64_t end = check_now_ns() + LONG_MS * 1000000LL;
        snprintf(count, sizeof count, "%d", i + 1);
        check_flag_set(&both[i]->go);
        while (strcmp(sql(&pg, "SELECT count(*) FROM snib.stakes WHERE state = 0"), count) != 0) {
            CHECK_INT(check_now_ns(), <, end);
        }
    }
    check_kill(dead);
    give(lease);
    int64_t start = check_now_ns();
    check_flag_wait(&second->held, LONG_MS);
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(15000)); /* of 60 s */
    check_flag_set(&second->let_go);
    check_join(pid, LONG_MS);
    CHECK_INT(atomic_load(&second->code), ==, SNIB_OK);
    snib_close(client);
}

/* Whoever waits is deaf between two connections, and asks. */
TEST_LIMIT(a_waiter_whose_connection_breaks_is_served_all_the_same, 60)
{
    struct server pg;
    struct proxy proxy;
    server_postgres(&pg, NULL);
    proxy_start(&proxy, pg.port);
    struct holder *h = holder_new(url_at(proxy.port, "mode=lease&ttl=60s"));
    pid_t pid = check_spawn(hold_it, h);
    snib *client = client_at(pg.port, "mode=lease&ttl=60s");
    snib_lease *lease = take(client, "name", NULL);
    check_flag_set(&h->go);
    int64_t end = check_now_ns() + LONG_MS * 1000000LL;
    while (strcmp(sql(&pg, "SELECT count(*) FROM snib.stakes WHERE state = 0"), "1") != 0) {
        CHECK_INT(check_now_ns(), <, end);
    }
    proxy_cut(&proxy, PROXY_RESET);
    give(lease);
    check_flag_wait(&h->held, LONG_MS);
    check_flag_set(&h->let_go);
    check_join(pid, LONG_MS);
    CHECK_INT(atomic_load(&h->code), ==, SNIB_OK);
    snib_close(client);
}
