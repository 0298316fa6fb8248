/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is in the hash of a lock. What is over by the server's clock is not shown, although it may
 * still be there: nobody had a reason to sweep. What cannot be read is not shown either: the hash
 * may be somebody else's.
 */
#include "engines/redis/native.h"
#include "engines/redis/packed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEFT_MOST_MS (100LL * 365 * 24 * 3600 * 1000)
#define STATE_SIZE 62   /* of `s`, without what is there only when several want it */
#define REQUEST_SIZE 55 /* in a ticket, behind its 8 bytes of time, without its texts */

enum { HELD = 1, SEVERAL = 8 }; /* flags of `s` */

/* A holder, or somebody who waits. */
struct record {
    int64_t order; /* holders by token, those who wait by place */
    bool waits;
    char mode;
    int64_t expiry_ms, since_ms;
    const char *info; /* "WHO LABEL" */
};

/* The hash, its pairs sorted by field, and what its state says. */
struct hash {
    const struct snib__reply *pairs;
    unsigned permits;
};

void snib__native_inspect(struct snib__command *c, const struct snib__wish *wish, unsigned look)
{
    (void)look;
    snib__command_begin(c);
    snib__command_text(c, "HGETALL");
    snib__command_format(c, "%s:{%s}", wish->prefix, wish->name);
}

static int compare(const struct snib__reply *field, const char *name, size_t size)
{
    int order = memcmp(field->text, name, field->size < size ? field->size : size);
    return order ? order : (field->size > size) - (field->size < size);
}

static int by_field(const void *a, const void *b)
{
    const struct snib__reply *const *x = a, *const *y = b;
    return compare(x[0], y[0]->text, y[0]->size);
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

/* The value of a field; empty if there is none. */
static struct snib__packed value_of(const struct hash *hash, const char *name, size_t size)
{
    size_t low = 0, high = hash->pairs->count / 2;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare(hash->pairs->items[2 * middle], name, size);
        if (order == 0) {
            const struct snib__reply *value = hash->pairs->items[2 * middle + 1];
            return snib__packed_from(value->text, value->size);
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return snib__packed_from("", 0);
}

static int64_t read_time(struct snib__packed *p)
{
    return snib__packed_within(p, 8, INT64_MAX);
}

/* The only holder is in the state: ID LAST KEEP FREED SPAN EXPIRY TTL behind version and flags. */
static bool read_only_holder(struct record *r, const struct hash *hash, struct snib__packed state)
{
    (void)snib__packed_number(&state, 1);
    if (!(snib__packed_number(&state, 1) & HELD)) {
        return false;
    }
    (void)snib__packed_bytes(&state, SNIB__ID_SIZE);
    int64_t last = read_time(&state);
    (void)snib__packed_bytes(&state, 4 + 15);
    int64_t span = (int64_t)snib__packed_number(&state, 4);
    r->waits = false;
    r->mode = 'x';
    r->order = span > 0 ? last - (span - 1) : 0;
    r->expiry_ms = read_time(&state);
    r->since_ms = r->order / 1000; /* tokens are times, or soon after */
    r->info = value_of(hash, "i", 1).at;
    return !state.failed && r->order > 0;
}

/* TOKEN EXPIRY TTL SINCE INFO */
static bool read_holder(struct record *r, const struct hash *hash, struct snib__packed p)
{
    r->waits = false;
    r->mode = hash->permits ? 'c' : 's';
    r->order = read_time(&p);
    r->expiry_ms = read_time(&p);
    (void)snib__packed_number(&p, 4);
    r->since_ms = read_time(&p);
    r->info = p.at;
    return !p.failed;
}

/* EXPIRY ID MODE, then much that only scripts want, with the size of the inbox at byte 47. */
static bool read_waiter(struct record *r, const struct hash *hash, struct snib__packed p)
{
    char name[2 + SNIB__ID_SIZE] = "t:";
    size_t whole = p.left;
    const char *ticket = p.at;
    if (whole < 8 + REQUEST_SIZE) {
        return false;
    }
    r->expiry_ms = read_time(&p);
    memcpy(name + 2, snib__packed_bytes(&p, SNIB__ID_SIZE), SNIB__ID_SIZE);
    r->mode = (char)snib__packed_number(&p, 1);
    size_t behind = 8 + REQUEST_SIZE + (unsigned char)ticket[8 + 38];
    struct snib__packed place = value_of(hash, name, sizeof name);
    r->waits = true;
    r->order = read_time(&place);
    r->since_ms = read_time(&place);
    r->info = ticket + behind;
    return behind <= whole && !place.failed;
}

static size_t read_all(struct record *all, const struct hash *hash, struct snib__packed state,
                       int64_t now_ms)
{
    size_t count = 0;
    count += read_only_holder(&all[count], hash, state) && all[count].expiry_ms > now_ms;
    for (size_t i = 0; i < hash->pairs->count / 2; i++) {
        const struct snib__reply *name = hash->pairs->items[2 * i];
        const struct snib__reply *value = hash->pairs->items[2 * i + 1];
        struct snib__packed p = snib__packed_from(value->text, value->size);
        bool read = false;
        if (strncmp(name->text, "h:", 2) == 0) {
            read = read_holder(&all[count], hash, p);
        } else if (strncmp(name->text, "q:", 2) == 0) {
            read = read_waiter(&all[count], hash, p);
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
    seen->since_unix_ms = r->since_ms < now_ms ? r->since_ms : now_ms;
    seen->left_ms = r->waits ? -1 : left_ms;
    show(arg, seen);
}

/* Many who hold it together, or wait: how many may. */
static unsigned read_permits(struct snib__packed state)
{
    (void)snib__packed_number(&state, 1);
    bool several = snib__packed_number(&state, 1) & SEVERAL;
    (void)snib__packed_bytes(&state, STATE_SIZE - 2);
    return several ? (unsigned)snib__packed_number(&state, 4) : 0;
}

int snib__native_show(const struct snib__reply *reply, const int64_t numbers[SNIB__LOOKS],
                      const char *name, const struct snib__server_clock *clock,
                      snib__layout_show *show, void *arg)
{
    (void)numbers;
    size_t pairs = reply->count / 2;
    struct hash hash = {.pairs = reply};
    if (pairs > 1) {
        qsort(reply->items, pairs, 2 * sizeof reply->items[0], by_field);
    }
    struct snib__packed state = value_of(&hash, "s", 1);
    if (state.left == 0) {
        return 0; /* nobody's lock */
    }
    if (state.at[0] != SNIB__NATIVE_VERSION || state.left < STATE_SIZE) {
        return SNIB_EKIND;
    }
    struct record *all = calloc(pairs + 1, sizeof *all);
    if (!all) {
        return SNIB_ENOMEM;
    }
    hash.permits = read_permits(state);
    size_t count = read_all(all, &hash, state, snib__server_clock_least_ms(clock));
    if (count > 1) {
        qsort(all, count, sizeof *all, by_order);
    }
    int64_t now_ms = snib__server_clock_about_ms(clock);
    snib_seen seen = {
        .size = sizeof seen, .name = name, .permits = hash.permits ? hash.permits : 1};
    for (size_t i = 0; i < count; i++) {
        show_one(&all[i], &seen, now_ms, show, arg);
    }
    free(all);
    return 0;
}
