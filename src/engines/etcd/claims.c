/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims: attempt, renew and release, and what a lease and a watch tell them.
 *
 *   renew    keep-alive and a linearizable look at the key, in one flight; both must agree
 *            (leases.c). Another ttl is another lease: the key is put under it, its create revision
 *            stays. That lease is always a new one: if the answer is lost, the key may be under it,
 *            and the core counts a shorter ttl from when it was asked for.
 *   release  clean: the key is deleted, the lease goes back into stock. Else the lease is revoked,
 *            which takes the key along. The first of a session is always revoked: many a session
 *            has only one.
 */
#include "engines/etcd/claims.h"

#include "engines/etcd/attempts.h"
#include "engines/etcd/breaks.h"
#include "engines/etcd/errors.h"
#include "engines/etcd/leases.h"
#include "engines/etcd/requests.h"
#include "engines/etcd/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATUS_NOT_FOUND = 5, PROOFS_MOST = 64 };

/* ---- Attempt ---------------------------------------------------------------------------- */

void etcd_claims_attempt(struct snib__claim *claim)
{
    static const struct snib__result no_memory = {.status = SNIB__UNKNOWN,
                                                  .reason = "out of memory"};
    struct etcd *e = etcd_of(claim->session);
    struct etcd_claim *b = claim->state;
    b->claim = claim;
    if (b->lease && (b->lease->gone || b->lease->doomed)) {
        struct etcd_lease *l = b->lease;
        b->lease = NULL;
        etcd_lease_give(e, l);
    }
    if (!b->lease) {
        b->lease = etcd_lease_take(e, b, claim->ttl_ms);
        if (!b->lease) {
            snib__answer(claim, SNIB__ATTEMPT, &no_memory);
            return;
        }
    }
    b->phase = ETCD_LEASING;
    if (b->lease->granted_ms) {
        etcd_attempt_ask(e, b);
    }
    etcd_cluster_flush(&e->cluster);
}

/* ---- Renew ------------------------------------------------------------------------------ */

static void answer_renew(struct etcd_claim *b, enum snib__status status, const char *why)
{
    struct snib__result result = {.status = status, .reason = why};
    b->renewing = false;
    if (status == SNIB__HELD) {
        result.token = b->token;
        result.since = b->lease->since;
        result.lease_ms = b->lease->granted_ms;
    }
    snib__answer(b->claim, SNIB__RENEW, &result);
}

static void renew_some(struct etcd *e, struct etcd_claim *const some[], size_t n);

static int64_t renewal_ends_ns(const struct etcd *e, const struct etcd_claim *b)
{
    return snib__later(b->renew_ns, e->session->timeout_ms * SNIB__MS);
}

/* The keep-alive was answered by a leader that another has replaced: nothing is wrong with that,
 * but it proves nothing. The new one is asked at once. */
static void renew_again(struct etcd *e, struct etcd_claim *b)
{
    b->lease->kept_term = 0;
    if (b->again || snib__now().boot_ns >= renewal_ends_ns(e, b)) {
        answer_renew(b, SNIB__UNKNOWN, "the leader changed meanwhile");
    } else {
        b->again = true;
        renew_some(e, &b, 1);
    }
}

/* Both halves are there. */
static void settle(struct etcd *e, struct etcd_claim *b)
{
    if (!b->renewing || !b->kept || !b->proved || b->phase != ETCD_HELD_NOW) {
        return;
    }
    struct etcd_lease *l = b->lease;
    if (l->gone) {
        answer_renew(b, SNIB__LOST, "the lease is over at the cluster");
    } else if (l->kept_term && !etcd_lease_settle(e, l)) {
        renew_again(e, b);
    } else if (l->since.boot_ns < b->renew_ns &&
               snib__elapsed_ns(l->since, snib__now()) >= l->granted_ms * SNIB__MS / 3) {
        answer_renew(b, SNIB__UNKNOWN, "the keep-alive was not answered");
    } else {
        answer_renew(b, SNIB__HELD, NULL);
    }
}

static void on_kept(struct etcd *e, struct etcd_claim *b)
{
    etcd_attempt_kept(e, b);
    if (b->renewing && b->lease->keeping == 0) {
        b->kept = true;
        settle(e, b);
    }
    if (b->phase == ETCD_QUEUED && b->lease && b->lease->gone) {
        etcd_attempt_place_lost(e, b, "the lease is over at the cluster");
    }
}

/* Does this show our key, and nobody has broken it? Else it is answered. */
static bool shows_ours(struct etcd_claim *b, const Pb__ResponseOp *response)
{
    char broken[160];
    struct etcd_value value;
    const Pb__RangeResponse *range =
        response->response_case == PB__RESPONSE_OP__RESPONSE_RANGE ? response->range : NULL;
    if (!range || range->n_kvs == 0 || range->kvs[0]->create_revision != b->mine) {
        answer_renew(b, SNIB__LOST, "the key is gone from the cluster");
        return false;
    }
    etcd_value_read(&value, &range->kvs[0]->value);
    if (value.broken[0]) {
        snprintf(broken, sizeof broken, "broken by %s", value.broken);
        answer_renew(b, SNIB__LOST, broken);
        return false;
    }
    return true;
}

static void prove(struct etcd *e, struct etcd_claim *b, const Pb__ResponseOp *response)
{
    if (b->renewing && b->phase == ETCD_HELD_NOW && shows_ours(b, response)) {
        b->proved = true;
        settle(e, b);
    }
}

static void on_proof(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    char text[ETCD_TEXT_MAX];
    const Pb__TxnResponse *txn = (const Pb__TxnResponse *)k->reply;
    bool good = k->outcome == ETCD_ANSWERED && k->status == 0 && txn && txn->header;
    if (good) {
        etcd_lease_proof(e, k, txn->header);
    }
    for (size_t i = 0; i < k->other_count; i++) {
        struct etcd_lease *l = etcd_lease_find(e, k->others[i]);
        struct etcd_claim *b = l ? l->claim : NULL;
        if (!b || b->lease != l) {
            continue;
        }
        if (good && i < txn->n_responses) {
            prove(e, b, txn->responses[i]);
        } else if (b->renewing) {
            answer_renew(b, SNIB__UNKNOWN, etcd_error_text(e, k, text));
        }
    }
}

static void on_noted(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_lease *l = etcd_lease_find(e, k->number);
    if (l && l->claim && k->outcome == ETCD_ANSWERED && k->status == 0) {
        l->claim->noted = true;
    }
}

/* Keep these alive, and see whether their keys are there. */
static void renew_some(struct etcd *e, struct etcd_claim *const some[], size_t n)
{
    int64_t ids[PROOFS_MOST] = {0};
    for (size_t i = 0; i < n; i++) {
        ids[i] = some[i]->lease->id;
        some[i]->renewing = true;
        some[i]->kept = some[i]->proved = false;
    }
    bool keeps = etcd_lease_keep(e, ids, n);
    struct etcd_call *k =
        keeps ? etcd_request_proof(e, (const struct etcd_claim *const *)some, n) : NULL;
    int64_t *others = k ? malloc(n * sizeof *others) : NULL;
    if (!others) {
        if (k) {
            etcd_call_free(k);
        }
        for (size_t i = 0; i < n; i++) {
            answer_renew(some[i], SNIB__UNKNOWN, "out of memory");
        }
        return;
    }
    memcpy(others, ids, n * sizeof *ids);
    k->others = others;
    k->other_count = n;
    k->end = on_proof;
    k->due_ns = some[0]->again ? renewal_ends_ns(e, some[0]) : 0;
    etcd_cluster_submit(&e->cluster, k);
    for (size_t i = 0; i < n; i++) {
        struct etcd_call *note = some[i]->noted || some[i]->claim->mode != SNIB_EXCLUSIVE
                                     ? NULL
                                     : etcd_request_note(e, some[i]);
        if (note) {
            note->number = ids[i];
            note->end = on_noted;
            etcd_cluster_submit(&e->cluster, note);
        }
    }
}

/* ---- Another ttl ------------------------------------------------------------------------ */

static void on_swap(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_lease *l = etcd_lease_find(e, k->number);
    struct etcd_claim *b = l ? l->claim : NULL;
    char text[ETCD_TEXT_MAX];
    const Pb__TxnResponse *txn = (const Pb__TxnResponse *)k->reply;
    if (l && (k->repeated || k->outcome == ETCD_LOST)) {
        l->unclean = true;
    }
    if (!b || b->next != l) {
        return;
    }
    b->swapping = false;
    if (b->phase == ETCD_RELEASING) {
        return; /* both are revoked, whichever has the key */
    }
    if (k->outcome != ETCD_ANSWERED || k->status != 0 || !txn) {
        /* either lease may have the key: the next renewal tries again, the release ends both */
        if (b->renewing) {
            answer_renew(b, SNIB__UNKNOWN, etcd_error_text(e, k, text));
        }
        return;
    }
    etcd_lease_proof(e, k, txn->header);
    if (!txn->succeeded) {
        if (b->renewing) {
            answer_renew(b, SNIB__LOST, "the key is gone from the cluster");
        }
        return;
    }
    struct etcd_lease *old = b->lease;
    b->lease = l;
    b->next = NULL;
    old->unclean = true;
    etcd_lease_give(e, old);
    if (b->renewing && txn->n_responses < 2) {
        answer_renew(b, SNIB__UNKNOWN, "an answer that says nothing");
    } else if (b->renewing && shows_ours(b, txn->responses[1])) {
        answer_renew(b, SNIB__HELD, NULL);
    }
}

static void swap(struct etcd *e, struct etcd_claim *b)
{
    struct etcd_call *k = etcd_request_swap(e, b, b->next->id);
    if (!k) {
        answer_renew(b, SNIB__UNKNOWN, "out of memory");
        return;
    }
    b->swapping = true;
    k->number = b->next->id;
    k->end = on_swap;
    etcd_cluster_submit(&e->cluster, k);
}

/* A ttl that the key's lease does not have. */
static void renew_anew(struct etcd *e, struct etcd_claim *b)
{
    b->renewing = true;
    b->kept = b->proved = false;
    if (!b->next) {
        b->next = etcd_lease_new(e, b, b->claim->ttl_ms);
    }
    if (!b->next) {
        answer_renew(b, SNIB__UNKNOWN, "out of memory");
    } else if (b->next->granted_ms && !b->swapping) {
        swap(e, b);
    }
}

void etcd_claims_renew(struct snib__claim *const claims[], size_t n)
{
    struct etcd *e = etcd_of(claims[0]->session);
    struct etcd_claim *some[PROOFS_MOST];
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        struct etcd_claim *b = claims[i]->state;
        etcd_breaks_listen(e, b);
        if (b->renewing) {
            snib__answer(
                b->claim, SNIB__RENEW,
                &(struct snib__result){.status = SNIB__UNKNOWN, .reason = "no answer in time"});
            continue;
        }
        if (b->next || b->lease->ttl_s != (claims[i]->ttl_ms + 999) / 1000) {
            renew_anew(e, b);
            continue;
        }
        b->again = false;
        b->renew_ns = snib__now().boot_ns;
        some[count++] = b;
        if (count == PROOFS_MOST) {
            renew_some(e, some, count);
            count = 0;
        }
    }
    if (count > 0) {
        renew_some(e, some, count);
    }
    etcd_cluster_flush(&e->cluster);
}

/* ---- Release ---------------------------------------------------------------------------- */

/* The last word about a claim. */
static void end_release(struct etcd *e, struct etcd_claim *b, enum snib__status status,
                        const char *why)
{
    struct snib__result result = {.status = status, .reason = why};
    etcd_watch_leave(e, b);
    e->releases++;
    if (b->next) {
        struct etcd_lease *next = b->next;
        b->next = NULL;
        next->unclean = true;
        next->claim = NULL;
        etcd_lease_give(e, next);
    }
    snib__answer(b->claim, SNIB__RELEASE, &result);
}

static void on_revoked(struct etcd *e, struct etcd_claim *b, const struct etcd_call *k)
{
    char text[ETCD_TEXT_MAX];
    if (b->phase != ETCD_RELEASING) {
        return;
    }
    b->lease = NULL;
    if (k->outcome != ETCD_ANSWERED || (k->status != 0 && k->status != STATUS_NOT_FOUND)) {
        end_release(e, b, SNIB__UNKNOWN, etcd_error_text(e, k, text));
    } else if (b->next) { /* the key may be under that one: it is free when both are gone */
        b->lease = b->next;
        b->next = NULL;
        b->freed = k->status == 0;
        etcd_lease_doom(e, b->lease);
    } else if (k->status == STATUS_NOT_FOUND && b->was_held && !b->freed) {
        end_release(e, b, k->repeated ? SNIB__UNKNOWN : SNIB__LOST, NULL);
    } else {
        end_release(e, b, SNIB__FREED, NULL);
    }
}

/* Was it there? A deletion says how many; a transaction, whether the key was ours. */
static bool was_there(const struct etcd_call *k, const Pb__Header **header)
{
    if (k->reply->descriptor == &pb__txn_response__descriptor) {
        const Pb__TxnResponse *txn = (const Pb__TxnResponse *)k->reply;
        *header = txn->header;
        return txn->succeeded;
    }
    const Pb__DeleteRangeResponse *reply = (const Pb__DeleteRangeResponse *)k->reply;
    *header = reply->header;
    return reply->deleted > 0;
}

static void on_deleted(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_lease *l = etcd_lease_find(e, k->number);
    struct etcd_claim *b = l ? l->claim : NULL;
    const Pb__Header *header = NULL;
    bool good = k->outcome == ETCD_ANSWERED && k->status == 0 && k->reply;
    char text[ETCD_TEXT_MAX];
    if (!b || b->phase != ETCD_RELEASING) {
        return;
    }
    if (k->outcome == ETCD_ANSWERED && k->status == STATUS_NOT_FOUND) {
        etcd_lease_doom(e, l); /* the token cannot be written down any more: be gone without it */
        return;
    }
    bool there = good && was_there(k, &header);
    b->lease = NULL;
    l->claim = NULL;
    l->unclean = l->unclean || !good || k->repeated;
    etcd_lease_proof(e, k, header);
    etcd_lease_give(e, l);
    if (!good) {
        end_release(e, b, SNIB__UNKNOWN, etcd_error_text(e, k, text));
    } else if (there) {
        end_release(e, b, SNIB__FREED, NULL);
    } else {
        end_release(e, b,
                    k->repeated   ? SNIB__UNKNOWN
                    : b->was_held ? SNIB__LOST
                                  : SNIB__FREED,
                    NULL);
    }
}

/* A dead process's: its key says whose it is. */
static void on_removed(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_claim *b = k->subject;
    char text[ETCD_TEXT_MAX];
    const Pb__TxnResponse *txn = (const Pb__TxnResponse *)k->reply;
    if (k->outcome != ETCD_ANSWERED || k->status != 0 || !txn) {
        end_release(e, b, SNIB__UNKNOWN, etcd_error_text(e, k, text));
    } else if (txn->succeeded) {
        end_release(e, b, SNIB__FREED, NULL);
    } else {
        end_release(e, b, k->repeated ? SNIB__UNKNOWN : SNIB__LOST, NULL);
    }
}

static void on_adopted(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_claim *b = k->subject;
    char text[ETCD_TEXT_MAX];
    const Pb__RangeResponse *range = (const Pb__RangeResponse *)k->reply;
    if (k->outcome != ETCD_ANSWERED || k->status != 0 || !range) {
        end_release(e, b, SNIB__UNKNOWN, etcd_error_text(e, k, text));
        return;
    }
    for (size_t i = 0; i < range->n_kvs; i++) {
        const Pb__KeyValue *kv = range->kvs[i];
        struct etcd_value value;
        etcd_value_read(&value, &kv->value);
        if (value.who[0] && value.owner == etcd_value_owner(b->claim->owner)) {
            struct etcd_call *next = etcd_request_remove(e, &kv->key, kv->create_revision);
            if (!next) {
                end_release(e, b, SNIB__UNKNOWN, "out of memory");
                return;
            }
            next->subject = b;
            next->end = on_removed;
            etcd_cluster_submit(&e->cluster, next);
            return;
        }
    }
    end_release(e, b, SNIB__LOST, NULL);
}

static void release_adopted(struct etcd *e, struct etcd_claim *b)
{
    char base[ETCD_BASE_MAX], end[ETCD_BASE_MAX];
    etcd_key_base(base, e->prefix, b->claim->name);
    etcd_key_end(end, base);
    struct etcd_call *k = etcd_request_range(e, base, end);
    if (!k) {
        end_release(e, b, SNIB__UNKNOWN, "out of memory");
        return;
    }
    k->subject = b;
    k->end = on_adopted;
    etcd_cluster_submit(&e->cluster, k);
}

void etcd_claims_release(struct snib__claim *claim)
{
    struct etcd *e = etcd_of(claim->session);
    struct etcd_claim *b = claim->state;
    struct etcd_lease *l = b->lease;
    bool asking = b->asking;
    b->claim = claim;
    b->phase = ETCD_RELEASING;
    b->renewing = b->listing = b->asking = false;
    etcd_breaks_unlisten(e, b);
    if (b->next && !b->next->granted_ms) { /* nothing was put under it */
        b->next->claim = NULL;             /* into stock, or away, when it is granted */
        b->next = NULL;
    }
    if (claim->adopted) {
        b->was_held = true;
        release_adopted(e, b);
    } else if (!l || !b->sent) {
        b->lease = NULL;
        if (l && l->granted_ms) {
            etcd_lease_give(e, l);
        } else if (l) {
            l->claim = NULL; /* into stock, or away, when it is granted */
        }
        end_release(e, b, SNIB__FREED, NULL);
    } else if (asking || !b->mine || l->unclean || b->next || e->releases == 0 ||
               !etcd_lease_wanted(e)) {
        etcd_lease_doom(e, l);
    } else {
        struct etcd_call *k =
            etcd_request_delete(e, b, b->was_held && !b->noted && claim->mode == SNIB_EXCLUSIVE);
        if (!k) {
            etcd_lease_doom(e, l);
        } else {
            k->number = l->id;
            k->end = on_deleted;
            etcd_cluster_submit(&e->cluster, k);
        }
    }
    etcd_cluster_flush(&e->cluster);
}

/* ---- What leases and watches tell ------------------------------------------------------- */

static void on_granted(struct etcd *e, struct etcd_claim *b)
{
    if (b->next && b->next->granted_ms && b->renewing && !b->swapping) {
        swap(e, b);
    } else if (b->phase == ETCD_LEASING) {
        etcd_attempt_ask(e, b);
    }
}

static void on_no_lease(struct etcd *e, struct etcd_claim *b, const struct etcd_call *k)
{
    char text[ETCD_TEXT_MAX];
    if (b->next && b->next->id == k->number) {
        b->next = NULL;
        if (b->renewing) {
            answer_renew(b, SNIB__UNKNOWN, etcd_error_text(e, k, text));
        }
        return;
    }
    b->lease = NULL;
    if (b->phase == ETCD_LEASING) {
        etcd_attempt_fail(e, b, k);
    }
}

const struct etcd_lease_upcalls etcd_lease_upcalls = {
    .granted = on_granted, .refused = on_no_lease, .kept = on_kept, .revoked = on_revoked};

static void on_watched(struct etcd *e, struct etcd_claim *b)
{
    if (b->phase == ETCD_QUEUED && b->name->created > b->seen) {
        etcd_attempt_list(e, b);
    }
}

static void on_own_deleted(struct etcd *e, struct etcd_claim *b)
{
    if (b->phase == ETCD_QUEUED) {
        etcd_attempt_place_lost(e, b, "the key is gone from the cluster");
    } else if (b->phase == ETCD_HELD_NOW) {
        snib__report(b->claim, SNIB_LOST, "the key is gone from the cluster");
    }
}

static void on_unsure(struct etcd *e, struct etcd_claim *b)
{
    if (b->phase == ETCD_QUEUED) {
        etcd_attempt_list(e, b);
    }
}

const struct etcd_watch_upcalls etcd_watch_upcalls = {.ready = on_watched,
                                                      .deleted = on_own_deleted,
                                                      .ahead = etcd_attempt_ahead,
                                                      .unsure = on_unsure,
                                                      .heard = etcd_breaks_heard,
                                                      .deaf = etcd_breaks_deaf};
