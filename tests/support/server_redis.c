/*
 * A Redis server for a test: one port, one Unix socket, no persistence, ready when it answers PING
 * with PONG (a server that loads or waits for a cluster answers otherwise).
 */
#include "server.h"

#include "port.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static bool answers_ping(struct server *server, void *arg)
{
    (void)arg;
    static const char ping[] = "PING\r\n";
    char answer[64] = "";
    int descriptor = port_connect(server->port);
    if (descriptor < 0) {
        return false;
    }
    struct pollfd readable = {.fd = descriptor, .events = POLLIN};
    bool answered = send(descriptor, ping, sizeof ping - 1, MSG_NOSIGNAL) > 0 &&
                    poll(&readable, 1, 1000) == 1 &&
                    recv(descriptor, answer, sizeof answer - 1, 0) > 0;
    close(descriptor);
    /* Anything but "loading" will do: a server that asks for a password is ready, too. */
    return answered && strncmp(answer, "-LOADING", 8) != 0;
}

void server_redis_prepare(struct server *server, const char *const extra[])
{
    static const char *const plain[] = {
        "--port",       "@PORT@", "--bind", "127.0.0.1", "--save",       "",
        "--appendonly", "no",     "--dir",  "@FOLDER@",  "--unixsocket", "@FOLDER@/redis.sock",
        "--daemonize",  "no",     NULL,
    };
    server_program(server, "redis-server", "redis-server");
    for (int i = 0; plain[i] != NULL; i++) {
        server_argument(server, "%s", plain[i]);
    }
    for (int i = 0; extra != NULL && extra[i] != NULL; i++) {
        server_argument(server, "%s", extra[i]);
    }
    server_ready_when(server, answers_ping, NULL);
}

void server_redis(struct server *server, const char *const extra[])
{
    static _Atomic int count;
    char name[32];
    snprintf(name, sizeof name, "redis%d", atomic_fetch_add(&count, 1));
    server_init(server, name);
    server_redis_prepare(server, extra);
    server_start(server);
}
