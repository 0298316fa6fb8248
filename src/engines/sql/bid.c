/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One bid: its record, what it owes the core, and the answers. Both modes use it.
 */
#include "engines/sql/bid.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALM_MS = 20 };

struct sql_bid *sql_bid_new(struct snib__claim *claim)
{
    struct sql *s = sql_of(claim->session);
    struct sql_bid *b = calloc(1, sizeof *b);
    struct sql_link model = {.settings = s->settings, .session = s->session};
    if (!b) {
        return NULL;
    }
    b->claim = claim;
    b->sql = s;
    snib__list_append(&s->bids, &b->in_all);
    snib__list_init(&b->on_strand);
    snib__list_init(&b->in_owing);
    snib__list_init(&b->in_broken);
    snprintf(b->name, sizeof b->name, "%s", claim->name);
    snprintf(b->label, sizeof b->label, "%s", claim->label);
    snprintf(b->mode, sizeof b->mode, "%d", claim->mode);
    snprintf(b->ttl, sizeof b->ttl, "%lld", (long long)s->session->ttl_ms);
    s->driver->key(&model, b->name, b->key);
    return b;
}

/* What is held for a while is watched, so that its end is told at once. Whoever takes and gives
 * back all the time wakes nobody for that. */
void sql_bids_watch(struct sql *s, int64_t now_ns)
{
    int64_t calm_ns = s->stirred_ns + CALM_MS * SNIB__MS;
    s->session->attend = s->held > 0 && now_ns >= calm_ns;
    s->session->wake_ns = s->held > 0 && !s->session->attend ? calm_ns : 0;
}

void sql_bid_phase(struct sql_bid *b, enum sql_phase phase)
{
    struct sql *s = b->sql;
    bool was = b->phase == SQL_HOLDING, is = phase == SQL_HOLDING;
    b->phase = phase;
    if (was != is) {
        s->held += is ? 1 : (size_t)-1;
        s->stirred_ns = snib__now().boot_ns;
        sql_bids_watch(s, s->stirred_ns);
    }
}

void sql_bid_leave(struct sql_bid *b)
{
    if (b->strand) {
        snib__table_remove(&b->sql->keys, &b->entry);
        snib__list_remove(&b->on_strand);
        b->strand = NULL;
    }
}

bool sql_bid_join(struct sql_bid *b, struct sql_strand *strand)
{
    sql_bid_leave(b);
    if (!snib__table_add(&b->sql->keys, &b->entry, snib__hash_text(b->key))) {
        return false;
    }
    b->strand = strand;
    snib__list_remove(&b->on_strand);
    snib__list_append(&strand->bids, &b->on_strand);
    return true;
}

/* Nothing of it is at the server, or on its way. */
void sql_bid_rest(struct sql_bid *b)
{
    sql_bid_leave(b);
    snib__list_remove(&b->on_strand);
    snib__list_remove(&b->in_broken);
    sql_bid_phase(b, SQL_IDLE);
    b->tries = 0;
    if (b->undoing) {
        b->undoing = false;
        b->sql->session->undoing--;
    }
    if (!b->claim && !b->asking && !b->looking) {
        snib__list_remove(&b->in_owing);
        snib__list_remove(&b->in_all);
        free(b);
    }
}

void sql_bid_owe(struct sql_bid *b)
{
    b->due_ns = snib__now().boot_ns + b->sql->session->timeout_ms * SNIB__MS;
    snib__list_remove(&b->in_owing);
    snib__list_append(&b->sql->owing, &b->in_owing);
}

void sql_bid_answer(struct sql_bid *b, const struct snib__result *result)
{
    bool told = b->owes_attempt || b->queued;
    b->owes_attempt = false;
    b->queued = result->status == SNIB__QUEUED;
    snib__list_remove(&b->in_owing);
    if (told && b->claim && !b->owes_release) {
        b->was_held = b->was_held || result->status == SNIB__HELD;
        snib__answer(b->claim, SNIB__ATTEMPT, result);
    }
}

void sql_bid_queued(struct sql_bid *b)
{
    struct snib__result result = {
        .status = SNIB__QUEUED, .holder = b->holder, .holder_token = b->holder_token};
    sql_bid_answer(b, &result);
}

void sql_bid_say(struct sql_bid *b, enum snib__status status, const char *why)
{
    struct snib__result result = {.status = status, .reason = why};
    sql_bid_answer(b, &result);
}

void sql_bid_fail(struct sql_bid *b, int code, int sys, const char *why)
{
    char reason[480];
    snprintf(reason, sizeof reason, "%.200s: %.240s", b->sql->where, why);
    struct snib__result failed = {
        .status = SNIB__FAILED, .code = code, .sys = sys, .reason = reason};
    sql_bid_answer(b, &failed);
}

/* The last word about the claim. */
void sql_bid_released(struct sql_bid *b, enum snib__status status, const char *why)
{
    struct snib__claim *claim = b->claim;
    struct snib__result result = {.status = status, .reason = why};
    if (!b->owes_release) {
        return; /* broken, and given up when its time was over: the release is still to come */
    }
    b->owes_release = b->owes_attempt = b->queued = false;
    snib__list_remove(&b->in_owing);
    b->claim = NULL;
    if (claim) {
        ((struct sql_ticket *)claim->state)->bid = NULL;
        snib__answer(claim, SNIB__RELEASE, &result);
    }
}

void sql_bid_busy(struct sql_bid *b)
{
    struct snib__result result = {
        .status = SNIB__BUSY, .holder = b->holder, .holder_token = b->holder_token};
    sql_bid_answer(b, &result);
}

void sql_bids_close(struct sql *s)
{
    for (struct snib__list *l = s->bids.after, *after; l != &s->bids; l = after) {
        after = l->after;
        free(SNIB__OF(l, struct sql_bid, in_all));
    }
    snib__table_free(&s->keys);
}
