/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the Redis engine share: clients, helper processes that hold and wait, and a
 * way to talk to the server behind snib's back.
 */
#ifndef SNIB_TESTS_REDIS_WORLD_H
#define SNIB_TESTS_REDIS_WORLD_H

#include "engines/redis/packed.h"
#include "server.h"
#include "world.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

MAY_BE_UNUSED static const char *url_of(int port, const char *parameters)
{
    enum { URLS = 8 };
    static char urls[URLS][512];
    static int next;
    char *url = urls[next++ % URLS];
    snprintf(url, sizeof urls[0], "redis://127.0.0.1:%d?quarantine=no%s%s", port,
             parameters[0] ? "&" : "", parameters);
    return url;
}

MAY_BE_UNUSED static snib_lease *take(snib *client, const char *name, const snib_options *options)
{
    snib_lease *lease = NULL;
    snib_error error = {0};
    CHECK_OK(snib_acquire(&lease, client, name, options, &error), error.message);
    return lease;
}

MAY_BE_UNUSED static int try_it(snib *client, const char *name, snib_error *error)
{
    snib_options options = waiting(0);
    snib_lease *lease = NULL;
    int code = snib_acquire(&lease, client, name, &options, error);
    if (code == SNIB_OK) {
        give(&lease);
    }
    return code;
}

/* For snib_acquire_async; `arg` is an _Atomic(snib_lease *). */
MAY_BE_UNUSED static void note_grant(snib_lease *lease, const snib_error *err, void *arg)
{
    (void)err;
    atomic_store((_Atomic(snib_lease *) *)arg, lease);
}

/* ---- Behind snib's back ----------------------------------------------------------------- */

MAY_BE_UNUSED static redisContext *raw_open(int port)
{
    redisContext *raw = redisConnect("127.0.0.1", port);
    CHECK(raw != NULL && raw->err == 0);
    return raw;
}

/* An integer, or the text of a reply as one. */
MAY_BE_UNUSED static long long raw_number(redisContext *raw, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(raw, format, args);
    va_end(args);
    CHECK(reply != NULL);
    if (reply->type == REDIS_REPLY_ERROR) {
        FAIL("%s: %s", format, reply->str);
    }
    long long number = reply->type == REDIS_REPLY_INTEGER ? reply->integer
                       : reply->str                       ? strtoll(reply->str, NULL, 10)
                                                          : 0;
    freeReplyObject(reply);
    return number;
}

/* What the state of a lock says; docs/redis-protocol.md has what is where in it. */
enum raw_number_of { STATE_HOLDERS, STATE_WAITERS, STATE_HEAD, STATE_TAIL };

MAY_BE_UNUSED static long long raw_state(redisContext *raw, const char *name,
                                         enum raw_number_of which)
{
    static const struct {
        size_t at, size;
    } places[] = {{66, 4}, {102, 4}, {86, 8}, {94, 8}};
    redisReply *reply = redisCommand(raw, "HGET snib:{%s} s", name);
    CHECK(reply != NULL && reply->type != REDIS_REPLY_ERROR);
    long long number = 0;
    if (reply->type == REDIS_REPLY_STRING) {
        CHECK(reply->len >= 62 && reply->str[0] == 2);
        bool several = reply->str[1] & 8;
        struct snib__packed p = snib__packed_from(reply->str, reply->len);
        (void)snib__packed_bytes(&p, places[which].at);
        number = several                  ? (long long)snib__packed_number(&p, places[which].size)
                 : which == STATE_HOLDERS ? reply->str[1] & 1
                                          : 0;
    }
    freeReplyObject(reply);
    return number;
}

/* A lock that is free, with this last token, kept for so many seconds more. */
MAY_BE_UNUSED static void raw_set_free(redisContext *raw, const char *name, uint64_t last,
                                       int seconds)
{
    char state[62] = {2};
    (void)snib__pack(snib__pack(state + 19, last, 8), (uint64_t)(time(NULL) + seconds), 4);
    raw_number(raw, "HSET snib:{%s} s %b", name, state, sizeof state);
}

/* An exclusive attempt of ours, as scripts want it, by somebody with this number. */
struct raw_request {
    char bytes[300];
    size_t size;
};

MAY_BE_UNUSED static void raw_owner(char id[17], int number)
{
    memset(id, 0x5a, 17);
    (void)snib__pack(id, (uint64_t)number, 4);
}

MAY_BE_UNUSED static struct raw_request raw_request(int number, const char *inbox, int lease_ms,
                                                    unsigned span)
{
    struct raw_request r;
    char *to = r.bytes + 17;
    raw_owner(r.bytes, number);
    *to++ = 'x';
    to = snib__pack(to, 30000, 4);
    to = snib__pack(to, 3600000, 4);
    to = snib__pack(to, 0, 8);
    to = snib__pack(to, span, 4);
    to = snib__pack(to, strlen(inbox), 1);
    to = snib__pack(to, 0, 4);
    to = snib__pack(to, (uint64_t)lease_ms, 4);
    to = snib__pack(to, 2500, 4);
    to = snib__pack(to, 1, 4);
    to = snib__pack_bytes(to, inbox, strlen(inbox));
    *to++ = 'a';
    r.size = (size_t)(to - r.bytes);
    return r;
}

/* A grant of "report", by message. */
struct raw_message {
    char bytes[80];
    size_t size;
};

MAY_BE_UNUSED static struct raw_message raw_grant(const char id[17], uint32_t turn)
{
    struct raw_message m = {.bytes = {2}};
    char *to = snib__pack_bytes(m.bytes + 1, id, 17);
    to = snib__pack(to, 99, 8);
    to = snib__pack(to, 1, 4);
    to = snib__pack(to, 30000, 4);
    to = snib__pack(to, turn, 4);
    to = snib__pack_bytes(to, "snib:{report}", 13);
    m.size = (size_t)(to - m.bytes);
    return m;
}

/* A script that fails half-way leaves half of its work behind. It may only have failed before. */
MAY_BE_UNUSED static void raw_no_script_failed(redisContext *raw)
{
    redisReply *reply = redisCommand(raw, "INFO errorstats");
    CHECK(reply != NULL && reply->str != NULL);
    const char *failed = strstr(reply->str, "errorstat_ERR");
    if (failed) {
        FAIL("a script failed: %.60s", failed);
    }
    freeReplyObject(reply);
}

/* Calls of a command so far. */
MAY_BE_UNUSED static long long raw_calls(redisContext *raw, const char *command)
{
    char field[64];
    redisReply *info = redisCommand(raw, "INFO commandstats");
    CHECK(info != NULL && info->str != NULL);
    snprintf(field, sizeof field, "cmdstat_%s:calls=", command);
    const char *found = strstr(info->str, field);
    long long calls = found ? strtoll(found + strlen(field), NULL, 10) : 0;
    freeReplyObject(info);
    return calls;
}

/* How many tickets are in line. */
struct raw_line {
    redisContext *raw;
    const char *name;
    long long count;
};

static bool line_is(void *arg)
{
    struct raw_line *line = arg;
    return raw_state(line->raw, line->name, STATE_WAITERS) == line->count;
}

MAY_BE_UNUSED static void await_line(redisContext *raw, const char *name, long long count)
{
    struct raw_line line = {raw, name, count};
    CHECK(check_until(line_is, &line, PATIENCE_MS));
}

/* The inbox of the only client that has one. */
MAY_BE_UNUSED static void raw_inbox(redisContext *raw, char *out, size_t size)
{
    redisReply *reply = redisCommand(raw, "PUBSUB CHANNELS snib:inbox:*");
    CHECK(reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 1);
    snprintf(out, size, "%s", reply->element[0]->str);
    freeReplyObject(reply);
}

/* Fill the memory: from now on, what needs some is refused. */
MAY_BE_UNUSED static void raw_fill_memory(redisContext *raw)
{
    raw_number(raw, "SET ballast %s", "x");
    raw_number(raw, "SETRANGE ballast 2000000 x");
    raw_number(raw, "CONFIG SET maxmemory 1000000");
}

/* ---- Helper processes ------------------------------------------------------------------- */

struct helper {
    char url[512];
    char name[64];
    snib_options options;
    struct check_flag go, held, let_go, over;
    _Atomic uint64_t token;
    _Atomic int64_t held_ns;
    _Atomic int code, release_code, state;
    pid_t pid;
};

static void help(void *arg)
{
    struct helper *self = arg;
    snib_lease *lease = NULL;
    snib *client = client_of(self->url);
    check_flag_wait(&self->go, 60000);
    atomic_store(&self->code, snib_acquire(&lease, client, self->name, &self->options, NULL));
    atomic_store(&self->held_ns, check_now_ns());
    atomic_store(&self->token, lease ? snib_token(lease) : 0);
    check_flag_set(&self->held);
    if (lease) {
        check_flag_wait(&self->let_go, 60000);
        atomic_store(&self->state, snib_state(lease));
        atomic_store(&self->release_code, snib_release(&lease, NULL));
    }
    check_flag_set(&self->over);
    snib_close(client);
}

MAY_BE_UNUSED static struct helper *helpers_new(int count, const char *url, const char *name)
{
    struct helper *helpers = check_shared((size_t)count * sizeof *helpers);
    snib_options normal = SNIB_OPTIONS;
    for (int i = 0; i < count; i++) {
        snprintf(helpers[i].url, sizeof helpers[i].url, "%s", url);
        snprintf(helpers[i].name, sizeof helpers[i].name, "%s", name);
        helpers[i].options = normal;
    }
    return helpers;
}

MAY_BE_UNUSED static void helpers_spawn(struct helper *helpers, int count)
{
    for (int i = 0; i < count; i++) {
        helpers[i].pid = check_spawn(help, &helpers[i]);
    }
}

MAY_BE_UNUSED static void helper_must_hold(struct helper *helper)
{
    check_flag_wait(&helper->held, PATIENCE_MS);
    CHECK_INT(atomic_load(&helper->code), ==, SNIB_OK);
}

MAY_BE_UNUSED static void helper_end(struct helper *helper)
{
    check_flag_set(&helper->go);
    check_flag_set(&helper->let_go);
    check_join(helper->pid, PATIENCE_MS);
}

#endif
