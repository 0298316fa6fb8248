/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies: hiredis takes the bytes apart, this builds what it finds.
 *
 * The server is not trusted with our memory. hiredis refuses a nesting deeper than it has room for;
 * the functions here refuse a text above 1 MiB, more items than the largest lock could have, and
 * a reply that is larger in all than 16 MiB, whether it has arrived or is only announced. All of a
 * reply is in one arena, which is emptied for the next: the usual reply costs no allocation.
 */
#include "engines/redis/reply.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (1U << 20)
#define ITEMS_MAX 400000U
#define REPLY_MAX (16U << 20)
#define BLOCK 4096

struct block {
    struct block *before;
    size_t used, room;
    _Alignas(max_align_t) char bytes[];
};

struct snib__reader {
    redisReader *parser;
    struct block *block;
    size_t built; /* bytes of the present reply */
    size_t items;
    size_t fed; /* since the last whole reply */
};

static void *grab(struct snib__reader *r, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (r->built + size > REPLY_MAX) {
        return NULL;
    }
    struct block *b = r->block;
    if (!b || b->room - b->used < size) {
        size_t room = size > BLOCK ? size : BLOCK;
        b = malloc(sizeof *b + room);
        if (!b) {
            return NULL;
        }
        b->before = r->block;
        b->used = 0;
        b->room = room;
        r->block = b;
    }
    void *p = b->bytes + b->used;
    b->used += size;
    r->built += size;
    return p;
}

/* Keep one block of the usual size. */
static void empty(struct snib__reader *r)
{
    while (r->block && (r->block->before || r->block->room > BLOCK)) {
        struct block *before = r->block->before;
        free(r->block);
        r->block = before;
    }
    if (r->block) {
        r->block->used = 0;
    }
    r->built = r->items = 0;
}

/* ---- What hiredis calls ----------------------------------------------------------------- */

#if HIREDIS_MAJOR >= 1
typedef size_t item_count;
#else
typedef int item_count;
#endif

static struct snib__reply *make(const redisReadTask *task, int type)
{
    struct snib__reader *r = task->privdata;
    struct snib__reply *reply = grab(r, sizeof *reply);
    if (!reply) {
        return NULL;
    }
    *reply = (struct snib__reply){.type = type, .text = ""};
    if (task->parent) {
        struct snib__reply *parent = task->parent->obj;
        parent->items[task->idx] = reply;
    }
    return reply;
}

static void *make_text(const redisReadTask *task, char *text, size_t size)
{
    struct snib__reader *r = task->privdata;
    char *copy = size <= TEXT_MAX ? grab(r, size + 1) : NULL;
    struct snib__reply *reply = copy ? make(task, task->type) : NULL;
    if (!reply) {
        return NULL;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    reply->text = copy;
    reply->size = size;
    return reply;
}

static void *make_array(const redisReadTask *task, item_count count)
{
    struct snib__reader *r = task->privdata;
    if (count < 0 || (size_t)count > ITEMS_MAX - r->items) {
        return NULL;
    }
    struct snib__reply *reply = make(task, task->type);
    if (!reply) {
        return NULL;
    }
    r->items += (size_t)count;
    reply->items = grab(r, ((size_t)count + 1) * sizeof(struct snib__reply *));
    if (!reply->items) {
        return NULL;
    }
    reply->count = (size_t)count;
    return reply;
}

static void *make_integer(const redisReadTask *task, long long value)
{
    struct snib__reply *reply = make(task, REDIS_REPLY_INTEGER);
    if (reply) {
        reply->integer = value;
    }
    return reply;
}

static void *make_nil(const redisReadTask *task)
{
    return make(task, REDIS_REPLY_NIL);
}

#if HIREDIS_MAJOR >= 1
static void *make_double(const redisReadTask *task, double value, char *text, size_t size)
{
    (void)value;
    return make_text(task, text, size);
}

static void *make_bool(const redisReadTask *task, int value)
{
    return make_integer(task, value);
}
#endif

static void forget(void *reply)
{
    (void)reply; /* the arena has it */
}

static redisReplyObjectFunctions makers = {
    .createString = make_text,
    .createArray = make_array,
    .createInteger = make_integer,
    .createNil = make_nil,
#if HIREDIS_MAJOR >= 1
    .createDouble = make_double,
    .createBool = make_bool,
#endif
    .freeObject = forget,
};

/* ---- Reading ---------------------------------------------------------------------------- */

struct snib__reader *snib__reader_new(void)
{
    struct snib__reader *r = calloc(1, sizeof *r);
    if (r) {
        r->parser = redisReaderCreateWithFunctions(&makers);
        if (!r->parser) {
            free(r);
            return NULL;
        }
        r->parser->privdata = r;
    }
    return r;
}

void snib__reader_free(struct snib__reader *r)
{
    if (r) {
        redisReaderFree(r->parser);
        empty(r);
        free(r->block);
        free(r);
    }
}

bool snib__reader_feed(struct snib__reader *r, const char *bytes, size_t size)
{
    r->fed += size;
    return r->fed <= REPLY_MAX && redisReaderFeed(r->parser, bytes, size) == REDIS_OK;
}

int snib__reader_next(struct snib__reader *r, const struct snib__reply **out)
{
    void *reply = NULL;
    if (!r->parser->reply) { /* else half of one is there already */
        empty(r);
    }
    if (redisReaderGetReply(r->parser, &reply) != REDIS_OK) {
        return -1;
    }
    if (!reply) {
        return 0;
    }
    r->fed = 0;
    *out = reply;
    return 1;
}

static const struct snib__reply *item(const struct snib__reply *reply, size_t index)
{
    return index < reply->count ? reply->items[index] : NULL;
}

const char *snib__reply_text(const struct snib__reply *reply, size_t index)
{
    const struct snib__reply *i = item(reply, index);
    return i ? i->text : "";
}

const char *snib__reply_bytes(const struct snib__reply *reply, size_t index, size_t *size)
{
    const struct snib__reply *i = item(reply, index);
    *size = i ? i->size : 0;
    return i ? i->text : "";
}

int64_t snib__reply_number(const struct snib__reply *reply, size_t index)
{
    const struct snib__reply *i = item(reply, index);
    if (!i) {
        return 0;
    }
    return i->type == REDIS_REPLY_INTEGER ? i->integer : strtoll(i->text, NULL, 10);
}
