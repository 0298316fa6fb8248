/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspecting, listing and breaking in a cluster.
 *
 * One name is asked for where it is. A list goes from master to master, so that its names are in
 * order only within each; a lock whose slot is moved meanwhile may be shown twice, or not at all.
 * Before there is a map, all of them wait for it.
 */
#include "engines/redis/cluster.h"

#include <stdio.h>
#include <string.h>

static struct snib__cluster *cluster_of(const struct snib__round *round)
{
    return snib__cluster_of(round->search.query->session);
}

static void refuse(struct snib__round *round, int code, int sys, const char *why)
{
    struct snib__search *s = &round->search;
    s->code = code;
    s->sys = sys;
    snprintf(s->why, sizeof s->why, "%.200s: %.300s", cluster_of(round)->common.settings.where,
             why);
    snib__queries_finish(s);
}

/* The next master, in the order of the map; NULL: that was the last one. */
static struct snib__redis *next_master(struct snib__cluster *c, struct snib__round *round)
{
    while (round->next < c->map.count) {
        const struct snib__place *place = &c->map.places[round->next++];
        if (place->master) {
            return snib__shard_at(c, place);
        }
    }
    return NULL;
}

static void go_on(struct snib__search *s)
{
    struct snib__round *round = (struct snib__round *)s;
    struct snib__redis *r = s->code == 0 ? next_master(cluster_of(round), round) : NULL;
    if (!r) {
        snib__queries_finish(s);
        return;
    }
    s->scans = 0;
    s->asking = true; /* what SCAN shows is there, also if its slot is still on its way */
    s->cut = s->repeated = false;
    snib__queries_begin(r, s->query, false);
}

static void begin(struct snib__cluster *c, struct snib__round *round)
{
    struct snib__search *s = &round->search;
    struct snib__query *query = s->query;
    if (query->prefix) {
        s->then = go_on;
        go_on(s);
        return;
    }
    struct snib__redis *r = snib__shard_of(c, query->name);
    if (!r) {
        snib__scout_want(c);
        refuse(round, SNIB_EUNREACH, 0, "no server of the cluster has the slot of this lock");
        return;
    }
    snib__queries_begin(r, query, round->evict);
}

static void submit(struct snib__query *query, bool evict)
{
    struct snib__cluster *c = snib__cluster_of(query->session);
    struct snib__round *round = query->state;
    round->search.query = query;
    round->evict = evict;
    if (c->known) {
        begin(c, round);
        return;
    }
    round->due_ns = snib__now().boot_ns + c->common.settings.address.timeout_ms * SNIB__MS;
    snib__list_append(&c->rounds, &round->in_cluster);
    snib__scout_want(c);
}

void snib__rounds_inspect(struct snib__query *query)
{
    submit(query, false);
}

void snib__rounds_evict(struct snib__query *query)
{
    submit(query, true);
}

void snib__rounds_settle(struct snib__cluster *c)
{
    while (!snib__list_empty(&c->rounds)) {
        struct snib__round *round = SNIB__OF(c->rounds.after, struct snib__round, in_cluster);
        snib__list_remove(&round->in_cluster);
        if (c->known) {
            begin(c, round);
        } else {
            refuse(round, c->scout.code, c->scout.sys, c->scout.why);
        }
    }
}

int64_t snib__rounds_keep_time(struct snib__cluster *c, int64_t now_ns)
{
    struct snib__list *after;
    int64_t next_ns = SNIB__NEVER;
    for (struct snib__list *l = c->rounds.after; l != &c->rounds; l = after) {
        struct snib__round *round = SNIB__OF(l, struct snib__round, in_cluster);
        after = l->after;
        if (now_ns >= round->due_ns) {
            snib__list_remove(&round->in_cluster);
            refuse(round, SNIB_EUNREACH, 0, "no answer in time");
        } else if (round->due_ns < next_ns) {
            next_ns = round->due_ns;
        }
    }
    return next_ns;
}

void snib__rounds_close(struct snib__cluster *c)
{
    while (!snib__list_empty(&c->rounds)) {
        struct snib__round *round = SNIB__OF(c->rounds.after, struct snib__round, in_cluster);
        snib__list_remove(&round->in_cluster);
        refuse(round, SNIB_ECANCELED, 0, "closed");
    }
}
