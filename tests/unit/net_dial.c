/*
 * Connecting without blocking: by address, by name, to a Unix socket, and to those that do not
 * answer, or not yet.
 */
#include "echo.h"
#include "net/dial.h"
#include "net/lookup.h"
#include "port.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LONG_MS = 10000, LIMIT_MS = 3000 };

/* Steps until it is no longer GOING or the time is over. Counts the steps. */
static int steps;
static enum snib__dialled dial(struct snib__dial *d, int *fd, int timeout_ms)
{
    int64_t until_ns = check_now_ns() + timeout_ms * 1000000LL;
    enum snib__dialled now;
    for (steps = 1; (now = snib__dial_step(d, fd)) == SNIB__DIAL_GOING; steps++) {
        struct pollfd p = snib__dial_poll(d);
        int64_t left_ms = (until_ns - check_now_ns()) / 1000000;
        if (left_ms <= 0) {
            break;
        }
        poll(&p, 1, (int)left_ms);
    }
    return now;
}

static int tcp_option(int fd, int option)
{
    int value = 0;
    socklen_t size = sizeof value;
    CHECK(getsockopt(fd, IPPROTO_TCP, option, &value, &size) == 0);
    return value;
}

static void check_connected(int fd)
{
    char bytes[8] = "";
    CHECK_INT(fcntl(fd, F_GETFL) & O_NONBLOCK, ==, O_NONBLOCK);
    CHECK_INT(fcntl(fd, F_GETFD) & FD_CLOEXEC, ==, FD_CLOEXEC);
    CHECK_INT(send(fd, "hello", 5, MSG_NOSIGNAL), ==, 5);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    CHECK_INT(poll(&p, 1, check_ms(LONG_MS)), ==, 1);
    CHECK_INT(recv(fd, bytes, sizeof bytes, 0), ==, 5);
    CHECK_STR(bytes, "hello");
}

/* ---- TCP -------------------------------------------------------------------------------- */

TEST(an_address_is_reached)
{
    struct echo *echo = echo_start();
    struct snib__dial d;
    int fd = -1;
    snib__dial_tcp(&d, "127.0.0.1", echo->port, LIMIT_MS);
    CHECK(!d.lookup);
    CHECK_INT(dial(&d, &fd, check_ms(LONG_MS)), ==, SNIB__DIAL_DONE);
    snib__dial_end(&d);
    check_connected(fd);
    CHECK_INT(tcp_option(fd, TCP_NODELAY), ==, 1);
    CHECK_INT(tcp_option(fd, TCP_USER_TIMEOUT), ==, LIMIT_MS);
    close(fd);
}

TEST(a_name_is_looked_up_and_its_addresses_are_tried)
{
    struct echo *echo = echo_start(); /* on 127.0.0.1; a localhost that is ::1 first is refused */
    struct snib__dial d;
    int fd = -1;
    snib__dial_tcp(&d, "localhost", echo->port, LIMIT_MS);
    CHECK(d.lookup);
    CHECK_INT(dial(&d, &fd, check_ms(LONG_MS)), ==, SNIB__DIAL_DONE);
    snib__dial_end(&d);
    check_connected(fd);
    close(fd);
}

TEST(a_port_where_nobody_listens_is_a_failure_with_its_cause)
{
    struct snib__dial d;
    int fd = -1;
    snib__dial_tcp(&d, "127.0.0.1", port_claim(), LIMIT_MS);
    CHECK_INT(dial(&d, &fd, check_ms(LONG_MS)), ==, SNIB__DIAL_FAILED);
    CHECK_INT(fd, ==, -1);
    CHECK_INT(d.sys, ==, ECONNREFUSED);
    CHECK_STR(d.why, "connect: Connection refused");
    snib__dial_end(&d);
    snib__dial_end(&d);
}

TEST(a_name_that_is_none_is_a_failure)
{
    struct snib__dial d;
    int fd = -1;
    snib__dial_tcp(&d, "no such host.invalid", 1, LIMIT_MS);
    CHECK_INT(dial(&d, &fd, check_ms(LONG_MS)), ==, SNIB__DIAL_FAILED);
    CHECK(d.why[0]);
    snib__dial_end(&d);
}

TEST(a_look_up_can_be_left_before_it_is_done)
{
    int before = check_fd_count();
    for (int i = 0; i < 20; i++) {
        struct snib__dial d;
        snib__dial_tcp(&d, "localhost", 1, LIMIT_MS);
        snib__dial_end(&d);
    }
    int64_t until_ns = check_now_ns() + check_ms(LONG_MS) * 1000000LL;
    while (check_fd_count() > before) { /* the threads close what they were left with */
        CHECK_INT(check_now_ns(), <, until_ns);
        check_sleep_ms(1);
    }
}

/* ---- Unix sockets ----------------------------------------------------------------------- */

static struct sockaddr_un place;

/* A socket with room for one who waits, and that room taken: the next is told EAGAIN. */
static int full_house(int guests[], size_t room, size_t *count)
{
    place = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(place.sun_path, sizeof place.sun_path, "%s/door", check_tmpdir());
    int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(door, (struct sockaddr *)&place, sizeof place) == 0);
    CHECK(listen(door, 0) == 0);
    for (*count = 0; *count < room; ++*count) {
        guests[*count] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connect(guests[*count], (struct sockaddr *)&place, sizeof place) != 0) {
            CHECK_INT(errno, ==, EAGAIN);
            close(guests[*count]);
            return door;
        }
    }
    FAIL("%zu connections, and still room", room);
}

static void let_all_in(int door, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int fd = accept(door, NULL, NULL);
        CHECK(fd >= 0);
        close(fd);
    }
}

TEST(a_full_unix_socket_is_tried_again_until_there_is_room)
{
    int guests[8];
    size_t count;
    struct snib__dial d;
    int fd = -1;
    int door = full_house(guests, 8, &count);
    snib__dial_unix(&d, place.sun_path);
    CHECK_INT(dial(&d, &fd, 200), ==, SNIB__DIAL_GOING);
    CHECK_INT(steps, >, 3);
    CHECK_INT(steps, <, 30); /* with pauses, not in a hot loop */
    let_all_in(door, count);
    CHECK_INT(dial(&d, &fd, check_ms(LONG_MS)), ==, SNIB__DIAL_DONE);
    snib__dial_end(&d);
    CHECK_INT(fcntl(fd, F_GETFL) & O_NONBLOCK, ==, O_NONBLOCK);
    close(fd);
}

TEST(the_caller_ends_the_wait_at_a_full_unix_socket)
{
    int guests[8];
    size_t count;
    struct snib__dial d;
    full_house(guests, 8, &count);
    int before = check_fd_count();
    snib__dial_unix(&d, place.sun_path);
    CHECK_INT(check_fd_count(), >, before);
    snib__dial_end(&d);
    snib__dial_end(&d);
    CHECK_INT(check_fd_count(), ==, before);
}

TEST(a_full_unix_socket_that_goes_away_is_a_failure)
{
    int guests[8];
    size_t count;
    struct snib__dial d;
    int fd = -1;
    int door = full_house(guests, 8, &count);
    snib__dial_unix(&d, place.sun_path);
    CHECK_INT(dial(&d, &fd, 20), ==, SNIB__DIAL_GOING);
    close(door);
    CHECK_INT(dial(&d, &fd, check_ms(LONG_MS)), ==, SNIB__DIAL_FAILED);
    CHECK_INT(d.sys, ==, ECONNREFUSED);
    snib__dial_end(&d);
}

TEST(a_unix_socket_that_is_not_there_is_a_failure_with_its_cause)
{
    struct snib__dial d;
    int fd = -1;
    char path[200];
    snprintf(path, sizeof path, "%s/none", check_tmpdir());
    snib__dial_unix(&d, path);
    CHECK_INT(dial(&d, &fd, check_ms(LONG_MS)), ==, SNIB__DIAL_FAILED);
    CHECK_INT(d.sys, ==, ENOENT);
    snib__dial_end(&d);
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    snib__dial_unix(&d, path);
    CHECK_INT(dial(&d, &fd, check_ms(LONG_MS)), ==, SNIB__DIAL_FAILED);
    CHECK_INT(d.sys, ==, ENAMETOOLONG);
    snib__dial_end(&d);
}
