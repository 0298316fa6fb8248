/* SPDX-License-Identifier: Apache-2.0 */
#include "engines/redis/layout.h"

#include "engines/redis/native.h"

const struct snib__layout snib__layouts[SNIB__LAYOUTS] = {
    [SNIB__LAYOUT_NATIVE] =
        {
            .name = "native",
            .recheck_ms = 1000,
            .behind_ms = 10000,
            .commands = "+evalsha +eval +hmget +hset +hget +hgetall +hdel +hexists +pexpireat "
                        "+time +publish +pubsub|numsub",
            .attempt = snib__native_attempt,
            .renew = snib__native_renew,
            .release = snib__native_release,
            .evict = snib__native_evict,
            .answer = snib__native_answer,
            .grant = snib__native_grant,
            .pattern = snib__native_pattern,
            .name_of = snib__native_name_of,
            .inspect = snib__native_inspect,
            .show = snib__native_show,
        },
};
