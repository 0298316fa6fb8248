/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_REQUESTS_H
#define SNIB_ETCD_REQUESTS_H

/*
 * The calls that a lock makes. Each answers NULL when there is no memory; what is to happen with
 * the answer is the caller's.
 */

#include "engines/etcd/session.h"

struct etcd_call *etcd_request_grant(struct etcd *, int64_t id, int64_t ttl_s);
struct etcd_call *etcd_request_revoke(struct etcd *, int64_t id);
struct etcd_call *etcd_request_keep(struct etcd *, const int64_t ids[], size_t n);
struct etcd_call *etcd_request_ttl(struct etcd *, int64_t id);

/* Stand in line, or take it if it is free, and see who is ahead. `try`: only if it is free. */
struct etcd_call *etcd_request_attempt(struct etcd *, const struct etcd_claim *, bool try);

/* Is the key still ours, and who is ahead? */
struct etcd_call *etcd_request_list(struct etcd *, const struct etcd_claim *);

/* Are these keys still there? */
struct etcd_call *etcd_request_proof(struct etcd *, const struct etcd_claim *const claims[],
                                     size_t n);

/* Put the key under another lease, if it is ours, and show it; what it says stays. */
struct etcd_call *etcd_request_swap(struct etcd *, const struct etcd_claim *, int64_t lease);

/* Write the token down, if it is ours. */
struct etcd_call *etcd_request_note(struct etcd *, const struct etcd_claim *);

/* Delete the key; with `note`, write the token down in the same step. */
struct etcd_call *etcd_request_delete(struct etcd *, const struct etcd_claim *, bool note);

/* For those who look: all keys from `from` to `end`, oldest first; delete one, or change its value,
 * if it is still the one created then. */
struct etcd_call *etcd_request_range(struct etcd *, const char *from, const char *end);
struct etcd_call *etcd_request_remove(struct etcd *, const ProtobufCBinaryData *key,
                                      int64_t created);
struct etcd_call *etcd_request_mark(struct etcd *, const ProtobufCBinaryData *key, int64_t created,
                                    const char *value);

struct etcd_call *etcd_request_watch(struct etcd *);
/* `below`: deletions of all keys that begin with `key`; else everything about that one. */
bool etcd_request_watch_add(struct etcd_call *, const char *key, bool below, int64_t id);
bool etcd_request_watch_cancel(struct etcd_call *, int64_t id);

struct etcd_call *etcd_request_status(struct etcd *);
struct etcd_call *etcd_request_members(struct etcd *);
struct etcd_call *etcd_request_alarms(struct etcd *);

/* The lease that last tokens are kept under: everybody's with this prefix, of this hour. Of others
 * it must not be: who puts a key under a lease needs the right to all keys below it. */
int64_t etcd_record_lease(const struct etcd *);

#endif
