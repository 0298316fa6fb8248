/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_SCRIPTS_H
#define SNIB_REDIS_SCRIPTS_H

#include <stddef.h>

/* A script as tools/embed-scripts leaves it. The text has no terminating zero. */
struct snib__redis_script {
    char sha1[41];
    const char *text;
    size_t size;
};

extern const struct snib__redis_script snib__redis_attempt;
extern const struct snib__redis_script snib__redis_renew;
extern const struct snib__redis_script snib__redis_release;
extern const struct snib__redis_script snib__redis_evict;

#endif
