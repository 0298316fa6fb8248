/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holders that hear at once when somebody breaks their lock.
 *
 * Whoever breaks a lock says so on one channel that all inboxes of a prefix listen to; breaking is
 * rare. The message proves nothing, and anybody could have sent it: it only makes the holder ask
 * now what its next renewal would have been told. So it may get lost, come twice or be forged.
 *
 * Most locks are held for a moment, and need no second connection for that: the inbox is opened
 * when one has been held for a while. What was said before it was open is asked for then, unless
 * so many are held that the server is better left to their renewals.
 */
#include "engines/redis/breaks.h"

#include "engines/redis/asks.h"
#include "engines/redis/bid.h"

#include <stdlib.h>
#include <string.h>

#define WHILE_NS (500 * SNIB__MS)
#define FEW 64

void snib__breaks_deny(struct snib__bid *b)
{
    free(b->breaker);
    b->breaker = NULL;
}

/* At this time at the latest: there may be others who want to be woken. */
static void wake_at(struct snib__session *session, int64_t at_ns)
{
    if (!session->wake_ns || at_ns < session->wake_ns) {
        session->wake_ns = at_ns;
    }
}

void snib__breaks_listen(struct snib__redis *r, struct snib__bid *b)
{
    struct snib__redis_breaks *breaks = &r->breaks;
    if (!b->claim->listens || b->listens) {
        return;
    }
    b->listens = true;
    snib__list_append(&breaks->bids, &b->in_breaks);
    if (breaks->count++ == 0) {
        breaks->open_ns = snib__later(snib__now().boot_ns, WHILE_NS);
        wake_at(r->session, breaks->open_ns);
    }
}

void snib__breaks_unlisten(struct snib__redis *r, struct snib__bid *b)
{
    struct snib__redis_breaks *breaks = &r->breaks;
    if (!b->listens) {
        return;
    }
    b->listens = false;
    snib__breaks_deny(b);
    snib__list_remove(&b->in_breaks);
    if (--breaks->count == 0 && breaks->open) {
        breaks->open = false;
        r->session->attend--;
        snib__redis_await(r);
    }
}

int64_t snib__breaks_keep_time(struct snib__redis *r, int64_t now_ns)
{
    struct snib__redis_breaks *breaks = &r->breaks;
    if (breaks->count == 0 || breaks->open) {
        return SNIB__NEVER;
    }
    if (now_ns < breaks->open_ns) {
        wake_at(r->session, breaks->open_ns);
        return breaks->open_ns;
    }
    breaks->open = true;
    r->session->attend++; /* messages want somebody who reads them */
    snib__redis_await(r);
    if (snib__node_inbox(&r->node)) {
        snib__breaks_ready(r);
    }
    return now_ns;
}

/* If that is being asked already, the answer may be older than the question. */
void snib__breaks_ask(struct snib__redis *r, struct snib__bid *b)
{
    if (!b->claim->listens) {
        return; /* lost, and not released yet: a renewal would keep it from others */
    }
    b->doubts = b->renewing;
    if (!b->renewing && b->phase == SNIB__BID_HELD) {
        b->by_itself = snib__ask_renew(r, b, NULL);
    }
}

void snib__breaks_ready(struct snib__redis *r)
{
    struct snib__list *all = &r->breaks.bids;
    if (r->breaks.count > FEW) {
        return;
    }
    for (struct snib__list *l = all->after; l != all; l = l->after) {
        snib__breaks_ask(r, SNIB__OF(l, struct snib__bid, in_breaks));
    }
    snib__node_flush(&r->node);
}

void snib__breaks_message(struct snib__redis *r, const char *message)
{
    struct snib__list *all = &r->breaks.bids;
    const char *space = strchr(message, ' ');
    char name[SNIB__KEY_MAX];
    if (!space || !r->layout->name_of(name, r->settings.prefix, space + 1)) {
        return;
    }
    for (struct snib__list *l = all->after; l != all; l = l->after) {
        struct snib__bid *b = SNIB__OF(l, struct snib__bid, in_breaks);
        if (strcmp(b->claim->name, name) == 0) {
            snib__breaks_deny(b); /* without memory, nobody is named */
            b->breaker = strndup(message, (size_t)(space - message));
            snib__breaks_ask(r, b);
        }
    }
    snib__node_flush(&r->node);
}

void snib__breaks_close(struct snib__redis *r)
{
    struct snib__list *all = &r->breaks.bids;
    for (struct snib__list *l = all->after; l != all; l = l->after) {
        snib__breaks_deny(SNIB__OF(l, struct snib__bid, in_breaks));
    }
}
