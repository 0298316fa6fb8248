/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each command does: those of the engine and its scripts, and their like, so that others may
 * take their place.
 */
#include "model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define WRONG_TYPE "WRONGTYPE Operation against a key holding the wrong kind of value"
#define NOT_A_NUMBER "ERR value is not an integer or out of range"

/* ---- Arguments -------------------------------------------------------------------------- */

static bool number_of(struct arg a, int64_t *out)
{
    char text[24], *rest;
    if (a.size == 0 || a.size >= sizeof text) {
        return false;
    }
    memcpy(text, a.at, a.size);
    text[a.size] = '\0';
    const char *digits = text + (text[0] == '-');
    if (digits[0] < '0' || digits[0] > '9' || (digits[0] == '0' && (digits[1] || digits != text))) {
        return false;
    }
    errno = 0;
    *out = strtoll(text, &rest, 10);
    return rest == text + a.size && errno == 0;
}

static struct arg of(const struct bytes *b)
{
    return (struct arg){b->at, b->size};
}

/* The key of that sort, NULL if there is none; false: it is of another, and that was answered. */
static bool find(struct call *c, enum sort sort, struct key **out)
{
    *out = keys_find(model_keys(c), c->argv[1], model_now_ms(c->model));
    if (*out && (*out)->sort != sort) {
        answer_error(c->out, WRONG_TYPE);
        return false;
    }
    return true;
}

static struct key *make(struct call *c, struct key *k, enum sort sort)
{
    return k ? k : keys_make(model_keys(c), c->argv[1], sort);
}

static void remove_empty(struct call *c, struct key *k)
{
    if (k->count == 0) {
        keys_remove(model_keys(c), k);
    }
}

/* ---- Hashes ----------------------------------------------------------------------------- */

static void hset(struct call *c)
{
    struct key *k;
    int64_t added = 0;
    if (c->argc % 2 != 0) {
        answer_error(c->out, "ERR wrong number of arguments for 'hset' command");
        return;
    }
    if (!find(c, HASH, &k)) {
        return;
    }
    k = make(c, k, HASH);
    for (int i = 2; i < c->argc; i += 2) {
        added += key_set(k, c->argv[i], c->argv[i + 1]);
    }
    if (arg_is(c->argv[0], "HMSET")) {
        answer_ok(c->out);
    } else {
        answer_number(c->out, added);
    }
}

static void hsetnx(struct call *c)
{
    struct key *k;
    if (!find(c, HASH, &k)) {
        return;
    }
    bool there = k && key_field(k, c->argv[2]);
    if (!there) {
        key_set(make(c, k, HASH), c->argv[2], c->argv[3]);
    }
    answer_number(c->out, !there);
}

static void hget(struct call *c)
{
    struct key *k;
    if (!find(c, HASH, &k)) {
        return;
    }
    const struct field *f = k ? key_field(k, c->argv[2]) : NULL;
    if (f) {
        answer_text(c->out, of(&f->value));
    } else {
        answer_nil(c->out);
    }
}

static void hmget(struct call *c)
{
    struct key *k;
    if (!find(c, HASH, &k)) {
        return;
    }
    answer_array(c->out, (size_t)c->argc - 2);
    for (int i = 2; i < c->argc; i++) {
        const struct field *f = k ? key_field(k, c->argv[i]) : NULL;
        if (f) {
            answer_text(c->out, of(&f->value));
        } else {
            answer_nil(c->out);
        }
    }
}

static void hgetall(struct call *c)
{
    struct key *k;
    if (!find(c, HASH, &k)) {
        return;
    }
    bool names = !arg_is(c->argv[0], "HVALS"), values = !arg_is(c->argv[0], "HKEYS");
    size_t count = k ? k->count : 0;
    size_t from = k && k->spread ? (size_t)(c->model->order % (count ? count : 1)) : 0;
    answer_array(c->out, count * ((size_t)names + (size_t)values));
    for (size_t i = 0; i < count; i++) {
        const struct field *f = &k->fields[(from + i) % count];
        if (names) {
            answer_text(c->out, of(&f->name));
        }
        if (values) {
            answer_text(c->out, of(&f->value));
        }
    }
}

static void hdel(struct call *c)
{
    struct key *k;
    int64_t gone = 0;
    if (!find(c, HASH, &k)) {
        return;
    }
    for (int i = 2; k && i < c->argc; i++) {
        gone += key_unset(k, c->argv[i]);
    }
    if (k) {
        remove_empty(c, k);
    }
    answer_number(c->out, gone);
}

static void hlook(struct call *c) /* HEXISTS, HSTRLEN, HLEN */
{
    struct key *k;
    if (!find(c, HASH, &k)) {
        return;
    }
    if (arg_is(c->argv[0], "HLEN")) {
        answer_number(c->out, k ? (int64_t)k->count : 0);
        return;
    }
    const struct field *f = k ? key_field(k, c->argv[2]) : NULL;
    bool exists = arg_is(c->argv[0], "HEXISTS");
    answer_number(c->out, !f ? 0 : exists ? 1 : (int64_t)f->value.size);
}

static void hincrby(struct call *c)
{
    struct key *k;
    int64_t by, now = 0;
    if (!number_of(c->argv[3], &by)) {
        answer_error(c->out, NOT_A_NUMBER);
        return;
    }
    if (!find(c, HASH, &k)) {
        return;
    }
    const struct field *f = k ? key_field(k, c->argv[2]) : NULL;
    if (f && !number_of(of(&f->value), &now)) {
        answer_error(c->out, "ERR hash value is not an integer");
        return;
    }
    if (__builtin_add_overflow(now, by, &now)) {
        answer_error(c->out, "ERR increment or decrement would overflow");
        return;
    }
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)now);
    key_set(make(c, k, HASH), c->argv[2], (struct arg){text, (size_t)n});
    answer_number(c->out, now);
}

/* ---- Strings ---------------------------------------------------------------------------- */

static void get(struct call *c)
{
    struct key *k;
    if (!find(c, STRING, &k)) {
        return;
    }
    if (arg_is(c->argv[0], "STRLEN")) {
        answer_number(c->out, k ? (int64_t)k->fields[0].value.size : 0);
    } else if (k) {
        answer_text(c->out, of(&k->fields[0].value));
    } else {
        answer_nil(c->out);
    }
}

/* Of what is no string: nothing, as if it were not there. */
static void mget(struct call *c)
{
    answer_array(c->out, (size_t)c->argc - 1);
    for (int i = 1; i < c->argc; i++) {
        const struct key *k = keys_find(model_keys(c), c->argv[i], model_now_ms(c->model));
        if (k && k->sort == STRING) {
            answer_text(c->out, of(&k->fields[0].value));
        } else {
            answer_nil(c->out);
        }
    }
}

static void put(struct call *c, struct arg value, int64_t expires_ms, bool keep)
{
    struct key *k = keys_find(model_keys(c), c->argv[1], model_now_ms(c->model));
    int64_t before = k ? k->expires_ms : 0;
    if (k) {
        keys_remove(model_keys(c), k);
    }
    k = keys_make(model_keys(c), c->argv[1], STRING);
    key_set(k, (struct arg){"", 0}, value);
    k->expires_ms = keep ? before : expires_ms;
}

/* NX, XX, KEEPTTL, PX, EX, PXAT, EXAT. */
static void set(struct call *c)
{
    bool nx = false, xx = false, keep = false;
    int64_t now_ms = model_now_ms(c->model), at_ms = 0;
    for (int i = 3; i < c->argc; i++) {
        struct arg a = c->argv[i];
        bool px = arg_is(a, "PX"), ex = arg_is(a, "EX");
        bool pxat = arg_is(a, "PXAT"), exat = arg_is(a, "EXAT");
        if (arg_is(a, "NX") && !xx) {
            nx = true;
        } else if (arg_is(a, "XX") && !nx) {
            xx = true;
        } else if (arg_is(a, "KEEPTTL") && !at_ms) {
            keep = true;
        } else if ((px || ex || pxat || exat) && i + 1 < c->argc && !keep && !at_ms) {
            int64_t number;
            if (!number_of(c->argv[++i], &number)) {
                answer_error(c->out, NOT_A_NUMBER);
                return;
            }
            if (number <= 0 || (!pxat && number > INT64_MAX / 2000)) {
                answer_error(c->out, "ERR invalid expire time in 'set' command");
                return;
            }
            at_ms = px     ? now_ms + number
                    : ex   ? now_ms + number * 1000
                    : pxat ? number
                           : number * 1000;
        } else {
            answer_error(c->out, "ERR syntax error");
            return;
        }
    }
    bool there = keys_find(model_keys(c), c->argv[1], now_ms) != NULL;
    if ((nx && there) || (xx && !there)) {
        answer_nil(c->out);
        return;
    }
    put(c, c->argv[2], at_ms, keep);
    answer_ok(c->out);
}

static void incrby(struct call *c)
{
    struct key *k;
    int64_t by = 1, now = 0;
    if (c->argc > 2 && !number_of(c->argv[2], &by)) {
        answer_error(c->out, NOT_A_NUMBER);
        return;
    }
    if (!find(c, STRING, &k)) {
        return;
    }
    if (k && !number_of(of(&k->fields[0].value), &now)) {
        answer_error(c->out, NOT_A_NUMBER);
        return;
    }
    if (__builtin_add_overflow(now, by, &now)) {
        answer_error(c->out, "ERR increment or decrement would overflow");
        return;
    }
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)now);
    put(c, (struct arg){text, (size_t)n}, 0, true);
    answer_number(c->out, now);
}

/* Over what is there, or behind it with zeros between. */
static void setrange(struct call *c)
{
    struct key *k;
    int64_t at = 0;
    struct bytes whole = {0};
    struct arg part = c->argv[3];
    if (!number_of(c->argv[2], &at) || at < 0) {
        answer_error(c->out, at < 0 ? "ERR offset is out of range" : NOT_A_NUMBER);
        return;
    }
    if (!find(c, STRING, &k)) {
        return;
    }
    size_t before = k ? k->fields[0].value.size : 0, start = (size_t)at;
    if (part.size == 0) {
        answer_number(c->out, (int64_t)before);
        return;
    }
    bytes_add(&whole, k ? k->fields[0].value.at : "", start < before ? start : before);
    while (whole.size < start) {
        bytes_add(&whole, "", 1);
    }
    bytes_add(&whole, part.at, part.size);
    if (whole.size < before) {
        bytes_add(&whole, k->fields[0].value.at + whole.size, before - whole.size);
    }
    put(c, of(&whole), 0, true);
    answer_number(c->out, (int64_t)whole.size);
    bytes_free(&whole);
}

/* ---- Any key ---------------------------------------------------------------------------- */

static void del(struct call *c)
{
    int64_t n = 0;
    for (int i = 1; i < c->argc; i++) {
        struct key *k = keys_find(model_keys(c), c->argv[i], model_now_ms(c->model));
        n += k != NULL;
        if (k && !arg_is(c->argv[0], "EXISTS")) {
            keys_remove(model_keys(c), k);
        }
    }
    answer_number(c->out, n);
}

/* PEXPIREAT, EXPIREAT, PEXPIRE, EXPIRE. */
static void expire(struct call *c)
{
    bool at = arg_is(c->argv[0], "PEXPIREAT") || arg_is(c->argv[0], "EXPIREAT");
    bool in_s = arg_is(c->argv[0], "EXPIREAT") || arg_is(c->argv[0], "EXPIRE");
    int64_t when, now_ms = model_now_ms(c->model);
    if (!number_of(c->argv[2], &when)) {
        answer_error(c->out, NOT_A_NUMBER);
        return;
    }
    if (c->argc > 3) {
        answer_error(c->out, "ERR Unsupported option");
        return;
    }
    when = (in_s ? when * 1000 : when) + (at ? 0 : now_ms);
    struct key *k = keys_find(model_keys(c), c->argv[1], now_ms);
    if (k && when <= now_ms) {
        keys_remove(model_keys(c), k);
    } else if (k) {
        k->expires_ms = when;
        keys_touch(k);
    }
    answer_number(c->out, k != NULL);
}

static void persist(struct call *c)
{
    struct key *k = keys_find(model_keys(c), c->argv[1], model_now_ms(c->model));
    answer_number(c->out, k && k->expires_ms);
    if (k) {
        k->expires_ms = 0;
    }
}

static void pttl(struct call *c)
{
    int64_t now_ms = model_now_ms(c->model);
    const struct key *k = keys_find(model_keys(c), c->argv[1], now_ms);
    bool at = arg_is(c->argv[0], "PEXPIRETIME");
    answer_number(c->out, !k               ? -2
                          : !k->expires_ms ? -1
                          : at             ? k->expires_ms
                                           : k->expires_ms - now_ms);
}

static void type(struct call *c)
{
    const struct key *k = keys_find(model_keys(c), c->argv[1], model_now_ms(c->model));
    bytes_format(c->out, "+%s\r\n", !k ? "none" : k->sort == HASH ? "hash" : "string");
}

/* All at once; of a pattern, what is in front of the first star. */
static void scan(struct call *c)
{
    struct keyspace *s = model_keys(c);
    struct arg prefix = {"", 0};
    size_t count = 0;
    char plain[512];
    keys_expire(s, model_now_ms(c->model));
    for (int i = 2; i + 1 < c->argc; i += 2) {
        if (arg_is(c->argv[i], "MATCH")) {
            size_t n = 0;
            for (size_t k = 0; k < c->argv[i + 1].size && c->argv[i + 1].at[k] != '*'; k++) {
                k += c->argv[i + 1].at[k] == '\\';
                plain[n++] = c->argv[i + 1].at[k];
            }
            prefix = (struct arg){plain, n};
        }
    }
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            answer_array(c->out, 2);
            answer_text(c->out, (struct arg){"0", 1});
            answer_array(c->out, count);
        }
        for (size_t i = 0; i < s->count; i++) {
            const struct bytes *name = &s->keys[i].name;
            bool fits = name->size >= prefix.size && memcmp(name->at, prefix.at, prefix.size) == 0;
            count += pass == 0 && fits;
            if (pass == 1 && fits) {
                answer_text(c->out, of(name));
            }
        }
    }
}

static void dbsize(struct call *c)
{
    keys_expire(model_keys(c), model_now_ms(c->model));
    answer_number(c->out, (int64_t)model_keys(c)->count);
}

static void flush(struct call *c)
{
    for (int i = 0; i < DATABASES; i++) {
        keys_clear(&c->model->databases[i]);
    }
    answer_ok(c->out);
}

/* ---- Messages --------------------------------------------------------------------------- */

static void publish(struct call *c)
{
    answer_number(c->out, model_publish(c->model, c->argv[1], c->argv[2]));
}

static void numsub(struct call *c)
{
    if (!arg_is(c->argv[1], "NUMSUB")) {
        answer_error(c->out, "ERR Unknown subcommand or wrong number of arguments");
        return;
    }
    answer_array(c->out, (size_t)(c->argc - 2) * 2);
    for (int i = 2; i < c->argc; i++) {
        answer_text(c->out, c->argv[i]);
        answer_number(c->out, model_listeners(c->model, c->argv[i]));
    }
}

static void subscribe(struct call *c)
{
    struct peer *p = c->peer;
    for (int i = 1; i < c->argc && p->channel_count < CHANNELS; i++) {
        bytes_add(&p->channels[p->channel_count++], c->argv[i].at, c->argv[i].size);
        answer_array(c->out, 3);
        answer_text(c->out, (struct arg){"subscribe", 9});
        answer_text(c->out, c->argv[i]);
        answer_number(c->out, p->channel_count);
    }
}

static void unsubscribe(struct call *c)
{
    struct peer *p = c->peer;
    for (int i = 1; i < c->argc; i++) {
        for (int k = 0; k < p->channel_count; k++) {
            if (p->channels[k].size == c->argv[i].size &&
                memcmp(p->channels[k].at, c->argv[i].at, c->argv[i].size) == 0) {
                bytes_free(&p->channels[k]);
                p->channels[k] = p->channels[--p->channel_count];
                p->channels[p->channel_count] = (struct bytes){0};
                break;
            }
        }
        answer_array(c->out, 3);
        answer_text(c->out, (struct arg){"unsubscribe", 11});
        answer_text(c->out, c->argv[i]);
        answer_number(c->out, p->channel_count);
    }
}

static void ping(struct call *c)
{
    if (c->peer && c->peer->channel_count > 0) {
        answer_array(c->out, 2);
        answer_text(c->out, (struct arg){"pong", 4});
        answer_text(c->out, (struct arg){"", 0});
    } else {
        bytes_add(c->out, "+PONG\r\n", 7);
    }
}

/* ---- The server itself ------------------------------------------------------------------ */

static void time_now(struct call *c)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)(c->model->now_us / 1000000));
    answer_array(c->out, 2);
    answer_text(c->out, (struct arg){text, (size_t)n});
    n = snprintf(text, sizeof text, "%lld", (long long)(c->model->now_us % 1000000));
    answer_text(c->out, (struct arg){text, (size_t)n});
}

static void info(struct call *c)
{
    const struct model *m = c->model;
    char text[400] = "";
    struct arg section = c->argc > 1 ? c->argv[1] : (struct arg){"server", 6};
    if (arg_is(section, "server")) {
        int64_t up_us = m->now_us - m->started_us;
        snprintf(text, sizeof text,
                 "# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\narch_bits:64\r\n"
                 "run_id:%s\r\nuptime_in_seconds:%lld\r\n",
                 m->version == 6 ? "6.2.14" : "7.0.15", m->run_id,
                 (long long)(up_us > 0 ? up_us / 1000000 : 0));
    } else if (arg_is(section, "memory")) {
        snprintf(text, sizeof text, "# Memory\r\nmaxmemory:%d\r\nmaxmemory_policy:noeviction\r\n",
                 m->full ? 1 : 0);
    } else if (arg_is(section, "persistence")) {
        snprintf(text, sizeof text, "# Persistence\r\nloading:%d\r\naof_enabled:%d\r\n", m->loading,
                 m->aof);
    } else if (arg_is(section, "replication")) {
        snprintf(text, sizeof text, "# Replication\r\nrole:%s\r\nconnected_slaves:0\r\n",
                 m->replica ? "slave" : "master");
    }
    answer_text(c->out, (struct arg){text, strlen(text)});
}

static void config(struct call *c)
{
    const char *fsync = c->model->aof ? "always" : "everysec";
    if (arg_is(c->argv[1], "GET") && c->argc == 3 && arg_is(c->argv[2], "appendfsync")) {
        answer_array(c->out, 2);
        answer_text(c->out, (struct arg){"appendfsync", 11});
        answer_text(c->out, (struct arg){fsync, strlen(fsync)});
    } else {
        answer_array(c->out, 0);
    }
}

static void client(struct call *c)
{
    answer_ok(c->out);
}

static void auth(struct call *c)
{
    const char *password = c->model->password;
    struct arg given = c->argv[c->argc - 1];
    if (!password) {
        answer_error(c->out, "ERR AUTH <password> called without any password configured for the "
                             "default user. Are you sure your configuration is correct?");
    } else if (given.size == strlen(password) && memcmp(given.at, password, given.size) == 0) {
        c->peer->allowed = true;
        answer_ok(c->out);
    } else {
        answer_error(c->out, "WRONGPASS invalid username-password pair or user is disabled.");
    }
}

static void select_db(struct call *c)
{
    int64_t n;
    if (!number_of(c->argv[1], &n)) {
        answer_error(c->out, "ERR invalid DB index");
    } else if (n < 0 || n >= DATABASES) {
        answer_error(c->out, "ERR DB index is out of range");
    } else {
        c->peer->database = (int)n;
        answer_ok(c->out);
    }
}

static void eval(struct call *c)
{
    host_eval(c, arg_is(c->argv[0], "EVALSHA"));
}

static void script(struct call *c)
{
    host_script(c);
}

static const struct command commands[] = {
    {"evalsha", -3, OUTSIDE, eval},
    {"eval", -3, OUTSIDE, eval},
    {"hset", -4, WRITES | GROWS, hset},
    {"hmget", -3, 0, hmget},
    {"hget", 3, 0, hget},
    {"hdel", -3, WRITES, hdel},
    {"pexpireat", -3, WRITES, expire},
    {"time", 1, ALWAYS, time_now},
    {"hgetall", 2, 0, hgetall},
    {"hexists", 3, 0, hlook},
    {"pubsub", -2, ALWAYS, numsub},
    {"publish", 3, ALWAYS, publish},
    {"get", 2, 0, get},
    {"mget", -2, 0, mget},
    {"set", -3, WRITES | GROWS, set},
    {"setrange", 4, WRITES | GROWS, setrange},
    {"del", -2, WRITES, del},
    {"hmset", -4, WRITES | GROWS, hset},
    {"hsetnx", 4, WRITES | GROWS, hsetnx},
    {"hincrby", 4, WRITES | GROWS, hincrby},
    {"hlen", 2, 0, hlook},
    {"hstrlen", 3, 0, hlook},
    {"hkeys", 2, 0, hgetall},
    {"hvals", 2, 0, hgetall},
    {"strlen", 2, 0, get},
    {"incr", 2, WRITES | GROWS, incrby},
    {"incrby", 3, WRITES | GROWS, incrby},
    {"exists", -2, 0, del},
    {"unlink", -2, WRITES, del},
    {"expireat", -3, WRITES, expire},
    {"pexpire", -3, WRITES, expire},
    {"expire", -3, WRITES, expire},
    {"persist", 2, WRITES, persist},
    {"pttl", 2, 0, pttl},
    {"pexpiretime", 2, 0, pttl},
    {"type", 2, 0, type},
    {"scan", -2, 0, scan},
    {"dbsize", 1, 0, dbsize},
    {"flushall", -1, WRITES, flush},
    {"subscribe", -2, OUTSIDE | ALWAYS, subscribe},
    {"unsubscribe", -2, OUTSIDE | ALWAYS, unsubscribe},
    {"ping", -1, 0, ping},
    {"info", -1, ALWAYS, info},
    {"config", -2, OUTSIDE | ALWAYS, config},
    {"client", -2, OUTSIDE | ALWAYS, client},
    {"auth", -2, OUTSIDE | ALWAYS | ENTERS, auth},
    {"select", 2, ALWAYS, select_db},
    {"script", -2, OUTSIDE, script},
};

const struct command *command_find(struct arg name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (arg_is(name, commands[i].name)) {
            return &commands[i];
        }
    }
    return NULL;
}

bool command_fits(const struct command *c, int argc)
{
    return c->arity >= 0 ? argc == c->arity : argc >= -c->arity;
}
