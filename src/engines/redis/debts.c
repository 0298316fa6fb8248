/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debts: what this session must still release at the server.
 *
 * A grant for an id that nobody here has, a grant made during a quarantine, a release that the
 * server refused because it was busy, loading or not the master: nothing was executed then, and
 * without us the lock would stay for its whole lease. A debt outlives the claim it came from. It is
 * asked for again, with growing pauses, until the server says that it is done or the lease is over;
 * session->undoing counts them, so that somebody drives meanwhile and snib_close waits a while.
 */
#include "engines/redis/debts.h"

#include "engines/redis/errors.h"
#include "engines/redis/steps.h"

#include <stdlib.h>
#include <string.h>

#define PAUSE_FIRST_MS 50
#define MOVE_MS 10 /* between two servers that may send us to each other */
#define PAUSE_MOST_MS 1000

static void forget(struct snib__redis *r, struct snib__debt *d)
{
    snib__list_remove(&d->in_session);
    r->session->undoing--;
    free(d->name);
    free(d);
}

static void postpone(struct snib__debt *d)
{
    d->pause_ms = d->pause_ms ? d->pause_ms * 2 : PAUSE_FIRST_MS;
    d->pause_ms = d->pause_ms < PAUSE_MOST_MS ? d->pause_ms : PAUSE_MOST_MS;
    d->retry_ns = snib__now().boot_ns + snib__jitter(d->pause_ms * SNIB__MS);
}

static void ask(struct snib__redis *r, struct snib__debt *d)
{
    struct snib__wish wish = snib__wish_for(r, d->name, d->id);
    struct snib__redis_call call = snib__node_call(&r->node, SNIB__CALL_DEBT, d);
    wish.loose_ms = d->loose_ms;
    wish.by_text = call.by_text = d->by_text;
    call.asking = d->asking;
    d->retry_ns = SNIB__NEVER;
    if (!snib__steps_ask(r, SNIB__PLAN_RELEASE, &call, &wish)) {
        postpone(d);
    }
}

struct snib__debt *snib__debts_add(struct snib__redis *r, const char *name,
                                   const unsigned char id[SNIB__ID_SIZE], int64_t loose_ms,
                                   bool refused)
{
    struct snib__debt *d = calloc(1, sizeof *d);
    char *copy = strdup(name);
    if (!d || !copy) {
        free(d);
        free(copy);
        return NULL;
    }
    d->name = copy;
    memcpy(d->id, id, sizeof d->id);
    d->loose_ms = loose_ms;
    d->until_ns = snib__later(snib__now().boot_ns, r->session->max_lease_ms * SNIB__MS);
    snib__list_append(&r->debts, &d->in_session);
    r->session->undoing++;
    if (refused) {
        postpone(d);
    } else {
        ask(r, d);
    }
    return d;
}

void snib__debts_move(struct snib__debt *d, struct snib__redis *to, bool asking)
{
    snib__list_remove(&d->in_session);
    snib__list_append(&to->debts, &d->in_session);
    d->asking = asking;
    d->by_text = false;
    d->retry_ns = snib__now().boot_ns + snib__jitter(MOVE_MS * SNIB__MS);
}

static void on_error(struct snib__redis *r, struct snib__debt *d, const char *text)
{
    struct snib__error error = snib__error_read(text);
    if (error.kind == SNIB__ERROR_NO_SCRIPT && !d->by_text) {
        d->by_text = true;
        ask(r, d);
        return;
    }
    if (error.kind == SNIB__ERROR_MOVED) {
        snib__node_leave(&r->node, text);
    }
    postpone(d);
}

void snib__debts_reply(struct snib__redis *r, struct snib__redis_call *call,
                       const struct snib__reply *reply, snib__debt_settled *settled)
{
    struct snib__debt *d = call->subject;
    struct snib__layout_answer answer;
    if (!d) {
        return; /* too late */
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        on_error(r, d, reply->text);
        return;
    }
    if (!r->layout->answer(&answer, reply)) {
        snib__node_end(&r->node, "the server answered something else than was asked");
        postpone(d);
        return;
    }
    if (answer.word == SNIB__ANSWER_NONE && snib__node_is_replica(&r->node)) {
        postpone(d); /* its master may have it */
        return;
    }
    if (d->bid) {
        struct snib__bid *bid = d->bid;
        bool says_nothing = d->unsure && answer.word == SNIB__ANSWER_NONE;
        d->bid = NULL;
        settled(r, bid, says_nothing ? NULL : &answer);
    }
    if (answer.unfinished) {
        ask(r, d);
    } else {
        forget(r, d);
    }
}

void snib__debts_lost(struct snib__redis *r, struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__debt *d = call->subject;
    (void)r;
    call->subject = NULL;
    if (d) {
        d->by_text = false;
        d->unsure = d->unsure || how >= SNIB__LOSS_CUT;
        postpone(d);
    }
}

int64_t snib__debts_keep_time(struct snib__redis *r, int64_t now_ns, snib__debt_settled *settled)
{
    int64_t next = SNIB__NEVER;
    struct snib__list *after;
    for (struct snib__list *l = r->debts.after; l != &r->debts; l = after) {
        struct snib__debt *d = SNIB__OF(l, struct snib__debt, in_session);
        after = l->after;
        if (d->bid && now_ns >= d->answer_by_ns) {
            struct snib__bid *bid = d->bid;
            d->bid = NULL;
            settled(r, bid, NULL);
        }
        bool under_way = d->retry_ns == SNIB__NEVER; /* if it is lost, the connection says so */
        if (!under_way && now_ns >= d->until_ns && !d->bid) {
            forget(r, d);
            continue;
        }
        if (!under_way && now_ns >= d->retry_ns) {
            ask(r, d);
        }
        next = d->retry_ns < next ? d->retry_ns : next;
        next = d->bid && d->answer_by_ns < next ? d->answer_by_ns : next;
    }
    return next;
}

void snib__debts_close(struct snib__redis *r)
{
    struct snib__list *after;
    for (struct snib__list *l = r->debts.after; l != &r->debts; l = after) {
        after = l->after;
        forget(r, SNIB__OF(l, struct snib__debt, in_session));
    }
}
