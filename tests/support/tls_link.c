/*
 * Driving a stream by poll. Every step must return at once: one that takes a second fails the case.
 */
#include "tls_link.h"

#include "port.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG_MS = 10000, STEP_MS = 1000 };

/* ---- The server ------------------------------------------------------------------------- */

static void make_files(const char *folder)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl(TEST_BUILD_DIR "/tests/tls_peer", "tls_peer", "certificates", folder, (char *)NULL);
        _exit(127);
    }
    CHECK_INT(check_wait(pid, LONG_MS), ==, 0);
}

const char *tls_file(const char *name)
{
    static _Thread_local char paths[8][256];
    static _Thread_local unsigned next;
    char folder[200];
    snprintf(folder, sizeof folder, "%s/certificates", check_tmpdir());
    if (mkdir(folder, 0700) == 0) {
        make_files(folder);
    }
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void tls_serve(struct server *server, const char *cert, const char *const options[])
{
    static int count;
    char name[24];
    snprintf(name, sizeof name, "tls_peer%d", count++);
    server_init(server, name);
    server_program(server, TEST_BUILD_DIR "/tests/tls_peer", "none");
    server_argument(server, "serve");
    server_argument(server, "port=@PORT@");
    server_argument(server, "cert=%s", tls_file(cert));
    for (size_t i = 0; options && options[i]; i++) {
        server_argument(server, "%s", options[i]);
    }
    server_ready_line(server, "ready");
    server_start(server);
}

struct wanted {
    const char *path, *text;
};

static bool log_has(void *arg)
{
    const struct wanted *wanted = arg;
    static char text[16384];
    FILE *file = fopen(wanted->path, "re");
    CHECK(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return strstr(text, wanted->text);
}

void tls_await_log(const struct server *server, const char *text)
{
    struct wanted wanted = {.path = server->log, .text = text};
    if (!check_until(log_has, &wanted, check_ms(LONG_MS))) {
        FAIL("the server does not write \"%s\"", text);
    }
}

/* ---- The client ------------------------------------------------------------------------- */

struct snib__tls *tls_context_of(const struct snib__tls_options *options)
{
    struct snib__tls *tls;
    snib_error err;
    CHECK_OK(snib__tls_open(&tls, options, &err), err.message);
    return tls;
}

struct snib__tls *tls_context(void)
{
    return tls_context_of(&(struct snib__tls_options){.ca = tls_file("authority.crt")});
}

struct tls_link tls_dial(int port, struct snib__tls *tls, const char *host)
{
    struct tls_link link = {.fd = port_connect(port)};
    if (link.fd < 0) {
        FAIL("connect: %s", strerror(errno));
    }
    fcntl(link.fd, F_SETFL, O_NONBLOCK);
    link.stream = snib__stream_open(link.fd, tls, host);
    CHECK(link.stream);
    return link;
}

void tls_hang_up(struct tls_link *link)
{
    snib__stream_close(link->stream);
    close(link->fd);
}

static bool waits(enum snib__streamed now)
{
    return now == SNIB__STREAM_WANTS_READ || now == SNIB__STREAM_WANTS_WRITE;
}

/* False when the time is over. */
static bool await(struct tls_link *link, bool to_write, int64_t until_ns)
{
    struct pollfd p = {.fd = link->fd, .events = snib__stream_events(link->stream, to_write)};
    int64_t left_ms = (until_ns - check_now_ns()) / 1000000;
    return left_ms > 0 && poll(&p, 1, (int)left_ms) > 0;
}

static void hurry(int64_t since_ns)
{
    CHECK_INT(check_now_ns() - since_ns, <, check_ms(STEP_MS) * 1000000LL);
}

enum snib__streamed tls_start(struct tls_link *link, int timeout_ms)
{
    int64_t until_ns = check_now_ns() + timeout_ms * 1000000LL;
    enum snib__streamed now;
    do {
        int64_t before_ns = check_now_ns();
        now = snib__stream_start(link->stream);
        hurry(before_ns);
    } while (waits(now) && await(link, false, until_ns));
    return now;
}

struct tls_link tls_join(int port, struct snib__tls *tls, const char *host)
{
    struct tls_link link = tls_dial(port, tls, host);
    if (tls_start(&link, check_ms(LONG_MS)) != SNIB__STREAM_DONE) {
        FAIL("handshake: %s", snib__stream_why(link.stream));
    }
    return link;
}

const char *tls_refusal(int port, struct snib__tls *tls, const char *host)
{
    static char why[256];
    struct tls_link link = tls_dial(port, tls, host);
    enum snib__streamed now = tls_start(&link, check_ms(LONG_MS));
    if (now == SNIB__STREAM_DONE) { /* TLS 1.3: a refusal comes after the handshake */
        now = tls_drain(&link, check_ms(LONG_MS));
    }
    CHECK_INT(now, ==, SNIB__STREAM_FAILED);
    snprintf(why, sizeof why, "%s", snib__stream_why(link.stream));
    tls_hang_up(&link);
    return why;
}

void tls_say(struct tls_link *link, const char *text)
{
    int64_t until_ns = check_now_ns() + check_ms(LONG_MS) * 1000000LL;
    size_t left = strlen(text), put;
    while (left > 0) {
        enum snib__streamed now = snib__stream_write(link->stream, text, left, &put);
        if (now != SNIB__STREAM_DONE && !(waits(now) && await(link, true, until_ns))) {
            FAIL("write: %d %s", now, snib__stream_why(link->stream));
        }
        text += put;
        left -= put;
    }
}

void tls_hear(struct tls_link *link, const char *text)
{
    int64_t until_ns = check_now_ns() + check_ms(LONG_MS) * 1000000LL;
    char bytes[256] = "";
    size_t used = 0, got;
    while (used < strlen(text)) {
        enum snib__streamed now =
            snib__stream_read(link->stream, bytes + used, strlen(text) - used, &got);
        if (now != SNIB__STREAM_DONE && !(waits(now) && await(link, false, until_ns))) {
            FAIL("read \"%s\": %d %s", bytes, now, snib__stream_why(link->stream));
        }
        used += got;
    }
    CHECK_STR(bytes, text);
}

enum snib__streamed tls_drain(struct tls_link *link, int timeout_ms)
{
    int64_t until_ns = check_now_ns() + timeout_ms * 1000000LL;
    char bytes[4096];
    size_t got;
    enum snib__streamed now;
    do {
        int64_t before_ns = check_now_ns();
        now = snib__stream_read(link->stream, bytes, sizeof bytes, &got);
        hurry(before_ns);
    } while (now == SNIB__STREAM_DONE || (waits(now) && await(link, false, until_ns)));
    return now;
}
