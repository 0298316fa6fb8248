/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One claim at the engine: what its answers mean.
 *
 *   ASKED --queued--> PARKED --granted--> HELD <--> DOUBTFUL --> LOST
 *     |  \--busy, unknown--> RESTING --timer--> ASKED      (lease.c from HELD on)
 *     \--granted, but late--> PROVING --renewed--> HELD
 *   any --leave--> RELEASING --answered--> RELEASED
 *
 * Rules that keep it safe:
 *
 * - An answer is judged by the stage it finds. After the release was submitted, whatever still
 *   comes in for an attempt or a renewal is dropped: the engine gives a late grant back itself.
 * - An attempt may be repeated under the same owner id, because it counts once. After a release
 *   has been submitted the id is dead: a request that goes on gets a new claim with a new id,
 *   so that a release that is delayed on its way can never hit the later grant.
 * - A grant counts from the instant its request was sent, not from the instant it was read. If a
 *   third of it is over by then (a message that waited while we were stopped, a repeated attempt
 *   answered "yours already"), a renewal is due, and comes before anybody is told.
 * - Upcalls never enter the engine: they put work on the agenda.
 */
#include "core/hold.h"

#include "core/client.h"
#include "core/passing.h"
#include "core/validity.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_PAUSE_MS (24LL * 3600 * 1000) /* whatever an engine says */
#define ANEW_AT_ONCE 3
#define PROOFS_MOST 20
#define PROOF_PAUSE_NS (50 * SNIB__MS)

#define BIT(stage) (1U << (stage))

void snib__hold_move(struct snib__hold *h, enum snib__stage to)
{
    static const unsigned may_follow[] = {
        [SNIB__STAGE_ASKED] = BIT(SNIB__STAGE_PARKED) | BIT(SNIB__STAGE_RESTING) |
                              BIT(SNIB__STAGE_PROVING) | BIT(SNIB__STAGE_HELD) |
                              BIT(SNIB__STAGE_RELEASING),
        [SNIB__STAGE_PARKED] = BIT(SNIB__STAGE_PARKED) | BIT(SNIB__STAGE_ASKED) |
                               BIT(SNIB__STAGE_RESTING) | BIT(SNIB__STAGE_PROVING) |
                               BIT(SNIB__STAGE_HELD) | BIT(SNIB__STAGE_RELEASING),
        [SNIB__STAGE_RESTING] = BIT(SNIB__STAGE_ASKED) | BIT(SNIB__STAGE_PARKED) |
                                BIT(SNIB__STAGE_RESTING) | BIT(SNIB__STAGE_PROVING) |
                                BIT(SNIB__STAGE_HELD) | BIT(SNIB__STAGE_RELEASING),
        [SNIB__STAGE_PROVING] = BIT(SNIB__STAGE_HELD) | BIT(SNIB__STAGE_RELEASING),
        [SNIB__STAGE_HELD] =
            BIT(SNIB__STAGE_DOUBTFUL) | BIT(SNIB__STAGE_LOST) | BIT(SNIB__STAGE_RELEASING),
        [SNIB__STAGE_DOUBTFUL] =
            BIT(SNIB__STAGE_HELD) | BIT(SNIB__STAGE_LOST) | BIT(SNIB__STAGE_RELEASING),
        [SNIB__STAGE_LOST] = BIT(SNIB__STAGE_RELEASING),
        [SNIB__STAGE_RELEASING] = BIT(SNIB__STAGE_RELEASED),
        [SNIB__STAGE_RELEASED] = 0,
    };
    assert(may_follow[h->stage] & BIT(to));
    if (h->lined_up && to > SNIB__STAGE_PROVING) { /* granted or gone: the next in line may ask */
        h->lined_up = false;
        h->line->asking--;
    }
    if (h->passes && to > SNIB__STAGE_HELD) {
        snib__passing_end(h);
    }
    if (to == SNIB__STAGE_LOST) {
        h->lost = true;
    }
    h->stage = to;
    snib__hold_count(h);
}

/* ---- Made and gone ---------------------------------------------------------------------- */

static void on_timer(struct snib__timer *timer)
{
    struct snib__hold *h = SNIB__OF(timer, struct snib__hold, timer);
    switch (h->stage) {
    case SNIB__STAGE_RESTING:
        snib__hold_move(h, SNIB__STAGE_ASKED);
        snib__hold_do(h, SNIB__TODO_ATTEMPT);
        break;
    case SNIB__STAGE_PROVING:
        snib__renewal_urge(h);
        break;
    case SNIB__STAGE_HELD:
    case SNIB__STAGE_DOUBTFUL:
        snib__lease_tick(h, snib__now());
        break;
    default:
        break;
    }
}

static struct snib__hold *allocate(snib *client)
{
    size_t size = sizeof(struct snib__hold) + client->session.engine->claim_size;
    struct snib__hold *h = client->spare;
    if (h) {
        client->spare = NULL;
        memset(h, 0, size);
    } else {
        h = calloc(1, size);
    }
    if (h && !snib__timers_join(&client->timers)) {
        free(h);
        h = NULL;
    }
    return h;
}

/* What the agenda says is to be done at the engine. */
static void perform(struct snib__action *action)
{
    static const struct snib__result never_seen = {.status = SNIB__FREED};
    struct snib__hold *h = SNIB__OF(action, struct snib__hold, action);
    struct snib__claim *claim = &h->claim;
    snib *client = h->client;
    const struct snib__engine *engine = client->session.engine;
    enum snib__todo todo = h->todo;
    client->session.more = todo != SNIB__TODO_RENEW && !h->untold && snib__may_keep(client);
    h->todo = SNIB__TODO_NOTHING;
    switch (todo) {
    case SNIB__TODO_RELEASE:
        if (h->started) {
            engine->release(claim);
        } else {
            snib__answer(claim, SNIB__RELEASE, &never_seen);
        }
        break;
    case SNIB__TODO_ATTEMPT:
        h->started = true;
        engine->attempt(claim);
        if (client->outstanding > 0) { /* else it is answered already */
            snib__contact_await(client);
        }
        break;
    case SNIB__TODO_RENEW:
        snib__renewal_sent(h);
        engine->renew(&claim, 1);
        break;
    case SNIB__TODO_NOTHING:
        break;
    }
    client->session.more = false;
}

/* Known to the client and to the line of its name; everything else is the caller's. */
static struct snib__hold *make(snib *client, struct snib__line *line, int mode, unsigned permits)
{
    struct snib__hold *h = allocate(client);
    if (!h) {
        return NULL;
    }
    h->claim = (struct snib__claim){
        .session = &client->session,
        .name = line->name,
        .label = h->label,
        .mode = mode,
        .permits = permits,
        .span = 1,
        .state = h->state,
    };
    h->client = client;
    h->line = line;
    h->span_ns = h->max_hold_ns = h->own_max_hold_ns = SNIB__NEVER;
    h->timer.fire = on_timer;
    snib__action_init(&h->action, perform);
    snib__list_init(&h->leases);
    snib__list_init(&h->verifiers);
    snib__list_append(&line->holds, &h->in_line);
    snib__list_append(&client->all_holds, &h->in_client);
    line->users++;
    client->holds++;
    client->refs++;
    h->stage = SNIB__STAGE_ASKED;
    snib__hold_count(h);
    return h;
}

struct snib__hold *snib__hold_make(struct snib__request *r)
{
    const snib_options *o = &r->options;
    struct snib__hold *h = make(r->client, r->line, o->mode, o->permits);
    if (!h) {
        return NULL;
    }
    if (o->label) {
        strcpy(h->label, o->label); /* checked: at most SNIB__LABEL_MAX */
    }
    h->claim.ttl_ms = o->ttl_ms;
    h->claim.span = snib__passing_wanted(r);
    h->claim.may_queue = o->wait_ms != 0;
    h->claim.listens = o->on_event != NULL;
    if (!h->claim.session->engine->nameless) {
        snib__random(h->claim.owner, sizeof h->claim.owner);
    }
    h->request = r;
    h->owner = o->owner;
    h->no_renew = (o->flags & SNIB_NO_RENEW) != 0;
    h->own_max_hold_ns = o->max_hold_ms ? o->max_hold_ms * SNIB__MS : SNIB__NEVER;
    snib__max_hold_set(h);
    if (o->wait_ms != 0) {
        h->lined_up = true;
        h->line->asking++;
        h->line->asking_mode = o->mode;
    }
    return h;
}

struct snib__hold *snib__hold_adopt(snib *client, struct snib__line *line, int mode,
                                    unsigned permits, const unsigned char owner[16])
{
    struct snib__hold *h = make(client, line, mode, permits);
    if (h) {
        h->claim.adopted = true;
        h->claim.ttl_ms = client->session.ttl_ms;
        memcpy(h->claim.owner, owner, sizeof h->claim.owner);
        h->started = true; /* by the one who is dead */
    }
    return h;
}

void snib__hold_leave(struct snib__hold *h)
{
    assert(h->stage < SNIB__STAGE_RELEASING);
    h->untold = !h->releaser;
    h->client->untold += h->untold;
    h->request = NULL;
    snib__renewal_end(h);
    snib__lease_answer(h, h->lost ? SNIB_ELOST : SNIB_ESTATE);
    snib__timer_clear(&h->client->timers, &h->timer);
    snib__hold_move(h, SNIB__STAGE_RELEASING);
    snib__hold_do(h, SNIB__TODO_RELEASE);
    snib__line_admit(h->client, h->line);
}

void snib__hold_drop(struct snib__hold *h)
{
    if (h->stage != SNIB__STAGE_RELEASED || h->lease_count) {
        return;
    }
    snib *client = h->client;
    snib__list_remove(&h->in_line);
    snib__list_remove(&h->in_client);
    h->line->users--;
    snib__line_put(client, h->line);
    free(h->note);
    if (!client->spare && client->opened) {
        client->spare = h;
    } else {
        free(h);
    }
    snib__unref(client);
}

void snib__hold_end(struct snib__hold *h)
{
    snib *client = h->client;
    snib__hold_move(h, SNIB__STAGE_RELEASED);
    snib__action_drop(&h->action);
    snib__timers_leave(&client->timers, &h->timer);
    client->untold -= h->untold;
    client->holds--;
    if (client->closer) {
        snib__close_check(client);
    }
    snib__hold_drop(h);
}

/* ---- Answers to an attempt -------------------------------------------------------------- */

/* A pause before the next attempt, with jitter so that many who were refused together do not
 * come back together; and if the deadline is near, one last attempt just before it. */
static void rest(struct snib__hold *h, int64_t asked_ms, int64_t first_ms, int64_t most_ms)
{
    struct snib__request *r = h->request;
    struct snib__instant now = snib__now();
    asked_ms = asked_ms < LONGEST_PAUSE_MS ? asked_ms : LONGEST_PAUSE_MS;
    if (asked_ms <= 0) {
        r->rest_ms = r->rest_ms < first_ms ? first_ms : r->rest_ms * 2;
        r->rest_ms = r->rest_ms > most_ms ? most_ms : r->rest_ms;
        asked_ms = r->rest_ms;
    }
    int64_t pause_ns = snib__jitter(asked_ms * SNIB__MS);
    int64_t left_ns = snib__request_left_ns(r, now);
    if (left_ns != SNIB__NEVER && pause_ns >= left_ns) {
        int64_t spare_ns = left_ns / 8 < 10 * SNIB__MS ? left_ns / 8 : 10 * SNIB__MS;
        if (left_ns > 2 * SNIB__MS) {
            pause_ns = left_ns - spare_ns;
        }
    }
    if (h->stage != SNIB__STAGE_RESTING) {
        snib__hold_move(h, SNIB__STAGE_RESTING);
    }
    snib__timer_set(&h->client->timers, &h->timer, snib__later(now.boot_ns, pause_ns));
}

static void on_busy(struct snib__hold *h, const struct snib__result *result)
{
    struct snib__request *r = h->request;
    snib__request_news(r, result);
    if (r->options.wait_ms == 0) {
        snib__request_refuse(r);
    } else if (h->stage == SNIB__STAGE_PARKED) { /* the engine says: worth an attempt now */
        snib__hold_move(h, SNIB__STAGE_ASKED);
        snib__hold_do(h, SNIB__TODO_ATTEMPT);
    } else {
        rest(h, result->retry_ms, 5, 250);
    }
}

static void on_unknown(struct snib__hold *h, const struct snib__result *result)
{
    struct snib__request *r = h->request;
    if (r->options.wait_ms == 0) {
        snib__request_finish(r, SNIB_EUNKNOWN);
    } else {
        snib__request_silence(r, result->reason);
        rest(h, 0, 100, 2000);
    }
}

static void on_failed(struct snib__hold *h, const struct snib__result *result)
{
    struct snib__request *r = h->request;
    int code = result->code < 0 ? result->code : SNIB_EPROTO;
    bool stays = h->client->contact.made || r->options.flags & SNIB_RETRY;
    if (code == SNIB_EUNREACH && stays && r->options.wait_ms != 0) {
        on_unknown(h, result); /* it will be back */
        return;
    }
    snib__fail(r->err, code, result->sys, "%s: lock '%s': %s", h->claim.session->engine->scheme,
               h->claim.name, result->reason ? result->reason : snib_strerror(code));
    snib__request_finish(r, code);
}

/* ---- Granted ---------------------------------------------------------------------------- */

/* Too little left although the engine answered promptly: give it back, as asked. */
static void give_back(struct snib__hold *h, int64_t left_ns)
{
    struct snib__request *r = h->request;
    snib__fail(r->err, SNIB_ELOST, 0, "%s: lock '%s' granted with %lld ms left, %lld wanted",
               h->claim.session->engine->scheme, h->claim.name, (long long)(left_ns / SNIB__MS),
               (long long)r->options.min_left_ms);
    snib__request_finish(r, SNIB_ELOST);
}

void snib__hold_own(struct snib__hold *h)
{
    struct snib__request *r = h->request;
    snib *client = h->client;
    r->lease = snib__lease_of(h, r);
    if (!r->lease) {
        snib__fail(r->err, SNIB_ENOMEM, 0, "out of memory");
        snib__request_finish(r, SNIB_ENOMEM);
        return;
    }
    if (h->passes) {
        h->line->passer = h;
    }
    snib__lease_begin(h);
    snib__request_finish(r, SNIB_OK);
    snib__requests_reenter(h);
    snib__line_admit(client, h->line);
}

/* Is it news of just now? Handed over for a moment, it must be renewed once where nobody renews. */
static bool fresh(const struct snib__hold *h)
{
    if (h->span_ns == SNIB__NEVER) {
        return true;
    }
    return snib__elapsed_ns(h->since, h->granted) < h->lease_ns / 3 &&
           (!h->no_renew || h->lease_ns >= h->claim.ttl_ms * SNIB__MS);
}

static void on_grant(struct snib__hold *h, const struct snib__result *result)
{
    struct snib__request *r = h->request;
    snib__timer_clear(&h->client->timers, &h->timer);
    h->token = h->granted_token = result->token;
    snib__validity_set(h, result->since, result->lease_ms);
    if (!snib__validity_limited(h)) {
        snib__hold_own(h);
        return;
    }
    h->granted = snib__now();
    snib__passing_begin(h, result->span);
    int64_t left_ns = snib__validity_left_ns(h, h->granted);
    int64_t wanted_ns = r->options.min_left_ms * SNIB__MS;
    if (fresh(h) && (left_ns > wanted_ns || !wanted_ns)) {
        snib__hold_own(h);
        if (result->reason && h->stage == SNIB__STAGE_HELD) {
            snib__lease_note(h, result->reason);
        }
    } else if (h->span_ns == SNIB__NEVER) {
        give_back(h, left_ns); /* max_hold is shorter than min_left: refused earlier */
    } else {
        snib__hold_move(h, SNIB__STAGE_PROVING);
        h->proofs = 0;
        snib__renewal_urge(h);
    }
}

/* What we were told we had is gone, or cannot be proved in time: start again under a new id. */
static void claim_anew(struct snib__hold *h)
{
    struct snib__request *r = h->request;
    if (r->options.wait_ms == 0) {
        snib__request_finish(r, SNIB_EUNKNOWN);
        return;
    }
    r->hold = NULL;
    /* First in line again, ahead of those behind it: leaving must not let them pass. */
    h->request = NULL;
    h->line->closed = true;
    snib__hold_leave(h);
    h->line->closed = false;
    snib__request_again(r);
    if (!r->finished && ++r->anew > ANEW_AT_ONCE) { /* not round and round without a breath */
        h = r->hold;
        h->todo = SNIB__TODO_NOTHING;
        snib__action_drop(&h->action);
        rest(h, 0, 5, 250);
    }
}

static void on_proof(struct snib__hold *h, const struct snib__result *result)
{
    struct snib__request *r = h->request;
    struct snib__instant now = snib__now();
    if (result->status == SNIB__HELD) {
        snib__passing_end(h); /* the old grant may have ended, */
        if (result->token) {  /* and the claim been granted again */
            h->token = h->granted_token = result->token;
        }
        snib__validity_set(h, result->since, result->lease_ms);
        h->granted = now;
        int64_t left_ns = snib__validity_left_ns(h, now);
        if (left_ns > r->options.min_left_ms * SNIB__MS) {
            snib__hold_own(h);
            return;
        }
        if (left_ns > 0) {
            give_back(h, left_ns);
            return;
        }
    }
    bool over = result->status == SNIB__LOST || snib__validity_left_ns(h, now) <= 0;
    if (over || ++h->proofs >= PROOFS_MOST) {
        claim_anew(h);
        return;
    }
    snib__timer_set(&h->client->timers, &h->timer, snib__later(now.boot_ns, PROOF_PAUSE_NS));
}

/* ---- The upcalls ------------------------------------------------------------------------ */

static void on_attempt(struct snib__hold *h, const struct snib__result *result)
{
    if (h->stage > SNIB__STAGE_RESTING) {
        return; /* late or repeated: whatever it says, a newer answer counts */
    }
    if (h->todo == SNIB__TODO_ATTEMPT) { /* about to be sent: that answer will be newer */
        if (result->status != SNIB__HELD && result->status != SNIB__FAILED) {
            return;
        }
        h->todo = SNIB__TODO_NOTHING;
        snib__action_drop(&h->action);
    }
    switch (result->status) {
    case SNIB__HELD:
        on_grant(h, result);
        break;
    case SNIB__QUEUED:
        if (!h->claim.may_queue) { /* an engine that does not read what it is told */
            on_busy(h, result);
            break;
        }
        snib__timer_clear(&h->client->timers, &h->timer);
        snib__hold_move(h, SNIB__STAGE_PARKED);
        snib__request_news(h->request, result);
        break;
    case SNIB__BUSY:
        on_busy(h, result);
        break;
    case SNIB__FAILED:
        on_failed(h, result);
        break;
    default:
        on_unknown(h, result);
        break;
    }
}

static void on_renewal(struct snib__hold *h, const struct snib__result *result)
{
    snib__renewal_answered(h);
    if (h->stage == SNIB__STAGE_PROVING) {
        on_proof(h, result);
    } else if (h->stage >= SNIB__STAGE_HELD && h->stage < SNIB__STAGE_RELEASING) {
        h->client->stats.renewals += result->status == SNIB__HELD ? 1U : 0U;
        snib__lease_renewed(h, result);
    }
}

void snib__answer(struct snib__claim *claim, enum snib__verb verb,
                  const struct snib__result *result)
{
    struct snib__hold *h = SNIB__OF(claim, struct snib__hold, claim);
    h->client->answered = true;
    if (verb != SNIB__RELEASE) { /* which an engine may answer by itself */
        snib__contact_judge(h->client, result);
    }
    switch (verb) {
    case SNIB__ATTEMPT:
        on_attempt(h, result);
        break;
    case SNIB__RENEW:
        on_renewal(h, result);
        break;
    case SNIB__RELEASE:
        assert(h->stage == SNIB__STAGE_RELEASING);
        if (h->releaser) {
            h->releaser->status = result->status;
            if (result->status != SNIB__FREED) {
                strcpy(h->releaser->name, h->line->name);
                snprintf(h->releaser->why, sizeof h->releaser->why, "%s",
                         result->reason ? result->reason : "");
            }
            h->releaser->answered(h->client, h->releaser);
        }
        snib__hold_end(h);
        break;
    }
}

void snib__report(struct snib__claim *claim, enum snib_state state, const char *why)
{
    struct snib__hold *h = SNIB__OF(claim, struct snib__hold, claim);
    h->client->answered = true;
    if (state != SNIB_LOST && state != SNIB_DOUBTFUL) {
        return;
    }
    if (h->stage == SNIB__STAGE_PARKED && state == SNIB_LOST) { /* our place in the queue is gone */
        snib__hold_move(h, SNIB__STAGE_ASKED);
        snib__hold_do(h, SNIB__TODO_ATTEMPT);
    } else if (h->stage == SNIB__STAGE_PROVING && state == SNIB_LOST) {
        claim_anew(h);
    } else if (snib__hold_valid(h)) {
        if (state == SNIB_LOST) {
            snib__lease_lose(h, why);
        } else {
            snib__lease_doubt(h, why);
        }
    }
}

void snib__report_session(struct snib__session *session, enum snib_state state, const char *why)
{
    snib *client = SNIB__OF(session, struct snib, session);
    struct snib__list now; /* those there are; what follows from one may make new ones */
    snib__list_init(&now);
    while (!snib__list_empty(&client->all_holds)) {
        struct snib__list *l = client->all_holds.after;
        snib__list_remove(l);
        snib__list_append(&now, l);
    }
    while (!snib__list_empty(&now)) {
        struct snib__hold *h = SNIB__OF(now.after, struct snib__hold, in_client);
        snib__list_remove(&h->in_client);
        snib__list_append(&client->all_holds, &h->in_client);
        snib__report(&h->claim, state, why);
    }
}
