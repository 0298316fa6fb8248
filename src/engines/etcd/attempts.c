/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attempts: from the lease to the grant.
 *
 *   lease --> transaction --> nobody ahead: HELD
 *                         --> somebody: QUEUED, the name is watched
 *   deletion seen --> one less ahead; none: HELD, without asking anybody
 *
 * The last step is right because everything ahead was known: the listing came with, or after, our
 * own key's revision; the watch was there before it, or the listing after the watch. A deletion is
 * a fact, however late it is heard of. Our own key is there for as long as our lease is, which the
 * grant's `since` says; if that is old news the core asks before it believes. Shared grants ask
 * once more, for the last token.
 */
#include "engines/etcd/attempts.h"

#include "engines/etcd/breaks.h"
#include "engines/etcd/errors.h"
#include "engines/etcd/leases.h"
#include "engines/etcd/requests.h"
#include "engines/etcd/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATUS_NOT_FOUND = 5, REPEAT_MS = 250 };

static void answer(struct etcd_claim *b, const struct snib__result *result)
{
    snib__answer(b->claim, SNIB__ATTEMPT, result);
}

/* ---- Failed ----------------------------------------------------------------------------- */

/* The attempt is over; the core decides what comes next. */
void etcd_attempt_fail(struct etcd *e, struct etcd_claim *b, const struct etcd_call *k)
{
    char text[ETCD_TEXT_MAX];
    struct snib__result result = {.status = SNIB__UNKNOWN,
                                  .code = etcd_error_code(k),
                                  .sys = k->outcome == ETCD_ANSWERED ? 0 : e->cluster.sys,
                                  .reason = etcd_error_text(e, k, text)};
    b->phase = ETCD_IDLE;
    b->asking = false;
    bool over =
        k->outcome == ETCD_ANSWERED && k->status == STATUS_NOT_FOUND; /* try another lease */
    if (result.code != SNIB_EUNKNOWN && !b->sent && !k->repeated && !over) {
        result.status = SNIB__FAILED;
    } else if (k->outcome == ETCD_ANSWERED && result.code == SNIB_EDENIED) {
        result.status = SNIB__FAILED;
    }
    answer(b, &result);
}

static void no_memory(struct etcd_claim *b)
{
    static const struct snib__result result = {.status = SNIB__UNKNOWN, .reason = "out of memory"};
    b->phase = ETCD_IDLE;
    b->asking = false;
    answer(b, &result);
}

/* ---- Who is ahead ----------------------------------------------------------------------- */

struct view {
    int64_t ahead;
    struct etcd_value holder; /* the first of them */
    uint64_t token;
    bool others;      /* of another kind, or with other permits */
    unsigned permits; /* of those */
};

static bool in_the_way(int mode, enum etcd_class class)
{
    return mode == SNIB_COUNTED  ? class == ETCD_COUNTED
           : mode == SNIB_SHARED ? class == ETCD_EXCLUSIVE
                                 : class != ETCD_ALIEN;
}

static void look(struct view *v, const struct etcd *e, const struct etcd_claim *b,
                 const Pb__RangeResponse *range)
{
    char base[ETCD_BASE_MAX];
    int mode = b->claim->mode;
    *v = (struct view){0};
    etcd_key_base(base, e->prefix, b->claim->name);
    for (size_t i = 0; range && i < range->n_kvs; i++) {
        const Pb__KeyValue *kv = range->kvs[i];
        unsigned permits;
        enum etcd_class class = etcd_key_class(&kv->key, base, &permits);
        if (class == ETCD_ALIEN || (b->mine && kv->create_revision >= b->mine)) {
            continue;
        }
        bool other = (class == ETCD_COUNTED) != (mode == SNIB_COUNTED) ||
                     (class == ETCD_COUNTED && permits != b->claim->permits);
        if (other) {
            v->others = true;
            v->permits = class == ETCD_COUNTED ? permits : 0;
        } else if (in_the_way(mode, class) && v->ahead++ == 0) {
            etcd_value_read(&v->holder, &kv->value);
            v->token = (uint64_t)kv->create_revision;
        }
    }
}

/* How many may be ahead of a holder. */
static int64_t beside(const struct etcd_claim *b)
{
    return b->claim->mode == SNIB_COUNTED ? (int64_t)b->claim->permits - 1 : 0;
}

static struct snib__result rival(const struct etcd_claim *b, enum snib__status status,
                                 const struct view *v, char who[200])
{
    snprintf(who, 200, "%s%s%s", v->holder.who[0] ? v->holder.who : "another etcd client",
             v->holder.label[0] ? " " : "", v->holder.label);
    int64_t place = v->ahead - beside(b);
    return (struct snib__result){.status = status,
                                 .holder_token = v->token,
                                 .holder = who,
                                 .place = place > 0 && place < INT32_MAX ? (int)place : 0};
}

/* ---- Granted ---------------------------------------------------------------------------- */

static void grant(struct etcd *e, struct etcd_claim *b)
{
    char note[120];
    struct etcd_lease *l = b->lease;
    b->phase = ETCD_HELD_NOW;
    b->was_held = true;
    b->with_keep = false;
    etcd_breaks_listen(e, b);
    struct snib__result held = {
        .status = SNIB__HELD, .token = b->token, .since = l->since, .lease_ms = l->granted_ms};
    if (l->granted_ms > (b->claim->ttl_ms + 999) / 1000 * 1000) {
        snprintf(note, sizeof note, "the cluster grants no ttl below %" PRId64 " s",
                 l->granted_ms / 1000);
        held.reason = note;
    }
    answer(b, &held);
}

/* Nobody is ahead. */
static void come_in(struct etcd *e, struct etcd_claim *b)
{
    b->clear = true;
    if (b->with_keep && b->lease->keeping > 0) {
        return; /* etcd_attempt_kept goes on */
    }
    grant(e, b);
}

void etcd_attempt_kept(struct etcd *e, struct etcd_claim *b)
{
    if (b->phase == ETCD_ASKED && b->clear) {
        come_in(e, b);
    }
}

/* Where it stands: `ahead` as of `seen`. */
static void stand(struct etcd *e, struct etcd_claim *b, const struct view *v)
{
    char who[200];
    if (b->ahead <= beside(b)) {
        b->phase = ETCD_ASKED;
        come_in(e, b);
        return;
    }
    struct snib__result result = rival(b, b->claim->may_queue ? SNIB__QUEUED : SNIB__BUSY, v, who);
    if (!b->claim->may_queue || !etcd_watch_join(e, b)) {
        result.status = SNIB__BUSY;
        b->phase = ETCD_IDLE; /* the release takes the key away */
        answer(b, &result);
        return;
    }
    if (b->phase != ETCD_QUEUED) {
        b->phase = ETCD_QUEUED;
        b->due_ns = snib__now().boot_ns + b->lease->granted_ms * SNIB__MS / 3;
    }
    answer(b, &result);
    etcd_watch_want(e, b);
}

/* Take off what was deleted since the listing. False: not all of that is known, or not of all
 * whether it was ahead (a compaction hides that), and nothing is taken off. */
static bool catch_up(struct etcd_claim *b)
{
    const struct etcd_name *n = b->name;
    size_t room = sizeof n->gone / sizeof n->gone[0];
    if (!n || !etcd_watch_covers(n, b->seen)) {
        return false;
    }
    int64_t ahead = b->ahead, seen = b->seen;
    for (size_t i = n->gone_count > room ? n->gone_count - room : 0; i < n->gone_count; i++) {
        const struct etcd_gone *g = &n->gone[i % room];
        if (g->at > b->seen && !g->created) {
            return false;
        }
        if (g->at > b->seen) {
            ahead -= g->created < b->mine && in_the_way(b->claim->mode, g->class);
            seen = g->at;
        }
    }
    b->ahead = ahead;
    b->seen = seen;
    return true;
}

void etcd_attempt_ahead(struct etcd *e, struct etcd_claim *b, const struct etcd_gone *gone)
{
    (void)gone; /* it is the last in the ring */
    if (b->phase != ETCD_QUEUED) {
        return;
    }
    if (!catch_up(b)) {
        if (b->name->created) {
            etcd_attempt_list(e, b);
        }
    } else if (b->ahead <= beside(b)) {
        if (b->claim->mode == SNIB_SHARED) {
            etcd_attempt_list(e, b); /* what is the last token? */
        } else {
            b->token = (uint64_t)b->mine;
            grant(e, b);
        }
    }
}

void etcd_attempt_place_lost(struct etcd *e, struct etcd_claim *b, const char *why)
{
    struct etcd_lease *l = b->lease;
    b->phase = ETCD_IDLE;
    b->lease = NULL;
    b->mine = 0;
    if (l) {
        l->claim = NULL;
        etcd_lease_doom(e, l);
        etcd_lease_orphan(e, l);
    }
    etcd_watch_leave(e, b);
    snib__report(b->claim, SNIB_LOST, why);
}

/* Nobody says who is ahead. Its place is kept for as long as its lease is; who waits hears of it,
 * and of the end of it by being told its place again. */
static void tell_outage(const struct etcd *e, struct etcd_claim *b, const struct etcd_call *k)
{
    char text[ETCD_TEXT_MAX], why[ETCD_TEXT_MAX + 20];
    snprintf(why, sizeof why, "%s; trying again", etcd_error_text(e, k, text));
    struct snib__result queued = {.status = SNIB__QUEUED,
                                  .code = k->outcome == ETCD_ANSWERED ? etcd_error_code(k)
                                                                      : SNIB_EUNREACH,
                                  .reason = why};
    answer(b, &queued);
}

/* ---- Replies ---------------------------------------------------------------------------- */

static const Pb__RangeResponse *range_at(const Pb__TxnResponse *txn, size_t i)
{
    return i < txn->n_responses &&
                   txn->responses[i]->response_case == PB__RESPONSE_OP__RESPONSE_RANGE
               ? txn->responses[i]->range
               : NULL;
}

/* The token on record; 0: there is none. */
static uint64_t recorded(const Pb__RangeResponse *range)
{
    char number[24] = "";
    if (!range || range->n_kvs == 0) {
        return 0;
    }
    const Pb__KeyValue *kv = range->kvs[0];
    if (kv->value.len == 0 || kv->value.len >= sizeof number) {
        return (uint64_t)kv->mod_revision;
    }
    memcpy(number, kv->value.data, kv->value.len);
    return strtoull(number, NULL, 10);
}

static void on_list(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_lease *l = etcd_lease_find(e, k->number);
    struct etcd_claim *b = l ? l->claim : NULL;
    const Pb__TxnResponse *txn = (const Pb__TxnResponse *)k->reply;
    struct view v;
    if (!b || b->lease != l || !b->listing) {
        return;
    }
    b->listing = false;
    if (b->phase != ETCD_QUEUED && b->phase != ETCD_ASKED) {
        return;
    }
    if (k->outcome != ETCD_ANSWERED || k->status != 0 || !txn || !txn->header) {
        b->due_ns = snib__now().boot_ns + snib__jitter(REPEAT_MS * SNIB__MS);
        if (b->phase == ETCD_ASKED) {
            etcd_attempt_fail(e, b, k);
        } else {
            tell_outage(e, b, k);
        }
        return;
    }
    etcd_lease_proof(e, k, txn->header);
    (void)etcd_lease_settle(e, l);
    if (!txn->succeeded) {
        if (b->phase == ETCD_ASKED) {
            b->phase = ETCD_QUEUED; /* so that the core hears of it as of a lost place */
            answer(b, &(struct snib__result){.status = SNIB__QUEUED});
        }
        etcd_attempt_place_lost(e, b, "the key is gone from the cluster");
        return;
    }
    if (!range_at(txn, 0)) {
        etcd_attempt_fail(e, b, k); /* an answer that says nothing */
        return;
    }
    look(&v, e, b, range_at(txn, 0));
    b->ahead = v.ahead;
    b->seen = txn->header->revision;
    (void)catch_up(b);
    b->token = (uint64_t)b->mine;
    if (b->claim->mode == SNIB_SHARED) {
        uint64_t last = recorded(range_at(txn, 1));
        b->token = last ? last : b->token;
    }
    stand(e, b, &v);
}

void etcd_attempt_list(struct etcd *e, struct etcd_claim *b)
{
    if (b->listing) {
        return;
    }
    struct etcd_call *k = etcd_request_list(e, b);
    if (!k) {
        b->due_ns = snib__now().boot_ns + REPEAT_MS * SNIB__MS;
        return;
    }
    b->listing = true;
    k->number = b->lease->id;
    k->end = on_list;
    etcd_cluster_submit(&e->cluster, k);
}

/* What the inner transaction of an attempt says: whether the token is on record now, or which one
 * was; and who else is there, if it lists them. False: it does not say who is there. */
static bool read_record(struct etcd_claim *b, const Pb__TxnResponse *txn,
                        const Pb__RangeResponse **list)
{
    int mode = b->claim->mode;
    *list = range_at(txn, mode == SNIB_COUNTED ? 1 : 2);
    if (mode == SNIB_COUNTED) {
        return *list != NULL;
    }
    const Pb__TxnResponse *record =
        txn->n_responses > 1 && txn->responses[1]->response_case == PB__RESPONSE_OP__RESPONSE_TXN
            ? txn->responses[1]->txn
            : NULL;
    b->noted = mode == SNIB_SHARED || (record && record->succeeded);
    if (mode == SNIB_EXCLUSIVE) {
        *list = record && !record->succeeded ? range_at(record, 0) : NULL;
        return *list || (record && record->succeeded); /* then nobody was there */
    }
    if (record && !record->succeeded) {
        uint64_t last = recorded(range_at(record, 0));
        b->token = last ? last : b->token;
    }
    return *list != NULL;
}

/* The key was put by this very transaction. */
static void on_put(struct etcd *e, struct etcd_claim *b, const Pb__TxnResponse *txn)
{
    struct view v;
    const Pb__RangeResponse *list;
    b->mine = txn->header->revision;
    b->seen = b->mine;
    b->token = (uint64_t)b->mine;
    if (!read_record(b, txn, &list)) {
        etcd_attempt_list(e, b);
        return;
    }
    look(&v, e, b, list);
    b->ahead = v.ahead;
    if (b->ahead > beside(b) && b->claim->may_queue && etcd_watch_join(e, b)) {
        (void)catch_up(b);
    }
    stand(e, b, &v);
}

/* It was not: it is there already, or somebody is in the way. */
static void on_refused(struct etcd *e, struct etcd_claim *b, const struct etcd_call *k,
                       const Pb__TxnResponse *txn)
{
    const Pb__RangeResponse *own = range_at(txn, 0);
    struct view v;
    char text[200];
    if (own && own->n_kvs > 0) {
        b->mine = own->kvs[0]->create_revision;
        etcd_attempt_list(e, b);
        return;
    }
    look(&v, e, b, range_at(txn, 1));
    if (!k->repeated) {
        b->sent = false; /* nothing is there */
    }
    if (v.others) {
        snprintf(text, sizeof text,
                 v.permits ? "in use as a counted lock with %u permits"
                           : "in use as an exclusive or shared lock",
                 v.permits);
        struct snib__result kind = {.status = SNIB__FAILED, .code = SNIB_EKIND, .reason = text};
        b->phase = ETCD_IDLE;
        answer(b, &kind);
    } else if (v.ahead > beside(b) && !b->claim->may_queue) {
        struct snib__result busy = rival(b, SNIB__BUSY, &v, text);
        b->phase = ETCD_IDLE;
        answer(b, &busy);
    } else {
        b->loose = true; /* keys below the name that are none of ours, or a writer just left */
        etcd_attempt_ask(e, b);
    }
}

/* The lease that last tokens are kept under is made by whoever misses it first. */
static void on_record(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_lease *l = etcd_lease_find(e, k->number);
    struct etcd_claim *b = l ? l->claim : NULL;
    if (!b || b->phase != ETCD_ASKED || b->lease != l) {
        return;
    }
    if (k->outcome == ETCD_ANSWERED && (k->status == 0 || k->status == 9)) {
        etcd_attempt_ask(e, b);
    } else {
        etcd_attempt_fail(e, b, k);
    }
}

static bool make_record(struct etcd *e, struct etcd_claim *b)
{
    int64_t keep_s = e->session->values[ETCD_RETENTION].number / 1000 + 3600;
    struct etcd_call *k = etcd_request_grant(e, etcd_record_lease(e), keep_s);
    if (!k) {
        return false;
    }
    k->number = b->lease->id;
    k->end = on_record;
    etcd_cluster_submit(&e->cluster, k);
    return true;
}

static void on_attempt(struct etcd_call *k)
{
    struct etcd *e = k->owner;
    struct etcd_lease *l = etcd_lease_find(e, k->number);
    struct etcd_claim *b = l ? l->claim : NULL;
    const Pb__TxnResponse *txn = (const Pb__TxnResponse *)k->reply;
    if (l && (k->repeated || k->outcome == ETCD_LOST)) {
        l->unclean = true;
    }
    if (!b || b->lease != l) {
        return;
    }
    b->asking = false;
    if (b->phase != ETCD_ASKED) {
        return;
    }
    if (k->outcome == ETCD_ANSWERED && k->status == 0 && txn && txn->header) {
        etcd_lease_proof(e, k, txn->header);
        (void)etcd_lease_settle(e, l);
        if (txn->succeeded) {
            on_put(e, b, txn);
        } else {
            on_refused(e, b, k, txn);
        }
        return;
    }
    if (k->outcome == ETCD_ANSWERED && !k->repeated) {
        b->sent = false; /* refused: nothing was executed */
    }
    if (k->outcome == ETCD_ANSWERED && k->status == STATUS_NOT_FOUND && k->subject) {
        if (make_record(e, b)) { /* which of the two leases it was, is not said */
            return;
        }
    }
    if (k->outcome == ETCD_UNSENT) {
        b->sent = l->unclean;
    }
    if (k->outcome == ETCD_ANSWERED && k->status == STATUS_NOT_FOUND) {
        l->gone = true;
        b->lease = NULL;
        etcd_lease_give(e, l);
    }
    etcd_attempt_fail(e, b, k);
}

void etcd_attempt_ask(struct etcd *e, struct etcd_claim *b)
{
    struct etcd_lease *l = b->lease;
    char base[ETCD_BASE_MAX];
    etcd_key_base(base, e->prefix, b->claim->name);
    etcd_key(b->key, base, b->claim->mode, b->claim->permits, l->id);
    bool first = b->phase != ETCD_ASKED;
    b->phase = ETCD_ASKED;
    b->mine = 0;
    b->clear = false;
    b->asking = true;
    if (snib__elapsed_ns(l->since, snib__now()) > l->granted_ms * SNIB__MS / 8 && l->keeping == 0) {
        b->with_keep = etcd_lease_keep(e, &l->id, 1);
    }
    struct etcd_call *k = etcd_request_attempt(
        e, b, !b->claim->may_queue && !b->loose && b->claim->mode != SNIB_COUNTED);
    if (!k) {
        no_memory(b);
        return;
    }
    b->sent = true;
    k->number = l->id;
    k->subject = first ? e : NULL; /* may try once more */
    k->end = on_attempt;
    etcd_cluster_submit(&e->cluster, k);
}

/* ---- In line ---------------------------------------------------------------------------- */

void etcd_attempts_unreachable(struct etcd *e)
{
    for (struct snib__entry *entry = NULL; (entry = snib__table_next(&e->names, entry)) != NULL;) {
        struct etcd_name *n = SNIB__OF(entry, struct etcd_name, entry);
        for (struct snib__list *l = n->claims.after; l != &n->claims; l = l->after) {
            SNIB__OF(l, struct etcd_claim, in_name)->due_ns = 0; /* of others it says nothing */
        }
    }
}

int64_t etcd_attempts_keep_time(struct etcd *e, int64_t now)
{
    int64_t next = SNIB__NEVER;
    for (struct snib__entry *entry = NULL; (entry = snib__table_next(&e->names, entry)) != NULL;) {
        struct etcd_name *n = SNIB__OF(entry, struct etcd_name, entry);
        for (struct snib__list *l = n->claims.after; l != &n->claims; l = l->after) {
            struct etcd_claim *b = SNIB__OF(l, struct etcd_claim, in_name);
            if (b->phase != ETCD_QUEUED) {
                continue;
            }
            if (now >= b->due_ns) {
                b->due_ns = now + b->lease->granted_ms * SNIB__MS / 3;
                if (b->lease->keeping == 0) {
                    (void)etcd_lease_keep(e, &b->lease->id, 1);
                }
                etcd_attempt_list(e, b);
            }
            next = b->due_ns < next ? b->due_ns : next;
        }
    }
    return next;
}
