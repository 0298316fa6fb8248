/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inbox: one subscription, where grants are delivered.
 *
 * Further channels, of locks that are waited for, come and go (watches.c).
 *
 * A second channel, which all inboxes of a prefix share, tells who broke which lock (breaks.c). It
 * is asked for by itself: a user who may not hear that channel stands in line all the same.
 *
 * Opened when the first claim has to wait, on a connection of its own; its channel has a random
 * name that is new with each connection, so that a count of its subscribers answers "is this very
 * connection still there?". Nobody stands in line before the server has confirmed the
 * subscription; after a new connection, all who wait tell the server the new name.
 *
 * A connection that is only listened to can be dead without a sign. While somebody waits, it is
 * asked for a sign every ten seconds; until that is noticed, re-checks find what it missed.
 *
 * It belongs to a run of the server. After a failover the commands go elsewhere while the old
 * server, a replica now, would keep this connection and answer every sign, and never say anything.
 */
#include "engines/redis/inbox.h"

#include "base/random.h"

#include <stdio.h>
#include <string.h>

#define PING_NS (10000 * SNIB__MS)
#define PAUSE_FIRST_MS 100
#define PAUSE_MOST_MS 5000
#define STOOD_NS (1000 * SNIB__MS)   /* cut off sooner, the next one waits for a pause too */
#define SUBSCRIBE 1                  /* the kind of that call */
#define UNUSED_NS (30000 * SNIB__MS) /* a slot that nobody waits in */
#define AGAIN_NS (500 * SNIB__MS)    /* it was asked for in vain: its slot is on its way */
#define HEX 32                       /* at the end of our name */

static void greet(struct snib__connection *c)
{
    struct snib__inbox *inbox = c->owner;
    struct snib__command command;
    struct snib__redis_call call = {.kind = SUBSCRIBE, .sent = snib__now(), .due_ns = SNIB__NEVER};
    unsigned char random[16];
    snib__random(random, sizeof random);
    int n = snprintf(inbox->name, sizeof inbox->name, "%.105s:inbox:", inbox->root);
    for (size_t i = 0; i < sizeof random; i++) {
        n += snprintf(inbox->name + n, sizeof inbox->name - (size_t)n, "%02x", random[i]);
    }
    snprintf(inbox->broken, sizeof inbox->broken, "%.105s:broken", inbox->root);
    snib__greeting_send(&inbox->greeting, c, inbox->credentials, SNIB__GREET_RUN);
    snib__command_words(&command, "SUBSCRIBE", inbox->name, (char *)NULL);
    if (snib__connection_ask(c, &call, &command)) {
        /* Its answer comes when we listen already, and is none of the calls'. */
        snib__command_words(&command, "SUBSCRIBE", inbox->broken, (char *)NULL);
        (void)snib__connection_say(c, &command);
    }
}

/* ---- Slots of a cluster ----------------------------------------------------------------- */

static void say(struct snib__inbox *inbox, const char *word, const char *channel)
{
    struct snib__command command;
    snib__command_words(&command, word, channel, (char *)NULL);
    (void)snib__connection_say(&inbox->connection, &command);
}

static void hear(struct snib__inbox *inbox, struct snib__ear_of_slot *ear)
{
    ear->asked_ns = snib__now().boot_ns;
    snib__ear_name(ear, inbox->root, inbox->name + strlen(inbox->name) - HEX);
    say(inbox, "SSUBSCRIBE", ear->channel);
}

static void hear_all(struct snib__inbox *inbox)
{
    for (struct snib__list *l = inbox->ears.all.after; l != &inbox->ears.all; l = l->after) {
        hear(inbox, SNIB__OF(l, struct snib__ear_of_slot, in_all));
    }
}

const char *snib__inbox_of_slot(struct snib__inbox *inbox, unsigned slot)
{
    struct snib__ear_of_slot *ear = snib__ears_find(&inbox->ears, slot);
    if (!ear || !ear->hears) {
        return NULL;
    }
    ear->used_ns = snib__now().boot_ns;
    return ear->channel;
}

bool snib__inbox_open_slot(struct snib__inbox *inbox, unsigned slot)
{
    int64_t now_ns = snib__now().boot_ns;
    struct snib__ear_of_slot *ear = snib__ears_find(&inbox->ears, slot);
    ear = ear ? ear : snib__ears_add(&inbox->ears, slot);
    snib__inbox_open(inbox);
    if (!ear || inbox->state == SNIB__INBOX_NONE) {
        return false;
    }
    ear->used_ns = now_ns;
    if (inbox->state == SNIB__INBOX_READY && !ear->hears &&
        (!ear->asked_ns || now_ns - ear->asked_ns >= AGAIN_NS)) {
        hear(inbox, ear);
        snib__connection_flush(&inbox->connection);
    }
    return true;
}

static void forget_unused(struct snib__inbox *inbox, int64_t now_ns)
{
    struct snib__list *after;
    for (struct snib__list *l = inbox->ears.all.after; l != &inbox->ears.all; l = after) {
        struct snib__ear_of_slot *ear = SNIB__OF(l, struct snib__ear_of_slot, in_all);
        after = l->after;
        if (now_ns - ear->used_ns >= UNUSED_NS) {
            say(inbox, "SUNSUBSCRIBE", ear->channel);
            snib__ears_remove(&inbox->ears, ear);
        }
    }
}

/* The server ends a subscription by itself when the slot has gone. */
static void on_slot(struct snib__inbox *inbox, const char *channel, bool hears)
{
    struct snib__ear_of_slot *ear = snib__ears_named(&inbox->ears, channel);
    if (ear && ear->hears != hears) {
        ear->hears = hears;
        ear->asked_ns = 0;
        inbox->upcalls->slot(inbox, ear->slot, hears);
    }
}

void snib__inbox_close(struct snib__inbox *inbox)
{
    snib__connection_close(&inbox->connection);
    snib__ears_close(&inbox->ears);
}

/* ---- What it hears ---------------------------------------------------------------------- */

static const char elsewhere[] = "the subscription is at another run of the server";

/* If one of the two is not known, nobody can say. */
static bool is_elsewhere(const struct snib__inbox *inbox)
{
    const char *own = inbox->greeting.fitness.run_id;
    return own[0] && inbox->run_id[0] && strcmp(own, inbox->run_id) != 0;
}

static void on_subscribed(struct snib__inbox *inbox, const struct snib__reply *reply)
{
    struct snib__connection *c = &inbox->connection;
    if (reply->type == REDIS_REPLY_ERROR) {
        snib__connection_end(c, SNIB__LOSS_CUT, 0, reply->text);
        return;
    }
    if (is_elsewhere(inbox)) {
        snib__connection_end(c, SNIB__LOSS_CUT, 0, elsewhere);
        return;
    }
    c->listens = true;
    inbox->state = SNIB__INBOX_READY;
    inbox->ready_ns = inbox->pinged_ns = inbox->ponged_ns = snib__now().boot_ns;
    hear_all(inbox);
    inbox->upcalls->ready(inbox);
}

static void on_reply(struct snib__connection *c, struct snib__redis_call *call,
                     const struct snib__reply *reply)
{
    struct snib__inbox *inbox = c->owner;
    if (call && call->kind == SUBSCRIBE) {
        on_subscribed(inbox, reply);
    } else if (call) {
        snib__greeting_reply(&inbox->greeting, c, call, reply);
    } else if (strcmp(snib__reply_text(reply, 0), "pong") == 0) {
        inbox->ponged_ns = snib__now().boot_ns;
    } else if (strcmp(snib__reply_text(reply, 0), "smessage") == 0) {
        size_t size;
        const char *bytes = snib__reply_bytes(reply, 2, &size);
        inbox->upcalls->message(inbox, bytes, size);
    } else if (strcmp(snib__reply_text(reply, 0), "ssubscribe") == 0) {
        on_slot(inbox, snib__reply_text(reply, 1), true);
    } else if (strcmp(snib__reply_text(reply, 0), "sunsubscribe") == 0) {
        on_slot(inbox, snib__reply_text(reply, 1), false);
    } else if (strcmp(snib__reply_text(reply, 0), "message") == 0) {
        const char *channel = snib__reply_text(reply, 1);
        if (strcmp(channel, inbox->name) == 0) {
            size_t size;
            const char *bytes = snib__reply_bytes(reply, 2, &size);
            inbox->upcalls->message(inbox, bytes, size);
        } else if (strcmp(channel, inbox->broken) == 0) {
            inbox->upcalls->broken(inbox, snib__reply_text(reply, 2));
        } else {
            inbox->upcalls->heard(inbox, channel, snib__reply_text(reply, 2));
        }
    } else if (strcmp(snib__reply_text(reply, 0), "subscribe") == 0) {
        const char *channel = snib__reply_text(reply, 1);
        if (strcmp(channel, inbox->broken) == 0) {
            inbox->upcalls->hears(inbox); /* of breaks, too */
        } else {
            inbox->upcalls->subscribed(inbox, channel);
        }
    } /* else it may not: who holds learns of breaks at its next renewal, who waits when it asks */
}

static void on_lost(struct snib__connection *c, struct snib__redis_call *call, enum snib__loss how)
{
    (void)c;
    (void)call;
    (void)how; /* on_down follows */
}

static void on_down(struct snib__connection *c)
{
    struct snib__inbox *inbox = c->owner;
    bool opening = inbox->state == SNIB__INBOX_OPENING;
    inbox->state = SNIB__INBOX_NONE;
    snib__ears_deafen(&inbox->ears);
    if (!opening && snib__now().boot_ns - inbox->ready_ns >= STOOD_NS) {
        inbox->pause_ms = 0;
        inbox->retry_ns = 0; /* at once: it worked until now */
        return;
    }
    inbox->pause_ms = inbox->pause_ms ? inbox->pause_ms * 2 : PAUSE_FIRST_MS;
    inbox->pause_ms = inbox->pause_ms < PAUSE_MOST_MS ? inbox->pause_ms : PAUSE_MOST_MS;
    inbox->retry_ns = snib__now().boot_ns + snib__jitter(inbox->pause_ms * SNIB__MS);
    if (opening) {
        inbox->upcalls->failed(inbox);
    }
}

static const struct snib__connection_upcalls connection_upcalls = {
    .greet = greet,
    .reply = on_reply,
    .lost = on_lost,
    .down = on_down,
};

void snib__inbox_init(struct snib__inbox *inbox, const struct snib__inbox_upcalls *upcalls,
                      const struct snib__address *address,
                      const struct snib__credentials *credentials, const char *root, void *owner)
{
    *inbox = (struct snib__inbox){
        .upcalls = upcalls, .credentials = credentials, .root = root, .owner = owner};
    snib__ears_init(&inbox->ears);
    snib__connection_init(&inbox->connection, &connection_upcalls, address, inbox);
}

void snib__inbox_want(struct snib__inbox *inbox, bool wanted)
{
    if (wanted && !inbox->wanted) { /* nobody asked for a sign meanwhile */
        inbox->pinged_ns = inbox->ponged_ns = snib__now().boot_ns;
    }
    inbox->wanted = wanted;
}

void snib__inbox_open(struct snib__inbox *inbox)
{
    if (inbox->state == SNIB__INBOX_NONE && snib__now().boot_ns >= inbox->retry_ns) {
        inbox->state = SNIB__INBOX_OPENING;
        snib__connection_dial(&inbox->connection);
    }
}

void snib__inbox_follow(struct snib__inbox *inbox, const char *run_id)
{
    bool unknown = !run_id[0] || !inbox->greeting.fitness.run_id[0];
    snprintf(inbox->run_id, sizeof inbox->run_id, "%.47s", run_id);
    if (inbox->state == SNIB__INBOX_READY && (unknown || is_elsewhere(inbox))) {
        snib__connection_end(&inbox->connection, SNIB__LOSS_CUT, 0, elsewhere);
    }
}

void snib__inbox_lead_lost(struct snib__inbox *inbox)
{
    inbox->run_id[0] = '\0';
}

void snib__inbox_listen(struct snib__inbox *inbox, const char *channel, bool listen)
{
    struct snib__command command;
    if (inbox->state == SNIB__INBOX_READY) {
        snib__command_words(&command, listen ? "SUBSCRIBE" : "UNSUBSCRIBE", channel, (char *)NULL);
        (void)snib__connection_say(&inbox->connection, &command);
    }
}

/* ---- Signs of life ---------------------------------------------------------------------- */

static int64_t limit_ns(const struct snib__inbox *inbox)
{
    return inbox->connection.address->timeout_ms * SNIB__MS;
}

void snib__inbox_keep_time(struct snib__inbox *inbox, int64_t now_ns)
{
    struct snib__connection *c = &inbox->connection;
    struct snib__command ping;
    snib__connection_expire(c, now_ns);
    if (!inbox->wanted) {
        return;
    }
    snib__inbox_open(inbox);
    if (inbox->state == SNIB__INBOX_OPENING && now_ns >= c->dialled_ns + limit_ns(inbox)) {
        snib__connection_lose(c, SNIB__LOSS_SILENT, 0, "no subscription in time");
    }
    if (inbox->state != SNIB__INBOX_READY) {
        return;
    }
    if (inbox->pinged_ns > inbox->ponged_ns && now_ns >= inbox->pinged_ns + limit_ns(inbox)) {
        snib__connection_lose(c, SNIB__LOSS_SILENT, 0, "the subscription fell silent");
    } else if (inbox->pinged_ns <= inbox->ponged_ns && now_ns >= inbox->ponged_ns + PING_NS) {
        inbox->pinged_ns = now_ns;
        forget_unused(inbox, now_ns);
        snib__command_words(&ping, "PING", (char *)NULL);
        (void)snib__connection_say(c, &ping);
    }
}

int64_t snib__inbox_next(const struct snib__inbox *inbox)
{
    if (!inbox->wanted) {
        return SNIB__NEVER;
    }
    switch (inbox->state) {
    case SNIB__INBOX_NONE:
        return inbox->retry_ns;
    case SNIB__INBOX_OPENING:
        return inbox->connection.dialled_ns + limit_ns(inbox);
    default:
        return inbox->pinged_ns > inbox->ponged_ns ? inbox->pinged_ns + limit_ns(inbox)
                                                   : inbox->ponged_ns + PING_NS;
    }
}
