/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users of few rights: tables made by hand, and what `snib doctor --acl` prints; the guarded write
 * of the examples.
 */
#include "postgres_world.h"

#include <sys/wait.h>

/* What docs/postgres.sql has, for both modes. */
static void make_tables(const struct server *pg)
{
    char command[600];
    snprintf(command, sizeof command,
             "%s/psql -q -h 127.0.0.1 -p %d -U snib -v ON_ERROR_STOP=1 -f %s postgres",
             server_postgres_programs(), pg->port, TEST_SOURCE_DIR "/docs/postgres.sql");
    for (int i = 0; i < 2; i++) {          /* twice does no harm */
        CHECK_INT(system(command), ==, 0); /* NOLINT: no text of others */
    }
}

TEST(a_user_with_the_rights_that_are_printed_can_lock_and_make_nothing)
{
    struct server pg;
    char rights[SNIB_RIGHTS_SIZE], url[200];
    server_postgres(&pg, NULL);
    make_tables(&pg);
    sql(&pg, "REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    snprintf(url, sizeof url, "postgres://guest@127.0.0.1:%d/postgres", pg.port);
    snib *client = client_of(url);
    CHECK_INT(snib_rights(client, rights, sizeof rights, NULL), ==, SNIB_OK);
    sql(&pg, rights);
    snib_lease *one = take(client, "name", NULL);
    snib *other = client_at(pg.port, "");
    CHECK_INT(refused(other, "name", NULL), ==, SNIB_EBUSY);
    give(one);
    snib_close(client);
    snprintf(url, sizeof url, "postgres://guest@127.0.0.1:%d/postgres?mode=lease&schema=snib_lease",
             pg.port);
    client = client_of(url);
    CHECK_INT(snib_rights(client, rights, sizeof rights, NULL), ==, SNIB_OK);
    sql(&pg, strchr(rights, ';') + 1); /* the role is there */
    one = take(client, "name", NULL);
    CHECK_INT(snib_verify(one, NULL), ==, SNIB_OK);
    give(one);
    snib_close(client);
    snib_close(other);
    CHECK_STR(sql(&pg, "SELECT has_database_privilege('guest', 'postgres', 'CREATE')"), "f");
}

TEST(a_user_who_may_make_nothing_is_told_so)
{
    struct server pg;
    snib_error error;
    char url[200];
    server_postgres(&pg, NULL);
    sql(&pg, "CREATE ROLE guest LOGIN");
    for (int mode = 0; mode < 2; mode++) {
        snprintf(url, sizeof url, "postgres://guest@127.0.0.1:%d/postgres%s", pg.port,
                 mode ? "?mode=lease" : "");
        snib *client = client_of(url);
        CHECK_INT(refused(client, "name", &error), ==, SNIB_EDENIED);
        must_say(&error, "permission denied");
        snib_close(client);
    }
}

TEST(the_guarded_write_refuses_an_older_token)
{
    struct server pg;
    char port[12], path[400];
    server_postgres(&pg, NULL);
    sql(&pg, "CREATE TABLE guarded (name text PRIMARY KEY, value text, token bigint NOT NULL)");
    snprintf(port, sizeof port, "%d", pg.port);
    snprintf(path, sizeof path, "%s:%s", server_postgres_programs(), getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("PGHOST", "127.0.0.1", 1);
    setenv("PGPORT", port, 1);
    setenv("PGUSER", "snib", 1);
    setenv("PGDATABASE", "postgres", 1);
    setenv("SNIB_TOKEN", "7", 1);
#define GUARD TEST_SOURCE_DIR "/examples/postgres_guard.sh"
    CHECK_INT(system(GUARD " stock \"4'1\" >/dev/null"), ==, 0); /* NOLINT: no text of others */
    setenv("SNIB_TOKEN", "6", 1);
    CHECK_INT(WEXITSTATUS(system(GUARD " stock 42 2>/dev/null")), ==, 1); /* NOLINT: as above */
    CHECK_STR(sql(&pg, "SELECT value FROM guarded"), "4'1");
}
