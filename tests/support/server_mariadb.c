/*
 * MariaDB for the tests: one server with small buffers.
 *
 * Its data folder is made at the first start by mariadb-install-db, which takes about a second, and
 * is kept over restarts. What is committed is flushed, as it is by default, so that a killed server
 * forgets nothing. It refuses to run as root, so it runs as nobody then.
 *
 * Not done: MySQL itself, which Debian does not have.
 */
#include "server_mariadb.h"

#include "port.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char script[] =
    "[ -d data/mysql ] || { "
    "mariadb-install-db --no-defaults --datadir=\"$PWD/data\" --skip-test-db --cross-bootstrap "
    "--auth-root-authentication-method=normal --innodb-buffer-pool-size=8M "
    "--innodb-log-file-size=4M >&2 && "
    "printf '%s\\n' 'CREATE DATABASE IF NOT EXISTS snib;' \"CREATE USER open@'%';\" "
    "\"GRANT ALL ON snib.* TO open@'%';\" "
    "\"CREATE USER snib@'%' IDENTIFIED BY 'secret';\" \"GRANT ALL ON snib.* TO snib@'%';\" "
    ">init.sql; } || exit 1; "
    "[ -e ready ] || set -- --init-file=\"$PWD/init.sql\" \"$@\"; touch ready; "
    "exec \"$MARIADBD\" --no-defaults --datadir=\"$PWD/data\" --socket=\"$PWD/socket\" "
    "--pid-file=\"$PWD/pid\" --tmpdir=\"$PWD\" \"$@\"";

static bool answers(struct server *server, void *arg)
{
    char command[512];
    (void)arg;
    int descriptor = port_connect(server->port);
    if (descriptor < 0) {
        return false;
    }
    close(descriptor);
    snprintf(command, sizeof command,
             "mariadb --no-defaults -uroot -S %s/socket -e 'USE snib' >/dev/null 2>&1",
             server->folder);
    return system(command) == 0; /* NOLINT: the folder is ours */
}

void server_mariadb(struct server *server, const char *const extra[])
{
    static _Atomic int count;
    static const char *const plain[] = {
        "--port=@PORT@",
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        "--skip-log-bin",
        "--innodb-buffer-pool-size=8M",
        "--innodb-log-file-size=4M",
        "--key-buffer-size=64K",
        "--aria-pagecache-buffer-size=1M",
        "--max-connections=1000",
        NULL,
    };
    char name[32];
    snprintf(name, sizeof name, "mariadb%d", atomic_fetch_add(&count, 1));
    server_init(server, name);
    struct server found; /* only to skip the case when it is not there */
    memset(&found, 0, sizeof found);
    server_program(&found, "mariadbd", "mariadb-server");
    server_program(server, "sh", "dash");
    server_argument(server, "-c");
    server_argument(server, "%s", script);
    server_argument(server, "mariadb");
    for (int i = 0; plain[i] != NULL; i++) {
        server_argument(server, "%s", plain[i]);
    }
    for (int i = 0; extra != NULL && extra[i] != NULL; i++) {
        server_argument(server, "%s", extra[i]);
    }
    server_variable(server, "MARIADBD=%s", found.arguments[0]);
    server_variable(server, "TMPDIR=@FOLDER@");
    server_user(server, NULL);
    server_ready_when(server, answers, NULL);
    server_start(server);
}

const char *server_mariadb_ask(struct server *server, const char *format, ...)
{
    static char answer[1024];
    char statements[2048], file[256], command[768];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(statements, sizeof statements, format, arguments);
    va_end(arguments);
    CHECK(size > 0 && (size_t)size < sizeof statements);
    snprintf(file, sizeof file, "%s/statements.sql", check_tmpdir());
    FILE *out = fopen(file, "we");
    CHECK(out != NULL && fputs(statements, out) >= 0 && fclose(out) == 0);
    snprintf(command, sizeof command, "mariadb --no-defaults -N -B -uroot -S %s/socket snib <%s",
             server->folder, file);
    FILE *in = popen(command, "re"); /* NOLINT: the folder is ours */
    CHECK(in != NULL);
    answer[0] = '\0';
    if (fgets(answer, sizeof answer, in) != NULL) {
        answer[strcspn(answer, "\n")] = '\0';
        while (fgetc(in) != EOF) {
        }
    }
    int status = pclose(in);
    if (status != 0) {
        FAIL("%s: refused (%d)", statements, status);
    }
    return answer;
}
