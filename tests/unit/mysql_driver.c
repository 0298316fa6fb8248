/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of MySQL and MariaDB at a real server: what each statement does, and what becomes of
 * links that are cut, muted, killed, forked or refused. The core has no part in it.
 */
#include "check.h"
#include "core/client.h"
#include "engines/mysql/driver.h"
#include "engines/mysql/settings.h"
#include "proxy.h"
#include "server_mariadb.h"
#include "tls_link.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- A link, and what it says ----------------------------------------------------------- */

struct talk {
    struct sql_link link;
    bool opened, lost;
};

struct asked {
    struct sql_request request;
    bool over;
    enum sql_outcome outcome;
    int rows;
    char columns[8][SQL_COLUMNS][64]; /* of the first rows */
};

static struct server mariadb;
static snib *client; /* whose session the links are said to be of */
static struct mysql_settings settings;

static void on_opened(struct sql_link *link)
{
    ((struct talk *)link->owner)->opened = true;
}

static void on_lost(struct sql_link *link)
{
    CHECK(!((struct talk *)link->owner)->lost);
    CHECK(snib__list_empty(&link->requests));
    ((struct talk *)link->owner)->lost = true;
}

static void on_rung(struct sql_link *link, const char *text)
{
    (void)link;
    (void)text;
}

static const struct sql_upcalls upcalls = {.opened = on_opened, .lost = on_lost, .rung = on_rung};

static void on_row(struct sql_request *r, const char *const columns[SQL_COLUMNS])
{
    struct asked *a = SNIB__OF(r, struct asked, request);
    for (int i = 0; i < SQL_COLUMNS && a->rows < 8; i++) {
        snprintf(a->columns[a->rows][i], sizeof a->columns[0][0], "%s",
                 columns[i] ? columns[i] : "-");
    }
    a->rows++;
}

static void on_ended(struct sql_request *r, enum sql_outcome outcome)
{
    struct asked *a = SNIB__OF(r, struct asked, request);
    CHECK(!a->over);
    a->over = true;
    a->outcome = outcome;
}

static void prepare(void)
{
    setenv("SNIB_MODULES", TEST_BUILD_DIR "/engines", 1);
    char url[256];
    snprintf(url, sizeof url, "file://%s", check_tmpdir());
    CHECK_INT(snib_open(&client, url, NULL), ==, SNIB_OK);
    client->session.timeout_ms = check_ms(5000);
    settings = (struct mysql_settings){
        .target = {.host = "127.0.0.1", .user = "snib", .password = "secret", .database = "snib"},
        .database = "snib",
        .prefix = "unit"};
}

static void start_server(void)
{
    server_mariadb(&mariadb, NULL);
    prepare();
    settings.target.port = mariadb.port;
}

static struct talk *talk_begin(int64_t idle_ms)
{
    struct talk *t = calloc(1, sizeof *t);
    CHECK(t != NULL);
    t->link = (struct sql_link){.driver = &mysql_driver,
                                .upcalls = &upcalls,
                                .session = &client->session,
                                .settings = &settings,
                                .owner = t,
                                .idle_ms = idle_ms};
    snib__list_init(&t->link.requests);
    mysql_driver.open(&t->link);
    return t;
}

static void talk_end(struct talk *t)
{
    mysql_driver.close(&t->link, false);
    free(t);
}

/* Drives these until the flag is set, or for so long; is it? */
static bool drive(struct talk *const talks[], size_t n, const bool *flag, int ms)
{
    int64_t end = check_now_ns() + (int64_t)check_ms(ms) * 1000000;
    while (!*flag && check_now_ns() < end) {
        struct pollfd fds[4];
        nfds_t used = 0;
        for (size_t i = 0; i < n; i++) {
            mysql_driver.keep_time(&talks[i]->link, snib__now().boot_ns);
            if (mysql_driver.poll(&talks[i]->link, &fds[used])) {
                used++;
            }
        }
        poll(fds, used, 5);
        for (size_t i = 0; i < n; i++) {
            mysql_driver.step(&talks[i]->link);
        }
    }
    return *flag;
}

static struct talk *talk_open(int64_t idle_ms)
{
    struct talk *t = talk_begin(idle_ms);
    if (!drive(&t, 1, &t->opened, 10000)) {
        FAIL("not opened: %s", t->link.why);
    }
    return t;
}

static void submit(struct asked *a, struct talk *t, enum sql_statement statement,
                   const char *const parameters[], int count)
{
    *a = (struct asked){.request = {.link = &t->link,
                                    .statement = statement,
                                    .count = count,
                                    .row = on_row,
                                    .ended = on_ended}};
    for (int i = 0; i < count; i++) {
        a->request.parameters[i] = parameters[i];
    }
    mysql_driver.send(&a->request);
    CHECK(!a->over); /* never from inside */
}

#define SUBMIT(a, t, statement, ...)                                                               \
    submit((a), (t), (statement), (const char *const[]){__VA_ARGS__},                              \
           (int)(sizeof(const char *const[]){__VA_ARGS__} / sizeof(char *)))

#define ASK(a, t, statement, ...)                                                                  \
    do {                                                                                           \
        SUBMIT(a, t, statement, __VA_ARGS__);                                                      \
        await(a, t);                                                                               \
    } while (0)

static void await(struct asked *a, struct talk *t)
{
    CHECK(drive(&t, 1, &a->over, 10000));
}

static void must_answer(const struct asked *a)
{
    if (a->outcome != SQL_ANSWERED) {
        FAIL("outcome %d: %s", (int)a->outcome, a->request.reason);
    }
}

static const char *key_of(const char *name)
{
    static char key[SQL_KEY_MAX];
    mysql_settings_key(&settings, name, key);
    return key;
}

#define TAKE(name, who, label) key_of(name), (name), "0", (who), (label), "30000"

static void take(struct talk *t, const char *name, const char *who, const char *label,
                 unsigned long long *token)
{
    struct asked a;
    ASK(&a, t, SQL_TRY, TAKE(name, who, label));
    if (a.outcome == SQL_ABSENT) {
        ASK(&a, t, SQL_SETUP, "");
        must_answer(&a);
        ASK(&a, t, SQL_TRY, TAKE(name, who, label));
    }
    must_answer(&a);
    CHECK_INT(a.rows, ==, 1);
    CHECK_STR(a.columns[0][0], "t");
    *token = strtoull(a.columns[0][1], NULL, 10);
    CHECK_UINT(*token, >, 0);
}

/* A session that ends is told so a moment before its locks are gone. */
static void take_soon(struct talk *t, const char *name, const char *who, unsigned long long *token)
{
    int64_t end = check_now_ns() + (int64_t)check_ms(5000) * 1000000;
    struct asked a;
    do {
        CHECK(check_now_ns() < end);
        ASK(&a, t, SQL_TRY, TAKE(name, who, ""));
        must_answer(&a);
    } while (strcmp(a.columns[0][0], "t") != 0);
    *token = strtoull(a.columns[0][1], NULL, 10);
}

/* ---- Statements ------------------------------------------------------------------------- */

TEST(a_name_is_taken_shown_waited_for_and_given_back)
{
    struct asked a, wait;
    unsigned long long first, second;
    start_server();
    struct talk *holder = talk_open(30000), *waiter = talk_open(30000);
    take(holder, "report", "web:1", "nightly", &first);
    ASK(&a, waiter, SQL_TRY, TAKE("report", "web:2", ""));
    must_answer(&a);
    CHECK_STR(a.columns[0][0], "f");
    CHECK_STR(a.columns[0][1], "-");
    CHECK(strstr(a.columns[0][2], "web:1") != NULL);
    CHECK_UINT(strtoull(a.columns[0][3], NULL, 10), ==, first);
    ASK(&a, waiter, SQL_ENTER, TAKE("report", "web:2", "next"));
    must_answer(&a);
    SUBMIT(&wait, waiter, SQL_WAIT, key_of("report"), "0");
    do { /* until the wait has reached the server; the case has its limit */
        ASK(&a, holder, SQL_SIGHT, "rep", "1", "");
        must_answer(&a);
    } while (a.rows < 2);
    CHECK_INT(a.rows, ==, 2);
    CHECK_STR(a.columns[0][0], "report");
    CHECK_STR(a.columns[0][2], "0");
    CHECK_STR(a.columns[0][4], "web:1");
    CHECK_STR(a.columns[0][5], "nightly");
    CHECK_STR(a.columns[1][2], "1");
    CHECK_STR(a.columns[1][4], "web:2");
    ASK(&a, holder, SQL_SIGHT, "rep", "0", "");
    CHECK_INT(a.rows, ==, 0);
    CHECK(!drive(&waiter, 1, &wait.over, 100));
    ASK(&a, holder, SQL_UNLOCK, key_of("report"), "0");
    CHECK_STR(a.columns[0][0], "t");
    await(&wait, waiter);
    must_answer(&wait);
    ASK(&a, waiter, SQL_TOOK, TAKE("report", "web:2", "next"));
    must_answer(&a);
    second = strtoull(a.columns[0][0], NULL, 10);
    CHECK_UINT(second, >, first);
    ASK(&a, holder, SQL_UNLOCK, key_of("report"), "0");
    CHECK_STR(a.columns[0][0], "f");
    ASK(&a, holder, SQL_SIGHT, "report", "0", "");
    CHECK_INT(a.rows, ==, 1);
    CHECK_STR(a.columns[0][4], "web:2");
    ASK(&a, waiter, SQL_UNLOCK, key_of("report"), "0");
    ASK(&a, holder, SQL_SIGHT, "", "1", "");
    CHECK_INT(a.rows, ==, 0);
    talk_end(holder);
    talk_end(waiter);
    snib_close(client);
}

TEST(a_holder_is_asked_and_then_severed)
{
    struct asked a;
    unsigned long long token, other;
    char number[24], wrong[24];
    start_server();
    struct talk *holder = talk_open(30000), *judge = talk_open(30000);
    take(holder, "report", "web:1", "", &token);
    take(holder, "else", "web:1", "", &other);
    snprintf(number, sizeof number, "%llu", token);
    snprintf(wrong, sizeof wrong, "%llu", token + 1);
    ASK(&a, holder, SQL_PROVE, "");
    CHECK_INT(a.rows, ==, 0);
    ASK(&a, judge, SQL_MARK, key_of("report"), wrong, "me");
    must_answer(&a);
    CHECK_INT(a.rows, ==, 0);
    ASK(&a, judge, SQL_MARK, key_of("report"), number, "me");
    CHECK_INT(a.rows, ==, 1);
    CHECK_STR(a.columns[0][0], "web:1");
    CHECK_STR(a.columns[0][1], "30000");
    ASK(&a, holder, SQL_PROVE, "");
    CHECK_INT(a.rows, ==, 1);
    CHECK_STR(a.columns[0][0], key_of("report"));
    CHECK_STR(a.columns[0][1], number);
    CHECK_STR(a.columns[0][2], "me");
    ASK(&a, judge, SQL_SEVER, key_of("report"), wrong);
    must_answer(&a);
    CHECK_INT(a.rows, ==, 0);
    CHECK(!holder->lost);
    ASK(&a, judge, SQL_SEVER, key_of("report"), number);
    must_answer(&a);
    CHECK_INT(a.rows, ==, 1);
    CHECK_STR(a.columns[0][0], "web:1");
    CHECK_STR(a.columns[0][1], "else");
    CHECK(drive(&holder, 1, &holder->lost, 5000)); /* nobody asked it anything */
    unsigned long long next;
    take_soon(judge, "report", "web:2", &next);
    CHECK_UINT(next, >, token);
    talk_end(holder);
    talk_end(judge);
    snib_close(client);
}

TEST(names_and_labels_that_look_like_statements_are_just_texts)
{
    static const char *const names[] = {
        "'); DROP TABLE unit_names; --",
        "x' OR '1'='1",
        "\\'; DROP DATABASE snib; #",
        "$1 #2 {p}",
        "%",
        "\xe2\x80\x99 \xc3\xa9",
        "\"; SELECT SLEEP(10); \"",
    };
    enum { NAMES = sizeof names / sizeof names[0] };
    struct asked a;
    unsigned long long token;
    start_server();
    struct talk *t = talk_open(30000);
    for (int i = 0; i < NAMES; i++) {
        take(t, names[i], "'; DROP TABLE unit_waits; --", names[NAMES - 1 - i], &token);
        ASK(&a, t, SQL_SIGHT, names[i], "0", "");
        must_answer(&a);
        CHECK_INT(a.rows, ==, 1);
        CHECK_STR(a.columns[0][0], names[i]);
        CHECK_STR(a.columns[0][4], "'; DROP TABLE unit_waits; --");
        CHECK_STR(a.columns[0][5], names[NAMES - 1 - i]);
    }
    ASK(&a, t, SQL_SIGHT, "", "1", "");
    CHECK_INT(a.rows, ==, NAMES);
    ASK(&a, t, SQL_MARK, key_of("report"), "1 OR 1=1", "me"); /* no number */
    CHECK_INT(a.outcome, ==, SQL_REFUSED);
    talk_end(t);
    snib_close(client);
}

/* ---- Links that break ------------------------------------------------------------------- */

TEST(a_reply_may_come_in_pieces_or_not_at_all)
{
    struct asked a;
    struct proxy proxy;
    unsigned long long token;
    start_server();
    proxy_start(&proxy, mariadb.port);
    settings.target.port = proxy.port;
    struct talk *t = talk_open(30000);
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_DRIBBLE, 1);
    take(t, "report", "web:1", "", &token);
    proxy_heal(&proxy);
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_STALL, 0);
    SUBMIT(&a, t, SQL_UNLOCK, key_of("report"), "0");
    CHECK(!drive(&t, 1, &a.over, 200)); /* whoever asked has a deadline */
    proxy_cut(&proxy, PROXY_RESET);
    CHECK(drive(&t, 1, &t->lost, 5000));
    CHECK(a.over);
    CHECK_INT(a.outcome, ==, SQL_LOST);
    CHECK_INT(t->link.code, ==, SNIB_EUNREACH);
    talk_end(t);
    snib_close(client);
}

TEST(a_link_that_is_cut_at_any_byte_ends_all_that_was_asked_of_it)
{
    struct proxy proxy;
    unsigned long long token;
    start_server();
    struct talk *direct = talk_open(30000);
    take(direct, "first", "web:1", "", &token); /* makes the tables */
    proxy_start(&proxy, mariadb.port);
    settings.target.port = proxy.port;
    for (uint64_t bytes = 1; bytes < 1500; bytes += 97) {
        struct asked a, b;
        proxy_after(&proxy, PROXY_TO_CLIENT, bytes, PROXY_BYTES, PROXY_THEN_RESET);
        struct talk *t = talk_begin(30000);
        while (!t->opened && !t->lost) {
            bool never = false;
            drive(&t, 1, &never, 1);
        }
        if (t->opened) {
            SUBMIT(&a, t, SQL_TRY, TAKE("report", "web:1", ""));
            SUBMIT(&b, t, SQL_PROVE, "");
            await(&b, t);
            CHECK(a.over);
            if (a.outcome != SQL_ANSWERED) {
                CHECK_INT(a.outcome, ==, SQL_LOST);
                CHECK_INT(b.outcome, ==, SQL_UNSENT);
            }
        } else {
            CHECK_INT(t->link.code, ==, SNIB_EUNREACH);
        }
        talk_end(t);
    }
    proxy_heal(&proxy);
    talk_end(direct);
    snib_close(client);
}

TEST(a_server_that_never_answers_is_given_up_in_time)
{
    struct proxy proxy;
    start_server();
    proxy_start(&proxy, mariadb.port);
    settings.target.port = proxy.port;
    client->session.timeout_ms = 300;
    proxy_door(&proxy, PROXY_DARK);
    struct talk *t = talk_begin(30000);
    CHECK(drive(&t, 1, &t->lost, 5000));
    CHECK(!t->opened);
    CHECK_INT(t->link.code, ==, SNIB_EUNREACH);
    CHECK_STR(t->link.why, "no answer in time");
    talk_end(t);
    snib_close(client);
}

TEST(a_link_that_is_silent_too_long_is_ended_by_the_server)
{
    unsigned long long token;
    start_server();
    struct talk *t = talk_open(1000), *other = talk_open(30000);
    take(t, "report", "web:1", "", &token);
    CHECK(drive(&t, 1, &t->lost, 10000));
    take_soon(other, "report", "web:2", &token);
    talk_end(t);
    talk_end(other);
    snib_close(client);
}

TEST(who_kills_a_statement_takes_no_lock_away_and_leaves_none)
{
    struct asked a;
    unsigned long long token;
    start_server();
    struct talk *holder = talk_open(30000), *waiter = talk_open(30000);
    take(holder, "report", "web:1", "", &token);
    SUBMIT(&a, waiter, SQL_WAIT, key_of("report"), "0");
    CHECK(!drive(&waiter, 1, &a.over, 100));
    server_mariadb_ask(&mariadb, "KILL QUERY %lu", waiter->link.number);
    await(&a, waiter);
    CHECK_INT(a.outcome, ==, SQL_AGAIN);
    CHECK(!waiter->lost);
    server_mariadb_ask(&mariadb, "KILL CONNECTION %lu", holder->link.number);
    CHECK(drive(&holder, 1, &holder->lost, 5000));
    take_soon(waiter, "report", "web:2", &token);
    talk_end(holder);
    talk_end(waiter);
    snib_close(client);
}

TEST(a_try_that_fails_after_its_lock_gives_it_back)
{
    struct asked a;
    unsigned long long token;
    start_server();
    struct talk *t = talk_open(30000), *other = talk_open(30000);
    take(t, "else", "web:1", "", &token);
    server_mariadb_ask(&mariadb, "CREATE TRIGGER unit_no BEFORE INSERT ON unit_names FOR EACH ROW "
                                 "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the disk is full'");
    ASK(&a, t, SQL_TRY, TAKE("report", "web:1", ""));
    CHECK_INT(a.outcome, ==, SQL_REFUSED);
    CHECK(strstr(a.request.reason, "the disk is full") != NULL);
    CHECK_INT(a.rows, ==, 0);
    server_mariadb_ask(&mariadb, "DROP TRIGGER unit_no");
    take(other, "report", "web:2", "", &token);
    talk_end(t);
    talk_end(other);
    snib_close(client);
}

TEST(a_forked_child_that_closes_leaves_the_session_of_its_parent)
{
    struct asked a;
    unsigned long long token;
    start_server();
    struct talk *t = talk_open(30000);
    take(t, "report", "web:1", "", &token);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        mysql_driver.close(&t->link, true);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    ASK(&a, t, SQL_PROVE, "");
    must_answer(&a);
    ASK(&a, t, SQL_UNLOCK, key_of("report"), "0");
    CHECK_STR(a.columns[0][0], "t");
    talk_end(t);
    snib_close(client);
}

/* ---- Servers that are not for us -------------------------------------------------------- */

static struct talk *must_be_refused(int code, const char *why)
{
    struct talk *t = talk_begin(30000);
    CHECK(drive(&t, 1, &t->lost, 10000));
    CHECK(!t->opened);
    if (t->link.code != code || strstr(t->link.why, why) == NULL) {
        FAIL("refused with %d: %s", t->link.code, t->link.why);
    }
    return t;
}

TEST(strangers_replicas_and_missing_databases_are_refused_with_a_reason)
{
    start_server();
    settings.target.password = "wrong";
    talk_end(must_be_refused(SNIB_EDENIED, "Access denied"));
    settings.target.password = "secret";
    settings.target.user = "root";
    settings.target.password = "";
    settings.target.database = "nowhere";
    talk_end(must_be_refused(SNIB_EINVAL, "nowhere"));
    settings.target.database = "snib";
    server_mariadb_ask(&mariadb, "SET GLOBAL read_only=1");
    talk_end(must_be_refused(SNIB_EUNSAFE, "read-only"));
    server_mariadb_ask(&mariadb, "SET GLOBAL read_only=0");
    talk_end(talk_open(30000));
    snib_close(client);
}

TEST(a_server_that_has_just_started_grants_nothing_for_a_while)
{
    start_server();
    settings.quarantine_ms = 3600 * 1000;
    struct talk *t = talk_open(30000);
    CHECK_INT(t->link.quarantine_ns, >, snib__now().boot_ns + 3000 * 1000 * SNIB__MS);
    talk_end(t);
    settings.quarantine_ms = 0;
    t = talk_open(30000);
    CHECK_INT(t->link.quarantine_ns, ==, 0);
    talk_end(t);
    snib_close(client);
}

TEST(a_unix_socket_will_do_and_signals_stay_the_programs)
{
    char path[256];
    unsigned long long token;
    struct sigaction pipe;
    start_server();
    snprintf(path, sizeof path, "%s/socket", mariadb.folder);
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    settings.target.host = NULL;
    settings.target.socket = path;
    struct talk *t = talk_open(30000);
    take(t, "report", "web:1", "", &token);
    server_kill(&mariadb);
    CHECK(drive(&t, 1, &t->lost, 5000));
    talk_end(t);
    CHECK(sigaction(SIGPIPE, NULL, &pipe) == 0 && pipe.sa_handler == SIG_DFL);
    snib_close(client);
}

/* ---- TLS -------------------------------------------------------------------------------- */

static void start_tls_server(void)
{
    char cert[300], key[300], file[256], folder[256];
    prepare();
    snprintf(file, sizeof file, "%s", tls_file("good.pem"));
    snprintf(folder, sizeof folder, "%s", file);
    *strrchr(folder, '/') = '\0';
    CHECK(chmod(check_tmpdir(), 0755) == 0 && chmod(folder, 0755) == 0 && chmod(file, 0644) == 0);
    snprintf(cert, sizeof cert, "--ssl-cert=%s", file);
    snprintf(key, sizeof key, "--ssl-key=%s", file);
    server_mariadb(&mariadb, (const char *const[]){cert, key, NULL});
    settings.target.port = mariadb.port;
    settings.target.tls = MYSQL_TLS_VERIFY;
}

TEST(tls_is_verified)
{
    static char authority[256], stranger[256];
    struct asked a;
    unsigned long long token;
    start_tls_server();
    snprintf(authority, sizeof authority, "%s", tls_file("authority.crt"));
    settings.target.ca = authority;
    settings.target.host = "localhost";
    struct talk *t = talk_open(30000);
    take(t, "report", "web:1", "", &token);
    ASK(&a, t, SQL_PROVE, "");
    must_answer(&a);
    server_pause(&mariadb); /* does a request block when nothing is read? */
    int64_t start = check_now_ns();
    SUBMIT(&a, t, SQL_PROVE, "");
    CHECK(!drive(&t, 1, &a.over, 100));
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(5000));
    server_resume(&mariadb);
    await(&a, t);
    talk_end(t);
    snprintf(stranger, sizeof stranger, "%s", tls_file("good.pem")); /* no authority */
    settings.target.ca = stranger;
    talk_end(must_be_refused(SNIB_EUNREACH, "TLS"));
    snib_close(client);
}

TEST(silence_in_a_handshake_ends_in_time)
{
    struct proxy proxy;
    start_tls_server();
    proxy_start(&proxy, mariadb.port);
    settings.target.port = proxy.port;
    settings.target.ca = NULL;
    client->session.timeout_ms = 500;
    proxy_after(&proxy, PROXY_TO_CLIENT, 1, PROXY_TURNS, PROXY_THEN_STALL);
    struct talk *t = talk_begin(30000);
    int64_t start = check_now_ns();
    CHECK(drive(&t, 1, &t->lost, 5000));
    CHECK(!t->opened);
    talk_end(t);
    snib_close(client); /* waits for the thread */
    CHECK_INT((check_now_ns() - start) / 1000000, <, check_ms(8000));
}
