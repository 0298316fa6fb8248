/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a contender: from nothing to a node that is first, and back to nothing.
 *
 *   ABSENT --create--> MAKING --> PRESENT: unplaced -> blocked -> waiting -> first -> held
 *                        | cut                  ^---------------------'
 *                        v
 *                     ASTRAY --proof, list--> NAMED --read--> PRESENT, or ABSENT
 *   PRESENT --delete--> ABSENT
 *
 * One function says what comes next; answers only write down what is known. So a connection that is
 * lost at any point costs nothing but the question: after it, the same function asks again.
 *
 * Safety. The list is asked for behind our own create, in the same session: it has our node and
 * every older one that is still there, whatever server answers. Numbers only grow, so nobody comes
 * before us later. Whether an answer that was lost had been a grant is decided by a list behind a
 * proof in the same session; only if our name is not there is it asked for again. An attempt that
 * is given up is answered when its node is known to be gone; if that takes too long, the contender
 * goes on without its claim until it is, or until the session is over. Where the servers refuse to
 * delete it, which is a matter of the rights on the lock's node, the session is ended as soon as no
 * lock is held or waited for in it, and till then the delete is asked for again and again.
 */
#include "engines/zookeeper/steps.h"

#include "engines/zookeeper/asks.h"
#include "engines/zookeeper/tokens.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SEQUENCE_MOST (INT32_MAX - (1 << 24)) /* numbers are used up soon */
#define TRIALS_MOST 8
#define STUCK_MS 1000 /* between one delete that was refused and the next */

/* ---- Refused, granted, gone --------------------------------------------------------------- */

void snib__contender_refuse(struct snib__contender *c, enum snib__status status, int code,
                            const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->reason, sizeof c->reason, format, arguments);
    va_end(arguments);
    c->refusal = (struct snib__result){.status = status, .code = code};
    c->aim = SNIB__ZK_LEAVE;
}

/* Other libraries do not see every name: whose was seen, and who does not see ours? */
static const char *warning(struct snib__contender *c)
{
    struct snib__zk *z = c->zk;
    unsigned curator = 1U << SNIB__ZK_MUTEX, kazoo = 1U << SNIB__ZK_KAZOO_LOCK;
    unsigned rw = 1U << SNIB__ZK_WRITER | 1U << SNIB__ZK_READER;
    unsigned blind = 0;
    switch (z->dialect) {
    case SNIB__ZK_CURATOR:
        blind = kazoo | rw;
        break;
    case SNIB__ZK_CURATOR_RW:
        blind = kazoo | curator;
        break;
    case SNIB__ZK_KAZOO:
        blind = curator | rw;
        break;
    }
    unsigned sorts = c->sorts & blind & ~z->warned;
    if (!sorts || c->mode != SNIB_EXCLUSIVE) {
        return NULL;
    }
    z->warned |= sorts;
    return sorts & kazoo
               ? "a client of kazoo uses this lock: it sees ours only with "
                 "extra_lock_patterns=[\"-lock-\"], or with dialect=kazoo here"
               : "a client of Curator uses this lock with other names than ours, and does "
                 "not see them: see dialect= in snib-engines(7)";
}

/* The lease is over, and nobody has given it back: the holder has been told, and the session of the
 * whole client must not keep it. */
static void on_over(struct snib__timer *timer)
{
    struct snib__contender *c = SNIB__OF(timer, struct snib__contender, over);
    if (c->standing == SNIB__ZK_HELD && c->aim == SNIB__ZK_HOLD) {
        c->aim = SNIB__ZK_LEAVE;
        snib__contender_step(c);
    }
}

void snib__contender_lease(struct snib__contender *c)
{
    int64_t from_ns = c->proved.boot_ns;
    int64_t now_ns = snib__now().boot_ns;
    int64_t lease_ns = c->lease_ms * SNIB__MS;
    if (now_ns - from_ns >= lease_ns / 3) {
        from_ns = now_ns; /* the core has it proved before it believes in it */
    }
    c->over.fire = on_over;
    snib__timer_set(&c->zk->timers, &c->over, snib__later(from_ns, lease_ns));
}

static void grant(struct snib__contender *c)
{
    if (!c->owed && !c->queued) {
        return; /* the core asks again, or gives it back */
    }
    struct snib__result held = {
        .status = SNIB__HELD,
        .token = c->token,
        .since = c->proved,
        .lease_ms = c->lease_ms,
        .reason = warning(c),
    };
    c->standing = SNIB__ZK_HELD;
    c->was_held = true;
    c->trials = 0;
    snib__contender_lease(c);
    if (c->claim->listens) {
        snib__contender_listen(c, true);
        snib__contender_ask_self(c);
    }
    snib__contender_answer(c, &held);
}

/* Its node is not there, and it is not wanted. */
static void finish(struct snib__contender *c)
{
    struct snib__result result = c->refusal;
    bool owes_attempt = c->owed && c->verb == SNIB__ATTEMPT;
    snib__contender_unwatch(c);
    snib__contender_listen(c, false);
    snib__timer_clear(&c->zk->timers, &c->over);
    c->standing = SNIB__ZK_UNPLACED;
    c->refusal = (struct snib__result){.status = SNIB__UNKNOWN};
    c->trials = 0;
    c->stuck = false;
    if (c->owed && c->verb == SNIB__RELEASE) {
        struct snib__result ended = {.status = c->end};
        snib__contender_answer(c, &ended);
    }
    if (!c->claim) {
        snib__contender_free(c);
        return;
    }
    c->aim = SNIB__ZK_IDLE;
    if (c->again) {
        c->again = false;
        c->aim = SNIB__ZK_HOLD;
        snib__contender_step(c);
    } else if (owes_attempt && result.status != SNIB__UNKNOWN) {
        result.reason = c->reason;
        result.holder = c->rival.who[0] ? c->rival.who : NULL;
        result.holder_token = c->rival.token;
        if (result.status == SNIB__BUSY) {
            result.reason = NULL;
        }
        snib__contender_answer(c, &result);
    }
}

/* ---- What comes next ---------------------------------------------------------------------- */

static bool session_needed(const struct snib__zk *z)
{
    for (struct snib__list *l = z->contenders.after; l != &z->contenders; l = l->after) {
        if (SNIB__OF(l, struct snib__contender, in_all)->aim == SNIB__ZK_HOLD) {
            return true;
        }
    }
    return false;
}

/* Nodes that may not be deleted go with it. What they were till then is asked in the same flight:
 * whether a release gave something back depends on it. */
static void end_session(struct snib__zk *z)
{
    for (struct snib__list *l = z->contenders.after; l != &z->contenders; l = l->after) {
        struct snib__contender *c = SNIB__OF(l, struct snib__contender, in_all);
        if (c->stuck && c->presence == SNIB__ZK_PRESENT && c->under_way == 0) {
            snib__contender_ask(c, SNIB__ZK_ASK_OWN, SNIB__ZK_GET_DATA, c->node, false);
        }
    }
    snib__zk_session_end(&z->at);
}

static void step_present(struct snib__contender *c)
{
    if (c->stuck && !session_needed(c->zk)) {
        end_session(c->zk);
        return;
    }
    if (c->stuck && c->over.slot) {
        return; /* later */
    }
    if (c->aim == SNIB__ZK_LEAVE) {
        snib__contender_ask_delete(c);
        c->deleting = true;
        return;
    }
    if (c->aim != SNIB__ZK_HOLD) {
        return;
    }
    switch (c->standing) {
    case SNIB__ZK_UNPLACED:
        snib__contender_ask_list(c);
        break;
    case SNIB__ZK_BLOCKED:
        snib__contender_ask_watch(c);
        break;
    case SNIB__ZK_FIRST:
        if (c->token) {
            grant(c);
        } else {
            snib__contender_ask(c, SNIB__ZK_ASK_RECORD, SNIB__ZK_GET_DATA, "", false);
        }
        break;
    case SNIB__ZK_WAITING:
    case SNIB__ZK_HELD:
        break;
    }
}

void snib__contender_step(struct snib__contender *c)
{
    const struct snib__zk_session *at = &c->zk->at;
    if (c->under_way > 0) {
        return;
    }
    if (c->presence == SNIB__ZK_ABSENT && c->aim == SNIB__ZK_LEAVE) {
        finish(c);
        return;
    }
    if (!at->ready || at->link.ending) {
        return;
    }
    switch (c->presence) {
    case SNIB__ZK_ABSENT:
        if (c->aim == SNIB__ZK_HOLD && (c->owed || c->queued)) {
            snib__contender_ask_create(c);
        }
        break;
    case SNIB__ZK_MAKING: /* its answer was refused for want of memory: look for it */
    case SNIB__ZK_ASTRAY:
        snib__contender_ask_find(c);
        break;
    case SNIB__ZK_NAMED:
        snib__contender_ask(c, SNIB__ZK_ASK_OWN, SNIB__ZK_GET_DATA, c->node, false);
        break;
    case SNIB__ZK_PRESENT:
        step_present(c);
        break;
    }
}

/* ---- Answers to create, find and the like -------------------------------------------------- */

static void refuse_error(struct snib__contender *c, int32_t error, const char *what)
{
    if (error == SNIB__ZK_NO_AUTH) {
        snib__contender_refuse(c, SNIB__FAILED, SNIB_EDENIED,
                               "%s: no right to %s below %.100s; USER:PASSWORD@ of somebody who "
                               "may, or another ACL there",
                               "the servers refuse", what, c->lock);
    } else if (error == SNIB__ZK_UNIMPLEMENTED) {
        snib__contender_refuse(c, SNIB__FAILED, SNIB_ENOTSUP,
                               "the server does not know how to %s and tell of it: ZooKeeper 3.5 "
                               "or newer is needed",
                               what);
    } else {
        snib__contender_refuse(c, SNIB__FAILED, SNIB_EPROTO, "to %s failed with error %d", what,
                               (int)error);
    }
}

static bool name_node(struct snib__contender *c, struct snib__zk_text name)
{
    if (name.size >= sizeof c->node) {
        return false;
    }
    memcpy(c->node, name.at, name.size);
    c->node[name.size] = '\0';
    c->sequence = snib__zk_parse(name).sequence;
    return true;
}

/* It is there: as far as numbers go, is that any use? */
static void appear(struct snib__contender *c, const struct snib__zk_stat *stat,
                   struct snib__instant sent)
{
    c->presence = SNIB__ZK_PRESENT;
    c->standing = SNIB__ZK_UNPLACED;
    c->created = (uint64_t)stat->created;
    c->token = c->mode == SNIB_SHARED ? 0 : c->created;
    c->proved = sent;
    c->lease_ms = snib__zk_session_lease_ms(&c->zk->at, sent);
    if (c->aim == SNIB__ZK_HOLD && (c->sequence < 0 || c->sequence > SEQUENCE_MOST)) {
        snib__contender_refuse(c, SNIB__FAILED, SNIB_EUNSAFE,
                               "the numbers below %.100s are nearly used up: delete that node when "
                               "nobody uses it",
                               c->lock);
    }
}

static void on_create(struct snib__contender *c, const struct snib__zk_call *call,
                      struct snib__zk_answer *answer)
{
    struct snib__zk_text path;
    struct snib__zk_stat stat;
    c->presence = SNIB__ZK_ABSENT;
    if (answer->error == SNIB__ZK_NO_NODE && !c->denied && c->trials++ < TRIALS_MOST) {
        c->needs_parents = true;
    } else if (answer->error != SNIB__ZK_OK) {
        if (c->aim == SNIB__ZK_HOLD) {
            refuse_error(c, c->denied ? SNIB__ZK_NO_AUTH : answer->error, "create a node");
        }
    } else {
        c->presence = SNIB__ZK_ASTRAY; /* unless the answer makes sense */
        if (!snib__zk_get_created(&answer->body, &path, &stat)) {
            return;
        }
        const char *slash = memrchr(path.at, '/', path.size);
        struct snib__zk_text name = {.at = slash ? slash + 1 : path.at};
        name.size = path.size - (size_t)(name.at - path.at);
        if (name_node(c, name)) {
            appear(c, &stat, call->sent);
        }
    }
}

static void on_parent(struct snib__contender *c, const struct snib__zk_answer *answer)
{
    if (answer->error == SNIB__ZK_UNIMPLEMENTED && !c->zk->no_containers) {
        c->zk->no_containers = true; /* create will find no node, and come back */
    }
    if (answer->error == SNIB__ZK_NO_AUTH) {
        c->denied = true; /* unless that one is there, and the next is made */
    } else if (answer->error == SNIB__ZK_OK || answer->error == SNIB__ZK_NODE_EXISTS) {
        c->denied = false;
    }
}

static void on_find(struct snib__contender *c, const struct snib__zk_call *call,
                    struct snib__zk_answer *answer)
{
    struct snib__zk_text name;
    bool found = answer->error == SNIB__ZK_OK && snib__zk_find(&answer->body, c->stem, &name);
    if (answer->error != SNIB__ZK_OK && answer->error != SNIB__ZK_NO_NODE) {
        c->presence = SNIB__ZK_ASTRAY; /* and tried again until somebody gives up */
        if (c->trials++ >= TRIALS_MOST) {
            snib__zk_link_end(&c->zk->at.link, 0, "a list of nodes is refused");
        }
        return;
    }
    c->presence = found && name_node(c, name) ? SNIB__ZK_NAMED : SNIB__ZK_ABSENT;
    c->proved = call->sent;
    if (c->foreign && !found) {
        c->end = SNIB__LOST;
    }
}

/* A look at our own node, which was found again. */
static void on_own(struct snib__contender *c, struct snib__zk_answer *answer)
{
    struct snib__zk_text data;
    struct snib__zk_stat stat;
    if (answer->error == SNIB__ZK_NO_NODE) {
        c->presence = SNIB__ZK_ABSENT;
        c->end = c->was_held || c->foreign ? SNIB__LOST : SNIB__FREED;
    } else if (answer->error == SNIB__ZK_OK && snib__zk_get_data(&answer->body, &data, &stat)) {
        if (stat.owner != c->zk->at.id && !c->foreign) {
            c->aim = SNIB__ZK_LEAVE; /* of a session that we do not have: it must not stay */
            c->again = c->owed && c->verb == SNIB__ATTEMPT;
        }
        appear(c, &stat, c->proved);
    }
}

/* A look at our own node, which is held: has somebody changed it? */
static void on_self(struct snib__contender *c, struct snib__zk_answer *answer)
{
    struct snib__zk_text data;
    struct snib__zk_stat stat;
    struct snib__zk_owner owner;
    if (c->standing != SNIB__ZK_HELD || c->aim != SNIB__ZK_HOLD) {
        return;
    }
    if (answer->error == SNIB__ZK_NO_NODE) {
        c->presence = SNIB__ZK_ABSENT;
        c->standing = SNIB__ZK_UNPLACED;
        c->aim = SNIB__ZK_IDLE;
        snib__report(c->claim, SNIB_LOST, "its node was deleted");
    } else if (answer->error == SNIB__ZK_OK && snib__zk_get_data(&answer->body, &data, &stat)) {
        snib__contender_watch(c, c->node);
        snib__zk_owner_read(&owner, data);
        if (owner.broken) {
            snib__contender_break(c, &owner, false);
        }
    }
}

void snib__contender_break(struct snib__contender *c, const struct snib__zk_owner *owner,
                           bool renewing)
{
    char why[SNIB__ZK_WHO_ROOM + 32];
    snprintf(why, sizeof why, "%s%s", owner->breaker[0] ? "broken by " : "asked for by another",
             owner->breaker);
    c->broken = true; /* and no renewal moves the end of the lease any more */
    if (renewing) {
        struct snib__result lost = {.status = SNIB__LOST, .reason = why};
        snib__answer(c->claim, SNIB__RENEW, &lost);
    } else {
        snib__report(c->claim, SNIB_LOST, why);
    }
}

/* ---- Answers about the place --------------------------------------------------------------- */

static void keep_name(char out[SNIB__ZK_SIBLING_MOST + 1], struct snib__zk_text name)
{
    memcpy(out, name.at, name.size); /* longer ones are strangers */
    out[name.size] = '\0';
}

static void refuse_kind(struct snib__contender *c, unsigned permits)
{
    if (permits) {
        snib__contender_refuse(c, SNIB__FAILED, SNIB_EKIND,
                               "in use as a counted lock with %u permits", permits);
    } else {
        snib__contender_refuse(c, SNIB__FAILED, SNIB_EKIND, "in use as an exclusive lock");
    }
}

static void tell_queued(struct snib__contender *c)
{
    struct snib__result queued = {
        .status = SNIB__QUEUED,
        .holder = c->rival.who[0] ? c->rival.who : NULL,
        .holder_token = c->rival.token,
        .place = (int)(c->before + 1 > c->holders ? c->before + 1 - c->holders : 1),
    };
    c->standing = SNIB__ZK_WAITING;
    if (c->owed || c->queued) {
        snib__contender_answer(c, &queued);
    }
}

static void be_blocked(struct snib__contender *c, const struct snib__zk_place *place)
{
    keep_name(c->first, place->first);
    keep_name(c->next, place->next);
    c->first_sort = place->first_sort;
    c->next_sort = place->next_sort;
    c->standing = SNIB__ZK_BLOCKED;
    if (!c->claim->may_queue) {
        snib__contender_refuse(c, SNIB__BUSY, 0, "%s", "");
    } else if (c->mode == SNIB_COUNTED) {
        snib__contender_watch(c, ""); /* the list was asked for with a watch */
        tell_queued(c);
    }
}

static void on_list(struct snib__contender *c, struct snib__zk_answer *answer)
{
    struct snib__zk_place place;
    struct snib__zk_self self = {
        .node = c->node, .sequence = c->sequence, .mode = c->mode, .permits = c->permits};
    if (c->presence != SNIB__ZK_PRESENT || c->aim != SNIB__ZK_HOLD) {
        return;
    }
    if (answer->error != SNIB__ZK_OK && answer->error != SNIB__ZK_NO_NODE) {
        refuse_error(c, answer->error, "list the nodes");
        return;
    }
    if (answer->error == SNIB__ZK_NO_NODE || !snib__zk_place(&answer->body, &self, &place)) {
        place = (struct snib__zk_place){.listed = false};
    }
    c->before = place.before;
    c->holders = place.holders;
    c->in_the_way = place.in_the_way;
    c->first_reader = place.first_reader;
    c->sorts = place.sorts;
    c->recordable = place.parent.data_size == 0 || place.parent.data_size == SNIB__ZK_RECORD_SIZE;
    if (!place.listed) {
        c->presence = SNIB__ZK_ABSENT; /* somebody has deleted it: begin again, at the end */
        c->end = SNIB__LOST;
    } else if (place.clash) {
        refuse_kind(c, place.clash_permits);
    } else if (!place.held) {
        be_blocked(c, &place);
    } else {
        c->standing = SNIB__ZK_FIRST;
        if (c->token) {
            grant(c);
        }
    }
}

static void read_rival(struct snib__contender *c, struct snib__zk_answer *answer,
                       enum snib__zk_sort sort)
{
    struct snib__zk_text data;
    struct snib__zk_stat stat;
    struct snib__zk_owner owner;
    if (answer->error != SNIB__ZK_OK || !snib__zk_get_data(&answer->body, &data, &stat)) {
        return;
    }
    snib__zk_owner_read(&owner, data);
    snprintf(c->rival.who, sizeof c->rival.who, "%.90s%s%.60s", owner.who,
             owner.label[0] ? " " : "", owner.label);
    c->rival.token = snib__zk_reads(sort) ? 0 : (uint64_t)stat.created;
}

static void on_watch(struct snib__contender *c, struct snib__zk_answer *answer)
{
    if (c->aim != SNIB__ZK_HOLD || c->standing != SNIB__ZK_BLOCKED) {
        return;
    }
    if (answer->error == SNIB__ZK_NO_NODE) {
        c->standing = SNIB__ZK_UNPLACED; /* gone meanwhile: who is it now? */
    } else if (answer->error != SNIB__ZK_OK) {
        refuse_error(c, answer->error, "read the node of who is before us");
    } else {
        snib__contender_watch(c, c->next);
        if (strcmp(c->first, c->next) == 0) {
            read_rival(c, answer, c->first_sort);
        }
        tell_queued(c);
    }
}

/* ---- Answers to delete ---------------------------------------------------------------------- */

static void on_retry(struct snib__timer *timer)
{
    snib__contender_step(SNIB__OF(timer, struct snib__contender, over));
}

static void be_stuck(struct snib__contender *c, int32_t error)
{
    c->stuck = c->zk->stuck = true;
    c->over.fire = on_retry;
    snib__timer_set(&c->zk->timers, &c->over,
                    snib__later(snib__now().boot_ns, STUCK_MS * SNIB__MS));
    if (c->refusal.status == SNIB__BUSY) {
        c->refusal = (struct snib__result){
            .status = SNIB__FAILED, .code = error == SNIB__ZK_NO_AUTH ? SNIB_EDENIED : SNIB_EPROTO};
    }
    if (c->refusal.status == SNIB__UNKNOWN || c->reason[0] == '\0') {
        snprintf(c->reason, sizeof c->reason,
                 "the servers refuse to delete our node below %.80s: its ACL must allow delete, "
                 "not only create; it goes with the session",
                 c->lock);
    }
}

static void on_delete(struct snib__contender *c, struct snib__zk_answer *answer)
{
    int32_t error = answer->error;
    int part;
    if (error == SNIB__ZK_OK && c->recording && !snib__zk_get_multi(&answer->body, &error, &part)) {
        return;
    }
    switch (error) {
    case SNIB__ZK_OK:
        c->presence = SNIB__ZK_ABSENT;
        c->end = SNIB__FREED;
        break;
    case SNIB__ZK_NO_NODE:
        /* If this was not the first delete of this session, an earlier one has done it. */
        c->presence = SNIB__ZK_ABSENT;
        c->end = c->was_held && c->trials == 0 ? SNIB__LOST : SNIB__FREED;
        break;
    default:
        if (c->recording) {
            c->recordable = false; /* the record may be what is refused */
        } else if (c->foreign) {
            c->presence = SNIB__ZK_ABSENT; /* it ends with its own session */
            c->end = SNIB__UNKNOWN;
        } else {
            be_stuck(c, error);
        }
        break;
    }
}

/* ---- All answers, losses, events ------------------------------------------------------------ */

void snib__contender_reply(struct snib__contender *c, const struct snib__zk_call *call,
                           struct snib__zk_answer *answer)
{
    c->calls--;
    if (call->kind == SNIB__ZK_ASK_SELF) {
        on_self(c, answer);
        return;
    }
    c->under_way--;
    switch (call->kind) {
    case SNIB__ZK_ASK_PARENT:
        on_parent(c, answer);
        break;
    case SNIB__ZK_ASK_CREATE:
        on_create(c, call, answer);
        break;
    case SNIB__ZK_ASK_LIST:
        on_list(c, answer);
        break;
    case SNIB__ZK_ASK_RECORD:
        snib__contender_record(c, answer);
        break;
    case SNIB__ZK_ASK_DRAW:
        snib__contender_draw(c, answer);
        break;
    case SNIB__ZK_ASK_FIND:
        on_find(c, call, answer);
        break;
    case SNIB__ZK_ASK_OWN:
        on_own(c, answer);
        break;
    case SNIB__ZK_ASK_RIVAL:
        read_rival(c, answer, c->first_sort);
        break;
    case SNIB__ZK_ASK_WATCH:
        on_watch(c, answer);
        break;
    default:
        on_delete(c, answer);
        break;
    }
    snib__contender_step(c);
}

void snib__contender_lost(struct snib__contender *c, const struct snib__zk_call *call)
{
    c->calls--;
    if (call->kind == SNIB__ZK_ASK_SELF) {
        return;
    }
    c->under_way--;
    if (call->kind == SNIB__ZK_ASK_CREATE) {
        c->presence = SNIB__ZK_ASTRAY;
    } else if (call->kind == SNIB__ZK_ASK_DELETE) {
        c->trials++;
    }
}

void snib__contender_cut(struct snib__contender *c)
{
    snib__contender_unwatch(c);
    if (c->standing == SNIB__ZK_WAITING || c->standing == SNIB__ZK_BLOCKED) {
        c->standing = SNIB__ZK_UNPLACED;
    }
}

void snib__contender_bereave(struct snib__contender *c)
{
    snib__contender_cut(c);
    snib__contender_listen(c, false);
    if (c->stuck && c->zk->at.ended && c->presence == SNIB__ZK_PRESENT) {
        c->end = SNIB__FREED;
    } else if (c->deleting && c->presence != SNIB__ZK_ABSENT) {
        c->end = SNIB__UNKNOWN; /* did it go before the session, or with it? */
    } else if (c->presence != SNIB__ZK_ABSENT) {
        c->end = c->was_held ? SNIB__LOST : SNIB__FREED;
    }
    if (c->standing == SNIB__ZK_HELD && c->aim == SNIB__ZK_HOLD) {
        c->aim = SNIB__ZK_IDLE;
    }
    c->presence = c->foreign ? SNIB__ZK_ASTRAY : SNIB__ZK_ABSENT;
    c->standing = SNIB__ZK_UNPLACED;
    c->trials = 0;
    c->stuck = false;
}

void snib__contender_event(struct snib__contender *c, const struct snib__zk_event *event)
{
    snib__contender_unwatch(c);
    if (c->aim != SNIB__ZK_HOLD || c->presence != SNIB__ZK_PRESENT) {
        return;
    }
    if (c->standing == SNIB__ZK_HELD) { /* our own node */
        snib__contender_ask_self(c);
        return;
    }
    if (c->standing != SNIB__ZK_WAITING) {
        return;
    }
    /* The only one before us is gone, and numbers grow. A writer of Curator's may have left a
     * reader with its own number behind. */
    bool alone = event->type == SNIB__ZK_DELETED && c->mode == SNIB_EXCLUSIVE &&
                 c->in_the_way == 1 && c->next_sort != SNIB__ZK_WRITER;
    c->standing = alone ? SNIB__ZK_FIRST : SNIB__ZK_UNPLACED;
    snib__contender_step(c);
}
