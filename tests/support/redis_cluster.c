/*
 * A Redis Cluster for a test, put together by CLUSTER MEET, ADDSLOTSRANGE and REPLICATE: much
 * faster than by redis-cli, which waits in whole seconds.
 *
 * The bus has a port of its own choice, so that nobody depends on PORT + 10000 being free.
 */
#include "redis_cluster.h"

#include "port.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- Asking ----------------------------------------------------------------------------- */

/* One whole reply is there: its first line, and as many bytes as a bulk string says. Arrays are
 * asked for by nobody but MOVE_KEYS, whose few short items come at once. */
static bool is_whole(const char *reply, size_t got)
{
    const char *end = strstr(reply, "\r\n");
    if (end == NULL) {
        return false;
    }
    if (reply[0] == '$') {
        long size = strtol(reply + 1, NULL, 10);
        return size < 0 || got >= (size_t)(end - reply) + 4 + (size_t)size;
    }
    if (reply[0] == '*') {
        long items = strtol(reply + 1, NULL, 10), lines = 0;
        for (const char *at = end; at != NULL; at = strstr(at + 2, "\r\n")) {
            lines++;
        }
        return lines >= 1 + 2 * items;
    }
    return true;
}

bool redis_cluster_ask(const struct redis_cluster *cluster, int member, const char *command,
                       char *answer, size_t size)
{
    char request[1024], reply[16384];
    size_t got = 0;
    int descriptor = port_connect(cluster->members[member].port);
    if (descriptor < 0) {
        return false;
    }
    int length = snprintf(request, sizeof request, "%s\r\n", command);
    bool whole = false;
    if (send(descriptor, request, (size_t)length, MSG_NOSIGNAL) == length) {
        struct pollfd readable = {.fd = descriptor, .events = POLLIN};
        while (!whole && got < sizeof reply - 1 && poll(&readable, 1, 5000) == 1) {
            ssize_t n = recv(descriptor, reply + got, sizeof reply - 1 - got, 0);
            if (n <= 0) {
                break;
            }
            got += (size_t)n;
            reply[got] = '\0';
            whole = is_whole(reply, got);
        }
    }
    close(descriptor);
    if (!whole) {
        return false;
    }
    char *start = reply;
    if (reply[0] == '$') {
        start = strstr(reply, "\r\n") + 2;
    } else if (reply[0] != '-' && reply[0] != '*') {
        start = reply + 1;
    }
    if (reply[0] != '*' && reply[0] != '$') {
        *strstr(start, "\r\n") = '\0';
    }
    snprintf(answer, size, "%s", start);
    return true;
}

/* It must be answered, and not by an error. */
static void tell(const struct redis_cluster *cluster, int member, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void tell(const struct redis_cluster *cluster, int member, const char *format, ...)
{
    char command[512], answer[512] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (!redis_cluster_ask(cluster, member, command, answer, sizeof answer) || answer[0] == '-') {
        FAIL("%s at member %d: %s", command, member, answer);
    }
}

/* ---- Putting it together ---------------------------------------------------------------- */

static bool says(const struct redis_cluster *cluster, int member, const char *question,
                 const char *text)
{
    char answer[8192];
    return redis_cluster_ask(cluster, member, question, answer, sizeof answer) &&
           strstr(answer, text) != NULL;
}

static bool all_met(void *arg)
{
    for (int i = 0; i < CLUSTER_MEMBERS; i++) {
        char answer[8192];
        if (!redis_cluster_ask(arg, i, "CLUSTER NODES", answer, sizeof answer) ||
            strstr(answer, "handshake") != NULL || !says(arg, i, "CLUSTER INFO", "known_nodes:6")) {
            return false;
        }
    }
    return true;
}

/* Everybody knows of all replicas, and these have a copy. */
static bool all_served(void *arg)
{
    for (int i = 0; i < CLUSTER_MEMBERS; i++) {
        char answer[8192];
        int replicas = 0;
        if (!says(arg, i, "CLUSTER INFO", "cluster_state:ok") ||
            !redis_cluster_ask(arg, i, "CLUSTER NODES", answer, sizeof answer)) {
            return false;
        }
        for (const char *at = answer; (at = strstr(at, "slave ")) != NULL; at++) {
            replicas++;
        }
        if (replicas != CLUSTER_MEMBERS - CLUSTER_MASTERS ||
            (i >= CLUSTER_MASTERS && !says(arg, i, "INFO replication", "master_link_status:up"))) {
            return false;
        }
    }
    return true;
}

void redis_cluster_start(struct redis_cluster *cluster)
{
    static const char *const extra[] = {"--cluster-enabled",
                                        "yes",
                                        "--cluster-port",
                                        "@PORT1@",
                                        "--cluster-node-timeout",
                                        "1500",
                                        "--cluster-config-file",
                                        "nodes.conf",
                                        "--repl-diskless-sync-delay",
                                        "0",
                                        "--repl-ping-replica-period",
                                        "1",
                                        NULL};
    for (int i = 0; i < CLUSTER_MEMBERS; i++) {
        char name[24];
        snprintf(name, sizeof name, "member%d", i);
        server_init(&cluster->members[i], name);
        server_redis_prepare(&cluster->members[i], extra);
        if (cluster->prepare != NULL) {
            cluster->prepare(&cluster->members[i], i);
        }
        server_start(&cluster->members[i]);
        CHECK(
            redis_cluster_ask(cluster, i, "CLUSTER MYID", cluster->ids[i], sizeof cluster->ids[i]));
        cluster->ids[i][40] = '\0';
        tell(cluster, i, "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
    }
    for (int i = 1; i < CLUSTER_MEMBERS; i++) {
        tell(cluster, 0, "CLUSTER MEET 127.0.0.1 %d %d", cluster->members[i].port,
             cluster->members[i].ports[1]);
    }
    CHECK(check_until(all_met, cluster, 60000));
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        tell(cluster, i, "CLUSTER ADDSLOTSRANGE %d %d", i * CLUSTER_SLOTS / CLUSTER_MASTERS,
             (i + 1) * CLUSTER_SLOTS / CLUSTER_MASTERS - 1);
        tell(cluster, i + CLUSTER_MASTERS, "CLUSTER REPLICATE %s", cluster->ids[i]);
    }
    CHECK(check_until(all_served, cluster, 60000));
}

void redis_cluster_url(const struct redis_cluster *cluster, char *url, size_t size,
                       const char *parameters)
{
    size_t used = (size_t)snprintf(url, size, "redis+cluster://");
    for (int i = 0; i < CLUSTER_MEMBERS; i++) {
        used += (size_t)snprintf(url + used, size - used, "%s127.0.0.1:%d", i ? "," : "",
                                 cluster->members[i].port);
    }
    snprintf(url + used, size - used, "?quarantine=no%s%s", parameters[0] ? "&" : "", parameters);
}

/* ---- Slots ------------------------------------------------------------------------------ */

int redis_cluster_owner(const struct redis_cluster *cluster, int member, int slot)
{
    char answer[8192], *line, *rest = answer;
    if (!redis_cluster_ask(cluster, member, "CLUSTER NODES", answer, sizeof answer)) {
        return -1;
    }
    while ((line = strtok_r(rest, "\n", &rest)) != NULL) {
        char *word, *words = line;
        for (int number = 0; (word = strtok_r(words, " \r", &words)) != NULL; number++) {
            int first, last;
            int read = number < 8 ? 0 : sscanf(word, "%d-%d", &first, &last);
            if (read < 1 || slot < first || slot > (read == 2 ? last : first)) {
                continue;
            }
            for (int i = 0; i < CLUSTER_MEMBERS; i++) {
                if (strncmp(line, cluster->ids[i], 40) == 0) {
                    return i;
                }
            }
        }
    }
    return -1;
}

void redis_cluster_open_slot(const struct redis_cluster *cluster, int slot, int from, int to)
{
    tell(cluster, to, "CLUSTER SETSLOT %d IMPORTING %s", slot, cluster->ids[from]);
    tell(cluster, from, "CLUSTER SETSLOT %d MIGRATING %s", slot, cluster->ids[to]);
}

void redis_cluster_move_keys(const struct redis_cluster *cluster, int slot, int from, int to)
{
    for (;;) {
        char question[64], keys[4096], command[512];
        snprintf(question, sizeof question, "CLUSTER GETKEYSINSLOT %d 1", slot);
        CHECK(redis_cluster_ask(cluster, from, question, keys, sizeof keys));
        if (strncmp(keys, "*0", 2) == 0) {
            return;
        }
        char *key = strchr(strchr(keys, '$'), '\n') + 1;
        *strstr(key, "\r\n") = '\0';
        snprintf(command, sizeof command, "MIGRATE 127.0.0.1 %d %s 0 5000",
                 cluster->members[to].port, key);
        tell(cluster, from, "%s", command);
    }
}

void redis_cluster_close_slot(const struct redis_cluster *cluster, int slot, int to)
{
    tell(cluster, to, "CLUSTER SETSLOT %d NODE %s", slot, cluster->ids[to]); /* it first */
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        if (i != to) {
            tell(cluster, i, "CLUSTER SETSLOT %d NODE %s", slot, cluster->ids[to]);
        }
    }
}

void redis_cluster_move_slot(const struct redis_cluster *cluster, int slot, int from, int to)
{
    redis_cluster_open_slot(cluster, slot, from, to);
    redis_cluster_move_keys(cluster, slot, from, to);
    redis_cluster_close_slot(cluster, slot, to);
}
