/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_NET_DIAL_H
#define SNIB_NET_DIAL_H

#include <netdb.h>
#include <poll.h>
#include <stdint.h>

#pragma GCC visibility push(default)

/* Connecting, step by step, never blocking. Goes on for as long as it is not ended: the deadline is
 * the caller's. */
struct snib__dial {
    struct snib__lookup *lookup; /* while the name is looked up */
    struct addrinfo *list, *next;
    struct snib__knock *knock; /* while a Unix socket has no room for one more */
    int fd;                    /* being connected; -1: none */
    int sys;                   /* why the last address failed */
    int64_t limit_ms;          /* of unacknowledged data, for the kernel */
    char why[96];              /* for people; no address, no secret */
};

enum snib__dialled { SNIB__DIAL_GOING, SNIB__DIAL_DONE, SNIB__DIAL_FAILED };

/* `limit_ms`: how long the kernel may keep data that the other side does not acknowledge. */
void snib__dial_tcp(struct snib__dial *, const char *host, int port, int64_t limit_ms);
void snib__dial_unix(struct snib__dial *, const char *path);

/* What to poll for before the next step. */
struct pollfd snib__dial_poll(const struct snib__dial *);

/* DONE: the descriptor is the caller's, in *fd. FAILED: sys and why tell. */
enum snib__dialled snib__dial_step(struct snib__dial *, int *fd);

/* In any state, also after DONE and FAILED. */
void snib__dial_end(struct snib__dial *);

#pragma GCC visibility pop

#endif
