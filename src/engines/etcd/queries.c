/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspecting, listing and breaking.
 *
 * One linearizable range shows everybody, with what they say of themselves; who of them holds
 * follows from the order of the create revisions.
 *
 * A break writes who wants it into the holder's own value, on condition that it is still that
 * holder's key; its lease stays. The holder finds it at its next renewal, which looks at the key
 * (or at once: breaks.c). Then it is looked at until it is gone. With force the key is deleted on
 * the same condition, after the holder could read there who did it.
 */
#include "engines/etcd/queries.h"

#include "engines/etcd/errors.h"
#include "engines/etcd/requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_NS (50 * SNIB__MS)
#define LEASES_MOST 256 /* that are asked for, for one inspection */

static void forget(struct etcd_query *q)
{
    snib__list_remove(&q->place);
    free(q->sights);
    pb__range_response__free_unpacked(q->range, NULL);
    q->sights = NULL;
    q->range = NULL;
}

static void finish(struct etcd_query *q, int code, int sys, const char *why)
{
    forget(q);
    snib__finish(q->query, code, sys, why);
}

static void fail(struct etcd *e, struct etcd_query *q, const struct etcd_call *k)
{
    char text[ETCD_TEXT_MAX];
    finish(q, etcd_error_code(k), k->outcome == ETCD_ANSWERED ? 0 : e->cluster.sys,
           etcd_error_text(e, k, text));
}

static bool good(const struct etcd_call *k)
{
    return k->outcome == ETCD_ANSWERED && k->status == 0 && k->reply;
}

static bool submit(struct etcd *e, struct etcd_query *q, struct etcd_call *k,
                   void (*end)(struct etcd_call *))
{
    if (!k) {
        finish(q, SNIB_ENOMEM, 0, "out of memory");
        return false;
    }
    k->subject = q;
    k->end = end;
    etcd_cluster_submit(&e->cluster, k);
    return true;
}

/* ---- Who is there ----------------------------------------------------------------------- */

struct etcd_sight {
    const Pb__KeyValue *kv;
    char name[SNIB__NAME_MAX + 1];
    enum etcd_class class;
    unsigned permits;
    int place; /* 0 holds */
    int64_t left_ms;
};

static int by_name(const void *a, const void *b)
{
    const struct etcd_sight *one = a, *other = b;
    int order = strcmp(one->name, other->name);
    if (order == 0) {
        order = one->kv->create_revision < other->kv->create_revision ? -1 : 1;
    }
    return order;
}

static void show(struct etcd_query *q, const struct etcd_sight *s)
{
    struct etcd_value value;
    etcd_value_read(&value, &s->kv->value);
    snib_seen seen = {.size = sizeof seen,
                      .name = s->name,
                      .who = value.who[0] ? value.who : "another etcd client",
                      .label = value.label,
                      .mode = s->class == ETCD_SHARED    ? SNIB_SHARED
                              : s->class == ETCD_COUNTED ? SNIB_COUNTED
                                                         : SNIB_EXCLUSIVE,
                      .place = s->place,
                      .permits = s->permits,
                      .since_unix_ms = value.since_ms,
                      .left_ms = s->left_ms};
    if (s->place == 0 && s->class != ETCD_SHARED) {
        seen.token = (uint64_t)s->kv->create_revision;
    }
    snib__seen(q->query, &seen);
}

/* Who of one name's holds, and who waits at which place. */
static void find_places(struct etcd_sight *s, size_t n)
{
    int waiting = 0;
    size_t exclusive = 0, counted = 0;
    for (size_t i = 0; i < n; i++) {
        bool holds = s[i].class == ETCD_SHARED    ? exclusive == 0
                     : s[i].class == ETCD_COUNTED ? counted < s[i].permits
                                                  : i == 0;
        exclusive += s[i].class == ETCD_EXCLUSIVE;
        counted += s[i].class == ETCD_COUNTED;
        s[i].place = holds ? 0 : ++waiting;
        s[i].left_ms = -1;
    }
}

/* Name by name, holders first, and the end of the inspection. */
static void show_all(struct etcd_query *q)
{
    const struct etcd_sight *s = q->sights;
    for (size_t i = 0, to; i < q->sight_count; i = to) {
        for (to = i; to < q->sight_count && strcmp(s[to].name, s[i].name) == 0; to++) {
            if (s[to].place == 0) {
                show(q, &s[to]);
            }
        }
        for (size_t k = i; k < to; k++) {
            if (s[k].place > 0) {
                show(q, &s[k]);
            }
        }
    }
    finish(q, SNIB_OK, 0, NULL);
}

static void on_left(struct etcd_call *k)
{
    struct etcd_query *q = k->subject;
    const Pb__LeaseTimeToLiveResponse *reply = (const Pb__LeaseTimeToLiveResponse *)k->reply;
    if (good(k) && reply->ttl >= 0) { /* whole seconds, rounded down */
        int64_t left_ms = reply->ttl * 1000 + 999;
        int64_t most_ms = reply->granted_ttl * 1000;
        q->sights[k->number].left_ms = left_ms < most_ms ? left_ms : most_ms;
    }
    if (--q->under_way == 0) {
        show_all(q);
    }
}

/* How long are the leases of those who hold? */
static void ask_left(struct etcd *e, struct etcd_query *q)
{
    q->under_way = 1;
    for (size_t i = 0; i < q->sight_count && q->under_way < LEASES_MOST; i++) {
        const struct etcd_sight *s = &q->sights[i];
        struct etcd_call *k =
            s->place == 0 && s->kv->lease ? etcd_request_ttl(e, s->kv->lease) : NULL;
        if (k) {
            k->subject = q;
            k->number = (int64_t)i;
            k->end = on_left;
            q->under_way++;
            etcd_cluster_submit(&e->cluster, k);
        }
    }
    if (--q->under_way == 0) {
        show_all(q);
    }
}

static size_t collect(const struct etcd *e, const struct etcd_query *q,
                      const Pb__RangeResponse *range, struct etcd_sight *out)
{
    size_t n = 0;
    for (size_t i = 0; i < range->n_kvs; i++) {
        struct etcd_sight *s = &out[n];
        size_t base_size;
        char base[ETCD_BASE_MAX];
        s->kv = range->kvs[i];
        if (!etcd_key_name(s->name, &base_size, e->prefix, &s->kv->key)) {
            continue;
        }
        etcd_key_base(base, e->prefix, s->name);
        s->class = etcd_key_class(&s->kv->key, base, &s->permits);
        bool wanted = q->query->prefix
                          ? strncmp(s->name, q->query->name, strlen(q->query->name)) == 0
                          : strcmp(s->name, q->query->name) == 0;
        n += wanted && s->class != ETCD_ALIEN;
    }
    return n;
}

static void on_seen(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_query *q = k->subject;
    const Pb__RangeResponse *range = (const Pb__RangeResponse *)k->reply;
    if (!good(k)) {
        fail(e, q, k);
        return;
    }
    q->sights = calloc(range->n_kvs + 1, sizeof *q->sights);
    if (!q->sights) {
        finish(q, SNIB_ENOMEM, 0, "out of memory");
        return;
    }
    q->range = (Pb__RangeResponse *)k->reply;
    k->reply = NULL; /* ours now */
    q->sight_count = collect(e, q, q->range, q->sights);
    qsort(q->sights, q->sight_count, sizeof *q->sights, by_name);
    for (size_t i = 0, to; i < q->sight_count; i = to) {
        for (to = i + 1; to < q->sight_count && strcmp(q->sights[to].name, q->sights[i].name) == 0;
             to++) {
        }
        find_places(q->sights + i, to - i);
    }
    ask_left(e, q);
}

static void begin(struct snib__query *query)
{
    struct etcd *e = etcd_of(query->session);
    struct etcd_query *q = query->state;
    q->query = query;
    q->due_ns = snib__later(snib__now().boot_ns, e->session->timeout_ms * SNIB__MS);
    snib__list_append(&e->queries, &q->place);
}

void etcd_queries_inspect(struct snib__query *query)
{
    struct etcd *e = etcd_of(query->session);
    char from[ETCD_BASE_MAX], end[ETCD_BASE_MAX];
    begin(query);
    etcd_key_base(from, e->prefix, query->name);
    if (query->prefix) {
        from[strlen(from) - 1] = '\0'; /* no slash: names may go on here */
    }
    if (from[0]) {
        etcd_key_end(end, from);
    } else { /* all there is */
        memcpy(from, "\x01", 2);
        memcpy(end, "\xff", 2);
    }
    submit(e, query->state, etcd_request_range(e, from, end), on_seen);
    etcd_cluster_flush(&e->cluster);
}

/* ---- Breaking --------------------------------------------------------------------------- */

static void on_look(struct etcd_call *k);

static void look(struct etcd *e, struct etcd_query *q)
{
    char base[ETCD_BASE_MAX], end[ETCD_BASE_MAX];
    etcd_key_base(base, e->prefix, q->query->name);
    etcd_key_end(end, base);
    q->check_ns = 0;
    submit(e, q, etcd_request_range(e, base, end), on_look);
}

static void on_removed(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_query *q = k->subject;
    const Pb__TxnResponse *txn = (const Pb__TxnResponse *)k->reply;
    if (!good(k)) {
        fail(e, q, k);
    } else if (txn->succeeded || q->marked) { /* or it has gone by itself, as it was told to */
        finish(q, SNIB_OK, 0, NULL);
    } else {
        finish(q, k->repeated ? SNIB_EUNKNOWN : SNIB_ELOST, 0,
               k->repeated ? "it is gone: by us, or by itself" : "that token holds no longer");
    }
}

static void on_marked(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_query *q = k->subject;
    const Pb__TxnResponse *txn = (const Pb__TxnResponse *)k->reply;
    if (!good(k)) {
        fail(e, q, k);
    } else if (!txn->succeeded && !k->repeated) {
        finish(q, SNIB_ELOST, 0, "that token holds no longer");
    } else {
        q->marked = true;
        q->check_ns = snib__now().boot_ns + (q->query->force ? 0 : CHECK_NS);
    }
}

static void still_there(struct etcd *e, struct etcd_query *q, const Pb__KeyValue *kv)
{
    struct etcd_value value;
    char text[ETCD_VALUE_MAX], why[300];
    int64_t now = snib__now().boot_ns;
    etcd_value_read(&value, &kv->value);
    if (q->query->force && (q->marked || value.broken[0] || !value.who[0])) {
        submit(e, q, etcd_request_remove(e, &kv->key, kv->create_revision), on_removed);
    } else if (!value.who[0]) {
        finish(q, SNIB_ENOTSUP, 0,
               "held by another etcd client, which cannot be asked: take it away with --force");
    } else if (!q->marked && !value.broken[0]) {
        snprintf(value.broken, sizeof value.broken, "%s", e->session->who);
        etcd_value_write(text, &value);
        submit(e, q, etcd_request_mark(e, &kv->key, kv->create_revision, text), on_marked);
    } else if (now >= q->due_ns) {
        snprintf(
            why, sizeof why,
            "%s was asked, and has it until it gives it back; %.1f s at the most if it is dead",
            value.who, (double)value.ttl_ms / 1000);
        finish(q, SNIB_EBUSY, 0, why);
    } else {
        q->marked = true;
        q->check_ns = now + CHECK_NS;
    }
}

static void on_look(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_query *q = k->subject;
    const Pb__RangeResponse *range = (const Pb__RangeResponse *)k->reply;
    char base[ETCD_BASE_MAX];
    unsigned permits;
    if (!good(k)) {
        fail(e, q, k);
        return;
    }
    etcd_key_base(base, e->prefix, q->query->name);
    for (size_t i = 0; i < range->n_kvs; i++) {
        const Pb__KeyValue *kv = range->kvs[i];
        if (etcd_key_class(&kv->key, base, &permits) != ETCD_ALIEN &&
            (uint64_t)kv->create_revision == q->query->token) {
            still_there(e, q, kv);
            return;
        }
    }
    finish(q, q->marked ? SNIB_OK : SNIB_ELOST, 0, q->marked ? NULL : "that token holds no longer");
}

void etcd_queries_evict(struct snib__query *query)
{
    struct etcd *e = etcd_of(query->session);
    begin(query);
    look(e, query->state);
    etcd_cluster_flush(&e->cluster);
}

int64_t etcd_queries_keep_time(struct etcd *e, int64_t now)
{
    int64_t next = SNIB__NEVER;
    struct snib__list *after;
    for (struct snib__list *l = e->queries.after; l != &e->queries; l = after) {
        struct etcd_query *q = SNIB__OF(l, struct etcd_query, place);
        after = l->after;
        if (!q->check_ns) {
            continue;
        }
        if (now >= q->check_ns) {
            look(e, q);
        } else {
            next = q->check_ns < next ? q->check_ns : next;
        }
    }
    return next;
}

void etcd_queries_close(struct etcd *e)
{
    while (!snib__list_empty(&e->queries)) {
        forget(SNIB__OF(e->queries.after, struct etcd_query, place));
    }
}
