/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snib, and what Redis offers without a library: see ../run for what each program is asked.
 *
 *     snib, snib-async    synchronous and asynchronous release; of 64 names: 64 threads
 *     snib-api            of 64 names: the asynchronous API, from the library's own thread
 *     snib-plain, snib-plain-async, snib-plain-api: the same, layout=plain
 *     hiredis             SET NX PX, and a script that compares and deletes
 *     blpop               BLPOP and LPUSH of one element: no owner, no lease, no token
 */
#include "snib.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NAMES = 64, SAMPLES = 100000 };

static const char *kind, *address;
static snib *client;
static atomic_long done;
static atomic_bool stop;

static _Noreturn void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static bool ends_with(const char *word)
{
    size_t size = strlen(kind), tail = strlen(word);
    return size >= tail && strcmp(kind + size - tail, word) == 0;
}

static int64_t now_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void pause_us(long us)
{
    if (us > 0) {
        nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
    }
}

/* ---- One lock --------------------------------------------------------------------------- */

struct lock {
    const char *name;
    snib_lease *lease;
    redisContext *redis;
    char id[40], script[41];
    unsigned long count;
};

static redisReply *ask(struct lock *l, int type, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(l->redis, format, arguments);
    va_end(arguments);
    if (!reply || (type && reply->type != type)) {
        die("%s: %s", format, reply ? "an unexpected answer" : l->redis->errstr);
    }
    return reply;
}

static void connect_bare(struct lock *l)
{
    char host[64];
    int port;
    if (sscanf(address, "%63[^:]:%d", host, &port) != 2 || !(l->redis = redisConnect(host, port)) ||
        l->redis->err) {
        die("cannot connect to %s", address);
    }
    redisReply *reply = ask(l, REDIS_REPLY_STRING, "SCRIPT LOAD %s",
                            "if redis.call('get', KEYS[1]) == ARGV[1] then "
                            "return redis.call('del', KEYS[1]) end return 0");
    snprintf(l->script, sizeof l->script, "%s", reply->str);
    freeReplyObject(reply);
    if (strcmp(kind, "blpop") == 0) { /* one element in all */
        freeReplyObject(ask(l, 0, "EVAL %s 2 %s %s-made",
                            "if redis.call('incr', KEYS[2]) == 1 then "
                            "redis.call('lpush', KEYS[1], '1') end return 1",
                            l->name, l->name));
    }
}

static void prepare(struct lock *l, const char *name)
{
    *l = (struct lock){.name = name};
    if (!client) {
        connect_bare(l);
    }
}

static void take(struct lock *l)
{
    if (client) {
        snib_options options = SNIB_OPTIONS;
        snib_error error;
        options.flags = ends_with("-async") ? SNIB_ASYNC_RELEASE : 0;
        if (snib_acquire(&l->lease, client, l->name, &options, &error) < 0) {
            die("%s", error.message);
        }
    } else if (strcmp(kind, "blpop") == 0) {
        freeReplyObject(ask(l, REDIS_REPLY_ARRAY, "BLPOP %s 0", l->name));
    } else {
        bool held = false;
        snprintf(l->id, sizeof l->id, "%d-%lu", getpid(), ++l->count);
        while (!held) {
            redisReply *reply = ask(l, 0, "SET %s %s NX PX 30000", l->name, l->id);
            held = reply->type == REDIS_REPLY_STATUS;
            freeReplyObject(reply);
            pause_us(held ? 0 : 1000);
        }
    }
}

static void give(struct lock *l)
{
    snib_error error;
    if (client) {
        if (snib_release(&l->lease, &error) < 0) {
            die("%s", error.message);
        }
    } else if (strcmp(kind, "blpop") == 0) {
        freeReplyObject(ask(l, REDIS_REPLY_INTEGER, "LPUSH %s 1", l->name));
    } else {
        freeReplyObject(
            ask(l, REDIS_REPLY_INTEGER, "EVALSHA %s 1 %s %s", l->script, l->name, l->id));
    }
}

/* ---- Pairs ------------------------------------------------------------------------------ */

static double pairs(struct lock *l, long count)
{
    int64_t start = now_us(CLOCK_MONOTONIC);
    for (long i = 0; i < count; i++) {
        take(l);
        give(l);
    }
    return (double)(now_us(CLOCK_MONOTONIC) - start) / (double)count;
}

/* ---- 64 names --------------------------------------------------------------------------- */

static void *churn(void *arg)
{
    struct lock l;
    prepare(&l, arg);
    while (!atomic_load(&stop)) {
        take(&l);
        give(&l);
        atomic_fetch_add(&done, 1);
    }
    return NULL;
}

static atomic_int running;

static void begin(const char *name);

static void on_freed(int code, const snib_error *err, void *arg)
{
    if (code < 0) {
        die("%s", err->message);
    }
    atomic_fetch_add(&done, 1);
    begin(arg);
}

static void on_held(snib_lease *lease, const snib_error *err, void *arg)
{
    snib_error error;
    if (!lease) {
        die("%s", err->message);
    }
    if (snib_release_async(&lease, on_freed, arg, &error) < 0) {
        die("%s", error.message);
    }
}

static void begin(const char *name)
{
    snib_ticket ticket;
    snib_error error;
    if (atomic_load(&stop)) {
        atomic_fetch_sub(&running, 1);
    } else if (snib_acquire_async(&ticket, client, name, NULL, on_held, (void *)name, &error) < 0) {
        die("%s", error.message);
    }
}

static double names(long seconds)
{
    static char texts[NAMES][16];
    pthread_t threads[NAMES];
    bool api = ends_with("-api");
    atomic_store(&running, NAMES);
    for (int i = 0; i < NAMES; i++) {
        snprintf(texts[i], sizeof texts[i], "names-%d", i);
        if (api) {
            begin(texts[i]);
        } else if (pthread_create(&threads[i], NULL, churn, texts[i]) != 0) {
            die("cannot start a thread");
        }
    }
    pause_us(200000);
    long before = atomic_load(&done);
    int64_t start = now_us(CLOCK_MONOTONIC);
    sleep((unsigned)seconds);
    double rate =
        (double)(atomic_load(&done) - before) * 1e6 / (double)(now_us(CLOCK_MONOTONIC) - start);
    atomic_store(&stop, true);
    for (int i = 0; i < NAMES && !api; i++) {
        pthread_join(threads[i], NULL);
    }
    while (api && atomic_load(&running) > 0) {
        pause_us(1000);
    }
    return rate;
}

/* ---- From one process to another -------------------------------------------------------- */

static int64_t passed[SAMPLES];

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static void grab(struct lock *l, long seconds, long hold_us, const char *path)
{
    int64_t note[2]; /* who had it last, and when it ended */
    long count = 0;
    size_t samples = 0;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int64_t end = now_us(CLOCK_MONOTONIC) + seconds * 1000000;
    while (now_us(CLOCK_MONOTONIC) < end) {
        int64_t asked = now_us(CLOCK_REALTIME);
        take(l);
        int64_t now = now_us(CLOCK_REALTIME);
        bool known = pread(file, note, sizeof note, 0) == sizeof note;
        if (known && note[0] != getpid()) {
            count++;
            if (asked < note[1] && samples < SAMPLES) {
                passed[samples++] = now - note[1];
            }
        }
        pause_us(hold_us);
        note[0] = getpid();
        note[1] = now_us(CLOCK_REALTIME);
        if (pwrite(file, note, sizeof note, 0) != sizeof note) {
            die("cannot write %s", path);
        }
        give(l);
        pause_us(hold_us / 2);
    }
    qsort(passed, samples, sizeof passed[0], compare);
    printf("%ld %ld\n", count, samples ? (long)passed[samples / 2] : -1L);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        die("usage: peers KIND HOST:PORT MEASURE ARGUMENTS");
    }
    kind = argv[1];
    address = argv[2];
    if (strncmp(kind, "snib", 4) == 0) {
        char url[128];
        snib_error error;
        snprintf(url, sizeof url, "redis://%s?quarantine=no%s", address,
                 strncmp(kind, "snib-plain", 10) == 0 ? "&layout=plain" : "");
        if (snib_open(&client, url, &error) < 0) {
            die("%s", error.message);
        }
    }
    struct lock lock;
    if (strcmp(argv[3], "pairs") == 0) {
        prepare(&lock, kind);
        long count = atol(argv[4]);
        pairs(&lock, count / 4);
        printf("%.2f\n", pairs(&lock, count));
    } else if (strcmp(argv[3], "names") == 0) {
        printf("%.0f\n", names(atol(argv[4])));
    } else if (argc == 8) {
        prepare(&lock, argv[4]);
        grab(&lock, atol(argv[5]), atol(argv[6]), argv[7]);
    }
    if (client) {
        snib_close(client);
    }
    return 0;
}
