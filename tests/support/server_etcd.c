/*
 * etcd for the tests: one member, or several of one cluster.
 *
 * Data is below the case's folder. A member is ready when it says that it is healthy, which takes a
 * leader. The election time-out of a lonely member is short, so that it is there at once, and so
 * that a ttl of one second may be had: the smallest is one and a half times that.
 */
#include "port.h"
#include "server_etcd.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_healthy(struct server *server, void *arg)
{
    static const char get[] = "GET /health HTTP/1.0\r\n\r\n";
    char answer[1024] = "";
    int descriptor = port_connect(server->ports[2]);
    (void)arg;
    if (descriptor < 0) {
        return false;
    }
    size_t used = 0;
    struct pollfd readable = {.fd = descriptor, .events = POLLIN};
    ssize_t got = send(descriptor, get, sizeof get - 1, MSG_NOSIGNAL);
    while (got > 0 && used + 1 < sizeof answer && poll(&readable, 1, 1000) == 1) {
        got = recv(descriptor, answer + used, sizeof answer - 1 - used, 0);
        used += got > 0 ? (size_t)got : 0;
    }
    close(descriptor);
    return strstr(answer, "\"true\"") != NULL;
}

static void prepare(struct server *server, const char *cluster, const char *const extra[])
{
    static const char *const plain[] = {
        "--data-dir=@FOLDER@/data",
        "--listen-client-urls=http://127.0.0.1:@PORT0@",
        "--advertise-client-urls=http://127.0.0.1:@PORT0@",
        "--listen-peer-urls=http://127.0.0.1:@PORT1@",
        "--initial-advertise-peer-urls=http://127.0.0.1:@PORT1@",
        "--listen-metrics-urls=http://127.0.0.1:@PORT2@",
        "--log-level=error",
        NULL,
    };
    const char *program = getenv("SNIB_TEST_ETCD");
    server_program(server, program != NULL ? program : "etcd", "etcd-server");
    server_argument(server, "--name=%s", server->name);
    server_argument(server, "--initial-cluster=%s", cluster);
    for (int i = 0; plain[i] != NULL; i++) {
        server_argument(server, "%s", plain[i]);
    }
    for (int i = 0; extra != NULL && extra[i] != NULL; i++) {
        server_argument(server, "%s", extra[i]);
    }
    server_variable(server, "GOMAXPROCS=2");
}

void server_etcd(struct server *server, const char *const extra[])
{
    static _Atomic int count;
    char name[32];
    snprintf(name, sizeof name, "etcd%d", atomic_fetch_add(&count, 1));
    server_init(server, name);
    char cluster[96];
    snprintf(cluster, sizeof cluster, "%s=http://127.0.0.1:@PORT1@", name);
    prepare(server, cluster, extra);
    server_argument(server, "--heartbeat-interval=10");
    server_argument(server, "--election-timeout=100");
    server_ready_when(server, is_healthy, NULL);
    server_start(server);
}

static bool is_up(void *arg)
{
    return is_healthy(arg, NULL);
}

void server_etcd_cluster_init(struct server members[], int count)
{
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "member%d", i);
        server_init(&members[i], name);
    }
}

void server_etcd_cluster_start(struct server members[], int count, const int peers[],
                               const char *const extra[])
{
    char cluster[512] = "";
    for (int i = 0; i < count; i++) {
        size_t used = strlen(cluster);
        snprintf(cluster + used, sizeof cluster - used, "%s%s=http://127.0.0.1:%d", i ? "," : "",
                 members[i].name, peers != NULL ? peers[i] : members[i].ports[1]);
    }
    for (int i = 0; i < count; i++) {
        prepare(&members[i], cluster, extra);
        if (peers != NULL) {
            server_argument(&members[i], "--initial-advertise-peer-urls=http://127.0.0.1:%d",
                            peers[i]);
        }
        server_start(&members[i]); /* listens; it has no leader before the others are there */
    }
    for (int i = 0; i < count; i++) {
        if (!check_until(is_up, &members[i], 30000)) {
            FAIL("%s has no leader", members[i].name);
        }
    }
}

void server_etcd_cluster(struct server members[], int count, const char *const extra[])
{
    server_etcd_cluster_init(members, count);
    server_etcd_cluster_start(members, count, NULL, extra);
}
