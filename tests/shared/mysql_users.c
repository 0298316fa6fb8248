/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may lock at a MariaDB server, what its settings may be, and what a URL may say.
 */
#include "mysql_world.h"
#include "tls_link.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Users and rights ------------------------------------------------------------------- */

TEST(strangers_are_refused_with_the_servers_own_words)
{
    struct server mariadb;
    snib_error error = {0};
    char url[200];
    server_mariadb(&mariadb, NULL);
    snprintf(url, sizeof url, "mysql://snib:wrong@127.0.0.1:%d/snib", mariadb.port);
    snib *client = client_of(url);
    CHECK_INT(try_take(client, "name", 0, &error), ==, SNIB_EDENIED);
    CHECK(strstr(error.message, "Access denied") != NULL);
    CHECK(strstr(error.message, "wrong") == NULL); /* never a password */
    snib_close(client);
}

TEST(a_user_with_the_rights_that_are_printed_can_lock_and_one_without_is_refused)
{
    struct server mariadb;
    char rights[SNIB_RIGHTS_SIZE], url[200];
    snib_error error = {0};
    server_mariadb(&mariadb, NULL);
    snprintf(url, sizeof url, "mariadb://lo%%27cker:PASSWORD@127.0.0.1:%d/snib?quarantine=no",
             mariadb.port);
    snib *client = client_of(url);
    CHECK_INT(snib_rights(client, rights, sizeof rights, NULL), ==, SNIB_OK);
    server_mariadb_ask(&mariadb, "%s", rights);
    give(take(client, "name"));
    snib_close(client);
    server_mariadb_ask(&mariadb, "REVOKE INSERT ON snib.* FROM 'lo''cker'@'%%'");
    client = client_of(url);
    CHECK_INT(try_take(client, "name", 0, &error), ==, SNIB_EDENIED);
    CHECK(strstr(error.message, "INSERT") != NULL);
    snib *other = client_at(mariadb.port, "quarantine=no");
    give(take(other, "name")); /* what was refused has left no lock */
    snib_close(other);
    snib_close(client);
}

static int count_bad(const snib_finding *finding, void *arg)
{
    *(int *)arg += finding->verdict == SNIB_BAD;
    return 0;
}

TEST(doctor_finds_rights_that_are_missing)
{
    struct server mariadb;
    snib_error error;
    int bad = 0;
    server_mariadb(&mariadb, NULL);
    snib *client = client_at(mariadb.port, "quarantine=no");
    CHECK_OK(snib_examine(client, count_bad, &bad, &error), error.message);
    CHECK_INT(bad, ==, 0);
    give(take(client, "name"));
    CHECK_OK(snib_examine(client, count_bad, &bad, &error), error.message);
    CHECK_INT(bad, ==, 0);
    server_mariadb_ask(&mariadb, "CREATE USER poor@'%%'; GRANT SELECT ON snib.* TO poor@'%%'");
    snib_close(client);
    char url[200];
    snprintf(url, sizeof url, "mysql://poor@127.0.0.1:%d/snib", mariadb.port);
    client = client_of(url);
    CHECK_OK(snib_examine(client, count_bad, &bad, &error), error.message);
    CHECK_INT(bad, ==, 1);
    snib_close(client);
}

TEST(a_password_may_come_from_a_file_and_the_server_by_its_socket)
{
    struct server mariadb;
    char url[600], path[256];
    server_mariadb(&mariadb, NULL);
    snprintf(path, sizeof path, "%s/passfile", check_tmpdir());
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, "secret\n", 7) == 7 && close(fd) == 0);
    snprintf(url, sizeof url, "mysql://snib@/snib?quarantine=no&passfile=%s&socket=%s/socket", path,
             mariadb.folder);
    snib *client = client_of(url);
    give(take(client, "name"));
    snib_close(client);
}

/* ---- Servers ---------------------------------------------------------------------------- */

TEST(a_read_only_server_is_refused)
{
    struct server mariadb;
    snib_error error = {0};
    server_mariadb(&mariadb, NULL);
    server_mariadb_ask(&mariadb, "SET GLOBAL read_only=1");
    snib *client = client_at(mariadb.port, "quarantine=no");
    CHECK_INT(try_take(client, "name", 0, &error), ==, SNIB_EUNSAFE);
    CHECK(strstr(error.message, "read-only") != NULL);
    server_mariadb_ask(&mariadb, "SET GLOBAL read_only=0");
    give(take(client, "name"));
    snib_close(client);
}

TEST(odd_defaults_of_a_server_change_nothing)
{
    struct server mariadb;
    static const char *const odd[] = {"--transaction-isolation=SERIALIZABLE",
                                      "--autocommit=0",
                                      "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT",
                                      "--max-statement-time=1",
                                      "--wait-timeout=1",
                                      "--interactive-timeout=1",
                                      "--default-time-zone=+05:30",
                                      "--character-set-server=latin1",
                                      "--innodb-lock-wait-timeout=1",
                                      NULL};
    server_mariadb(&mariadb, odd);
    snib *client = client_at(mariadb.port, "quarantine=no&ttl=30s");
    snib *other = client_at(mariadb.port, "quarantine=no&ttl=30s");
    snib_lease *lease = take(client, "caf\xc3\xa9 'x' \"y\" \\");
    snib_error error = {0};
    CHECK_INT(try_take(other, "caf\xc3\xa9 'x' \"y\" \\", 2500, &error), ==, SNIB_EBUSY);
    CHECK_INT(snib_state(lease), ==, SNIB_HELD);
    CHECK_INT(snib_verify(lease, NULL), ==, SNIB_OK);
    give(lease);
    give(take(other, "caf\xc3\xa9 'x' \"y\" \\"));
    snib_close(other);
    snib_close(client);
}

TEST(an_authority_in_the_url_means_tls_on_this_host_too)
{
    struct server mariadb;
    snib_error error = {0};
    char cert[300], key[300], file[256], folder[256], url[600];
    snprintf(file, sizeof file, "%s", tls_file("good.pem"));
    snprintf(folder, sizeof folder, "%s", file);
    *strrchr(folder, '/') = '\0';
    CHECK(chmod(check_tmpdir(), 0755) == 0 && chmod(folder, 0755) == 0 && chmod(file, 0644) == 0);
    snprintf(cert, sizeof cert, "--ssl-cert=%s", file);
    snprintf(key, sizeof key, "--ssl-key=%s", file);
    server_mariadb(&mariadb, (const char *const[]){cert, key, NULL});
    server_mariadb_ask(&mariadb, "ALTER USER snib@'%%' REQUIRE SSL");
    snib *client = client_at(mariadb.port, "quarantine=no");
    CHECK_INT(try_take(client, "name", 0, &error), ==, SNIB_EDENIED); /* it was not TLS */
    snib_close(client);
    snprintf(url, sizeof url, "mysql://snib:secret@localhost:%d/snib?quarantine=no&ca=%s",
             mariadb.port, tls_file("authority.crt"));
    client = client_of(url);
    snib_lease *lease = take(client, "name");
    snib *other = client_of(url);
    CHECK_INT(try_take(other, "name", 300, &error), ==, SNIB_EBUSY); /* waits over TLS, too */
    give(lease);
    give(take(other, "name"));
    snib_close(other);
    snib_close(client);
    snprintf(url, sizeof url, "mysql://snib:secret@localhost:%d/snib?quarantine=no&ca=%s",
             mariadb.port, file); /* no authority of that certificate */
    client = client_of(url);
    CHECK_INT(try_take(client, "name", 0, &error), ==, SNIB_EUNREACH);
    snib_close(client);
}

/* ---- URLs ------------------------------------------------------------------------------- */

static void must_be_refused(const char *url, const char *why)
{
    snib *client;
    snib_error error = {0};
    CHECK_INT(try_open(&client, url, &error), ==, SNIB_EINVAL);
    if (strstr(error.message, why) == NULL) {
        FAIL("%s: %s", url, error.message);
    }
}

TEST(urls_that_make_no_sense_are_refused)
{
    must_be_refused("mysql://host/snib", "as whom");
    must_be_refused("mysql://u@a,b/snib", "one server");
    must_be_refused("mysql://u@host/snib?socket=/run/s", "socket=");
    must_be_refused("mysql://u@localhost:3306/snib?socket=/run/s", "socket=");
    must_be_refused("mysql://u@/snib?socket=here", "absolute");
    must_be_refused("mysql://u@/snib?socket=/run/s&ca=/x", "Unix socket");
    must_be_refused("mysql://u@host/a;b", "database");
    must_be_refused("mysql://u@host/snib?prefix=a-b", "prefix=");
    must_be_refused("mysql://u@host/snib?cert=/x", "cert= and key=");
    must_be_refused("mysql://u@host/snib?tls=no&ca=/x", "tls=no");
    must_be_refused("mysql://u@host/snib?tls=insecure&ca=/x", "tls=insecure");
    must_be_refused("mysql://u:p@host/snib?passfile=/x", "passfile=");
    must_be_refused("mysql://u@host/snib?mode=lease", "mode");
}

TEST(shared_and_counted_locks_are_refused)
{
    struct server mariadb;
    snib_lease *lease;
    snib_error error = {0};
    snib_options options = SNIB_OPTIONS;
    server_mariadb(&mariadb, NULL);
    snib *client = client_at(mariadb.port, "quarantine=no");
    options.mode = SNIB_SHARED;
    CHECK_INT(snib_acquire(&lease, client, "name", &options, &error), ==, SNIB_ENOTSUP);
    options.mode = SNIB_COUNTED;
    options.permits = 2;
    CHECK_INT(snib_acquire(&lease, client, "name", &options, &error), ==, SNIB_ENOTSUP);
    snib_close(client);
}

/* ---- More waits than connections -------------------------------------------------------- */

struct served {
    _Atomic int count;
};

static void on_done(snib_lease *lease, const snib_error *error, void *arg)
{
    CHECK_OK(error ? error->code : SNIB_OK, error->message);
    CHECK_INT(snib_release(&lease, NULL), ==, SNIB_OK);
    atomic_fetch_add(&((struct served *)arg)->count, 1);
}

enum { NAMES = 5 };

static bool all_served(void *arg)
{
    return atomic_load(&((struct served *)arg)->count) == NAMES;
}

TEST(who_finds_no_connection_to_wait_on_is_served_all_the_same)
{
    static struct served served;
    struct server mariadb;
    snib_lease *held[NAMES];
    snib_ticket ticket;
    server_mariadb(&mariadb, NULL);
    snib *client = client_at(mariadb.port, "quarantine=no");
    snib *waiter = client_at(mariadb.port, "quarantine=no&max-waits=1");
    for (int i = 0; i < NAMES; i++) {
        char name[16];
        snprintf(name, sizeof name, "job %d", i);
        held[i] = take(client, name);
        CHECK_INT(snib_acquire_async(&ticket, waiter, name, NULL, on_done, &served, NULL), ==,
                  SNIB_OK);
    }
    check_sleep_ms(100);
    CHECK_INT(atomic_load(&served.count), ==, 0);
    for (int i = NAMES - 1; i >= 0; i--) {
        give(held[i]);
    }
    CHECK(check_until(all_served, &served, LONG_MS));
    snib_close(waiter);
    snib_close(client);
}
