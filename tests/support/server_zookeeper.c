/*
 * ZooKeeper servers: a Java program with a file of settings, written anew at each start because
 * ports may change.
 *
 * Started for one case they cost about 0.6 s each, so a suite of many cases shares one. Readiness
 * is asked for by `srvr`, which a server answers with its mode once it serves.
 */
#include "server_zookeeper.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define JAR "/usr/share/java/zookeeper.jar"
#define NETTY "/usr/share/java/netty-codec.jar" /* for TLS; Debian's jar does not name it */

/* One alone may serve all cases of a suite, with tens of thousands of nodes. */
enum { HEAP_ALONE_MB = 160, HEAP_MEMBER_MB = 64 };

static const char settings[] = "tickTime=%d\\n"
                               "dataDir=@FOLDER@/data\\n"
                               "clientPort=@PORT@\\n"
                               "clientPortAddress=127.0.0.1\\n"
                               "maxClientCnxns=0\\n"
                               "maxSessionTimeout=120000\\n"
                               "admin.enableServer=false\\n"
                               "4lw.commands.whitelist=*\\n";

/* ---- Asking ----------------------------------------------------------------------------- */

static int connect_to(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval limit = {.tv_sec = 2};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

const char *server_zookeeper_mode(const struct server *server, char out[32])
{
    char text[4096];
    size_t used = 0;
    ssize_t n = -1;
    int fd = connect_to(server->port);
    out[0] = '\0';
    if (fd >= 0 && send(fd, "srvr", 4, MSG_NOSIGNAL) == 4) {
        while (used < sizeof text - 1 &&
               (n = recv(fd, text + used, sizeof text - 1 - used, 0)) > 0) {
            used += (size_t)n;
        }
        text[used] = '\0';
        const char *mode = strstr(text, "Mode: ");
        if (mode != NULL) {
            sscanf(mode + 6, "%31[a-z]", out);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return out;
}

static bool serves(struct server *server, void *arg)
{
    char mode[32];
    (void)arg;
    return server_zookeeper_mode(server, mode)[0] != '\0';
}

/* An ensemble serves when a quorum of it runs: each member alone never does. */
static bool listens(struct server *server, void *arg)
{
    int fd = connect_to(server->port);
    (void)arg;
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

/* ---- Starting --------------------------------------------------------------------------- */

/* The settings, behind them `more`, and the program: all by a shell that becomes it. */
static void prepare(struct server *server, int heap_mb, const char *more)
{
    char text[2048];
    if (access(JAR, R_OK) != 0 || access("/usr/bin/java", X_OK) != 0) {
        SKIP("no %s, or no java: install zookeeper and default-jre-headless", JAR);
    }
    snprintf(text, sizeof text, settings, ZOOKEEPER_TICK_MS);
    server_program(server, "sh", "dash");
    server_argument(server, "-c");
    server_argument(server,
                    "mkdir -p data && printf '%s%s\\n' >zoo.cfg && "
                    "{ [ -z \"$MYID\" ] || echo $MYID >data/myid; } && "
                    "exec java -Xmx%dm -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
                    "-Dzookeeper.fastleader.maxNotificationInterval=2000 "
                    "-Dzookeeper.forceSync=no -Dlogback.configurationFile=none -cp " JAR ":" NETTY
                    " org.apache.zookeeper.server.quorum.QuorumPeerMain zoo.cfg",
                    text, more, heap_mb);
}

void server_zookeeper(struct server *server, const char *extra)
{
    static _Atomic int count;
    char name[32];
    snprintf(name, sizeof name, "zookeeper%d", atomic_fetch_add(&count, 1));
    server_init(server, name);
    server_zookeeper_at(server, extra);
}

void server_zookeeper_at(struct server *server, const char *extra)
{
    prepare(server, HEAP_ALONE_MB, extra != NULL ? extra : "");
    server_ready_when(server, serves, NULL);
    server_start(server);
}

/* ---- Ensembles -------------------------------------------------------------------------- */

void server_zookeeper_ensemble_init(struct server members[ZOOKEEPER_MEMBERS])
{
    for (int i = 0; i < ZOOKEEPER_MEMBERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "member%d", i);
        server_init(&members[i], name);
    }
}

void server_zookeeper_ensemble_start(struct server members[ZOOKEEPER_MEMBERS],
                                     const struct zookeeper_routes *routes, const char *extra)
{
    for (int from = 0; from < ZOOKEEPER_MEMBERS; from++) {
        char more[1024];
        int used = snprintf(more, sizeof more, "initLimit=50\\nsyncLimit=50\\n%s",
                            extra != NULL ? extra : "");
        for (int to = 0; to < ZOOKEEPER_MEMBERS; to++) {
            int route = routes != NULL ? routes->ports[from][to] : 0;
            used += snprintf(
                more + used, sizeof more - (size_t)used, "server.%d=127.0.0.1:%d:%d\\n", to + 1,
                route != 0 && from != to ? route : members[to].ports[1], members[to].ports[2]);
        }
        prepare(&members[from], HEAP_MEMBER_MB, more);
        server_variable(&members[from], "MYID=%d", from + 1);
        server_ready_when(&members[from], listens, NULL);
        server_start(&members[from]);
    }
    (void)server_zookeeper_leader(members);
}

static bool count_modes(struct server members[ZOOKEEPER_MEMBERS], int *leader)
{
    int running = 0, serving = 0;
    *leader = -1;
    for (int i = 0; i < ZOOKEEPER_MEMBERS; i++) {
        char mode[32];
        if (members[i].pid == 0) {
            continue;
        }
        running++;
        server_zookeeper_mode(&members[i], mode);
        serving += mode[0] != '\0';
        if (strcmp(mode, "leader") == 0) {
            *leader = i;
        }
    }
    return *leader >= 0 && serving == running;
}

int server_zookeeper_leader(struct server members[ZOOKEEPER_MEMBERS])
{
    int64_t start = check_now_ns();
    int leader = -1;
    while (!count_modes(members, &leader)) {
        if ((check_now_ns() - start) / 1000000 > check_ms(45000)) {
            FAIL("no member of the ensemble leads");
        }
        check_sleep_ms(50);
    }
    return leader;
}
