/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine for MySQL and MariaDB against what the server can do: ratios within one run, on a
 * private MariaDB server.
 *
 *   (a) uncontended acquire+release against a loop of libmariadb that sends the same two texts
 *   (b) hand-over among 8 processes that wait, in round trips of a bare statement
 *
 * What is compared takes turns; ratios are taken within a round, and the median of the rounds is
 * shown. In (b) the lock is held for a moment, so that the next in line sleeps when it is released.
 * The server flushes its disk at each commit, as it does by default: a grant is one flush.
 */
#include "engines/mysql/statements.h"
#include "measure.h"
#include "snib.h"

#include <grp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { PORT = 23306, HANDS = 8, HANDOVERS = 1000, NOBODY = 65534 };

static void must(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "bench: %s\n", what);
        exit(1);
    }
}

/* ---- A server --------------------------------------------------------------------------- */

static pid_t start_server(const char *folder)
{
    char script[1200];
    if (access("/usr/sbin/mariadbd", X_OK) != 0) {
        printf("no MariaDB server here\n");
        exit(0);
    }
    snprintf(script, sizeof script,
             "cd %s && export TMPDIR=$PWD && mariadb-install-db --no-defaults --datadir=$PWD/data "
             "--skip-test-db --cross-bootstrap --auth-root-authentication-method=normal "
             ">log 2>&1 && printf '%%s\\n' 'CREATE DATABASE snib;' \"CREATE USER snib@'%%';\" "
             "\"GRANT ALL ON snib.* TO snib@'%%';\" >init.sql && exec /usr/sbin/mariadbd "
             "--no-defaults --datadir=$PWD/data --socket=$PWD/socket --pid-file=$PWD/pid "
             "--init-file=$PWD/init.sql --port=%d --bind-address=127.0.0.1 --skip-name-resolve "
             ">log 2>&1",
             folder, PORT);
    bool root = geteuid() == 0;
    must(!root || chown(folder, NOBODY, NOBODY) == 0, "cannot give the folder away");
    pid_t pid = fork();
    if (pid == 0) {
        if (root) {
            must(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0, "setuid");
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static MYSQL *connect_to_it(void)
{
    for (int i = 0; i < 600; i++) {
        MYSQL *db = mysql_init(NULL);
        if (mysql_real_connect(db, "127.0.0.1", "snib", "", "snib", PORT, NULL,
                               CLIENT_MULTI_STATEMENTS | CLIENT_MULTI_RESULTS)) {
            return db;
        }
        mysql_close(db);
        usleep(50000);
    }
    must(false, "the server does not answer");
    return NULL;
}

static snib *client_of_it(void)
{
    char url[120];
    snib *client;
    snib_error error;
    snprintf(url, sizeof url, "mysql://snib@127.0.0.1:%d/snib?quarantine=no", PORT);
    must(snib_open(&client, url, &error) == SNIB_OK, error.message);
    return client;
}

/* ---- (a) -------------------------------------------------------------------------------- */

static void execute(MYSQL *db, const char *text)
{
    must(mysql_real_query(db, text, strlen(text)) == 0, mysql_error(db));
    do {
        MYSQL_RES *result = mysql_store_result(db);
        must(result || mysql_errno(db) == 0, mysql_error(db));
        mysql_free_result(result);
    } while (mysql_next_result(db) == 0);
    must(mysql_errno(db) == 0, mysql_error(db));
}

static char *take_text, *give_text;

static double bare_pair(void *db, long count)
{
    int64_t start = measure_now_ns();
    for (long i = 0; i < count; i++) {
        execute(db, take_text);
        execute(db, give_text);
    }
    return measure_each(start, count);
}

static double bare_trip(void *db, long count)
{
    int64_t start = measure_now_ns();
    for (long i = 0; i < count; i++) {
        execute(db, "SELECT 1");
    }
    return measure_each(start, count);
}

static double lock_pair(void *client, long count)
{
    int64_t start = measure_now_ns();
    for (long i = 0; i < count; i++) {
        snib_lease *lease;
        must(snib_acquire(&lease, client, "pair", NULL, NULL) == SNIB_OK, "acquire");
        must(snib_release(&lease, NULL) == SNIB_OK, "release");
    }
    return measure_each(start, count);
}

/* ---- (b) -------------------------------------------------------------------------------- */

struct board {
    _Atomic int64_t released_ns;
    _Atomic int count;
    int64_t took_ns[HANDOVERS];
};

static void hand_over(struct board *board)
{
    snib *client = client_of_it();
    while (atomic_load(&board->count) < HANDOVERS) {
        snib_lease *lease;
        must(snib_acquire(&lease, client, "relay", NULL, NULL) == SNIB_OK, "acquire");
        int64_t now = measure_now_ns(), released = atomic_load(&board->released_ns);
        int at = atomic_fetch_add(&board->count, 1);
        if (at < HANDOVERS) {
            board->took_ns[at] = released ? now - released : 0;
        }
        usleep(3000); /* the others wait, and sleep */
        atomic_store(&board->released_ns, measure_now_ns());
        must(snib_release(&lease, NULL) == SNIB_OK, "release");
    }
    snib_close(client);
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static void measure_handover(MYSQL *db)
{
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(board != MAP_FAILED, "no memory");
    for (int i = 0; i < HANDS; i++) {
        if (fork() == 0) {
            hand_over(board);
            _exit(0);
        }
    }
    static double trips[MEASURE_ROUNDS];
    for (int i = 0; i < MEASURE_ROUNDS; i++) { /* beside it, after a pause */
        usleep(1000);
        trips[i] = bare_trip(db, 1);
    }
    for (int i = 0; i < HANDS; i++) {
        wait(NULL);
    }
    qsort(board->took_ns, HANDOVERS, sizeof board->took_ns[0], compare);
    int64_t median_ns = board->took_ns[HANDOVERS / 2];
    double took = (double)median_ns, trip = measure_median(trips);
    printf("%-58s %10.0f %7.2f\n", "hand-over among 8, in round trips", took, took / trip);
    munmap(board, sizeof *board);
}

int main(int argc, char **argv)
{
    char folder[200], command[260];
    static const char *const values[10] = {"snib:bare", "bare", "0", "bench", "", "30000"};
    static const struct mysql_settings settings = {.prefix = "snib"};
    const struct mysql_text_place place = {
        .settings = &settings, .link = "0", .maria = true, .idle_s = 30, .patience_s = 5};
    size_t size;
    setenv("SNIB_MODULES", BENCH_MODULES, 0);
    measure_make_folder(folder, sizeof folder, argc, argv);
    pid_t server = start_server(folder);
    MYSQL *db = connect_to_it();
    snib *client = client_of_it();
    lock_pair(client, 1); /* makes the tables */
    take_text = mysql_text(&place, SQL_TRY, values, &size);
    give_text = mysql_text(&place, SQL_UNLOCK, values, &size);
    char *greeting = mysql_text_greeting(&place, &size);
    must(take_text && give_text && greeting, "no memory");
    execute(db, greeting);
    const struct measure_subject subjects[] = {
        {"two round trips, the same texts", bare_pair, db, 4, -1, 0, 1},
        {"acquire and release", lock_pair, client, 4, 0, 1.2, 1},
    };
    measure(subjects, 2);
    measure_handover(db);
    snib_close(client);
    mysql_close(db);
    free(take_text);
    free(give_text);
    free(greeting);
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? 0 : 1; /* NOLINT: a folder of ours */
}
