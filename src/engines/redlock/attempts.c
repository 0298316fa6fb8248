/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds: one id, all servers, until a majority has granted it or can no longer.
 *
 * First attempt. All at once.
 *
 * Those who wait. One server first, the same for everybody, and the others as soon as that one has
 * said yes: a crowd that is told "free" meets there, and only one of it goes on, instead of all of
 * them taking a server each. Who has that one asks those again that are busy, a few times: a
 * release reaches them a moment later. Who was told nothing since its last round asks all at once:
 * the first server may keep what is over.
 *
 * A majority has it, with different tokens. The largest is told to all; granted when a majority has
 * that one.
 *
 * Not granted. Given back everywhere, also where no answer came, on the same connections; the id is
 * spent, and the next round has another.
 *
 * What a server says while it may not vote is given back there, and counts for nothing.
 */
#include "engines/redlock/attempts.h"

#include "engines/redlock/debts.h"
#include "engines/redlock/servers.h"
#include "engines/redlock/waits.h"

#include <stdio.h>
#include <string.h>

#define AGAINS 4       /* times that busy servers are asked again by whoever has the first, */
#define AGAIN_MS 3     /* after this long, and then twice as long each time */
#define ELSEWHERE_MS 5 /* a server that is not asked first was told to be free: so will be that */
#define SPLIT_MS 40    /* nobody has a majority: a random part of that, and more each time */
#define COMPLETE_MS 50
#define GONE_NS (500 * SNIB__MS) /* silent for so long: the next one is asked first */

static void answer(struct snib__redlock_bid *b, const struct snib__result *result)
{
    b->owes = false;
    snib__answer(b->claim, SNIB__ATTEMPT, result);
}

/* The core decides what comes next. */
static void set_idle(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    snib__waits_leave(r, b);
    snib__redlock_delist(r, b);
    b->phase = SNIB__REDLOCK_IDLE;
    b->due_ns = b->again_ns = SNIB__NEVER;
}

void snib__redlock_fail(struct snib__redlock *r, struct snib__redlock_bid *b, int code,
                        const char *why)
{
    struct snib__result failed = {.status = SNIB__FAILED, .code = code, .reason = why};
    snib__redlock_give_back(r, b);
    set_idle(r, b);
    answer(b, &failed);
}

/* ---- Not granted ------------------------------------------------------------------------ */

static unsigned explain(struct snib__redlock *r, const struct snib__redlock_bid *b, char *out,
                        size_t size)
{
    bool missing[SNIB__SERVERS_MOST] = {false};
    unsigned count = 0;
    char which[340];
    for (unsigned i = 0; i < r->count; i++) {
        unsigned char state = b->round.seats[i].state;
        missing[i] = state == SNIB__SEAT_OUT || state == SNIB__SEAT_SILENT;
        count += missing[i];
    }
    snib__servers_explain(which, sizeof which, r, missing);
    snprintf(out, size, "%u of %u servers can vote, %u are needed; not %s", r->count - count,
             r->count, snib__redlock_quorum(r), which);
    return count;
}

/* The longest that those must be waited for without whom there is no majority; 0: not that. */
static int64_t quarantine_ms(struct snib__redlock *r)
{
    int64_t waits[SNIB__SERVERS_MOST], most = 0;
    unsigned free = 0;
    for (unsigned i = 0; i < r->count; i++) {
        waits[i] = snib__server_waits_ms(&r->servers[i]);
        free += waits[i] == 0 && !r->servers[i].silent;
        most = waits[i] > most ? waits[i] : most;
    }
    return free < snib__redlock_quorum(r) ? most : 0;
}

/* Too few servers can vote, whoever has it. */
static void answer_too_few(struct snib__redlock *r, struct snib__redlock_bid *b, bool perhaps)
{
    char why[480];
    int64_t left_ms = quarantine_ms(r);
    explain(r, b, why, sizeof why);
    set_idle(r, b);
    if (left_ms > 0) {
        struct snib__result busy = {
            .status = SNIB__BUSY,
            .retry_ms = left_ms < 1000 ? left_ms + 1 : 1000,
            .holder_left_ms = left_ms,
            .code = SNIB_EUNSAFE,
            .reason = why,
        };
        answer(b, &busy);
    } else if (perhaps && !b->code) {
        struct snib__result unknown = {.status = SNIB__UNKNOWN, .reason = why};
        answer(b, &unknown);
    } else {
        struct snib__result failed = {
            .status = SNIB__FAILED, .code = b->code ? b->code : SNIB_EUNREACH, .reason = why};
        answer(b, &failed);
    }
}

static int64_t within(int64_t number, int64_t least, int64_t most)
{
    return number < least ? least : number > most ? most : number;
}

static int64_t recheck_ms(const struct snib__redlock *r, const struct snib__redlock_bid *b)
{
    int64_t third = b->claim->ttl_ms / 3;
    int64_t soon = third < r->layout->recheck_ms ? third : r->layout->recheck_ms;
    bool deaf = b->holder_token == 0 || !snib__waits_hears(r, b);
    int64_t most = deaf ? r->layout->strangers_ms : soon;
    return b->holder_left_ms ? within(b->holder_left_ms + 2, 2, most) : most;
}

static void wait_for(struct snib__redlock_bid *b, int64_t after_ms)
{
    int64_t now_ns = snib__now().boot_ns;
    b->phase = SNIB__REDLOCK_WAITING;
    b->due_ns = SNIB__NEVER;
    b->again_ns = snib__later(now_ns, snib__jitter(after_ms * SNIB__MS));
}

/* Another has it, or several have parts of it. */
static void answer_busy(struct snib__redlock *r, struct snib__redlock_bid *b, bool split)
{
    bool known = !b->owes && (b->known_token == b->holder_token || !b->holder_token || split);
    struct snib__result busy = {
        .status = b->claim->may_queue ? SNIB__QUEUED : SNIB__BUSY,
        .holder_token = b->holder_token,
        .holder_left_ms = b->holder_left_ms,
        .holder = b->holder[0] ? b->holder : NULL,
    };
    if (!b->claim->may_queue) {
        set_idle(r, b);
        answer(b, &busy);
        return;
    }
    bool told = b->told_ns >= b->began_ns; /* while this round was under way */
    snib__waits_join(r, b);
    b->splits = split ? (unsigned char)within(b->splits + 1, 1, 6) : 0;
    wait_for(b, split ? SPLIT_MS * b->splits / 2 : told ? AGAIN_MS : recheck_ms(r, b));
    if (!known) {
        b->known_token = b->holder_token;
        answer(b, &busy);
    }
}

static void deny(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    unsigned has = snib__round_count(&b->round, SNIB__SEAT_HAS);
    unsigned busy = snib__round_count(&b->round, SNIB__SEAT_BUSY), missing = 0;
    bool perhaps = false;
    for (unsigned i = 0; i < r->count; i++) {
        const struct snib__seat *seat = &b->round.seats[i];
        perhaps |= seat->flying > 0;
        /* Somebody is in the way, and a server is slow: that is no outage yet. */
        missing += seat->state == SNIB__SEAT_OUT ||
                   (seat->state == SNIB__SEAT_SILENT &&
                    (busy == 0 || snib__server_is_gone(&r->servers[i], GONE_NS)));
    }
    if (r->count - missing < snib__redlock_quorum(r)) {
        struct snib__round was = b->round;
        snib__redlock_give_back(r, b);
        b->round = was; /* who did not vote is in there */
        answer_too_few(r, b, perhaps);
        for (unsigned i = 0; i < r->count; i++) {
            snib__round_set(&b->round, i, SNIB__SEAT_EMPTY);
            b->round.seats[i].flying = 0;
        }
        return;
    }
    snib__redlock_give_back(r, b);
    if (busy == 0 && !b->claim->may_queue) { /* nobody else was seen: it is not told "held" */
        struct snib__result unknown = {.status = SNIB__UNKNOWN,
                                       .reason = "the servers were too slow to agree"};
        set_idle(r, b);
        answer(b, &unknown);
        return;
    }
    answer_busy(r, b, has > 0);
}

/* ---- Granted ---------------------------------------------------------------------------- */

static void grant(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    char note[200];
    struct snib__result held = {.status = SNIB__HELD, .token = b->token};
    (void)snib__round_lease(&b->round, &held.since, &held.lease_ms);
    snib__waits_leave(r, b);
    b->phase = SNIB__REDLOCK_HELD;
    b->agains = b->splits = 0;
    b->doubtful = false;
    b->due_ns = snib__redlock_due_ns(r);
    /* The others answer in a moment; those that do not are asked again. */
    b->again_ns = snib__later(snib__now().boot_ns, COMPLETE_MS * SNIB__MS);
    for (unsigned i = 0; i < r->count; i++) {
        if (b->round.seats[i].state == SNIB__SEAT_HAS) {
            const char *said = snib__node_held(&r->servers[i].node, note);
            held.reason = said ? said : held.reason;
        }
    }
    answer(b, &held);
}

static bool fenced(const struct snib__redlock *r)
{
    return r->session->values[SNIB__REDLOCK_FENCING].number != 0;
}

/* A majority has it. Has it the same token? */
static void settle_token(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    if (b->phase == SNIB__REDLOCK_ASKING) {
        b->token = snib__round_token(&b->round);
        b->phase = SNIB__REDLOCK_AGREEING;
        b->extended = false; /* slow servers are waited for here as before */
        b->due_ns = snib__redlock_due_ns(r);
        for (unsigned i = 0; fenced(r) && i < r->count; i++) {
            const struct snib__seat *seat = &b->round.seats[i];
            if (snib__round_agreed(&b->round, b->token) != SNIB__GRANTED &&
                seat->state == SNIB__SEAT_HAS && seat->token < b->token) {
                b->round.seats[i].declines = !snib__redlock_ask_agree(&r->servers[i], b, NULL);
                snib__node_flush(&r->servers[i].node);
            }
        }
    }
    switch (fenced(r) ? snib__round_agreed(&b->round, b->token) : SNIB__GRANTED) {
    case SNIB__GRANTED:
        grant(r, b);
        break;
    case SNIB__PENDING:
        break;
    default:
        deny(r, b);
        break;
    }
}

/* ---- A round ---------------------------------------------------------------------------- */

static void ask(struct snib__redlock *r, struct snib__redlock_bid *b, unsigned server)
{
    struct snib__server *s = &r->servers[server];
    if (!snib__server_votes(s)) {
        snib__round_set(&b->round, server, SNIB__SEAT_OUT);
    } else if (!snib__redlock_ask_attempt(s, b, NULL)) {
        snprintf(s->trouble, sizeof s->trouble, "out of memory");
        snib__round_set(&b->round, server, SNIB__SEAT_OUT);
    } else {
        snib__node_flush(&s->node);
    }
}

static void ask_rest(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    b->lead = r->count;
    b->due_ns = snib__redlock_due_ns(r);
    for (unsigned i = 0; i < r->count; i++) {
        if (b->round.seats[i].state == SNIB__SEAT_EMPTY) {
            ask(r, b, i);
        }
    }
}

/* Whoever has the first server asks the busy ones again, for a moment. */
static bool persists(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    bool leads = b->round.seats[b->first].state == SNIB__SEAT_HAS;
    unsigned may = snib__round_count(&b->round, SNIB__SEAT_HAS) +
                   snib__round_count(&b->round, SNIB__SEAT_BUSY);
    if (!leads || may < snib__redlock_quorum(r) || b->agains >= AGAINS) {
        return false;
    }
    if (b->again_ns == SNIB__NEVER) {
        int64_t after_ns = (AGAIN_MS * SNIB__MS) << b->agains++;
        b->again_ns = snib__later(snib__now().boot_ns, after_ns);
    }
    return true;
}

/* Whether two of them are one is known when all have said who they are; in the first round of a
 * client they are waited for. */
static bool all_met(const struct snib__redlock *r, const struct snib__redlock_bid *b)
{
    for (unsigned i = 0; i < r->count; i++) {
        if (b->round.seats[i].state == SNIB__SEAT_ASKED && !r->servers[i].silent &&
            !r->servers[i].node.greeting.done && r->servers[i].node.greetings <= 1) {
            return false;
        }
    }
    return true;
}

static void consider(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    if (b->phase == SNIB__REDLOCK_AGREEING) {
        settle_token(r, b);
        return;
    }
    if (b->lead < r->count) {
        unsigned char state = b->round.seats[b->lead].state;
        if (state == SNIB__SEAT_ASKED) {
            return;
        }
        if (state != SNIB__SEAT_BUSY) {
            ask_rest(r, b);
        }
        for (unsigned i = 0; i < r->count && state == SNIB__SEAT_BUSY; i++) {
            if (b->round.seats[i].state == SNIB__SEAT_EMPTY &&
                (snib__server_is_gone(&r->servers[i], GONE_NS) ||
                 !snib__server_votes(&r->servers[i]))) {
                snib__round_set(&b->round, i, SNIB__SEAT_OUT); /* would not have voted */
            }
        }
    }
    switch (b->lead < r->count ? SNIB__DENIED : snib__round_verdict(&b->round)) {
    case SNIB__GRANTED:
        if (all_met(r, b)) {
            settle_token(r, b);
        }
        break;
    case SNIB__PENDING:
        break;
    default:
        if (!persists(r, b)) {
            deny(r, b);
        }
        break;
    }
}

/* The first in everybody's order of those that answer. */
static unsigned choose_lead(struct snib__redlock *r)
{
    for (unsigned i = 0; i < r->count; i++) {
        struct snib__server *s = &r->servers[r->order[i]];
        if (!snib__server_is_gone(s, GONE_NS) && snib__server_votes(s)) {
            return r->order[i];
        }
    }
    return r->count;
}

static void begin(struct snib__redlock *r, struct snib__redlock_bid *b, bool at_once)
{
    if (b->spent) {
        snib__random(b->claim->owner, sizeof b->claim->owner);
        b->spent = false;
    }
    b->turn++;
    b->code = 0;
    b->phase = SNIB__REDLOCK_ASKING;
    b->agains = 0;
    b->extended = false;
    b->again_ns = SNIB__NEVER;
    b->began_ns = snib__now().boot_ns;
    b->due_ns = snib__redlock_due_ns(r);
    b->least_token = snib__redlock_least_token(r);
    b->holder_left_ms = 0;
    b->holder_token = 0;
    b->holder_votes = 0;
    b->holder[0] = '\0';
    snib__round_begin(&b->round, r->count);
    if (!snib__redlock_enlist(r, b)) {
        snib__redlock_fail(r, b, SNIB_ENOMEM, "out of memory");
        return;
    }
    b->lead = choose_lead(r);
    b->first = b->lead < r->count ? b->lead : 0;
    if (at_once || b->lead == r->count) {
        ask_rest(r, b);
    } else {
        ask(r, b, b->lead);
        b->due_ns = snib__later(b->began_ns, GONE_NS);
    }
    consider(r, b);
}

void snib__redlock_try(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    begin(r, b, b->turn == 0);
}

/* ---- What servers say ------------------------------------------------------------------- */

/* It counts for nothing, and is given back there. The id is not spent elsewhere: this server is not
 * asked again for it. */
static void undo(struct snib__server *s, struct snib__redlock_bid *b)
{
    unsigned char id[SNIB__ID_SIZE];
    snib__redlock_id(b, id);
    (void)snib__redlock_owe(s, b->claim->name, id, b->round.seats[s->index].loose_ms,
                            b->claim->ttl_ms);
    b->spent = true;
}

static void on_yes(struct snib__server *s, struct snib__redlock_bid *b,
                   const struct snib__redis_call *call, const struct snib__layout_answer *a)
{
    struct snib__instant since = call->sent;
    if (a->left_ms < call->ttl_ms) { /* "yours already": of a lease that began earlier */
        int64_t gone_ns = (call->ttl_ms - a->left_ms) * SNIB__MS;
        since.boot_ns -= gone_ns;
        since.raw_ns -= gone_ns;
    }
    s->trouble[0] = '\0';
    snib__round_yes(&b->round, s->index, since, call->ttl_ms, a->token);
}

static void on_busy(struct snib__server *s, struct snib__redlock_bid *b,
                    const struct snib__layout_answer *a)
{
    s->trouble[0] = '\0';
    snib__round_set(&b->round, s->index, SNIB__SEAT_BUSY);
    b->holder_token = a->holder_token;
    b->holder_left_ms =
        a->holder_left_ms > b->holder_left_ms ? a->holder_left_ms : b->holder_left_ms;
    snprintf(b->holder, sizeof b->holder, "%s", a->holder);
}

static bool fits(struct snib__server *s, struct snib__redlock_bid *b, bool jumped)
{
    struct snib__server *twin = snib__server_twin(s);
    if (twin) {
        char why[400];
        snib__server_twin_text(why, sizeof why, s, twin);
        snib__redlock_fail(s->session, b, SNIB_EUNSAFE, why);
        return false;
    }
    if (!snib__server_votes(s) || jumped) {
        snib__round_set(&b->round, s->index, SNIB__SEAT_OUT);
        return false;
    }
    return true;
}

/* Of a round that is over, or of one that is given up, nothing counts: it was given back. */
void snib__redlock_on_attempt(struct snib__server *s, struct snib__redlock_bid *b,
                              struct snib__redis_call *call, const struct snib__layout_answer *a)
{
    bool jumped = a->now_ms && snib__server_learn_time(s, call, a->now_ms);
    if (call->turn != b->turn || b->phase == SNIB__REDLOCK_IDLE ||
        b->phase == SNIB__REDLOCK_WAITING || b->phase == SNIB__REDLOCK_RELEASING) {
        return;
    }
    snib__round_landed(&b->round, s->index);
    bool held = b->phase == SNIB__REDLOCK_HELD;
    bool yes = a->word == SNIB__ANSWER_HELD;
    if (!held && !fits(s, b, jumped)) {
        if (yes && b->phase != SNIB__REDLOCK_IDLE) {
            undo(s, b);
        }
        if (b->phase == SNIB__REDLOCK_IDLE) {
            return;
        }
    } else if (yes && (!held || (snib__server_votes(s) && !snib__server_twin(s) && !jumped))) {
        on_yes(s, b, call, a);
        if (held) {
            char note[200];
            (void)snib__node_held(&s->node, note); /* its run is worth remembering */
        }
        if (held && a->token != b->token && fenced(s->session)) { /* for those who look */
            (void)snib__redlock_ask_agree(s, b, NULL);
            snib__node_flush(&s->node);
        }
    } else if (yes) {
        if (!snib__server_twin(s)) { /* there it is the same key as under its other name */
            undo(s, b);
        }
        snib__round_set(&b->round, s->index, SNIB__SEAT_OUT);
    } else if (a->word == SNIB__ANSWER_BUSY) {
        on_busy(s, b, a);
    } else {
        snprintf(s->trouble, sizeof s->trouble, "the request was late");
        snib__round_set(&b->round, s->index, SNIB__SEAT_OUT);
    }
    if (!held) {
        consider(s->session, b);
    }
}

void snib__redlock_on_agree(struct snib__server *s, struct snib__redlock_bid *b,
                            const struct snib__redis_call *call,
                            const struct snib__layout_answer *a)
{
    struct snib__seat *seat = &b->round.seats[s->index];
    if (call->turn != b->turn ||
        (b->phase != SNIB__REDLOCK_AGREEING && b->phase != SNIB__REDLOCK_HELD)) {
        return;
    }
    if (seat->state == SNIB__SEAT_HAS && a->word == SNIB__ANSWER_HELD) {
        seat->token = a->token;
        seat->declines = a->token != b->token;
    } else {
        snib__round_set(&b->round, s->index, SNIB__SEAT_EMPTY);
    }
    if (b->phase == SNIB__REDLOCK_AGREEING) {
        consider(s->session, b);
    }
}

/* `call` was refused, or lost for good; the server's trouble says why. */
void snib__redlock_on_refusal(struct snib__server *s, struct snib__redlock_bid *b,
                              struct snib__redis_call *call, int code)
{
    if (call->turn != b->turn || b->phase == SNIB__REDLOCK_IDLE ||
        b->phase == SNIB__REDLOCK_WAITING || b->phase == SNIB__REDLOCK_RELEASING) {
        return;
    }
    if (call->kind == SNIB__VOTE_AGREE) {
        b->round.seats[s->index].declines = true;
    } else {
        snib__round_set(&b->round, s->index, SNIB__SEAT_OUT);
    }
    if (b->phase == SNIB__REDLOCK_HELD) {
        return;
    }
    b->code = code ? code : b->code;
    consider(s->session, b);
}

/* ---- Time ------------------------------------------------------------------------------- */

void snib__redlock_told(struct snib__redlock *r, struct snib__redlock_bid *b,
                        const struct snib__server *s)
{
    int64_t now_ns = snib__now().boot_ns;
    b->told_ns = now_ns;
    if (b->phase == SNIB__REDLOCK_WAITING && b->splits == 0) {
        bool first = s->index == b->first;
        int64_t at_ns = first ? now_ns : snib__later(now_ns, ELSEWHERE_MS * SNIB__MS);
        b->again_ns = at_ns < b->again_ns ? at_ns : b->again_ns;
        snib__redlock_rearm(r, b);
    }
}

void snib__redlock_attempt_late(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    bool lacks =
        b->phase == SNIB__REDLOCK_AGREEING || snib__round_verdict(&b->round) != SNIB__GRANTED;
    bool extends = !b->extended && b->lead == r->count && lacks;
    b->due_ns = SNIB__NEVER;
    for (unsigned i = 0; i < r->count; i++) {
        struct snib__seat *seat = &b->round.seats[i];
        bool agrees = b->phase == SNIB__REDLOCK_AGREEING && seat->state == SNIB__SEAT_HAS &&
                      seat->token < b->token;
        if (seat->state == SNIB__SEAT_ASKED || agrees) {
            snib__server_unheard(&r->servers[i], "no answer in time");
            seat->declines = agrees && !extends;
        }
    }
    if (extends) { /* without them there is nothing to be had; one who only tries is not
                    * told "busy" because a server is slow */
        b->extended = true;
        b->due_ns = !b->claim->may_queue ? snib__redlock_long_due_ns(r)
                                         : snib__later(snib__now().boot_ns, GONE_NS);
        return;
    }
    snib__round_late(&b->round);
    consider(r, b);
}

void snib__redlock_attempt_again(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    b->again_ns = SNIB__NEVER;
    if (b->phase == SNIB__REDLOCK_WAITING) {
        /* Nobody was told anything since: the first server alone may have what is over. */
        begin(r, b, b->told_ns < b->began_ns);
        return;
    }
    for (unsigned i = 0; b->phase == SNIB__REDLOCK_ASKING && i < r->count; i++) {
        if (b->round.seats[i].state == SNIB__SEAT_BUSY) {
            ask(r, b, i);
        }
    }
    b->due_ns = snib__redlock_due_ns(r);
}
