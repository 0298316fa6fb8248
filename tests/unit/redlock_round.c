/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The votes of the Redlock engine, driven by hand, by chance, and through every order of events of
 * a small world: servers with clocks of their own that may forget or jump, messages that are late
 * or never arrive, clients that stop anywhere. What the clients do with the answers is round.c and
 * clocks.c as they ship; the servers and what is between are models: one key, one lease.
 *
 * Time is in ticks of a millisecond. Inside the assumptions (one server forgets or jumps and does
 * not vote for a lease after it) no two clients ever believe to hold; outside of them a double
 * holder must be found, and the token of the late one must be the smaller.
 */
#include "check.h"
#include "engines/redlock/clocks.h"
#include "engines/redlock/round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 2, MOST = 5, LEASE = 3, BASE = 1000 };

/* What is on its way between a client and a server, or was answered and not read. */
enum wire { QUIET, ATTEMPT, YES, BUSY, ATTEMPT_RELEASE, RELEASE, RENEW, KEPT, GONE };

struct place {
    unsigned char owner; /* client + 1; 0: free */
    short until;         /* by its own clock */
    short ahead;         /* its clock */
    short barred;        /* does not vote before this tick */
    short last;          /* token */
};

struct client {
    struct snib__round round;
    unsigned char wire[MOST];
    short sent[MOST], token[MOST];
    unsigned char phase; /* 0 not yet, 1 asking, 2 holds, 3 renewing, 4 over */
    unsigned char renewals, retakes;
    short grant_token;
};

struct toy {
    unsigned servers;
    bool renews;                  /* the first client, and takes again what a server lost */
    bool guarded;                 /* restarted and jumped servers do not vote */
    unsigned char crashes, jumps; /* that may still happen */
    short now;
    struct place places[MOST];
    struct client clients[CLIENTS];
};

static struct snib__instant at(short tick)
{
    int64_t ns = (BASE + tick) * SNIB__MS;
    return (struct snib__instant){.boot_ns = ns, .raw_ns = ns};
}

static bool believes(const struct toy *w, int c)
{
    const struct client *k = &w->clients[c];
    return (k->phase == 2 || k->phase == 3) && snib__round_may_retake(&k->round, at(w->now));
}

/* ---- What may happen -------------------------------------------------------------------- */

static void begin(struct toy *w, int c)
{
    struct client *k = &w->clients[c];
    snib__round_begin(&k->round, w->servers);
    k->phase = 1;
    for (unsigned s = 0; s < w->servers; s++) {
        k->wire[s] = ATTEMPT;
        k->sent[s] = w->now;
        snib__round_ask(&k->round, s, true, 1);
    }
}

static void expire(struct toy *w, unsigned s)
{
    struct place *p = &w->places[s];
    if (p->owner && w->now + p->ahead >= p->until) {
        p->owner = 0;
    }
}

/* The server executes what has arrived. */
static void execute(struct toy *w, int c, unsigned s)
{
    struct client *k = &w->clients[c];
    struct place *p = &w->places[s];
    expire(w, s);
    bool mine = p->owner == c + 1;
    switch (k->wire[s]) {
    case ATTEMPT:
    case ATTEMPT_RELEASE: {
        bool both = k->wire[s] == ATTEMPT_RELEASE;
        if (!p->owner) {
            short clock = (short)(w->now + p->ahead);
            p->owner = (unsigned char)(c + 1);
            p->until = (short)(clock + LEASE);
            p->last = p->last < clock ? clock : (short)(p->last + 1);
            mine = true;
        }
        k->token[s] = p->last;
        k->wire[s] = both ? RELEASE : mine ? YES : BUSY;
        break;
    }
    case RENEW:
        p->until = mine ? (short)(w->now + p->ahead + LEASE) : p->until;
        k->wire[s] = mine ? KEPT : GONE;
        break;
    default:
        p->owner = mine ? 0 : p->owner;
        k->wire[s] = QUIET;
        break;
    }
}

static void give_back(struct toy *w, int c)
{
    struct client *k = &w->clients[c];
    k->phase = 4;
    for (unsigned s = 0; s < w->servers; s++) {
        k->wire[s] = k->wire[s] == ATTEMPT ? ATTEMPT_RELEASE : RELEASE;
    }
}

/* The largest token is told to those who have it; it counts where no larger one was given. */
static bool agree(struct toy *w, int c)
{
    struct client *k = &w->clients[c];
    k->grant_token = (short)snib__round_token(&k->round);
    for (unsigned s = 0; s < w->servers; s++) {
        struct place *p = &w->places[s];
        struct snib__seat *seat = &k->round.seats[s];
        if (seat->state == SNIB__SEAT_HAS && p->owner == c + 1 && p->last < k->grant_token) {
            p->last = k->grant_token;
            seat->token = (uint64_t)k->grant_token;
        }
    }
    return snib__round_agreed(&k->round, (uint64_t)k->grant_token) == SNIB__GRANTED;
}

static void decide(struct toy *w, int c)
{
    struct client *k = &w->clients[c];
    if (k->phase == 1) {
        switch (snib__round_verdict(&k->round)) {
        case SNIB__GRANTED:
            if (agree(w, c)) {
                k->phase = 2;
            } else {
                give_back(w, c);
            }
            break;
        case SNIB__PENDING:
            break;
        default:
            give_back(w, c);
            break;
        }
    } else if (k->phase == 3) {
        switch (snib__round_renewed(&k->round)) {
        case SNIB__PENDING:
        case SNIB__UNSURE:
            break;
        case SNIB__DENIED:
            give_back(w, c);
            break;
        default:
            k->phase = 2;
            break;
        }
    }
}

/* The client reads an answer. */
static void hear(struct toy *w, int c, unsigned s)
{
    struct client *k = &w->clients[c];
    bool votes = !w->guarded || w->now >= w->places[s].barred;
    unsigned char word = k->wire[s];
    k->wire[s] = QUIET;
    if (word == YES || word == BUSY) {
        snib__round_landed(&k->round, s);
    }
    if (word == YES && !votes) {
        snib__round_set(&k->round, s, SNIB__SEAT_OUT);
        k->wire[s] = RELEASE;
    } else if (word == YES) {
        snib__round_yes(&k->round, s, at(k->sent[s]), LEASE, (uint64_t)k->token[s]);
    } else if (word == BUSY) {
        snib__round_set(&k->round, s, SNIB__SEAT_BUSY);
    } else if (word == KEPT) {
        snib__round_kept(&k->round, s, at(k->sent[s]), LEASE);
    } else {
        snib__round_gone(&k->round, s);
    }
    decide(w, c);
}

static void renew(struct toy *w, int c)
{
    struct client *k = &w->clients[c];
    k->phase = 3;
    k->renewals++;
    snib__round_renew(&k->round);
    for (unsigned s = 0; s < w->servers; s++) {
        if (k->round.seats[s].pending && k->wire[s] == QUIET) {
            k->wire[s] = RENEW;
            k->sent[s] = w->now;
        } else {
            snib__round_unheard(&k->round, s);
        }
    }
}

static void retake(struct toy *w, int c, unsigned s)
{
    struct client *k = &w->clients[c];
    k->retakes++;
    k->wire[s] = ATTEMPT;
    k->sent[s] = w->now;
    snib__round_ask(&k->round, s, false, 1);
}

static void crash(struct toy *w, unsigned s)
{
    w->crashes--;
    w->places[s].owner = 0;
    w->places[s].barred = (short)(w->now + LEASE + 1);
}

static void jump(struct toy *w, unsigned s)
{
    w->jumps--;
    w->places[s].ahead = (short)(w->places[s].ahead + LEASE);
    w->places[s].barred = (short)(w->now + LEASE + 1);
}

/* ---- Every order ------------------------------------------------------------------------ */

struct search {
    uint64_t *seen;
    size_t room, states, doubles;
    short ticks;
    bool token_order; /* of all double holders: the later has the larger one */
};

static uint64_t mix(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * 0x9e3779b97f4a7c15U;
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const struct toy *w)
{
    uint64_t h = mix(mix(mix(1, (uint64_t)w->now), w->crashes), w->jumps);
    for (unsigned s = 0; s < w->servers; s++) {
        const struct place *p = &w->places[s];
        h = mix(mix(mix(mix(mix(h, p->owner), (uint64_t)p->until), (uint64_t)p->ahead),
                    (uint64_t)p->barred),
                (uint64_t)p->last);
    }
    for (int c = 0; c < CLIENTS; c++) {
        const struct client *k = &w->clients[c];
        h = mix(mix(mix(mix(h, k->phase), k->renewals), k->retakes), (uint64_t)k->grant_token);
        for (unsigned s = 0; s < w->servers; s++) {
            const struct snib__seat *seat = &k->round.seats[s];
            h = mix(mix(mix(h, k->wire[s]), (uint64_t)k->sent[s]), (uint64_t)k->token[s]);
            h = mix(mix(mix(h, seat->state), seat->proven), seat->pending);
            h = mix(mix(h, (uint64_t)seat->since.boot_ns), seat->token);
        }
    }
    return h ? h : 1;
}

static bool is_new(struct search *f, const struct toy *w)
{
    uint64_t h = hash_of(w);
    size_t i = h & (f->room - 1);
    while (f->seen[i] && f->seen[i] != h) {
        i = (i + 1) & (f->room - 1);
    }
    if (f->seen[i]) {
        return false;
    }
    f->seen[i] = h;
    CHECK(++f->states < f->room - f->room / 4);
    return true;
}

static void explore(struct search *f, const struct toy *w);

#define TRY(action)                                                                                \
    do {                                                                                           \
        struct toy next = *w;                                                                      \
        struct toy *n = &next;                                                                     \
        action;                                                                                    \
        explore(f, n);                                                                             \
    } while (0)

static void explore_client(struct search *f, const struct toy *w, int c)
{
    const struct client *k = &w->clients[c];
    if (c == 1 && k->phase == 4) {
        return; /* what it leaves behind only keeps others out */
    }
    if (k->phase == 0) {
        TRY(begin(n, c));
    }
    if ((k->phase == 2 || k->phase == 3) && c == 0) {
        TRY(give_back(n, c));
    }
    if (k->phase == 2 && k->renewals == 0 && c == 0 && w->renews && believes(w, c)) {
        TRY(renew(n, c));
    }
    for (unsigned s = 0; s < w->servers; s++) {
        bool asks = k->wire[s] == ATTEMPT || k->wire[s] == ATTEMPT_RELEASE ||
                    k->wire[s] == RELEASE || k->wire[s] == RENEW;
        unsigned char state = k->round.seats[s].state;
        if (asks && k->phase == 4) {
            TRY(execute(n, c, s));
        } else if (asks) { /* sent, and at any time later executed and answered */
            TRY(execute(n, c, s); hear(n, c, s));
        } else if (k->phase == 2 && k->retakes == 0 && k->wire[s] == QUIET && c == 0 && w->renews &&
                   (state == SNIB__SEAT_EMPTY || state == SNIB__SEAT_BUSY) &&
                   snib__round_may_retake(&k->round, at(w->now))) {
            TRY(retake(n, c, s));
        }
    }
}

static void explore(struct search *f, const struct toy *w)
{
    if (believes(w, 0) && believes(w, 1)) {
        const struct client *a = &w->clients[0], *b = &w->clients[1];
        f->doubles++;
        f->token_order = f->token_order && a->grant_token != b->grant_token;
        return;
    }
    if (!is_new(f, w)) {
        return;
    }
    for (int c = 0; c < CLIENTS; c++) {
        explore_client(f, w, c);
    }
    for (unsigned s = 0; s < w->servers; s++) {
        if (w->crashes) {
            TRY(crash(n, s));
        }
        if (w->jumps) {
            TRY(jump(n, s));
        }
    }
    if (w->now < f->ticks) {
        TRY(n->now++);
    }
}

static struct search explore_all(bool guarded, bool renews, unsigned char crashes,
                                 unsigned char jumps, short ticks)
{
    struct search f = {.room = (size_t)1 << 23, .ticks = ticks, .token_order = true};
    struct toy w;
    memset(&w, 0, sizeof w);
    w.servers = 3;
    w.guarded = guarded;
    w.renews = renews;
    w.crashes = crashes;
    w.jumps = jumps;
    f.seen = calloc(f.room, sizeof *f.seen);
    CHECK(f.seen != NULL);
    explore(&f, &w);
    free(f.seen);
    printf("%zu states, %zu double holders\n", f.states, f.doubles);
    return f;
}

TEST_LIMIT(in_every_order_of_a_small_world_there_is_one_holder, 120)
{
    struct search f = explore_all(true, false, 1, 1, 1);
    CHECK_INT(f.doubles, ==, 0);
    CHECK(f.states > 10000);
}

TEST_LIMIT(in_every_order_of_a_small_world_with_renewals_there_is_one_holder, 120)
{
    struct search f = explore_all(true, true, 1, 0, 1);
    CHECK_INT(f.doubles, ==, 0);
    CHECK(f.states > 10000);
}

TEST(without_the_guards_the_small_world_has_two_holders)
{
    CHECK(explore_all(false, false, 1, 0, 0).doubles > 0);
    CHECK(explore_all(false, false, 0, 1, 0).doubles > 0);
}

/* ---- By chance -------------------------------------------------------------------------- */

static uint64_t dice;

static unsigned roll(unsigned sides)
{
    dice = dice * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(dice >> 33) % sides;
}

static void step_client(struct toy *w, int c, unsigned s)
{
    struct client *k = &w->clients[c];
    bool asks = k->wire[s] == ATTEMPT || k->wire[s] == ATTEMPT_RELEASE || k->wire[s] == RELEASE ||
                k->wire[s] == RENEW;
    unsigned char state = k->round.seats[s].state;
    if (k->phase == 0) {
        begin(w, c);
    } else if (k->phase == 4 && roll(8) == 0) {     /* another round, under an id of its own: */
        for (unsigned i = 0; i < w->servers; i++) { /* nothing of the first may be left */
            while (k->wire[i] != QUIET) {
                k->wire[i] = k->wire[i] == ATTEMPT_RELEASE ? ATTEMPT_RELEASE : RELEASE;
                execute(w, c, i);
            }
        }
        memset(k, 0, sizeof *k);
    } else if (asks) {
        execute(w, c, s);
    } else if (k->wire[s] != QUIET && k->phase != 4) {
        hear(w, c, s);
    } else if (k->phase == 2 && roll(4) == 0) {
        give_back(w, c);
    } else if (k->phase == 2 && believes(w, c) && roll(2)) {
        renew(w, c);
    } else if (k->phase == 2 && (state == SNIB__SEAT_EMPTY || state == SNIB__SEAT_BUSY) &&
               k->wire[s] == QUIET && snib__round_may_retake(&k->round, at(w->now))) {
        retake(w, c, s);
    }
}

/* How often two believed to hold, in so many schedules; and of those, how often with one token. */
static unsigned chance(unsigned schedules, bool guarded, unsigned char crashes, unsigned char jumps,
                       unsigned *same)
{
    unsigned doubles = 0;
    for (unsigned seed = 1; seed <= schedules; seed++) {
        struct toy w;
        memset(&w, 0, sizeof w);
        dice = seed * 0x9e3779b97f4a7c15U;
        w.servers = 3 + roll(3);
        w.guarded = guarded;
        w.crashes = crashes;
        w.jumps = jumps;
        for (int step = 0; step < 150; step++) {
            unsigned s = roll(w.servers), what = roll(20);
            if (what == 0 && w.crashes) {
                crash(&w, s);
            } else if (what == 1 && w.jumps) {
                jump(&w, s);
            } else if (what < 4) {
                w.now++;
            } else {
                step_client(&w, (int)roll(CLIENTS), s);
            }
            if (believes(&w, 0) && believes(&w, 1)) {
                doubles++;
                *same += w.clients[0].grant_token == w.clients[1].grant_token;
                break;
            }
        }
    }
    return doubles;
}

TEST(in_fifty_thousand_schedules_there_is_one_holder)
{
    const char *more = getenv("SNIB_REDLOCK_SCHEDULES");
    unsigned same = 0;
    CHECK_INT(chance(more ? (unsigned)atoi(more) : 50000, true, 2, 2, &same), ==, 0);
}

TEST(schedules_without_the_guards_find_two_holders_and_their_tokens_differ)
{
    unsigned same = 0;
    CHECK(chance(50000, false, 0, 2, &same) > 0);
    CHECK_INT(same, ==, 0);
}

/* ---- The two stories -------------------------------------------------------------------- */

static struct toy five(bool guarded)
{
    struct toy w;
    memset(&w, 0, sizeof w);
    w.servers = 5;
    w.guarded = guarded;
    w.crashes = w.jumps = 2;
    return w;
}

/* This client's requests reach just these servers. */
static void take_at(struct toy *w, int c, const char *places)
{
    begin(w, c);
    for (; *places; places++) {
        unsigned s = (unsigned)(*places - 'A');
        execute(w, c, s);
        hear(w, c, s);
    }
}

TEST(a_failover_without_replication_does_not_grant_it_twice)
{
    for (int guarded = 0; guarded < 2; guarded++) {
        struct toy w = five(guarded);
        take_at(&w, 0, "ABC");
        CHECK(believes(&w, 0));
        crash(&w, 2); /* an empty copy takes the place of C */
        take_at(&w, 1, "CDE");
        CHECK(believes(&w, 1) == !guarded);
    }
}

TEST(a_clock_that_jumps_under_the_first_client_does_not_let_the_second_in)
{
    for (int guarded = 0; guarded < 2; guarded++) {
        struct toy w = five(guarded);
        take_at(&w, 0, "ABC");
        jump(&w, 2);
        take_at(&w, 1, "CDE");
        CHECK(believes(&w, 0));
        CHECK(believes(&w, 1) == !guarded);
        if (!guarded) { /* two holders: the resource refuses the older token */
            CHECK_INT(w.clients[1].grant_token, >, w.clients[0].grant_token);
        }
    }
}

/* ---- By hand ---------------------------------------------------------------------------- */

TEST(a_majority_is_more_than_half)
{
    CHECK_INT(snib__quorum(3), ==, 2);
    CHECK_INT(snib__quorum(4), ==, 3);
    CHECK_INT(snib__quorum(5), ==, 3);
    CHECK_INT(snib__quorum(6), ==, 4);
}

/* A round of five where these have it, each asked at its own tick. */
static struct snib__round held_by(const short ticks[5])
{
    struct snib__round r;
    snib__round_begin(&r, 5);
    for (unsigned s = 0; s < 5; s++) {
        if (ticks[s] >= 0) {
            snib__round_yes(&r, s, at(ticks[s]), 100, 7);
        }
    }
    return r;
}

TEST(the_lease_of_a_majority_is_that_of_the_last_who_is_needed)
{
    struct snib__instant since;
    int64_t lease_ms;
    struct snib__round r = held_by((const short[]){1, 9, 3, 7, 5});
    CHECK(snib__round_lease(&r, &since, &lease_ms));
    CHECK_INT(since.boot_ns, ==, at(5).boot_ns);
    r = held_by((const short[]){1, 9, 3, -1, -1});
    CHECK(snib__round_lease(&r, &since, &lease_ms));
    CHECK_INT(since.boot_ns, ==, at(1).boot_ns);
    r = held_by((const short[]){1, 9, -1, -1, -1});
    CHECK(!snib__round_lease(&r, &since, &lease_ms));
}

TEST(nothing_is_taken_again_without_a_valid_majority)
{
    struct snib__round r = held_by((const short[]){0, 0, 0, -1, -1});
    CHECK(snib__round_may_retake(&r, at(89)));
    CHECK(!snib__round_may_retake(&r, at(90)));
    r = held_by((const short[]){0, 0, -1, -1, -1});
    CHECK(!snib__round_may_retake(&r, at(1)));
}

TEST(a_renewal_by_the_bare_majority_is_in_doubt)
{
    struct snib__round r = held_by((const short[]){0, 0, 0, 0, 0});
    snib__round_renew(&r);
    for (unsigned s = 0; s < 3; s++) {
        CHECK_INT(snib__round_renewed(&r), ==, SNIB__PENDING);
        snib__round_kept(&r, s, at(30), 100);
    }
    CHECK_INT(snib__round_renewed(&r), ==, SNIB__PENDING); /* one more may answer */
    snib__round_unheard(&r, 3);
    snib__round_gone(&r, 4);
    CHECK_INT(snib__round_renewed(&r), ==, SNIB__BARELY);
    CHECK_INT(snib__round_margin(&r), ==, 0);
    snib__round_yes(&r, 4, at(31), 100, 7);
    CHECK_INT(snib__round_renewed(&r), ==, SNIB__GRANTED);
}

TEST(a_renewal_that_most_have_lost_is_a_loss)
{
    struct snib__round r = held_by((const short[]){0, 0, 0, 0, -1});
    snib__round_renew(&r);
    snib__round_gone(&r, 0);
    CHECK_INT(snib__round_renewed(&r), ==, SNIB__PENDING);
    snib__round_gone(&r, 1);
    CHECK_INT(snib__round_renewed(&r), ==, SNIB__DENIED);
}

TEST(a_renewal_that_too_few_answer_is_unsure)
{
    struct snib__round r = held_by((const short[]){0, 0, 0, 0, 0});
    snib__round_renew(&r);
    snib__round_kept(&r, 0, at(30), 100);
    for (unsigned s = 1; s < 5; s++) {
        snib__round_unheard(&r, s);
    }
    CHECK_INT(snib__round_renewed(&r), ==, SNIB__UNSURE);
}

TEST(an_older_answer_to_a_renewal_does_not_replace_a_newer_one)
{
    struct snib__instant since;
    int64_t lease_ms;
    struct snib__round r = held_by((const short[]){0, 0, 0, -1, -1});
    for (unsigned s = 0; s < 3; s++) {
        snib__round_kept(&r, s, at(30), 100);
        snib__round_kept(&r, s, at(10), 100);
    }
    CHECK(snib__round_lease(&r, &since, &lease_ms));
    CHECK_INT(since.boot_ns, ==, at(30).boot_ns);
}

TEST(a_token_counts_when_a_majority_has_it)
{
    struct snib__round r = held_by((const short[]){0, 0, 0, -1, -1});
    r.seats[1].token = 9;
    CHECK_INT(snib__round_token(&r), ==, 9);
    CHECK_INT(snib__round_agreed(&r, 9), ==, SNIB__PENDING);
    r.seats[0].token = 9;
    CHECK_INT(snib__round_agreed(&r, 9), ==, SNIB__PENDING);
    r.seats[2].token = 12; /* it has given a larger one: no vote */
    CHECK_INT(snib__round_agreed(&r, 9), ==, SNIB__DENIED);
    r.seats[2].token = 9;
    CHECK_INT(snib__round_agreed(&r, 9), ==, SNIB__GRANTED);
}

TEST(an_attempt_that_was_cut_off_stays_loose)
{
    struct snib__round r;
    snib__round_begin(&r, 3);
    snib__round_ask(&r, 0, true, 500);
    snib__round_ask(&r, 0, true, 700); /* once more, on the next connection */
    snib__round_landed(&r, 0);
    snib__round_yes(&r, 0, at(0), 100, 7);
    CHECK_INT(r.seats[0].loose_ms, ==, 700);
    snib__round_landed(&r, 0);
    CHECK_INT(r.seats[0].loose_ms, ==, 0);
}

/* ---- Clocks ----------------------------------------------------------------------------- */

static int64_t learn(struct snib__clock_guard *g, int64_t at_s, int64_t ahead_ms)
{
    int64_t ms = at_s * 1000;
    struct snib__instant sent = {.boot_ns = ms * SNIB__MS, .raw_ns = ms * SNIB__MS};
    return snib__clock_guard_learn(g, sent, (ms + 1) * SNIB__MS, ms + ahead_ms, 3000);
}

TEST(a_jump_is_seen_after_hours_of_idling_too)
{
    struct snib__clock_guard g = {.known = false};
    CHECK_INT(learn(&g, 100, 5000000), ==, 0);
    CHECK_INT(learn(&g, 110, 5000000), ==, 0);
    CHECK_INT(learn(&g, 120, 5000500), >, 400);
    CHECK_INT(learn(&g, 130, 5000500), ==, 0);
    CHECK_INT(learn(&g, 140, 4990000), <, -10000);
    CHECK_INT(learn(&g, 150, 4990000), ==, 0);
    CHECK_INT(learn(&g, 150 + 12 * 3600, 4990000 + 10000), >,
              9000);                                              /* 12 h: no drift is that large */
    CHECK_INT(learn(&g, 150 + 24 * 3600, 5000000 + 2000), ==, 0); /* but this is one */
}

TEST(a_slow_answer_does_not_make_a_jump_invisible)
{
    struct snib__clock_guard g = {.known = false};
    struct snib__instant sent = {.boot_ns = 110000 * SNIB__MS, .raw_ns = 110000 * SNIB__MS};
    CHECK_INT(learn(&g, 100, 5000000), ==, 0);
    CHECK_INT(snib__clock_guard_learn(&g, sent, 114500 * SNIB__MS, 5114500, 3000), ==, 0);
    CHECK_INT(learn(&g, 120, 5004400), >, 4000);
}
