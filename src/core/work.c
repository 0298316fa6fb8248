/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that must block, for engines whose libraries know no other way: each piece on a thread of
 * its own, at most SNIB__WORK_MOST per client.
 *
 * Nobody waits for a thread that is inside somebody else's library. A piece of work that is ended
 * before it is done is told so and left alone; it is joined when it is done, at the latest when the
 * client is closed, so that no thread of ours runs code of a module after that. What it was working
 * on is dropped by whoever comes last.
 */
#include "base/descriptor.h"
#include "core/client.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct snib__work {
    struct snib__list link; /* in client->works once it was ended early */
    snib *client;
    pthread_t thread;
    int fd;
    atomic_bool done, abandoned;
    void (*run)(struct snib__work *, void *arg);
    void (*drop)(void *arg);
    void *arg;
};

static void *work(void *arg)
{
    struct snib__work *w = arg;
    uint64_t one = 1;
    w->run(w, w->arg);
    atomic_store(&w->done, true);
    ssize_t written = write(w->fd, &one, sizeof one);
    (void)written;
    return NULL;
}

static void finish(struct snib__work *w)
{
    pthread_join(w->thread, NULL);
    w->drop(w->arg);
    close(w->fd);
    w->client->work_count--;
    free(w);
}

/* Those that have come to their end by now; or all, however long that takes. */
static void join(snib *client, bool all)
{
    struct snib__list *next;
    for (struct snib__list *l = client->works.after; l != &client->works; l = next) {
        struct snib__work *w = SNIB__OF(l, struct snib__work, link);
        next = l->after;
        if (all || atomic_load(&w->done)) {
            snib__list_remove(&w->link);
            finish(w);
        }
    }
}

struct snib__work *snib__work_begin(struct snib__session *session,
                                    void (*run)(struct snib__work *, void *arg),
                                    void (*drop)(void *arg), void *arg)
{
    snib *client = SNIB__OF(session, struct snib, session);
    join(client, false);
    struct snib__work *w = client->work_count < SNIB__WORK_MOST ? calloc(1, sizeof *w) : NULL;
    if (!w) {
        return NULL;
    }
    *w = (struct snib__work){.client = client, .run = run, .drop = drop, .arg = arg};
    snib__list_init(&w->link);
    w->fd = snib__descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (w->fd < 0 || snib__thread_start(&w->thread, work, w) != 0) {
        if (w->fd >= 0) {
            close(w->fd);
        }
        free(w);
        return NULL;
    }
    client->work_count++;
    return w;
}

int snib__work_fd(const struct snib__work *w)
{
    return w->fd;
}

bool snib__work_done(const struct snib__work *w)
{
    return atomic_load(&w->done);
}

bool snib__work_abandoned(const struct snib__work *w)
{
    return atomic_load(&w->abandoned);
}

void snib__work_end(struct snib__work *w)
{
    if (snib__forked(&w->client->session)) {
        return; /* the thread is the parent's */
    }
    if (atomic_load(&w->done)) {
        finish(w);
    } else {
        atomic_store(&w->abandoned, true);
        snib__list_append(&w->client->works, &w->link);
    }
}

void snib__works_join(snib *client)
{
    join(client, true);
    assert(client->work_count == 0); /* an engine's close ends what it began */
}
