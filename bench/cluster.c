/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Redis Cluster beside one server: 64 threads on 1,000 names, through one client.
 *
 * Three masters without replicas, and one server that is part of no cluster, take turns; the ratio
 * is taken within a round, and the median of the rounds is shown. All of them and we share the
 * processors as the scheduler likes: with fewer processors than servers, three masters cannot do
 * more than one.
 *
 * Not done: replicas, whose work would be measured with it; several client processes.
 */
#include "snib.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SERVERS = 4, ALONE = 3, THREADS = 64, NAMES = 1000, ROUNDS = 9, SPAN_MS = 1000 };

static pid_t servers[SERVERS];
static char folders[SERVERS][64];
static int first_port;

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench: %s failed\n", what);
        exit(1);
    }
}

static void stop_servers(void)
{
    for (int i = 0; i < SERVERS; i++) {
        char file[300];
        kill(servers[i], SIGKILL);
        waitpid(servers[i], NULL, 0);
        snprintf(file, sizeof file, "%s/nodes.conf", folders[i]);
        unlink(file);
        rmdir(folders[i]);
    }
}

static void start_server(int number)
{
    char port[12], bus[12];
    snprintf(port, sizeof port, "%d", first_port + number);
    snprintf(bus, sizeof bus, "%d", first_port + SERVERS + number);
    snprintf(folders[number], sizeof folders[0], "/tmp/snib-bench-XXXXXX");
    must(mkdtemp(folders[number]) != NULL, "mkdtemp");
    servers[number] = fork();
    if (servers[number] == 0) {
        must(freopen("/dev/null", "w", stdout) != NULL, "freopen");
        execlp("redis-server", "redis-server", "--port", port, "--save", "", "--bind", "127.0.0.1",
               "--dir", folders[number], "--cluster-enabled", number == ALONE ? "no" : "yes",
               "--cluster-port", bus, (char *)NULL);
        _exit(127);
    }
}

static void nap(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static redisContext *reach(int number)
{
    for (int i = 0; i < 500; i++) {
        redisContext *c = redisConnect("127.0.0.1", first_port + number);
        if (c && !c->err) {
            return c;
        }
        redisFree(c);
        nap(10);
    }
    must(0, "starting redis-server");
    return NULL;
}

static void join_masters(void)
{
    for (int i = 0; i < ALONE; i++) {
        redisContext *c = reach(i);
        freeReplyObject(redisCommand(c, "CLUSTER SET-CONFIG-EPOCH %d", i + 1));
        freeReplyObject(redisCommand(c, "CLUSTER ADDSLOTSRANGE %d %d", i * 16384 / ALONE,
                                     (i + 1) * 16384 / ALONE - 1));
        freeReplyObject(
            redisCommand(c, "CLUSTER MEET 127.0.0.1 %d %d", first_port, first_port + SERVERS));
        redisFree(c);
    }
    for (int i = 0; i < ALONE; i++) {
        redisContext *c = reach(i);
        int ok = 0;
        for (int trial = 0; !ok && trial < 1000; trial++) {
            redisReply *reply = redisCommand(c, "CLUSTER INFO");
            ok = reply && strstr(reply->str, "cluster_state:ok") &&
                 strstr(reply->str, "cluster_known_nodes:3");
            freeReplyObject(reply);
            nap(ok ? 0 : 10);
        }
        must(ok, "joining the masters");
        redisFree(c);
    }
}

/* ---- The load --------------------------------------------------------------------------- */

static atomic_long pairs;
static atomic_int over;

static void *work(void *arg)
{
    snib *client = arg;
    static atomic_uint seeds;
    unsigned at = atomic_fetch_add(&seeds, 1) * 7919;
    while (!atomic_load(&over)) {
        char name[24];
        snib_lease *lease = NULL;
        snprintf(name, sizeof name, "name-%u", (at += 617) % NAMES);
        must(snib_acquire(&lease, client, name, NULL, NULL) == SNIB_OK, "acquire");
        must(snib_release(&lease, NULL) == SNIB_OK, "release");
        atomic_fetch_add(&pairs, 1);
    }
    return NULL;
}

static double pairs_per_s(snib *client)
{
    pthread_t threads[THREADS];
    struct timespec from, to;
    atomic_store(&over, 0);
    atomic_store(&pairs, 0);
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < THREADS; i++) {
        must(pthread_create(&threads[i], NULL, work, client) == 0, "pthread_create");
    }
    nap(SPAN_MS);
    atomic_store(&over, 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (double)atomic_load(&pairs) /
           ((double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof values[0], by_size);
    return values[ROUNDS / 2];
}

int main(void)
{
    char url[200];
    double three[ROUNDS] = {0}, one[ROUNDS] = {0}, ratios[ROUNDS] = {0};
    snib *cluster, *alone;
    first_port = 20000 + (int)getpid() % 10000;
    for (int i = 0; i < SERVERS; i++) {
        start_server(i);
    }
    atexit(stop_servers);
    join_masters();
    redisFree(reach(ALONE));
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d?quarantine=no", first_port);
    must(snib_open(&cluster, url, NULL) == SNIB_OK, "open");
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?quarantine=no", first_port + ALONE);
    must(snib_open(&alone, url, NULL) == SNIB_OK, "open");
    for (int i = -1; i < ROUNDS; i++) { /* the first one warms up */
        double a = pairs_per_s(cluster), b = pairs_per_s(alone);
        if (i >= 0) {
            three[i] = a;
            one[i] = b;
            ratios[i] = a / b;
        }
    }
    printf("64 threads on 1,000 names: three masters %.0f pairs/s, one server %.0f, ratio %.2f\n",
           median(three), median(one), median(ratios));
    snib_close(cluster);
    snib_close(alone);
    return 0;
}
