/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model of the server against a real one: the same commands to both, chosen by dice, and the
 * same answers from both. Of errors the first word counts: the rest is for people. After it the
 * keys must be the same, field by field.
 *
 * The shipped scripts run on both too, by their texts, with a first line that gives both the same
 * time. Hashes are compared without their order, which no server promises.
 */
#include "world.h"

#include "engines/redis/script.h"
#include "port.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct server redis;
static int link_fd = -1;
static struct model model;
static struct peer peer;

/* ---- Both sides ------------------------------------------------------------------------- */

static int64_t wall_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void begin(const char *const extra[])
{
    server_redis(&redis, extra);
    link_fd = port_connect(redis.port);
    CHECK(link_fd >= 0);
    world.dice = 20240;
    model = (struct model){.version = 7};
    model_start(&model, wall_us(), 1);
    peer = (struct peer){.allowed = true};
}

static void end(void)
{
    close(link_fd);
    model_free(&model);
    server_stop(&redis);
}

/* How long the first answer in there is; 0: not all of it has come. */
static size_t whole(const struct bytes *b, size_t at)
{
    const char *end = at < b->size ? memmem(b->at + at, b->size - at, "\r\n", 2) : NULL;
    if (!end) {
        return 0;
    }
    size_t next = (size_t)(end - b->at) + 2;
    long long number = strtoll(b->at + at + 1, NULL, 10);
    if (b->at[at] == '$' && number >= 0) {
        next += (size_t)number + 2;
    }
    for (long long i = 0; b->at[at] == '*' && i < number; i++) {
        size_t size = whole(b, next);
        if (size == 0) {
            return 0;
        }
        next += size;
    }
    return next <= b->size ? next - at : 0;
}

static void ask_real(int argc, const struct arg argv[], struct bytes *out)
{
    struct bytes command = {0};
    answer_array(&command, (size_t)argc);
    for (int i = 0; i < argc; i++) {
        answer_text(&command, argv[i]);
    }
    CHECK_INT(send(link_fd, command.at, command.size, MSG_NOSIGNAL), ==, command.size);
    bytes_free(&command);
    out->size = 0;
    while (whole(out, 0) == 0) {
        char bytes[4096];
        ssize_t n = recv(link_fd, bytes, sizeof bytes, 0);
        CHECK_INT(n, >, 0);
        bytes_add(out, bytes, (size_t)n);
    }
    bytes_add(out, "", 1);
}

static void ask_model(int argc, const struct arg argv[], struct bytes *out)
{
    out->size = 0;
    model_run(&model, &peer, argc, argv, out);
    bytes_add(out, "", 1);
}

static void cut_error(struct bytes *b)
{
    if (b->at[0] == '-') {
        b->at[strcspn(b->at, " \r")] = '\0';
        b->size = strlen(b->at) + 1;
    }
}

static void show(struct bytes *out, int argc, const struct arg argv[])
{
    out->size = 0;
    for (int i = 0; i < argc; i++) {
        bytes_add(out, argv[i].at, argv[i].size < 60 ? argv[i].size : 60);
        bytes_add(out, " ", 1);
    }
    bytes_add(out, "", 1);
}

/* Pairs, or items, whatever their order. */
static int by_bytes(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void sort_items(struct bytes *b, size_t each)
{
    static char items[200][400];
    size_t count = 0, at = 0;
    if (b->at[0] != '*' || b->at[1] == '0') {
        return;
    }
    at = (size_t)(strstr(b->at, "\r\n") - b->at) + 2;
    size_t start = at;
    while (at + 1 < b->size && count < 200) {
        size_t size = 0;
        for (size_t i = 0; i < each; i++) {
            size += whole(b, at + size);
        }
        snprintf(items[count++], sizeof items[0], "%.*s", (int)size, b->at + at);
        at += size;
    }
    qsort(items, count, sizeof items[0], by_bytes);
    b->size = start;
    for (size_t i = 0; i < count; i++) {
        bytes_add(b, items[i], strlen(items[i]));
    }
    bytes_add(b, "", 1);
}

static void both(int argc, const struct arg argv[])
{
    static struct bytes real, ours, text;
    ask_real(argc, argv, &real);
    ask_model(argc, argv, &ours);
    cut_error(&real);
    cut_error(&ours);
    if (arg_is(argv[0], "HGETALL")) {
        sort_items(&real, 2);
        sort_items(&ours, 2);
    } else if (arg_is(argv[0], "HKEYS") || arg_is(argv[0], "HVALS")) {
        sort_items(&real, 1);
        sort_items(&ours, 1);
    }
    if (real.size != ours.size || memcmp(real.at, ours.at, real.size) != 0) {
        show(&text, argc, argv);
        FAIL("%s\nthe server answers %s\nthe model answers %s", text.at, real.at, ours.at);
    }
}

static struct arg word(const char *text)
{
    return (struct arg){text, strlen(text)};
}

static void both_words(const char *line)
{
    struct arg argv[40] = {{"", 0}};
    int argc = 0;
    while (*line) {
        size_t size = strcspn(line, " ");
        argv[argc++] = (struct arg){line, size};
        line += size + (line[size] == ' ');
    }
    both(argc, argv);
}

static void compare_keys(void)
{
    static const char *const keys[] = {"a", "b", "c", "snib:{x}", "snib:{y}"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct arg type[] = {word("TYPE"), word(keys[i])};
        struct arg all[] = {word("HGETALL"), word(keys[i])};
        struct arg get[] = {word("GET"), word(keys[i])};
        struct arg time[] = {word("PEXPIRETIME"), word(keys[i])};
        both(2, type);
        both(2, all);
        both(2, get);
        both(2, time);
    }
    both_words("DBSIZE");
}

/* ---- Commands by dice ------------------------------------------------------------------- */

static const char *some(const char *const list[], size_t count)
{
    return list[roll(count)];
}

#define SOME(list) some(list, sizeof(list) / sizeof(list)[0])

static struct arg some_value(void)
{
    static const char *const values[] = {
        "1",         "0",
        "-7",        "x",
        "",          "9223372036854775807",
        "01",        "3.5",
        "some text", "a text too long for a list of small fields, which is what this one is"};
    return word(SOME(values));
}

static struct arg some_key(void)
{
    static const char *const keys[] = {"a", "b", "c"};
    return word(SOME(keys));
}

static struct arg some_field(void)
{
    static const char *const fields[] = {"f", "g", "h", "i", "s"};
    return word(SOME(fields));
}

static struct arg some_time(void)
{
    static char text[24];
    static const int64_t ahead_ms[] = {-5000, 3600000, 7200000, 86400000};
    snprintf(text, sizeof text, "%lld", (long long)(wall_us() / 1000 + ahead_ms[roll(4)]));
    return word(text);
}

static void one_by_dice(void)
{
    static const char *const names[] = {
        "HSET",      "HSET",      "HSET",        "HMSET",   "HSETNX", "HGET",    "HMGET",
        "HGETALL",   "HDEL",      "HDEL",        "HEXISTS", "HLEN",   "HSTRLEN", "HINCRBY",
        "HKEYS",     "HVALS",     "GET",         "MGET",    "SET",    "SET",     "STRLEN",
        "INCR",      "INCRBY",    "DEL",         "EXISTS",  "UNLINK", "TYPE",    "PERSIST",
        "PEXPIREAT", "PEXPIREAT", "PEXPIRETIME", "PUBLISH", "PUBSUB", "NOSUCH",  "hset",
        "SCRIPT",    "PING",      "FLUSHALL",    "EXPIRE",  "PTTL",   "SETRANGE"};
    struct arg argv[8];
    const char *name = SOME(names);
    int argc = 1;
    argv[0] = word(name);
    if (strcmp(name, "PTTL") == 0 || (strcmp(name, "FLUSHALL") == 0 && !chance(10))) {
        return; /* time goes on between the two */
    }
    if (strcmp(name, "PUBSUB") == 0) {
        argv[argc++] = word("NUMSUB");
    } else if (strcmp(name, "SCRIPT") == 0) {
        argv[argc++] = word("EXISTS");
        argv[argc++] = word("0123456789012345678901234567890123456789");
    } else if (strcmp(name, "FLUSHALL") != 0 && strcmp(name, "PING") != 0) {
        argv[argc++] = some_key();
    }
    if (name[0] == 'H' || name[0] == 'h') {
        bool pairs = strcmp(name, "HSET") == 0 || strcmp(name, "HMSET") == 0 || name[0] == 'h';
        bool alone = strcmp(name, "HLEN") == 0 || strcmp(name, "HGETALL") == 0 ||
                     strcmp(name, "HKEYS") == 0 || strcmp(name, "HVALS") == 0;
        for (uint64_t n = 1 + roll(2); !alone && n > 0; n--) {
            argv[argc++] = some_field();
            if (pairs || strcmp(name, "HSETNX") == 0 || strcmp(name, "HINCRBY") == 0) {
                argv[argc++] = some_value();
            }
        }
    } else if (strcmp(name, "SET") == 0) {
        static const char *const options[] = {"NX", "XX", "KEEPTTL", "OOPS"};
        argv[argc++] = some_value();
        if (chance(40)) {
            argv[argc++] = word(SOME(options));
        }
        if (chance(30)) {
            argv[argc++] = word("PXAT");
            argv[argc++] = chance(80) ? word("99999999999999") : some_value();
        }
    } else if (strcmp(name, "SETRANGE") == 0) {
        static const char *const places[] = {"0", "1", "5", "-1", "x"};
        argv[argc++] = word(SOME(places));
        argv[argc++] = some_value();
    } else if (strcmp(name, "PEXPIREAT") == 0) {
        argv[argc++] = chance(90) ? some_time() : some_value();
    } else if (strcmp(name, "EXPIRE") == 0) {
        argv[argc++] = word(chance(50) ? "-1" : "x");
    } else if (strcmp(name, "INCRBY") == 0 || strcmp(name, "PUBLISH") == 0) {
        argv[argc++] = some_value();
    }
    if (chance(3)) {
        argc -= argc > 1;
    }
    model.now_us = wall_us();
    both(argc, argv);
}

TEST_CASE(the_model_answers_as_a_server_does, 120, no_seed)
{
    begin(NULL);
    for (int i = 0; i < 20000; i++) {
        one_by_dice();
        if (i % 500 == 0) {
            compare_keys();
        }
    }
    compare_keys();
    end();
}

/* ---- What scripts see ------------------------------------------------------------------- */

static void both_eval(const char *text, const char *argument)
{
    struct arg argv[] = {word("EVAL"), word(text), word("1"), word("a"), word(argument)};
    model.now_us = wall_us();
    both(5, argv);
}

static const char *const seen_by_scripts[] = {
    "return 1",
    "return 3.99",
    "return -3.99",
    "return 'text'",
    "return true",
    "return false",
    "return nil",
    "return {1,2.7,'x',false,true,{'y'},nil,9}",
    "return {ok='FINE'}",
    "return {err='ODD thing'}",
    "return redis.error_reply('ODD thing')",
    "return redis.status_reply('FINE')",
    "return redis.sha1hex('') .. redis.sha1hex(ARGV[1])",
    "return redis.call('HSET', KEYS[1], 'f', 12345678901234567890)",
    "return redis.call('HSET', KEYS[1], 'f', 1.5, 'g', -0.1)",
    "return redis.call('HGETALL', KEYS[1])",
    "return redis.call('HGET', KEYS[1], 'nothing')",
    "return type(redis.call('HGET', KEYS[1], 'nothing'))",
    "return redis.call('SET', KEYS[1], 'x')",
    "return redis.call('SET', KEYS[1], 'x')['ok']",
    "return redis.call('HGET', KEYS[1], 'f')",
    "return redis.pcall('HGET', KEYS[1], 'f')",
    "return redis.pcall('HGET', KEYS[1], 'f')['err'] ~= nil",
    "return redis.call('DEL', KEYS[1])",
    "return redis.call('NOSUCH')",
    "return redis.call('SUBSCRIBE', 'x')",
    "return redis.call('HGET', KEYS[1])",
    "return redis.call()",
    "return redis.call('GET', {})",
    "x = 1",
    "return y",
    "return (",
    "error('oops')",
    "return string.format('%d', 1234567890123456)",
    "return tostring(1234567890123456)",
    "return 10 .. ''",
    "local a = redis.call('TIME') return #a",
    "return redis.call('PUBSUB', 'NUMSUB', 'nobody')",
    "return redis.call('PUBLISH', 'nobody', 'x')",
    "return struct.pack('>I4i2bB', 4294967295, -2, -1, 255)",
    "return struct.pack('<I8', 1234567890123456)",
    "return struct.pack('<LlTHhd', 1, -1, 2, 65535, -3, 0.5)",
    "return struct.pack('>dfI3', 1.25, 1.25, 70000)",
    "return struct.pack('sc3c0', 'abc', 'defgh', 'ijk')",
    "return struct.pack('!4bI4!8bd', 1, 2, 3, 4)",
    "return struct.pack('bxb', 1, 2)",
    "return {struct.unpack('>I4i2bB', struct.pack('>I4i2bB', 4294967295, -2, -1, 255))}",
    "return {struct.unpack('<I8I8', struct.pack('<I8I8', 1234567890123456, 7))}",
    "return {struct.unpack('sc3', 'abc\\0defgh')}",
    "return {struct.unpack('bc0', '\\3abcdef')}",
    "return {struct.unpack('<i3', '\\255\\255\\255')}",
    "return {struct.unpack('>I2', 'abcd', 3)}",
    "return {struct.unpack('>d', struct.pack('>d', 7))}",
    "return struct.size('>I4i2bB!8d')",
    "return struct.unpack('I4', 'ab')",
    "return struct.pack('q', 1)",
    "return {bit.band(255, 15), bit.bor(1, 2, 4), bit.bxor(5, 1), bit.bnot(0)}",
    "return {bit.lshift(1, 31), bit.rshift(-1, 28)}",
    "return {#KEYS, #ARGV, KEYS[1], ARGV[1]}",
};

TEST_CASE(scripts_see_the_same_in_the_model, 120, no_seed)
{
    begin(NULL);
    for (size_t i = 0; i < sizeof seen_by_scripts / sizeof seen_by_scripts[0]; i++) {
        both_eval(seen_by_scripts[i], "an argument");
        both_words("TYPE a");
    }
    both_words("EVAL x");
    both_words("EVALSHA 0123456789012345678901234567890123456789 0");
    both_words("EVAL return 2 x");
    end();
}

TEST_CASE(with_memory_full_the_model_refuses_what_a_server_refuses, 60, no_seed)
{
    static const char *const texts[] = {
        "return redis.call('HSET', KEYS[1], 'f', 1)",
        "redis.call('HDEL', KEYS[1], 'x') return redis.call('HSET', KEYS[1], 'f', 1)",
        "redis.call('PEXPIREAT', KEYS[1], 1e13) return redis.call('HSET', KEYS[1], 'g', 1)",
        "redis.call('HGET', KEYS[1], 'f') return redis.call('HSET', KEYS[1], 'h', 1)",
        "redis.call('PUBLISH', 'x', 'y') return redis.call('HSET', KEYS[1], 'i', 1)",
        "return redis.call('HGETALL', KEYS[1])",
    };
    begin(NULL);
    both_words("HSET a f 0");
    struct arg limit[] = {word("CONFIG"), word("SET"), word("maxmemory"), word("1")};
    static struct bytes out;
    ask_real(4, limit, &out);
    model.full = true;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        both_eval(texts[i], "");
    }
    both_words("HSET a f 1");
    both_words("HDEL a f");
    both_words("PEXPIREAT a 99999999999999");
    both_words("SET b 1");
    end();
}

TEST_CASE(a_replica_of_the_model_refuses_what_a_replica_refuses, 60, no_seed)
{
    begin((const char *const[]){"--replicaof", "127.0.0.1 1", "--replica-serve-stale-data", "yes",
                                NULL});
    model.replica = true;
    both_words("HSET a f 1");
    both_words("HGET a f");
    both_words("DEL a");
    both_eval("return redis.call('HSET', KEYS[1], 'f', 1)", "");
    both_eval("return redis.call('HGET', KEYS[1], 'f')", "");
    both_eval("return redis.call('PUBLISH', 'x', 'y')", "");
    both_eval("return redis.call('PEXPIREAT', KEYS[1], 99999999999999)", "");
    end();
}

/* ---- The shipped scripts ---------------------------------------------------------------- */

/* The same time for both: in front of the text, redis is another one that knows it. */
static void both_script(const struct snib__command *command, int64_t now_us)
{
    static char text[40000];
    struct arg argv[SNIB__COMMAND_MOST] = {{"", 0}};
    int n =
        snprintf(text, sizeof text,
                 "local real = redis local redis = {call = function(c, ...) if c == 'TIME' then "
                 "return {'%lld', '%lld'} end return real.call(c, ...) end} ",
                 (long long)(now_us / 1000000), (long long)(now_us % 1000000));
    for (int i = 0; i < command->argc; i++) {
        argv[i] = (struct arg){command->argv[i], command->sizes[i]};
    }
    size_t size = command->sizes[1];
    CHECK((size_t)n + size < sizeof text);
    memcpy(text + n, command->argv[1], size);
    argv[1] = (struct arg){text, (size_t)n + size};
    model.known_scripts = 0;
    host_forget();
    both(command->argc, argv);
}

TEST_CASE(the_shipped_scripts_do_the_same_in_the_model, 120, no_seed)
{
    const struct snib__layout *layout = &snib__layouts[SNIB__LAYOUT_NATIVE];
    /* In the order the fields came: the scripts may name any of several holders. */
    begin((const char *const[]){"--hash-max-listpack-entries", "100000",
                                "--hash-max-listpack-value", "100000", NULL});
    int64_t now_us = wall_us();
    uint64_t token = 0;
    for (int i = 0; i < 4000; i++) {
        static unsigned char ids[8][SNIB__ID_SIZE];
        struct snib__command command;
        int who = (int)roll(8);
        struct snib__wish wish = {
            .prefix = "snib",
            .name = chance(50) ? "x" : "y",
            .id = ids[who],
            .retention_ms = 3600000,
            .by_text = true,
            .mode = chance(60)   ? SNIB_EXCLUSIVE
                    : chance(50) ? SNIB_SHARED
                                 : SNIB_COUNTED,
            .permits = 2,
            .span = 1 + (unsigned)roll(3),
            .ttl_ms = 1000 + (int64_t)roll(4) * 10000,
            .inbox = chance(50) ? "snib:inbox:nobody" : NULL,
            .not_after_ms = chance(80) ? 0 : now_us / 1000 + (int64_t)roll(2000) - 1000,
            .who = "host:1",
            .label = chance(50) ? "" : "a label",
            .loose_ms = chance(70)   ? 0
                        : chance(50) ? -1
                                     : now_us / 1000 + 2000,
            .token = token,
            .force = chance(50),
        };
        if (!ids[who][0] || chance(5)) {
            uint64_t random = roll(1U << 30);
            memcpy(ids[who], &random, sizeof random);
            memcpy(ids[who] + 8, &i, sizeof i);
            ids[who][0] |= 1;
        }
        uint64_t what = roll(10);
        if (what < 5) {
            layout->attempt(&command, &wish);
        } else if (what < 7) {
            layout->renew(&command, &wish);
        } else if (what < 9) {
            layout->release(&command, &wish);
        } else {
            struct arg get[] = {word("HGET"), word("snib:{x}"), word("s")};
            static struct bytes out;
            ask_model(3, get, &out);
            const char *state = strchr(out.at, '\n');
            wish.name = "x";
            wish.token = 0;
            if (state && out.size > 70) { /* the last token, which one who holds it alone has */
                memcpy(&wish.token, state + 1 + 19, sizeof wish.token);
            }
            layout->evict(&command, &wish);
        }
        now_us += (int64_t)roll(1500000) - (chance(3) ? 3000000 : 0);
        model.now_us = wall_us();
        both_script(&command, now_us);
        if (i % 50 == 0) {
            compare_keys();
        }
    }
    compare_keys();
    end();
}
