/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_EVICT_H
#define SNIB_FILE_EVICT_H

#include "base/timers.h"
#include "engines/engine.h"

/* An eviction under way: a query's state. */
struct eviction {
    struct snib__query *query;
    struct snib__timer timer;
    int64_t end_ns;
};

void snib__file_evict(struct snib__query *); /* the engine's slot */

#endif
