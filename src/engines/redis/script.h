/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_SCRIPT_H
#define SNIB_REDIS_SCRIPT_H

#include <stddef.h>

/* A script as tools/embed-scripts leaves it. The text has no terminating zero. */
struct snib__script {
    char sha1[41];
    const char *text;
    size_t size;
};

/* scripts/native/ */
extern const struct snib__script snib__native_attempt_script;
extern const struct snib__script snib__native_renew_script;
extern const struct snib__script snib__native_release_script;
extern const struct snib__script snib__native_evict_script;

/* scripts/plain/ */
extern const struct snib__script snib__plain_attempt_script;
extern const struct snib__script snib__plain_renew_script;
extern const struct snib__script snib__plain_release_script;
extern const struct snib__script snib__plain_evict_script;
extern const struct snib__script snib__plain_agree_script;

/* scripts/redisson/ */
extern const struct snib__script snib__redisson_attempt_script;
extern const struct snib__script snib__redisson_renew_script;
extern const struct snib__script snib__redisson_release_script;
extern const struct snib__script snib__redisson_evict_script;

/* scripts/rwlock/ */
extern const struct snib__script snib__rwlock_attempt_script;
extern const struct snib__script snib__rwlock_renew_script;
extern const struct snib__script snib__rwlock_release_script;
extern const struct snib__script snib__rwlock_evict_script;
extern const struct snib__script snib__rwlock_inspect_script;

/* scripts/witness/ */
extern const struct snib__script snib__witness_tick_script;
extern const struct snib__script snib__witness_confirm_script;

#endif
