/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims in a cluster: which server each of them is at home at, and how it moves.
 *
 * A claim is at home at one shard, and everything about it is as with a single server (claims.c).
 * It moves when nothing of it is under way there:
 *
 *   MOVED            the slot is elsewhere, and the map is corrected
 *   ASK              the slot is on its way, and this lock has gone ahead: that question is asked
 *                    there, with ASKING in front, and the next one of the slot's master again. Who
 *                    went on asking there would be granted a second lock if the key went back
 *   a new map        its master was replaced
 *   not reached      it is homeless until the scout comes back with a map, and then asks where the
 *                    map says: that may be the same server again
 *
 * Who waits joins the line of the new shard and asks there at once. Who holds is told DOUBTFUL and
 * renewed there; a lease that a failover has lost is then answered "not here", and LOST.
 *
 * Safety. A slot has one master at a time as far as the servers agree on it, and a server that has
 * it not executes nothing: it says MOVED or ASK first. So at most one server grants a lock while
 * slots are moved by hand; MIGRATE takes the lock's whole hash along, with its expiry as a time of
 * day, for which the servers' clocks must agree. A failover promotes a replica that may lack the
 * last grants, and an old master that is cut off grants until it notices: nothing here prevents two
 * holders then, and the token of the second may be below that of the first only if the new
 * master's clock is behind. What is told: docs/promises.md.
 */
#include "engines/redis/asks.h"
#include "engines/redis/attempts.h"
#include "engines/redis/bid.h"
#include "engines/redis/breaks.h"
#include "engines/redis/claims.h"
#include "engines/redis/cluster.h"
#include "engines/redis/debts.h"
#include "engines/redis/watches.h"

#include <stdio.h>

#define HOPS_MOST 8 /* between servers that send us to each other */
#define TOGETHER 64 /* renewals that are sent in one write */

static struct snib__lodger *lodger_of(struct snib__bid *b)
{
    return (struct snib__lodger *)b;
}

/* ---- Moving ----------------------------------------------------------------------------- */

void snib__lodger_move(struct snib__bid *b, struct snib__redis *to, bool asking)
{
    struct snib__lodger *l = lodger_of(b);
    struct snib__redis *from = l->home;
    bool waits = b->phase == SNIB__BID_QUEUED || b->phase == SNIB__BID_WANTS;
    bool passing = asking || b->asking;
    b->asking = asking;
    if (from == to) {
        return;
    }
    if (from) {
        snib__redis_line_leave(from, b);
        snib__watches_leave(from, b);
        snib__breaks_unlisten(from, b);
        snib__bid_forget(from, b);
    }
    l->home = to;
    if (b->phase == SNIB__BID_RELEASING) {
        return;
    }
    if (b->claim->may_queue) {
        (void)snib__bid_know(to, b); /* no memory: it is found by asking */
    }
    if (waits) {
        snib__redis_line_join(to, b, snib__attempts_recheck_ms(to, b));
        snib__redis_line_now(to, b);
    } else if (b->phase == SNIB__BID_HELD) {
        snib__breaks_listen(to, b);
        if (from && !passing) {
            snib__report(b->claim, SNIB_DOUBTFUL,
                         "the lock's slot is at another server of the cluster now");
        }
    }
}

static void leave_homeless(struct snib__lodger *l)
{
    if (l->homeless) {
        l->homeless = false;
        snib__list_remove(&l->in_homeless);
        snib__claims_leave_ring(&l->bid, &l->call);
    }
}

/* Nobody can be asked now. It counts as under way. */
static void wait_for_map(struct snib__cluster *c, struct snib__lodger *l,
                         const struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__bid *b = &l->bid;
    l->call = *call;
    l->call.by_text = false;
    l->how = how;
    l->homeless = true;
    snib__list_append(&c->homeless, &l->in_homeless);
    b->under_way++;
    b->renewing = b->renewing || call->kind == SNIB__CALL_RENEW;
    snib__scout_want(c);
}

/* What was asked in vain, elsewhere. */
static void ask_there(struct snib__lodger *l, struct snib__redis_call *call)
{
    struct snib__redis *to = l->home;
    call->by_text = false;
    if (snib__ask_again(to, call)) {
        snib__node_flush(&to->node);
    } else {
        l->bid.under_way++;
        snib__claims_lost(to, call, SNIB__LOSS_UNREACHED);
    }
}

/* ---- The slots -------------------------------------------------------------------------- */

static bool is_refused(struct snib__cluster *c, struct snib__bid *b)
{
    const char *why = c->common.layout->refuses(c->common.settings.prefix, b->claim->name);
    if (why) {
        snib__attempts_fail(&c->common, b, SNIB_EINVAL, 0, why);
    }
    return why;
}

/* To where the map says, unless something is under way. */
static void go_home(struct snib__cluster *c, struct snib__lodger *l)
{
    if (l->bid.under_way == 0) {
        struct snib__redis *to = snib__shard_of(c, l->bid.claim->name);
        if (to && to != l->home) {
            snib__lodger_move(&l->bid, to, false);
        }
    }
}

void snib__lodgers_attempt(struct snib__claim *claim)
{
    struct snib__cluster *c = snib__cluster_of(claim->session);
    struct snib__lodger *l = claim->state;
    struct snib__bid *b = &l->bid;
    b->claim = claim;
    l->hops = 0;
    if (!l->in_cluster.after) {
        snib__list_append(&c->lodgers, &l->in_cluster);
    }
    if (is_refused(c, b)) {
        return;
    }
    b->slot = snib__slot_of_name(c, claim->name);
    go_home(c, l);
    if (l->home) {
        snib__claims_attempt_at(l->home, claim);
        return;
    }
    struct snib__redis_call call = snib__node_call(&c->common.node, SNIB__CALL_ATTEMPT, b);
    b->phase = SNIB__BID_ASKED;
    wait_for_map(c, l, &call, SNIB__LOSS_UNREACHED);
}

/* Those of one shard together. */
static void renew_at(struct snib__redis *r, struct snib__claim *const claims[], size_t n)
{
    struct snib__claim *own[TOGETHER];
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        struct snib__lodger *l = claims[i]->state;
        if (l->home == r) {
            own[count++] = claims[i];
        }
        if (count == TOGETHER || (count > 0 && i + 1 == n)) {
            snib__claims_renew_at(r, own, count);
            count = 0;
        }
    }
}

void snib__lodgers_renew(struct snib__claim *const claims[], size_t n)
{
    struct snib__cluster *c = snib__cluster_of(claims[0]->session);
    for (size_t i = 0; i < n; i++) {
        struct snib__lodger *l = claims[i]->state;
        l->hops = 0;
        go_home(c, l);
    }
    for (size_t i = 0; i < c->count; i++) {
        renew_at(&c->shards[i]->redis, claims, n);
    }
}

void snib__lodgers_release(struct snib__claim *claim)
{
    struct snib__cluster *c = snib__cluster_of(claim->session);
    struct snib__lodger *l = claim->state;
    l->bid.claim = claim; /* an adopted one was never attempted here */
    l->hops = 0;
    leave_homeless(l);
    if (l->in_cluster.after) {
        snib__list_remove(&l->in_cluster);
    }
    go_home(c, l);
    if (l->home || !claim->adopted) {
        snib__claims_release_at(l->home ? l->home : &c->common, claim);
        return;
    }
    struct snib__redis_call call = snib__node_call(&c->common.node, SNIB__CALL_RELEASE, &l->bid);
    l->bid.phase = SNIB__BID_RELEASING;
    l->bid.was_held = true;
    wait_for_map(c, l, &call, SNIB__LOSS_UNREACHED);
}

/* ---- The wrong server ------------------------------------------------------------------- */

bool snib__lodgers_redirect(struct snib__redis_call *call, struct snib__redis *to, bool asking)
{
    struct snib__bid *b = call->subject;
    struct snib__lodger *l = lodger_of(b);
    if (l->hops >= HOPS_MOST || (b->under_way > 1 && call->kind != SNIB__CALL_ATTEMPT)) {
        return false;
    }
    l->hops++;
    snib__claims_leave_ring(b, call);
    bool releasing = b->phase == SNIB__BID_RELEASING;
    bool stale = releasing ? call->kind != SNIB__CALL_RELEASE
                           : call->kind == SNIB__CALL_ATTEMPT && b->phase == SNIB__BID_HELD;
    if (stale || b->under_way > 0 || snib__bid_has_undone(b, call)) {
        return true; /* something later is under way, and will be told the same */
    }
    snib__lodger_move(b, to, asking);
    call->asking = asking;
    ask_there(l, call);
    return true;
}

bool snib__lodgers_lost(struct snib__cluster *c, struct snib__redis *r,
                        struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__bid *b = call->subject;
    struct snib__lodger *l = lodger_of(b);
    bool stale = b->phase == SNIB__BID_RELEASING
                     ? call->kind != SNIB__CALL_RELEASE
                     : call->kind == SNIB__CALL_ATTEMPT && b->phase == SNIB__BID_HELD;
    if (how == SNIB__LOSS_TOO_LATE || how == SNIB__LOSS_DENIED || how == SNIB__LOSS_ALIEN ||
        stale || snib__bid_has_undone(b, call) || b->under_way > 1 ||
        snib__now().boot_ns >= call->due_ns) {
        return false;
    }
    struct snib__redis *to = snib__shard_of(c, b->claim->name);
    bool moved = to && to != r && l->hops < HOPS_MOST;
    if (!moved && how != SNIB__LOSS_UNREACHED) {
        return false; /* asked there once more, as if there were no other */
    }
    snib__claims_leave_ring(b, call);
    snib__claims_note_loss(b, call, how);
    call->trials = call->trials || how >= SNIB__LOSS_CUT;
    if (moved) {
        l->hops++;
        snib__lodger_move(b, to, false);
        ask_there(l, call);
    } else {
        wait_for_map(c, l, call, how);
    }
    return true;
}

struct snib__redis *snib__lodger_whom(struct snib__redis *r, struct snib__bid *b)
{
    go_home(((struct snib__shard *)r)->cluster, lodger_of(b));
    return lodger_of(b)->home;
}

/* ---- A new map -------------------------------------------------------------------------- */

/* Those that are asked nothing at the moment. What is under way somewhere else comes back by
 * itself. */
static void move_all(struct snib__cluster *c)
{
    for (struct snib__list *l = c->lodgers.after; l != &c->lodgers; l = l->after) {
        struct snib__lodger *lodger = SNIB__OF(l, struct snib__lodger, in_cluster);
        struct snib__bid *b = &lodger->bid;
        bool still = b->under_way == 0 && b->phase != SNIB__BID_IDLE && !b->asking;
        struct snib__redis *to = still ? snib__shard_of(c, b->claim->name) : NULL;
        if (to && lodger->home && to != lodger->home) {
            lodger->hops = 0;
            snib__lodger_move(&lodger->bid, to, false);
            if (b->phase == SNIB__BID_HELD) {
                b->by_itself = snib__ask_renew(to, b, NULL);
            }
        }
    }
}

static void move_debts(struct snib__cluster *c, struct snib__redis *from)
{
    struct snib__list *after;
    for (struct snib__list *l = from->debts.after; l != &from->debts; l = after) {
        struct snib__debt *d = SNIB__OF(l, struct snib__debt, in_session);
        after = l->after;
        bool under_way = d->retry_ns == SNIB__NEVER;
        struct snib__redis *to = under_way ? NULL : snib__shard_of(c, d->name);
        if (to && to != from && !d->asking) {
            if (d->bid) {
                snib__lodger_move(d->bid, to, false);
            }
            snib__debts_move(d, to, false);
        }
    }
}

/* What is asked of a server that leads no more is answered by its successor, or not at all. */
static void leave_former_masters(struct snib__cluster *c)
{
    for (size_t i = 0; i < c->count; i++) {
        struct snib__redis *r = &c->shards[i]->redis;
        if (!snib__shard_leads(c, r) && !snib__node_idle(&r->node)) {
            snib__node_end(&r->node, "this server is no master of the cluster any more");
        }
        move_debts(c, r);
    }
}

static void expire(struct snib__cluster *c, struct snib__lodger *l)
{
    struct snib__redis *r = l->home ? l->home : &c->common;
    struct snib__redis_call call = l->call;
    l->homeless = false; /* the call counts as lost, now */
    snib__list_remove(&l->in_homeless);
    snib__claims_lost(r, &call, l->how);
}

/* Nobody has ever told us where anything is: the user is told why. */
static void give_up(struct snib__cluster *c)
{
    const struct snib__scout *s = &c->scout;
    while (!snib__list_empty(&c->homeless)) {
        struct snib__lodger *l = SNIB__OF(c->homeless.after, struct snib__lodger, in_homeless);
        struct snib__bid *b = &l->bid;
        if (l->call.kind == SNIB__CALL_ATTEMPT) {
            leave_homeless(l);
            snib__attempts_fail(&c->common, b, s->code, s->sys, s->why);
        } else {
            expire(c, l);
        }
    }
}

static void place_homeless(struct snib__cluster *c)
{
    struct snib__list *after;
    for (struct snib__list *l = c->homeless.after; l != &c->homeless; l = after) {
        struct snib__lodger *lodger = SNIB__OF(l, struct snib__lodger, in_homeless);
        after = l->after;
        struct snib__redis *to = snib__shard_of(c, lodger->bid.claim->name);
        if (to) {
            struct snib__redis_call call = lodger->call;
            leave_homeless(lodger);
            snib__lodger_move(&lodger->bid, to, false);
            ask_there(lodger, &call);
        }
    }
}

void snib__lodgers_settle(struct snib__cluster *c)
{
    if (!c->known) {
        give_up(c);
        return;
    }
    leave_former_masters(c);
    move_all(c);
    place_homeless(c);
    if (snib__list_empty(&c->homeless)) {
        snib__scout_content(c);
    } else {
        snib__scout_again(c);
    }
}

/* ---- Time ------------------------------------------------------------------------------- */

int64_t snib__lodgers_keep_time(struct snib__cluster *c, int64_t now_ns)
{
    struct snib__list *after;
    int64_t next_ns = SNIB__NEVER;
    for (struct snib__list *l = c->homeless.after; l != &c->homeless; l = after) {
        struct snib__lodger *lodger = SNIB__OF(l, struct snib__lodger, in_homeless);
        after = l->after;
        if (now_ns < lodger->call.due_ns) {
            next_ns = lodger->call.due_ns < next_ns ? lodger->call.due_ns : next_ns;
            continue;
        }
        if (!lodger->home) {
            char why[sizeof c->common.node.connection.why];
            snprintf(why, sizeof why, "%s",
                     c->scout.why[0] ? c->scout.why
                                     : "no server of the cluster has the slot of this lock");
            snprintf(c->common.node.connection.why, sizeof why, "%s", why);
        }
        expire(c, lodger);
    }
    return next_ns;
}
