/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_NATIVE_H
#define SNIB_REDIS_NATIVE_H

/*
 * The layout `native`: a hash per lock, changed by scripts. docs/redis-protocol.md describes it.
 */

#include "engines/redis/layout.h"

#define SNIB__NATIVE_VERSION 2 /* the first byte of the state, and of a message */

/* native.c: what goes over the wire */
void snib__native_attempt(struct snib__command *, const struct snib__wish *);
void snib__native_renew(struct snib__command *, const struct snib__wish *);
void snib__native_release(struct snib__command *, const struct snib__wish *);
void snib__native_evict(struct snib__command *, const struct snib__wish *);
bool snib__native_answer(struct snib__layout_answer *, const struct snib__reply *);
bool snib__native_grant(struct snib__layout_grant *, const char *prefix, const char *message,
                        size_t size);

/* native_names.c: keys and names */
extern const struct snib__probe snib__native_probes[];
const char *snib__native_refuses(const char *prefix, const char *name);
void snib__native_key(char out[SNIB__KEY_MAX], const char *prefix, const char *name);
void snib__native_root(char out[SNIB__KEY_MAX], const char *prefix);
size_t snib__native_channels(char out[SNIB__CHANNELS][SNIB__KEY_MAX], const char *prefix,
                             const char *database, const char *name);
bool snib__native_frees(size_t channel, const char *word);
void snib__native_reach(char *out, size_t size, const char *prefix, const char *database);
void snib__native_pattern(char out[2 * SNIB__KEY_MAX], const char *prefix, const char *name);
bool snib__native_name_of(char out[SNIB__KEY_MAX], const char *prefix, const char *key);

/* native_inspect.c: who is in the hash */
void snib__native_inspect(struct snib__command *, const struct snib__wish *, unsigned look);
int snib__native_show(const struct snib__reply *, const int64_t numbers[SNIB__LOOKS],
                      const char *name, const struct snib__server_clock *, snib__layout_show *,
                      void *arg);

#endif
