/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicated Redis for a test: a master, replicas, and sentinels if they are wanted.
 *
 *     static struct redis_group group;
 *     group_start(&group, &(struct group_wish){.nodes = 3, .sentinels = 3});
 *     group_url(&group, url, sizeof url, "ttl=4s");
 *
 * Each node is announced at the port of a proxy in front of it: replicas, sentinels and whoever
 * asks these come by it, so that a node can be cut off from all of them; a test that wants to be on
 * its side uses its own port. Nothing is kept on disk.
 */
#ifndef SNIB_TESTS_REDIS_GROUP_H
#define SNIB_TESTS_REDIS_GROUP_H

#include "check.h"
#include "proxy.h"
#include "server.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_NODES = 4, GROUP_SENTINELS = 3, GROUP_PATIENCE_MS = 60000 };

#define GROUP_MAY_BE_UNUSED __attribute__((unused))

struct group_wish {
    int nodes, sentinels;
    const char *sentinel_password; /* NULL: none */
};

struct redis_group {
    struct group_wish wish;
    struct server nodes[GROUP_NODES];
    struct proxy links[GROUP_NODES];
    struct server sentinels[GROUP_SENTINELS];
};

/* ---- Talking to one of them ------------------------------------------------------------- */

/* NULL: it does not answer. */
GROUP_MAY_BE_UNUSED static redisReply *group_ask(int port, const char *format, ...)
{
    struct timeval limit = {.tv_sec = 2};
    redisContext *raw = redisConnectWithTimeout("127.0.0.1", port, limit);
    redisReply *reply = NULL;
    if (raw && !raw->err) {
        va_list args;
        redisSetTimeout(raw, limit);
        va_start(args, format);
        reply = redisvCommand(raw, format, args);
        va_end(args);
    }
    if (raw) {
        redisFree(raw);
    }
    return reply;
}

/* It must answer, and not with an error. */
#define group_do(...) group_done(__FILE__, __LINE__, group_ask(__VA_ARGS__))

GROUP_MAY_BE_UNUSED static void group_done(const char *file, int line, redisReply *reply)
{
    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        FAIL("%s:%d: %s", file, line, reply ? reply->str : "no answer");
    }
    freeReplyObject(reply);
}

/* A number of INFO; -1: no answer, or not there. */
GROUP_MAY_BE_UNUSED static long long group_info(int port, const char *field)
{
    char name[64];
    redisReply *info = group_ask(port, "INFO");
    snprintf(name, sizeof name, "\n%s:", field);
    const char *at = info && info->str ? strstr(info->str, name) : NULL;
    long long number = at ? strtoll(at + strlen(name), NULL, 10) : -1;
    if (info) {
        freeReplyObject(info);
    }
    return number;
}

GROUP_MAY_BE_UNUSED static bool group_is_master(int port)
{
    redisReply *role = group_ask(port, "ROLE");
    bool master = role && role->type == REDIS_REPLY_ARRAY && role->elements > 0 &&
                  strcmp(role->element[0]->str, "master") == 0;
    if (role) {
        freeReplyObject(role);
    }
    return master;
}

/* Replicas that are up to date with it. */
GROUP_MAY_BE_UNUSED static int group_online(int port)
{
    int online = 0;
    redisReply *info = group_ask(port, "INFO replication");
    for (const char *at = info && info->str ? info->str : ""; (at = strstr(at, "state=online"));
         at++) {
        online++;
    }
    if (info) {
        freeReplyObject(info);
    }
    return online;
}

struct group_goal {
    int port, count;
};

static bool group_has_replicas(void *arg)
{
    const struct group_goal *goal = arg;
    return group_online(goal->port) >= goal->count;
}

GROUP_MAY_BE_UNUSED static void group_await_replicas(int port, int count)
{
    struct group_goal goal = {port, count};
    CHECK(check_until(group_has_replicas, &goal, GROUP_PATIENCE_MS));
}

/* ---- Who is the master ------------------------------------------------------------------ */

/* Which node this sentinel names; -1: none. */
static int group_named(struct redis_group *g, int sentinel)
{
    int port = g->sentinels[sentinel].port, found = -1;
    redisReply *reply =
        g->wish.sentinel_password ? NULL : group_ask(port, "SENTINEL GET-MASTER-ADDR-BY-NAME m");
    if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
        for (int i = 0; i < g->wish.nodes; i++) {
            found = atoi(reply->element[1]->str) == g->links[i].port ? i : found;
        }
    }
    if (reply) {
        freeReplyObject(reply);
    }
    return found;
}

/* The node that all sentinels which answer name; -1: they do not agree, or none answers. */
GROUP_MAY_BE_UNUSED static int group_master(struct redis_group *g)
{
    int master = -1;
    for (int i = 0; i < g->wish.sentinels; i++) {
        int named = g->sentinels[i].pid ? group_named(g, i) : -1;
        if (named >= 0 && master >= 0 && named != master) {
            return -1;
        }
        master = named >= 0 ? named : master;
    }
    return master;
}

struct group_change {
    struct redis_group *group;
    int from;
};

static bool group_has_changed(void *arg)
{
    const struct group_change *change = arg;
    int now = group_master(change->group);
    return now >= 0 && now != change->from && group_is_master(change->group->nodes[now].port);
}

/* Waits until another node is the master, and says which. */
GROUP_MAY_BE_UNUSED static int group_await_change(struct redis_group *g, int from)
{
    struct group_change change = {g, from};
    CHECK(check_until(group_has_changed, &change, GROUP_PATIENCE_MS));
    return group_master(g);
}

/* A sentinel that knows all the others, and the replicas as such. */
static bool group_sentinel_knows(struct redis_group *g, int sentinel)
{
    bool all = true;
    redisReply *reply = group_ask(g->sentinels[sentinel].port, "SENTINEL MASTER m");
    for (size_t i = 0; reply && i + 1 < reply->elements; i += 2) {
        int number = atoi(reply->element[i + 1]->str);
        const char *field = reply->element[i]->str;
        all = all && (strcmp(field, "num-slaves") != 0 || number >= g->wish.nodes - 1) &&
              (strcmp(field, "num-other-sentinels") != 0 || number >= g->wish.sentinels - 1) &&
              (strcmp(field, "flags") != 0 || strcmp(reply->element[i + 1]->str, "master") == 0);
    }
    bool answered = reply && reply->type == REDIS_REPLY_ARRAY;
    if (reply) {
        freeReplyObject(reply);
    }
    return answered && all;
}

static bool group_is_settled(void *arg)
{
    struct redis_group *g = arg;
    int master = g->wish.sentinels ? group_master(g) : 0;
    for (int i = 0; i < g->wish.sentinels; i++) {
        if (!group_sentinel_knows(g, i)) {
            return false;
        }
    }
    return master >= 0 && group_online(g->nodes[master].port) >= g->wish.nodes - 1;
}

/* All sentinels agree, and the master has all its replicas. */
GROUP_MAY_BE_UNUSED static void group_settle(struct redis_group *g)
{
    CHECK(check_until(group_is_settled, g, 2 * GROUP_PATIENCE_MS));
}

struct group_offset {
    struct redis_group *group;
    long long offset;
};

static bool group_has_copied(void *arg)
{
    const struct group_offset *goal = arg;
    for (int i = 1; i < goal->group->wish.nodes; i++) {
        if (group_info(goal->group->nodes[i].port, "slave_repl_offset") < goal->offset) {
            return false;
        }
    }
    return true;
}

/* Waits until all replicas of the first node have what it has now. (WAIT would not: it looks at
 * what its own connection has written.) */
GROUP_MAY_BE_UNUSED static void group_await_copies(struct redis_group *g)
{
    struct group_offset goal = {g, group_info(g->nodes[0].port, "master_repl_offset")};
    CHECK(check_until(group_has_copied, &goal, GROUP_PATIENCE_MS));
}

/* ---- Starting --------------------------------------------------------------------------- */

/* By hand: a replica of that node, or a master. */
GROUP_MAY_BE_UNUSED static void group_follow(struct redis_group *g, int node, int master)
{
    group_do(g->nodes[node].port, "REPLICAOF 127.0.0.1 %d", g->links[master].port);
}

GROUP_MAY_BE_UNUSED static void group_promote(struct redis_group *g, int node)
{
    group_do(g->nodes[node].port, "REPLICAOF NO ONE");
}

static void group_start_node(struct redis_group *g, int i)
{
    struct server *node = &g->nodes[i];
    char name[32], announced[12];
    snprintf(name, sizeof name, "node%d", i);
    server_init(node, name);
    proxy_start(&g->links[i], node->port);
    snprintf(announced, sizeof announced, "%d", g->links[i].port);
    server_redis_prepare(node, (const char *const[]){"--replica-announce-ip", "127.0.0.1",
                                                     "--replica-announce-port", announced,
                                                     "--repl-diskless-sync", "yes",
                                                     "--repl-diskless-sync-delay", "0", NULL});
    server_start(node);
    if (i > 0) {
        group_follow(g, i, 0);
    }
}

static void group_start_sentinel(struct redis_group *g, int i)
{
    struct server *s = &g->sentinels[i];
    char name[32], path[300];
    snprintf(name, sizeof name, "sentinel%d", i);
    server_init(s, name);
    snprintf(path, sizeof path, "%s/sentinel.conf", s->folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file,
            "port %d\nbind 127.0.0.1\nsentinel monitor m 127.0.0.1 %d 2\n"
            "sentinel down-after-milliseconds m 1000\nsentinel failover-timeout m 4000\n"
            "sentinel parallel-syncs m 2\n",
            s->port, g->links[0].port);
    if (g->wish.sentinel_password) {
        fprintf(file, "requirepass %s\n", g->wish.sentinel_password);
    }
    CHECK(fclose(file) == 0);
    server_program(s, "redis-server", "redis-server");
    server_argument(s, "%s", path);
    server_argument(s, "--sentinel");
    server_start(s);
}

GROUP_MAY_BE_UNUSED static void group_start(struct redis_group *g, const struct group_wish *wish)
{
    g->wish = *wish;
    for (int i = 0; i < wish->nodes; i++) {
        group_start_node(g, i);
    }
    group_await_replicas(g->nodes[0].port, wish->nodes - 1);
    for (int i = 0; i < wish->sentinels; i++) {
        group_start_sentinel(g, i);
    }
    if (!wish->sentinel_password) {
        group_settle(g);
    }
}

GROUP_MAY_BE_UNUSED static void group_url(struct redis_group *g, char *url, size_t size,
                                          const char *parameters)
{
    int used = snprintf(url, size, "redis+sentinel://");
    for (int i = 0; i < g->wish.sentinels; i++) {
        used += snprintf(url + used, size - (size_t)used, "%s127.0.0.1:%d", i ? "," : "",
                         g->sentinels[i].port);
    }
    snprintf(url + used, size - (size_t)used, "/m?%s", parameters);
}

/* As if this master of so many servers had been confirmed long ago: a prefix that is new there
 * would be quarantined. */
GROUP_MAY_BE_UNUSED static void group_open_epoch(int port, const char *prefix, int servers,
                                                 int max_lease_ms)
{
    char rid[48] = "";
    redisReply *info = group_ask(port, "INFO");
    CHECK(info != NULL && info->str != NULL);
    sscanf(strstr(info->str, "master_replid:"), "master_replid:%47s", rid);
    freeReplyObject(info);
    group_do(port, "HSET %s:epoch rid %s at 1 ok 1 n %d max %d", prefix, rid, servers,
             max_lease_ms);
}

/* ---- Cutting off ------------------------------------------------------------------------ */

/* Nobody who comes by its announced port reaches it any more, or is told that it is so. */
GROUP_MAY_BE_UNUSED static void group_cut(struct redis_group *g, int node)
{
    proxy_door(&g->links[node], PROXY_DARK);
    proxy_set(&g->links[node], PROXY_BOTH, PROXY_STALL, 0);
}

GROUP_MAY_BE_UNUSED static void group_mend(struct redis_group *g, int node)
{
    proxy_heal(&g->links[node]);
    proxy_cut(&g->links[node], PROXY_RESET); /* those that were left in the dark try again */
}

#endif
