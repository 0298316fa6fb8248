/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches, all on one stream: of names, and of single keys for breaks.c.
 *
 * One watch per name, kept for as long as the name is in use here and a while longer.
 *
 * A watch that begins in the past waits for a sweep of the server, about 100 ms; one that begins
 * now does not, and one that is there already is the fastest. So a watch starts at 0, "now", and
 * what came before it is listed once it is there. It has deletions only, each with the key's create
 * revision, so that who waits needs to count and not to remember.
 *
 * Answers to calls and events come on streams of their own, in any order. The last deletions are
 * therefore kept: whoever gets a listing takes those off that are newer than it.
 *
 * A watch that ends (compaction, a lost leader, a lost connection) is made anew.
 */
#include "engines/etcd/watch.h"

#include "base/hash.h"
#include "engines/etcd/requests.h"

#include <stdlib.h>
#include <string.h>

enum { LINGER_MS = 3000, AGAIN_MS = 100 };
#define RING (sizeof((struct etcd_name *)0)->gone / sizeof(struct etcd_gone))

static struct etcd_name *find(const struct etcd *e, const char *base)
{
    for (struct snib__entry *entry = snib__table_first(&e->names, snib__hash_text(base)); entry;
         entry = snib__entry_next(entry)) {
        struct etcd_name *n = SNIB__OF(entry, struct etcd_name, entry);
        if (strcmp(n->base, base) == 0) {
            return n;
        }
    }
    return NULL;
}

static struct etcd_name *by_id(const struct etcd *e, int64_t id)
{
    for (struct snib__entry *entry = NULL; (entry = snib__table_next(&e->names, entry)) != NULL;) {
        struct etcd_name *n = SNIB__OF(entry, struct etcd_name, entry);
        if (n->watch_id == id) {
            return n;
        }
    }
    return NULL;
}

bool etcd_watch_join(struct etcd *e, struct etcd_claim *b)
{
    char base[ETCD_BASE_MAX];
    if (b->name) {
        return true;
    }
    etcd_key_base(base, e->prefix, b->claim->name);
    struct etcd_name *n = find(e, base);
    if (!n) {
        n = calloc(1, sizeof *n);
        if (!n || !snib__table_add(&e->names, &n->entry, snib__hash_text(base))) {
            free(n);
            return false;
        }
        strcpy(n->base, base);
        snib__list_init(&n->claims);
    }
    b->name = n;
    snib__list_append(&n->claims, &b->in_name);
    return true;
}

static void end_watch(struct etcd *e, int64_t id)
{
    if (id && e->watch && etcd_request_watch_cancel(e->watch, id) && e->watch->connection) {
        etcd_connection_resume(e->watch->connection, e->watch);
    }
}

static void drop(struct etcd *e, struct etcd_name *n)
{
    end_watch(e, n->watch_id);
    snib__table_remove(&e->names, &n->entry);
    free(n);
}

void etcd_watch_leave(struct etcd *e, struct etcd_claim *b)
{
    struct etcd_name *n = b->name;
    if (!n) {
        return;
    }
    snib__list_remove(&b->in_name);
    b->name = NULL;
    if (snib__list_empty(&n->claims)) {
        n->idle_ns = snib__now().boot_ns;
        if (!n->watch_id) {
            drop(e, n);
        }
    }
}

/* ---- Events ----------------------------------------------------------------------------- */

static void on_created(struct etcd *e, struct etcd_name *n, int64_t revision)
{
    struct snib__list *after;
    n->created = revision;
    for (struct snib__list *l = n->claims.after; l != &n->claims; l = after) {
        after = l->after;
        etcd_watch_upcalls.ready(e, SNIB__OF(l, struct etcd_claim, in_name));
    }
}

static void on_delete(struct etcd *e, struct etcd_name *n, const Pb__Event *event)
{
    unsigned permits;
    struct snib__list *after;
    struct etcd_gone gone = {.at = event->kv->mod_revision,
                             .created = event->prev_kv ? event->prev_kv->create_revision : 0,
                             .class = etcd_key_class(&event->kv->key, n->base, &permits)};
    if (gone.class == ETCD_ALIEN) {
        return;
    }
    n->gone[n->gone_count++ % RING] = gone;
    for (struct snib__list *l = n->claims.after; l != &n->claims; l = after) {
        struct etcd_claim *b = SNIB__OF(l, struct etcd_claim, in_name);
        after = l->after;
        if (event->kv->key.len == strlen(b->key) &&
            memcmp(event->kv->key.data, b->key, event->kv->key.len) == 0) {
            if (b->mine && gone.at > b->mine) { /* else it is an earlier one, of the same lease */
                etcd_watch_upcalls.deleted(e, b);
            }
        } else if (gone.created) {
            etcd_watch_upcalls.ahead(e, b, &gone);
        } else {
            etcd_watch_upcalls.unsure(e, b);
        }
    }
}

/* Also one that was never there: refused by auth, it carries -1. */
static void on_canceled(struct etcd *e, struct etcd_name *n)
{
    n->watch_id = n->created = 0;
    n->gone_count = 0;
    if (n->wanted && !snib__list_empty(&n->claims)) {
        n->idle_ns = snib__now().boot_ns + AGAIN_MS * SNIB__MS; /* again after a pause */
    }
    (void)e;
}

static struct etcd_name *oldest_pending(const struct etcd *e)
{
    struct etcd_name *first = NULL;
    for (struct snib__entry *entry = NULL; (entry = snib__table_next(&e->names, entry)) != NULL;) {
        struct etcd_name *n = SNIB__OF(entry, struct etcd_name, entry);
        if (n->watch_id && !n->created && (!first || n->watch_id < first->watch_id)) {
            first = n;
        }
    }
    return first;
}

static void on_message(struct etcd_call *k, const ProtobufCMessage *message)
{
    struct etcd *e = k->owner;
    const Pb__WatchResponse *r = (const Pb__WatchResponse *)message;
    struct etcd_name *n = r->watch_id < 0 ? oldest_pending(e) : by_id(e, r->watch_id);
    if (!n) {
        etcd_watch_upcalls.heard(e, r);
        return;
    }
    if (r->created && !r->canceled && r->header) {
        on_created(e, n, r->header->revision);
    }
    for (size_t i = 0; i < r->n_events; i++) {
        const Pb__Event *event = r->events[i];
        if (event->type == PB__EVENT__TYPE__DELETE && event->kv) {
            on_delete(e, n, event);
        }
    }
    if (r->canceled) {
        on_canceled(e, n);
    }
}

static void on_end(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    e->watch = NULL;
    for (struct snib__entry *entry = NULL; (entry = snib__table_next(&e->names, entry)) != NULL;) {
        on_canceled(e, SNIB__OF(entry, struct etcd_name, entry));
    }
    etcd_watch_upcalls.deaf(e);
}

/* ---- Beginning -------------------------------------------------------------------------- */

/* One more watch on the stream that all of them share; its number. 0: no memory, or no stream to be
 * had. With one stream for everything, keep-alives and what is asked with them must do. */
static int64_t add(struct etcd *e, const char *key, bool below)
{
    struct etcd_connection *link = etcd_cluster_joined(&e->cluster);
    if (link && link->greeted && etcd_connection_streams(link) < 2) {
        return 0;
    }
    struct etcd_call *k = e->watch ? e->watch : etcd_request_watch(e);
    if (!k || !etcd_request_watch_add(k, key, below, e->watch_ids + 1)) {
        if (k && k != e->watch) {
            etcd_call_free(k);
        }
        return 0;
    }
    if (k != e->watch) {
        e->watch = k;
        k->message = on_message;
        k->end = on_end;
        etcd_cluster_submit(&e->cluster, k);
    } else if (k->connection) {
        etcd_connection_resume(k->connection, k);
    }
    return ++e->watch_ids;
}

static void begin(struct etcd *e, struct etcd_name *n)
{
    if (!n->watch_id) {
        n->watch_id = add(e, n->base, true);
        n->created = 0;
        n->gone_count = 0;
    }
}

int64_t etcd_watch_key(struct etcd *e, const char *key)
{
    return add(e, key, false);
}

void etcd_watch_key_end(struct etcd *e, int64_t id)
{
    end_watch(e, id);
}

void etcd_watch_want(struct etcd *e, struct etcd_claim *b)
{
    b->name->wanted = true;
    begin(e, b->name);
}

bool etcd_watch_covers(const struct etcd_name *n, int64_t revision)
{
    if (!n->created || n->created > revision) {
        return false;
    }
    /* what fell out of the ring was older */
    return n->gone_count <= RING || n->gone[n->gone_count % RING].at <= revision;
}

int64_t etcd_watch_keep_time(struct etcd *e, int64_t now)
{
    int64_t next = SNIB__NEVER;
    struct snib__entry *entry, *after = snib__table_next(&e->names, NULL);
    while ((entry = after) != NULL) {
        struct etcd_name *n = SNIB__OF(entry, struct etcd_name, entry);
        after = snib__table_next(&e->names, entry);
        if (snib__list_empty(&n->claims)) {
            int64_t until = n->idle_ns + LINGER_MS * SNIB__MS;
            if (now >= until) {
                drop(e, n);
            } else {
                next = until < next ? until : next;
            }
        } else if (n->wanted && !n->watch_id) {
            if (now >= n->idle_ns) {
                begin(e, n);
            } else {
                next = n->idle_ns < next ? n->idle_ns : next;
            }
        }
    }
    return next;
}

void etcd_watch_close(struct etcd *e)
{
    struct snib__entry *entry, *next = snib__table_next(&e->names, NULL);
    while ((entry = next) != NULL) {
        next = snib__table_next(&e->names, entry);
        free(SNIB__OF(entry, struct etcd_name, entry));
    }
    snib__table_free(&e->names);
}
