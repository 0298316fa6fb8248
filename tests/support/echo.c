/*
 * The echo server: one process, one poll(2), blocking writes. A client that does not read stops
 * it for all others, which no test minds.
 */
#include "echo.h"

#include "port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 64 };

struct serving {
    struct echo *echo;
    int listener;
};

static int listen_on(int port)
{
    int one = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, CLIENTS) != 0) {
        FAIL("cannot listen on port %d: %s", port, strerror(errno));
    }
    return listener;
}

/* False when the client is gone. */
static bool echo_once(struct echo *echo, int client)
{
    char bytes[65536];
    ssize_t got = recv(client, bytes, sizeof bytes, 0);
    if (got <= 0) {
        atomic_fetch_add(got == 0 ? &echo->ends : &echo->resets, 1);
        return false;
    }
    atomic_store(&echo->last_ns, check_now_ns());
    atomic_fetch_add(&echo->bytes, (uint64_t)got);
    for (ssize_t sent = 0; sent < got;) {
        ssize_t part = send(client, bytes + sent, (size_t)(got - sent), MSG_NOSIGNAL);
        if (part < 0) {
            atomic_fetch_add(&echo->resets, 1);
            return false;
        }
        sent += part;
    }
    return true;
}

static void accept_one(struct echo *echo, struct pollfd *list)
{
    for (int i = 1; i <= CLIENTS; i++) {
        if (list[i].fd < 0) {
            list[i].fd = accept(list[0].fd, NULL, NULL);
            list[i].revents = 0;
            atomic_fetch_add(&echo->accepted, 1);
            return;
        }
    }
}

static void serve(void *arg)
{
    const struct serving *serving = arg;
    struct pollfd list[1 + CLIENTS];
    list[0] = (struct pollfd){.fd = serving->listener, .events = POLLIN};
    for (int i = 1; i <= CLIENTS; i++) {
        list[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    }
    while (poll(list, 1 + CLIENTS, -1) > 0) {
        for (int i = 1; i <= CLIENTS; i++) {
            if (list[i].fd >= 0 && list[i].revents != 0 && !echo_once(serving->echo, list[i].fd)) {
                close(list[i].fd);
                list[i].fd = -1;
            }
        }
        if (list[0].revents != 0) {
            accept_one(serving->echo, list);
        }
    }
}

struct echo *echo_start(void)
{
    struct serving serving = {.echo = check_shared(sizeof *serving.echo)};
    serving.echo->port = port_claim();
    serving.listener = listen_on(serving.echo->port);
    serving.echo->pid = check_spawn(serve, &serving);
    check_manage(serving.echo->pid);
    close(serving.listener);
    return serving.echo;
}
