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
#include <inttypes.h>
#include <mysql.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum phase { IDLE, QUERY, STORE, NEXT };

/* One connection of the library. */
struct lane {
    MYSQL my;
    bool open, tls;
    enum phase phase;
    int wait; /* what the library waits for; 0: it has come to the end of its phase */
    int failed;
    MYSQL_RES *result;
    char *text;
    struct sql_answer answer;
};

enum { TOLD = 32 };

enum ear { RESTING, SLEEPING, LOOKING };

struct connection {
    struct lane main, bell;
    int64_t me;
    const char *mode;
    int64_t news; /* the latest that was told */
    bool wanted;  /* rings are */
    bool deaf;    /* the bell is broken: who waits looks now and then */
    enum ear ear;
    struct sql_answer owners; /* who was let in */
    size_t next;
    struct told {
        char owner[40];
        int64_t news;
    } told[TOLD]; /* the last ones, round and round */
    size_t told_next;
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

static struct hush hush_begin(const struct lane *c)
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

static void set_options(struct lane *l, const struct sql_target *t, int64_t due_ns)
{
    const my_bool yes = 1;
    const unsigned none = 0, tcp = MYSQL_PROTOCOL_TCP;
    unsigned seconds = (unsigned)((due_ns - snib__now().boot_ns) / (1000 * SNIB__MS)) + 1;
    mysql_init(&l->my);
    mysql_options(&l->my, MYSQL_OPT_NONBLOCK, NULL);
    mysql_options(&l->my, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
    mysql_options(&l->my, MYSQL_OPT_LOCAL_INFILE, &none);
    mysql_options(&l->my, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (!t->socket[0]) { /* a host called localhost is a host */
        mysql_options(&l->my, MYSQL_OPT_PROTOCOL, &tcp);
    }
    if (l->tls) {
        mysql_options(&l->my, MYSQL_OPT_SSL_ENFORCE, &yes);
        mysql_options(&l->my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes);
        if (t->ca[0]) {
            mysql_options(&l->my, MYSQL_OPT_SSL_CA, t->ca);
        }
    }
}

static bool lane_open(struct lane *l, const struct sql_target *t, const char *address,
                      int64_t due_ns, struct sql_error *error)
{
    l->tls = t->tls == SQL_TLS_VERIFY;
    set_options(l, t, due_ns);
    /* A certificate is for the name; the address was found by it just now. */
    const char *host = t->socket[0] ? NULL : l->tls ? t->host : address;
    struct hush h = hush_begin(l);
    l->open = mysql_real_connect(&l->my, host, t->user[0] ? t->user : NULL,
                                 t->password[0] ? t->password : NULL,
                                 t->database[0] ? t->database : NULL, (unsigned)t->port,
                                 t->socket[0] ? t->socket : NULL, CLIENT_MULTI_STATEMENTS) != NULL;
    if (!l->open) {
        keep_error(&l->my, error);
        mysql_close(&l->my);
    }
    hush_end(&h);
    return l->open;
}

static void lane_close(struct lane *l, bool silently)
{
    if (!l->open) {
        return;
    }
    int fd = (int)mysql_get_socket(&l->my);
    int nowhere = silently && fd >= 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (nowhere >= 0) {
        dup2(nowhere, fd);
        close(nowhere);
    }
    struct hush h = hush_begin(l);
    mysql_close(&l->my);
    hush_end(&h);
    sql_answer_free(&l->answer);
    free(l->text);
}

static void close_connection(void *connection, bool silently)
{
    struct connection *c = connection;
    lane_close(&c->main, silently);
    lane_close(&c->bell, silently);
    sql_answer_free(&c->owners);
    free(c);
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
    c->me = t->me;
    c->mode = t->leased ? "lease" : "session";
    if (lane_open(&c->main, t, address, due_ns, error) &&
        lane_open(&c->bell, t, address, due_ns, error)) {
        return c;
    }
    close_connection(c, false);
    return NULL;
}

int64_t mysql_served_by(void *connection)
{
    return (int64_t)mysql_thread_id(&((struct connection *)connection)->main.my);
}

/* ---- Asking ----------------------------------------------------------------------------- */

static bool lane_send(struct lane *l, const char *text, size_t size)
{
    char *copy = malloc(size + 1);
    if (!copy) {
        return false;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    free(l->text);
    l->text = copy;
    sql_answer_free(&l->answer);
    l->phase = QUERY;
    struct hush h = hush_begin(l);
    l->wait = mysql_real_query_start(&l->failed, &l->my, l->text, size);
    hush_end(&h);
    return true;
}

static bool keep_rows(struct lane *c)
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

static enum sql_turn end(struct lane *c, enum sql_turn turn)
{
    c->phase = IDLE;
    c->wait = 0;
    return turn;
}

static enum sql_turn fail(struct lane *c, struct sql_error *error)
{
    enum { CLIENT_ERRORS = 2000, SERVER_AGAIN = 3000, KILLED = 1927, SHUTDOWN = 1053 };
    keep_error(&c->my, error);
    bool gone = (error->number >= CLIENT_ERRORS && error->number < SERVER_AGAIN) ||
                error->number == KILLED || error->number == SHUTDOWN || error->number == 0;
    return end(c, gone ? SQL_BROKEN : SQL_REFUSED);
}

static void go_on(struct lane *c, int ready)
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
static enum sql_turn advance(struct lane *c, struct sql_answer *answer, struct sql_error *error)
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

static enum sql_turn lane_turn(struct lane *c, short ready, struct sql_answer *answer,
                               struct sql_error *error)
{
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

static struct pollfd lane_poll(struct lane *l)
{
    struct pollfd p = {.fd = (int)mysql_get_socket(&l->my), .events = POLLRDHUP};
    p.events |= (short)(l->wait & MYSQL_WAIT_READ ? POLLIN : 0);
    /* An answer that was there at once has been read already: go on without a wait. */
    bool ready = l->phase != IDLE && !l->wait;
    p.events |= (short)(l->wait & MYSQL_WAIT_WRITE || ready ? POLLOUT : 0);
    return p;
}

static bool send_text(void *connection, const char *text, size_t size)
{
    return lane_send(&((struct connection *)connection)->main, text, size);
}

static enum sql_turn turn(void *connection, short ready, struct sql_answer *answer,
                          struct sql_error *error)
{
    return lane_turn(&((struct connection *)connection)->main, ready, answer, error);
}

static enum sql_turn watch(void *connection, struct sql_error *error)
{
    struct connection *c = connection;
    struct pollfd p = {.fd = (int)mysql_get_socket(&c->main.my), .events = POLLRDHUP};
    if (poll(&p, 1, 0) > 0 && p.revents) {
        snprintf(error->text, sizeof error->text, "the server closed the connection");
        return SQL_BROKEN;
    }
    return SQL_GOING;
}

/* ---- Being rung ------------------------------------------------------------------------- */

/*
 * The bell is a second connection that sleeps at the server while something is waited for. Whoever
 * lets us in, or wants us to give up, ends that sleep; then we look who of us it was, and sleep on.
 * A ring that comes while nobody sleeps is lost, but what it was about is in a row by then, which
 * is looked for before each sleep. What still slips through (the clock went back, or two rings
 * overtook each other) is found by those who wait: they look now and then by themselves. A sleep is
 * short, since the server does not notice meanwhile that its client is gone.
 *
 * It is a wait for a lock that our first connection has for as long as it lives, and not SLEEP():
 * all those who are in SLEEP() share one mutex of MariaDB, which KILL QUERY tries to get for up to
 * two seconds, so with some dozen sleepers whoever rang waited that long.
 */
enum { SLEEP_S = 5, OVERTAKEN_US = 200 * 1000 };

/* Who of us was let in lately, or is asked to give up. */
#define NEWS " FROM snib_%s_claim WHERE session = %" PRId64 " AND place <= 0 AND news > %" PRId64

static void bell_say(struct connection *c, enum ear ear)
{
    char text[600];
    if (ear == SLEEPING) {
        snprintf(text, sizeof text,
                 "SET @snib_news = (SELECT COUNT(*)" NEWS ");"
                 "SELECT IF(@snib_news, NULL, GET_LOCK('" MYSQL_PILLOW "%" PRId64 "', %d))",
                 c->mode, c->me, c->news, c->me, SLEEP_S);
    } else {
        snprintf(text, sizeof text, "SELECT LOWER(HEX(owner)), news" NEWS, c->mode, c->me,
                 c->news > OVERTAKEN_US ? c->news - OVERTAKEN_US : 0);
    }
    c->ear = ear;
    c->deaf |= !lane_send(&c->bell, text, strlen(text));
}

/* Was it not told yet? It is from now on. */
static bool is_news(struct connection *c, const struct told *one)
{
    for (size_t i = 0; i < TOLD; i++) {
        if (c->told[i].news == one->news && strcmp(c->told[i].owner, one->owner) == 0) {
            return false;
        }
    }
    c->told[c->told_next++ % TOLD] = *one;
    return true;
}

static bool next_owner(struct connection *c, char out[40])
{
    size_t rows = c->owners.count ? c->owners.sets[0].rows : 0;
    while (c->next < rows) {
        struct told one = {.news = sql_number(&c->owners, 0, c->next, 1)};
        snprintf(one.owner, sizeof one.owner, "%.39s", sql_text(&c->owners, 0, c->next++, 0));
        if (is_news(c, &one)) {
            memcpy(out, one.owner, sizeof one.owner);
            return true;
        }
    }
    return false;
}

static void keep_owners(struct connection *c, const struct sql_answer *answer)
{
    sql_answer_free(&c->owners);
    c->owners = *answer;
    c->next = 0;
    for (size_t i = 0; answer->count && i < answer->sets[0].rows; i++) {
        int64_t news = sql_number(answer, 0, i, 1);
        c->news = news > c->news ? news : c->news;
    }
}

static bool hint(void *connection, short ready, char out[40])
{
    struct connection *c = connection;
    while (!next_owner(c, out)) {
        struct sql_answer answer = {0};
        struct sql_error error = {0};
        if (c->ear == RESTING || c->deaf) {
            return false;
        }
        enum sql_turn turn_now = lane_turn(&c->bell, ready, &answer, &error);
        ready = 0;
        if (turn_now == SQL_GOING) {
            return false;
        }
        const char *woken = c->ear == SLEEPING ? sql_text(&answer, 0, 0, 0) : "";
        bool looked = c->ear == LOOKING && turn_now == SQL_DONE;
        bool slept = strcmp(woken, "0") == 0;
        c->deaf |= turn_now == SQL_BROKEN || strcmp(woken, "1") == 0; /* the first one has ended */
        if (looked) {
            keep_owners(c, &answer);
        } else {
            sql_answer_free(&answer);
        }
        if (c->deaf || ((looked || slept) && !c->wanted)) {
            c->ear = RESTING;
        } else {
            bell_say(c, looked || slept ? SLEEPING : LOOKING);
        }
    }
    return true;
}

static void listen_for(void *connection, bool wanted)
{
    struct connection *c = connection;
    c->wanted = wanted;
    if (wanted && c->ear == RESTING && !c->deaf) {
        bell_say(c, SLEEPING);
    }
}

bool mysql_bell(void *connection, const char *text)
{
    struct lane *l = &((struct connection *)connection)->bell;
    struct hush h = hush_begin(l);
    bool done = mysql_real_query(&l->my, text, strlen(text)) == 0;
    while (done) {
        MYSQL_RES *result = mysql_store_result(&l->my);
        mysql_free_result(result);
        if (!mysql_more_results(&l->my)) {
            break;
        }
        done = mysql_next_result(&l->my) == 0;
    }
    hush_end(&h);
    return done;
}

static size_t to_poll(void *connection, struct pollfd out[SQL_POLLS])
{
    struct connection *c = connection;
    out[0] = lane_poll(&c->main);
    if (c->ear == RESTING || c->deaf) {
        return 1;
    }
    out[1] = lane_poll(&c->bell);
    return 2;
}

const struct sql_driver mysql_driver = {
    .open = open_connection,
    .close = close_connection,
    .send = send_text,
    .turn = turn,
    .watch = watch,
    .hint = hint,
    .listen = listen_for,
    .poll = to_poll,
};
