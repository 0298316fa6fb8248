/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_WATCH_H
#define SNIB_FILE_WATCH_H

#include "base/list.h"
#include "engines/file/waking.h"

/* A process, to be told of when it ends. */
struct watch {
    struct source source;
    struct watches *all;
    struct snib__list in;
    uint32_t pid;
    int fd;
    unsigned users;
};

struct watches {
    struct waking *waking;
    struct snib__list list; /* the oldest first */
    size_t idle;
    void (*died)(struct watches *, const struct watch *); /* whoever uses it forgets it */
};

void snib__file_watches_init(struct watches *, struct waking *,
                             void (*died)(struct watches *, const struct watch *));
void snib__file_watches_close(struct watches *);
/* NULL: cannot be watched (*dead: it is no more). *fresh: it was not watched until now, so what
 * is known about this process number must be checked again. */
struct watch *snib__file_watch_begin(struct watches *, uint32_t pid, bool *fresh, bool *dead);
void snib__file_watch_end(struct watch *);

#endif
