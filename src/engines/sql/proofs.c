/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mode=session: a proof of a link, which renews all that is held by it, and tells who has been
 * asked to give something up.
 *
 * Whatever the server says of tables: the session that answers is there, and what it has locked.
 */
#include "engines/sql/proofs.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sql_proof_answer(struct sql_bid *b, const struct snib__result *result)
{
    b->owes_renewal = false;
    if (b->claim && !b->owes_release) {
        snib__answer(b->claim, SNIB__RENEW, result);
    }
}

static void prove(struct sql_strand *);

static void broken(struct sql_bid *b, const char *by)
{
    char why[200];
    snprintf(why, sizeof why, "broken by %.150s", by);
    struct snib__result lost = {.status = SNIB__LOST, .reason = why};
    if (b->until_ns == 0) {
        b->until_ns = b->since.boot_ns + b->strand->link.idle_ms * SNIB__MS;
        snib__list_append(&b->sql->broken, &b->in_broken);
        if (b->owes_renewal) {
            sql_proof_answer(b, &lost);
        } else if (b->claim) {
            snib__report(b->claim, SNIB_LOST, why);
        }
    } else if (b->owes_renewal) {
        sql_proof_answer(b, &lost);
    }
}

static void on_proof_row(struct sql_request *r, const char *const columns[SQL_COLUMNS])
{
    struct sql_strand *strand = SNIB__OF(r, struct sql_strand, proof);
    uint64_t token = columns[1] ? strtoull(columns[1], NULL, 10) : 0;
    const char *key = columns[0] ? columns[0] : "";
    struct snib__entry *e = snib__table_first(&strand->sql->keys, snib__hash_text(key));
    for (; e; e = snib__entry_next(e)) {
        struct sql_bid *b = SNIB__OF(e, struct sql_bid, entry);
        if (b->strand == strand && b->phase == SQL_HOLDING && b->token == token &&
            strcmp(b->key, key) == 0) {
            broken(b, columns[2] ? columns[2] : "somebody");
        }
    }
}

/* All that live by this link are answered at once. */
static void settle(struct sql_strand *strand, enum snib__status status, const char *why)
{
    strand->owed = false;
    for (struct snib__list *l = strand->bids.after, *after; l != &strand->bids; l = after) {
        struct sql_bid *b = SNIB__OF(l, struct sql_bid, on_strand);
        after = l->after;
        if (b->owes_renewal) {
            struct snib__result result = {.status = status, .reason = why};
            if (status == SNIB__HELD) {
                b->since = strand->proof.sent;
                result.token = b->token;
                result.since = b->since;
                result.lease_ms = strand->link.idle_ms;
            }
            sql_proof_answer(b, &result);
        }
    }
}

static void on_proved(struct sql_request *r, enum sql_outcome outcome)
{
    struct sql_strand *strand = SNIB__OF(r, struct sql_strand, proof);
    strand->proving = false;
    if (outcome == SQL_LOST || outcome == SQL_UNSENT) {
        return; /* the loss of the link follows */
    }
    /* Whatever it said about tables: the session is there, and what it has locked. */
    settle(strand, SNIB__HELD, NULL);
    if (strand->again && !strand->link.doomed) {
        prove(strand);
    }
}

static void prove(struct sql_strand *strand)
{
    strand->again = false;
    strand->proving = true;
    strand->proof = (struct sql_request){
        .statement = SQL_PROVE, .link = &strand->link, .row = on_proof_row, .ended = on_proved};
    strand->sql->driver->send(&strand->proof);
}

void sql_proof_rung(struct sql_strand *strand, const char *text)
{
    (void)text;
    if (strand->proving) {
        strand->again = true;
    } else if (strand->ready && !strand->link.doomed) {
        prove(strand);
    }
}

void sql_session_renew(struct snib__claim *const claims[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct sql_bid *b = ((struct sql_ticket *)claims[i]->state)->bid;
        if (!b || b->phase != SQL_HOLDING || b->until_ns) {
            struct snib__result lost = {.status = SNIB__LOST, .reason = "its session is over"};
            snib__answer(claims[i], SNIB__RENEW, &lost);
            continue;
        }
        b->owes_renewal = true;
        if (!b->strand->owed) {
            b->strand->owed = true;
            b->strand->due_ns = snib__now().boot_ns + b->sql->session->timeout_ms * SNIB__MS;
        }
        if (!b->strand->proving) {
            prove(b->strand);
        }
    }
}

int64_t sql_proofs_keep_time(struct sql *s, int64_t now_ns)
{
    int64_t next = SNIB__NEVER;
    for (struct snib__list *l = s->strands.after; l != &s->strands; l = l->after) {
        struct sql_strand *strand = SNIB__OF(l, struct sql_strand, place);
        if (strand->owed && strand->due_ns <= now_ns) {
            settle(strand, SNIB__UNKNOWN, "no answer in time");
        } else if (strand->owed && strand->due_ns < next) {
            next = strand->due_ns;
        }
    }
    return next;
}
