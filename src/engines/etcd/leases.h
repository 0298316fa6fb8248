/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_LEASES_H
#define SNIB_ETCD_LEASES_H

#include "engines/etcd/session.h"

/* What a claim's lease is told. */
struct etcd_lease_upcalls {
    void (*granted)(struct etcd *, struct etcd_claim *);
    void (*refused)(struct etcd *, struct etcd_claim *, const struct etcd_call *);
    void (*kept)(struct etcd *, struct etcd_claim *); /* a keep-alive was answered, or lost */
    void (*revoked)(struct etcd *, struct etcd_claim *, const struct etcd_call *);
};
extern const struct etcd_lease_upcalls etcd_lease_upcalls; /* claims.c */

/* A lease for this claim, from stock or asked for: then `granted` or `refused` follows. NULL: no
 * memory. */
struct etcd_lease *etcd_lease_take(struct etcd *, struct etcd_claim *, int64_t ttl_ms);

/* The same, never from stock: its time begins after this call. */
struct etcd_lease *etcd_lease_new(struct etcd *, struct etcd_claim *, int64_t ttl_ms);

/* The claim is done with it: back into stock if it is clean, else it is revoked. */
void etcd_lease_give(struct etcd *, struct etcd_lease *);

/* Revoke it, and go on until that is confirmed; `claim` hears of it. */
void etcd_lease_doom(struct etcd *, struct etcd_lease *);

/* The claim has its answer: whatever is left of the revocation is the session's. */
void etcd_lease_orphan(struct etcd *, struct etcd_lease *);

/* Would a clean one be kept, or are there enough? */
bool etcd_lease_wanted(const struct etcd *);

struct etcd_lease *etcd_lease_find(const struct etcd *, int64_t id);

/* Keep these alive. False: no memory. */
bool etcd_lease_keep(struct etcd *, const int64_t ids[], size_t n);

/* A linearizable request was answered: what it proves, it proves for every lease. */
void etcd_lease_proof(struct etcd *, const struct etcd_call *, const Pb__Header *);

/* Is the last keep-alive proven, or answered with something that cannot be? */
bool etcd_lease_settle(struct etcd *, struct etcd_lease *);

int64_t etcd_leases_keep_time(struct etcd *, int64_t now_ns);
int64_t etcd_leases_next(const struct etcd *); /* when to be driven although nobody waits; 0: no */
void etcd_leases_farewell(struct etcd *);      /* all in stock are revoked */
bool etcd_leases_idle(const struct etcd *);    /* nothing is being revoked */
void etcd_leases_close(struct etcd *);

#endif
