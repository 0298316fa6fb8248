/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_REDISSON_H
#define SNIB_REDIS_REDISSON_H

/*
 * The layout `redisson`: the hash of Redisson's RLock and RFencedLock. docs/redis-redisson.md
 * describes it.
 */

#include "engines/redis/layout.h"

/* redisson.c: what goes over the wire */
void snib__redisson_attempt(struct snib__command *, const struct snib__wish *);
void snib__redisson_renew(struct snib__command *, const struct snib__wish *);
void snib__redisson_release(struct snib__command *, const struct snib__wish *);
void snib__redisson_evict(struct snib__command *, const struct snib__wish *);
void snib__redisson_inspect(struct snib__command *, const struct snib__wish *, unsigned look);
int snib__redisson_show(const struct snib__reply *, const int64_t numbers[SNIB__LOOKS],
                        const char *name, const struct snib__server_clock *, snib__layout_show *,
                        void *arg);

/* redisson_names.c: keys, fields, channels and names */
#define SNIB__REDISSON_FIELD 48
void snib__redisson_field(char out[SNIB__REDISSON_FIELD], const unsigned char id[SNIB__ID_SIZE]);
extern const struct snib__probe snib__redisson_probes[];
const char *snib__redisson_refuses(const char *prefix, const char *name);
void snib__redisson_fence(char out[SNIB__KEY_MAX], const char *prefix, const char *name);
void snib__redisson_counter(char out[SNIB__KEY_MAX], const char *prefix, const char *name);
void snib__redisson_queue(char out[SNIB__KEY_MAX], const char *prefix, const char *name);
size_t snib__redisson_channels(char out[SNIB__CHANNELS][SNIB__KEY_MAX], const char *prefix,
                               const char *database, const char *name);
void snib__redisson_reach(char *out, size_t size, const char *prefix, const char *database);
void snib__redisson_pattern(char out[2 * SNIB__KEY_MAX], const char *prefix, const char *name);
bool snib__redisson_name_of(char out[SNIB__KEY_MAX], const char *prefix, const char *key);

#endif
