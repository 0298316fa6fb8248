/* SPDX-License-Identifier: Apache-2.0 */
#include "engines/redis/layout.h"

#include "engines/redis/native.h"
#include "engines/redis/plain.h"
#include "engines/redis/plan.h"
#include "engines/redis/redisson.h"
#include "engines/redis/rwlock.h"

#include <stdio.h>

const struct snib__layout snib__layouts[SNIB__LAYOUTS] = {
    [SNIB__LAYOUT_NATIVE] =
        {
            .name = "native",
            .prefix = "snib",
            .type = "a hash",
            .why = "",
            .recheck_ms = 1000,
            .behind_ms = 10000,
            .strangers_ms = 1000,
            .commands = "+evalsha +eval +hmget +hset +hget +hgetall +hdel +hexists +pexpireat "
                        "+time +publish +pubsub|numsub",
            .probes = snib__native_probes,
            .clean = {.words = {"PEXPIREAT", "@", "1"}},
            .attempt = snib__native_attempt,
            .renew = snib__native_renew,
            .release = snib__native_release,
            .evict = snib__native_evict,
            .answer = snib__native_answer,
            .grant = snib__native_grant,
            .refuses = snib__native_refuses,
            .key = snib__native_key,
            .root = snib__native_root,
            .channels = snib__native_channels,
            .frees = snib__native_frees,
            .reach = snib__native_reach,
            .pattern = snib__native_pattern,
            .name_of = snib__native_name_of,
            .looks = 1,
            .inspect = snib__native_inspect,
            .show = snib__native_show,
        },
    [SNIB__LAYOUT_PLAIN] =
        {
            .name = "plain",
            .prefix = "",
            .type = "a string",
            .lacks =
                SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_TOKEN_SPAN,
            .why = "layout=plain is one string per lock, which has room for one holder",
            .recheck_ms = 1000,
            .behind_ms = 1000,
            .strangers_ms = 100,
            .commands =
                "+evalsha +eval +mget +get +set +setrange +del +pexpire +pttl +time +publish "
                "+unsubscribe",
            .commands_of_plan =
                "+watch +multi +exec +mget +get +set +del +pexpire +pttl +time +publish "
                "+unsubscribe",
            .plan = &snib__plain_plan,
            .probes = snib__plain_probes,
            .clean = {.words = {"DEL", "@"}},
            .attempt = snib__plain_attempt,
            .renew = snib__plain_renew,
            .release = snib__plain_release,
            .evict = snib__plain_evict,
            .agree = snib__plain_agree,
            .answer = snib__native_answer, /* the same words */
            .grant = snib__native_grant,
            .refuses = snib__plain_refuses,
            .key = snib__plain_key,
            .root = snib__plain_root,
            .channels = snib__plain_channels,
            .frees = snib__plain_frees,
            .reach = snib__plain_reach,
            .pattern = snib__plain_pattern,
            .name_of = snib__plain_name_of,
            .looks = 2,
            .inspect = snib__plain_inspect,
            .show = snib__plain_show,
        },
    [SNIB__LAYOUT_REDISSON] =
        {
            .name = "redisson",
            .prefix = "",
            .type = "a hash",
            .counts = true,
            .lacks =
                SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_TOKEN_SPAN,
            .why = "layout=redisson is the RLock of Redisson, which has one holder; "
                   "layout=redisson-rw has its read-write locks, its semaphores cannot be shared",
            .recheck_ms = 1000,
            .behind_ms = 1000,
            .strangers_ms = 1000,
            .commands =
                "+evalsha +eval +hmget +hset +hgetall +hexists +exists +get +set +incr +del "
                "+pexpire +pttl +time +publish +unsubscribe",
            .probes = snib__redisson_probes,
            .clean = {.words = {"DEL", "@", "redisson_lock_token:{@}", "redisson_lock_token:@"}},
            .attempt = snib__redisson_attempt,
            .renew = snib__redisson_renew,
            .release = snib__redisson_release,
            .evict = snib__redisson_evict,
            .answer = snib__native_answer, /* the same words */
            .grant = snib__native_grant,
            .refuses = snib__redisson_refuses,
            .key = snib__plain_key,
            .root = snib__plain_root,
            .channels = snib__redisson_channels,
            .frees = snib__plain_frees,
            .reach = snib__redisson_reach,
            .pattern = snib__redisson_pattern,
            .name_of = snib__redisson_name_of,
            .looks = 2,
            .inspect = snib__redisson_inspect,
            .show = snib__redisson_show,
        },
    [SNIB__LAYOUT_RWLOCK] =
        {
            .name = "redisson-rw",
            .prefix = "",
            .type = "a hash",
            .counts = true,
            .watched = true,
            .lacks = SNIB_TRAIT_FAIR | SNIB_TRAIT_COUNTED | SNIB_TRAIT_TOKEN_SPAN,
            .why = "layout=redisson-rw is the RReadWriteLock of Redisson, which does not count",
            .recheck_ms = 1000,
            .behind_ms = 1000,
            .strangers_ms = 1000,
            .commands = "+evalsha +eval +hmget +hset +hgetall +hkeys +hdel +exists +get +set +incr "
                        "+del +pexpire +pttl +time +publish +unsubscribe",
            .probes = snib__rwlock_probes,
            .clean = {.words = {"DEL", "@", "redisson_lock_token:{@}", "redisson_lock_token:@"}},
            .attempt = snib__rwlock_attempt,
            .renew = snib__rwlock_renew,
            .release = snib__rwlock_release,
            .evict = snib__rwlock_evict,
            .answer = snib__native_answer, /* the same words */
            .grant = snib__native_grant,
            .refuses = snib__redisson_refuses,
            .key = snib__plain_key,
            .root = snib__plain_root,
            .channels = snib__rwlock_channels,
            .frees = snib__plain_frees,
            .reach = snib__rwlock_reach,
            .pattern = snib__redisson_pattern,
            .name_of = snib__redisson_name_of,
            .looks = 1,
            .inspect = snib__rwlock_inspect,
            .show = snib__rwlock_show,
        },
};

const char *snib__foreign_text(char out[SNIB__FOREIGN_SIZE], const struct snib__layout *layout,
                               const char *prefix, const char *name)
{
    char key[SNIB__KEY_MAX];
    layout->key(key, prefix, name);
    snprintf(out, SNIB__FOREIGN_SIZE,
             "the key '%.300s' is not %s, as locks of layout=%s are, but another kind of lock or "
             "other data (redis-cli TYPE tells): use another name or prefix=, or its layout=",
             key, layout->type, layout->name);
    return out;
}
