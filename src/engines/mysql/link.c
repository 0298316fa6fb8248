/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection by libmariadb's calls that do not block.
 *
 * What of libmariadb blocks all the same, and what becomes of it here:
 *
 *   looking a name up     net/lookup.h does it; the library gets an address
 *   a TLS handshake       is silent for ever, and wants the name to verify: on a thread of its own,
 *                         bounded by the library's time-out, which has whole seconds. The name is
 *                         looked up twice then, by us first, so that the thread finds it at hand.
 *   closing               says good-bye; on a socket that was shut down before, that fails at once
 *
 * Its initialisation ignores SIGPIPE for the whole process: the program's choice is put back. Plain
 * writes of the library raise none, those of its TLS do: it is blocked around these, and taken
 * away.
 *
 * In a forked child the descriptor is replaced by one of /dev/null before it is closed, or the
 * good-bye (and TLS's) would end the parent's session.
 *
 * Not done: sending a request while another is under way, which the library does not know;
 * compression; the library's own reconnecting and its files of settings, which stay off.
 */
#include "engines/mysql/link.h"

#include <errno.h>
#include <errmsg.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- The library ------------------------------------------------------------------------ */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool usable;

static void start_library(void)
{
    struct sigaction before;
    sigaction(SIGPIPE, NULL, &before);
    usable = mysql_server_init(0, NULL, NULL) == 0;
    sigaction(SIGPIPE, &before, NULL);
}

/* Between these two no SIGPIPE of ours reaches the program. */
struct hush {
    bool on, pending;
    sigset_t old;
};

static void hush_begin(struct hush *h, bool on)
{
    sigset_t pipe, waiting;
    h->on = on;
    if (on) {
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        sigpending(&waiting);
        h->pending = sigismember(&waiting, SIGPIPE) == 1;
        pthread_sigmask(SIG_BLOCK, &pipe, &h->old);
    }
}

static void hush_end(struct hush *h)
{
    static const struct timespec now = {0};
    sigset_t pipe;
    if (h->on) {
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        if (!h->pending) {
            while (sigtimedwait(&pipe, NULL, &now) < 0 && errno == EINTR) {
            }
        }
        pthread_sigmask(SIG_SETMASK, &h->old, NULL);
    }
}

/* ---- Closing ---------------------------------------------------------------------------- */

static void drop_connection(MYSQL *my, bool forked, bool piped)
{
    struct hush hush;
    my_socket fd = mysql_get_socket(my);
    if (fd != (my_socket)-1) {
        if (forked) {
            int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
            if (nothing < 0 || dup2(nothing, (int)fd) < 0) {
                return; /* rather a leak than the end of the parent's session */
            }
            close(nothing);
        } else {
            shutdown((int)fd, SHUT_RDWR);
        }
    }
    hush_begin(&hush, piped);
    mysql_close(my);
    hush_end(&hush);
}

void mysql_link_close(struct mysql_link *l, bool forked)
{
    if (l->shaking) {
        snib__work_end(l->shaking); /* the connection is the thread's */
        l->shaking = NULL;
        l->shake = NULL;
    }
    if (l->lookup) {
        snib__lookup_end(l->lookup);
        l->lookup = NULL;
    }
    if (l->addresses) {
        freeaddrinfo(l->addresses);
        l->addresses = l->next = NULL;
    }
    if (l->result) {
        mysql_free_result(l->result);
        l->result = NULL;
    }
    if (l->my) {
        drop_connection(l->my, forked, l->piped);
        l->my = NULL;
    }
    free(l->text);
    l->text = NULL;
    l->running = l->over = false;
    l->wait = 0;
    l->stage = MYSQL_APART;
}

static void lose(struct mysql_link *l)
{
    bool asking = l->stage > MYSQL_IDLE;
    mysql_link_close(l, false);
    l->upcalls->lost(l, asking);
}

static void lose_because(struct mysql_link *l, int sys, unsigned code, const char *why)
{
    l->sys = sys;
    l->code = code;
    snprintf(l->why, sizeof l->why, "%s", why);
    lose(l);
}

/* What the library says about its last call. */
static void note_error(struct mysql_link *l)
{
    l->code = mysql_errno(l->my);
    l->sys = 0;
    snprintf(l->why, sizeof l->why, "%s", mysql_error(l->my));
}

/* ---- Opening ---------------------------------------------------------------------------- */

void mysql_link_init(struct mysql_link *l, const struct mysql_link_upcalls *upcalls, void *owner,
                     struct snib__session *session, const struct mysql_target *target)
{
    *l = (struct mysql_link){
        .upcalls = upcalls, .owner = owner, .session = session, .target = target};
}

/* Those that do not give the password away to whoever answers. */
#define SAFE_PLUGINS                                                                               \
    "mysql_native_password,client_ed25519,caching_sha2_password,sha256_password,"                  \
    "auth_gssapi_client"

static MYSQL *make_connection(const struct mysql_target *t, int64_t limit_ms)
{
    static const unsigned no = 0;
    static const my_bool yes = 1;
    unsigned limit_s = (unsigned)((limit_ms + 999) / 1000);
    MYSQL *my = usable ? mysql_init(NULL) : NULL;
    if (!my) {
        return NULL;
    }
    mysql_options(my, MYSQL_OPT_LOCAL_INFILE, &no); /* a server must not ask for our files */
    if (!t->socket) {                               /* or "localhost" would be one */
        static const unsigned tcp = MYSQL_PROTOCOL_TCP;
        mysql_options(my, MYSQL_OPT_PROTOCOL, &tcp);
    }
    mysql_options(my, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options(my, MYSQL_OPT_CONNECT_ATTR_RESET, NULL);
    mysql_optionsv(my, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "snib");
    if (t->tls != MYSQL_TLS_VERIFY && !t->socket) {
        mysql_optionsv(my, MARIADB_OPT_RESTRICTED_AUTH, SAFE_PLUGINS);
    }
    if (t->tls != MYSQL_TLS_NO) {
        my_bool verify = t->tls == MYSQL_TLS_VERIFY;
        mysql_ssl_set(my, t->key, t->cert, t->ca, NULL, NULL);
        mysql_options(my, MYSQL_OPT_SSL_ENFORCE, &yes);
        mysql_options(my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
        mysql_options(my, MYSQL_OPT_CONNECT_TIMEOUT, &limit_s);
    }
    if (mysql_options(my, MYSQL_OPT_NONBLOCK, NULL) != 0) {
        mysql_close(my);
        return NULL;
    }
    return my;
}

#define FLAGS (CLIENT_MULTI_STATEMENTS | CLIENT_MULTI_RESULTS)

static void tune_socket(const struct mysql_link *l)
{
    static const int yes = 1;
    int fd = (int)mysql_get_socket(l->my);
    unsigned limit_ms = (unsigned)l->limit_ms;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); /* the thread's connect left it blocking */
    if (!l->target->socket) {
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
        setsockopt(fd, 6 /* IPPROTO_TCP */, 18 /* TCP_USER_TIMEOUT */, &limit_ms, sizeof limit_ms);
    }
}

/* The thread of a handshake, and what it works on. */
struct shake {
    char *host, *user, *password, *database;
    int port;
    MYSQL *my, *connected;
};

static void shake_run(struct snib__work *work, void *arg)
{
    struct shake *s = arg;
    (void)work;
    s->connected = mysql_real_connect(s->my, s->host, s->user, s->password, s->database,
                                      (unsigned)s->port, NULL, FLAGS);
}

static void shake_drop(void *arg)
{
    struct shake *s = arg;
    if (s->my) { /* nobody took it */
        drop_connection(s->my, false, true);
    }
    if (s->password) {
        explicit_bzero(s->password, strlen(s->password));
    }
    free(s->host);
    free(s->user);
    free(s->password);
    free(s->database);
    free(s);
}

static void shake_begin(struct mysql_link *l)
{
    const struct mysql_target *t = l->target;
    struct shake *s = calloc(1, sizeof *s);
    if (s) {
        s->host = strdup(t->host);
        s->user = strdup(t->user);
        s->password = strdup(t->password);
        s->database = strdup(t->database);
        s->port = t->port;
        s->my = l->my;
    }
    if (s && s->host && s->user && s->password && s->database) {
        l->shaking = snib__work_begin(l->session, shake_run, shake_drop, s);
    }
    if (l->shaking) {
        l->stage = MYSQL_SHAKING;
        l->shake = s;
        l->my = NULL; /* the thread's until it is done */
        l->piped = true;
        return;
    }
    if (s) {
        s->my = NULL;
        shake_drop(s);
    }
    lose_because(l, EAGAIN, CR_OUT_OF_MEMORY, "no thread for a TLS handshake at the moment");
}

/* Connects to the next address, or over the Unix socket. */
static void join_next(struct mysql_link *l)
{
    l->my = make_connection(l->target, l->limit_ms);
    if (!l->my) {
        lose_because(l, ENOMEM, CR_OUT_OF_MEMORY, "out of memory");
        return;
    }
    l->piped = false;
    if (l->target->tls != MYSQL_TLS_NO && !l->target->socket) {
        shake_begin(l);
        return;
    }
    l->stage = MYSQL_JOINING;
    l->running = false;
}

static bool found(struct mysql_link *l)
{
    int rc = 0;
    if (!snib__lookup_done(l->lookup, &l->addresses, &rc)) {
        return false;
    }
    snib__lookup_end(l->lookup);
    l->lookup = NULL;
    l->next = l->addresses;
    if (l->addresses) {
        join_next(l);
    } else {
        lose_because(l, 0, CR_UNKNOWN_HOST, gai_strerror(rc));
    }
    return l->stage == MYSQL_JOINING;
}

void mysql_link_open(struct mysql_link *l, int64_t limit_ms)
{
    pthread_once(&once, start_library);
    l->limit_ms = limit_ms;
    l->sys = 0;
    l->code = 0;
    l->why[0] = '\0';
    l->stage = MYSQL_FINDING;
    if (!l->target->socket) {
        l->lookup = snib__lookup_start(l->target->host, l->target->port);
        l->sys = l->lookup ? 0 : errno;
    }
}

/* ---- Calls that go on ------------------------------------------------------------------- */

static int call_connect(struct mysql_link *l, int ready)
{
    const struct mysql_target *t = l->target;
    if (l->running) {
        return mysql_real_connect_cont(&l->connected, l->my, ready);
    }
    if (l->next) {
        getnameinfo(l->next->ai_addr, l->next->ai_addrlen, l->address, sizeof l->address, NULL, 0,
                    NI_NUMERICHOST);
    }
    return mysql_real_connect_start(&l->connected, l->my, t->socket ? "localhost" : l->address,
                                    t->user, t->password, t->database,
                                    t->socket ? 0 : (unsigned)t->port, t->socket, FLAGS);
}

static int call(struct mysql_link *l, int ready)
{
    switch (l->stage) {
    case MYSQL_JOINING:
        return call_connect(l, ready);
    case MYSQL_ASKING:
        return l->running ? mysql_real_query_cont(&l->failed, l->my, ready)
                          : mysql_real_query_start(&l->failed, l->my, l->text, l->size);
    case MYSQL_READING:
        return l->running ? mysql_store_result_cont(&l->result, l->my, ready)
                          : mysql_store_result_start(&l->result, l->my);
    default:
        return l->running ? mysql_next_result_cont(&l->failed, l->my, ready)
                          : mysql_next_result_start(&l->failed, l->my);
    }
}

/* ---- What they come to ------------------------------------------------------------------ */

static void joined(struct mysql_link *l)
{
    if (l->connected) {
        tune_socket(l);
        l->stage = MYSQL_IDLE;
        l->upcalls->joined(l);
        return;
    }
    note_error(l);
    bool reached = l->code < CR_MIN_ERROR || l->code > CR_MAX_ERROR;
    if (!reached && l->next && l->next->ai_next) {
        drop_connection(l->my, false, l->piped);
        l->my = NULL;
        l->next = l->next->ai_next;
        join_next(l);
    } else {
        lose(l);
    }
}

/* The request is over. */
static void answer(struct mysql_link *l)
{
    unsigned code = l->failed ? l->code : 0;
    free(l->text);
    l->text = NULL;
    l->stage = MYSQL_IDLE;
    l->upcalls->answered(l, code);
}

/* The server refused a statement, or the connection is broken. */
static void trip(struct mysql_link *l)
{
    note_error(l);
    if (l->code >= CR_MIN_ERROR && l->code <= CR_MAX_ERROR) {
        lose(l);
    } else {
        l->failed = 1;
        answer(l);
    }
}

static void tell_rows(struct mysql_link *l)
{
    MYSQL_RES *result = l->result;
    unsigned columns = mysql_num_fields(result);
    l->result = NULL;
    for (MYSQL_ROW texts; (texts = mysql_fetch_row(result)) != NULL;) {
        struct mysql_row row = {.texts = (const char *const *)texts,
                                .sizes = mysql_fetch_lengths(result),
                                .count = columns,
                                .statement = l->statement};
        l->upcalls->row(l, &row);
        if (l->stage != MYSQL_READING) {
            break; /* it was closed */
        }
    }
    l->statement++;
    mysql_free_result(result);
}

static void read_over(struct mysql_link *l)
{
    if (l->result) {
        tell_rows(l);
        if (l->stage != MYSQL_READING) {
            return;
        }
    } else if (mysql_errno(l->my) != 0) {
        trip(l);
        return;
    }
    if (mysql_more_results(l->my)) {
        l->stage = MYSQL_TURNING;
    } else {
        l->failed = 0;
        answer(l);
    }
}

/* A call is over: on with what follows. */
static void call_over(struct mysql_link *l)
{
    switch (l->stage) {
    case MYSQL_JOINING:
        joined(l);
        break;
    case MYSQL_READING:
        read_over(l);
        break;
    default: /* asking, turning */
        if (l->failed) {
            trip(l);
        } else {
            l->stage = MYSQL_READING;
        }
        break;
    }
}

static bool calls(const struct mysql_link *l)
{
    return l->stage == MYSQL_JOINING || l->stage > MYSQL_IDLE;
}

static void make_call(struct mysql_link *l, int ready)
{
    struct hush hush;
    hush_begin(&hush, l->piped);
    l->wait = call(l, ready);
    hush_end(&hush);
    l->running = l->wait != 0;
    l->over = !l->running;
}

static void go_on(struct mysql_link *l, int ready)
{
    while (calls(l)) {
        if (!l->over) {
            if (l->running && !ready) {
                return;
            }
            make_call(l, ready);
            ready = 0;
        }
        if (l->running) {
            return;
        }
        l->over = false;
        call_over(l); /* what is told may ask again */
    }
}

/* Nobody asked anything: it says good-bye, or is gone. */
static void surprised(struct mysql_link *l)
{
    char byte;
    ssize_t n = recv((int)mysql_get_socket(l->my), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0) {
        lose_because(l, ECONNRESET, CR_SERVER_LOST, "the server ended the connection");
    } else if (n == 0) {
        lose_because(l, ECONNRESET, CR_SERVER_LOST, "the connection was closed");
    } else if (errno != EAGAIN && errno != EINTR) {
        lose_because(l, errno, CR_SERVER_LOST, "the connection broke");
    }
}

static void shaken(struct mysql_link *l)
{
    struct shake *s = l->shake;
    l->my = s->my;
    l->connected = s->connected;
    s->my = NULL;
    snib__work_end(l->shaking);
    l->shaking = NULL;
    l->shake = NULL;
    joined(l);
    go_on(l, 0);
}

struct pollfd mysql_link_poll(const struct mysql_link *l)
{
    struct pollfd none = {.fd = -1};
    if (l->lookup) {
        return (struct pollfd){.fd = snib__lookup_fd(l->lookup), .events = POLLIN};
    }
    if (l->shaking) {
        return (struct pollfd){.fd = snib__work_fd(l->shaking), .events = POLLIN};
    }
    if (!l->my || (calls(l) && !l->running)) {
        return none;
    }
    int events = l->stage == MYSQL_IDLE ? POLLIN
                                        : ((l->wait & MYSQL_WAIT_READ) ? POLLIN : 0) |
                                              ((l->wait & MYSQL_WAIT_WRITE) ? POLLOUT : 0) |
                                              ((l->wait & MYSQL_WAIT_EXCEPT) ? POLLPRI : 0);
    return (struct pollfd){.fd = (int)mysql_get_socket(l->my), .events = (short)events};
}

/* What of what is waited for is there. */
static int look(const struct mysql_link *l)
{
    struct pollfd fd = mysql_link_poll(l);
    return fd.fd >= 0 && poll(&fd, 1, 0) == 1 ? fd.revents : 0;
}

void mysql_link_step(struct mysql_link *l)
{
    int revents = look(l);
    int ready = ((revents & (POLLIN | POLLHUP | POLLERR)) ? MYSQL_WAIT_READ : 0) |
                ((revents & (POLLOUT | POLLERR)) ? MYSQL_WAIT_WRITE : 0) |
                ((revents & POLLPRI) ? MYSQL_WAIT_EXCEPT : 0);
    switch (l->stage) {
    case MYSQL_APART:
        break;
    case MYSQL_FINDING:
        if (l->target->socket) {
            join_next(l);
        } else if (!l->lookup) {
            lose_because(l, l->sys, CR_UNKNOWN_HOST, "no means to look a name up");
            break;
        } else if (!found(l)) {
            break;
        }
        go_on(l, 0);
        break;
    case MYSQL_SHAKING:
        if (snib__work_done(l->shaking)) {
            shaken(l);
        }
        break;
    case MYSQL_IDLE:
        if (revents) {
            surprised(l);
        }
        break;
    default:
        if (l->over || (ready & l->wait)) {
            go_on(l, ready & l->wait);
        }
        break;
    }
}

void mysql_link_ask(struct mysql_link *l, char *text, size_t size)
{
    l->text = text;
    l->size = size;
    l->stage = MYSQL_ASKING;
    l->running = false;
    l->failed = 0;
    l->statement = 0;
    make_call(l, 0); /* leaves at once; what is said comes later */
}

unsigned long mysql_link_number(const struct mysql_link *l)
{
    return l->my ? mysql_thread_id(l->my) : 0;
}

const char *mysql_link_version(const struct mysql_link *l)
{
    const char *version = l->my && l->stage >= MYSQL_IDLE ? mysql_get_server_info(l->my) : NULL;
    return version ? version : "";
}
