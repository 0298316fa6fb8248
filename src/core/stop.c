/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits that end when a descriptor of the user's becomes readable.
 *
 * A program that shuts down has one descriptor for it, and a hundred threads in snib_acquire. One
 * thread drives for all of them, so all their descriptors are in one epoll set, which the driver
 * polls beside the engine's. A copy is made of each: the same descriptor may end many waits, and
 * a set has a descriptor only once.
 */
#include "core/stop.h"

#include "base/descriptor.h"
#include "core/client.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#define AT_A_TIME 16

int snib__stop_watch(snib *client, struct snib__stop *stop, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = stop};
    stop->fd =
        fcntl(fd, F_DUPFD_CLOEXEC, 3); /* first: a number that is closed is not taken by us */
    if (stop->fd >= 0 && client->stop_set <= 0) {
        client->stop_set = snib__descriptor(epoll_create1(EPOLL_CLOEXEC));
    }
    if (stop->fd < 0 || client->stop_set <= 0 ||
        epoll_ctl(client->stop_set, EPOLL_CTL_ADD, stop->fd, &event) < 0) {
        int sys = errno;
        if (stop->fd >= 0) {
            close(stop->fd);
            stop->fd = -1;
        }
        return sys;
    }
    client->stop_count++;
    client->submitted = true; /* who sleeps already must take it in */
    return 0;
}

void snib__stop_end(snib *client, struct snib__stop *stop)
{
    if (stop->fd >= 0) {
        /* A child of ours may have the copy open too: closing is not enough. */
        epoll_ctl(client->stop_set, EPOLL_CTL_DEL, stop->fd, NULL);
        close(stop->fd);
        stop->fd = -1;
        client->stop_count--;
    }
}

/* One event a time, so that none is left in hand when firing one ends another. */
void snib__stops_hear(snib *client)
{
    struct epoll_event event;
    for (int i = 0; i < AT_A_TIME && epoll_wait(client->stop_set, &event, 1, 0) == 1; i++) {
        struct snib__stop *stop = event.data.ptr;
        stop->fire(stop);
    }
}
