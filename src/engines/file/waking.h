/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_WAKING_H
#define SNIB_FILE_WAKING_H

#include "base/timers.h"
#include "engines/engine.h"

/* What a descriptor means: part of the thing it belongs to. */
struct source {
    void (*ready)(struct source *);
};

struct waking {
    int epoll, kick;
    int ear; /* the one descriptor that is waited for directly; -1: none */
    struct source *heard;
    struct source kicked;
    int64_t sleeping_until; /* while a thread sleeps, else INT64_MIN */
    struct snib__timers timers;
};

void snib__file_waking_init(struct waking *);
int snib__file_waking_open(struct waking *); /* idempotent; errno */
void snib__file_waking_close(struct waking *);

/* What happens in `ready` must not end another source. */
int snib__file_waking_add(struct waking *, int fd, struct source *); /* errno */
void snib__file_waking_remove(struct waking *, int fd);
/* The same for the descriptor that is ready most often, at one system call less; -1: no more. */
void snib__file_waking_hear(struct waking *, int fd, struct source *);

/* Set a timer that has joined, and wake the sleeping thread if it would sleep past that. */
void snib__file_waking_at(struct waking *, struct snib__timer *, int64_t due_ns);

/* Sleep until a descriptor is ready, and handle it, or until then. True: drive is to return. */
bool snib__file_waking_sleep(struct waking *, struct snib__session *, int64_t until_ns);

#endif
