/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolving a host on a thread of the core's: as if it took a library that blocks.
 *
 * snib__work_done is true only after the thread has left this file, which is later than the
 * snib__rouse in it; so who is roused looks at `ready`.
 */
#include "tcp.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

static void find_address(struct snib__work *work, void *arg)
{
    struct naming *n = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET}, *list = NULL;
    if (getaddrinfo(n->host, NULL, &hints, &list) == 0) {
        getnameinfo(list->ai_addr, list->ai_addrlen, n->address, sizeof n->address, NULL, 0,
                    NI_NUMERICHOST);
        freeaddrinfo(list);
    }
    atomic_store(&n->ready, true);
    if (n->to_rouse && !snib__work_abandoned(work)) {
        snib__rouse(n->to_rouse);
    }
}

struct snib__work *tcp_name(struct snib__session *session, struct naming **out, bool rouse)
{
    struct naming *n = calloc(1, sizeof *n);
    if (!n) {
        return NULL;
    }
    n->to_rouse = rouse ? session : NULL;
    snprintf(n->host, sizeof n->host, "%s", session->url->hosts[0].name);
    struct snib__work *work = snib__work_begin(session, find_address, free, n);
    if (!work) {
        free(n);
        n = NULL;
    }
    *out = n;
    return work;
}
