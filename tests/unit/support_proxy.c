/*
 * Every fault of the proxy, on real sockets, against a server that echoes.
 *
 * "Nothing arrives" is shown by waiting a moment: a loaded machine can make such a check pass
 * wrongly, never fail wrongly. Everything else waits for what must happen.
 */
#include "echo.h"
#include "port.h"
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOMENT_MS = 50, LONG_MS = 10000 };

static struct echo *echo;

static void start_echo(struct proxy *proxy)
{
    echo = echo_start();
    proxy_start(proxy, echo->port);
}

/* ---- The client ------------------------------------------------------------------------- */

static int join_server(struct proxy *proxy)
{
    int one = 1;
    int client = port_connect(proxy->port);
    if (client < 0) {
        FAIL("connect: %s", strerror(errno));
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return client;
}

static bool is_readable(int client, int timeout_ms)
{
    struct pollfd readable = {.fd = client, .events = POLLIN};
    return poll(&readable, 1, timeout_ms) == 1;
}

static void say(int client, const char *text)
{
    CHECK_INT(send(client, text, strlen(text), MSG_NOSIGNAL), ==, strlen(text));
}

static void hear(int client, const char *text)
{
    char bytes[4096] = "";
    size_t used = 0;
    while (used < strlen(text)) {
        CHECK(is_readable(client, check_ms(LONG_MS)));
        ssize_t got = recv(client, bytes + used, strlen(text) - used, 0);
        if (got <= 0) {
            FAIL("\"%s\", then %s", bytes, got == 0 ? "the end" : strerror(errno));
        }
        used += (size_t)got;
    }
    CHECK_STR(bytes, text);
}

static void hear_nothing(int client)
{
    CHECK(!is_readable(client, MOMENT_MS));
}

static void hear_end(int client)
{
    char byte;
    CHECK(is_readable(client, check_ms(LONG_MS)));
    CHECK_INT(recv(client, &byte, 1, 0), ==, 0);
}

static void hear_reset(int client)
{
    char byte;
    CHECK(is_readable(client, check_ms(LONG_MS)));
    CHECK_INT(recv(client, &byte, 1, 0), ==, -1);
    CHECK_INT(errno, ==, ECONNRESET);
}

struct at_least {
    _Atomic uint64_t *counter;
    uint64_t value;
};

static bool has_reached(void *arg)
{
    struct at_least *wanted = arg;
    return atomic_load(wanted->counter) >= wanted->value;
}

static void await(_Atomic uint64_t *counter, uint64_t value)
{
    struct at_least wanted = {counter, value};
    if (!check_until(has_reached, &wanted, LONG_MS)) {
        FAIL("the server has %llu instead of %llu", (unsigned long long)atomic_load(counter),
             (unsigned long long)value);
    }
}

/* A connection that works. */
static int talk(struct proxy *proxy)
{
    int client = join_server(proxy);
    say(client, "hello");
    hear(client, "hello");
    return client;
}

/* ---- No fault --------------------------------------------------------------------------- */

TEST(bytes_pass_and_are_counted)
{
    struct proxy proxy;
    start_echo(&proxy);
    int clients[10];
    for (int i = 0; i < 10; i++) {
        clients[i] = talk(&proxy);
    }
    struct proxy_counts counts = proxy_counts(&proxy);
    CHECK_UINT(counts.accepted, ==, 10);
    CHECK_UINT(counts.open, ==, 10);
    CHECK_UINT(counts.from_client, ==, 50);
    CHECK_UINT(counts.to_server, ==, 50);
    CHECK_UINT(counts.from_server, ==, 50);
    CHECK_UINT(counts.to_client, ==, 50);
    for (int i = 0; i < 10; i++) {
        close(clients[i]);
    }
    await(&echo->ends, 10);
    proxy_stop(&proxy);
    CHECK_INT(port_connect(proxy.port), ==, -1);
}

static unsigned char pattern(size_t place)
{
    return (unsigned char)(place * 31 + place / 251);
}

static size_t send_pattern(int client, size_t done, size_t all)
{
    unsigned char bytes[8192];
    size_t count = all - done < sizeof bytes ? all - done : sizeof bytes;
    for (size_t i = 0; i < count; i++) {
        bytes[i] = pattern(done + i);
    }
    ssize_t sent = send(client, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    CHECK(sent >= 0 || errno == EAGAIN);
    return done + (sent > 0 ? (size_t)sent : 0);
}

static size_t check_pattern(int client, size_t done)
{
    unsigned char bytes[8192];
    ssize_t got = recv(client, bytes, sizeof bytes, MSG_DONTWAIT);
    CHECK(got > 0 || (got < 0 && errno == EAGAIN));
    for (ssize_t i = 0; i < got; i++) {
        if (bytes[i] != pattern(done + (size_t)i)) {
            FAIL("byte %zu is wrong", done + (size_t)i);
        }
    }
    return done + (got > 0 ? (size_t)got : 0);
}

TEST_LIMIT(many_bytes_survive_stalls_and_delays, 60)
{
    enum { ALL = 3000000 };
    struct proxy proxy;
    start_echo(&proxy);
    int client = join_server(&proxy);
    size_t sent = 0;
    size_t heard = 0;
    for (int turn = 0; heard < ALL; turn++) {
        struct pollfd ready = {.fd = client, .events = POLLIN};
        ready.events |= sent < ALL ? POLLOUT : 0;
        if (turn % 50 == 10) {
            proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_STALL, 0);
        } else if (turn % 50 == 20) {
            proxy_set(&proxy, PROXY_BOTH, PROXY_DELAY, 1);
        } else if (turn % 50 == 30) {
            proxy_heal(&proxy);
        }
        poll(&ready, 1, 5);
        sent = sent < ALL ? send_pattern(client, sent, ALL) : sent;
        heard = check_pattern(client, heard);
    }
    CHECK_UINT(heard, ==, ALL);
    close(client);
}

TEST(the_end_of_a_stream_is_passed_on)
{
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);
    CHECK_INT(shutdown(client, SHUT_WR), ==, 0);
    await(&echo->ends, 1);
    hear_end(client);
    close(client);
}

/* ---- Faults that last ------------------------------------------------------------------- */

TEST(a_stall_to_the_server_holds_the_request)
{
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);
    proxy_set(&proxy, PROXY_TO_SERVER, PROXY_STALL, 0);
    say(client, "request");
    hear_nothing(client);
    CHECK_UINT(atomic_load(&echo->bytes), ==, 5);
    proxy_heal(&proxy);
    hear(client, "request");
    close(client);
}

TEST(a_stall_to_the_client_holds_the_reply)
{
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_STALL, 0);
    say(client, "request");
    await(&echo->bytes, 12);
    hear_nothing(client);
    proxy_heal(&proxy);
    hear(client, "request");
    close(client);
}

TEST(a_swallowed_reply_never_comes)
{
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_SWALLOW, 0);
    say(client, "lost");
    await(&echo->bytes, 9);
    hear_nothing(client);
    proxy_heal(&proxy);
    say(client, "also lost, since TCP has no holes");
    await(&echo->bytes, 20);
    hear_nothing(client);
    close(talk(&proxy));
    proxy_cut(&proxy, PROXY_RESET);
    hear_reset(client);
    close(client);
}

static bool request_was_read(void *arg)
{
    return proxy_counts(arg).from_client == 9;
}

TEST(a_swallowed_request_never_arrives)
{
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);
    proxy_set(&proxy, PROXY_TO_SERVER, PROXY_SWALLOW, 0);
    say(client, "lost");
    CHECK(check_until(request_was_read, &proxy, LONG_MS));
    hear_nothing(client);
    CHECK_UINT(atomic_load(&echo->bytes), ==, 5);
    close(client);
}

TEST(a_dribble_passes_one_byte_at_a_time)
{
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_DRIBBLE, 10);
    int64_t start = check_now_ns();
    say(client, "0123456789");
    hear(client, "0123456789");
    CHECK_INT(check_now_ns() - start, >=, 9 * 10 * 1000000);
    close(client);
}

TEST(a_delay_is_one_way_and_keeps_the_order)
{
    enum { DELAY_MS = 80 };
    const int64_t delay_ns = (int64_t)DELAY_MS * 1000000;
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);

    proxy_set(&proxy, PROXY_TO_SERVER, PROXY_DELAY, DELAY_MS);
    int64_t start = check_now_ns();
    say(client, "there");
    hear(client, "there");
    CHECK_INT(atomic_load(&echo->last_ns) - start, >=, delay_ns);

    proxy_heal(&proxy);
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_DELAY, DELAY_MS);
    say(client, "back");
    hear(client, "back");
    CHECK_INT(check_now_ns() - atomic_load(&echo->last_ns), >=, delay_ns);

    say(client, "first ");
    await(&echo->bytes, 20);
    proxy_set(&proxy, PROXY_TO_CLIENT, PROXY_DELAY, 0);
    say(client, "second");
    hear(client, "first second");
    close(client);
}

/* ---- Doors ------------------------------------------------------------------------------ */

TEST(a_refusing_door_keeps_its_port)
{
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);
    for (int i = 0; i < 3; i++) {
        proxy_door(&proxy, PROXY_REFUSE);
        CHECK_INT(port_connect(proxy.port), ==, -1);
        CHECK_INT(errno, ==, ECONNREFUSED);
        say(client, "still there");
        hear(client, "still there");
        proxy_heal(&proxy);
        close(talk(&proxy));
    }
    close(client);
}

TEST(a_dark_door_accepts_and_says_nothing)
{
    struct proxy proxy;
    start_echo(&proxy);
    proxy_door(&proxy, PROXY_DARK);
    int client = join_server(&proxy);
    say(client, "anybody");
    hear_nothing(client);
    CHECK_UINT(atomic_load(&echo->accepted), ==, 0);
    proxy_heal(&proxy);
    close(talk(&proxy));
    hear_nothing(client);
    CHECK_UINT(atomic_load(&echo->accepted), ==, 1);
    close(client);
}

TEST(a_silent_door_lets_connect_hang)
{
    struct proxy proxy;
    start_echo(&proxy);
    proxy_door(&proxy, PROXY_SILENT);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)proxy.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK_INT(connect(client, (struct sockaddr *)&address, sizeof address), ==, -1);
    CHECK_INT(errno, ==, EINPROGRESS);
    struct pollfd connected = {.fd = client, .events = POLLOUT};
    CHECK_INT(poll(&connected, 1, 2 * MOMENT_MS), ==, 0);

    /* Open again: the kernel knocks once more after a second. */
    proxy_heal(&proxy);
    CHECK_INT(poll(&connected, 1, check_ms(LONG_MS)), ==, 1);
    say(client, "at last");
    hear(client, "at last");
    CHECK_UINT(atomic_load(&echo->accepted), ==, 1);
    CHECK_UINT(proxy_counts(&proxy).accepted, ==, 1);
    close(client);
}

TEST(a_server_that_is_down_resets_the_client)
{
    struct proxy proxy;
    start_echo(&proxy);
    proxy_target(&proxy, port_claim());
    hear_reset(join_server(&proxy));
    proxy_target(&proxy, echo->port);
    close(talk(&proxy));
}

/* ---- Faults that happen ----------------------------------------------------------------- */

TEST(a_reset_reaches_both_sides)
{
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);
    proxy_cut(&proxy, PROXY_RESET);
    hear_reset(client);
    await(&echo->resets, 1);
    CHECK_UINT(proxy_counts(&proxy).open, ==, 0);
    close(client);
}

TEST(a_close_is_orderly_even_with_unread_bytes)
{
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);
    proxy_set(&proxy, PROXY_BOTH, PROXY_STALL, 0);
    say(client, "never read");
    proxy_cut(&proxy, PROXY_CLOSE);
    hear_end(client);
    await(&echo->ends, 1);
    close(client);
}

TEST(a_half_open_connection_stays_silent_on_the_other_side)
{
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);
    proxy_half_open(&proxy, PROXY_SERVER_SIDE, PROXY_CLOSE);
    await(&echo->ends, 1);
    say(client, "anybody");
    hear_nothing(client);
    close(client);

    client = talk(&proxy);
    proxy_half_open(&proxy, PROXY_CLIENT_SIDE, PROXY_RESET);
    hear_reset(client);
    close(client);
    check_sleep_ms(MOMENT_MS);
    CHECK_UINT(atomic_load(&echo->ends), ==, 1);
    CHECK_UINT(atomic_load(&echo->resets), ==, 0);
    CHECK_UINT(proxy_counts(&proxy).open, ==, 1);
}

/* ---- Triggers --------------------------------------------------------------------------- */

TEST(a_reply_can_be_lost_after_the_server_acted)
{
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);
    proxy_after(&proxy, PROXY_TO_CLIENT, 0, PROXY_BYTES, PROXY_THEN_RESET);
    CHECK(proxy_counts(&proxy).armed);
    int other = join_server(&proxy);
    say(client, "act");
    proxy_await_fired(&proxy, LONG_MS);
    hear_reset(client);
    CHECK_UINT(atomic_load(&echo->bytes), ==, 8);
    say(other, "spared");
    hear(other, "spared");
    CHECK_UINT(proxy_counts(&proxy).fired, ==, 1);
    close(client);
    close(other);
}

TEST(a_reply_can_be_cut_in_the_middle)
{
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);
    proxy_after(&proxy, PROXY_TO_CLIENT, 4, PROXY_BYTES, PROXY_THEN_CLOSE);
    say(client, "12345678");
    hear(client, "1234");
    hear_end(client);
    close(client);
}

TEST(a_request_can_be_cut_in_the_middle)
{
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);
    proxy_after(&proxy, PROXY_TO_SERVER, 3, PROXY_BYTES, PROXY_THEN_STALL);
    say(client, "12345678");
    hear(client, "123");
    hear_nothing(client);
    proxy_heal(&proxy);
    hear(client, "45678");
    close(client);
}

TEST(turns_are_counted_per_request)
{
    struct proxy proxy;
    start_echo(&proxy);
    int client = talk(&proxy);
    proxy_after(&proxy, PROXY_TO_CLIENT, 2, PROXY_TURNS, PROXY_THEN_SWALLOW);
    say(client, "one");
    hear(client, "one");
    say(client, "two");
    hear(client, "two");
    say(client, "three");
    proxy_await_fired(&proxy, LONG_MS);
    await(&echo->bytes, 16);
    hear_nothing(client);
    close(client);
}

/* ---- Scripts ---------------------------------------------------------------------------- */

static const struct proxy_script script = {
    .seed = 42, .faults = PROXY_FAULT_ALL, .fault_ms = {1, 20}, .rest_ms = {1, 10}};

TEST(the_same_seed_gives_the_same_steps)
{
    enum { STEPS = 500 };
    static struct proxy_step first[STEPS];
    static struct proxy_step again[STEPS];
    struct proxy_script other = script;
    unsigned seen = 0;
    proxy_script_plan(&script, first, STEPS);
    proxy_script_plan(&script, again, STEPS);
    CHECK_INT(memcmp(first, again, sizeof first), ==, 0);
    for (int i = 0; i < STEPS; i++) {
        seen |= (unsigned)first[i].fault;
        CHECK(first[i].fault_ms >= 1 && first[i].fault_ms <= 20);
        CHECK(first[i].rest_ms >= 1 && first[i].rest_ms <= 10);
        CHECK(first[i].way >= PROXY_TO_SERVER && first[i].way <= PROXY_BOTH);
    }
    CHECK_INT(seen, ==, PROXY_FAULT_ALL);
    other.seed = 43;
    proxy_script_plan(&other, again, STEPS);
    CHECK_INT(memcmp(first, again, sizeof first), !=, 0);
    other.faults = PROXY_FAULT_DELAY;
    proxy_script_plan(&other, again, STEPS);
    for (int i = 0; i < STEPS; i++) {
        CHECK_INT(again[i].fault, ==, PROXY_FAULT_DELAY);
    }
}

/* One try on a connection of its own; every wait is short. */
static bool try_once(struct proxy *proxy)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)proxy->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char bytes[8];
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(client >= 0);
    struct pollfd connected = {.fd = client, .events = POLLOUT};
    bool worked = (connect(client, (struct sockaddr *)&address, sizeof address) == 0 ||
                   errno == EINPROGRESS) &&
                  poll(&connected, 1, 30) == 1 && send(client, "try", 3, MSG_NOSIGNAL) == 3 &&
                  is_readable(client, 30) && recv(client, bytes, sizeof bytes, 0) > 0;
    close(client);
    return worked;
}

TEST_LIMIT(a_script_disturbs_and_leaves_a_working_proxy, 60)
{
    struct proxy proxy;
    int failures = 0;
    int successes = 0;
    start_echo(&proxy);
    proxy_script(&proxy, &script);
    while (proxy_counts(&proxy).steps < 60 || failures == 0 || successes == 0) {
        if (try_once(&proxy)) {
            successes++;
        } else {
            failures++;
        }
    }
    proxy_heal(&proxy);
    proxy_cut(&proxy, PROXY_RESET);
    uint64_t steps = proxy_counts(&proxy).steps;
    for (int i = 0; i < 5; i++) {
        close(talk(&proxy));
    }
    CHECK_UINT(proxy_counts(&proxy).steps, ==, steps);
}
