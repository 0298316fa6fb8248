/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes, by themselves: several of them, without a session and without locks.
 */
#include "check.h"
#include "engines/redis/node.h"
#include "server.h"

#include <stdio.h>

enum { NODES = 2, PATIENCE_MS = 10000 };

/* What one node has said. */
struct listener {
    char replies[4][64];
    int reply_count, lost_count, down_count;
    enum snib__loss how;
    bool leaves; /* with the next reply, and asks for more */
    char message[64];
    bool ready;
};

static void ask(struct snib__node *node, const char *one, const char *two, const char *three)
{
    struct snib__command command;
    struct snib__redis_call call = snib__node_call(node, 0, node);
    snib__command_words(&command, one, two, three, (char *)NULL);
    CHECK(snib__node_ask(node, &call, &command));
}

static void on_reply(struct snib__node *node, struct snib__redis_call *call,
                     const struct snib__reply *reply)
{
    struct listener *l = node->owner;
    CHECK(call->kind >= 0);
    snprintf(l->replies[l->reply_count++ % 4], sizeof l->replies[0], "%s", reply->text);
    if (l->leaves) {
        l->leaves = false;
        snib__node_leave(node, "enough of it");
        ask(node, "ECHO", "unsent", NULL);
    }
}

static void on_lost(struct snib__node *node, struct snib__redis_call *call, enum snib__loss how)
{
    struct listener *l = node->owner;
    (void)call;
    l->lost_count++;
    l->how = how;
}

static void on_down(struct snib__node *node)
{
    ((struct listener *)node->owner)->down_count++;
}

static void on_message(struct snib__node *node, const char *bytes, size_t size)
{
    struct listener *l = node->owner;
    snprintf(l->message, sizeof l->message, "%.*s", (int)size, bytes);
}

static void on_inbox_ready(struct snib__node *node)
{
    ((struct listener *)node->owner)->ready = true;
}

static void on_inbox_hears(struct snib__node *node)
{
    (void)node;
}

static void on_inbox_failed(struct snib__node *node)
{
    (void)node;
}

static const struct snib__node_upcalls upcalls = {
    .reply = on_reply,
    .lost = on_lost,
    .down = on_down,
    .message = on_message,
    .inbox_ready = on_inbox_ready,
    .inbox_hears = on_inbox_hears,
    .inbox_failed = on_inbox_failed,
};

static struct server servers[NODES];
static struct snib__node nodes[NODES];
static struct snib__node_settings settings[NODES];
static struct listener listeners[NODES];

static void begin(void)
{
    for (int i = 0; i < NODES; i++) {
        server_init(&servers[i], i ? "one" : "zero");
        server_redis_prepare(&servers[i], NULL);
        server_start(&servers[i]);
        settings[i] = (struct snib__node_settings){
            .address = {.host = "127.0.0.1", .port = servers[i].port, .timeout_ms = 1000},
            .credentials = {.user = "", .password = "", .database = "0", .name = "node"},
            .quarantine = {.off = true, .where = settings[i].where},
            .prefix = "snib",
        };
        snib__node_init(&nodes[i], &upcalls, &settings[i], &listeners[i]);
    }
}

/* One loop for all of them, as a session has it. */
static void drive_once(void)
{
    struct pollfd fds[NODES * SNIB__NODE_FDS];
    size_t n[NODES], all = 0;
    bool ready = false;
    for (int i = 0; i < NODES; i++) {
        (void)snib__node_keep_time(&nodes[i], snib__now().boot_ns);
        ready = ready || snib__node_ready(&nodes[i]);
        n[i] = snib__node_poll(&nodes[i], fds + all);
        all += n[i];
    }
    CHECK(poll(fds, all, ready ? 0 : 20) >= 0);
    all = 0;
    for (int i = 0; i < NODES; i++) {
        snib__node_step(&nodes[i], fds + all, n[i]);
        all += n[i];
    }
}

#define DRIVE_UNTIL(condition)                                                                     \
    for (int64_t start = check_now_ns(); !(condition);) {                                          \
        CHECK_INT((check_now_ns() - start) / 1000000, <, PATIENCE_MS);                             \
        drive_once();                                                                              \
    }

TEST(two_nodes_are_driven_together_and_know_nothing_of_each_other)
{
    begin();
    ask(&nodes[0], "ECHO", "zero", NULL);
    ask(&nodes[1], "ECHO", "one", NULL);
    DRIVE_UNTIL(listeners[0].reply_count == 1 && listeners[1].reply_count == 1);
    CHECK_STR(listeners[0].replies[0], "zero");
    CHECK_STR(listeners[1].replies[0], "one");
    CHECK(nodes[0].standing == SNIB__NODE_FIT && nodes[1].standing == SNIB__NODE_FIT);
    CHECK(strcmp(nodes[0].greeting.fitness.run_id, nodes[1].greeting.fitness.run_id) != 0);

    server_kill(&servers[0]);
    ask(&nodes[1], "ECHO", "still", NULL);
    DRIVE_UNTIL(listeners[0].down_count == 1 && listeners[1].reply_count == 2);
    CHECK_STR(listeners[1].replies[1], "still");
    CHECK_INT(listeners[1].down_count, ==, 0);
    ask(&nodes[0], "ECHO", "nobody", NULL);
    DRIVE_UNTIL(listeners[0].lost_count == 1);
    snib__node_close(&nodes[0]);
    snib__node_close(&nodes[1]);
}

TEST(a_node_that_is_left_answers_what_was_sent_and_is_asked_no_more)
{
    begin();
    ask(&nodes[0], "ECHO", "first", NULL);
    DRIVE_UNTIL(listeners[0].reply_count == 1);
    listeners[0].leaves = true;
    ask(&nodes[0], "ECHO", "second", NULL);
    ask(&nodes[0], "ECHO", "third", NULL);
    snib__node_flush(&nodes[0]);
    DRIVE_UNTIL(listeners[0].down_count == 1);
    CHECK_INT(listeners[0].reply_count, ==, 3);
    CHECK_STR(listeners[0].replies[2], "third");
    CHECK_INT(listeners[0].lost_count, ==, 1);
    CHECK_INT(listeners[0].how, ==, SNIB__LOSS_UNSENT);
    ask(&nodes[0], "ECHO", "again", NULL);
    DRIVE_UNTIL(listeners[0].reply_count == 4);
    CHECK_STR(listeners[0].replies[3], "again");
    snib__node_close(&nodes[0]);
    snib__node_close(&nodes[1]);
}

TEST(each_node_has_an_inbox_of_its_own)
{
    begin();
    for (int i = 0; i < NODES; i++) {
        snib__node_await(&nodes[i], true);
        ask(&nodes[i], "ECHO", "hello", NULL); /* messages count after the greeting */
    }
    DRIVE_UNTIL(listeners[0].ready && listeners[1].ready && listeners[0].reply_count == 1 &&
                listeners[1].reply_count == 1);
    CHECK(strcmp(snib__node_inbox(&nodes[0]), snib__node_inbox(&nodes[1])) != 0);
    ask(&nodes[0], "PUBLISH", snib__node_inbox(&nodes[0]), "to zero");
    ask(&nodes[0], "PUBLISH", snib__node_inbox(&nodes[1]), "astray");
    ask(&nodes[1], "PUBLISH", snib__node_inbox(&nodes[1]), "to one");
    DRIVE_UNTIL(listeners[0].message[0] && listeners[1].message[0]);
    CHECK_STR(listeners[0].message, "to zero");
    CHECK_STR(listeners[1].message, "to one");
    snib__node_close(&nodes[0]);
    snib__node_close(&nodes[1]);
}
