/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_RWLOCK_H
#define SNIB_REDIS_RWLOCK_H

/*
 * The layout `redisson-rw`: the hash of Redisson's RReadWriteLock. docs/redis-redisson.md describes
 * it.
 */

#include "engines/redis/layout.h"

/* rwlock.c: what goes over the wire */
void snib__rwlock_attempt(struct snib__command *, const struct snib__wish *);
void snib__rwlock_renew(struct snib__command *, const struct snib__wish *);
void snib__rwlock_release(struct snib__command *, const struct snib__wish *);
void snib__rwlock_evict(struct snib__command *, const struct snib__wish *);
void snib__rwlock_inspect(struct snib__command *, const struct snib__wish *, unsigned look);
int snib__rwlock_show(const struct snib__reply *, const int64_t numbers[SNIB__LOOKS],
                      const char *name, const struct snib__server_clock *, snib__layout_show *,
                      void *arg);

/* redisson_names.c: what differs from the names of `redisson` */
extern const struct snib__probe snib__rwlock_probes[];
void snib__rwlock_before(char out[SNIB__KEY_MAX], const char *prefix, const char *name);
size_t snib__rwlock_channels(char out[SNIB__CHANNELS][SNIB__KEY_MAX], const char *prefix,
                             const char *database, const char *name);
void snib__rwlock_reach(char *out, size_t size, const char *prefix, const char *database);

#endif
