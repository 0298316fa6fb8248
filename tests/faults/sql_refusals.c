/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the SQL engines do not work, and say why: poolers, standbys, read-only servers, clusters of
 * several masters, no rights, no module. And names that look like SQL.
 */
#include "sql_world.h"

#include <stdarg.h>
#include <sys/stat.h>

static void must_be_refused(const char *url, int code, const char *word)
{
    snib *client = client_at(url);
    snib_error error = {0};
    CHECK_INT(try_it(client, "name", &error), ==, code);
    if (strstr(error.message, word) == NULL) {
        FAIL("the message should say %s and says: %s", word, error.message);
    }
    snib_close(client);
}

/* ---- In between ------------------------------------------------------------------------- */

TEST_LIMIT(a_pooler_is_known_and_refused_in_both_modes, 60)
{
    struct world *w = world_new("postgres", "session", NULL);
    struct server pgbouncer;
    server_pgbouncer(&pgbouncer, &w->server, "transaction");
    must_be_refused(url_at(w, pgbouncer.port, ""), SNIB_EUNSAFE, "pooler");
    w->mode = "lease";
    must_be_refused(url_at(w, pgbouncer.port, ""), SNIB_EUNSAFE, "pooler");
}

TEST_LIMIT(a_pooler_that_keeps_sessions_is_used_if_the_user_says_so, 60)
{
    struct world *w = world_new("postgres", "session", NULL);
    struct server pgbouncer;
    server_pgbouncer(&pgbouncer, &w->server, "session");
    must_be_refused(url_at(w, pgbouncer.port, ""), SNIB_EUNSAFE, "pooler=session");
    snib *client = client_at(url_at(w, pgbouncer.port, "pooler=session")),
         *other = client_of(w, "");
    snib_lease *lease = take(client, "name");
    CHECK_INT(try_it(other, "name", NULL), ==, SNIB_EBUSY);
    give(&lease);
    CHECK_INT(try_it(other, "name", NULL), ==, SNIB_OK);
    snib_close(other);
    snib_close(client);
}

/* ---- Servers that are not the one ------------------------------------------------------- */

TEST_LIMIT(a_standby_is_refused, 60)
{
    struct world *w = world_new("postgres", "session", NULL);
    char path[sizeof w->server.folder + 32];
    server_stop(&w->server);
    snprintf(path, sizeof path, "%.180s/data/standby.signal", w->server.folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fclose(file) == 0 && chmod(path, 0644) == 0);
    server_start(&w->server);
    must_be_refused(url_at(w, w->server.port, ""), SNIB_EUNSAFE, "standby");
    w->mode = "lease";
    must_be_refused(url_at(w, w->server.port, ""), SNIB_EUNSAFE, "standby");
}

TEST_LIMIT(a_read_only_postgres_is_refused, 60)
{
    static const char *const extra[] = {"-cdefault_transaction_read_only=on", NULL};
    struct world *w = world_new("postgres", "session", extra);
    must_be_refused(url_at(w, w->server.port, ""), SNIB_EUNSAFE, "read only");
}

TEST_LIMIT(a_read_only_mysql_is_refused, 60)
{
    static const char *const extra[] = {"--read-only=1", NULL};
    struct world *w = world_new("mysql", "session", extra);
    must_be_refused(url_at(w, w->server.port, ""), SNIB_EUNSAFE, "read only");
}

TEST_LIMIT(a_cluster_of_several_masters_is_refused, 90)
{
    static const char *const extra[] = {"--wsrep-on=ON",
                                        "--wsrep-provider=/usr/lib/galera/libgalera_smm.so",
                                        "--wsrep-cluster-address=gcomm://",
                                        "--wsrep-provider-options=base_port=@PORT1@",
                                        "--wsrep-node-address=127.0.0.1:@PORT1@",
                                        "--binlog-format=ROW",
                                        NULL};
    if (access("/usr/lib/galera/libgalera_smm.so", R_OK) != 0) {
        SKIP("Galera is not installed (Debian package galera-4)");
    }
    struct world *w = world_new("mysql", "session", extra);
    must_be_refused(url_at(w, w->server.port, ""), SNIB_EUNSAFE, "Galera");
}

/* ---- Rights ----------------------------------------------------------------------------- */

static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void run(const char *format, ...)
{
    char command[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    if (system(command) != 0) {
        FAIL("failed: %s", command);
    }
}

TEST_LIMIT(who_may_not_create_is_told_what_to_run_and_it_works, 60)
{
    struct world *w = world_new("postgres", "session", NULL);
    char url[200];
    do_sql(w, "CREATE ROLE bob LOGIN");
    snprintf(url, sizeof url, "postgres://bob@127.0.0.1:%d/snib", w->server.port);
    must_be_refused(url, SNIB_EDENIED, "postgres.sql");
    run("psql -qX -1 -v ON_ERROR_STOP=1 'host=127.0.0.1 port=%d user=snib dbname=snib' -f "
        "%s/postgres.sql",
        w->server.port, TEST_BUILD_DIR);
    do_sql(w, "GRANT USAGE ON SCHEMA snib TO bob; GRANT ALL ON ALL TABLES IN SCHEMA snib TO bob;"
              "GRANT ALL ON ALL SEQUENCES IN SCHEMA snib TO bob");
    snib *client = client_at(url);
    CHECK_INT(try_it(client, "name", NULL), ==, SNIB_OK);
    snib_close(client);
}

TEST_LIMIT(who_may_not_create_on_mysql_is_told_what_to_run_and_it_works, 60)
{
    struct world *w = world_new("mysql", "session", NULL);
    char url[200];
    run("mariadb --no-defaults -S %s/socket -u root -e \"CREATE USER bob@'127.0.0.1'; GRANT "
        "SELECT, "
        "EXECUTE ON snib.* TO bob@'127.0.0.1'\"",
        w->server.folder);
    snprintf(url, sizeof url, "mysql://bob@127.0.0.1:%d/snib", w->server.port);
    must_be_refused(url, SNIB_EDENIED, "mysql.sql");
    run("mariadb --no-defaults -h 127.0.0.1 -P %d -u snib snib <%s/mysql.sql", w->server.port,
        TEST_BUILD_DIR);
    snib *client = client_at(url);
    CHECK_INT(try_it(client, "name", NULL), ==, SNIB_OK);
    snib_close(client);
}

TEST_LIMIT(a_wrong_password_is_told_and_the_right_one_comes_from_a_file, 60)
{
    struct world *w = world_new("postgres", "session", NULL);
    char path[256], url[400];
    do_sql(w, "CREATE ROLE ann LOGIN SUPERUSER PASSWORD 'secret'");
    run("echo 'host all ann 127.0.0.1/32 scram-sha-256' >%s/hba && cat %s/data/pg_hba.conf "
        ">>%s/hba && cat %s/hba >%s/data/pg_hba.conf",
        w->server.folder, w->server.folder, w->server.folder, w->server.folder, w->server.folder);
    do_sql(w, "SELECT pg_reload_conf()");
    check_sleep_ms(300);
    snprintf(url, sizeof url, "postgres://ann:wrong@127.0.0.1:%d/snib", w->server.port);
    must_be_refused(url, SNIB_EDENIED, "ann");
    snprintf(path, sizeof path, "%s/password", check_tmpdir());
    run("(umask 077; echo secret >%s)", path);
    snprintf(url, sizeof url, "postgres://ann@127.0.0.1:%d/snib?passfile=%s", w->server.port, path);
    snib *client = client_at(url);
    CHECK_INT(try_it(client, "name", NULL), ==, SNIB_OK);
    snib_close(client);
}

/* ---- URLs and modules ------------------------------------------------------------------- */

TEST(a_module_that_is_missing_is_named_with_its_package)
{
    snib *client = NULL;
    snib_error error = {0};
    setenv("SNIB_MODULES", "/nonexistent", 1);
    CHECK_INT(snib_open(&client, "postgres://host/db", &error), ==, SNIB_ENOTSUP);
    CHECK(strstr(error.message, "snib-engine-postgres") != NULL);
    CHECK_INT(snib_open(&client, "mysql://host/db", &error), ==, SNIB_ENOTSUP);
    CHECK(strstr(error.message, "snib-engine-mysql") != NULL);
}

TEST(urls_that_make_no_sense_are_refused)
{
    static const char *const urls[] = {
        "mysql:",
        "mysql://host",
        "mysql://a,b/db",
        "postgres://a,b/c",
        "postgres://host/a/b",
        "postgres://host/db?mode=other",
        "mysql://h/db?x=1",
        "postgres://h/d?passfile=/nonexistent",
    };
    setenv("SNIB_MODULES", TEST_BUILD_DIR "/engines", 1);
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        snib *client = NULL;
        snib_error error = {0};
        if (snib_open(&client, urls[i], &error) == SNIB_OK) {
            FAIL("accepted: %s", urls[i]);
        }
        CHECK(error.message[0] != '\0');
    }
}

TEST(a_server_that_is_not_there_is_told_at_once)
{
    setenv("SNIB_MODULES", TEST_BUILD_DIR "/engines", 1);
    must_be_refused("postgres://snib@127.0.0.1:1/snib", SNIB_EUNREACH, "");
    must_be_refused("mysql://snib@127.0.0.1:1/snib", SNIB_EUNREACH, "");
}

/* ---- Names that look like SQL ----------------------------------------------------------- */

struct sight {
    int count;
    char name[201], label[61];
};

static int note(const snib_seen *seen, void *arg)
{
    struct sight *sight = arg;
    sight->count++;
    snprintf(sight->name, sizeof sight->name, "%s", seen->name);
    snprintf(sight->label, sizeof sight->label, "%s", seen->label);
    return 0;
}

static void names_that_look_like_sql_are_names(struct world *w)
{
    static const char *const names[] = {
        "'); DROP SCHEMA snib CASCADE; --",
        "\\'; DROP TABLE snib_session_claim; #",
        "x' OR '1'='1",
        "@",
        "$1 @me@ %s %n",
        "\"; SELECT pg_sleep(100); /*",
        "`name`",
        "\\x27",
        "0x27",
        "\xc3\xa4' \xf0\x9f\x94\x92",
    };
    snib *client = client_of(w, "timeout=30s"), *other = client_of(w, "timeout=30s");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snib_options options = waiting(0);
        snib_lease *lease = NULL;
        snib_error error = {0};
        struct sight sight = {0};
        options.label = names[i];
        CHECK_OK(snib_acquire(&lease, client, names[i], &options, &error), error.message);
        CHECK_INT(snib_inspect(other, names[i], note, &sight, NULL), ==, SNIB_OK);
        CHECK_INT(sight.count, ==, 1);
        CHECK_STR(sight.name, names[i]);
        CHECK_STR(sight.label, names[i]);
        sight.count = 0;
        CHECK_INT(snib_list(other, "", note, &sight, NULL), ==, SNIB_OK);
        CHECK_INT(sight.count, ==, 1);
        CHECK_INT(try_it(other, names[i], NULL), ==, SNIB_EBUSY);
        give(&lease);
    }
    snib_close(other);
    snib_close(client);
}
ON_ALL(names_that_look_like_sql_are_names)
