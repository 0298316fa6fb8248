/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a lock costs the server: its processor time, by its own count, for requests that arrive 500
 * at a time. Many clients share that one core.
 *
 *   pair        acquire and release, nobody else there, beside SET NX PX and compare-and-delete
 *   plain pair  the same in the layout `plain`
 *   renewal     of a lock that is held
 *   hand-over   an attempt that stands in line, and the release that hands on to it by message
 *
 * Usage: script_cost [FOLDER]
 *
 * FOLDER has attempt.lua, renew.lua and release.lua of the layout before this one, as
 * tools/embed-scripts --text prints them: they are then measured in the same rounds.
 */
#include "redis_request.h"

#include "engines/redis/script.h"

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 7, BATCHES = 20, BATCH = 512, NAMES = 64, LAYOUTS = 2 };

static pid_t server;
static redisContext *line, *ear; /* requests; somebody who listens at the inboxes */
static int port;

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "script_cost: %s failed\n", what);
        exit(1);
    }
}

static void stop_server(void)
{
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
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
               (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 250; i++) {
        line = redisConnect("127.0.0.1", port);
        if (line && line->err == 0) {
            return;
        }
        redisFree(line);
        usleep(20000);
    }
    must(0, "redis-server");
}

/* ---- Scripts ---------------------------------------------------------------------------- */

/* SHA-1 sums of what the server has loaded. */
struct scripts {
    char attempt[41], renew[41], release[41];
};

static struct scripts layouts[LAYOUTS]; /* this one, and the one before */
static struct scripts plain;
static char compare_delete[41], empty[41];
static int layout_count = 1;

static void load(char sha1[41], const char *text, size_t size)
{
    redisReply *reply = redisCommand(line, "SCRIPT LOAD %b", text, size);
    must(reply && reply->type == REDIS_REPLY_STRING && reply->len == 40, "SCRIPT LOAD");
    memcpy(sha1, reply->str, 41);
    freeReplyObject(reply);
}

static void load_file(char sha1[41], const char *folder, const char *name)
{
    static char text[100000];
    char path[1000];
    snprintf(path, sizeof path, "%s/%s.lua", folder, name);
    FILE *file = fopen(path, "r");
    must(file != NULL, path);
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    load(sha1, text, size);
}

static void load_all(const char *before)
{
    static const char compare[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then return "
                                  "redis.call('DEL', KEYS[1]) end return 0";
    load(compare_delete, compare, sizeof compare - 1);
    load(empty, "return 0", 8);
    load(layouts[0].attempt, snib__native_attempt_script.text, snib__native_attempt_script.size);
    load(layouts[0].renew, snib__native_renew_script.text, snib__native_renew_script.size);
    load(layouts[0].release, snib__native_release_script.text, snib__native_release_script.size);
    load(plain.attempt, snib__plain_attempt_script.text, snib__plain_attempt_script.size);
    load(plain.release, snib__plain_release_script.text, snib__plain_release_script.size);
    if (before) {
        load_file(layouts[1].attempt, before, "attempt");
        load_file(layouts[1].renew, before, "renew");
        load_file(layouts[1].release, before, "release");
        layout_count = 2;
    }
}

/* ---- Requests --------------------------------------------------------------------------- */

static int pending;

static void send_off(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    must(redisvAppendCommand(line, format, args) == REDIS_OK, "command");
    va_end(args);
    pending++;
}

/* Their first letters, over and over; NULL: whatever they are. */
static void collect(const char *letters)
{
    for (size_t i = 0; pending > 0; pending--, i++) {
        redisReply *reply = NULL;
        must(redisGetReply(line, (void **)&reply) == REDIS_OK, "reply");
        if (reply->type == REDIS_REPLY_ERROR) {
            fprintf(stderr, "script_cost: %s\n", reply->str);
            exit(1);
        }
        const redisReply *word = reply->type == REDIS_REPLY_ARRAY ? reply->element[0] : reply;
        if (letters && (!word->str || word->str[0] != letters[i % strlen(letters)])) {
            fprintf(stderr, "script_cost: answered %s\n", word->str ? word->str : "a number");
            exit(1);
        }
        freeReplyObject(reply);
    }
}

/* Whoever it is, in both layouts' forms. */
struct owner {
    char id[ID_SIZE + 1];
    char hex[33];
};

static const struct owner owners[2] = {
    {"0123456789abcdefg", "0123456789abcdef0123456789abcdef"},
    {"gfedcba9876543210", "fedcba9876543210fedcba9876543210"},
};

static void attempt(int layout, int name, const struct owner *o, const char *inbox)
{
    if (layout == 0) {
        struct request r = request_of(o->id, inbox);
        send_off("EVALSHA %s 1 snib:{%d} %b", layouts[0].attempt, name, r.bytes, r.size);
    } else {
        send_off("EVALSHA %s 1 old:{%d} %s 3600000 x 0 30000 %s 5000 2500 0 1 %s",
                 layouts[1].attempt, name, o->hex, inbox, "vm:1234 nightly");
    }
}

static void release(int layout, int name, const struct owner *o)
{
    if (layout == 0) {
        send_off("EVALSHA %s 1 snib:{%d} %b", layouts[0].release, name, o->id, (size_t)ID_SIZE);
    } else {
        send_off("EVALSHA %s 1 old:{%d} %s 3600000 0", layouts[1].release, name, o->hex);
    }
}

static void renew(int layout, int name, const struct owner *o)
{
    if (layout == 0) {
        char bytes[ID_SIZE + 8];
        char *to = snib__pack_bytes(bytes, o->id, ID_SIZE);
        (void)snib__pack(snib__pack(to, 30000, 4), 3600000, 4);
        send_off("EVALSHA %s 1 snib:{%d} %b", layouts[0].renew, name, bytes, sizeof bytes);
    } else {
        send_off("EVALSHA %s 1 old:{%d} %s 3600000 30000", layouts[1].renew, name, o->hex);
    }
}

/* ---- What is measured ------------------------------------------------------------------- */

static void two_pings(int layout, int i)
{
    (void)layout;
    (void)i;
    send_off("PING");
    send_off("PING");
}

static void two_empty_scripts(int layout, int i)
{
    (void)layout;
    send_off("EVALSHA %s 1 e%d x", empty, i % NAMES);
    send_off("EVALSHA %s 1 e%d x", empty, i % NAMES);
}

static void bare_pair(int layout, int i)
{
    (void)layout;
    send_off("SET p%d %s NX PX 30000", i % NAMES, owners[0].hex);
    send_off("EVALSHA %s 1 p%d %s", compare_delete, i % NAMES, owners[0].hex);
}

static void pair(int layout, int i)
{
    attempt(layout, i % NAMES, &owners[0], "");
    release(layout, i % NAMES, &owners[0]);
}

static void plain_pair(int layout, int i)
{
    static long last;
    char id[40];
    int name = i % NAMES;
    (void)layout;
    snprintf(id, sizeof id, "%034ld", ++last); /* one that was released is refused */
    send_off("EVALSHA %s 2 q%d snib-fence:{q%d} 30000 3630000 0 %s %s", plain.attempt, name, name,
             id, "vm:1234 nightly");
    send_off("EVALSHA %s 2 q%d snib-fence:{q%d} %s snib:freed:q%d 3600000", plain.release, name,
             name, id, name);
}

static void renewal(int layout, int i)
{
    renew(layout, 1000 + i % NAMES, &owners[0]);
}

/* The other one comes, and is handed what this one has. */
static void hand_over(int layout, int i)
{
    int turn = i / NAMES % 2;
    attempt(layout, 2000 + i % NAMES, &owners[1 - turn], "snib:inbox:0123456789abcdef");
    release(layout, 2000 + i % NAMES, &owners[turn]);
}

struct shape {
    const char *text;
    void (*send)(int layout, int i);
    const char *letters; /* of the answers, if they are ours */
    double us[LAYOUTS][ROUNDS];
};

static struct shape shapes[] = {
    {"2 PING", two_pings, NULL, {{0}}},
    {"2 empty scripts", two_empty_scripts, NULL, {{0}}},
    {"SET NX PX, compare-delete", bare_pair, NULL, {{0}}},
    {"plain pair", plain_pair, NULL, {{0}}},
    {"pair", pair, "HG", {{0}}},
    {"renewal", renewal, "H", {{0}}},
    {"hand-over", hand_over, "QG", {{0}}},
};
enum { BARE = 2, PLAIN = 3, PAIR = 4, SHAPES = sizeof shapes / sizeof shapes[0] };

static double server_cpu_us(void)
{
    redisReply *reply = redisCommand(line, "INFO cpu");
    must(reply && reply->type == REDIS_REPLY_STRING, "INFO");
    const char *sys = strstr(reply->str, "used_cpu_sys:");
    const char *user = strstr(reply->str, "used_cpu_user:");
    must(sys && user, "INFO");
    double us = (strtod(sys + 13, NULL) + strtod(user + 14, NULL)) * 1e6;
    freeReplyObject(reply);
    return us;
}

static void drain_ear(void)
{
    struct timeval none = {0, 1};
    void *message;
    redisSetTimeout(ear, none);
    while (redisGetReply(ear, &message) == REDIS_OK) {
        freeReplyObject(message);
    }
    ear->err = 0;
}

/* Held by the first of the two; a lease of a hand-over would not last until the next round. */
static void prepare(int layout)
{
    for (int name = 0; name < NAMES; name++) {
        send_off("DEL snib:{%d} snib:{%d} old:{%d} old:{%d}", 1000 + name, 2000 + name, 1000 + name,
                 2000 + name);
        attempt(layout, 1000 + name, &owners[0], "");
        attempt(layout, 2000 + name, &owners[0], "");
    }
    collect(NULL);
}

static double measure(const struct shape *s, int layout)
{
    prepare(layout);
    double before = server_cpu_us();
    for (int i = 0; i < BATCHES * BATCH; i++) {
        s->send(layout, i);
        if (i % BATCH == BATCH - 1) {
            collect(s->letters);
        }
    }
    collect(s->letters);
    double us = (server_cpu_us() - before) / (BATCHES * BATCH);
    drain_ear();
    return us;
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

static double ratio(const double values[ROUNDS], const double beside[ROUNDS])
{
    double ratios[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        ratios[i] = values[i] / beside[i];
    }
    return median(ratios);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    start_server();
    atexit(stop_server);
    ear = redisConnect("127.0.0.1", port);
    freeReplyObject(redisCommand(ear, "SUBSCRIBE snib:inbox:0123456789abcdef"));
    load_all(argc > 1 ? argv[1] : NULL);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < SHAPES; i++) {
            for (int layout = 0; layout < (shapes[i].letters ? layout_count : 1); layout++) {
                shapes[i].us[layout][round] = measure(&shapes[i], layout);
            }
        }
    }
    for (size_t i = 0; i < SHAPES; i++) {
        struct shape *s = &shapes[i];
        printf("%-26s %5.2f us", s->text, median(s->us[0]));
        if (i == PLAIN || i == PAIR) {
            printf(", %.2f times SET NX, compare-delete", ratio(s->us[0], shapes[BARE].us[0]));
        }
        if (s->letters && layout_count > 1) {
            printf("; before: %.2f us, now %.2f times that", median(s->us[1]),
                   ratio(s->us[0], s->us[1]));
        }
        printf("\n");
    }
    redisFree(line);
    redisFree(ear);
    return 0;
}
