/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: one per claim, from a small stock.
 *
 * A transaction whose answer was lost may be executed at any time later, also after a deletion that
 * was confirmed elsewhere: streams of HTTP/2 are not ordered, and neither are members. Only a
 * revoked lease stops it. So a lease goes back into stock only if everything that was sent under it
 * was answered, once; else it is revoked, again and again until the cluster has confirmed it, and
 * never kept alive meanwhile.
 *
 * How long a lease lives is counted from the sending of its grant, which goes through raft, or from
 * the sending of a keep-alive, which does not: it is answered by whoever believes to be the leader,
 * also by one that was stopped, has been replaced and has just woken up. So a keep-alive counts
 * only if a linearizable request that was sent after it was answered with the same raft term: then
 * there was no newer leader when the keep-alive was sent, and one that came later begins by giving
 * every lease its full time. What counts then is the ttl of that answer, not the one of the grant.
 *
 * What is in stock is not kept alive; it is revoked when it has not been used for a while.
 */
#include "engines/etcd/leases.h"

#include "base/hash.h"
#include "engines/etcd/requests.h"

#include <stdlib.h>
#include <string.h>

enum {
    STOCK_MOST = 8,
    IDLE_MS = 3000,
    PAUSE_FIRST_MS = 50,
    PAUSE_MOST_MS = 1000,
    STATUS_NOT_FOUND = 5,
    STATUS_PRECONDITION = 9
};
#define LONGEST_S (366LL * 86400)

static int64_t now_ns(void)
{
    return snib__now().boot_ns;
}

static uint64_t hash_of(int64_t id)
{
    return snib__hash_bytes(SNIB__HASH_START, &id, sizeof id);
}

struct etcd_lease *etcd_lease_find(const struct etcd *e, int64_t id)
{
    for (struct snib__entry *entry = snib__table_first(&e->leases, hash_of(id)); entry;
         entry = snib__entry_next(entry)) {
        struct etcd_lease *l = SNIB__OF(entry, struct etcd_lease, entry);
        if (l->id == id) {
            return l;
        }
    }
    return NULL;
}

static void forget(struct etcd *e, struct etcd_lease *l)
{
    snib__list_remove(&l->place);
    snib__table_remove(&e->leases, &l->entry);
    e->session->undoing -= l->undoing ? 1 : 0;
    free(l);
}

/* ---- Proofs ----------------------------------------------------------------------------- */

void etcd_lease_proof(struct etcd *e, const struct etcd_call *k, const Pb__Header *header)
{
    if (header && k->sent.boot_ns >= e->proof.boot_ns) {
        e->proof = k->sent;
        e->proof_term = header->raft_term;
    }
}

bool etcd_lease_settle(struct etcd *e, struct etcd_lease *l)
{
    if (!l->kept_term || l->kept_term != e->proof_term || e->proof.boot_ns < l->kept.boot_ns) {
        return false;
    }
    l->since = l->kept;
    l->granted_ms = l->kept_ms;
    l->kept_term = 0;
    return true;
}

/* ---- Granting --------------------------------------------------------------------------- */

static int64_t in_ms(int64_t ttl_s)
{
    return (ttl_s < LONGEST_S ? ttl_s : LONGEST_S) * 1000;
}

static void on_grant(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_lease *l = etcd_lease_find(e, k->number);
    const Pb__LeaseGrantResponse *reply = (const Pb__LeaseGrantResponse *)k->reply;
    if (!l) {
        return;
    }
    struct etcd_claim *b = l->claim;
    bool there = k->outcome == ETCD_ANSWERED &&
                 ((k->status == 0 && reply) || (k->status == STATUS_PRECONDITION && k->repeated));
    if (there) {
        int64_t ttl_s = reply && reply->ttl > 0 ? reply->ttl : l->ttl_s;
        if (reply) {
            etcd_lease_proof(e, k, reply->header);
        }
        l->granted_ms = in_ms(ttl_s);
        l->since = k->first_sent;
    }
    if (l->doomed) {
        return; /* its revocation is under way, or comes */
    }
    if (!there && k->outcome != ETCD_LOST) { /* nothing is there */
        l->claim = NULL;
        if (k->outcome == ETCD_ANSWERED && k->repeated) {
            etcd_lease_doom(e, l);
            etcd_lease_orphan(e, l);
        } else {
            forget(e, l);
        }
        if (b) {
            etcd_lease_upcalls.refused(e, b, k);
        }
    } else if (!there) {
        l->claim = NULL;
        etcd_lease_doom(e, l);
        if (e->proof.boot_ns) { /* else nobody has ever answered: no reason to wait for that */
            etcd_lease_orphan(e, l);
        }
        if (b) {
            etcd_lease_upcalls.refused(e, b, k);
        }
    } else if (b) {
        etcd_lease_upcalls.granted(e, b);
    } else {
        etcd_lease_give(e, l);
    }
}

static struct etcd_lease *ask(struct etcd *e, int64_t ttl_s)
{
    struct etcd_lease *l = calloc(1, sizeof *l);
    if (!l) {
        return NULL;
    }
    snib__list_init(&l->place);
    do {
        snib__random(&l->id, sizeof l->id);
        l->id &= INT64_MAX;
    } while (l->id == 0 || etcd_lease_find(e, l->id));
    l->ttl_s = ttl_s;
    struct etcd_call *k = etcd_request_grant(e, l->id, ttl_s);
    if (!k || !snib__table_add(&e->leases, &l->entry, hash_of(l->id))) {
        if (k) {
            etcd_call_free(k);
        }
        free(l);
        return NULL;
    }
    k->end = on_grant;
    etcd_cluster_submit(&e->cluster, k);
    return l;
}

/* Young enough to be worth more than a new one. */
static bool fresh(const struct etcd_lease *l)
{
    return snib__elapsed_ns(l->since, snib__now()) < l->granted_ms * SNIB__MS / 2;
}

static void leave_stock(struct etcd *e, struct etcd_lease *l)
{
    snib__list_remove(&l->place);
    e->stock_count--;
}

struct etcd_lease *etcd_lease_new(struct etcd *e, struct etcd_claim *b, int64_t ttl_ms)
{
    struct etcd_lease *l = ask(e, (ttl_ms + 999) / 1000);
    if (l) {
        l->claim = b;
    }
    return l;
}

struct etcd_lease *etcd_lease_take(struct etcd *e, struct etcd_claim *b, int64_t ttl_ms)
{
    int64_t ttl_s = (ttl_ms + 999) / 1000;
    struct etcd_lease *l = NULL;
    for (struct snib__list *at = e->stock.before; at != &e->stock; at = at->before) {
        struct etcd_lease *one = SNIB__OF(at, struct etcd_lease, place);
        if (one->ttl_s == ttl_s && fresh(one)) {
            leave_stock(e, one);
            l = one;
            break;
        }
    }
    if (!l) {
        return etcd_lease_new(e, b, ttl_ms);
    }
    l->claim = b;
    return l;
}

bool etcd_lease_wanted(const struct etcd *e)
{
    return e->stock_count < STOCK_MOST;
}

void etcd_lease_give(struct etcd *e, struct etcd_lease *l)
{
    l->claim = NULL;
    if (l->unclean || l->gone || !l->granted_ms || !fresh(l) || !etcd_lease_wanted(e)) {
        etcd_lease_doom(e, l);
        etcd_lease_orphan(e, l);
        return;
    }
    l->idle_ns = now_ns();
    snib__list_remove(&l->place);
    snib__list_append(&e->stock, &l->place);
    e->stock_count++;
}

/* ---- Revoking --------------------------------------------------------------------------- */

static void postpone(struct etcd_lease *l)
{
    l->pause_ms = l->pause_ms ? l->pause_ms * 2 : PAUSE_FIRST_MS;
    l->pause_ms = l->pause_ms < PAUSE_MOST_MS ? l->pause_ms : PAUSE_MOST_MS;
    l->retry_ns = now_ns() + snib__jitter(l->pause_ms * SNIB__MS);
}

static void on_revoke(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_lease *l = etcd_lease_find(e, k->number);
    if (!l) {
        return;
    }
    bool done = k->outcome == ETCD_ANSWERED && (k->status == 0 || k->status == STATUS_NOT_FOUND);
    struct etcd_claim *b = l->claim;
    if (!done) {
        postpone(l);
    }
    if (b) {
        if (!done) {
            etcd_lease_orphan(e, l);
        }
        l->claim = NULL;
        etcd_lease_upcalls.revoked(e, b, k); /* the claim may be gone now, but the lease is not */
    }
    if (done) {
        forget(e, l);
    }
}

static void revoke(struct etcd *e, struct etcd_lease *l)
{
    struct etcd_call *k = etcd_request_revoke(e, l->id);
    l->retry_ns = SNIB__NEVER;
    if (!k) {
        postpone(l);
        return;
    }
    k->end = on_revoke;
    etcd_cluster_submit(&e->cluster, k);
}

void etcd_lease_doom(struct etcd *e, struct etcd_lease *l)
{
    if (l->doomed) {
        return;
    }
    int64_t life_ms = l->granted_ms ? l->granted_ms : l->ttl_s * 1000;
    l->doomed = true;
    /* Nobody keeps it alive any more: later than this it is over, whatever becomes of leaders. */
    l->until_ns = snib__later(now_ns(), (3 * life_ms + 30000) * SNIB__MS);
    snib__list_remove(&l->place);
    snib__list_append(&e->doomed, &l->place);
    revoke(e, l);
}

void etcd_lease_orphan(struct etcd *e, struct etcd_lease *l)
{
    l->claim = NULL;
    if (!l->undoing) {
        l->undoing = true;
        e->session->undoing++;
    }
}

/* ---- Keeping alive ---------------------------------------------------------------------- */

static void on_kept(struct etcd_call *k, const ProtobufCMessage *message)
{
    struct etcd *e = k->owner;
    const Pb__LeaseKeepAliveResponse *reply = (const Pb__LeaseKeepAliveResponse *)message;
    struct etcd_lease *l = etcd_lease_find(e, reply->id);
    if (!l || k->message_at >= k->other_count) {
        return;
    }
    k->others[k->message_at] = 0; /* answered */
    l->keeping -= l->keeping > 0;
    if (reply->ttl <= 0) {
        l->gone = true;
    } else if (k->sent.boot_ns >= l->kept.boot_ns) {
        l->kept = k->sent;
        l->kept_term = reply->header ? reply->header->raft_term : 0;
        l->kept_ms = in_ms(reply->ttl);
        (void)etcd_lease_settle(e, l);
    }
    if (l->claim) {
        etcd_lease_upcalls.kept(e, l->claim);
    }
}

static void on_keep_end(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    for (size_t i = 0; i < k->other_count; i++) {
        struct etcd_lease *l = k->others[i] ? etcd_lease_find(e, k->others[i]) : NULL;
        if (l) {
            l->keeping -= l->keeping > 0;
            if (l->claim) {
                etcd_lease_upcalls.kept(e, l->claim);
            }
        }
    }
}

bool etcd_lease_keep(struct etcd *e, const int64_t ids[], size_t n)
{
    struct etcd_call *k = etcd_request_keep(e, ids, n);
    if (!k) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        struct etcd_lease *l = etcd_lease_find(e, ids[i]);
        if (l) {
            l->keeping++;
        }
    }
    k->message = on_kept;
    k->end = on_keep_end;
    etcd_cluster_submit(&e->cluster, k);
    return true;
}

/* ---- Time, beginning, end --------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t etcd_leases_keep_time(struct etcd *e, int64_t now)
{
    int64_t next = SNIB__NEVER;
    struct snib__list *after;
    for (struct snib__list *at = e->doomed.after; at != &e->doomed; at = after) {
        struct etcd_lease *l = SNIB__OF(at, struct etcd_lease, place);
        after = at->after;
        if (l->retry_ns == SNIB__NEVER) {
            continue; /* under way */
        }
        if (now >= l->until_ns && !l->claim) {
            forget(e, l);
            continue;
        }
        if (now >= l->retry_ns) {
            revoke(e, l);
        }
        next = least(next, l->retry_ns);
    }
    while (!snib__list_empty(&e->stock)) {
        struct etcd_lease *l = SNIB__OF(e->stock.after, struct etcd_lease, place);
        if (now < l->idle_ns + IDLE_MS * SNIB__MS) {
            break;
        }
        leave_stock(e, l);
        etcd_lease_doom(e, l);
        etcd_lease_orphan(e, l);
    }
    return next;
}

int64_t etcd_leases_next(const struct etcd *e)
{
    if (snib__list_empty(&e->stock)) {
        return 0;
    }
    return SNIB__OF(e->stock.after, struct etcd_lease, place)->idle_ns + IDLE_MS * SNIB__MS;
}

void etcd_leases_farewell(struct etcd *e)
{
    while (!snib__list_empty(&e->stock)) {
        struct etcd_lease *l = SNIB__OF(e->stock.after, struct etcd_lease, place);
        leave_stock(e, l);
        etcd_lease_doom(e, l);
        etcd_lease_orphan(e, l);
    }
}

bool etcd_leases_idle(const struct etcd *e)
{
    return snib__list_empty(&e->doomed);
}

void etcd_leases_close(struct etcd *e)
{
    struct snib__entry *entry, *next = snib__table_next(&e->leases, NULL);
    while ((entry = next) != NULL) {
        next = snib__table_next(&e->leases, entry);
        free(SNIB__OF(entry, struct etcd_lease, entry));
    }
    snib__table_free(&e->leases);
}
