/*
 * PostgreSQL for the tests: a private cluster below the case's folder.
 *
 * It refuses to run as root, so there it is another user's, and the cluster is made by the same
 * shell that becomes the server. fsync is off in making it and on in running, unless said
 * otherwise.
 *
 * A server that was killed leaves sessions behind, each in a process group of its own, which end as
 * soon as they notice; the next start waits until nobody is in the data folder any more.
 */
#include "server_postgres.h"

#include <glob.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *server_postgres_programs(void)
{
    static char folder[200];
    const char *named = getenv("SNIB_TEST_POSTGRES");
    glob_t found;
    if (named != NULL) {
        return named;
    }
    if (folder[0] == '\0') {
        if (glob("/usr/lib/postgresql/*/bin/postgres", 0, NULL, &found) != 0) {
            SKIP("no PostgreSQL server: postgresql has one");
        }
        const char *last = found.gl_pathv[found.gl_pathc - 1];
        snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(last, '/') - last), last);
        globfree(&found);
    }
    return folder;
}

void server_postgres_prepare(struct server *server, const char *name)
{
    static const char script[] =
        "programs=$0; cd '@FOLDER@' || exit 1; "
        "if [ ! -e data/PG_VERSION ]; then "
        "\"$programs/initdb\" -D data -U snib -A trust -E UTF8 --locale=C -N --no-instructions "
        ">/dev/null || exit 1; "
        "echo 'host replication all 127.0.0.1/32 trust' >>data/pg_hba.conf; fi; "
        "while ls -l /proc/[0-9]*/cwd 2>/dev/null | grep -q -- '@FOLDER@/data$'; do sleep 0.05; "
        "done; "
        "exec \"$programs/postgres\" -D data -k '@FOLDER@' -p @PORT@ -c listen_addresses=127.0.0.1 "
        "\"$@\"";
    static const char *const settings[] = {"shared_buffers=16MB", "max_connections=200",
                                           "logging_collector=off", "log_min_messages=log",
                                           "autovacuum_naptime=10s"};
    server_init(server, name);
    server_program(server, "/bin/sh", "dash");
    server_argument(server, "-c");
    server_argument(server, "%s", script);
    server_argument(server, "%s", server_postgres_programs());
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        server_argument(server, "-c");
        server_argument(server, "%s", settings[i]);
    }
    server_user(server, NULL);
    server_ready_line(server, "database system is ready to accept"); /* or read-only ones */
    server->stop_signal = SIGINT;
}

void server_postgres(struct server *server, const char *const extra[])
{
    static _Atomic int count;
    char name[32];
    snprintf(name, sizeof name, "postgres%d", atomic_fetch_add(&count, 1));
    server_postgres_prepare(server, name);
    for (int i = 0; extra != NULL && extra[i] != NULL; i++) {
        server_argument(server, "-c");
        server_argument(server, "%s", extra[i]);
    }
    server_start(server);
}
