/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One claim of the etcd engine, without a core and without a cluster: calls wait, and are answered
 * by hand; what the engine answers is noted here instead of going to the core.
 */
#ifndef SNIB_TESTS_ETCD_BY_HAND_H
#define SNIB_TESTS_ETCD_BY_HAND_H

#include "check.h"
#include "engines/etcd/claims.h"
#include "engines/etcd/leases.h"

static struct etcd etcd;
static struct snib__session session;
static struct snib__claim claim;
static struct etcd_claim state;

static int answers[SNIB__RELEASE + 1];
static struct snib__result last;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's name */
void __wrap_snib__answer(struct snib__claim *of, enum snib__verb verb,
                         const struct snib__result *result);
/* NOLINTEND(bugprone-reserved-identifier) */

void __wrap_snib__answer(struct snib__claim *of, enum snib__verb verb,
                         const struct snib__result *result)
{
    (void)of;
    answers[verb]++;
    last = *result;
}

static void on_unreachable(void *owner)
{
    (void)owner;
}

static const struct etcd_cluster_upcalls upcalls = {.unreachable = on_unreachable};

/* The oldest call of this method that waits; NULL: there is none. */
static inline struct etcd_call *waiting(const char *method)
{
    struct snib__list *all = &etcd.cluster.waiting;
    for (struct snib__list *l = all->after; l != all; l = l->after) {
        struct etcd_call *k = SNIB__OF(l, struct etcd_call, place);
        if (strstr(k->method->path, method) != NULL) {
            return k;
        }
    }
    return NULL;
}

/* It ends as its caller sees it; answered now unless it says when it was sent. */
static inline void finish(struct etcd_call *k, int status, const ProtobufCMessage *message)
{
    k->outcome = ETCD_ANSWERED;
    k->status = status;
    if (!k->sent.boot_ns) {
        k->first_sent = k->sent = snib__now();
    }
    k->reply = (ProtobufCMessage *)(uintptr_t)message;
    snib__list_remove(&k->place);
    k->end(k);
    k->reply = NULL;
    etcd_call_free(k);
}

static inline bool reply(const char *method, int status, const ProtobufCMessage *message)
{
    struct etcd_call *k = waiting(method);
    if (k) {
        finish(k, status, message);
    }
    return k != NULL;
}

static inline bool grant(int64_t ttl_s)
{
    Pb__LeaseGrantResponse granted = PB__LEASE_GRANT_RESPONSE__INIT;
    granted.ttl = ttl_s;
    return reply("LeaseGrant", 0, &granted.base);
}

static inline bool revoke(int status)
{
    Pb__LeaseRevokeResponse revoked = PB__LEASE_REVOKE_RESPONSE__INIT;
    return reply("LeaseRevoke", status, &revoked.base);
}

/* It is held, with a lease of that ttl that is not granted yet. */
static inline void hold(int64_t ttl_ms)
{
    session.state = &etcd;
    session.who = "host:1";
    session.timeout_ms = 60000;
    etcd.session = &session;
    etcd.releases = 1;
    snib__list_init(&etcd.stock);
    snib__list_init(&etcd.doomed);
    etcd_cluster_init(&etcd.cluster, &upcalls, &etcd);
    etcd.cluster.count = 1;
    etcd.cluster.timeout_ms = etcd.cluster.connect_ms = 1000;
    etcd.cluster.dial_ns = INT64_MAX;
    claim = (struct snib__claim){.session = &session,
                                 .name = "name",
                                 .label = "",
                                 .mode = SNIB_EXCLUSIVE,
                                 .permits = 1,
                                 .ttl_ms = ttl_ms,
                                 .state = &state};
    state = (struct etcd_claim){.claim = &claim,
                                .phase = ETCD_HELD_NOW,
                                .mine = 10,
                                .token = 10,
                                .sent = true,
                                .was_held = true,
                                .noted = true};
    state.lease = etcd_lease_new(&etcd, &state, claim.ttl_ms);
    CHECK(state.lease != NULL);
}

enum { TERM = 5 };

static inline struct snib__instant ago(int64_t ms)
{
    struct snib__instant now = snib__now();
    now.boot_ns -= ms * SNIB__MS;
    now.raw_ns -= ms * SNIB__MS;
    return now;
}

/* The keep-alive is answered, and had been sent so long ago. */
static inline void keep_in(uint64_t term, int64_t sent_ms, int64_t ttl_s)
{
    struct etcd_call *k = waiting("LeaseKeepAlive");
    Pb__LeaseKeepAliveResponse kept = PB__LEASE_KEEP_ALIVE_RESPONSE__INIT;
    Pb__Header header = PB__HEADER__INIT;
    header.raft_term = term;
    kept.header = &header;
    kept.id = state.lease->id;
    kept.ttl = ttl_s;
    k->first_sent = k->sent = ago(sent_ms);
    k->message(k, &kept.base);
    snib__list_remove(&k->place); /* the stream is over */
    k->end(k);
    etcd_call_free(k);
}

static inline void keep(int64_t sent_ms, int64_t ttl_s)
{
    keep_in(TERM, sent_ms, ttl_s);
}

static inline void let_go(void)
{
    etcd_cluster_close(&etcd.cluster);
    etcd_leases_close(&etcd);
}

#endif
