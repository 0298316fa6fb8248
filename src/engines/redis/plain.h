/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_PLAIN_H
#define SNIB_REDIS_PLAIN_H

/*
 * The layout `plain`: a string per lock, as most other programs have it. docs/redis-plain.md
 * describes it.
 */

#include "engines/redis/layout.h"

#define SNIB__PLAIN_ID 34 /* an owner id as hexadecimal digits */

/* plain.c: what goes over the wire */
void snib__plain_attempt(struct snib__command *, const struct snib__wish *);
void snib__plain_renew(struct snib__command *, const struct snib__wish *);
void snib__plain_release(struct snib__command *, const struct snib__wish *);
void snib__plain_evict(struct snib__command *, const struct snib__wish *);
void snib__plain_agree(struct snib__command *, const struct snib__wish *);

/* plain_names.c: keys, channels and names */
extern const struct snib__probe snib__plain_probes[];
const char *snib__plain_refuses(const char *prefix, const char *name);
void snib__plain_key(char out[SNIB__KEY_MAX], const char *prefix, const char *name);
void snib__plain_fence(char out[SNIB__KEY_MAX], const char *prefix, const char *name);
void snib__plain_channel(char out[SNIB__KEY_MAX], const char *prefix, const char *name);
void snib__plain_root(char out[SNIB__KEY_MAX], const char *prefix);
size_t snib__plain_channels(char out[SNIB__CHANNELS][SNIB__KEY_MAX], const char *prefix,
                            const char *database, const char *name);
bool snib__plain_frees(size_t channel, const char *word);
void snib__plain_reach(char *out, size_t size, const char *prefix, const char *database);
void snib__plain_pattern(char out[2 * SNIB__KEY_MAX], const char *prefix, const char *name);
bool snib__plain_name_of(char out[SNIB__KEY_MAX], const char *prefix, const char *key);

/* plain_value.c: what is in the string, and who that is */
struct snib__plain_value {
    bool ours;        /* of a snib; else of another program, and the next two say nothing */
    const char *id;   /* SNIB__PLAIN_ID digits */
    const char *info; /* "WHO LABEL" */
    uint64_t token;   /* of another program's: a number that stands for it */
};
void snib__plain_read(struct snib__plain_value *, const char *text, size_t size);
uint64_t snib__plain_number(const char *text, size_t size); /* that stands for a stranger */
void snib__plain_id(char out[SNIB__PLAIN_ID + 1], const unsigned char id[SNIB__ID_SIZE]);
void snib__plain_inspect(struct snib__command *, const struct snib__wish *, unsigned look);
int snib__plain_show(const struct snib__reply *, const int64_t numbers[SNIB__LOOKS],
                     const char *name, const struct snib__server_clock *, snib__layout_show *,
                     void *arg);

#endif
