/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shards of a cluster: made when they are first asked for, and kept.
 *
 * One that is no master any more and of which nothing is asked makes room for another only when
 * there is none left: servers go and come back under the same name.
 */
#include "engines/redis/cluster.h"

#include "engines/redis/debts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Making ----------------------------------------------------------------------------- */

static struct snib__shard *make(struct snib__cluster *c, const struct snib__place *place)
{
    struct snib__shard *s = calloc(1, sizeof *s);
    if (!s) {
        return NULL;
    }
    struct snib__redis *r = &s->redis;
    s->cluster = c;
    s->place = *place;
    snib__redis_begin(r, c->common.session);
    r->router = c->router;
    r->settings = c->common.settings;
    r->settings.address.host = s->place.host;
    r->settings.address.port = s->place.port;
    snprintf(r->settings.where, sizeof r->settings.where, "%.255s:%d", place->host, place->port);
    r->settings.quarantine.where = r->settings.where;
    memcpy(r->database, c->common.database, sizeof r->database);
    snib__redis_meet(r);
    r->node.was_fit = true; /* a replica here is one that is about to be a master, or was one */
    return s;
}

static void unmake(struct snib__shard *s)
{
    snib__redis_part(&s->redis);
    free(s);
}

static bool is_idle(const struct snib__cluster *c, const struct snib__redis *r)
{
    for (const struct snib__list *l = c->lodgers.after; l != &c->lodgers; l = l->after) {
        if (SNIB__OF(l, struct snib__lodger, in_cluster)->home == r) {
            return false;
        }
    }
    return snib__node_idle(&r->node) && snib__list_empty(&r->debts) &&
           snib__list_empty(&r->searches) && snib__list_empty(&r->examinations);
}

/* Where a new one may be put; SNIB__SHARDS: nowhere. */
static size_t find_room(struct snib__cluster *c)
{
    if (c->count < SNIB__SHARDS) {
        return c->count++;
    }
    for (size_t i = 0; i < c->count; i++) {
        struct snib__redis *r = &c->shards[i]->redis;
        if (!snib__shard_leads(c, r) && is_idle(c, r)) {
            unmake(c->shards[i]);
            return i;
        }
    }
    return SNIB__SHARDS;
}

/* ---- Finding ---------------------------------------------------------------------------- */

struct snib__redis *snib__shard_at(struct snib__cluster *c, const struct snib__place *place)
{
    for (size_t i = 0; i < c->count; i++) {
        if (snib__place_is(&c->shards[i]->place, place->host, place->port)) {
            return &c->shards[i]->redis;
        }
    }
    struct snib__shard *made = make(c, place);
    size_t room = made ? find_room(c) : SNIB__SHARDS;
    if (room == SNIB__SHARDS) {
        if (made) {
            unmake(made);
        }
        return NULL;
    }
    c->shards[room] = made;
    return &made->redis;
}

unsigned snib__slot_of_name(const struct snib__cluster *c, const char *name)
{
    char key[SNIB__KEY_MAX];
    c->common.layout->key(key, c->common.settings.prefix, name);
    return snib__slot_of(key);
}

struct snib__redis *snib__shard_of(struct snib__cluster *c, const char *name)
{
    unsigned owner = c->map.owner[snib__slot_of_name(c, name)];
    return owner > 0 ? snib__shard_at(c, &c->map.places[owner - 1]) : NULL;
}

bool snib__shard_leads(const struct snib__cluster *c, const struct snib__redis *r)
{
    const struct snib__shard *s = (const struct snib__shard *)r;
    for (size_t i = 0; i < c->map.count; i++) {
        if (snib__place_is(&c->map.places[i], s->place.host, s->place.port)) {
            return c->map.places[i].master;
        }
    }
    return false;
}

void snib__shards_close(struct snib__cluster *c)
{
    for (size_t i = 0; i < c->count; i++) {
        unmake(c->shards[i]);
    }
    c->count = 0;
}
