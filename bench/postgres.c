/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PostgreSQL engine against what the server can do: ratios within one run, on a private server.
 *
 *   (a) mode=session: uncontended acquire+release against a loop of libpq that sends the same two
 *       statements
 *   (b) mode=session: hand-over among 8 processes that wait, in round trips of a bare statement
 *   (c) mode=lease: uncontended acquire+release against the plainest lease in SQL: one row, taken
 * by an upsert and given back by an update, both committed
 *
 * What is compared takes turns; ratios are taken within a round, and the median of the rounds is
 * shown. In (b) the lock is held for a moment, so that the next in line sleeps when it is released.
 * The server flushes its disk as it does by default: with that, (c) is mostly two flushes.
 *
 * Not done: the plainest lease under contention, which has no queue to compare with.
 */
#include "engines/postgres/statements.h"
#include "measure.h"
#include "snib.h"

#include <glob.h>
#include <grp.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { PORT = 25432, HANDS = 8, HANDOVERS = 2000, NOBODY = 65534 };

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
    glob_t found;
    char script[900];
    if (glob("/usr/lib/postgresql/*/bin/postgres", 0, NULL, &found) != 0) {
        printf("no PostgreSQL server here\n");
        exit(0);
    }
    const char *last = found.gl_pathv[found.gl_pathc - 1];
    snprintf(script, sizeof script,
             "cd %s && %.*s/initdb -D data -U snib -A trust -E UTF8 --locale=C -N >/dev/null && "
             "exec %s -D data -k '' -p %d -c listen_addresses=127.0.0.1 -c shared_buffers=64MB "
             "-c autovacuum_naptime=5s >log 2>&1",
             folder, (int)(strrchr(last, '/') - last), last, last, PORT);
    globfree(&found);
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

static PGconn *connect_to_it(void)
{
    char where[100];
    snprintf(where, sizeof where, "host=127.0.0.1 port=%d user=snib dbname=postgres", PORT);
    for (int i = 0; i < 600; i++) {
        PGconn *db = PQconnectdb(where);
        if (PQstatus(db) == CONNECTION_OK) {
            return db;
        }
        PQfinish(db);
        usleep(50000);
    }
    must(false, "the server does not answer");
    return NULL;
}

static snib *client_at(const char *parameters)
{
    char url[200];
    snib *client;
    snib_error error;
    snprintf(url, sizeof url, "postgres://snib@127.0.0.1:%d/postgres%s", PORT, parameters);
    must(snib_open(&client, url, &error) == SNIB_OK, error.message);
    return client;
}

/* ---- (a) and (c) ------------------------------------------------------------------------ */

static void execute(PGconn *db, const char *name, int count, const char *const values[])
{
    PGresult *result = PQexecPrepared(db, name, count, values, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    must(status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK, PQerrorMessage(db));
    PQclear(result);
}

static void prepare(PGconn *db, const char *name, const char *text, int count)
{
    static const Oid types[] = {25, 25, 25, 25, 25, 25};
    PGresult *result = PQprepare(db, name, text, count, types);
    must(PQresultStatus(result) == PGRES_COMMAND_OK, PQerrorMessage(db));
    PQclear(result);
}

static double bare_session(void *db, long count)
{
    const char *try[] = {"4711", "bare", "0", "bench", "", "30000"}, *unlock[] = {"4711", "0"};
    int64_t start = measure_now_ns();
    for (long i = 0; i < count; i++) {
        execute(db, "try", 6, try);
        execute(db, "unlock", 2, unlock);
    }
    return measure_each(start, count);
}

static double bare_lease(void *db, long count)
{
    const char *take[] = {"bare", "me"};
    int64_t start = measure_now_ns();
    for (long i = 0; i < count; i++) {
        execute(db, "take", 2, take);
        execute(db, "give", 2, take);
    }
    return measure_each(start, count);
}

static double bare_trip(void *db, long count)
{
    int64_t start = measure_now_ns();
    for (long i = 0; i < count; i++) {
        execute(db, "trip", 0, NULL);
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
    _Atomic int count, waiting;
    int64_t took_ns[HANDOVERS];
};

static void hand_over(struct board *board, const char *parameters)
{
    snib *client = client_at(parameters);
    while (atomic_load(&board->count) < HANDOVERS) {
        snib_lease *lease;
        must(snib_acquire(&lease, client, "relay", NULL, NULL) == SNIB_OK, "acquire");
        int64_t now = measure_now_ns(), released = atomic_load(&board->released_ns);
        int at = atomic_fetch_add(&board->count, 1);
        if (at < HANDOVERS) {
            board->took_ns[at] = released ? now - released : 0;
        }
        usleep(1000); /* the others wait, and sleep */
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

static void measure_handover(PGconn *db, const char *name, const char *parameters, double target)
{
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(board != MAP_FAILED, "no memory");
    for (int i = 0; i < HANDS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            hand_over(board, parameters);
            _exit(0);
        }
    }
    static double trips[MEASURE_ROUNDS];
    for (int i = 0; i < MEASURE_ROUNDS; i++) { /* beside it, after the same pause */
        usleep(1000);
        trips[i] = bare_trip(db, 1);
    }
    for (int i = 0; i < HANDS; i++) {
        wait(NULL);
    }
    qsort(board->took_ns, HANDOVERS, sizeof board->took_ns[0], compare);
    const int middle = HANDOVERS / 2;
    double took = (double)board->took_ns[middle], trip = measure_median(trips);
    printf("%-58s %10.0f %7.2f", name, took, took / trip);
    printf(target > 0 ? " %7.2f\n" : "\n", target);
    munmap(board, sizeof *board);
}

int main(int argc, char **argv)
{
    char folder[200], command[260];
    struct pg_settings settings = {.schema = "snib"};
    setenv("SNIB_MODULES", BENCH_MODULES, 0);
    measure_make_folder(folder, sizeof folder, argc, argv);
    pid_t server = start_server(folder);
    PGconn *db = connect_to_it();
    snib *session = client_at(""), *lease = client_at("?mode=lease");
    lock_pair(session, 1); /* makes the tables */
    lock_pair(lease, 1);
    must(pg_statements_make(&settings), "no memory");
    prepare(db, "try", settings.texts[0][SQL_TRY], 6);
    prepare(db, "unlock", settings.texts[0][SQL_UNLOCK], 2);
    prepare(db, "trip", "SELECT 1", 0);
    PQclear(PQexec(db, "CREATE TABLE plain (name text PRIMARY KEY, owner text, token bigint, "
                       "until timestamptz)"));
    prepare(db, "take",
            "INSERT INTO plain AS p VALUES ($1, $2, 1, clock_timestamp() + interval '30 s') "
            "ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, token = p.token + 1, "
            "until = excluded.until WHERE p.owner IS NULL OR p.until < clock_timestamp() "
            "RETURNING token",
            2);
    prepare(db, "give", "UPDATE plain SET owner = NULL WHERE name = $1 AND owner = $2", 2);
    const struct measure_subject subjects[] = {
        {"two round trips, the statements of mode=session", bare_session, db, 4, -1, 0, 1},
        {"mode=session: acquire and release", lock_pair, session, 4, 0, 1.2, 1},
        {"two round trips, the plainest lease in SQL", bare_lease, db, 2, -1, 0, 1},
        {"mode=lease: acquire and release", lock_pair, lease, 2, 2, 1.25, 1},
    };
    measure(subjects, 4);
    measure_handover(db, "mode=session: hand-over among 8, in round trips", "?ttl=30s", 2.5);
    measure_handover(db, "mode=lease: hand-over among 8, in round trips", "?mode=lease", 0);
    snib_close(lease);
    snib_close(session);
    PQfinish(db);
    pg_statements_free(&settings);
    kill(server, SIGINT);
    waitpid(server, NULL, 0);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? 0 : 1; /* NOLINT: a folder of ours */
}
