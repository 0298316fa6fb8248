/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a lock in a database costs, beside the server's own: `run` starts the servers.
 *
 *     bench postgres|mysql PORT
 *
 * snib's session mode against the same statements sent bare, and both modes against the server's
 * own advisory lock (pg_advisory_lock, GET_LOCK), alone and among eight processes. Subjects take
 * turns, so that whatever else the machine does hits all of them.
 */
#include <libpq-fe.h>
#include <mysql.h>
#include <snib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 21, EACH = 50, PROCESSES = 8, SECONDS = 3 };

struct subject {
    const char *name;
    const char *mode;        /* of snib; NULL: statements of ours */
    const char *take, *give; /* else */
};

static bool postgres;
static int port;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* ---- One connection, bare --------------------------------------------------------------- */

struct bare {
    PGconn *pg;
    MYSQL *my;
};

static void bare_open(struct bare *b)
{
    char text[120];
    if (postgres) {
        snprintf(text, sizeof text, "host=127.0.0.1 port=%d user=snib dbname=snib", port);
        b->pg = PQconnectdb(text);
        if (PQstatus(b->pg) != CONNECTION_OK) {
            fail("connect", PQerrorMessage(b->pg));
        }
        return;
    }
    b->my = mysql_init(NULL);
    if (!mysql_real_connect(b->my, "127.0.0.1", "snib", NULL, "snib", (unsigned)port, NULL,
                            CLIENT_MULTI_STATEMENTS)) {
        fail("connect", mysql_error(b->my));
    }
    if (mysql_query(b->my, "SET time_zone = '+00:00'") != 0 ||
        mysql_query(b->my, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED") != 0) {
        fail("set", mysql_error(b->my));
    }
}

static void bare_do(struct bare *b, const char *sql)
{
    if (postgres) {
        PGresult *r = PQexec(b->pg, sql);
        if (PQresultStatus(r) != PGRES_TUPLES_OK) {
            fail(sql, PQerrorMessage(b->pg));
        }
        PQclear(r);
        return;
    }
    if (mysql_query(b->my, sql) != 0) {
        fail(sql, mysql_error(b->my));
    }
    do {
        mysql_free_result(mysql_store_result(b->my));
    } while (mysql_next_result(b->my) == 0);
}

/* ---- Subjects --------------------------------------------------------------------------- */

static snib *open_snib(const char *mode)
{
    char url[160];
    snib *client;
    snib_error error;
    snprintf(url, sizeof url, "%s://snib@127.0.0.1:%d/snib?quarantine=no&mode=%s",
             postgres ? "postgres" : "mysql", port, mode);
    if (snib_open(&client, url, &error) < 0) {
        fail("snib_open", error.message);
    }
    return client;
}

struct user {
    const struct subject *subject;
    snib *client;
    struct bare bare;
};

static void user_open(struct user *u, const struct subject *subject)
{
    u->subject = subject;
    if (subject->mode) {
        u->client = open_snib(subject->mode);
    } else {
        bare_open(&u->bare);
    }
}

static void user_turn(struct user *u)
{
    snib_lease *lease;
    snib_error error;
    if (!u->client) {
        bare_do(&u->bare, u->subject->take);
        bare_do(&u->bare, u->subject->give);
        return;
    }
    if (snib_acquire(&lease, u->client, "bench", NULL, &error) < 0 ||
        snib_release(&lease, &error) < 0) {
        fail("snib", error.message);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Microseconds for one acquire and release: the median of the rounds. */
static void alone(const struct subject subjects[], int count, double out[])
{
    struct user users[8] = {0};
    double taken[8][ROUNDS];
    for (int i = 0; i < count; i++) {
        user_open(&users[i], &subjects[i]);
        user_turn(&users[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < count; i++) {
            double start = now_us();
            for (int k = 0; k < EACH; k++) {
                user_turn(&users[i]);
            }
            taken[i][round] = (now_us() - start) / EACH;
        }
    }
    for (int i = 0; i < count; i++) {
        qsort(taken[i], ROUNDS, sizeof taken[i][0], by_size);
        out[i] = taken[i][ROUNDS / 2];
    }
}

/* Grants per second among processes that all want one lock. */
static double together(const struct subject *subject)
{
    int ends[2];
    long all = 0, one;
    if (pipe(ends) != 0) {
        fail("pipe", "");
    }
    for (int i = 0; i < PROCESSES; i++) {
        if (fork() == 0) {
            struct user user = {0};
            long done = 0;
            user_open(&user, subject);
            user_turn(&user);
            double end = now_us() + SECONDS * 1e6;
            while (now_us() < end) {
                user_turn(&user);
                done++;
            }
            _exit(write(ends[1], &done, sizeof done) != sizeof done);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        if (read(ends[0], &one, sizeof one) == sizeof one) {
            all += one;
        }
    }
    while (wait(NULL) > 0) {
    }
    close(ends[0]);
    close(ends[1]);
    return (double)all / SECONDS;
}

int main(int argc, char **argv)
{
    static const struct subject on_postgres[] = {
        {"snib, session", "session", NULL, NULL},
        {"the same statements, bare", NULL,
         "SELECT * FROM snib.session_attempt('s','n','o',0,0,1,30000,true,'w','')",
         "SELECT * FROM snib.session_release('s','n','o',0,0)"},
        {"snib, lease", "lease", NULL, NULL},
        {"pg_advisory_lock", NULL, "SELECT pg_advisory_lock(7)", "SELECT pg_advisory_unlock(7)"},
    };
    static const struct subject on_mysql[] = {
        {"snib, session", "session", NULL, NULL},
        {"the same statements, bare", NULL,
         "CALL snib_session_attempt('s','n','o',0,0,1,30000,true,'w','')",
         "CALL snib_session_release('s','n','o',0,0)"},
        {"snib, lease", "lease", NULL, NULL},
        {"GET_LOCK", NULL, "SELECT GET_LOCK('bench', 60)", "SELECT RELEASE_LOCK('bench')"},
    };
    enum { SUBJECTS = sizeof on_postgres / sizeof on_postgres[0] };
    if (argc != 3) {
        fail("usage", "bench postgres|mysql PORT");
    }
    postgres = strcmp(argv[1], "postgres") == 0;
    port = atoi(argv[2]);
    const struct subject *subjects = postgres ? on_postgres : on_mysql;
    double taken[SUBJECTS];
    alone(subjects, SUBJECTS, taken);
    printf("%-10s %-28s %14s %8s %22s\n", argv[1], "", "us, alone", "ratio",
           "grants/s, 8 processes");
    for (int i = 0; i < SUBJECTS; i++) {
        double grants = i == 1 ? 0 : together(&subjects[i]);
        printf("%-10s %-28s %14.0f %8.2f %22.0f\n", "", subjects[i].name, taken[i],
               taken[i] / taken[1], grants);
    }
    return 0;
}
