/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_DRIVE_H
#define SNIB_DRIVE_H

/* Who performs what was decided, who drives the engine, who sleeps, who is woken: see drive.c. */

#include "base/list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct snib;

/* A blocked call. `ready` is what it waits for. */
struct snib__waiter {
    bool ready;
    bool blocked; /* on cond */
    bool drives;  /* in engine->drive */
    bool has_cond;
    bool coming; /* told, and counted so */
    pthread_cond_t cond;
    struct snib__list link; /* in client->waiters while blocked */
};

/* Something one thread at a time sleeps on; descriptors are made on first use. */
struct snib__sleeper {
    atomic_int wake_fd; /* 0: not made; others rouse by it without the mutex */
    int timer_fd;
    atomic_bool roused; /* by a thread without the mutex */
    int64_t armed_ns;   /* what timer_fd is set to */
    int64_t until_ns;   /* how long the present sleep may last */
    bool asleep;
    bool nudged;
};

/* Perform the agenda and fire the timers that are due; answers when the next one is. */
int64_t snib__settle(struct snib *);

/* Is there anything to perform now? */
bool snib__unsettled(const struct snib *);

void snib__waiter_init(struct snib__waiter *);
void snib__waiter_end(struct snib__waiter *);
void snib__wait_for(struct snib *, struct snib__waiter *);
void snib__wake(struct snib *, struct snib__waiter *);

static inline void snib__wait(struct snib *client, struct snib__waiter *w)
{
    if (!w->ready) {
        snib__wait_for(client, w);
    }
}

/* May what is asked for now leave a moment later, with what others ask for? */
bool snib__may_keep(struct snib *);
void snib__send_kept(struct snib *);

void snib__hand_over(struct snib *);   /* see to it that somebody drives, if anybody must */
void snib__close_check(struct snib *); /* has everything left that snib_close waits for? */
void snib__keeper_stop(struct snib *);
void snib__sleepers_free(struct snib *);

#endif
