/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_KEYS_H
#define SNIB_ETCD_KEYS_H

/*
 * What a lock looks like in etcd's key space.
 *
 *   - PREFIX NAME / 694d8f31ab402c07: exclusive. The lease in hexadecimal digits, which is the key
 *     of Go's concurrency package and of `etcdctl lock`.
 *   - PREFIX NAME / r 694d8f31ab402c08: shared.
 *   - PREFIX NAME / s0003- 694d8f31ab402c09: counted, with its permits.
 *   - PREFIX %last/ NAME: the token of the last exclusive grant.
 *
 * (without the blanks). A key's create revision is its place in line and its token. '/' and '%' in
 * a name are written %2F and %25, so that the keys of one lock are never among those of another;
 * what others put deeper below NAME/ is no contender.
 */

#include "engines/engine.h"

#include <protobuf-c/protobuf-c.h>

#define ETCD_PREFIX_MAX 100
#define ETCD_BASE_MAX (ETCD_PREFIX_MAX + 3 * SNIB__NAME_MAX + 16)
#define ETCD_KEY_MAX (ETCD_BASE_MAX + 32)
#define ETCD_VALUE_MAX 640

enum etcd_class { ETCD_EXCLUSIVE, ETCD_SHARED, ETCD_COUNTED, ETCD_ALIEN };

/* "PREFIXNAME/" */
void etcd_key_base(char out[ETCD_BASE_MAX], const char *prefix, const char *name);
void etcd_key_last(char out[ETCD_BASE_MAX], const char *prefix, const char *name);
void etcd_key(char out[ETCD_KEY_MAX], const char *base, int mode, unsigned permits, int64_t lease);

/* The end of the range that `base` begins: the same, with its last byte one larger. */
void etcd_key_end(char out[ETCD_BASE_MAX], const char *base);

/* What a key below `base` is; *permits if it is counted. ALIEN: none of this lock's. */
enum etcd_class etcd_key_class(const ProtobufCBinaryData *key, const char *base, unsigned *permits);

/* The name in a key below `prefix`, and how long its base is; false: it has none. */
bool etcd_key_name(char out[SNIB__NAME_MAX + 1], size_t *base_size, const char *prefix,
                   const ProtobufCBinaryData *key);

/* What a contender says of itself. */
struct etcd_value {
    char who[120], label[SNIB__LABEL_MAX + 1], broken[120]; /* "": nothing */
    int64_t since_ms, ttl_ms;
    uint64_t owner; /* of the owner id, what does not give it away */
};

void etcd_value_write(char out[ETCD_VALUE_MAX], const struct etcd_value *);
void etcd_value_read(struct etcd_value *, const ProtobufCBinaryData *);
uint64_t etcd_value_owner(const unsigned char owner[16]);

#endif
