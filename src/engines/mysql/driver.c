/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmariadb, used by its calls that do not block once connected.
 *
 * The library keeps pointers to what it was given until a call has come to its end, so the text and
 * the places for results are the connection's. An idle connection is watched for its end only:
 * bytes that come by themselves (the tickets of TLS) would otherwise wake us for ever.
 *
 * OpenSSL's socket raises SIGPIPE when the server is gone, so that signal is held back from this
 * thread, over TLS, and taken out if it was raised by us.
 */
#include "engines/mysql/mysql.h"

#include <errno.h>
#include <fcntl.h>
#include <mysql.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum phase { IDLE, QUERY, STORE, NEXT };

struct connection {
    MYSQL my;
    bool tls;
    enum phase phase;
    int wait; /* what the library waits for; 0: it has come to the end of its phase */
    int failed;
    MYSQL_RES *result;
    char *text;
    struct sql_answer answer;
};

static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void prepare(void)
{
    mysql_library_init(0, NULL, NULL);
}

void mysql_prepare_library(void)
{
    pthread_once(&prepared, prepare);
}

/* ---- Signals ---------------------------------------------------------------------------- */

struct hush {
    sigset_t before;
    bool on, pending;
};

static struct hush hush_begin(const struct connection *c)
{
    struct hush h = {.on = c->tls};
    sigset_t pipe, pending;
    if (h.on) {
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe, &h.before);
        sigpending(&pending);
        h.pending = sigismember(&pending, SIGPIPE);
    }
    return h;
}

static void hush_end(const struct hush *h)
{
    static const struct timespec none;
    sigset_t pipe;
    if (h->on) {
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        while (!h->pending && sigtimedwait(&pipe, NULL, &none) < 0 && errno == EINTR) {
        }
        pthread_sigmask(SIG_SETMASK, &h->before, NULL);
    }
}

/* ---- Connecting ------------------------------------------------------------------------- */

static void keep_error(MYSQL *my, struct sql_error *error)
{
    error->number = mysql_errno(my);
    snprintf(error->state, sizeof error->state, "%.5s", mysql_sqlstate(my));
    snprintf(error->text, sizeof error->text, "%.380s", mysql_error(my));
    error->text[strcspn(error->text, "\n")] = '\0';
}

static void set_options(struct connection *c, const struct sql_target *t, int64_t due_ns)
{
    const my_bool yes = 1;
    const unsigned none = 0;
    unsigned seconds = (unsigned)((due_ns - snib__now().boot_ns) / (1000 * SNIB__MS)) + 1;
    mysql_init(&c->my);
    mysql_options(&c->my, MYSQL_OPT_NONBLOCK, NULL);
    mysql_options(&c->my, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
    mysql_options(&c->my, MYSQL_OPT_LOCAL_INFILE, &none);
    mysql_options(&c->my, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (c->tls) {
        mysql_options(&c->my, MYSQL_OPT_SSL_ENFORCE, &yes);
        mysql_options(&c->my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes);
        if (t->ca[0]) {
            mysql_options(&c->my, MYSQL_OPT_SSL_CA, t->ca);
        }
    }
}

static void *open_connection(const struct sql_target *t, const char *address, int64_t due_ns,
                             const struct snib__work *work, struct sql_error *error)
{
    struct connection *c = calloc(1, sizeof *c);
    (void)work; /* its time-out ends it */
    if (!c) {
        snprintf(error->text, sizeof error->text, "out of memory");
        return NULL;
    }
    c->tls = t->tls == SQL_TLS_VERIFY;
    set_options(c, t, due_ns);
    /* A certificate is for the name; the address was found by it just now. */
    const char *host = t->socket[0] ? NULL : c->tls ? t->host : address;
    struct hush h = hush_begin(c);
    bool joined = mysql_real_connect(&c->my, host, t->user[0] ? t->user : NULL,
                                     t->password[0] ? t->password : NULL,
                                     t->database[0] ? t->database : NULL, (unsigned)t->port,
                                     t->socket[0] ? t->socket : NULL, CLIENT_MULTI_STATEMENTS);
    if (!joined) {
        keep_error(&c->my, error);
        mysql_close(&c->my);
    }
    hush_end(&h);
    if (joined) {
        return c;
    }
    free(c);
    return NULL;
}

static int socket_of(struct connection *c)
{
    return (int)mysql_get_socket(&c->my);
}

static void close_connection(void *connection, bool silently)
{
    struct connection *c = connection;
    int fd = socket_of(c);
    int nowhere = silently && fd >= 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (nowhere >= 0) {
        dup2(nowhere, fd);
        close(nowhere);
    }
    struct hush h = hush_begin(c);
    mysql_close(&c->my);
    hush_end(&h);
    sql_answer_free(&c->answer);
    free(c->text);
    free(c);
}

int64_t mysql_served_by(void *connection)
{
    return (int64_t)mysql_thread_id(&((struct connection *)connection)->my);
}

/* ---- Asking ----------------------------------------------------------------------------- */

static bool send_text(void *connection, const char *text, size_t size)
{
    struct connection *c = connection;
    char *copy = malloc(size + 1);
    if (!copy) {
        return false;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    free(c->text);
    c->text = copy;
    sql_answer_free(&c->answer);
    c->phase = QUERY;
    struct hush h = hush_begin(c);
    c->wait = mysql_real_query_start(&c->failed, &c->my, c->text, size);
    hush_end(&h);
    return true;
}

static bool keep_rows(struct connection *c)
{
    size_t rows = (size_t)mysql_num_rows(c->result), columns = mysql_num_fields(c->result);
    struct sql_set *set = sql_answer_add(&c->answer, rows, columns);
    for (size_t i = 0; set && i < rows; i++) {
        MYSQL_ROW row = mysql_fetch_row(c->result);
        const unsigned long *sizes = mysql_fetch_lengths(c->result);
        for (size_t k = 0; row && k < columns; k++) {
            if (row[k] && !sql_set_put(set, i, k, row[k], sizes[k])) {
                return false;
            }
        }
    }
    return set != NULL;
}

static enum sql_turn end(struct connection *c, enum sql_turn turn)
{
    c->phase = IDLE;
    c->wait = 0;
    return turn;
}

static enum sql_turn fail(struct connection *c, struct sql_error *error)
{
    enum { CLIENT_ERRORS = 2000, SERVER_AGAIN = 3000, KILLED = 1927, SHUTDOWN = 1053 };
    keep_error(&c->my, error);
    bool gone = (error->number >= CLIENT_ERRORS && error->number < SERVER_AGAIN) ||
                error->number == KILLED || error->number == SHUTDOWN || error->number == 0;
    return end(c, gone ? SQL_BROKEN : SQL_REFUSED);
}

static void go_on(struct connection *c, int ready)
{
    switch (c->phase) {
    case QUERY:
        c->wait = mysql_real_query_cont(&c->failed, &c->my, ready);
        break;
    case STORE:
        c->wait = mysql_store_result_cont(&c->result, &c->my, ready);
        break;
    case NEXT:
        c->wait = mysql_next_result_cont(&c->failed, &c->my, ready);
        break;
    case IDLE:
        break;
    }
}

/* A phase has come to its end. SQL_GOING: so begins the next. */
static enum sql_turn advance(struct connection *c, struct sql_answer *answer,
                             struct sql_error *error)
{
    if (c->phase == STORE) {
        if (!c->result && mysql_errno(&c->my)) {
            return fail(c, error);
        }
        if (c->result) {
            bool kept = keep_rows(c);
            mysql_free_result(c->result);
            c->result = NULL;
            if (!kept) {
                snprintf(error->text, sizeof error->text, "out of memory");
                return end(c, SQL_BROKEN);
            }
        }
        if (!mysql_more_results(&c->my)) {
            *answer = c->answer;
            c->answer = (struct sql_answer){0};
            return end(c, SQL_DONE);
        }
        c->phase = NEXT;
        c->wait = mysql_next_result_start(&c->failed, &c->my);
        return SQL_GOING;
    }
    if (c->failed > 0 || (c->phase == QUERY && c->failed)) {
        return fail(c, error);
    }
    c->phase = STORE;
    c->wait = mysql_store_result_start(&c->result, &c->my);
    return SQL_GOING;
}

static enum sql_turn turn(void *connection, short ready, struct sql_answer *answer,
                          struct sql_error *error)
{
    struct connection *c = connection;
    enum sql_turn result = SQL_GOING;
    int flags = (ready & (POLLIN | POLLHUP | POLLERR) ? MYSQL_WAIT_READ : 0) |
                (ready & (POLLOUT | POLLHUP | POLLERR) ? MYSQL_WAIT_WRITE : 0);
    struct hush h = hush_begin(c);
    if (c->wait && (flags & c->wait)) {
        go_on(c, flags & c->wait);
    }
    while (!c->wait && result == SQL_GOING) {
        result = advance(c, answer, error);
    }
    hush_end(&h);
    return result;
}

static enum sql_turn watch(void *connection, struct sql_error *error)
{
    struct pollfd p = {.fd = socket_of(connection), .events = POLLRDHUP};
    if (poll(&p, 1, 0) > 0 && p.revents) {
        snprintf(error->text, sizeof error->text, "the server closed the connection");
        return SQL_BROKEN;
    }
    return SQL_GOING;
}

static bool hint(void *connection, char out[40])
{
    (void)connection;
    (void)out;
    return false;
}

static struct pollfd to_poll(void *connection)
{
    struct connection *c = connection;
    struct pollfd p = {.fd = socket_of(c), .events = POLLRDHUP};
    if (c->wait & MYSQL_WAIT_READ) {
        p.events |= POLLIN;
    }
    if (c->wait & MYSQL_WAIT_WRITE) {
        p.events |= POLLOUT;
    }
    return p;
}

const struct sql_driver mysql_driver = {
    .open = open_connection,
    .close = close_connection,
    .send = send_text,
    .turn = turn,
    .watch = watch,
    .hint = hint,
    .poll = to_poll,
};
