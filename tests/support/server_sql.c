/*
 * A cluster is made anew for each server, as the user that runs it: neither server starts as root.
 * What is durable stays durable (no fsync=off): how tokens and leases outlive a crash is tested.
 */
#include "server_sql.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A command for the shell, as the user of servers if we are root; must succeed. */
static void must_run(const struct server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void must_run(const struct server *server, const char *format, ...)
{
    char command[2048], all[2600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    snprintf(all, sizeof all, "%s sh -c '%s' >>%s 2>&1 </dev/null",
             geteuid() == 0 ? "setpriv --reuid=nobody --regid=nogroup --clear-groups --" : "",
             command, server->log);
    int status = system(all);
    if (status != 0) {
        FAIL("status %d of: %s", status, command);
    }
}

static void let_it_in(const struct server *server)
{
    if (geteuid() == 0 && chown(server->folder, 65534, 65534) != 0) {
        FAIL("chown %s: %s", server->folder, strerror(errno));
    }
}

static const char *first_of(const char *const paths[])
{
    for (int i = 0; paths[i] != NULL; i++) {
        if (access(paths[i], X_OK) == 0) {
            return paths[i];
        }
    }
    return NULL;
}

static char *output_of(const char *command)
{
    FILE *pipe = popen(command, "re");
    char *text = calloc(1, 65536);
    CHECK(pipe != NULL && text != NULL);
    size_t size = fread(text, 1, 65535, pipe);
    int status = pclose(pipe);
    while (size > 0 && text[size - 1] == '\n') {
        text[--size] = '\0';
    }
    if (status != 0) {
        FAIL("status %d of %s: %s", status, command, text);
    }
    return text;
}

/* ---- PostgreSQL ------------------------------------------------------------------------- */

static const char *postgres_bin(void)
{
    static const char *const places[] = {
        "/usr/lib/postgresql/17/bin/postgres", "/usr/lib/postgresql/16/bin/postgres",
        "/usr/lib/postgresql/15/bin/postgres", "/usr/lib/postgresql/14/bin/postgres", NULL};
    const char *found = first_of(places);
    if (found == NULL) {
        SKIP("postgres is not installed (Debian package postgresql)");
    }
    return found;
}

static bool postgres_answers(struct server *server, void *arg)
{
    char command[400];
    (void)arg;
    snprintf(command, sizeof command,
             "psql -qAtX 'host=127.0.0.1 port=%d user=snib dbname=snib connect_timeout=2' -c "
             "'SELECT 1' >/dev/null 2>&1",
             server->port);
    return system(command) == 0;
}

void server_postgres(struct server *server, const char *const extra[])
{
    static _Atomic int count;
    char name[32], folder[200];
    const char *postgres = postgres_bin();
    snprintf(name, sizeof name, "postgres%d", atomic_fetch_add(&count, 1));
    server_init(server, name);
    let_it_in(server);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(postgres, '/') - postgres), postgres);
    must_run(server, "%s/initdb -D %s/data -U snib -A trust -E UTF8 --locale=C --no-sync", folder,
             server->folder);
    must_run(server, "echo \"CREATE DATABASE snib\" | %s --single -D %s/data postgres", postgres,
             server->folder);
    server_program(server, postgres, "postgresql");
    server_user(server, "nobody");
    server_argument(server, "-D");
    server_argument(server, "@FOLDER@/data");
    server_argument(server, "-p");
    server_argument(server, "@PORT@");
    server_argument(server, "-clisten_addresses=127.0.0.1");
    server_argument(server, "-cunix_socket_directories=@FOLDER@");
    server_argument(server, "-cmax_connections=300");
    for (int i = 0; extra != NULL && extra[i] != NULL; i++) {
        server_argument(server, "%s", extra[i]);
    }
    server->stop_signal = SIGINT; /* "fast": clients are told and dropped */
    server_ready_when(server, postgres_answers, NULL);
    server_start(server);
}

char *postgres_sql(const struct server *server, const char *sql)
{
    char command[2048];
    snprintf(command, sizeof command,
             "psql -qAtX 'host=127.0.0.1 port=%d user=snib dbname=snib' -c \"%s\" 2>&1",
             server->port, sql);
    return output_of(command);
}

/* ---- MariaDB ---------------------------------------------------------------------------- */

static bool mariadb_answers(struct server *server, void *arg)
{
    char command[400];
    (void)arg;
    snprintf(command, sizeof command,
             "mariadb --no-defaults -h 127.0.0.1 -P %d -u snib snib -e 'SELECT 1' >/dev/null 2>&1",
             server->port);
    return system(command) == 0;
}

void server_mariadb(struct server *server, const char *const extra[])
{
    static _Atomic int count;
    char name[32], path[256];
    snprintf(name, sizeof name, "mariadb%d", atomic_fetch_add(&count, 1));
    server_init(server, name);
    let_it_in(server);
    server_program(server, "mariadbd", "mariadb-server");
    must_run(server,
             "mariadb-install-db --no-defaults --datadir=%s/data "
             "--tmpdir=%s --auth-root-authentication-method=normal --skip-test-db",
             server->folder, server->folder);
    snprintf(path, sizeof path, "%s/init.sql", server->folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs("CREATE DATABASE IF NOT EXISTS snib;\n"
          "CREATE USER IF NOT EXISTS snib@'127.0.0.1';\n"
          "GRANT ALL ON *.* TO snib@'127.0.0.1';\n",
          file);
    CHECK(fclose(file) == 0 && chmod(path, 0644) == 0);
    server_user(server, "nobody");
    server_argument(server, "--no-defaults");
    server_argument(server, "--datadir=@FOLDER@/data");
    server_argument(server, "--init-file=@FOLDER@/init.sql");
    server_argument(server, "--tmpdir=@FOLDER@");
    server_argument(server, "--port=@PORT@");
    server_argument(server, "--bind-address=127.0.0.1");
    server_argument(server, "--socket=@FOLDER@/socket");
    server_argument(server, "--pid-file=@FOLDER@/pid");
    server_argument(server, "--max-connections=400");
    for (int i = 0; extra != NULL && extra[i] != NULL; i++) {
        server_argument(server, "%s", extra[i]);
    }
    server_ready_when(server, mariadb_answers, NULL);
    server_start(server);
}

char *mariadb_sql(const struct server *server, const char *sql)
{
    char command[2048];
    snprintf(command, sizeof command,
             "mariadb --no-defaults -N -B -h 127.0.0.1 -P %d -u snib snib -e \"%s\" 2>&1",
             server->port, sql);
    return output_of(command);
}

/* ---- pgbouncer -------------------------------------------------------------------------- */

void server_pgbouncer(struct server *server, const struct server *postgres, const char *mode)
{
    char path[256];
    server_init(server, "pgbouncer");
    snprintf(path, sizeof path, "%s/ini", server->folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file,
            "[databases]\nsnib = host=127.0.0.1 port=%d dbname=snib user=snib\n[pgbouncer]\n"
            "listen_addr = 127.0.0.1\nlisten_port = %d\nauth_type = any\npool_mode = %s\n"
            "unix_socket_dir =\n",
            postgres->port, server->port, mode != NULL ? mode : "transaction");
    CHECK(fclose(file) == 0 && chmod(path, 0644) == 0);
    server_program(server, "pgbouncer", "pgbouncer");
    server_user(server, "nobody");
    server_argument(server, "@FOLDER@/ini");
    server_start(server);
}
