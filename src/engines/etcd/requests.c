/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests, put together.
 *
 * The attempt is one transaction: if the key is not there and nobody uses the name as another kind
 * of lock, put it, and list who is in the way as of that very revision; else say what is there. A
 * repeated one finds its own key in the second branch, so it counts once.
 *
 * The last token. A shared grant carries the token of the last exclusive one, so that has to be
 * kept when the key is gone: in a key of its own, under a lease of `retention` that all clients
 * share by its number. Who takes a free lock writes it in the same transaction (its modification
 * revision is then the token); who was handed one writes the number when it renews or releases. If
 * it was forgotten, the next reader draws a new one: revisions only grow.
 */
#include "engines/etcd/requests.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KV "/etcdserverpb.KV/"
#define LEASE "/etcdserverpb.Lease/"
#define MAINTENANCE "/etcdserverpb.Maintenance/"

static const struct etcd_method txn_method = {KV "Txn", &pb__txn_response__descriptor};
static const struct etcd_method delete_method = {KV "DeleteRange",
                                                 &pb__delete_range_response__descriptor};
static const struct etcd_method range_method = {KV "Range", &pb__range_response__descriptor};
static const struct etcd_method grant_method = {LEASE "LeaseGrant",
                                                &pb__lease_grant_response__descriptor};
static const struct etcd_method revoke_method = {LEASE "LeaseRevoke",
                                                 &pb__lease_revoke_response__descriptor};
static const struct etcd_method keep_method = {LEASE "LeaseKeepAlive",
                                               &pb__lease_keep_alive_response__descriptor};
static const struct etcd_method ttl_method = {LEASE "LeaseTimeToLive",
                                              &pb__lease_time_to_live_response__descriptor};
static const struct etcd_method watch_method = {"/etcdserverpb.Watch/Watch",
                                                &pb__watch_response__descriptor};
static const struct etcd_method status_method = {MAINTENANCE "Status",
                                                 &pb__status_response__descriptor};
static const struct etcd_method alarm_method = {MAINTENANCE "Alarm",
                                                &pb__alarm_response__descriptor};
static const struct etcd_method members_method = {"/etcdserverpb.Cluster/MemberList",
                                                  &pb__member_list_response__descriptor};

static struct etcd_call *make(struct etcd *e, const struct etcd_method *method,
                              const ProtobufCMessage *request)
{
    struct etcd_call *k = etcd_call_new(method, e);
    if (k && request && !etcd_call_add(k, request)) {
        etcd_call_free(k);
        return NULL;
    }
    return k;
}

static ProtobufCBinaryData bytes(const char *text)
{
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)(uintptr_t)text};
}

int64_t etcd_record_lease(const struct etcd *e)
{
    uint64_t hash = snib__hash_text(e->prefix), hours = (uint64_t)snib__wall_us() / 3600000000U;
    hash = (hash ^ hash >> 32) & ((1U << 27) - 1);
    return (int64_t)(0x736eULL << 48 | hash << 21 | (hours & ((1U << 21) - 1)));
}

/* ---- Parts of a transaction ------------------------------------------------------------- */

/* One operation, or one comparison, with room for what it points to. */
struct op {
    Pb__RequestOp base;
    union {
        Pb__RangeRequest range;
        Pb__PutRequest put;
        Pb__DeleteRangeRequest del;
        Pb__TxnRequest txn;
    } of;
};

/* create_revision(key), or of all keys from `key` to `end`, is `revision`; 0: there is none. */
static Pb__Compare created_at(ProtobufCBinaryData key, const char *end, int64_t revision)
{
    Pb__Compare c = PB__COMPARE__INIT;
    c.target = PB__COMPARE_TARGET__C_CREATE;
    c.key = key;
    c.target_union_case = PB__COMPARE__TARGET_UNION_CREATE_REVISION;
    c.create_revision = revision;
    if (end) {
        c.range_end = bytes(end);
    }
    return c;
}

static void op_put(struct op *o, const char *key, const char *value, int64_t lease)
{
    pb__request_op__init(&o->base);
    pb__put_request__init(&o->of.put);
    o->of.put.key = bytes(key);
    o->of.put.value = bytes(value);
    o->of.put.lease = lease;
    o->base.request_case = PB__REQUEST_OP__REQUEST_PUT;
    o->base.put = &o->of.put;
}

/* Oldest first; `before` 0: all of them. */
static void op_range(struct op *o, const char *from, const char *end, int64_t before)
{
    pb__request_op__init(&o->base);
    pb__range_request__init(&o->of.range);
    o->of.range.key = bytes(from);
    if (end) {
        o->of.range.range_end = bytes(end);
        o->of.range.sort_order = PB__SORT_ORDER__ASCEND;
        o->of.range.sort_target = PB__SORT_TARGET__CREATE;
        o->of.range.max_create_revision = before ? before - 1 : 0;
    }
    o->base.request_case = PB__REQUEST_OP__REQUEST_RANGE;
    o->base.range = &o->of.range;
}

static void op_delete(struct op *o, ProtobufCBinaryData key)
{
    pb__request_op__init(&o->base);
    pb__delete_range_request__init(&o->of.del);
    o->of.del.key = key;
    o->base.request_case = PB__REQUEST_OP__REQUEST_DEL;
    o->base.del = &o->of.del;
}

/* If `compare`, then `yes`, else `no`; each may be NULL. */
static void op_if(struct op *o, Pb__Compare **compare, Pb__RequestOp **yes, Pb__RequestOp **no)
{
    pb__request_op__init(&o->base);
    pb__txn_request__init(&o->of.txn);
    o->of.txn.n_compare = 1;
    o->of.txn.compare = compare;
    o->of.txn.n_success = *yes != NULL;
    o->of.txn.success = yes;
    o->of.txn.n_failure = *no != NULL;
    o->of.txn.failure = no;
    o->base.request_case = PB__REQUEST_OP__REQUEST_TXN;
    o->base.txn = &o->of.txn;
}

/* ---- Who is in the way ------------------------------------------------------------------ */

struct ranges {
    char base[ETCD_BASE_MAX], end[ETCD_BASE_MAX], last[ETCD_BASE_MAX];
    char from[ETCD_BASE_MAX + 8], to[ETCD_BASE_MAX + 8]; /* who is in the way of this mode */
};

static void ranges_of(struct ranges *r, const struct etcd *e, const struct snib__claim *claim)
{
    etcd_key_base(r->base, e->prefix, claim->name);
    etcd_key_end(r->end, r->base);
    etcd_key_last(r->last, e->prefix, claim->name);
    if (claim->mode == SNIB_SHARED) { /* exclusive keys begin with a hexadecimal digit */
        snprintf(r->from, sizeof r->from, "%s0", r->base);
        snprintf(r->to, sizeof r->to, "%sg", r->base);
    } else if (claim->mode == SNIB_COUNTED) {
        snprintf(r->from, sizeof r->from, "%ss%04u-", r->base, claim->permits);
        snprintf(r->to, sizeof r->to, "%ss%04u.", r->base, claim->permits);
    } else {
        strcpy(r->from, r->base);
        strcpy(r->to, r->end);
    }
}

static void value_of(char out[ETCD_VALUE_MAX], const struct etcd *e,
                     const struct snib__claim *claim)
{
    struct etcd_value v = {.since_ms = snib__wall_us() / 1000,
                           .ttl_ms = claim->ttl_ms,
                           .owner = etcd_value_owner(claim->owner)};
    snprintf(v.who, sizeof v.who, "%s", e->session->who);
    snprintf(v.label, sizeof v.label, "%s", claim->label);
    etcd_value_write(out, &v);
}

struct etcd_call *etcd_request_attempt(struct etcd *e, const struct etcd_claim *b, bool try)
{
    const struct snib__claim *claim = b->claim;
    struct ranges r;
    char value[ETCD_VALUE_MAX], kind_from[ETCD_BASE_MAX + 8], kind_to[ETCD_BASE_MAX + 8];
    Pb__Compare compares[3], free_now, *compare[3], *if_free = &free_now;
    struct op put, last, record, read, list, own, all;
    Pb__RequestOp *yes[3] = {&put.base, &record.base, &list.base};
    Pb__RequestOp *no[2] = {&own.base, &all.base};
    Pb__RequestOp *write = &last.base, *look = &read.base, *others = &list.base;
    Pb__TxnRequest txn = PB__TXN_REQUEST__INIT;
    ranges_of(&r, e, claim);
    value_of(value, e, claim);
    compares[0] = created_at(bytes(b->key), NULL, 0);
    txn.n_compare = 1;
    if (!b->loose && claim->mode == SNIB_COUNTED) {
        compares[1] = created_at(bytes(r.base), r.from, 0);
        compares[2] = created_at(bytes(r.to), r.end, 0);
        txn.n_compare = 3;
    } else if (!b->loose) {
        snprintf(kind_from, sizeof kind_from, "%ss", r.base);
        snprintf(kind_to, sizeof kind_to, "%st", r.base);
        compares[1] = created_at(bytes(kind_from), kind_to, 0);
        compares[2] = created_at(bytes(r.from), r.to, 0);
        txn.n_compare = try ? 3 : 2;
    }
    for (int i = 0; i < 3; i++) {
        compare[i] = &compares[i];
    }
    op_put(&put, b->key, value, b->lease->id);
    op_put(&last, r.last, "", etcd_record_lease(e));
    op_range(&read, r.last, NULL, 0);
    op_range(&list, r.from, r.to, 0);
    op_range(&own, b->key, NULL, 0);
    op_range(&all, r.base, r.end, 0);
    txn.n_success = 2;
    if (claim->mode == SNIB_SHARED) {
        free_now = created_at(bytes(r.last), NULL, 0);
        op_if(&record, &if_free, &write, &look);
        txn.n_success = 3;
    } else if (claim->mode == SNIB_EXCLUSIVE) { /* nobody there: nothing to list */
        free_now = created_at(bytes(r.base), r.end, 0);
        op_if(&record, &if_free, &write, &others);
    } else {
        yes[1] = &list.base;
    }
    txn.compare = compare;
    txn.success = yes;
    txn.n_failure = 2;
    txn.failure = no;
    return make(e, &txn_method, &txn.base);
}

/* If the key is the one created then, do this (NULL: nothing more). */
static struct etcd_call *if_created(struct etcd *e, ProtobufCBinaryData key, int64_t created,
                                    Pb__RequestOp **ops, size_t n)
{
    Pb__TxnRequest txn = PB__TXN_REQUEST__INIT;
    Pb__Compare compare = created_at(key, NULL, created), *compares = &compare;
    txn.n_compare = 1;
    txn.compare = &compares;
    txn.n_success = n;
    txn.success = ops;
    return make(e, &txn_method, &txn.base);
}

struct etcd_call *etcd_request_list(struct etcd *e, const struct etcd_claim *b)
{
    struct ranges r;
    struct op list, last;
    Pb__RequestOp *ops[2] = {&list.base, &last.base};
    ranges_of(&r, e, b->claim);
    op_range(&list, r.from, r.to, b->mine);
    op_range(&last, r.last, NULL, 0);
    return if_created(e, bytes(b->key), b->mine, ops, b->claim->mode == SNIB_SHARED ? 2 : 1);
}

struct etcd_call *etcd_request_proof(struct etcd *e, const struct etcd_claim *const claims[],
                                     size_t n)
{
    Pb__TxnRequest txn = PB__TXN_REQUEST__INIT;
    struct op *ops = calloc(n, sizeof *ops);
    Pb__RequestOp **all = calloc(n, sizeof(Pb__RequestOp *));
    struct etcd_call *k = NULL;
    if (ops && all) {
        for (size_t i = 0; i < n; i++) {
            op_range(&ops[i], claims[i]->key, NULL, 0);
            all[i] = &ops[i].base;
        }
        txn.n_success = n;
        txn.success = all;
        k = make(e, &txn_method, &txn.base);
    }
    free(ops);
    free(all);
    return k;
}

struct etcd_call *etcd_request_swap(struct etcd *e, const struct etcd_claim *b, int64_t lease)
{
    struct op put, show;
    Pb__RequestOp *ops[2] = {&put.base, &show.base};
    op_put(&put, b->key, "", lease);
    put.of.put.ignore_value = true; /* somebody may have broken it: that is in there */
    op_range(&show, b->key, NULL, 0);
    return if_created(e, bytes(b->key), b->mine, ops, 2);
}

static void op_note(struct op *o, char number[24], char last[ETCD_BASE_MAX], const struct etcd *e,
                    const struct etcd_claim *b)
{
    etcd_key_last(last, e->prefix, b->claim->name);
    snprintf(number, 24, "%" PRId64, b->mine);
    op_put(o, last, number, etcd_record_lease(e));
}

struct etcd_call *etcd_request_note(struct etcd *e, const struct etcd_claim *b)
{
    char number[24], last[ETCD_BASE_MAX];
    struct op put;
    Pb__RequestOp *ops = &put.base;
    op_note(&put, number, last, e, b);
    return if_created(e, bytes(b->key), b->mine, &ops, 1);
}

struct etcd_call *etcd_request_delete(struct etcd *e, const struct etcd_claim *b, bool note)
{
    char number[24], last[ETCD_BASE_MAX];
    struct op del, put;
    Pb__RequestOp *ops[2] = {&del.base, &put.base};
    op_delete(&del, bytes(b->key));
    if (!note) { /* the lease is clean: nobody else ever had, or will have, this key meanwhile */
        return make(e, &delete_method, &del.of.del.base);
    }
    op_note(&put, number, last, e, b);
    return if_created(e, bytes(b->key), b->mine, ops, 2);
}

/* ---- Leases ----------------------------------------------------------------------------- */

struct etcd_call *etcd_request_grant(struct etcd *e, int64_t id, int64_t ttl_s)
{
    Pb__LeaseGrantRequest request = PB__LEASE_GRANT_REQUEST__INIT;
    request.id = id;
    request.ttl = ttl_s;
    struct etcd_call *k = make(e, &grant_method, &request.base);
    if (k) {
        k->number = id;
    }
    return k;
}

struct etcd_call *etcd_request_revoke(struct etcd *e, int64_t id)
{
    Pb__LeaseRevokeRequest request = PB__LEASE_REVOKE_REQUEST__INIT;
    request.id = id;
    struct etcd_call *k = make(e, &revoke_method, &request.base);
    if (k) {
        k->number = id;
    }
    return k;
}

struct etcd_call *etcd_request_keep(struct etcd *e, const int64_t ids[], size_t n)
{
    struct etcd_call *k = make(e, &keep_method, NULL);
    if (!k) {
        return NULL;
    }
    k->others = calloc(n, sizeof *k->others);
    bool good = k->others != NULL;
    for (size_t i = 0; good && i < n; i++) {
        Pb__LeaseKeepAliveRequest request = PB__LEASE_KEEP_ALIVE_REQUEST__INIT;
        request.id = k->others[i] = ids[i];
        good = etcd_call_add(k, &request.base);
    }
    k->other_count = n;
    if (!good) {
        etcd_call_free(k);
        return NULL;
    }
    return k;
}

struct etcd_call *etcd_request_ttl(struct etcd *e, int64_t id)
{
    Pb__LeaseTimeToLiveRequest request = PB__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    request.id = id;
    return make(e, &ttl_method, &request.base);
}

/* ---- For those who look ----------------------------------------------------------------- */

struct etcd_call *etcd_request_range(struct etcd *e, const char *from, const char *end)
{
    struct op all;
    op_range(&all, from, end, 0);
    return make(e, &range_method, &all.of.range.base);
}

struct etcd_call *etcd_request_remove(struct etcd *e, const ProtobufCBinaryData *key,
                                      int64_t created)
{
    struct op del;
    Pb__RequestOp *ops = &del.base;
    op_delete(&del, *key);
    return if_created(e, *key, created, &ops, 1);
}

struct etcd_call *etcd_request_mark(struct etcd *e, const ProtobufCBinaryData *key, int64_t created,
                                    const char *value)
{
    struct op put;
    Pb__RequestOp *ops = &put.base;
    op_put(&put, "", value, 0);
    put.of.put.key = *key;
    put.of.put.ignore_lease = true;
    return if_created(e, *key, created, &ops, 1);
}

struct etcd_call *etcd_request_status(struct etcd *e)
{
    Pb__StatusRequest request = PB__STATUS_REQUEST__INIT;
    return make(e, &status_method, &request.base);
}

struct etcd_call *etcd_request_members(struct etcd *e)
{
    Pb__MemberListRequest request = PB__MEMBER_LIST_REQUEST__INIT;
    return make(e, &members_method, &request.base);
}

struct etcd_call *etcd_request_alarms(struct etcd *e)
{
    Pb__AlarmRequest request = PB__ALARM_REQUEST__INIT;
    return make(e, &alarm_method, &request.base);
}

/* ---- Watching --------------------------------------------------------------------------- */

struct etcd_call *etcd_request_watch(struct etcd *e)
{
    struct etcd_call *k = make(e, &watch_method, NULL);
    if (k) {
        k->lasting = true;
    }
    return k;
}

bool etcd_request_watch_add(struct etcd_call *k, const char *key, bool below, int64_t id)
{
    char end[ETCD_BASE_MAX];
    Pb__WatchRequest request = PB__WATCH_REQUEST__INIT;
    Pb__WatchCreateRequest create = PB__WATCH_CREATE_REQUEST__INIT;
    Pb__WatchCreateRequest__Filter no_put = PB__WATCH_CREATE_REQUEST__FILTER__NOPUT;
    create.key = bytes(key);
    if (below) {
        etcd_key_end(end, key);
        create.range_end = bytes(end);
        create.n_filters = 1;
        create.filters = &no_put;
        create.prev_kv = true;
    }
    create.watch_id = id;
    request.request_case = PB__WATCH_REQUEST__REQUEST_CREATE;
    request.create = &create;
    return etcd_call_add(k, &request.base);
}

bool etcd_request_watch_cancel(struct etcd_call *k, int64_t id)
{
    Pb__WatchRequest request = PB__WATCH_REQUEST__INIT;
    Pb__WatchCancelRequest cancel = PB__WATCH_CANCEL_REQUEST__INIT;
    cancel.watch_id = id;
    request.request_case = PB__WATCH_REQUEST__REQUEST_CANCEL;
    request.cancel = &cancel;
    return etcd_call_add(k, &request.base);
}
