/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A binary heap of moments. Each timer knows its slot, so that changing or clearing one costs
 * log n and no search; 100,000 held leases are 17 steps.
 *
 * Room is reserved when the thing a timer belongs to is made, so that setting one cannot fail at
 * a moment when there is nobody to tell.
 */
#include "core/timers.h"

#include <assert.h>
#include <stdlib.h>

bool snib__timers_join(struct snib__timers *t)
{
    if (t->owners == t->room) {
        size_t room = t->room ? t->room * 2 : 16;
        struct snib__timer **heap = realloc(t->heap, room * sizeof *heap);
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

static void put(struct snib__timers *t, size_t slot, struct snib__timer *timer)
{
    t->heap[slot - 1] = timer;
    timer->slot = slot;
}

static void settle_at(struct snib__timers *t, size_t slot, struct snib__timer *timer)
{
    while (slot > 1 && t->heap[slot / 2 - 1]->due_ns > timer->due_ns) {
        put(t, slot, t->heap[slot / 2 - 1]);
        slot /= 2;
    }
    for (;;) {
        size_t child = slot * 2;
        if (child > t->count) {
            break;
        }
        if (child < t->count && t->heap[child]->due_ns < t->heap[child - 1]->due_ns) {
            child++;
        }
        if (t->heap[child - 1]->due_ns >= timer->due_ns) {
            break;
        }
        put(t, slot, t->heap[child - 1]);
        slot = child;
    }
    put(t, slot, timer);
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
    timer->due_ns = due_ns;
    settle_at(t, timer->slot, timer);
}

void snib__timer_clear(struct snib__timers *t, struct snib__timer *timer)
{
    if (!timer->slot) {
        return;
    }
    size_t slot = timer->slot;
    struct snib__timer *last = t->heap[t->count - 1];
    t->count--;
    timer->slot = 0;
    if (last != timer) {
        settle_at(t, slot, last);
    }
}

int64_t snib__timers_next(const struct snib__timers *t)
{
    return t->count ? t->heap[0]->due_ns : SNIB__NEVER;
}

struct snib__timer *snib__timers_due(struct snib__timers *t, int64_t now_ns)
{
    if (!t->count || t->heap[0]->due_ns > now_ns) {
        return NULL;
    }
    struct snib__timer *timer = t->heap[0];
    snib__timer_clear(t, timer);
    return timer;
}
