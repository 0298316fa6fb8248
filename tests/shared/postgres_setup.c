/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables that take long to be made: what becomes of those who asked, and of those who live by the
 * same connection.
 */
#include "postgres_world.h"

static const char making[] =
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND query LIKE 'DO %'";
static const char waiting[] = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' "
                              "AND query LIKE '%pg_advisory_lock(%'";

static void until(const struct server *pg, const char *question, const char *answer)
{
    int64_t end = check_now_ns() + LONG_MS * 1000000LL;
    while (strcmp(sql(pg, question), answer) != 0) {
        CHECK_INT(check_now_ns(), <, end);
        check_sleep_ms(10);
    }
}

/* Whoever makes tables waits for this. */
static PGconn *hold_up(const struct server *pg)
{
    char where[100];
    snprintf(where, sizeof where, "host=127.0.0.1 port=%d user=snib dbname=postgres", pg->port);
    PGconn *db = PQconnectdb(where);
    CHECK(PQstatus(db) == CONNECTION_OK);
    PQclear(PQexec(db, "SELECT pg_advisory_lock(hashtextextended('snib', 8313480218417128786))"));
    return db;
}

struct outcome {
    struct check_flag over;
    snib_lease *lease;
};

static void on_done(snib_lease *lease, const snib_error *error, void *arg)
{
    struct outcome *outcome = arg;
    (void)error;
    outcome->lease = lease;
    check_flag_set(&outcome->over);
}

static snib_ticket start(snib *client, const char *name, struct outcome *outcome)
{
    snib_error error;
    snib_ticket ticket;
    CHECK_OK(snib_acquire_async(&ticket, client, name, NULL, on_done, outcome, &error),
             error.message);
    return ticket;
}

TEST_LIMIT(who_was_cancelled_while_tables_were_made_is_not_asked_for_again, 60)
{
    struct server pg;
    server_postgres(&pg, NULL);
    PGconn *brake = hold_up(&pg);
    snib *client = client_at(pg.port, "ttl=20s&timeout=1s");
    struct outcome *x = check_shared(sizeof *x), *y = check_shared(sizeof *y);
    snib_ticket ticket = start(client, "x", x);
    until(&pg, making, "1");
    CHECK_INT(snib_cancel(client, ticket), ==, SNIB_OK);
    check_flag_wait(&x->over, LONG_MS);
    CHECK(x->lease == NULL);
    check_sleep_ms(1500); /* longer than its timeout: its release was given up, too */
    start(client, "y", y);
    until(&pg, making, "2"); /* by another connection, as that one is silent */
    PQfinish(brake);
    check_flag_wait(&y->over, LONG_MS);
    CHECK(y->lease != NULL);
    give(y->lease);
    give(take(client, "x", NULL));
    snib_close(client);
}

TEST_LIMIT(nobody_waits_on_the_connection_that_others_hold_by, 60)
{
    struct server pg;
    snib_error error;
    server_postgres(&pg, NULL);
    snib *other = client_at(pg.port, "ttl=20s"), *client = client_at(pg.port, "ttl=20s&timeout=2s");
    snib_lease *foreign = take(other, "x", NULL), *held = take(client, "held", NULL);
    sql(&pg, "DROP SCHEMA snib CASCADE");
    PGconn *brake = hold_up(&pg);
    struct outcome *x = check_shared(sizeof *x), *y = check_shared(sizeof *y);
    start(client, "x", x);
    until(&pg, making, "1");
    check_sleep_ms(2500); /* longer than the timeout: that connection is left for a new one */
    start(client, "y", y);
    until(&pg, making, "2");
    PQfinish(brake);
    check_flag_wait(&y->over, LONG_MS);
    CHECK(y->lease != NULL);
    until(&pg, waiting, "1");
    CHECK_OK(snib_verify(held, &error), error.message);
    give(held);
    give(y->lease);
    give(foreign);
    check_flag_wait(&x->over, LONG_MS);
    CHECK(x->lease != NULL);
    give(x->lease);
    snib_close(other);
    snib_close(client);
}
