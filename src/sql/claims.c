/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims: attempt, keep a place in line, renew, give back.
 *
 * A claim in line is looked after by asking again, which is an attempt like the first: when it is
 * rung, when the holder's lease must be over, and now and then, since a ring may be lost and a dead
 * holder rings nobody. A ring is never believed: it costs one attempt, which also proves the grant.
 * A ring for a claim that is held means that somebody wants it, or took it: one renewal tells.
 */
#include "sql/asking.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RENEW_MOST = 32, /* claims in one packet */
    WATCH_MS = 50,   /* a lock held for longer is worth a thread that watches its connection */
    HEAD_LOOK_MS = 100,
    LOOK_MS = 250,
    LOOK_EACH_MS = 10,
    TRIES_MOST = 8
};

enum verb { ATTEMPT, RENEW, CHECK, RELEASE, UNDO };

struct ask {
    struct sql_request request;
    struct sql *sql;
    enum verb verb;
    int tries;
    struct snib__claim *claim; /* NULL: it was released */
    struct snib__claim *batch[RENEW_MOST];
    int64_t lease_ms[RENEW_MOST];
    size_t count;
    bool may_queue;
    /* RELEASE and UNDO, which outlives its claim. */
    char name[SNIB__NAME_MAX + 1];
    unsigned char owner[16];
    int64_t until_ns; /* UNDO: when nothing can be left any more */
};

static int64_t now_ns(void)
{
    return snib__now().boot_ns;
}

static struct ask *ask_of(struct sql_request *r)
{
    return SNIB__OF(r, struct ask, request);
}

static void ask_free(struct ask *a)
{
    sql_words_free(&a->request.words);
    free(a);
}

static struct sql_claim *own_of(const struct snib__claim *claim)
{
    return claim->state;
}

static int64_t ttl_of(const struct sql *s, const struct snib__claim *claim)
{
    return s->leased ? claim->ttl_ms : s->session->ttl_ms;
}

/* ---- Attention -------------------------------------------------------------------------- */

void sql_claims_mind(struct sql *s)
{
    bool watches = s->held > 0 && now_ns() >= s->watch_ns;
    s->session->attend = s->queued > 0 || watches;
    sql_link_listen(&s->link, s->session->attend > 0);
}

int64_t sql_claims_next(const struct sql *s)
{
    int64_t next = s->held > 0 && !s->session->attend ? s->watch_ns : SNIB__NEVER;
    for (const struct snib__list *p = s->claims.after; s->queued && p != &s->claims; p = p->after) {
        const struct sql_claim *own = SNIB__OF(p, struct sql_claim, place);
        if (own->queued && !own->asking && own->look_ns < next) {
            next = own->look_ns;
        }
    }
    return next;
}

static void set_held(struct sql *s, struct sql_claim *own, bool held)
{
    if (held && s->held == 0) {
        s->watch_ns = now_ns() + WATCH_MS * SNIB__MS;
    }
    s->held += (size_t)held - (size_t)own->held;
    own->held = held;
    own->ever_held |= held;
    sql_claims_mind(s);
}

static void set_queued(struct sql *s, struct sql_claim *own, bool queued)
{
    s->queued += (size_t)queued - (size_t)own->queued;
    own->queued = queued;
    sql_claims_mind(s);
}

/* ---- Attempts --------------------------------------------------------------------------- */

static const struct sql_fate fate;

static struct ask *ask_new(struct sql *s, enum verb verb, struct snib__claim *claim)
{
    struct ask *a = calloc(1, sizeof *a);
    if (a) {
        a->sql = s;
        a->verb = verb;
        a->claim = claim;
        a->request.fate = &fate;
        a->request.due_ns = snib__later(now_ns(), s->session->timeout_ms * SNIB__MS);
    }
    return a;
}

static void ask_attempt(struct sql *s, struct sql_claim *own, bool may_queue)
{
    struct snib__claim *c = own->claim;
    struct ask *a = ask_new(s, ATTEMPT, c);
    if (!a) {
        set_queued(s, own, false);
        snib__answer(c, SNIB__ATTEMPT,
                     &(struct snib__result){.status = SNIB__UNKNOWN, .reason = "out of memory"});
        return;
    }
    a->may_queue = may_queue;
    sql_say_call(&a->request.words, &s->dialect->style, s->mode, "attempt", "bbomnnnfbb", s->space,
                 c->name, c->owner, (int64_t)c->mode, (int64_t)c->permits, ttl_of(s, c),
                 (int)may_queue, s->session->who, c->label);
    own->asking = &a->request;
    own->look_ns = 1; /* 0: rung since */
    sql_link_ask(&s->link, &a->request);
}

static bool in_quarantine(struct sql *s, struct snib__claim *c)
{
    int64_t left_ms = (s->usable_ns - now_ns() + SNIB__MS - 1) / SNIB__MS;
    char reason[200];
    if (left_ms <= 0) {
        return false;
    }
    snprintf(reason, sizeof reason,
             "the server was started anew; leases of before may last for %" PRId64 " ms more",
             left_ms);
    snib__answer(c, SNIB__ATTEMPT,
                 &(struct snib__result){.status = SNIB__BUSY,
                                        .retry_ms = left_ms < 1000 ? left_ms + 1 : 1000,
                                        .holder_left_ms = left_ms,
                                        .code = SNIB_EUNSAFE,
                                        .reason = reason});
    return true;
}

void sql_attempt(struct snib__claim *claim)
{
    struct sql *s = sql_of(claim->session);
    struct sql_claim *own = own_of(claim);
    if (!own->listed) {
        own->claim = claim;
        own->listed = true;
        snib__list_append(&s->claims, &own->place);
    }
    set_queued(s, own, false);
    if (!in_quarantine(s, claim)) {
        ask_attempt(s, own, claim->may_queue);
    }
}

/* What was asked before we knew is not sent after all. */
void sql_claims_joined(struct sql *s)
{
    struct snib__list *next;
    for (struct snib__list *p = s->claims.after; p != &s->claims; p = next) {
        struct sql_claim *own = SNIB__OF(p, struct sql_claim, place);
        struct sql_request *r = own->asking;
        next = p->after;
        if (r && !r->sent && s->usable_ns > now_ns()) {
            sql_link_withdraw(&s->link, r);
            ask_free(ask_of(r));
            own->asking = NULL;
            set_queued(s, own, false);
            in_quarantine(s, own->claim);
        }
    }
}

void sql_claims_look(struct sql *s)
{
    int64_t now = now_ns();
    for (struct snib__list *p = s->claims.after; s->queued && p != &s->claims; p = p->after) {
        struct sql_claim *own = SNIB__OF(p, struct sql_claim, place);
        if (own->queued && !own->asking && own->look_ns <= now) {
            ask_attempt(s, own, true);
        }
    }
}

static void send_batch(struct sql *s, struct ask *a)
{
    sql_say(&a->request.words, s->dialect->style.begin);
    for (size_t i = 0; i < a->count; i++) {
        struct snib__claim *c = a->batch[i];
        a->lease_ms[i] = ttl_of(s, c);
        sql_say_call(&a->request.words, &s->dialect->style, s->mode, "renew", "bbomn", s->space,
                     c->name, c->owner, a->lease_ms[i]);
    }
    sql_say(&a->request.words, s->dialect->style.commit);
    sql_link_ask(&s->link, &a->request);
}

static void ask_check(struct sql *s, struct sql_claim *own)
{
    struct ask *a = ask_new(s, CHECK, own->claim);
    if (a) {
        a->batch[0] = own->claim;
        a->count = 1;
        send_batch(s, a);
    }
}

void sql_claims_rung(struct sql *s, const char *owner)
{
    for (struct snib__list *p = s->claims.after; p != &s->claims; p = p->after) {
        struct sql_claim *own = SNIB__OF(p, struct sql_claim, place);
        char digits[33];
        for (int i = 0; i < 16; i++) {
            snprintf(digits + 2 * (size_t)i, 3, "%02x", own->claim->owner[i]);
        }
        if (strcmp(digits, owner) != 0) {
            continue;
        }
        if (own->held) {
            ask_check(s, own);
        }
        own->look_ns = 0;
        return;
    }
}

/* When a place in line is worth another look. That is for lost rings and
 * dead holders, so it may be the rarer the more places there are; in lease mode a place must also
 * be kept, which a third of its lease is for. */
static int64_t look_ms(const struct sql *s, const struct snib__claim *c, int64_t place,
                       int64_t holder_left_ms)
{
    int64_t third = ttl_of(s, c) / 3;
    int64_t all = LOOK_EACH_MS * (int64_t)s->queued;
    int64_t ms = (place > 1 || s->leased ? LOOK_MS : HEAD_LOOK_MS) + all;
    if (!s->leased && third < all) {
        third = all;
    }
    if (place == 1 && holder_left_ms > 0 && holder_left_ms + 5 < ms) {
        ms = holder_left_ms + 5;
    }
    return ms < third ? ms : third;
}

static void on_line(struct sql *s, struct snib__claim *c, const struct sql_answer *answer,
                    const char *holder)
{
    struct sql_claim *own = own_of(c);
    int place = (int)sql_number(answer, 0, 0, 3);
    int64_t left_ms = sql_number(answer, 0, 0, 6);
    bool news = !own->queued || own->queue_place != place;
    if (own->look_ns != 0) {
        own->look_ns = now_ns() + snib__jitter(look_ms(s, c, place, left_ms) * SNIB__MS);
    }
    own->queue_place = place;
    set_queued(s, own, true);
    if (news) {
        struct snib__result queued = {.status = SNIB__QUEUED,
                                      .place = place,
                                      .holder = holder,
                                      .holder_token = (uint64_t)sql_number(answer, 0, 0, 5),
                                      .holder_left_ms = left_ms};
        snib__answer(c, SNIB__ATTEMPT, &queued);
    }
}

static void on_attempt(struct ask *a, const struct sql_answer *answer)
{
    enum { HELD = 1, QUEUED, BUSY, KIND };
    struct sql *s = a->sql;
    struct snib__claim *c = a->claim;
    struct sql_claim *own = own_of(c);
    struct snib__result result = {0};
    char holder[128], reason[200];
    int64_t left_ms = sql_number(answer, 0, 0, 2);
    own->asking = NULL;
    sql_bytes(holder, sizeof holder, answer, 0, 0, 4);
    switch (sql_number(answer, 0, 0, 0)) {
    case HELD:
        result = (struct snib__result){.status = SNIB__HELD,
                                       .token = (uint64_t)sql_number(answer, 0, 0, 1),
                                       .since = a->request.since,
                                       .lease_ms = left_ms < ttl_of(s, c) ? left_ms : ttl_of(s, c)};
        set_held(s, own, true);
        break;
    case QUEUED:
        on_line(s, c, answer, holder);
        return;
    case BUSY:
        result = (struct snib__result){.status = SNIB__BUSY,
                                       .holder = holder,
                                       .holder_token = (uint64_t)sql_number(answer, 0, 0, 5),
                                       .holder_left_ms = sql_number(answer, 0, 0, 6)};
        break;
    case KIND:
        snprintf(reason, sizeof reason,
                 "%s uses it as a lock of another kind, or with other permits", holder);
        result = (struct snib__result){
            .status = SNIB__FAILED, .code = SNIB_EKIND, .holder = holder, .reason = reason};
        break;
    default:
        result = (struct snib__result){.status = SNIB__FAILED,
                                       .code = SNIB_EPROTO,
                                       .reason = "the server knows it as given back already"};
        break;
    }
    set_queued(s, own, false);
    snib__answer(c, SNIB__ATTEMPT, &result);
}

/* ---- Renewals --------------------------------------------------------------------------- */

void sql_renew(struct snib__claim *const claims[], size_t n)
{
    struct sql *s = sql_of(claims[0]->session);
    for (size_t from = 0; from < n; from += RENEW_MOST) {
        size_t count = n - from < RENEW_MOST ? n - from : RENEW_MOST;
        struct ask *a = ask_new(s, RENEW, NULL);
        for (size_t i = 0; i < count; i++) {
            if (a) {
                a->batch[i] = claims[from + i];
            } else {
                snib__answer(
                    claims[from + i], SNIB__RENEW,
                    &(struct snib__result){.status = SNIB__UNKNOWN, .reason = "out of memory"});
            }
        }
        if (a) {
            a->count = count;
            send_batch(s, a);
        }
    }
}

/* It is not ours any more. CHECK was not asked for by the core, which is told instead. */
static void on_lost(struct ask *a, struct snib__claim *c, const char *breaker)
{
    char why[200];
    snprintf(why, sizeof why, breaker[0] ? "broken by %s" : "the server knows it no longer",
             breaker);
    set_held(a->sql, own_of(c), false);
    if (a->verb == CHECK) {
        snib__report(c, SNIB_LOST, why);
    } else {
        snib__answer(c, SNIB__RENEW, &(struct snib__result){.status = SNIB__LOST, .reason = why});
    }
}

static void on_renew(struct ask *a, const struct sql_answer *answer)
{
    for (size_t i = 0; i < a->count; i++) {
        struct snib__claim *c = a->batch[i];
        char breaker[128];
        if (!c) {
            continue;
        }
        sql_bytes(breaker, sizeof breaker, answer, i, 0, 2);
        if (sql_number(answer, i, 0, 0) != 1) {
            on_lost(a, c, breaker);
        } else if (a->verb == RENEW) {
            snib__answer(c, SNIB__RENEW,
                         &(struct snib__result){.status = SNIB__HELD,
                                                .token = (uint64_t)sql_number(answer, i, 0, 1),
                                                .since = a->request.since,
                                                .lease_ms = a->lease_ms[i]});
        }
    }
}

static void unknown_renewals(struct ask *a, int sys, const char *why)
{
    for (size_t i = 0; i < a->count; i++) {
        if (a->batch[i] && a->verb == RENEW) {
            snib__answer(
                a->batch[i], SNIB__RENEW,
                &(struct snib__result){.status = SNIB__UNKNOWN, .sys = sys, .reason = why});
        }
    }
}

/* ---- Releases --------------------------------------------------------------------------- */

/* Nothing else is said about this claim but the end of its release. */
static void forget(struct sql *s, const struct snib__claim *claim)
{
    struct snib__list *next;
    for (struct snib__list *p = s->link.requests.after; p != &s->link.requests; p = next) {
        struct sql_request *r = SNIB__OF(p, struct sql_request, place);
        next = p->after;
        if (r->fate != &fate) {
            continue;
        }
        struct ask *a = ask_of(r);
        for (size_t i = 0; i < a->count; i++) {
            a->batch[i] = a->batch[i] == claim ? NULL : a->batch[i];
        }
        if (a->claim == claim) {
            own_of(claim)->sent |= r->sent;
            own_of(claim)->astray |= r->sent;
            sql_link_withdraw(&s->link, r);
            ask_free(a);
        }
    }
}

static void say_release(struct ask *a, bool bury)
{
    struct sql *s = a->sql;
    int64_t bury_ms = s->session->max_lease_ms + s->session->timeout_ms;
    sql_words_free(&a->request.words);
    sql_say_call(&a->request.words, &s->dialect->style, s->mode, "release", "bbomn", s->space,
                 a->name, a->owner, bury ? bury_ms : 0);
}

void sql_release(struct snib__claim *claim)
{
    struct sql *s = sql_of(claim->session);
    struct sql_claim *own = own_of(claim);
    forget(s, claim);
    if (own->listed) {
        set_held(s, own, false);
        set_queued(s, own, false);
        snib__list_remove(&own->place);
        own->listed = false;
    }
    if (!own->sent && !claim->adopted) {
        snib__answer(claim, SNIB__RELEASE, &(struct snib__result){.status = SNIB__FREED});
        return;
    }
    struct ask *a = ask_new(s, RELEASE, claim);
    if (!a) {
        snib__answer(claim, SNIB__RELEASE,
                     &(struct snib__result){.status = SNIB__UNKNOWN, .reason = "out of memory"});
        return;
    }
    snprintf(a->name, sizeof a->name, "%s", claim->name);
    memcpy(a->owner, claim->owner, sizeof a->owner);
    a->until_ns = snib__later(now_ns(), ttl_of(s, claim) * SNIB__MS);
    say_release(a, own->astray);
    sql_link_ask(&s->link, &a->request);
}

/* Others of this client that wait for it may have been let in by that. */
static void look_at_once(struct sql *s, const char *name)
{
    for (struct snib__list *p = s->claims.after; s->queued && p != &s->claims; p = p->after) {
        struct sql_claim *own = SNIB__OF(p, struct sql_claim, place);
        if (own->queued && strcmp(own->claim->name, name) == 0) {
            own->look_ns = 0;
        }
    }
}

static void on_release(struct ask *a, const struct sql_answer *answer)
{
    look_at_once(a->sql, a->name);
    if (a->verb == UNDO) {
        a->sql->session->undoing--;
        return;
    }
    const struct sql_claim *own = own_of(a->claim);
    bool ours = own->ever_held || a->claim->adopted;
    bool was_there = sql_number(answer, 0, 0, 0) == 1;
    snib__answer(a->claim, SNIB__RELEASE,
                 &(struct snib__result){.status = was_there || !ours ? SNIB__FREED : SNIB__LOST});
}

/* No answer: the claim is told so, and we go on asking until nothing can be left. */
static void undo(struct ask *a, int sys, const char *why)
{
    struct sql *s = a->sql;
    struct snib__claim *claim = a->claim;
    bool first = a->verb == RELEASE;
    if (!first && now_ns() >= a->until_ns) {
        s->session->undoing--;
        ask_free(a);
        return;
    }
    a->verb = UNDO;
    a->claim = NULL;
    a->request.sent = false;
    a->request.due_ns = a->until_ns;
    a->request.not_before_ns = now_ns() + snib__jitter(50 * SNIB__MS);
    say_release(a, true);
    s->session->undoing += first;
    if (first) {
        snib__answer(claim, SNIB__RELEASE,
                     &(struct snib__result){.status = SNIB__UNKNOWN, .sys = sys, .reason = why});
    }
    sql_link_ask(&s->link, &a->request);
}

/* ---- Fates ------------------------------------------------------------------------------ */

static void mark_sent(const struct ask *a)
{
    if (a->claim && a->request.sent) {
        own_of(a->claim)->sent = true;
    }
}

static void answered(struct sql_request *r, const struct sql_answer *answer)
{
    struct ask *a = ask_of(r);
    mark_sent(a);
    switch (a->verb) {
    case ATTEMPT:
        on_attempt(a, answer);
        break;
    case RENEW:
    case CHECK:
        on_renew(a, answer);
        break;
    case RELEASE:
    case UNDO:
        on_release(a, answer);
        break;
    }
    ask_free(a);
}

static void fail_attempt(struct ask *a, int code, int sys, const char *why)
{
    struct sql_claim *own = own_of(a->claim);
    struct snib__result result = {.status = own->sent ? SNIB__UNKNOWN : SNIB__FAILED,
                                  .code = code,
                                  .sys = sys,
                                  .reason = why};
    own->asking = NULL;
    set_queued(a->sql, own, false);
    snib__answer(a->claim, SNIB__ATTEMPT, &result);
}

static void abandoned(struct sql_request *r, int code, int sys, const char *why)
{
    struct ask *a = ask_of(r);
    mark_sent(a);
    switch (a->verb) {
    case ATTEMPT:
        own_of(a->claim)->astray |= r->sent;
        fail_attempt(a, code, sys, why);
        break;
    case RENEW:
    case CHECK:
        unknown_renewals(a, sys, why);
        break;
    case RELEASE:
    case UNDO:
        undo(a, sys, why);
        return;
    }
    ask_free(a);
}

/* Nothing was done. */
static void refused(struct sql_request *r, const struct sql_error *error)
{
    struct ask *a = ask_of(r);
    enum sql_sense sense = a->sql->dialect->sense(error);
    int code = sense == SQL_DENIED      ? SNIB_EDENIED
               : sense == SQL_READ_ONLY ? SNIB_EUNSAFE
                                        : SNIB_EPROTO;
    if (sense == SQL_AGAIN && a->tries++ < TRIES_MOST && now_ns() < r->due_ns) {
        r->not_before_ns = now_ns() + snib__jitter(a->tries * SNIB__MS);
        sql_link_ask(&a->sql->link, r);
        return;
    }
    switch (a->verb) {
    case ATTEMPT:
        fail_attempt(a, code, error->sys, error->text);
        break;
    case RENEW:
    case CHECK:
        unknown_renewals(a, error->sys, error->text);
        break;
    case RELEASE:
    case UNDO:
        undo(a, error->sys, error->text);
        return;
    }
    ask_free(a);
}

static const struct sql_fate fate = {answered, refused, abandoned};

/* ---- The end ---------------------------------------------------------------------------- */

void sql_claims_parted(struct sql *s, const char *why)
{
    char text[SQL_WHY + 40];
    if (s->leased || s->held == 0) {
        return;
    }
    snprintf(text, sizeof text, "the session that held it has ended: %s", why);
    for (struct snib__list *p = s->claims.after; p != &s->claims; p = p->after) {
        struct sql_claim *own = SNIB__OF(p, struct sql_claim, place);
        if (own->held) {
            set_held(s, own, false);
            snib__report(own->claim, SNIB_LOST, text);
        }
    }
}

void sql_claims_drop(struct sql *s)
{
    struct snib__list *next;
    for (struct snib__list *p = s->link.requests.after; p != &s->link.requests; p = next) {
        struct sql_request *r = SNIB__OF(p, struct sql_request, place);
        next = p->after;
        if (r->fate == &fate) {
            snib__list_remove(p);
            ask_free(ask_of(r));
        }
    }
}
