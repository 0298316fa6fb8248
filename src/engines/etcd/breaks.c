/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holders that hear at once when somebody breaks their lock.
 *
 * Whoever breaks a lock writes that into the holder's key, or deletes it. A holder that listens has
 * a watch of its own key; what that tells was decided by the cluster, so it can be believed as it
 * comes, also if it comes late. The reverse proves nothing: a watch that is silent renews nothing.
 *
 * Most locks are held for a moment, and need no watch for that: it is asked for when one has been
 * held for a while. What happened before it was there is looked for then. Of many that are held
 * only some are watched; the others learn it at their next renewal, as those do who do not listen.
 */
#include "engines/etcd/breaks.h"

#include "engines/etcd/leases.h"
#include "engines/etcd/requests.h"
#include "engines/etcd/watch.h"

#include <stdio.h>

#define WHILE_NS (500 * SNIB__MS)
#define AGAIN_NS (100 * SNIB__MS)

enum { WATCHED_MOST = 64 };

static void wait_until(struct etcd *e, struct etcd_claim *b, int64_t at_ns)
{
    b->own_watch = 0;
    b->listen_ns = at_ns;
    snib__list_remove(&b->in_breaks);
    snib__list_append(&e->unheard, &b->in_breaks);
    if (!e->session->wake_ns || at_ns < e->session->wake_ns) {
        e->session->wake_ns = at_ns;
    }
}

void etcd_breaks_listen(struct etcd *e, struct etcd_claim *b)
{
    if (b->claim->listens && !b->listens) {
        b->listens = true;
        snib__list_init(&b->in_breaks);
        wait_until(e, b, snib__now().boot_ns + WHILE_NS);
    }
}

/* A key that is watched wants somebody who reads what comes. */
static void unwatched(struct etcd *e)
{
    if (--e->watched == 0) {
        e->session->attend--;
    }
}

void etcd_breaks_unlisten(struct etcd *e, struct etcd_claim *b)
{
    if (!b->listens) {
        return;
    }
    b->listens = false;
    snib__list_remove(&b->in_breaks);
    if (b->own_watch) {
        etcd_watch_key_end(e, b->own_watch);
        b->own_watch = 0;
        unwatched(e);
    }
}

/* ---- What is heard ---------------------------------------------------------------------- */

static void lose(struct etcd *e, struct etcd_claim *b, const char *why)
{
    bool told = b->phase == ETCD_HELD_NOW && b->claim->listens;
    etcd_breaks_unlisten(e, b);
    if (told) {
        snib__report(b->claim, SNIB_LOST, why);
    }
}

/* True: it is over. */
static bool read_value(struct etcd *e, struct etcd_claim *b, const Pb__KeyValue *kv)
{
    struct etcd_value value;
    char why[160];
    etcd_value_read(&value, &kv->value);
    if (!value.broken[0]) {
        return false;
    }
    snprintf(why, sizeof why, "broken by %s", value.broken);
    lose(e, b, why);
    return true;
}

static void on_look(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_lease *l = etcd_lease_find(e, k->number);
    struct etcd_claim *b = l ? l->claim : NULL;
    const Pb__TxnResponse *txn = (const Pb__TxnResponse *)k->reply;
    if (!b || b->lease != l || !b->listens || k->outcome != ETCD_ANSWERED || k->status != 0 ||
        !txn || txn->n_responses < 1 ||
        txn->responses[0]->response_case != PB__RESPONSE_OP__RESPONSE_RANGE) {
        return;
    }
    const Pb__RangeResponse *range = txn->responses[0]->range;
    if (range->n_kvs == 0 || range->kvs[0]->create_revision != b->mine) {
        lose(e, b, "the key is gone from the cluster");
    } else {
        (void)read_value(e, b, range->kvs[0]);
    }
}

/* From here on everything is heard; what was before? No memory: the renewal tells. */
static void look(struct etcd *e, struct etcd_claim *b)
{
    const struct etcd_claim *one = b;
    struct etcd_call *k = etcd_request_proof(e, &one, 1);
    if (k) {
        k->number = b->lease->id;
        k->end = on_look;
        etcd_cluster_submit(&e->cluster, k);
    }
}

static struct etcd_claim *by_id(const struct etcd *e, int64_t id)
{
    for (struct snib__list *l = e->heard.after; l != &e->heard; l = l->after) {
        struct etcd_claim *b = SNIB__OF(l, struct etcd_claim, in_breaks);
        if (b->own_watch == id) {
            return b;
        }
    }
    return NULL;
}

void etcd_breaks_heard(struct etcd *e, const Pb__WatchResponse *r)
{
    struct etcd_claim *b = by_id(e, r->watch_id);
    if (!b) {
        return;
    }
    for (size_t i = 0; i < r->n_events; i++) {
        const Pb__Event *event = r->events[i];
        if (event->type == PB__EVENT__TYPE__DELETE && event->kv &&
            event->kv->mod_revision > b->mine) {
            lose(e, b, "the key is gone from the cluster");
            return;
        }
        if (event->kv && event->kv->create_revision == b->mine && read_value(e, b, event->kv)) {
            return;
        }
    }
    if (r->canceled) {
        unwatched(e);
        wait_until(e, b, snib__now().boot_ns + AGAIN_NS);
    } else if (r->created) {
        look(e, b);
    }
}

void etcd_breaks_deaf(struct etcd *e)
{
    int64_t at_ns = snib__now().boot_ns + AGAIN_NS;
    while (!snib__list_empty(&e->heard)) {
        unwatched(e);
        wait_until(e, SNIB__OF(e->heard.after, struct etcd_claim, in_breaks), at_ns);
    }
}

/* ---- Time ------------------------------------------------------------------------------- */

static void watch(struct etcd *e, struct etcd_claim *b, int64_t now_ns)
{
    b->own_watch = etcd_watch_key(e, b->key);
    if (!b->own_watch) {
        wait_until(e, b, now_ns + 10 * AGAIN_NS);
        return;
    }
    snib__list_remove(&b->in_breaks);
    snib__list_append(&e->heard, &b->in_breaks);
    if (e->watched++ == 0) {
        e->session->attend++;
    }
}

/* They stand in the order they came, but for a few that are tried again. */
int64_t etcd_breaks_keep_time(struct etcd *e, int64_t now_ns)
{
    int64_t next = SNIB__NEVER;
    while (e->watched < WATCHED_MOST && !snib__list_empty(&e->unheard)) {
        struct etcd_claim *b = SNIB__OF(e->unheard.after, struct etcd_claim, in_breaks);
        if (now_ns < b->listen_ns) {
            next = b->listen_ns;
            break;
        }
        watch(e, b, now_ns);
    }
    return next;
}
