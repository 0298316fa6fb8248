/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking, and breaking.
 *
 * inspect reads one hash and tells who is in it; list finds the hashes by SCAN, which disturbs
 * nobody, never by KEYS, and reads them some at a time. What is over by the server's clock is not
 * shown, although it may still be in the hash: nobody had a reason to sweep. What was lost with a
 * connection is asked for once more. Break is one script, and is not repeated: the second could not
 * tell what the first one did.
 */
#include "engines/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOGETHER 64 /* hashes asked for at the same time */

static void end(struct snib__redis *r, struct snib__query *query)
{
    struct snib__look *look = query->state;
    for (struct snib__look **p = &r->looks; *p; p = &(*p)->next) {
        if (*p == look) {
            *p = look->next;
            break;
        }
    }
    for (size_t i = 0; i < look->count; i++) {
        free(look->keys[i]);
    }
    free(look->keys);
    snib__finish(query, look->code, look->sys, look->why[0] ? look->why : NULL);
}

static void fail(struct snib__redis *r, struct snib__look *look, int code, int sys, const char *why)
{
    if (look->code == 0) {
        look->code = code;
        look->sys = sys;
        snprintf(look->why, sizeof look->why, "%.90s: %.100s", r->where, why);
    }
}

static bool add_key(struct snib__look *look, const char *key)
{
    if (look->count == look->room) {
        size_t room = look->room ? look->room * 2 : 16;
        char **keys = realloc(look->keys, room * sizeof(char *));
        if (!keys) {
            return false;
        }
        look->keys = keys;
        look->room = room;
    }
    look->keys[look->count] = strdup(key);
    return look->keys[look->count] && ++look->count;
}

static void ask_next(struct snib__redis *r, struct snib__query *query)
{
    struct snib__look *look = query->state;
    while (look->code == 0 && look->under_way < TOGETHER && look->asked < look->count) {
        const char *argv[] = {"HGETALL", look->keys[look->asked]};
        if (!snib__redis_command(r, SNIB__ASK_LOOK, query, 2, argv)) {
            fail(r, look, SNIB_ENOMEM, 0, "out of memory");
            break;
        }
        look->asked++;
        look->under_way++;
    }
    if (look->under_way == 0) {
        end(r, query);
    }
}

/* ---- One hash --------------------------------------------------------------------------- */

struct sight {
    int64_t order; /* holders by token, waiters by place */
    bool waits;
    char mode;
    int64_t expiry_ms, since_ms;
    const char *info; /* "WHO LABEL" */
};

static int by_field(const void *a, const void *b)
{
    const struct snib__reply *const *x = a, *const *y = b;
    return strcmp(x[0]->text, y[0]->text);
}

static int by_order(const void *a, const void *b)
{
    const struct sight *x = a, *y = b;
    if (x->waits != y->waits) {
        return x->waits ? 1 : -1;
    }
    return x->order != y->order ? (x->order > y->order ? 1 : -1) : x->since_ms > y->since_ms;
}

/* The value of a field, in a reply whose pairs are sorted. */
static const char *value_of(const struct snib__reply *hash, const char *sort, const char *id)
{
    char name[SNIB__ID_MAX + 8];
    size_t low = 0, high = hash->count / 2;
    snprintf(name, sizeof name, "%s%.40s", sort, id);
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(hash->items[2 * middle]->text, name);
        if (order == 0) {
            return hash->items[2 * middle + 1]->text;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return "";
}

static bool read_holder(struct sight *s, const struct snib__reply *hash, const char *id,
                        const char *record)
{
    long long token, expiry, ttl, since = 0;
    int behind = 0;
    if (sscanf(record, "%lld %c %lld %lld", &token, &s->mode, &expiry, &ttl) != 4) {
        return false;
    }
    const char *info = value_of(hash, "i:", id);
    (void)sscanf(info, "%lld %n", &since, &behind);
    s->order = token;
    s->expiry_ms = expiry;
    s->since_ms = since;
    s->info = info + behind;
    return true;
}

static bool read_waiter(struct sight *s, const struct snib__reply *hash, const char *record)
{
    char id[SNIB__ID_MAX + 1];
    long long expiry, lease, ttl, grant, place, since;
    int behind = 0;
    if (sscanf(record, "%40s %c %lld %lld %lld %lld %*d %*s %n", id, &s->mode, &expiry, &lease,
               &ttl, &grant, &behind) != 6 ||
        sscanf(value_of(hash, "t:", id), "%lld %lld", &place, &since) != 2) {
        return false;
    }
    s->waits = true;
    s->order = place;
    s->expiry_ms = expiry;
    s->since_ms = since;
    s->info = record + behind;
    return true;
}

static void show(struct snib__redis *r, struct snib__query *query, const char *key,
                 const struct sight *s, int place, unsigned permits)
{
    char name[SNIB__KEY_MAX], who[128];
    size_t before = strlen(r->session->values[SNIB__REDIS_PREFIX].text) + 2;
    size_t size = strlen(key) - before - 1;
    const char *space = strchr(s->info, ' ');
    int64_t now_ms = snib__now().boot_ns / SNIB__MS + (r->clock.low_ms + r->clock.high_ms) / 2;
    snprintf(name, sizeof name, "%.*s", (int)size, key + before);
    snprintf(who, sizeof who, "%.*s", space ? (int)(space - s->info) : 127, s->info);
    int64_t left_ms = s->expiry_ms - now_ms;
    snib_seen seen = {
        .size = sizeof seen,
        .name = name,
        .who = who,
        .label = space ? space + 1 : "",
        .token = s->waits ? 0 : (uint64_t)s->order,
        .mode = s->mode == 'x'   ? SNIB_EXCLUSIVE
                : s->mode == 's' ? SNIB_SHARED
                                 : SNIB_COUNTED,
        .place = place,
        .permits = permits ? permits : 1,
        .since_unix_ms = s->since_ms,
        .left_ms = s->waits      ? -1
                   : left_ms > 0 ? left_ms
                                 : 1,
    };
    snib__seen(query, &seen);
}

static void tell(struct snib__redis *r, struct snib__query *query, const char *key,
                 const struct snib__reply *hash)
{
    size_t pairs = hash->count / 2, count = 0;
    struct sight *all = calloc(pairs + 1, sizeof *all);
    int64_t now_ms = snib__now().boot_ns / SNIB__MS + r->clock.low_ms;
    int place = 0;
    if (!all) {
        fail(r, query->state, SNIB_ENOMEM, 0, "out of memory");
        return;
    }
    qsort(hash->items, pairs, 2 * sizeof hash->items[0], by_field);
    for (size_t i = 0; i < pairs; i++) {
        const char *name = hash->items[2 * i]->text;
        const char *record = hash->items[2 * i + 1]->text;
        struct sight *s = &all[count];
        bool read = false;
        if (strncmp(name, "h:", 2) == 0) {
            read = read_holder(s, hash, name + 2, record);
        } else if (strncmp(name, "q:", 2) == 0) {
            read = read_waiter(s, hash, record);
        }
        count += read && s->expiry_ms > now_ms;
    }
    qsort(all, count, sizeof *all, by_order);
    unsigned permits = (unsigned)strtoul(value_of(hash, "s", ""), NULL, 10);
    for (size_t i = 0; i < count; i++) {
        place += all[i].waits;
        show(r, query, key, &all[i], place, permits);
    }
    free(all);
}

/* ---- Replies ---------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* SCAN may show a key twice. */
static void sort_keys(struct snib__look *look)
{
    size_t kept = 0;
    if (look->count > 1) {
        qsort(look->keys, look->count, sizeof(char *), by_text);
    }
    for (size_t i = 0; i < look->count; i++) {
        if (kept > 0 && strcmp(look->keys[kept - 1], look->keys[i]) == 0) {
            free(look->keys[i]);
        } else {
            look->keys[kept++] = look->keys[i];
        }
    }
    look->count = kept;
}

static bool scan(struct snib__redis *r, struct snib__query *query, const char *cursor)
{
    struct snib__look *look = query->state;
    char pattern[2 * SNIB__KEY_MAX], key[SNIB__KEY_MAX];
    size_t n = 0;
    snib__redis_key(r, query->name, key);
    key[strlen(key) - 1] = '\0'; /* the brace behind the name */
    for (const char *p = key; *p; p++) {
        if (strchr("*?[]^-\\", *p)) {
            pattern[n++] = '\\';
        }
        pattern[n++] = *p;
    }
    strcpy(pattern + n, "*}");
    snprintf(look->cursor, sizeof look->cursor, "%s", cursor);
    const char *argv[] = {"SCAN", look->cursor, "MATCH", pattern, "COUNT", "500"};
    return snib__redis_command(r, SNIB__ASK_SCAN, query, 6, argv) && ++look->under_way;
}

static void on_scan(struct snib__redis *r, struct snib__query *query,
                    const struct snib__reply *reply)
{
    struct snib__look *look = query->state;
    const struct snib__reply *keys = reply->count == 2 ? reply->items[1] : NULL;
    look->cursor[0] = '\0';
    for (size_t i = 0; keys && i < keys->count; i++) {
        if (!add_key(look, snib__reply_text(keys, i))) {
            fail(r, look, SNIB_ENOMEM, 0, "out of memory");
        }
    }
    const char *cursor = snib__reply_text(reply, 0);
    if (look->code == 0 && cursor[0] && strcmp(cursor, "0") != 0) {
        if (scan(r, query, cursor)) {
            return;
        }
        fail(r, look, SNIB_ENOMEM, 0, "out of memory");
    }
    sort_keys(look);
    ask_next(r, query);
}

void snib__look_reply(struct snib__redis *r, struct snib__redis_request *request,
                      const struct snib__reply *reply)
{
    struct snib__query *query = request->subject;
    if (!query) {
        return;
    }
    struct snib__look *look = query->state;
    look->under_way--;
    if (reply->type == REDIS_REPLY_ERROR) {
        int code;
        if (snib__redis_error(reply->text, &code) == SNIB__NO_SCRIPT && !request->by_text) {
            request->by_text = true;
            if (snib__ask_evict(r, query, request)) {
                look->under_way++;
                return;
            }
        }
        fail(r, look, code, 0, reply->text);
    } else if (request->kind == SNIB__ASK_EVICT) {
        if (strcmp(snib__reply_text(reply, 0), "GONE") != 0) {
            fail(r, look, SNIB_ELOST, 0, "nobody holds it with that token");
        }
    } else if (request->kind == SNIB__ASK_SCAN) {
        on_scan(r, query, reply);
        return;
    } else {
        tell(r, query, look->keys[look->answered++], reply);
    }
    ask_next(r, query);
}

static void ask_again(struct snib__redis *r, struct snib__query *query)
{
    struct snib__look *look = query->state;
    char cursor[sizeof look->cursor];
    look->cut = false;
    look->repeated = true;
    look->asked = look->answered;
    strcpy(cursor, look->cursor);
    if (cursor[0]) {
        if (scan(r, query, cursor)) {
            return; /* no key is asked for before all of them are known */
        }
        fail(r, look, SNIB_ENOMEM, 0, "out of memory");
    }
    ask_next(r, query);
}

void snib__look_lost(struct snib__redis *r, struct snib__redis_request *request,
                     enum snib__redis_loss how)
{
    struct snib__query *query = request->subject;
    struct snib__look *look = query->state;
    request->subject = NULL;
    look->under_way--;
    if ((how == SNIB__CUT || how == SNIB__UNSENT) && !look->repeated &&
        request->kind != SNIB__ASK_EVICT) {
        look->cut = true;
    } else {
        fail(r, look, how == SNIB__UNREACHED ? SNIB_EUNREACH : SNIB_EUNKNOWN, r->link.sys,
             how == SNIB__TOO_LATE ? "no answer in time" : r->link.why);
    }
    if (look->under_way == 0 && look->cut) {
        ask_again(r, query);
    } else if (look->under_way == 0) {
        end(r, query);
    }
}

/* ---- Submitting ------------------------------------------------------------------------- */

static void submit(struct snib__query *query, bool evict)
{
    struct snib__redis *r = snib__redis_of(query->session);
    bool idle = snib__link_idle(&r->link);
    struct snib__look *look = query->state;
    char key[SNIB__KEY_MAX];
    look->query = query;
    look->next = r->looks;
    r->looks = look;
    bool asked = true;
    if (evict) {
        asked = snib__ask_evict(r, query, NULL);
        look->under_way += asked;
    } else if (query->prefix) {
        asked = scan(r, query, "0");
    } else {
        snib__redis_key(r, query->name, key);
        asked = add_key(look, key);
    }
    if (!asked) {
        fail(r, look, SNIB_ENOMEM, 0, "out of memory");
    }
    ask_next(r, query); /* also ends it when nothing could be asked */
    if (idle) {
        snib__link_flush(&r->link);
    }
}

void snib__redis_inspect(struct snib__query *query)
{
    submit(query, false);
}

void snib__redis_evict_query(struct snib__query *query)
{
    submit(query, true);
}

void snib__redis_examine(struct snib__query *query)
{
    struct snib__redis *r = snib__redis_of(query->session);
    snib_finding finding = {.verdict = SNIB_GOOD, .about = "server", .text = r->where};
    snib__found(query, &finding);
    snib__finish(query, SNIB_OK, 0, NULL);
}

void snib__look_end(struct snib__redis *r)
{
    while (r->looks) {
        fail(r, r->looks, SNIB_ECANCELED, 0, "closed");
        end(r, r->looks->query);
    }
}
