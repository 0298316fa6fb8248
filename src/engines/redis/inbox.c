/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inbox: one subscription per client, where grants are delivered.
 *
 * Opened when the first claim has to wait, on a connection of its own; its channel has a random
 * name that is new with each connection, so that a count of its subscribers answers "is this very
 * connection still there?". Nobody stands in line before the server has confirmed the
 * subscription; after a new connection, all who wait tell the server the new name.
 *
 * A connection that is only listened to can be dead without a sign. While somebody waits, it is
 * asked for a sign every two seconds; until that is noticed, re-checks find what it missed.
 */
#include "engines/redis/redis.h"

#include <stdio.h>
#include <string.h>

#define PING_NS (2000 * SNIB__MS)
#define PAUSE_FIRST_MS 100
#define PAUSE_MOST_MS 5000

static void say(struct snib__redis_link *link, const char *one, const char *two)
{
    const char *argv[] = {one, two};
    size_t sizes[] = {strlen(one), two ? strlen(two) : 0};
    snib__link_say(link, two ? 2 : 1, argv, sizes);
}

static void greet(struct snib__redis_link *link)
{
    struct snib__redis *r = link->owner;
    unsigned char random[16];
    snib__random(random, sizeof random);
    int n = snprintf(r->inbox.name, sizeof r->inbox.name,
                     "%.100s:inbox:", r->session->values[SNIB__REDIS_PREFIX].text);
    for (size_t i = 0; i < sizeof random; i++) {
        n += snprintf(r->inbox.name + n, sizeof r->inbox.name - (size_t)n, "%02x", random[i]);
    }
    snib__birth_greet(r, link);
    say(link, "SUBSCRIBE", r->inbox.name);
}

static void on_reply(struct snib__redis_link *link, struct snib__redis_request *request,
                     const struct snib__reply *reply)
{
    struct snib__redis *r = link->owner;
    struct snib__inbox *inbox = &r->inbox;
    (void)request;
    if (link->broken) {
        return; /* whatever follows was done as somebody else */
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        /* CLIENT SETNAME may be refused; without the subscription this is of no use. */
        bool naming = strstr(reply->text, "client|setname") || strstr(reply->text, "'client'");
        if (inbox->state == SNIB__INBOX_OPENING && !naming) {
            link->broken = true;
        }
        return;
    }
    const char *word = snib__reply_text(reply, 0);
    if (strcmp(word, "message") == 0) {
        if (strcmp(snib__reply_text(reply, 1), inbox->name) == 0) {
            snib__waiting_granted(r, snib__reply_text(reply, 2));
        }
    } else if (strcmp(word, "subscribe") == 0) {
        inbox->state = SNIB__INBOX_READY;
        inbox->pause_ms = 0;
        inbox->pinged_ns = inbox->ponged_ns = snib__now().boot_ns;
        snib__waiting_inbox_ready(r);
    } else if (strcmp(word, "pong") == 0) {
        inbox->ponged_ns = snib__now().boot_ns;
    }
}

static void on_lost(struct snib__redis_link *link, struct snib__redis_request *request,
                    enum snib__redis_loss how)
{
    (void)link;
    (void)request;
    (void)how;
}

static void on_down(struct snib__redis_link *link)
{
    struct snib__redis *r = link->owner;
    struct snib__inbox *inbox = &r->inbox;
    bool opening = inbox->state == SNIB__INBOX_OPENING;
    inbox->state = SNIB__INBOX_NONE;
    if (!opening) {
        inbox->retry_ns = 0; /* at once: it worked until now */
        return;
    }
    inbox->pause_ms = inbox->pause_ms ? inbox->pause_ms * 2 : PAUSE_FIRST_MS;
    inbox->pause_ms = inbox->pause_ms < PAUSE_MOST_MS ? inbox->pause_ms : PAUSE_MOST_MS;
    inbox->retry_ns = snib__now().boot_ns + snib__jitter(inbox->pause_ms * SNIB__MS);
    snib__waiting_inbox_failed(r);
}

static const struct snib__redis_link_calls calls = {
    .greet = greet,
    .reply = on_reply,
    .lost = on_lost,
    .down = on_down,
};

void snib__inbox_init(struct snib__redis *r)
{
    snib__link_init(&r->inbox.link, &calls, &r->peer, r);
    r->inbox.link.listens = true;
}

void snib__inbox_want(struct snib__redis *r)
{
    if (r->inbox.state == SNIB__INBOX_NONE && snib__now().boot_ns >= r->inbox.retry_ns) {
        r->inbox.state = SNIB__INBOX_OPENING;
        snib__link_dial(&r->inbox.link);
    }
}

void snib__inbox_rouse(struct snib__redis *r)
{
    r->inbox.pinged_ns = r->inbox.ponged_ns = snib__now().boot_ns;
}

void snib__inbox_tick(struct snib__redis *r, int64_t now_ns)
{
    struct snib__inbox *inbox = &r->inbox;
    struct snib__redis_link *link = &inbox->link;
    int64_t limit_ns = r->session->timeout_ms * SNIB__MS;
    if (r->waiting_count == 0) {
        return;
    }
    snib__inbox_want(r);
    if (inbox->state == SNIB__INBOX_OPENING && now_ns >= link->dialled_ns + limit_ns) {
        snib__link_lose(link, SNIB__SILENT, 0, "no subscription in time");
    } else if (inbox->state == SNIB__INBOX_READY) {
        if (inbox->pinged_ns > inbox->ponged_ns && now_ns >= inbox->pinged_ns + limit_ns) {
            snib__link_lose(link, SNIB__SILENT, 0, "the subscription fell silent");
        } else if (inbox->pinged_ns <= inbox->ponged_ns && now_ns >= inbox->ponged_ns + PING_NS) {
            inbox->pinged_ns = now_ns;
            say(link, "PING", NULL);
        }
    }
}

int64_t snib__inbox_next(const struct snib__redis *r)
{
    const struct snib__inbox *inbox = &r->inbox;
    int64_t limit_ns = r->session->timeout_ms * SNIB__MS;
    if (r->waiting_count == 0) {
        return SNIB__NEVER;
    }
    switch (inbox->state) {
    case SNIB__INBOX_NONE:
        return inbox->retry_ns;
    case SNIB__INBOX_OPENING:
        return inbox->link.dialled_ns + limit_ns;
    default:
        return inbox->pinged_ns > inbox->ponged_ns ? inbox->pinged_ns + limit_ns
                                                   : inbox->ponged_ns + PING_NS;
    }
}
