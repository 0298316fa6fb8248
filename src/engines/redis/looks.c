/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An examination of a cluster: what `snib doctor` shows.
 *
 * All masters are asked how the cluster is, which also tells their clocks; what that comes to is
 * told first. Then one of them, whoever has the slot of a lock that nobody else has, is examined as
 * a single server is (examine.c), since all should be alike.
 *
 * Whether they are alike is not looked at: versions, settings and rights of the others are theirs
 * to show when `redis:` is asked about them.
 */
#include "engines/redis/looks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void tell(struct snib__look *look, int verdict, const char *about, const char *remedy,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

static void tell(struct snib__look *look, int verdict, const char *about, const char *remedy,
                 const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snib_finding finding = {
        .size = sizeof finding,
        .verdict = verdict,
        .about = about,
        .text = text,
        .remedy = remedy,
    };
    snib__found(look->query, &finding);
}

/* ---- In words --------------------------------------------------------------------------- */

static void tell_state(struct snib__cluster *c, struct snib__look *look)
{
    unsigned covered = snib__slots_covered(&c->map);
    if (look->silent[0]) {
        tell(look, SNIB_BAD, "cluster", "start them, or let their replicas take over",
             "%u masters, %u replicas; no answer from %s: locks there cannot be had", look->masters,
             look->replicas, look->silent);
    } else if (covered < SNIB__SLOTS) {
        tell(look, SNIB_BAD, "cluster", "redis-cli --cluster fix",
             "%u of %d slots have no server: locks in them cannot be had", SNIB__SLOTS - covered,
             SNIB__SLOTS);
    } else if (look->failed > 0) {
        tell(look, SNIB_BAD, "cluster", "CLUSTER INFO and CLUSTER NODES say why",
             "%u of %u masters say that the cluster is down", look->failed, look->masters);
    } else {
        tell(look, SNIB_GOOD, "cluster", NULL, "%u masters, %u replicas, all %d slots served",
             look->masters, look->replicas, SNIB__SLOTS);
    }
}

/* A lock's expiry goes with its slot as a time of day. */
static void tell_skew(struct snib__cluster *c, struct snib__look *look)
{
    int64_t low_ms = 0, high_ms = 0;
    const char *first = NULL, *last = NULL;
    for (size_t i = 0; i < c->count; i++) {
        const struct snib__redis *r = &c->shards[i]->redis;
        if (!snib__shard_leads(c, r) || !r->node.clock.known) {
            continue;
        }
        int64_t ahead_ms = snib__server_clock_about_ms(&r->node.clock) - snib__wall_us() / 1000;
        if (!first || ahead_ms < low_ms) {
            low_ms = ahead_ms;
            first = r->settings.where;
        }
        if (!last || ahead_ms > high_ms) {
            high_ms = ahead_ms;
            last = r->settings.where;
        }
    }
    if (!first) {
        return;
    }
    double apart = (double)(high_ms - low_ms) / 1000;
    int64_t most_ms = c->common.session->ttl_ms / 20; /* half of what is kept back of a lease */
    if (high_ms - low_ms > most_ms) {
        tell(look, SNIB_BAD, "clocks", "synchronise the servers by NTP",
             "%.80s is %.1f s ahead of %.80s: a lock that is held when its slot moves there ends "
             "that much too early",
             last, apart, first);
    } else {
        tell(look, SNIB_GOOD, "clocks", NULL, "the masters' are within %.3f s", apart);
    }
}

static void tell_failover(struct snib__look *look)
{
    tell(look, SNIB_WARNING, "failover",
         "guard what the lock protects by its token; or one server, redis:, which waits its "
         "restarts out",
         "a replica that takes over may lack locks that were granted just before, and they are "
         "then granted twice; %u of %u masters have no replica",
         look->bare, look->masters);
}

/* ---- Asking ----------------------------------------------------------------------------- */

static void end(struct snib__look *look, int verdict, const char *why)
{
    if (why) {
        tell(look, verdict, "server", "the URL, or the servers", "%s", why);
    }
    snib__finish(look->query, SNIB_OK, 0, NULL);
}

static void examine_one(struct snib__cluster *c, struct snib__look *look)
{
    tell_state(c, look);
    tell_skew(c, look);
    tell_failover(look);
    snib__examine_name(&look->examination);
    struct snib__redis *r = snib__shard_of(c, look->examination.name);
    if (r) {
        snib__examine_at(r, look->query);
    } else {
        end(look, SNIB_BAD, NULL);
    }
}

static void ask_all(struct snib__cluster *c, struct snib__look *look)
{
    struct snib__command command;
    snib__command_words(&command, "CLUSTER", "INFO", (char *)NULL);
    look->under_way = 1;
    for (size_t i = 0; i < c->map.count; i++) {
        struct snib__redis *r =
            c->map.places[i].master ? snib__shard_at(c, &c->map.places[i]) : NULL;
        if (!r) {
            continue;
        }
        look->masters++;
        struct snib__redis_call call = snib__node_call(&r->node, SNIB__CALL_LOOK, look);
        if (snib__node_ask(&r->node, &call, &command)) {
            snib__node_flush(&r->node);
            look->under_way++;
        }
    }
    if (--look->under_way == 0) {
        examine_one(c, look);
    }
}

void snib__looks_reply(struct snib__cluster *c, struct snib__redis *r,
                       struct snib__redis_call *call, const struct snib__reply *reply)
{
    struct snib__look *look = call->subject;
    if (!look) {
        return;
    }
    look->replicas += (unsigned)r->node.greeting.fitness.replicas;
    look->bare += r->node.greeting.fitness.replicas == 0;
    look->failed += strstr(reply->text, "cluster_state:fail") != NULL;
    if (--look->under_way == 0) {
        examine_one(c, look);
    }
}

void snib__looks_lost(struct snib__cluster *c, struct snib__redis *r, struct snib__redis_call *call,
                      enum snib__loss how)
{
    struct snib__look *look = call->subject;
    size_t used = strlen(look->silent);
    (void)how;
    call->subject = NULL;
    snprintf(look->silent + used, sizeof look->silent - used, "%s%.100s", used ? ", " : "",
             r->settings.where);
    if (--look->under_way == 0) {
        examine_one(c, look);
    }
}

void snib__looks_examine(struct snib__query *query)
{
    struct snib__cluster *c = snib__cluster_of(query->session);
    struct snib__look *look = query->state;
    look->query = query;
    snib__list_append(&c->looks, &look->in_cluster);
    snib__scout_want(c); /* how it is now */
}

void snib__looks_settle(struct snib__cluster *c)
{
    while (!snib__list_empty(&c->looks)) {
        struct snib__look *look = SNIB__OF(c->looks.after, struct snib__look, in_cluster);
        snib__list_remove(&look->in_cluster);
        if (c->known) {
            ask_all(c, look);
        } else {
            end(look, SNIB_BAD, c->scout.why);
        }
    }
}

void snib__looks_close(struct snib__cluster *c)
{
    while (!snib__list_empty(&c->looks)) {
        struct snib__look *look = SNIB__OF(c->looks.after, struct snib__look, in_cluster);
        snib__list_remove(&look->in_cluster);
        snib__finish(look->query, SNIB_ECANCELED, 0, "closed");
    }
}
