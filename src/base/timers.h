/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_BASE_TIMERS_H
#define SNIB_BASE_TIMERS_H

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(default)

struct snib__timer;
typedef void snib__timer_fn(struct snib__timer *);

/* A moment, embedded in what it is about. Zeroed is idle. */
struct snib__timer {
    size_t slot; /* place in the heap, from 1; 0: not set */
    snib__timer_fn *fire;
};

struct snib__moment {
    int64_t due_ns; /* on CLOCK_BOOTTIME */
    struct snib__timer *timer;
};

struct snib__timers {
    struct snib__moment *heap;
    size_t count, room, owners;
};

/* Somebody with one timer comes, or goes. false: out of memory. Then setting never fails. */
bool snib__timers_join(struct snib__timers *);
void snib__timers_leave(struct snib__timers *, struct snib__timer *);
void snib__timer_set(struct snib__timers *, struct snib__timer *, int64_t due_ns);
void snib__timer_clear(struct snib__timers *, struct snib__timer *);
int64_t snib__timers_next(const struct snib__timers *); /* SNIB__NEVER: none */

/* Take the earliest out if it is due, else NULL. */
struct snib__timer *snib__timers_due(struct snib__timers *, int64_t now_ns);

#pragma GCC visibility pop

#endif
