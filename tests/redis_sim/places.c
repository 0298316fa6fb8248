/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What else the engine asks of the system. These take the place of src/net/dial.c and of
 * src/engines/redis/runid.c, and of the core's snib__sleep.
 */
#include "world.h"

#include "engines/redis/runid.h"
#include "net/dial.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* ---- Dialling --------------------------------------------------------------------------- */

static void dial(struct snib__dial *d)
{
    *d = (struct snib__dial){.fd = FIRST_FD + wire_dial(world.current)->number};
}

void snib__dial_tcp(struct snib__dial *d, const char *host, int port, int64_t limit_ms)
{
    (void)host;
    (void)port;
    (void)limit_ms;
    dial(d);
}

void snib__dial_unix(struct snib__dial *d, const char *path)
{
    (void)path;
    dial(d);
}

struct pollfd snib__dial_poll(const struct snib__dial *d)
{
    return (struct pollfd){.fd = d->fd, .events = POLLOUT};
}

enum snib__dialled snib__dial_step(struct snib__dial *d, int *fd)
{
    const struct wire *w = wire_of(d->fd);
    if (w->failed) {
        d->sys = w->error;
        snprintf(d->why, sizeof d->why, "refused");
        return SNIB__DIAL_FAILED;
    }
    if (!w->up) {
        return SNIB__DIAL_GOING;
    }
    *fd = d->fd;
    d->fd = -1;
    return SNIB__DIAL_DONE;
}

void snib__dial_end(struct snib__dial *d)
{
    if (d->fd >= 0) {
        close(d->fd);
    }
    d->fd = -1;
}

/* ---- The memory of runs: a disk per machine --------------------------------------------- */

struct snib__run snib__runid_recall(const char *folder, const char *where)
{
    (void)folder;
    (void)where;
    return world.current->run;
}

void snib__runid_note(const char *folder, const char *where, const struct snib__run *run)
{
    (void)folder;
    (void)where;
    world.current->run = *run;
}

/* ---- Sleeping --------------------------------------------------------------------------- */

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's name */
bool __wrap_snib__sleep(struct snib__session *session, struct pollfd fds[], size_t n,
                        int64_t until_ns);
/* NOLINTEND(bugprone-reserved-identifier) */

bool __wrap_snib__sleep(struct snib__session *session, struct pollfd fds[], size_t n,
                        int64_t until_ns)
{
    snib *client = SNIB__OF(session, struct snib, session);
    if (client->closer) {
        snib__close_check(client);
    }
    if (client->answered || (client->closer && client->closer->ready)) {
        return true;
    }
    return host_sleep(world.current, client, fds, n, until_ns);
}
