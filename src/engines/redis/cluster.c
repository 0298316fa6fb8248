/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Redis Cluster engine: its table, what servers say that have not the slot, and the loop.
 *
 *   redis+cluster://[[user][:password]@]host[:port],host[:port],...
 *   rediss+cluster://...                                 the same with TLS
 *
 * Some members are named, and the others learned from them. Each master is a session with a single
 * server (engine.c); this only knows whom to ask.
 *
 *   cluster.c                       the slots of the engine, the loop
 *   lodgers.c  rounds.c  looks.c    claims, queries, examinations: whom to ask
 *   scout.c    shards.c             the map; the masters
 *   slots.c                         slots, MOVED and ASK
 *
 * Safety is in lodgers.c. Not done: reading from replicas, which may not know yet who holds; more
 * masters than can be polled at once (a cluster with more of them is used as far as this client's
 * locks are on no more than that).
 */
#include "engines/redis/cluster.h"
#include "engines/redis/debts.h"
#include "engines/redis/errors.h"
#include "engines/redis/examine.h"
#include "engines/redis/looks.h"
#include "engines/redis/rights.h"
#include "engines/redis/settings.h"

#include <stdio.h>
#include <string.h>

extern const struct snib__engine snib__engine_redis_cluster;

union snib__cluster_query {
    struct snib__round round;
    struct snib__look look;
};

#define MOVES_MOST 16 /* of one query, between servers that send it to each other */

/* ---- What the servers say --------------------------------------------------------------- */

static void redirect_debt(struct snib__redis_call *call, struct snib__redis *to, bool asking)
{
    struct snib__debt *d = call->subject;
    if (d && d->bid) {
        snib__lodger_move(d->bid, to, asking);
    }
    if (d) {
        snib__debts_move(d, to, asking);
    }
}

/* False: it is answered with *reply instead. */
static bool redirect_query(struct snib__redis_call *call, struct snib__redis *to, bool asking,
                           const struct snib__reply **reply)
{
    static const struct snib__reply nobody = {.type = REDIS_REPLY_ARRAY, .text = ""};
    struct snib__search *s = call->subject;
    if (!s) {
        return true;
    }
    if (s->query->prefix) { /* of a list: gone from here meanwhile */
        *reply = &nobody;
        return false;
    }
    if (s->scans++ >= MOVES_MOST) {
        return false;
    }
    snib__queries_move(s, to, asking);
    return true;
}

/* Servers that send us to each other, or to nowhere: nothing was executed, and it passes. */
static const struct snib__reply try_again = {
    .type = REDIS_REPLY_ERROR, .text = "TRYAGAIN the slot is being moved", .size = 32};

static bool on_reply(struct snib__redis *r, struct snib__redis_call *call,
                     const struct snib__reply **reply)
{
    struct snib__shard *shard = (struct snib__shard *)r;
    struct snib__cluster *c = shard->cluster;
    struct snib__redirect there;
    if (call->kind == SNIB__CALL_LOOK) {
        snib__looks_reply(c, r, call, *reply);
        return true;
    }
    if (call->kind == SNIB__CALL_ASKING || (*reply)->type != REDIS_REPLY_ERROR) {
        return call->kind == SNIB__CALL_ASKING;
    }
    if (!snib__redirect_read(&there, (*reply)->text, &shard->place)) {
        if (strncmp((*reply)->text, "CLUSTERDOWN", 11) == 0) {
            snib__scout_want(c);
        }
        return false;
    }
    struct snib__redis *to = snib__shard_at(c, &there.to);
    if (!there.asking) {
        (void)snib__slots_set(&c->map, there.slot, &there.to);
        snib__scout_want(c);
    }
    bool done = false;
    if (to && to != r) {
        switch (call->kind) {
        case SNIB__CALL_ATTEMPT:
        case SNIB__CALL_RENEW:
        case SNIB__CALL_RELEASE:
            done = !call->subject || snib__lodgers_redirect(call, to, there.asking);
            break;
        case SNIB__CALL_DEBT:
            redirect_debt(call, to, there.asking);
            return true;
        case SNIB__CALL_EVICT:
        case SNIB__CALL_SCAN:
        case SNIB__CALL_INSPECT:
            done = redirect_query(call, to, there.asking, reply);
            break;
        default:
            break;
        }
    }
    if (!done && (*reply)->type == REDIS_REPLY_ERROR) {
        *reply = &try_again;
    }
    return done;
}

static bool on_lost(struct snib__redis *r, struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__cluster *c = ((struct snib__shard *)r)->cluster;
    if (how != SNIB__LOSS_TOO_LATE) {
        snib__scout_want(c);
    }
    switch (call->kind) {
    case SNIB__CALL_ATTEMPT:
    case SNIB__CALL_RENEW:
    case SNIB__CALL_RELEASE:
        return snib__lodgers_lost(c, r, call, how);
    case SNIB__CALL_LOOK:
        snib__looks_lost(c, r, call, how);
        return true;
    default:
        return false;
    }
}

/* Who holds there wants to know whether there is another master. */
static void on_down(struct snib__redis *r)
{
    snib__scout_want(((struct snib__shard *)r)->cluster);
}

static bool is_busy(const struct snib__redis *r)
{
    const struct snib__cluster *c = ((const struct snib__shard *)r)->cluster;
    for (size_t i = 0; i < c->count; i++) {
        if (!snib__node_idle(&c->shards[i]->redis.node)) {
            return true;
        }
    }
    return false;
}

static const struct snib__redis_router router = {
    .reply = on_reply,
    .lost = on_lost,
    .down = on_down,
    .busy = is_busy,
    .whom = snib__lodger_whom,
};

/* ---- Open and close --------------------------------------------------------------------- */

static void name_all(char *out, size_t size, const struct snib__url *url)
{
    size_t used = 0;
    for (size_t i = 0; i < url->host_count && used < size; i++) {
        int port = url->hosts[i].port ? url->hosts[i].port : 6379;
        used += (size_t)snprintf(out + used, size - used, "%s%s:%d", i ? "," : "",
                                 url->hosts[i].name, port);
    }
}

static int open_session(struct snib__session *session, snib_error *err)
{
    struct snib__cluster *c = snib__cluster_of(session);
    struct snib__redis *common = &c->common;
    snib__list_init(&c->lodgers);
    snib__list_init(&c->homeless);
    snib__list_init(&c->rounds);
    snib__list_init(&c->looks);
    c->router = &router;
    snib__scout_init(c);
    int rc = snib__redis_open(session, err);
    if (rc < 0) {
        return rc;
    }
    if (session->url->host_count == 0) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "redis+cluster: name some of its servers: redis+cluster://a,b,c");
    }
    if (strcmp(common->database, "0") != 0) {
        return snib__fail(err, SNIB_EINVAL, 0, "redis+cluster: a cluster has database 0 only");
    }
    if (common->layout != &snib__layouts[SNIB__LAYOUT_NATIVE] || common->by_steps) {
        return snib__fail(
            err, SNIB_EINVAL, 0,
            "redis+cluster: layout=native only: the channels of the others are not followed "
            "in a cluster");
    }
    if (common->witness) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "redis+cluster: wait= is for a master and its replicas: in a cluster "
                          "nothing is promised over a failover");
    }
    name_all(common->settings.where, sizeof common->settings.where, session->url);
    return SNIB_OK;
}

static void close_session(struct snib__session *session)
{
    struct snib__cluster *c = snib__cluster_of(session);
    if (!c->common.session) {
        return;
    }
    if (!snib__forked(session)) {
        snib__rounds_close(c);
        snib__looks_close(c);
    }
    snib__scout_close(c);
    snib__shards_close(c);
    snib__redis_part(&c->common);
    snib__settings_free(&c->common);
    c->common.session = NULL;
}

/* ---- Driving ---------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void flush(struct snib__session *session)
{
    struct snib__cluster *c = snib__cluster_of(session);
    session->afloat = true;
    for (size_t i = 0; i < c->count; i++) {
        struct snib__node *node = &c->shards[i]->redis.node;
        if (!snib__node_idle(node)) {
            snib__node_flush(node);
            session->afloat = session->afloat && snib__node_clear(node);
        }
    }
}

/* Whatever is due; when to come back. */
static int64_t keep_time(struct snib__cluster *c, int64_t now_ns)
{
    int64_t next_ns;
    uint64_t reconnects = 0;
    if (snib__scout_keep_time(c, now_ns, &next_ns)) {
        snib__lodgers_settle(c);
        snib__rounds_settle(c);
        snib__looks_settle(c);
    }
    next_ns = least(next_ns, snib__lodgers_keep_time(c, now_ns));
    next_ns = least(next_ns, snib__rounds_keep_time(c, now_ns));
    for (size_t i = 0; i < c->count; i++) {
        struct snib__redis *r = &c->shards[i]->redis;
        next_ns = least(next_ns, snib__redis_keep_time(r, now_ns));
        reconnects += r->node.greetings > 1 ? r->node.greetings - 1 : 0;
    }
    c->common.session->reconnects = reconnects;
    return next_ns;
}

static void drive(struct snib__session *session, int64_t until_ns)
{
    struct snib__cluster *c = snib__cluster_of(session);
    for (;;) {
        struct pollfd fds[SNIB__SLEEP_MOST];
        size_t n = 0;
        int64_t now_ns = snib__now().boot_ns;
        int64_t next_ns = keep_time(c, now_ns);
        if (now_ns >= until_ns) {
            return;
        }
        bool scouts = c->scout.state == SNIB__SCOUT_ASKS;
        if (scouts) {
            n = snib__node_poll(&c->scout.node, fds);
        }
        for (size_t i = 0; i < c->count; i++) {
            n += snib__node_poll(&c->shards[i]->redis.node, fds + n);
        }
        if (snib__sleep(session, fds, n, least(until_ns, next_ns))) {
            return;
        }
        if (scouts) {
            snib__node_step(&c->scout.node, fds, n);
        }
        for (size_t i = 0; i < c->count; i++) {
            snib__node_step(&c->shards[i]->redis.node, fds, n);
        }
    }
}

const struct snib__engine snib__engine_redis_cluster = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "redis+cluster",
    .aliases = "rediss+cluster",
    .summary = "a Redis Cluster: each lock at the master of its slot, as with one server",
    .promise = "one holder while that master keeps its data and its clock; a failover may lose it",
    .traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_LEASED |
              SNIB_TRAIT_TTL_PER_LOCK | SNIB_TRAIT_TOKEN_SPAN | SNIB_TRAIT_CROSS_HOST |
              SNIB_TRAIT_BREAKS | SNIB_TRAIT_LISTS,
    .session_size = sizeof(struct snib__cluster),
    .claim_size = sizeof(struct snib__lodger),
    .query_size = sizeof(union snib__cluster_query),
    .params = snib__redis_params,
    .open = open_session,
    .close = close_session,
    .attempt = snib__lodgers_attempt,
    .renew = snib__lodgers_renew,
    .release = snib__lodgers_release,
    .drive = drive,
    .inspect = snib__rounds_inspect,
    .evict = snib__rounds_evict,
    .examine = snib__looks_examine,
    .rights = snib__redis_rights,
    .flush = flush,
};
