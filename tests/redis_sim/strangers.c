/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other programs on the same locks, one for each name, as their libraries do it: redis-py in the
 * layout `plain`, Redisson's RLock in `redisson`. They have no network between them and the server:
 * what they ask for is done at once, or not at all.
 *
 * One believes in its lock until its lease is over by the true time, or until something happened
 * after which no lease was promised to anybody. Now and then one dies and leaves its key behind.
 */
#include "world.h"

#include <stdio.h>

/* To the same effect as theirs. */
static const char redis_py_release[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])";
static const char redisson_lock[] =
    "local left = redis.call('PTTL', KEYS[1]) "
    "if left ~= -2 and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return left end "
    "redis.call('HINCRBY', KEYS[1], ARGV[2], 1) redis.call('PEXPIRE', KEYS[1], ARGV[1]) "
    "return false";
static const char redisson_unlock[] =
    "if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return false end "
    "if redis.call('HINCRBY', KEYS[1], ARGV[2], -1) > 0 then return 0 end "
    "redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[2], ARGV[1]) return 1";

/* The first byte of the answer and what comes behind it; "": the server does not answer. */
static const char *run(const char *const words[], int count)
{
    static struct bytes out;
    struct arg argv[8];
    struct peer asker = {.allowed = true, .database = world.config.database ? 3 : 0};
    if (master()->down || master()->paused) {
        return "";
    }
    for (int i = 0; i < count; i++) {
        argv[i] = (struct arg){words[i], strlen(words[i])};
    }
    out.size = 0;
    model_run(&master()->model, &asker, count, argv, &out);
    bytes_add(&out, "", 1);
    wires_flush(world.master);
    return out.at;
}

#define RUN(...)                                                                                   \
    run((const char *const[]){__VA_ARGS__},                                                        \
        (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static void take(struct stranger *s, int name, const char *key)
{
    char ttl[24];
    bool redisson = world.config.layout == SNIB__LAYOUT_REDISSON;
    snprintf(ttl, sizeof ttl, "%lld", (long long)world.config.ttl_ms);
    snprintf(s->secret, sizeof s->secret, "stranger:%d", (int)roll(1000000));
    const char *answer = redisson ? RUN("EVAL", redisson_lock, "1", key, ttl, s->secret)
                                  : RUN("SET", key, s->secret, "NX", "PX", ttl);
    s->holds = strncmp(answer, redisson ? "$-1" : "+OK", 3) == 0;
    if (s->holds) {
        s->turns++;
        s->leaves = chance(20);
        s->until_ns = world.now_ns + (world.config.ttl_ms - 1) * MS; /* the server cuts it */
        note(-1, "another program has %s", name_text(name));
    }
}

static void give(struct stranger *s, int name, const char *key)
{
    char channels[SNIB__CHANNELS][SNIB__KEY_MAX];
    layout()->channels(channels, layout()->prefix, "0", name_text(name));
    bool believed = stranger_believes(name);
    s->until_ns = 0;
    s->holds = false;
    if (s->leaves) {
        return;
    }
    const char *answer = world.config.layout == SNIB__LAYOUT_REDISSON
                             ? RUN("EVAL", redisson_unlock, "2", key, channels[0], "0", s->secret)
                             : RUN("EVAL", redis_py_release, "1", key, s->secret);
    note(-1, "another program gives %s back: %.3s", name_text(name), answer);
    bool refused = answer[0] == '\0' || answer[0] == '-';
    SIM_CHECK(!believed || refused || world.seizing[name] || strncmp(answer, ":1", 2) == 0,
              "the lock of another program was taken away");
}

void strangers_begin(void)
{
    for (int i = 0; world.config.strangers && i < world.config.names; i++) {
        struct event event = {.kind = STRANGER, .which = i};
        post(&event, world.now_ns + span_ns(world.config.gap_ms));
    }
}

void stranger_event(const struct event *e)
{
    struct stranger *s = &world.strangers[e->which];
    char key[SNIB__KEY_MAX];
    layout()->key(key, layout()->prefix, name_text(e->which));
    if (s->holds) {
        give(s, e->which, key);
    } else if (!world.calm) {
        take(s, e->which, key);
    }
    if (s->holds || !world.calm) {
        struct event again = {.kind = STRANGER, .which = e->which};
        post(&again,
             world.now_ns + 1000 + even_ns(s->holds ? world.config.hold_ms : world.config.gap_ms));
    }
}

void stranger_rupture(int name)
{
    world.strangers[name].until_ns = 0;
}

bool stranger_believes(int name)
{
    return world.strangers[name].until_ns > world.now_ns;
}
