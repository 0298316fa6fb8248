/* SPDX-License-Identifier: Apache-2.0 */
/* Counters for whoever watches a service. They are kept where things happen; this reads them. */
#include "core/client.h"

#include <string.h>

static uint64_t count_requests(const snib *client)
{
    uint64_t n = 0;
    for (const struct snib__list *l = client->requests.after; l != &client->requests;
         l = l->after) {
        n++;
    }
    return n;
}

int snib_stats_read(snib *client, snib_stats *out)
{
    if (!client || !out || out->size < offsetof(snib_stats, acquired)) {
        return SNIB_EINVAL;
    }
    if (!snib__usable(client, NULL)) {
        return SNIB_ESTATE;
    }
    snib__enter(client);
    snib_stats now = client->stats;
    now.reconnects = client->session.reconnects;
    now.held = client->holds;
    now.waiting = count_requests(client);
    snib__leave(client);
    size_t size = out->size < sizeof now ? out->size : sizeof now;
    now.size = size;
    memcpy(out, &now, size);
    return SNIB_OK;
}
