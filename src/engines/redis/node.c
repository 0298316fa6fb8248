/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One server: its two connections put together, and what the greeting found judged.
 *
 * Replies come in order, so that the judgement is there before the first reply to anything the
 * session asked on that connection. It holds for one connection: the next one judges anew.
 */
#include "engines/redis/node.h"

#include <stdio.h>
#include <string.h>

/* ---- Judging ---------------------------------------------------------------------------- */

static void note(struct snib__node *node)
{
    const struct snib__greeting *g = &node->greeting;
    int version = snib__fitness_version(&g->fitness);
    node->note[0] = '\0';
    if (g->denied) {
        snprintf(node->note, sizeof node->note,
                 "INFO is denied: whether this server is a replica, evicts keys or was restarted "
                 "was not checked");
    } else if (node->quarantine.young) {
        snprintf(node->note, sizeof node->note,
                 "this server was started %lld s ago and not seen before: if it lost locks then, "
                 "they may still be held",
                 (long long)(node->quarantine.up_ms / 1000));
    } else if (version > 0 && version < 602) {
        snprintf(node->note, sizeof node->note,
                 "this server is %s %s: snib is tested with 6.2 and later", g->fitness.product,
                 g->fitness.version);
    } else if (node->settings->unverified) {
        snprintf(node->note, sizeof node->note,
                 "the server's certificate is not verified (tls=insecure): anybody in between can "
                 "grant locks and read the password");
    }
}

/* Is it another server, or another run of it, than the one before? */
static void meet(struct snib__node *node)
{
    const char *run_id = node->greeting.fitness.run_id;
    bool other = node->met[0] && run_id[0] && strcmp(node->met, run_id) != 0;
    if (run_id[0]) {
        snprintf(node->met, sizeof node->met, "%.47s", run_id);
    }
    if (other && node->upcalls->other) {
        node->upcalls->other(node);
    }
}

static void judge(struct snib__node *node)
{
    const struct snib__greeting *g = &node->greeting;
    if (g->failed[0]) {
        node->standing = SNIB__NODE_UNCHECKED;
        snprintf(node->why, sizeof node->why, "%s", g->failed);
    } else if (!snib__fitness_judge(&g->fitness, node->settings->may_evict, node->why,
                                    sizeof node->why)) {
        /* In the middle of a failover: there was a master here, or a sentinel said so. */
        bool passes = g->fitness.replica && (node->was_fit || node->settings->address.sought);
        node->standing = passes ? SNIB__NODE_UNCHECKED : SNIB__NODE_UNFIT;
    } else {
        node->standing = SNIB__NODE_FIT;
        node->was_fit = true;
        snib__quarantine_meet(&node->quarantine, &node->settings->quarantine, &g->fitness);
        snib__inbox_follow(&node->inbox, g->fitness.run_id);
        note(node);
        meet(node);
        return;
    }
    snib__connection_retire(&node->connection, node->why); /* the next one looks again */
}

/* ---- What the connection says ----------------------------------------------------------- */

static void greet(struct snib__connection *c)
{
    struct snib__node *node = c->owner;
    bool asks_fsync = !node->settings->quarantine.off;
    node->greetings++;
    node->standing = SNIB__NODE_UNKNOWN;
    snib__quarantine_begin(&node->quarantine);
    snib__greeting_send(&node->greeting, c, &node->settings->credentials,
                        asks_fsync ? SNIB__GREET_FSYNC : SNIB__GREET_FITNESS);
}

static void on_reply(struct snib__connection *c, struct snib__redis_call *call,
                     const struct snib__reply *reply)
{
    struct snib__node *node = c->owner;
    struct snib__greeting *g = &node->greeting;
    snib__quarantine_heard(&node->quarantine, c->heard_ns);
    if (call->kind >= 0) {
        node->upcalls->reply(node, call, reply);
        return;
    }
    snib__greeting_reply(g, c, call, reply);
    if (g->done) {
        if (g->server_ms) {
            snib__server_clock_learn(&node->clock, g->timed, c->heard_ns, g->server_ms);
        }
        judge(node);
    }
}

static void on_lost(struct snib__connection *c, struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__node *node = c->owner;
    if (call->kind >= 0) {
        node->upcalls->lost(node, call, how);
    }
}

static void on_down(struct snib__connection *c)
{
    struct snib__node *node = c->owner;
    snib__inbox_lead_lost(&node->inbox);
    node->upcalls->down(node);
}

static const struct snib__connection_upcalls connection_upcalls = {
    .greet = greet,
    .reply = on_reply,
    .lost = on_lost,
    .down = on_down,
};

/* ---- What the inbox says ---------------------------------------------------------------- */

static void on_message(struct snib__inbox *inbox, const char *bytes, size_t size)
{
    struct snib__node *node = inbox->owner;
    if (node->standing == SNIB__NODE_FIT && snib__node_quarantine_left_ms(node) == 0) {
        node->upcalls->message(node, bytes, size);
    } /* else it may not grant; what it gave lapses */
}

static void on_broken(struct snib__inbox *inbox, const char *text)
{
    struct snib__node *node = inbox->owner;
    node->upcalls->broken(node, text);
}

static void on_subscribed(struct snib__inbox *inbox, const char *channel)
{
    struct snib__node *node = inbox->owner;
    node->upcalls->subscribed(node, channel);
}

static void on_heard(struct snib__inbox *inbox, const char *channel, const char *text)
{
    struct snib__node *node = inbox->owner;
    node->upcalls->heard(node, channel, text);
}

static void on_slot(struct snib__inbox *inbox, unsigned slot, bool hears)
{
    struct snib__node *node = inbox->owner;
    node->upcalls->slot(node, slot, hears);
}

static void on_inbox_ready(struct snib__inbox *inbox)
{
    struct snib__node *node = inbox->owner;
    node->upcalls->inbox_ready(node);
}

static void on_inbox_hears(struct snib__inbox *inbox)
{
    struct snib__node *node = inbox->owner;
    node->upcalls->inbox_hears(node);
}

static void on_inbox_failed(struct snib__inbox *inbox)
{
    struct snib__node *node = inbox->owner;
    node->upcalls->inbox_failed(node);
}

static const struct snib__inbox_upcalls inbox_upcalls = {
    .message = on_message,
    .broken = on_broken,
    .subscribed = on_subscribed,
    .heard = on_heard,
    .slot = on_slot,
    .ready = on_inbox_ready,
    .hears = on_inbox_hears,
    .failed = on_inbox_failed,
};

/* ---- Beginning and end ------------------------------------------------------------------ */

void snib__node_init(struct snib__node *node, const struct snib__node_upcalls *upcalls,
                     const struct snib__node_settings *settings, void *owner)
{
    *node = (struct snib__node){.upcalls = upcalls, .settings = settings, .owner = owner};
    snib__connection_init(&node->connection, &connection_upcalls, &settings->address, node);
    snib__inbox_init(&node->inbox, &inbox_upcalls, &settings->address, &settings->credentials,
                     settings->root, node);
}

void snib__node_close(struct snib__node *node)
{
    snib__connection_close(&node->connection);
    snib__inbox_close(&node->inbox);
}

void snib__node_moved(struct snib__node *node)
{
    node->quarantine = (struct snib__quarantine){.until_ns = 0};
    node->clock = (struct snib__server_clock){.known = false};
}

/* ---- Asking ----------------------------------------------------------------------------- */

struct snib__redis_call snib__node_call(const struct snib__node *node, int kind, void *subject)
{
    struct snib__redis_call call = {.kind = kind, .subject = subject, .sent = snib__now()};
    call.due_ns = call.sent.boot_ns + node->settings->address.timeout_ms * SNIB__MS;
    return call;
}

bool snib__node_ask(struct snib__node *node, const struct snib__redis_call *call,
                    const struct snib__command *command)
{
    return snib__connection_ask(&node->connection, call, command);
}

void snib__node_flush(struct snib__node *node)
{
    snib__connection_flush(&node->connection);
}

void snib__node_drop(struct snib__node *node, void *subject)
{
    snib__connection_drop(&node->connection, subject);
}

bool snib__node_idle(const struct snib__node *node)
{
    return snib__connection_idle(&node->connection);
}

bool snib__node_up(const struct snib__node *node)
{
    const struct snib__connection *c = &node->connection;
    return c->state == SNIB__CONNECTION_UP && !c->ending && !c->leaving;
}

bool snib__node_clear(const struct snib__node *node)
{
    return snib__connection_clear(&node->connection);
}

bool snib__node_is_replica(const struct snib__node *node)
{
    return node->greeting.done && node->greeting.fitness.replica;
}

void snib__node_leave(struct snib__node *node, const char *why)
{
    snib__connection_leave(&node->connection, why);
}

void snib__node_end(struct snib__node *node, const char *why)
{
    snib__connection_end(&node->connection, SNIB__LOSS_CUT, 0, why);
}

/* ---- What is known ---------------------------------------------------------------------- */

void snib__node_learn_time(struct snib__node *node, const struct snib__redis_call *call,
                           int64_t server_ms)
{
    snib__server_clock_learn(&node->clock, call->sent, node->connection.heard_ns, server_ms);
}

int64_t snib__node_quarantine_left_ms(struct snib__node *node)
{
    return snib__quarantine_left_ms(&node->quarantine);
}

const char *snib__node_held(struct snib__node *node, char out[200])
{
    snib__quarantine_note(&node->quarantine, &node->settings->quarantine);
    if (!node->note[0]) {
        return NULL;
    }
    memcpy(out, node->note, sizeof node->note);
    node->note[0] = '\0';
    return out;
}

const char *snib__node_why(const struct snib__node *node, enum snib__loss how)
{
    return how == SNIB__LOSS_TOO_LATE ? "no answer in time" : node->connection.why;
}

void snib__node_await(struct snib__node *node, bool somebody)
{
    snib__inbox_want(&node->inbox, somebody);
}

const char *snib__node_inbox(const struct snib__node *node)
{
    return node->inbox.state == SNIB__INBOX_READY ? node->inbox.name : NULL;
}

bool snib__node_open_inbox(struct snib__node *node)
{
    snib__inbox_open(&node->inbox);
    return node->inbox.state != SNIB__INBOX_NONE;
}

void snib__node_listen(struct snib__node *node, const char *channel, bool listen)
{
    snib__inbox_listen(&node->inbox, channel, listen);
}

/* ---- Driving ---------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Time-outs may be a little late, so that the timer need not be set anew for each call. */
static int64_t roughly(int64_t at_ns)
{
    return at_ns == SNIB__NEVER ? at_ns : at_ns | ((INT64_C(1) << 25) - 1);
}

int64_t snib__node_keep_time(struct snib__node *node, int64_t now_ns)
{
    struct snib__connection *commands = &node->connection, *messages = &node->inbox.connection;
    snib__connection_expire(commands, now_ns);
    snib__inbox_keep_time(&node->inbox, now_ns);
    snib__connection_flush(commands);
    snib__connection_flush(messages);
    int64_t next = least(snib__connection_next(commands), snib__connection_next(messages));
    return least(roughly(next), snib__inbox_next(&node->inbox));
}

size_t snib__node_poll(const struct snib__node *node, struct pollfd fds[SNIB__NODE_FDS])
{
    size_t n = 0;
    n += snib__connection_poll(&node->connection, &fds[n]);
    n += snib__connection_poll(&node->inbox.connection, &fds[n]);
    return n;
}

bool snib__node_ready(const struct snib__node *node)
{
    return snib__connection_ready(&node->connection) ||
           snib__connection_ready(&node->inbox.connection);
}

void snib__node_step(struct snib__node *node, const struct pollfd fds[], size_t n)
{
    snib__connection_poll_step(&node->connection, fds, n);
    snib__connection_poll_step(&node->inbox.connection, fds, n);
}
