/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings and hashes, and when they expire. Few keys, few fields: all are looked through.
 *
 * A hash that Redis keeps as a list shows its fields in the order they came; a larger one in an
 * order of its own. 128 fields, or 64 bytes in one, are the limit, as in the server's defaults.
 */
#include "model.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Bytes ------------------------------------------------------------------------------ */

/* With a zero behind them, so that numbers in there can be read as text. */
void bytes_add(struct bytes *b, const void *at, size_t size)
{
    if (!b->at || b->size + size + 1 > b->room) {
        b->room = b->size + size + 32 + b->room / 2;
        b->at = realloc(b->at, b->room);
        assert(b->at);
    }
    if (size > 0) {
        memcpy(b->at + b->size, at, size);
    }
    b->size += size;
    b->at[b->size] = '\0';
}

void bytes_format(struct bytes *b, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert(n >= 0);
    bytes_add(b, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

void bytes_free(struct bytes *b)
{
    free(b->at);
    *b = (struct bytes){0};
}

static void bytes_set(struct bytes *b, struct arg to)
{
    b->size = 0;
    bytes_add(b, to.at, to.size);
}

bool arg_is(struct arg a, const char *word)
{
    return strlen(word) == a.size && strncasecmp(a.at, word, a.size) == 0;
}

static bool same(const struct bytes *b, struct arg a)
{
    return b->size == a.size && memcmp(b->at, a.at, a.size) == 0;
}

static uint32_t hash_of(struct arg a)
{
    uint32_t hash = 2166136261U;
    for (size_t i = 0; i < a.size; i++) {
        hash = (hash ^ (unsigned char)a.at[i]) * 16777619U;
    }
    return hash;
}

/* ---- Fields ----------------------------------------------------------------------------- */

void keys_touch(struct key *k)
{
    static uint64_t last;
    k->version = ++last;
}

struct field *key_field(const struct key *k, struct arg name)
{
    uint32_t hash = hash_of(name);
    for (size_t i = 0; i < k->count; i++) {
        if (k->fields[i].hash == hash && same(&k->fields[i].name, name)) {
            return &k->fields[i];
        }
    }
    return NULL;
}

bool key_set(struct key *k, struct arg name, struct arg value)
{
    struct field *f = key_field(k, name);
    bool fresh = !f;
    if (fresh) {
        if (k->count == k->room) {
            k->room = k->room ? k->room * 2 : 8;
            k->fields = realloc(k->fields, k->room * sizeof *k->fields);
            assert(k->fields);
        }
        f = &k->fields[k->count++];
        *f = (struct field){.hash = hash_of(name)};
        bytes_set(&f->name, name);
    }
    bytes_set(&f->value, value);
    k->spread = k->spread || k->count > 128 || name.size > 64 || value.size > 64;
    keys_touch(k);
    return fresh;
}

static void free_field(struct field *f)
{
    bytes_free(&f->name);
    bytes_free(&f->value);
}

bool key_unset(struct key *k, struct arg name)
{
    struct field *f = key_field(k, name);
    if (!f) {
        return false;
    }
    free_field(f);
    memmove(f, f + 1, (size_t)(k->fields + k->count - f - 1) * sizeof *f);
    k->count--;
    keys_touch(k);
    return true;
}

size_t key_bytes(const struct key *k)
{
    size_t size = k->name.size;
    for (size_t i = 0; i < k->count; i++) {
        size += k->fields[i].name.size + k->fields[i].value.size;
    }
    return size;
}

/* ---- Keys ------------------------------------------------------------------------------- */

static void free_key(struct key *k)
{
    for (size_t i = 0; i < k->count; i++) {
        free_field(&k->fields[i]);
    }
    free(k->fields);
    bytes_free(&k->name);
}

void keys_remove(struct keyspace *s, struct key *k)
{
    free_key(k);
    memmove(k, k + 1, (size_t)(s->keys + s->count - k - 1) * sizeof *k);
    s->count--;
}

struct key *keys_find(struct keyspace *s, struct arg name, int64_t now_ms)
{
    for (size_t i = 0; i < s->count; i++) {
        struct key *k = &s->keys[i];
        if (same(&k->name, name)) {
            if (k->expires_ms && k->expires_ms <= now_ms) {
                keys_remove(s, k);
                return NULL;
            }
            return k;
        }
    }
    return NULL;
}

struct key *keys_make(struct keyspace *s, struct arg name, enum sort sort)
{
    if (s->count == s->room) {
        s->room = s->room ? s->room * 2 : 8;
        s->keys = realloc(s->keys, s->room * sizeof *s->keys);
        assert(s->keys);
    }
    struct key *k = &s->keys[s->count++];
    *k = (struct key){.sort = sort};
    bytes_set(&k->name, name);
    keys_touch(k);
    return k;
}

void keys_expire(struct keyspace *s, int64_t now_ms)
{
    for (size_t i = s->count; i-- > 0;) {
        if (s->keys[i].expires_ms && s->keys[i].expires_ms <= now_ms) {
            keys_remove(s, &s->keys[i]);
        }
    }
}

void keys_clear(struct keyspace *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free_key(&s->keys[i]);
    }
    free(s->keys);
    *s = (struct keyspace){0};
}

void keys_copy(struct keyspace *to, const struct keyspace *from)
{
    keys_clear(to);
    for (size_t i = 0; i < from->count; i++) {
        const struct key *k = &from->keys[i];
        struct key *copy = keys_make(to, (struct arg){k->name.at, k->name.size}, k->sort);
        copy->expires_ms = k->expires_ms;
        for (size_t f = 0; f < k->count; f++) {
            const struct field *one = &k->fields[f];
            key_set(copy, (struct arg){one->name.at, one->name.size},
                    (struct arg){one->value.at, one->value.size});
        }
        copy->spread = k->spread;
    }
}
