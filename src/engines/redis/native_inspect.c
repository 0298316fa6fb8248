/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is in the hash of a lock. What is over by the server's clock is not shown, although it may
 * still be there: nobody had a reason to sweep. What cannot be read is not shown either: the hash
 * may be somebody else's.
 */
#include "engines/redis/native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEFT_MOST_MS (100LL * 365 * 24 * 3600 * 1000)

/* A holder, or somebody who waits. */
struct record {
    int64_t order; /* holders by token, those who wait by place */
    bool waits;
    char mode;
    int64_t expiry_ms, since_ms;
    const char *info; /* "WHO LABEL" */
};

void snib__native_inspect(struct snib__command *c, const struct snib__wish *wish)
{
    snib__command_begin(c);
    snib__command_text(c, "HGETALL");
    snib__native_key(c, wish);
}

static int by_field(const void *a, const void *b)
{
    const struct snib__reply *const *x = a, *const *y = b;
    return strcmp(x[0]->text, y[0]->text);
}

static int by_order(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    if (x->waits != y->waits) {
        return x->waits ? 1 : -1;
    }
    if (x->order != y->order) {
        return x->order > y->order ? 1 : -1;
    }
    return (x->since_ms > y->since_ms) - (x->since_ms < y->since_ms);
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

static bool read_holder(struct record *r, const struct snib__reply *hash, const char *id,
                        const char *text)
{
    long long token, expiry, ttl, since = 0;
    int behind = 0;
    if (sscanf(text, "%lld %c %lld %lld", &token, &r->mode, &expiry, &ttl) != 4) {
        return false;
    }
    const char *info = value_of(hash, "i:", id);
    (void)sscanf(info, "%lld %n", &since, &behind);
    r->waits = false;
    r->order = token;
    r->expiry_ms = expiry;
    r->since_ms = since;
    r->info = info + behind;
    return true;
}

static bool read_waiter(struct record *r, const struct snib__reply *hash, const char *text)
{
    char id[SNIB__ID_MAX + 1];
    long long expiry, lease, ttl, grant, place, since;
    int behind = 0;
    if (sscanf(text, "%40s %c %lld %lld %lld %lld %*d %*s %n", id, &r->mode, &expiry, &lease, &ttl,
               &grant, &behind) != 6 ||
        sscanf(value_of(hash, "t:", id), "%lld %lld", &place, &since) != 2) {
        return false;
    }
    r->waits = true;
    r->order = place;
    r->expiry_ms = expiry;
    r->since_ms = since;
    r->info = text + behind;
    return true;
}

static size_t read_all(struct record *all, const struct snib__reply *hash, int64_t now_ms)
{
    size_t count = 0;
    for (size_t i = 0; i < hash->count / 2; i++) {
        const char *name = hash->items[2 * i]->text;
        const char *text = hash->items[2 * i + 1]->text;
        bool read = false;
        if (strncmp(name, "h:", 2) == 0) {
            read = read_holder(&all[count], hash, name + 2, text);
        } else if (strncmp(name, "q:", 2) == 0) {
            read = read_waiter(&all[count], hash, text);
        }
        count += read && all[count].expiry_ms > now_ms;
    }
    return count;
}

static void show_one(const struct record *r, snib_seen *seen, int64_t now_ms,
                     snib__layout_show *show, void *arg)
{
    char who[128];
    const char *space = strchr(r->info, ' ');
    int64_t left_ms = r->expiry_ms > now_ms ? r->expiry_ms - now_ms : 1;
    left_ms = left_ms < LEFT_MOST_MS ? left_ms : LEFT_MOST_MS;
    snprintf(who, sizeof who, "%.*s", space ? (int)(space - r->info) : 127, r->info);
    seen->who = who;
    seen->label = space ? space + 1 : "";
    seen->token = r->waits ? 0 : (uint64_t)r->order;
    seen->mode = r->mode == 'x' ? SNIB_EXCLUSIVE : r->mode == 's' ? SNIB_SHARED : SNIB_COUNTED;
    seen->place += r->waits;
    seen->since_unix_ms = r->since_ms;
    seen->left_ms = r->waits ? -1 : left_ms;
    show(arg, seen);
}

bool snib__native_show(const struct snib__reply *hash, const char *name,
                       const struct snib__server_clock *clock, snib__layout_show *show, void *arg)
{
    size_t pairs = hash->count / 2;
    struct record *all = calloc(pairs + 1, sizeof *all);
    if (!all) {
        return false;
    }
    if (pairs > 1) {
        qsort(hash->items, pairs, 2 * sizeof hash->items[0], by_field);
    }
    size_t count = read_all(all, hash, snib__server_clock_least_ms(clock));
    if (count > 1) {
        qsort(all, count, sizeof *all, by_order);
    }
    unsigned permits = (unsigned)strtoul(value_of(hash, "s", ""), NULL, 10);
    int64_t now_ms = snib__server_clock_about_ms(clock);
    snib_seen seen = {.size = sizeof seen, .name = name, .permits = permits ? permits : 1};
    for (size_t i = 0; i < count; i++) {
        show_one(&all[i], &seen, now_ms, show, arg);
    }
    free(all);
    return true;
}
