/*
 * The bytes of a connection, with TLS and without: whole, in order, never blocking, and with an end
 * that is told from a cut.
 */
#include "echo.h"
#include "port.h"
#include "proxy.h"
#include "tls_link.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LONG_MS = 10000 };

static const char *const VERSIONS[] = {"tls=1.2", "tls=1.3"};

static void check_has(const char *text, const char *part)
{
    if (!strstr(text, part)) {
        FAIL("\"%s\" does not say \"%s\"", text, part);
    }
}

static struct tls_link join_new_server(struct server *server, int version, struct snib__tls **tls)
{
    tls_serve(server, "good.pem", (const char *const[]){VERSIONS[version], NULL});
    *tls = tls_context();
    return tls_join(server->port, *tls, "localhost");
}

static void leave(struct tls_link *link, struct snib__tls *tls)
{
    tls_hang_up(link);
    snib__tls_close(tls);
}

/* ---- Large data both ways --------------------------------------------------------------- */

enum { LARGE = 4 * 1024 * 1024 };

static char pattern(size_t at)
{
    return (char)('a' + (at * 31 + at / 4093) % 26);
}

/* Sends and receives at the same time what the other side echoes; `chunk` bytes at a time. */
static void exchange(struct tls_link *link, size_t size, size_t chunk)
{
    char *out = malloc(size), *in = malloc(chunk);
    size_t sent = 0, heard = 0, n;
    int64_t until_ns = check_now_ns() + check_ms(LONG_MS) * 2000000LL;
    for (size_t i = 0; i < size; i++) {
        out[i] = pattern(i);
    }
    while (heard < size) {
        enum snib__streamed now = SNIB__STREAM_DONE;
        while (sent < size && now == SNIB__STREAM_DONE) {
            size_t most = size - sent < chunk ? size - sent : chunk;
            now = snib__stream_write(link->stream, out + sent, most, &n);
            sent += n;
        }
        CHECK(now != SNIB__STREAM_FAILED);
        while ((now = snib__stream_read(link->stream, in, chunk, &n)) == SNIB__STREAM_DONE) {
            for (size_t i = 0; i < n; i++) {
                CHECK_INT(in[i], ==, pattern(heard + i));
            }
            heard += n;
        }
        CHECK(now == SNIB__STREAM_WANTS_READ || now == SNIB__STREAM_WANTS_WRITE);
        CHECK_INT(snib__stream_pending(link->stream), ==, 0);
        struct pollfd p = {.fd = link->fd,
                           .events = snib__stream_events(link->stream, sent < size)};
        CHECK(heard == size || poll(&p, 1, check_ms(LONG_MS)) == 1);
        CHECK_INT(check_now_ns(), <, until_ns);
    }
    free(out);
    free(in);
}

TEST(large_data_goes_both_ways_at_once_in_both_versions)
{
    for (int v = 0; v < 2; v++) {
        struct server server;
        struct snib__tls *tls;
        struct tls_link link = join_new_server(&server, v, &tls);
        exchange(&link, LARGE, 100000);
        exchange(&link, LARGE / 64, 777);
        leave(&link, tls);
    }
}

TEST(large_data_goes_both_ways_at_once_without_tls)
{
    struct echo *echo = echo_start();
    struct tls_link link = tls_join(echo->port, NULL, "localhost");
    exchange(&link, LARGE, 100000);
    tls_hang_up(&link);
}

TEST(what_was_decrypted_and_not_read_is_pending)
{
    struct server server;
    struct snib__tls *tls;
    struct tls_link link = join_new_server(&server, 1, &tls);
    tls_say(&link, "twelve bytes");
    tls_hear(&link, "twelve");
    CHECK_INT(snib__stream_pending(link.stream), ==, 6);
    tls_hear(&link, " bytes");
    CHECK_INT(snib__stream_pending(link.stream), ==, 0);
    leave(&link, tls);
}

TEST(keys_change_in_the_middle)
{
    struct server server;
    struct snib__tls *tls;
    struct tls_link link = join_new_server(&server, 1, &tls);
    for (int i = 0; i < 3; i++) {
        tls_say(&link, "!update");
        tls_hear(&link, "updated");
        tls_say(&link, "with new keys");
        tls_hear(&link, "with new keys");
    }
    leave(&link, tls);
}

/* Every chunk of ciphertext that the client sends is held back until the socket is full; what was
 * refused is offered again from another place in memory, with more behind it. */
TEST(a_refused_write_may_move_and_grow)
{
    struct server server;
    struct proxy proxy;
    tls_serve(&server, "good.pem", NULL);
    proxy_start(&proxy, server.port);
    struct snib__tls *tls = tls_context();
    struct tls_link link = tls_join(proxy.port, tls, "localhost");
    static char first[65536], second[131072];
    memset(first, 'x', sizeof first);
    memset(second, 'x', sizeof second);
    proxy_set(&proxy, PROXY_TO_SERVER, PROXY_STALL, 0);
    size_t put, total = 0;
    enum snib__streamed now;
    while ((now = snib__stream_write(link.stream, first, sizeof first, &put)) ==
           SNIB__STREAM_DONE) {
        total += put;
    }
    CHECK_INT(now, ==, SNIB__STREAM_WANTS_WRITE);
    proxy_heal(&proxy);
    struct pollfd p = {.fd = link.fd, .events = POLLOUT};
    CHECK_INT(poll(&p, 1, check_ms(LONG_MS)), ==, 1);
    while ((now = snib__stream_write(link.stream, second, sizeof second, &put)) ==
           SNIB__STREAM_WANTS_WRITE) {
        CHECK_INT(poll(&p, 1, check_ms(LONG_MS)), ==, 1);
    }
    CHECK_INT(now, ==, SNIB__STREAM_DONE);
    CHECK_INT(total + put, >, sizeof first);
    leave(&link, tls);
}

/* ---- Ends ------------------------------------------------------------------------------- */

TEST(an_end_in_order_is_an_end_in_both_versions)
{
    for (int v = 0; v < 2; v++) {
        struct server server;
        struct snib__tls *tls;
        struct tls_link link = join_new_server(&server, v, &tls);
        tls_say(&link, "!bye");
        CHECK_INT(tls_drain(&link, check_ms(LONG_MS)), ==, SNIB__STREAM_END);
        CHECK_INT(tls_drain(&link, check_ms(LONG_MS)), ==, SNIB__STREAM_END);
        leave(&link, tls);
    }
}

TEST(a_connection_that_is_cut_off_is_a_failure_and_no_end_in_both_versions)
{
    for (int v = 0; v < 2; v++) {
        struct server server;
        struct snib__tls *tls;
        struct tls_link link = join_new_server(&server, v, &tls);
        tls_say(&link, "!cut");
        CHECK_INT(tls_drain(&link, check_ms(LONG_MS)), ==, SNIB__STREAM_FAILED);
        check_has(snib__stream_why(link.stream), "was cut off: no closing message of TLS");
        CHECK_INT(tls_drain(&link, check_ms(LONG_MS)), ==, SNIB__STREAM_FAILED);
        size_t put;
        CHECK_INT(snib__stream_write(link.stream, "x", 1, &put), ==, SNIB__STREAM_FAILED);
        CHECK_INT(snib__stream_finish(link.stream), ==, SNIB__STREAM_FAILED);
        leave(&link, tls);
    }
}

TEST(a_half_open_connection_is_a_failure)
{
    struct server server;
    struct proxy proxy;
    tls_serve(&server, "good.pem", NULL);
    proxy_start(&proxy, server.port);
    struct snib__tls *tls = tls_context();
    struct tls_link link = tls_join(proxy.port, tls, "localhost");
    tls_say(&link, "hello");
    tls_hear(&link, "hello");
    proxy_half_open(&proxy, PROXY_CLIENT_SIDE, PROXY_CLOSE);
    CHECK_INT(tls_drain(&link, check_ms(LONG_MS)), ==, SNIB__STREAM_FAILED);
    leave(&link, tls);
}

/* Writes until that fails; SIGPIPE would end the case. The kernel sends it when the other side had
 * closed first: a mere reset is an error without a signal. */
static void write_until_failure(struct tls_link *link)
{
    struct pollfd closed = {.fd = link->fd, .events = POLLRDHUP};
    signal(SIGPIPE, SIG_DFL);
    CHECK_INT(poll(&closed, 1, check_ms(LONG_MS)), ==, 1);
    size_t put;
    int64_t until_ns = check_now_ns() + check_ms(LONG_MS) * 1000000LL;
    while (snib__stream_write(link->stream, "more", 4, &put) != SNIB__STREAM_FAILED) {
        CHECK_INT(check_now_ns(), <, until_ns);
        check_sleep_ms(1);
    }
    CHECK_INT(snib__stream_sys(link->stream), ==, EPIPE);
    check_has(snib__stream_why(link->stream), "the connection to localhost broke: ");
}

TEST(writing_to_who_is_gone_fails_without_a_signal)
{
    struct server server;
    struct snib__tls *tls;
    struct tls_link link = join_new_server(&server, 1, &tls);
    tls_say(&link, "!cut");
    write_until_failure(&link);
    leave(&link, tls);
}

TEST(writing_to_who_is_gone_fails_without_a_signal_without_tls)
{
    struct echo *echo = echo_start();
    struct tls_link link = tls_join(echo->port, NULL, "localhost");
    tls_say(&link, "hello"); /* so that it has accepted us */
    tls_hear(&link, "hello");
    check_kill(echo->pid);
    write_until_failure(&link);
    tls_hang_up(&link);
}

TEST(a_reset_is_a_failure_with_its_cause)
{
    struct server server;
    struct snib__tls *tls;
    struct tls_link link = join_new_server(&server, 1, &tls);
    tls_say(&link, "!reset");
    CHECK_INT(tls_drain(&link, check_ms(LONG_MS)), ==, SNIB__STREAM_FAILED);
    CHECK_INT(snib__stream_sys(link.stream), ==, ECONNRESET);
    check_has(snib__stream_why(link.stream), "broke: Connection reset by peer");
    leave(&link, tls);
}

TEST(the_other_side_hears_that_we_finished)
{
    struct server server;
    struct snib__tls *tls;
    struct tls_link link = join_new_server(&server, 1, &tls);
    CHECK_INT(snib__stream_finish(link.stream), ==, SNIB__STREAM_DONE);
    tls_await_log(&server, "broke connection"); /* its read gave an end, and no error */
    leave(&link, tls);

    struct echo *echo = echo_start();
    struct tls_link plain = tls_join(echo->port, NULL, "localhost");
    CHECK_INT(snib__stream_finish(plain.stream), ==, SNIB__STREAM_DONE);
    CHECK_INT(tls_drain(&plain, check_ms(LONG_MS)), ==, SNIB__STREAM_END);
    tls_hang_up(&plain);
}

TEST(a_stream_is_started_once_and_needs_no_end_before_that)
{
    struct server server;
    tls_serve(&server, "good.pem", NULL);
    struct snib__tls *tls = tls_context();
    struct tls_link link = tls_dial(server.port, tls, "localhost");
    CHECK_INT(snib__stream_finish(link.stream), ==, SNIB__STREAM_DONE);
    CHECK_INT(tls_start(&link, check_ms(LONG_MS)), ==, SNIB__STREAM_DONE);
    CHECK_INT(snib__stream_start(link.stream), ==, SNIB__STREAM_DONE);
    leave(&link, tls);
}

TEST(a_renegotiation_is_refused)
{
    struct server server;
    struct snib__tls *tls;
    struct tls_link link = join_new_server(&server, 0, &tls);
    tls_say(&link, "!renegotiate");
    CHECK_INT(tls_drain(&link, check_ms(LONG_MS)), ==, SNIB__STREAM_FAILED);
    check_has(snib__stream_why(link.stream), "localhost ended the TLS connection");
    tls_await_log(&server, "broke no renegotiation");
    leave(&link, tls);
}

/* ---- Handshakes that do not come ----------------------------------------------------------- */

TEST(a_handshake_byte_by_byte_succeeds_in_both_versions)
{
    for (int v = 0; v < 2; v++) {
        struct server server;
        struct proxy proxy;
        tls_serve(&server, "good.pem", (const char *const[]){VERSIONS[v], NULL});
        proxy_start(&proxy, server.port);
        proxy_set(&proxy, PROXY_BOTH, PROXY_DRIBBLE, 1);
        struct snib__tls *tls = tls_context();
        struct tls_link link = tls_join(proxy.port, tls, "localhost");
        tls_say(&link, "slowly");
        tls_hear(&link, "slowly");
        leave(&link, tls);
        proxy_stop(&proxy);
    }
}

TEST(a_handshake_that_dribbles_on_is_left_at_the_callers_deadline)
{
    struct server server;
    struct proxy proxy;
    tls_serve(&server, "good.pem", NULL);
    proxy_start(&proxy, server.port);
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_DRIBBLE, 20);
    struct snib__tls *tls = tls_context();
    struct tls_link link = tls_dial(proxy.port, tls, "localhost");
    CHECK_INT(tls_start(&link, 300), ==, SNIB__STREAM_WANTS_READ);
    leave(&link, tls);
}

TEST(a_mute_peer_is_waited_for_until_the_callers_deadline)
{
    struct proxy proxy;
    proxy_start(&proxy, port_claim());
    proxy_door(&proxy, PROXY_DARK);
    struct snib__tls *tls = tls_context();
    struct tls_link link = tls_dial(proxy.port, tls, "localhost");
    CHECK_INT(tls_start(&link, 200), ==, SNIB__STREAM_WANTS_READ);
    CHECK_INT(snib__stream_events(link.stream, true), ==, POLLIN);
    leave(&link, tls);
}

/* ---- Peers without TLS ------------------------------------------------------------------ */

struct speaker {
    int door;
    const char *text;
};

/* Takes one connection, hears something, answers with this text, and hangs up. */
static void speak(void *arg)
{
    const struct speaker *speaker = arg;
    char bytes[4096];
    int fd = accept(speaker->door, NULL, NULL);
    CHECK(fd >= 0 && recv(fd, bytes, sizeof bytes, 0) > 0);
    CHECK_INT(send(fd, speaker->text, strlen(speaker->text), MSG_NOSIGNAL), ==,
              strlen(speaker->text));
    shutdown(fd, SHUT_WR);
    while (recv(fd, bytes, sizeof bytes, 0) > 0) {
    }
    close(fd);
}

static void check_speaker(const char *text, const char *part)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    struct speaker speaker = {.door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .text = text};
    CHECK(bind(speaker.door, (struct sockaddr *)&address, size) == 0);
    CHECK(listen(speaker.door, 1) == 0);
    CHECK(getsockname(speaker.door, (struct sockaddr *)&address, &size) == 0);
    pid_t pid = check_spawn(speak, &speaker);
    struct snib__tls *tls = tls_context();
    check_has(tls_refusal(ntohs(address.sin_port), tls, "localhost"), part);
    snib__tls_close(tls);
    check_join(pid, LONG_MS);
    close(speaker.door);
}

TEST(a_peer_that_speaks_no_tls_is_told_from_one_that_does)
{
    check_speaker("-ERR unknown command\r\n", "localhost speaks no TLS here");
    check_speaker("HTTP/1.1 400 Bad Request\r\n\r\n", "is this its port without TLS?");
    check_speaker("-", "speaks no TLS here");
    check_speaker("", "hung up during the TLS handshake: does it speak TLS on this port?");
    check_speaker("\x16\x03\x03\xff\xff", "TLS with localhost failed: packet length too long");
}

/* ---- Processes and threads -------------------------------------------------------------- */

static struct tls_link inherited;

static void use_what_was_inherited(void *arg)
{
    size_t n;
    char byte;
    CHECK_INT(snib__stream_write(inherited.stream, "child", 5, &n), ==, SNIB__STREAM_FAILED);
    CHECK_INT(snib__stream_read(inherited.stream, &byte, 1, &n), ==, SNIB__STREAM_FAILED);
    CHECK_INT(snib__stream_start(inherited.stream), ==, SNIB__STREAM_FAILED);
    CHECK_INT(snib__stream_finish(inherited.stream), ==, SNIB__STREAM_FAILED);
    check_has(snib__stream_why(inherited.stream), "belongs to the process that forked this one");
    leave(&inherited, arg);
}

TEST(a_forked_child_frees_its_copy_and_sends_nothing)
{
    for (int v = 0; v < 2; v++) {
        struct server server;
        struct proxy proxy;
        tls_serve(&server, "good.pem", (const char *const[]){VERSIONS[v], NULL});
        proxy_start(&proxy, server.port);
        struct snib__tls *tls = tls_context();
        inherited = tls_join(proxy.port, tls, "localhost");
        tls_say(&inherited, "before");
        tls_hear(&inherited, "before");
        uint64_t before = proxy_counts(&proxy).from_client;
        check_join(check_spawn(use_what_was_inherited, tls), LONG_MS);
        CHECK_INT(proxy_counts(&proxy).from_client, ==, before);
        tls_say(&inherited, "after");
        tls_hear(&inherited, "after");
        leave(&inherited, tls);
        proxy_stop(&proxy);
    }
}

static void *converse(void *arg)
{
    const struct server *server = arg;
    for (int i = 0; i < 5; i++) {
        struct snib__tls *tls = tls_context();
        struct tls_link link = tls_join(server->port, tls, "localhost");
        exchange(&link, 100000, 5000);
        leave(&link, tls);
    }
    return NULL;
}

TEST(several_clients_of_one_process_use_tls_at_once)
{
    struct server server;
    pthread_t threads[4];
    tls_serve(&server, "good.pem", NULL); /* which also makes the files, before there are threads */
    for (int i = 0; i < 4; i++) {
        CHECK_INT(pthread_create(&threads[i], NULL, converse, &server), ==, 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
}

TEST(a_program_that_exits_in_the_middle_ends_in_peace)
{
    struct server server;
    pthread_t threads[4];
    tls_serve(&server, "good.pem", NULL);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(pthread_create(&threads[i], NULL, converse, &server), ==, 0);
        CHECK_INT(pthread_detach(threads[i]), ==, 0);
    }
    check_sleep_ms(20);
    exit(0);
}
