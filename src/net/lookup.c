/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to addresses, without waiting.
 *
 * getaddrinfo(3) blocks for as long as a name server pleases, and a lock client must not: while one
 * thread waited for a name, nobody would renew. So a thread of its own asks, once per connection
 * to a host that is not written as an address, and an eventfd says when it is done. Whoever gives
 * up first leaves the rest to the other: both hold a reference.
 */
#include "net/lookup.h"

#include "base/thread.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct snib__lookup {
    atomic_int refs;
    atomic_bool done;
    int fd;
    int rc;
    struct addrinfo *list;
    char port[8];
    char host[];
};

static void unref(struct snib__lookup *l)
{
    if (atomic_fetch_sub(&l->refs, 1) == 1) {
        if (l->list) {
            freeaddrinfo(l->list);
        }
        close(l->fd);
        free(l);
    }
}

static void *look_up(void *arg)
{
    struct snib__lookup *l = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    uint64_t one = 1;
    l->rc = getaddrinfo(l->host, l->port, &hints, &l->list);
    if (l->rc != 0) {
        l->list = NULL;
    }
    atomic_store(&l->done, true);
    ssize_t written = write(l->fd, &one, sizeof one);
    (void)written;
    unref(l);
    return NULL;
}

struct snib__lookup *snib__lookup_start(const char *host, int port)
{
    size_t size = strlen(host) + 1;
    struct snib__lookup *l = calloc(1, sizeof *l + size);
    if (!l) {
        return NULL;
    }
    memcpy(l->host, host, size);
    snprintf(l->port, sizeof l->port, "%d", port);
    l->refs = 2;
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->fd < 0) {
        free(l);
        return NULL;
    }
    pthread_t thread;
    int rc = snib__thread_start(&thread, look_up, l);
    if (rc != 0) {
        close(l->fd);
        free(l);
        errno = rc;
        return NULL;
    }
    pthread_detach(thread);
    return l;
}

int snib__lookup_fd(const struct snib__lookup *l)
{
    return l->fd;
}

bool snib__lookup_done(struct snib__lookup *l, struct addrinfo **list, int *rc)
{
    if (!atomic_load(&l->done)) {
        return false;
    }
    *list = l->list;
    *rc = l->rc;
    l->list = NULL;
    return true;
}

void snib__lookup_end(struct snib__lookup *l)
{
    unref(l);
}
