/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that are watched, by pidfd: each once however many wait for it. One stays watched for a
 * while after nobody does, because those who contend for a lock meet again.
 */
#include "engines/file/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IDLE_MAX 16

static struct watch *of_member(struct snib__list *in)
{
    return SNIB__OF(in, struct watch, in);
}

void snib__file_watches_init(struct watches *all, struct waking *waking,
                             void (*died)(struct watches *, const struct watch *))
{
    all->waking = waking;
    all->died = died;
    snib__list_init(&all->list);
}

static void forget(struct watch *w)
{
    snib__list_remove(&w->in);
    /* A child of ours that lives on may have the pidfd open too, so closing is not enough. */
    snib__file_waking_remove(w->all->waking, w->fd);
    close(w->fd);
    free(w);
}

void snib__file_watches_close(struct watches *all)
{
    struct snib__list *next;
    for (struct snib__list *in = all->list.after; in != &all->list; in = next) {
        struct watch *w = of_member(in);
        next = in->after;
        close(w->fd);
        free(w);
    }
    snib__list_init(&all->list);
    all->idle = 0;
}

/* It has ended, and its locks with it. */
static void on_death(struct source *source)
{
    struct watch *w = SNIB__OF(source, struct watch, source);
    if (w->users > 0) {
        w->all->died(w->all, w);
    } else {
        w->all->idle--;
    }
    forget(w);
}

struct watch *snib__file_watch_begin(struct watches *all, uint32_t pid, bool *fresh, bool *dead)
{
    *fresh = *dead = false;
    for (struct snib__list *in = all->list.after; in != &all->list; in = in->after) {
        struct watch *w = of_member(in);
        if (w->pid == pid) {
            all->idle -= w->users == 0 ? 1 : 0;
            w->users++;
            return w;
        }
    }
    if (snib__file_waking_open(all->waking) != 0) {
        return NULL;
    }
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0U);
    if (fd < 0) {
        *dead = errno == ESRCH;
        return NULL;
    }
    struct watch *w = malloc(sizeof *w);
    if (!w || snib__file_waking_add(all->waking, fd, &w->source) != 0) {
        free(w);
        close(fd);
        return NULL;
    }
    *w = (struct watch){.source.ready = on_death, .all = all, .pid = pid, .fd = fd, .users = 1};
    snib__list_append(&all->list, &w->in);
    *fresh = true;
    return w;
}

void snib__file_watch_end(struct watch *w)
{
    struct watches *all = w->all;
    if (--w->users > 0 || ++all->idle <= IDLE_MAX) {
        return;
    }
    struct snib__list *in = all->list.after;
    while (of_member(in)->users > 0) { /* this one is idle, if no other */
        in = in->after;
    }
    all->idle--;
    forget(of_member(in));
}
