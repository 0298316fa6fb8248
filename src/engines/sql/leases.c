/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mode=lease: attempt, renew, release, by rows that the server's clock ends.
 *
 * Safety
 * ------
 * What is held is a row, written in one transaction that locks the name's own row first; so at any
 * time there are only holders that may be there together, by the database's own word, over crashes
 * and restarts as far as it keeps what it has committed. A holder believes in its row for the ttl,
 * counted from before the request that wrote it was sent; the server counts from later. That needs
 * clocks that run alike, not clocks that agree, and a server whose clock is not set forward by
 * hand.
 *
 * A connection that breaks loses nothing: the row is there, and the next link renews it. Links have
 * growing numbers, and a row that a newer one has touched is not changed by an older one: what was
 * sent on a link that we have left comes too late. Who gives back after an attempt that was not
 * answered says so, and that attempt is refused for the ttl.
 *
 * Bells get lost; who waits asks again in a third of its ttl, and when the holder's lease is over.
 *
 * What breaks it: a server that forgets what it has committed (a failover to a standby that was
 * behind), rows changed by hand, and a holder that writes after its deadline; against that is the
 * token.
 *
 * Not done: ending a holder's row early when its session ends. A connection that broke would look
 * just the same, and its holder still believes.
 */
#include "engines/sql/leases.h"

#include "base/hash.h"
#include "engines/sql/bid.h"
#include "engines/sql/renewals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES_MOST = 8, SOON_MS = 20, SECOND_MS = 1000 };

static void begin(struct sql_bid *);
static void row_of(struct sql_request *, const char *const columns[SQL_COLUMNS]);
static void ended(struct sql_request *, enum sql_outcome);

/* ---- Bids ------------------------------------------------------------------------------- */

static struct sql_bid *bid_of(struct snib__claim *claim)
{
    struct sql_ticket *ticket = claim->state;
    if (ticket->bid) {
        return ticket->bid;
    }
    struct sql_bid *b = ticket->bid = sql_bid_new(claim);
    if (b && !snib__table_add(&b->sql->keys, &b->entry, snib__hash_text(b->key))) {
        snib__list_remove(&b->in_all);
        free(b);
        ticket->bid = b = NULL;
    }
    if (b) {
        snib__list_init(&b->in_waiting);
        for (int i = 0; i < 16; i++) {
            snprintf(b->owner + 2 * i, 3, "%02x", claim->owner[i]);
        }
        snprintf(b->permits, sizeof b->permits, "%u", claim->permits);
    }
    return b;
}

static void set_phase(struct sql_bid *b, enum sql_phase phase)
{
    sql_bid_phase(b, phase);
    snib__list_remove(&b->in_waiting);
    if (phase == SQL_WAITING) {
        snib__list_append(&b->sql->waiting, &b->in_waiting);
    }
}

/* Nothing is under way; freed, if its claim is gone. */
static void rest(struct sql_bid *b)
{
    snib__list_remove(&b->on_strand);
    set_phase(b, SQL_IDLE);
    b->tries = 0;
    if (b->claim) {
        return;
    }
    if (b->undoing) {
        b->sql->session->undoing--;
    }
    sql_renewals_forget(b);
    snib__table_remove(&b->sql->keys, &b->entry);
    snib__list_remove(&b->in_owing);
    snib__list_remove(&b->in_all);
    free(b);
}

static void ask(struct sql_bid *b, struct sql_strand *strand, enum sql_statement statement)
{
    struct sql *s = b->sql;
    struct sql_request *r = &b->request;
    *r = (struct sql_request){
        .statement = statement, .link = &strand->link, .row = row_of, .ended = ended};
    if (statement == SQL_ATTEMPT) {
        b->asked_ms = b->claim->ttl_ms;
        snprintf(b->ttl, sizeof b->ttl, "%lld", (long long)b->asked_ms);
        const char *all[] = {
            b->key,         b->name,         b->mode,  b->permits, b->owner,
            strand->number, s->session->who, b->label, b->ttl,     b->claim->may_queue ? "1" : "0"};
        memcpy(r->parameters, all, sizeof all);
        r->count = 10;
        b->token = b->holder_token = 0;
        b->holder[0] = b->what[0] = '\0';
        b->place = 0;
        b->left_ms = 0;
    } else if (statement == SQL_RELEASE) {
        const char *all[] = {b->key, b->owner, strand->number, b->unsure ? "1" : "0", b->ttl};
        memcpy(r->parameters, all, sizeof all);
        r->count = 5;
    }
    b->asking = true;
    b->got = false;
    b->sent = true;
    s->driver->send(r);
}

/* ---- Enlisting -------------------------------------------------------------------------- */

static void enlist(struct sql_strand *);

static void serve_wanting(struct sql *s)
{
    struct snib__list all;
    snib__list_init(&all);
    while (!snib__list_empty(&s->wanting)) {
        struct snib__list *l = s->wanting.after;
        snib__list_remove(l);
        snib__list_append(&all, l);
    }
    while (!snib__list_empty(&all)) {
        begin(SNIB__OF(all.after, struct sql_bid, on_strand));
    }
}

/* Those that want a link cannot have one: whoever can wait goes on waiting. */
static void refuse_wanting(struct sql *s, int code, int sys, const char *why)
{
    for (struct snib__list *l = s->wanting.after, *after; l != &s->wanting; l = after) {
        struct sql_bid *b = SNIB__OF(l, struct sql_bid, on_strand);
        after = l->after;
        if (b->leaving || !b->owes_attempt) {
            continue;
        }
        bool sent = b->sent;
        rest(b);
        if (sent) {
            sql_bid_say(b, SNIB__UNKNOWN, why);
        } else {
            sql_bid_fail(b, code, sys, why);
        }
    }
}

static void on_enlist_row(struct sql_request *r, const char *const columns[SQL_COLUMNS])
{
    struct sql_strand *strand = SNIB__OF(r, struct sql_strand, enlisting);
    if (r->statement == SQL_ENLIST && columns[0]) {
        snprintf(strand->number, sizeof strand->number, "%s", columns[0]);
    }
}

static void on_enlisted(struct sql_request *r, enum sql_outcome outcome)
{
    struct sql_strand *strand = SNIB__OF(r, struct sql_strand, enlisting);
    bool made = r->statement == SQL_SETUP;
    strand->enlists = false;
    if (outcome == SQL_LOST || outcome == SQL_UNSENT) {
        return;
    }
    if (outcome == SQL_ANSWERED && !made) {
        strand->enlisted = true;
        strand->sql->pause_ms = 0;
        sql_renewals_send(strand);
        serve_wanting(strand->sql);
    } else if (outcome == SQL_ANSWERED || outcome == SQL_AGAIN) {
        enlist(strand);
    } else if (outcome == SQL_ABSENT && !strand->tried) {
        strand->tried = true;
        strand->enlists = true;
        *r = (struct sql_request){.statement = SQL_SETUP,
                                  .link = &strand->link,
                                  .row = on_enlist_row,
                                  .ended = on_enlisted};
        strand->sql->driver->send(r);
    } else {
        char why[sizeof r->reason];
        snprintf(why, sizeof why, "%s", r->reason);
        refuse_wanting(strand->sql, r->code ? r->code : SNIB_EPROTO, 0, why);
        sql_strand_refuse(strand);
    }
}

static void enlist(struct sql_strand *strand)
{
    if (strand->enlists || strand->link.doomed) {
        return;
    }
    strand->enlists = true;
    strand->enlisting = (struct sql_request){
        .statement = SQL_ENLIST, .link = &strand->link, .row = on_enlist_row, .ended = on_enlisted};
    strand->sql->driver->send(&strand->enlisting);
}

/* The link to ask by; NULL: not yet. */
static struct sql_strand *enlisted(struct sql *s)
{
    struct sql_strand *strand = sql_strand_main(s);
    if (strand && !strand->enlisted) {
        enlist(strand);
        return NULL;
    }
    return strand;
}

/* ---- Attempt ---------------------------------------------------------------------------- */

/* Ask for it, or give it back, as soon as there is a link. */
static void begin(struct sql_bid *b)
{
    struct sql *s = b->sql;
    snib__list_remove(&b->on_strand);
    snib__list_append(&s->wanting, &b->on_strand);
    set_phase(b, SQL_WANTING);
    struct sql_strand *strand = enlisted(s);
    if (!strand || b->phase != SQL_WANTING) {
        return;
    }
    snib__list_remove(&b->on_strand);
    set_phase(b, b->leaving ? SQL_LEAVING : SQL_TRYING);
    ask(b, strand, b->leaving ? SQL_RELEASE : SQL_ATTEMPT);
}

void sql_lease_attempt(struct snib__claim *claim)
{
    struct sql_bid *b = bid_of(claim);
    if (!b) {
        struct snib__result failed = {
            .status = SNIB__FAILED, .code = SNIB_ENOMEM, .reason = "out of memory"};
        snib__answer(claim, SNIB__ATTEMPT, &failed);
        return;
    }
    b->owes_attempt = true;
    sql_bid_owe(b);
    if (!b->asking && b->phase != SQL_WANTING) {
        begin(b);
    }
}

static void row_of(struct sql_request *r, const char *const columns[SQL_COLUMNS])
{
    struct sql_bid *b = SNIB__OF(r, struct sql_bid, request);
    if (r->statement == SQL_RELEASE) {
        b->got = columns[0] && (columns[0][0] == 't' || columns[0][0] == '1');
    } else if (r->statement == SQL_ATTEMPT) {
        snprintf(b->what, sizeof b->what, "%s", columns[0] ? columns[0] : "");
        b->token = columns[1] ? strtoull(columns[1], NULL, 10) : 0;
        snprintf(b->holder, sizeof b->holder, "%s", columns[2] ? columns[2] : "");
        b->holder_token = columns[3] ? strtoull(columns[3], NULL, 10) : 0;
        b->left_ms = columns[4] ? strtoll(columns[4], NULL, 10) : 0;
        b->place = columns[5] ? atoi(columns[5]) : 0;
    }
}

/* In line: the first looks when the holder's lease is over, the others now and then; the second
 * more often, since the first may have died just before it was rung. */
static void stand(struct sql_bid *b)
{
    int64_t span = b->asked_ms / 3;
    if (b->place <= 2 && span > SECOND_MS) {
        span = SECOND_MS;
    }
    if (b->place <= 2 && !b->holder[0]) {
        span = SOON_MS; /* it is free, and somebody else's turn */
    } else if (b->place <= 1 && b->left_ms + 2 < span) {
        span = b->left_ms > 0 ? b->left_ms + 2 : SOON_MS;
    }
    b->look_ns = snib__now().boot_ns + snib__jitter(span) * SNIB__MS;
    set_phase(b, SQL_WAITING);
    if (b->owes_attempt) {
        struct snib__result queued = {.status = SNIB__QUEUED,
                                      .holder = b->holder,
                                      .holder_token = b->holder_token,
                                      .holder_left_ms = b->left_ms,
                                      .place = b->place};
        sql_bid_answer(b, &queued);
    }
}

/* This one was not executed; one before it, which was not answered, may still be. */
static void refuse(struct sql_bid *b, int code, const char *why)
{
    if (b->unsure) {
        sql_bid_say(b, SNIB__UNKNOWN, why);
    } else {
        sql_bid_fail(b, code, 0, why);
    }
    rest(b);
}

static void on_attempt(struct sql_bid *b)
{
    if (b->leaving) {
        begin(b);
    } else if (strcmp(b->what, "held") == 0) {
        struct snib__result held = {.status = SNIB__HELD,
                                    .token = b->token,
                                    .since = b->request.sent,
                                    .lease_ms = b->asked_ms};
        set_phase(b, SQL_HOLDING);
        sql_bid_answer(b, &held);
    } else if (strcmp(b->what, "queued") == 0) {
        stand(b);
    } else if (strcmp(b->what, "busy") == 0) {
        struct snib__result busy = {.status = SNIB__BUSY,
                                    .holder = b->holder,
                                    .holder_token = b->holder_token,
                                    .holder_left_ms = b->left_ms};
        b->sent = b->unsure;
        rest(b);
        sql_bid_answer(b, &busy);
    } else if (strcmp(b->what, "kinds") == 0) {
        refuse(b, SNIB_EKIND, "the name is in use as another kind of lock");
    } else if (strcmp(b->what, "taken") == 0) {
        refuse(b, SNIB_EINVAL, "another name has the same key there: take another name");
    } else {
        rest(b);
        sql_bid_say(b, SNIB__UNKNOWN, "asked by an older connection than it was asked by before");
    }
}

static void on_release(struct sql_bid *b, bool absent)
{
    bool held = b->was_held || (b->claim && b->claim->adopted);
    bool freed = b->got || !held || (b->repeated && !absent);
    sql_bid_released(b, freed ? SNIB__FREED : SNIB__LOST, freed ? NULL : "it was no longer there");
    rest(b);
}

static void on_unanswered(struct sql_bid *b, bool away)
{
    const char *why = b->request.link ? b->request.link->why : "";
    if (b->phase == SQL_TRYING) {
        b->unsure = b->unsure || away;
    } else if (b->phase == SQL_LEAVING) {
        b->repeated = b->repeated || away;
    }
    if (b->leaving) {
        begin(b);
    } else if (b->queued && !b->owes_attempt) {
        b->look_ns = snib__now().boot_ns;
        set_phase(b, SQL_WAITING);
    } else {
        rest(b);
        sql_bid_say(b, SNIB__UNKNOWN, why);
    }
}

static void on_refused(struct sql_bid *b, enum sql_outcome outcome)
{
    struct sql_strand *strand = SNIB__OF(b->request.link, struct sql_strand, link);
    char why[sizeof b->request.reason];
    int code = b->request.code;
    snprintf(why, sizeof why, "%s", b->request.reason);
    if (b->phase == SQL_LEAVING && outcome == SQL_ABSENT) {
        on_release(b, true);
    } else if (outcome == SQL_ABSENT && b->tries++ < TRIES_MOST) {
        set_phase(b, SQL_MAKING);
        ask(b, strand, SQL_SETUP);
    } else if (outcome == SQL_AGAIN && b->tries++ < TRIES_MOST) {
        begin(b);
    } else if (b->leaving) {
        sql_bid_released(b, SNIB__UNKNOWN, why);
        rest(b);
    } else {
        refuse(b, outcome == SQL_REFUSED ? code : SNIB_EPROTO, why);
    }
}

static void ended(struct sql_request *r, enum sql_outcome outcome)
{
    struct sql_bid *b = SNIB__OF(r, struct sql_bid, request);
    b->asking = false;
    if (outcome == SQL_LOST || outcome == SQL_UNSENT) {
        on_unanswered(b, outcome == SQL_LOST);
    } else if (outcome != SQL_ANSWERED) {
        on_refused(b, outcome);
    } else if (r->statement == SQL_ATTEMPT) {
        on_attempt(b);
    } else if (r->statement == SQL_RELEASE) {
        on_release(b, false);
    } else {
        begin(b); /* the tables were made */
    }
}

/* ---- Renew ------------------------------------------------------------------------------ */

void sql_lease_renew(struct snib__claim *const claims[], size_t n)
{
    struct sql *s = sql_of(claims[0]->session);
    sql_renewals_start(s, enlisted(s), claims, n);
}

/* ---- Release ---------------------------------------------------------------------------- */

void sql_lease_release(struct snib__claim *claim)
{
    struct sql_bid *b = ((struct sql_ticket *)claim->state)->bid;
    if (!b && claim->adopted && (b = bid_of(claim)) != NULL) {
        b->sent = true;
        snprintf(b->ttl, sizeof b->ttl, "%lld", (long long)claim->ttl_ms);
    }
    if (!b) {
        struct snib__result none = {.status = SNIB__FREED};
        snib__answer(claim, SNIB__RELEASE, &none);
        return;
    }
    b->owes_release = b->leaving = true;
    if (!b->sent) {
        sql_bid_released(b, SNIB__FREED, NULL);
        rest(b);
        return;
    }
    sql_bid_owe(b);
    if (!b->asking && b->phase != SQL_WANTING) {
        begin(b);
    }
}

/* ---- Strands ---------------------------------------------------------------------------- */

/* Does anybody want a link? */
static bool is_wanted(const struct sql *s)
{
    return sql_renewals_kept(s) || !snib__list_empty(&s->wanting);
}

static void on_opened(struct sql_strand *strand)
{
    if (strand == strand->sql->main && is_wanted(strand->sql)) {
        enlist(strand);
    } else {
        strand->sql->pause_ms = 0;
    }
}

static void on_failed(struct sql_strand *strand)
{
    struct sql *s = strand->sql;
    refuse_wanting(s, s->code, s->sys, s->why);
}

static void on_lost(struct sql_strand *strand)
{
    struct sql *s = strand->sql;
    int64_t now_ns = snib__now().boot_ns;
    for (struct snib__list *l = s->waiting.after; l != &s->waiting; l = l->after) {
        SNIB__OF(l, struct sql_bid, in_waiting)->look_ns = now_ns; /* nobody could ring us now */
    }
}

/* Somebody about that key: who waits asks again, who holds looks whether it still may. */
static void on_rung(struct sql_strand *strand, const char *key)
{
    struct sql *s = strand->sql;
    struct snib__entry *e = snib__table_first(&s->keys, snib__hash_text(key));
    for (; e; e = snib__entry_next(e)) {
        struct sql_bid *b = SNIB__OF(e, struct sql_bid, entry);
        if (strcmp(b->key, key) != 0) {
            continue;
        }
        if (b->phase == SQL_WAITING) {
            begin(b);
        } else if (b->phase == SQL_HOLDING && strand->enlisted) {
            sql_renewals_look(strand, b);
        }
    }
}

const struct sql_strand_upcalls sql_lease_upcalls = {
    .opened = on_opened, .failed = on_failed, .lost = on_lost, .rung = on_rung};

/* ---- Time ------------------------------------------------------------------------------- */

static void overdue(struct sql_bid *b)
{
    struct sql *s = b->sql;
    snib__list_remove(&b->in_owing);
    if (b->undoing) { /* whatever was there is over by now */
        if (!b->asking) {
            rest(b);
        }
    } else if (b->owes_release) {
        b->undoing = true;
        s->session->undoing++;
        sql_bid_released(b, SNIB__UNKNOWN, s->why[0] ? s->why : "no answer in time");
        sql_bid_owe(b);
        b->due_ns += b->asked_ms * SNIB__MS;
    } else if (b->owes_attempt && b->sent) {
        sql_bid_say(b, SNIB__UNKNOWN, "no answer in time");
    } else if (b->owes_attempt) {
        rest(b);
        sql_bid_fail(b, s->code ? s->code : SNIB_EUNREACH, s->sys,
                     s->why[0] ? s->why : "no answer in time");
    }
}

static int64_t keep_owing(struct sql *s, int64_t now_ns)
{
    int64_t next = SNIB__NEVER;
    for (struct snib__list *l = s->owing.after, *after; l != &s->owing; l = after) {
        struct sql_bid *b = SNIB__OF(l, struct sql_bid, in_owing);
        after = l->after;
        if (b->due_ns <= now_ns) {
            overdue(b);
        } else {
            next = b->due_ns < next ? b->due_ns : next;
        }
    }
    return next;
}

int64_t sql_leases_keep_time(struct sql *s, int64_t now_ns)
{
    int64_t next = keep_owing(s, now_ns);
    for (struct snib__list *l = s->waiting.after, *after; l != &s->waiting; l = after) {
        struct sql_bid *b = SNIB__OF(l, struct sql_bid, in_waiting);
        after = l->after;
        if (b->look_ns <= now_ns) {
            begin(b);
        } else {
            next = b->look_ns < next ? b->look_ns : next;
        }
    }
    int64_t renewals = sql_renewals_keep_time(s, now_ns);
    next = renewals < next ? renewals : next;
    if (is_wanted(s)) {
        enlisted(s); /* after a pause */
    }
    return next;
}
