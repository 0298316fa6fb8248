/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_NET_LOOKUP_H
#define SNIB_NET_LOOKUP_H

#include <netdb.h>
#include <stdbool.h>

#pragma GCC visibility push(default)

/* The addresses of a host, found without blocking the caller. */
struct snib__lookup;

/* NULL: no memory, no descriptor or no thread to be had (errno). */
struct snib__lookup *snib__lookup_start(const char *host, int port);

/* Polls readable when the answer is there. */
int snib__lookup_fd(const struct snib__lookup *);

/* False: not yet. Else *list is the caller's, to be freed by freeaddrinfo, or NULL with *rc from
 * getaddrinfo(3). */
bool snib__lookup_done(struct snib__lookup *, struct addrinfo **list, int *rc);

/* Done or not. */
void snib__lookup_end(struct snib__lookup *);

#pragma GCC visibility pop

#endif
