/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Redis engine against what the server can do: ratios within one run, on a private server.
 *
 *   (a) uncontended acquire+release against a bare loop that sends the same scripts; and with
 *       asynchronous release; and the layout `plain`, against a loop with its scripts
 *   (b) hand-over between processes against a PING, with 2 and with 32 of them; and what it is with
 *       the same scripts and nothing around them
 *   (c) 64 threads on 64 names through one client against one thread
 *   (d) 64 threads on one name, passing on and off; and how long another process waits meanwhile
 *   (e) held leases: bytes each, and what their renewal costs
 *
 * Usage: redis [leases of (e)]
 *
 * What is compared takes turns; ratios are taken within a round, and the median of the rounds is
 * shown. In (a), (c) and (d) the server has one processor and we another (not while another process
 * waits): where the scheduler puts two processes that wake each other makes more difference than
 * anything measured here. In (b) the lock is held for a moment, so that the next in line sleeps
 * when it is released, and so does the server; the PING beside it comes after the same pause.
 */
#include "redis_request.h"

#include "engines/redis/script.h"
#include "snib.h"

#include <hiredis/hiredis.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 1000, ROUNDS = 15, HAND_OVERS = 2000, HOLD_US = 300, THREADS = 64 };

static int port;
static char url[160];

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void spin(double us)
{
    for (double until = now_us() + us; now_us() < until;) {
    }
}

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench: %s failed\n", what);
        exit(1);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double values[ROUNDS])
{
    double sorted[ROUNDS];
    memcpy(sorted, values, sizeof sorted);
    qsort(sorted, ROUNDS, sizeof sorted[0], by_size);
    return sorted[ROUNDS / 2];
}

static double median_ratio(const double values[ROUNDS], const double beside[ROUNDS])
{
    double ratios[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        ratios[i] = values[i] / beside[i];
    }
    return median(ratios);
}

/* Put a process on one processor; a negative one: wherever the scheduler likes. */
static void put_on(pid_t pid, int processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < 64; i++) {
        if (processor < 0 || i == processor) {
            CPU_SET((size_t)i, &set);
        }
    }
    (void)sched_setaffinity(pid, sizeof set, &set); /* with one processor there is no choice */
}

/* ---- The server ------------------------------------------------------------------------- */

static pid_t server;

static void stop_server(void)
{
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
}

static redisContext *connect_raw(void)
{
    return redisConnect("127.0.0.1", port);
}

static void start_server(void)
{
    char text[12];
    port = 20000 + (int)(getpid() % 20000);
    snprintf(text, sizeof text, "%d", port);
    server = fork();
    if (server == 0) {
        must(freopen("/dev/null", "w", stdout) != NULL, "stdout");
        execlp("redis-server", "redis-server", "--port", text, "--bind", "127.0.0.1", "--save", "",
               "--appendonly", "no", (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 200; i++) {
        redisContext *raw = connect_raw();
        int up = raw && raw->err == 0;
        redisFree(raw);
        if (up) {
            snprintf(url, sizeof url, "redis://127.0.0.1:%d?quarantine=no", port);
            return;
        }
        usleep(20000);
    }
    must(0, "redis-server");
}

static snib *open_at(const char *where)
{
    snib *client = NULL;
    snib_error error = {0};
    if (snib_open(&client, where, &error) < 0) {
        fprintf(stderr, "bench: %s\n", error.message);
        exit(1);
    }
    return client;
}

static snib *open_client(void)
{
    return open_at(url);
}

static snib_lease *take(snib *client, const char *name, const snib_options *options)
{
    snib_lease *lease = NULL;
    snib_error error = {0};
    if (snib_acquire(&lease, client, name, options, &error) < 0) {
        fprintf(stderr, "bench: %s\n", error.message);
        exit(1);
    }
    return lease;
}

/* ---- (a) One thread --------------------------------------------------------------------- */

static double ping_us(redisContext *raw)
{
    double start = now_us();
    for (int i = 0; i < PAIRS; i++) {
        freeReplyObject(redisCommand(raw, "PING"));
    }
    return (now_us() - start) / PAIRS;
}

/* With a pause before each, as long as a lock is held in (b): everybody has gone to sleep. */
static double rested_ping_us(redisContext *raw)
{
    double sum = 0;
    for (int i = 0; i < PAIRS; i++) {
        spin(HOLD_US);
        double start = now_us();
        freeReplyObject(redisCommand(raw, "PING"));
        sum += now_us() - start;
    }
    return sum / PAIRS;
}

static void load(redisContext *raw, const struct snib__script *script)
{
    redisReply *reply = redisCommand(raw, "SCRIPT LOAD %b", script->text, script->size);
    must(reply->type == REDIS_REPLY_STRING && strcmp(reply->str, script->sha1) == 0, "SCRIPT LOAD");
    freeReplyObject(reply);
}

/* What snib sends, by hiredis and with nothing around it. True: it is ours, and we need not wait.
 */
static bool bare_attempt(redisContext *raw, const char *id, const char *inbox)
{
    struct request request = request_of(id, inbox);
    redisReply *reply = redisCommand(raw, "EVALSHA %s 1 snib:{bare} %b",
                                     snib__native_attempt_script.sha1, request.bytes, request.size);
    must(reply->type == REDIS_REPLY_STRING, "attempt");
    bool held = reply->str[0] == 'H';
    freeReplyObject(reply);
    return held;
}

static void bare_release(redisContext *raw, const char *id)
{
    redisReply *reply = redisCommand(raw, "EVALSHA %s 1 snib:{bare} %b",
                                     snib__native_release_script.sha1, id, (size_t)ID_SIZE);
    must(reply->type == REDIS_REPLY_STRING && reply->str[0] == 'G', "release");
    freeReplyObject(reply);
}

static double bare_us(redisContext *raw)
{
    const char *id = "0123456789abcdefg";
    double start = now_us();
    for (int i = 0; i < PAIRS; i++) {
        must(bare_attempt(raw, id, ""), "attempt");
        bare_release(raw, id);
    }
    return (now_us() - start) / PAIRS;
}

/* What layout=plain sends. */
static double bare_plain_us(redisContext *raw)
{
    static long last;
    char id[40];
    double start = now_us();
    for (int i = 0; i < PAIRS; i++) {
        snprintf(id, sizeof id, "%034ld", ++last); /* one that was released is refused */
        redisReply *reply =
            redisCommand(raw, "EVALSHA %s 2 loop snib-fence:{loop} 30000 3630000 0 %s %s",
                         snib__plain_attempt_script.sha1, id, "vm:1234 nightly");
        must(reply->type == REDIS_REPLY_STRING && reply->str[0] == 'H', "attempt");
        freeReplyObject(reply);
        reply = redisCommand(raw, "EVALSHA %s 2 loop snib-fence:{loop} %s snib:freed:loop 3600000",
                             snib__plain_release_script.sha1, id);
        must(reply->type == REDIS_REPLY_STRING && reply->str[0] == 'G', "release");
        freeReplyObject(reply);
    }
    return (now_us() - start) / PAIRS;
}

static double snib_us(snib *client, unsigned flags)
{
    snib_options options = SNIB_OPTIONS;
    options.flags = flags;
    double start = now_us();
    for (int i = 0; i < PAIRS; i++) {
        snib_lease *lease = take(client, "bare", &options);
        must(snib_release(&lease, NULL) == 0, "release");
    }
    return (now_us() - start) / PAIRS;
}

static void uncontended(void)
{
    redisContext *raw = connect_raw();
    snib *client = open_client();
    double ping[ROUNDS], bare[ROUNDS], normal[ROUNDS], async[ROUNDS];
    load(raw, &snib__native_attempt_script);
    load(raw, &snib__native_release_script);
    for (int i = 0; i < ROUNDS; i++) {
        ping[i] = ping_us(raw);
        bare[i] = bare_us(raw);
        normal[i] = snib_us(client, 0);
        async[i] = snib_us(client, SNIB_ASYNC_RELEASE);
    }
    printf("(a) PING %.1f us; bare pair %.1f; snib %.1f: %.2f times; async release %.1f: "
           "%.2f times\n",
           median(ping), median(bare), median(normal), median_ratio(normal, bare), median(async),
           median_ratio(async, bare));
    snib_close(client);
    redisFree(raw);
}

static void uncontended_plain(void)
{
    char where[sizeof url + 20];
    snprintf(where, sizeof where, "%s&layout=plain", url);
    redisContext *raw = connect_raw();
    snib *client = open_at(where);
    double bare[ROUNDS], normal[ROUNDS], async[ROUNDS];
    load(raw, &snib__plain_attempt_script);
    load(raw, &snib__plain_release_script);
    for (int i = 0; i < ROUNDS; i++) {
        bare[i] = bare_plain_us(raw);
        normal[i] = snib_us(client, 0);
        async[i] = snib_us(client, SNIB_ASYNC_RELEASE);
    }
    printf("(a) layout=plain: bare pair %.1f us; snib %.1f: %.2f times; async release %.1f: %.2f "
           "times\n",
           median(bare), median(normal), median_ratio(normal, bare), median(async),
           median_ratio(async, bare));
    snib_close(client);
    redisFree(raw);
}

/* ---- (b) Hand-over ---------------------------------------------------------------------- */

struct shared {
    atomic_int ready;
    atomic_int start;
    _Atomic double released;
    double sum;
    long count;
};

/* One of those that take turns: with snib, or with the same scripts and nothing around them. */
struct player {
    snib *client; /* NULL: bare */
    snib_lease *lease;
    redisContext *raw, *inbox;
    char id[20], channel[24];
};

static void join_in(struct player *p, int index, bool bare)
{
    *p = (struct player){0};
    if (!bare) {
        p->client = open_client();
        return;
    }
    p->raw = connect_raw();
    p->inbox = connect_raw();
    snprintf(p->id, sizeof p->id, "%017d", index);
    snprintf(p->channel, sizeof p->channel, "inbox:%d", index);
    load(p->raw, &snib__native_attempt_script);
    load(p->raw, &snib__native_release_script);
    freeReplyObject(redisCommand(p->inbox, "SUBSCRIBE %s", p->channel));
}

static void begin_turn(struct player *p)
{
    if (p->client) {
        p->lease = take(p->client, "hot", NULL);
        return;
    }
    if (!bare_attempt(p->raw, p->id, p->channel)) {
        void *message = NULL;
        must(redisGetReply(p->inbox, &message) == REDIS_OK, "message");
        freeReplyObject(message);
    }
}

static void end_turn(struct player *p)
{
    if (p->client) {
        snib_release(&p->lease, NULL);
        return;
    }
    bare_release(p->raw, p->id);
}

static _Noreturn void play(struct shared *s, int index, int turns, bool bare)
{
    struct player p;
    join_in(&p, index, bare);
    atomic_fetch_add(&s->ready, 1);
    while (!atomic_load(&s->start)) {
        usleep(1000);
    }
    for (int i = 0; i < turns; i++) {
        begin_turn(&p);
        double released = atomic_load(&s->released);
        if (released > 0) {
            s->sum += now_us() - released;
            s->count++;
        }
        spin(HOLD_US);
        atomic_store(&s->released, now_us());
        end_turn(&p);
    }
    _exit(0);
}

static double hand_over_us(int processes, bool bare, double *rate)
{
    struct shared *s =
        mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(s, 0, sizeof *s);
    for (int i = 0; i < processes; i++) {
        if (fork() == 0) {
            play(s, i, HAND_OVERS / processes, bare);
        }
    }
    while (atomic_load(&s->ready) < processes) {
        usleep(1000);
    }
    double start = now_us();
    atomic_store(&s->start, 1);
    for (int i = 0; i < processes; i++) {
        wait(NULL);
    }
    if (rate) {
        *rate = HAND_OVERS / (now_us() - start) * 1e6;
    }
    double average = s->sum / (double)s->count;
    munmap(s, sizeof *s);
    return average;
}

static void hand_over(void)
{
    double ping[ROUNDS], bare[ROUNDS], two[ROUNDS], crowd[ROUNDS];
    double two_rate[ROUNDS], crowd_rate[ROUNDS];
    redisContext *raw = connect_raw();
    for (int i = 0; i < ROUNDS; i++) {
        ping[i] = rested_ping_us(raw);
        bare[i] = hand_over_us(2, true, NULL);
        two[i] = hand_over_us(2, false, &two_rate[i]);
        crowd[i] = hand_over_us(32, false, &crowd_rate[i]);
    }
    redisFree(raw);
    printf(
        "(b) PING %.1f us; from release to acquired, 2 bare processes %.1f us, 2 of snib %.1f us "
        "(%.0f/s), 32 %.1f us (%.0f/s)\n",
        median(ping), median(bare), median(two), median(two_rate), median(crowd),
        median(crowd_rate));
    printf("(b) 2 processes %.2f times PING, %.2f times bare, which is %.2f times PING; 32 %.2f "
           "times 2\n",
           median_ratio(two, ping), median_ratio(two, bare), median_ratio(bare, ping),
           median_ratio(crowd, two));
}

/* ---- (c), (d) Threads ------------------------------------------------------------------- */

struct crew {
    snib *client;
    bool one_name;
    atomic_bool stop;
    atomic_long done;
};

static void *work(void *arg)
{
    static atomic_int next;
    struct crew *crew = arg;
    char name[24];
    snprintf(name, sizeof name, "t%d", crew->one_name ? 0 : atomic_fetch_add(&next, 1));
    while (!atomic_load(&crew->stop)) {
        snib_lease *lease = take(crew->client, name, NULL);
        snib_release(&lease, NULL);
        atomic_fetch_add(&crew->done, 1);
    }
    return NULL;
}

/* For a little less than half a second. */
static double crew_rate(int threads, bool one_name, const char *extra)
{
    char other[sizeof url + 20];
    snprintf(other, sizeof other, "%s%s", url, extra);
    struct crew crew = {.client = open_at(other), .one_name = one_name};
    pthread_t ids[THREADS];
    for (int i = 0; i < threads; i++) {
        must(pthread_create(&ids[i], NULL, work, &crew) == 0, "pthread_create");
    }
    usleep(100000); /* connected, and all of them at it */
    long before = atomic_load(&crew.done);
    double start = now_us();
    usleep(400000);
    double rate = (double)(atomic_load(&crew.done) - before) / (now_us() - start) * 1e6;
    atomic_store(&crew.stop, true);
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
    snib_close(crew.client);
    return rate;
}

static void threads(void)
{
    double one[ROUNDS], many[ROUNDS], on[ROUNDS], off[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        one[i] = crew_rate(1, false, "");
        many[i] = crew_rate(THREADS, false, "");
        on[i] = crew_rate(THREADS, true, "");
        off[i] = crew_rate(THREADS, true, "&passing=no");
    }
    printf("(c) one thread %.0f/s; %d threads on as many names %.0f/s: %.1f times\n", median(one),
           THREADS, median(many), median_ratio(many, one));
    printf("(d) %d threads on one name %.0f/s; without passing %.0f/s: %.1f times\n", THREADS,
           median(on), median(off), median_ratio(on, off));
}

/* Another process wants the lock of the 64 threads, a hundred times. */
static void stranger(void)
{
    struct crew crew = {.one_name = true};
    int ends[2];
    must(pipe(ends) == 0, "pipe");
    pid_t pid = fork();
    if (pid == 0) {
        double longest = 0;
        snib *client = open_client();
        usleep(200000);
        for (int i = 0; i < 100; i++) {
            double start = now_us();
            snib_lease *lease = take(client, "t0", NULL);
            double waited = now_us() - start;
            longest = waited > longest ? waited : longest;
            snib_release(&lease, NULL);
        }
        must(write(ends[1], &longest, sizeof longest) == sizeof longest, "write");
        _exit(0);
    }
    pthread_t ids[THREADS];
    crew.client = open_client();
    for (int i = 0; i < THREADS; i++) {
        must(pthread_create(&ids[i], NULL, work, &crew) == 0, "pthread_create");
    }
    double longest = 0;
    must(read(ends[0], &longest, sizeof longest) == sizeof longest, "read");
    atomic_store(&crew.stop, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
    }
    waitpid(pid, NULL, 0);
    printf(
        "(d) another process waited at most %.1f ms of 100 times; the bound is 50 ms and a turn\n",
        longest / 1000);
    snib_close(crew.client);
}

/* ---- (e) Held leases -------------------------------------------------------------------- */

static double cpu_s(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static void hold_many(int count)
{
    snib *client = open_client();
    snib_lease **leases = calloc((size_t)count, sizeof(snib_lease *));
    char name[32];
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "held/%d", i);
        leases[i] = take(client, name, NULL);
    }
    struct mallinfo2 after = mallinfo2();
    sleep(12); /* past the first round of renewals, which is bunched */
    double cpu = cpu_s(), start = now_us();
    sleep(20); /* two more */
    cpu = cpu_s() - cpu;
    double span = (now_us() - start) / 1e6;
    int lost = 0;
    for (int i = 0; i < count; i++) {
        lost += snib_state(leases[i]) != SNIB_HELD;
    }
    printf("(e) %d leases: %.0f bytes each, renewal %.2f %% of a core, %d lost\n", count,
           (double)(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd) / count,
           cpu / span * 100, lost);
    for (int i = 0; i < count; i++) {
        snib_release(&leases[i], NULL);
    }
    free(leases);
    snib_close(client);
}

static void put_apart(void)
{
    put_on(server, 0);
    put_on(0, 1);
}

static void put_anywhere(void)
{
    put_on(server, -1);
    put_on(0, -1);
}

int main(int argc, char **argv)
{
    int leases = argc > 1 ? atoi(argv[1]) : 100000;
    setvbuf(stdout, NULL, _IOLBF, 0);
    start_server();
    atexit(stop_server);
    put_apart();
    uncontended();
    uncontended_plain();
    put_anywhere();
    hand_over();
    put_apart();
    threads();
    put_anywhere();
    stranger();
    if (leases > 0) {
        hold_many(leases);
    }
    return 0;
}
