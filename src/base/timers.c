/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap of moments. Each timer knows its slot, so that changing or clearing one costs log n and
 * no search. The moments are in the heap itself, four children together: a step down reads one
 * stretch of memory and not the things that the timers belong to. 100,000 held leases are 9 steps.
 *
 * Room is reserved when the thing a timer belongs to is made, so that setting one cannot fail at
 * a moment when there is nobody to tell.
 */
#include "base/timers.h"

#include <assert.h>
#include <stdlib.h>

#define FAN 4

bool snib__timers_join(struct snib__timers *t)
{
    if (t->owners == t->room) {
        size_t room = t->room ? t->room * 2 : 16;
        struct snib__moment *heap = realloc(t->heap, room * sizeof *heap);
        if (!heap) {
            return false;
        }
        t->heap = heap;
        t->room = room;
    }
    t->owners++;
    return true;
}

void snib__timers_leave(struct snib__timers *t, struct snib__timer *timer)
{
    snib__timer_clear(t, timer);
    assert(t->owners > 0);
    t->owners--;
}

static void put(struct snib__timers *t, size_t at, struct snib__moment moment)
{
    t->heap[at] = moment;
    moment.timer->slot = at + 1;
}

static size_t earliest_child(const struct snib__timers *t, size_t at)
{
    size_t first = at * FAN + 1;
    size_t end = first + FAN < t->count ? first + FAN : t->count;
    size_t earliest = first;
    for (size_t i = first + 1; i < end; i++) {
        if (t->heap[i].due_ns < t->heap[earliest].due_ns) {
            earliest = i;
        }
    }
    return earliest; /* not below t->count: there is none */
}

/* The place `at` is free: move it up or down to where `moment` belongs. */
static void settle_at(struct snib__timers *t, size_t at, struct snib__moment moment)
{
    while (at > 0 && t->heap[(at - 1) / FAN].due_ns > moment.due_ns) {
        put(t, at, t->heap[(at - 1) / FAN]);
        at = (at - 1) / FAN;
    }
    for (;;) {
        size_t child = earliest_child(t, at);
        if (child >= t->count || t->heap[child].due_ns >= moment.due_ns) {
            break;
        }
        put(t, at, t->heap[child]);
        at = child;
    }
    put(t, at, moment);
}

void snib__timer_set(struct snib__timers *t, struct snib__timer *timer, int64_t due_ns)
{
    if (due_ns == SNIB__NEVER) {
        snib__timer_clear(t, timer);
        return;
    }
    if (!timer->slot) {
        assert(t->count < t->room);
        timer->slot = ++t->count;
    }
    settle_at(t, timer->slot - 1, (struct snib__moment){due_ns, timer});
}

void snib__timer_clear(struct snib__timers *t, struct snib__timer *timer)
{
    if (!timer->slot) {
        return;
    }
    size_t at = timer->slot - 1;
    struct snib__moment last = t->heap[--t->count];
    timer->slot = 0;
    if (last.timer != timer) {
        settle_at(t, at, last);
    }
}

int64_t snib__timers_next(const struct snib__timers *t)
{
    return t->count ? t->heap[0].due_ns : SNIB__NEVER;
}

struct snib__timer *snib__timers_due(struct snib__timers *t, int64_t now_ns)
{
    if (!t->count || t->heap[0].due_ns > now_ns) {
        return NULL;
    }
    struct snib__timer *timer = t->heap[0].timer;
    snib__timer_clear(t, timer);
    return timer;
}
