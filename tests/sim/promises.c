/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be true after every step.
 *
 * Belief is what a program would see if it looked now, by its own clock, paused or not: a lease in
 * state HELD or DOUBTFUL with time left. Whoever believes must be a holder at the server at that
 * very instant of true time, under the same owner id and with the same token. That is more than
 * mutual exclusion, which is checked too, and so catches more.
 *
 * The other promises: tokens of exclusive grants grow; LOST is final; deadlines are kept; the
 * holder is told before the server can give the lock to another; the books balance.
 */
#include "sim.h"

#include <stdlib.h>

struct belief {
    const struct snib__hold *hold;
    const struct machine *machine;
};

static struct belief beliefs[NAMES][ENTRIES];
static int belief_count[NAMES];

bool sim_believes(const struct snib__hold *h, const struct machine *m)
{
    return !h->lost && h->lease_count > 0 &&
           (h->stage == SNIB__STAGE_HELD || h->stage == SNIB__STAGE_DOUBTFUL) &&
           snib__validity_left_ns(h, sim_clock(m)) > 0;
}

/* ---- Belief against truth --------------------------------------------------------------- */

static void check_belief(const struct snib__hold *h, const struct machine *m,
                         const struct record *r)
{
    SIM_CHECK(!r->said_gone, "machine %d was told that name %d is gone, and believes in it",
              m->index, r->name);
    if (r->broken) { /* taken away behind its back: learnt at the next renewal */
        return;
    }
    const struct holder *truth = sim_holder(r->name, r->owner);
    SIM_CHECK(truth, "machine %d believes in name %d, the server does not", m->index, r->name);
    uint64_t last = truth->token + (truth->span > 1 ? truth->span - 1 : 0);
    SIM_CHECK(h->token >= truth->token && h->token <= last,
              "machine %d has token %llu, the server %llu", m->index, (unsigned long long)h->token,
              (unsigned long long)truth->token);
    int n = belief_count[r->name];
    SIM_CHECK(n < ENTRIES, "too many believers: make ENTRIES larger");
    beliefs[r->name][n] = (struct belief){h, m};
    belief_count[r->name]++;
}

static void check_exclusion(void)
{
    for (int name = 0; name < world.config.names; name++) {
        int n = belief_count[name];
        bool shared = true;
        for (int i = 0; i < n; i++) {
            const struct snib__hold *h = beliefs[name][i].hold;
            int mode = h->claim.mode;
            SIM_CHECK(mode != SNIB_EXCLUSIVE || n == 1,
                      "machine %d believes to have name %d alone, %d do",
                      beliefs[name][i].machine->index, name, n);
            SIM_CHECK(mode != SNIB_COUNTED || n <= (int)h->claim.permits,
                      "%d hold name %d of %u permits", n, name, h->claim.permits);
            shared = shared && mode == SNIB_SHARED;
        }
        if (shared && n > 1) {
            sim_reach(PATH_SHARED_TOGETHER);
        }
    }
}

/* ---- Stages ----------------------------------------------------------------------------- */

static void reach_loss(const struct snib__hold *h, const struct machine *m, const struct record *r)
{
    struct snib__instant now = sim_clock(m);
    if (h->max_hold_ns != SNIB__NEVER && snib__elapsed_ns(h->granted, now) >= h->max_hold_ns) {
        sim_reach(PATH_LOST_BY_MAX_HOLD);
    } else if (snib__validity_left_ns(h, now) <= 0) {
        SIM_CHECK(!world.config.clean || h->no_renew, "lost in a world without trouble");
        sim_reach(PATH_LOST_BY_TIME);
    } else {
        sim_reach(r->reported ? PATH_LOST_BY_REPORT : PATH_LOST_BY_ANSWER);
    }
    if (h->renewal != SNIB__RENEWAL_NONE) {
        sim_reach(PATH_LOST_WITH_RENEWAL_UNDER_WAY);
    }
}

static int64_t least_wanted_ns(const struct machine *m, const struct record *r)
{
    for (int i = 0; i < ASKS; i++) {
        if (m->asks[i].used && m->asks[i].life == r->life && m->asks[i].ticket == r->ticket) {
            return m->asks[i].options.min_left_ms * MS;
        }
    }
    return 0;
}

/* A grant is good for something, or was proved to be. */
static void check_new(const struct snib__hold *h, const struct machine *m, const struct record *r)
{
    struct snib__instant now = sim_clock(m);
    SIM_CHECK(snib__validity_left_ns(h, now) > least_wanted_ns(m, r),
              "granted with too little left");
    SIM_CHECK(r->renewals > 0 || h->span_ns == SNIB__NEVER ||
                  snib__elapsed_ns(h->since, now) < h->span_ns * 10 / 9 / 3 + MS,
              "granted late, and not proved");
    if (h->claim.mode == SNIB_EXCLUSIVE && !r->broken) {
        struct lock *lock = &world.locks[r->name];
        SIM_CHECK(h->token > lock->believed_token, "token %llu after token %llu",
                  (unsigned long long)h->token, (unsigned long long)lock->believed_token);
        lock->believed_token = h->token;
    }
}

/* To another ask of the same machine, with the next token. */
static void check_passed(const struct snib__hold *h, const struct machine *m, struct record *r)
{
    struct lock *lock = &world.locks[r->name];
    sim_reach(PATH_PASSED);
    if (h->leases.after != &h->leases) {
        r->ticket = SNIB__OF(h->leases.after, snib_lease, link)->ticket;
    }
    SIM_CHECK(h->claim.mode == SNIB_EXCLUSIVE, "a shared hold was passed on");
    SIM_CHECK(h->granted.boot_ns < h->pass_until_ns, "passed on after its time");
    /* With the next token each time; callbacks that act at once may have passed it on again. */
    uint64_t times = h->token - r->seen_token;
    SIM_CHECK(times <= r->seen_passes && (!h->passes || times == r->seen_passes - h->passes),
              "token %llu was passed on with %llu", (unsigned long long)r->seen_token,
              (unsigned long long)h->token);
    SIM_CHECK(snib__validity_left_ns(h, sim_clock(m)) > least_wanted_ns(m, r),
              "passed on with too little left");
    if (!r->broken) {
        SIM_CHECK(h->token > lock->believed_token, "token %llu passed on after token %llu",
                  (unsigned long long)h->token, (unsigned long long)lock->believed_token);
        lock->believed_token = h->token;
    }
}

static void watch_stage(const struct snib__hold *h, const struct machine *m, struct record *r)
{
    SIM_CHECK(!r->lost || h->lost, "a lost claim is not lost any more");
    if (h->stage == SNIB__STAGE_HELD && r->stage == SNIB__STAGE_HELD && h->token != r->seen_token) {
        check_passed(h, m, r);
    }
    r->seen_token = h->token;
    r->seen_passes = h->passes;
    if (r->stage == h->stage && r->attempts > 0) {
        return;
    }
    sim_note(NOTE_STAGE, m->index, (int64_t)r->number, h->stage);
    if (h->stage == SNIB__STAGE_PROVING) {
        sim_reach(PATH_PROVED);
    } else if (h->stage == SNIB__STAGE_DOUBTFUL) {
        SIM_CHECK(!world.config.clean || h->max_hold_ns != SNIB__NEVER,
                  "doubtful in a world without trouble");
        sim_reach(PATH_DOUBTFUL);
    } else if (h->stage == SNIB__STAGE_HELD && r->stage == SNIB__STAGE_DOUBTFUL) {
        sim_reach(PATH_RECOVERED);
    } else if (h->stage == SNIB__STAGE_HELD && r->stage == SNIB__STAGE_PROVING) {
        sim_reach(PATH_PROVED_BY_RENEWAL);
    }
    if (h->lost && !r->lost) {
        reach_loss(h, m, r);
    }
    SIM_CHECK(r->stage != SNIB__STAGE_LOST || h->stage > SNIB__STAGE_LOST, "from LOST to stage %d",
              (int)h->stage);
    if (h->stage == SNIB__STAGE_HELD && r->stage < SNIB__STAGE_HELD) {
        check_new(h, m, r);
    }
    r->stage = h->stage;
    r->lost = h->lost;
}

/* Whatever stage a claim is in, something is going to happen: nobody is forgotten. */
static void check_awaited(const struct snib__hold *h, const struct record *r)
{
    bool timer = h->timer.slot != 0;
    bool awaited = true;
    switch (h->stage) {
    case SNIB__STAGE_ASKED:
        awaited = r->asked;
        break;
    case SNIB__STAGE_PARKED:
        awaited = r->parked || r->open[SNIB__ATTEMPT];
        break;
    case SNIB__STAGE_RESTING:
        awaited = timer;
        break;
    case SNIB__STAGE_PROVING:
        awaited = timer || r->open[SNIB__RENEW];
        break;
    case SNIB__STAGE_HELD:
    case SNIB__STAGE_DOUBTFUL:
        awaited = timer || (h->span_ns == SNIB__NEVER && h->max_hold_ns == SNIB__NEVER);
        break;
    case SNIB__STAGE_RELEASING:
        awaited = r->open[SNIB__RELEASE] != 0;
        break;
    default:
        break;
    }
    SIM_CHECK(awaited, "claim %zu is stuck in stage %d", r->number, (int)h->stage);
    bool in_turn =
        h->renewal == SNIB__RENEWAL_IN_TURN && h->client->renewals_out >= h->client->renewals_most;
    SIM_CHECK(h->renewal == SNIB__RENEWAL_NONE || r->open[SNIB__RENEW] || in_turn,
              "claim %zu awaits a renewal nobody sent", r->number);
    if (in_turn) {
        sim_reach(PATH_RENEWAL_WAITS_ITS_TURN);
    }
    SIM_CHECK(!r->survives || !h->lost || r->reported, "claim %zu is lost in the calm", r->number);
}

/* ---- Books ------------------------------------------------------------------------------ */

struct books {
    unsigned holds, outstanding, timers, paced;
};

static bool waits_for_engine(const struct snib__hold *h)
{
    return h->renewal != SNIB__RENEWAL_NONE || h->stage == SNIB__STAGE_ASKED ||
           h->stage == SNIB__STAGE_PARKED || h->stage == SNIB__STAGE_PROVING ||
           h->stage == SNIB__STAGE_RELEASING;
}

/* Leases that asynchronous acquires have brought, as the core counts them. */
static unsigned count_tickets(const struct snib__hold *h)
{
    unsigned n = 0, all = 0;
    for (const struct snib__list *l = h->leases.after; l != &h->leases; l = l->after) {
        n += SNIB__OF(l, const struct snib_lease, link)->ticket != 0;
        all++;
    }
    SIM_CHECK(h->lease_count == all, "lease_count is %u, %u counted", h->lease_count, all);
    return n;
}

/* Those the user has, and those on their way to it. */
static unsigned count_leases(const struct machine *m, const struct snib__hold *h)
{
    unsigned n = 0;
    for (int i = 0; i < ASKS; i++) {
        n += m->asks[i].used && m->asks[i].lease && m->asks[i].lease->hold == h;
    }
    const struct snib__list *list = &m->client->calls;
    for (const struct snib__list *l = list->after; l != list; l = l->after) {
        const struct snib__call *call = SNIB__OF(l, struct snib__call, link);
        n += call->ends && call->ends->lease && call->ends->lease->hold == h;
    }
    return n + sim_several_leases(m, h);
}

/* Nobody stands in line behind itself. */
static void check_line(const struct machine *m, const struct snib__line *p)
{
    for (const struct snib__list *l = p->waiting.after; l != &p->waiting; l = l->after) {
        const struct snib__request *r = SNIB__OF(l, struct snib__request, in_line);
        for (const struct snib__list *k = p->holds.after; k != &p->holds; k = k->after) {
            const struct snib__hold *h = SNIB__OF(k, struct snib__hold, in_line);
            SIM_CHECK(!r->options.owner || h->owner != r->options.owner || !sim_believes(h, m),
                      "ticket %llu waits in line, and its owner has the lock",
                      (unsigned long long)r->ticket);
        }
    }
}

static void check_place(const struct machine *m, const struct snib__line *p, struct books *books)
{
    unsigned asking = 0, users = 0;
    for (const struct snib__list *l = p->holds.after; l != &p->holds; l = l->after) {
        const struct snib__hold *h = SNIB__OF(l, struct snib__hold, in_line);
        struct record *r = sim_record_of(h);
        users++;
        asking += h->lined_up;
        SIM_CHECK(h->lined_up == (h->stage <= SNIB__STAGE_PROVING && h->claim.may_queue),
                  "a claim in stage %d is lined up: %d", (int)h->stage, h->lined_up);
        SIM_CHECK((h->request != NULL) == (h->stage <= SNIB__STAGE_PROVING),
                  "a claim in stage %d has a request: %d", (int)h->stage, h->request != NULL);
        books->outstanding += waits_for_engine(h);
        books->holds += h->stage != SNIB__STAGE_RELEASED;
        books->timers += h->stage != SNIB__STAGE_RELEASED;
        books->paced += h->renewal == SNIB__RENEWAL_PACED;
        SIM_CHECK(h->stage != SNIB__STAGE_RELEASED || h->lease_count > 0, "an ended claim is kept");
        SIM_CHECK(count_tickets(h) == count_leases(m, h), "a claim has %u leases, users have %u",
                  count_tickets(h), count_leases(m, h));
        if (r && r->hold == h) {
            watch_stage(h, m, r);
            if (!m->driven) {
                check_awaited(h, r);
            }
            if (sim_believes(h, m)) {
                check_belief(h, m, r);
            }
        }
    }
    check_line(m, p);
    if (asking >= 16 && p->waiting.after != &p->waiting) {
        sim_reach(PATH_LINE_BEHIND_A_CROWD);
    }
    SIM_CHECK(p->asking == asking, "line: asking is %u, %u counted", p->asking, asking);
    SIM_CHECK(p->users == users, "line: users is %u, %u counted", p->users, users);
    SIM_CHECK(!p->closed, "the line is still held");
    const struct snib__hold *passer = p->passer;
    SIM_CHECK(!passer ||
                  (passer->stage == SNIB__STAGE_HELD && passer->passes && passer->timer.slot),
              "what will be passed on is not held, or nobody looks when it will not be");
    SIM_CHECK(p->waiting.after == &p->waiting || asking > 0 || passer,
              "nobody asks, and there is a line");
}

static void check_requests(const struct machine *m, struct books *books)
{
    int64_t bound_ns = (world.config.lag_ms + 1) * MS;
    const struct snib__list *list = &m->client->requests;
    for (const struct snib__list *l = list->after; l != list; l = l->after) {
        const struct snib__request *r = SNIB__OF(l, struct snib__request, in_client);
        books->timers += r->timed;
        SIM_CHECK(!r->finished, "an answered request is still among the tickets");
        SIM_CHECK(r->hold || !snib__list_empty(&r->in_line),
                  "ticket %llu is neither in line nor asked", (unsigned long long)r->ticket);
        SIM_CHECK(m->paused || m->driven || r->options.wait_ms <= 0 ||
                      m->boot_ns - r->started.boot_ns <= r->options.wait_ms * MS + bound_ns,
                  "ticket %llu waits beyond its deadline", (unsigned long long)r->ticket);
        SIM_CHECK(m->paused || m->driven || r->options.wait_ms == 0 || /* the last may be a try */
                      sim_several_in_time(m, r->ticket, bound_ns),
                  "ticket %llu, for several, waits beyond its deadline",
                  (unsigned long long)r->ticket);
    }
}

/* With all callbacks run, the user has been told the truth. */
static void check_told_all(const struct machine *m)
{
    if (m->client->calls.after != &m->client->calls || m->closing) {
        return;
    }
    for (int i = 0; i < ASKS; i++) {
        const struct ask *ask = &m->asks[i];
        if (!ask->used || !ask->lease || ask->life != m->life || !ask->options.on_event) {
            continue;
        }
        const struct snib__hold *h = ask->lease->hold;
        int state = h->lost                            ? SNIB_LOST
                    : h->stage == SNIB__STAGE_DOUBTFUL ? SNIB_DOUBTFUL
                                                       : SNIB_HELD;
        SIM_CHECK(ask->told == state || (ask->reentered && state != SNIB_LOST),
                  "ticket %llu was told state %d, it is %d", (unsigned long long)ask->ticket,
                  ask->told, state);
    }
}

static void check_client(const struct machine *m)
{
    const snib *client = m->client;
    struct books books = {0, 0, 0, 0};
    const struct snib__entry *e = NULL;
    while ((e = snib__table_next(&client->lines, e)) != NULL) {
        check_place(m, SNIB__OF(e, struct snib__line, entry), &books);
    }
    check_requests(m, &books);
    check_told_all(m);
    sim_check_traits(m);
    SIM_CHECK(client->holds == books.holds, "holds is %u, %u counted", client->holds, books.holds);
    SIM_CHECK(client->outstanding == books.outstanding, "outstanding is %u, %u counted",
              client->outstanding, books.outstanding);
    SIM_CHECK(client->renewals_out == books.paced, "%u renewals are out, %u counted",
              client->renewals_out, books.paced);
    books.timers += client->contact.awaited;
    books.timers += m->patient; /* its bound */
    SIM_CHECK(client->timers.owners == books.timers, "timers have %zu owners, %u counted",
              client->timers.owners, books.timers);
    SIM_CHECK(m->driven || client->agenda.after == &client->agenda, "the agenda is not empty");
    SIM_CHECK(m->in_slot == 0 && m->in_upcall == 0, "still inside the engine");
}

void sim_check(void)
{
    memset(belief_count, 0, sizeof belief_count);
    for (int i = 0; i < world.config.machines; i++) {
        if (world.machines[i].client) {
            check_client(&world.machines[i]);
        }
    }
    check_exclusion();
}

/* ---- At particular moments -------------------------------------------------------------- */

/* A lease ends at the server: a holder that is awake knows already. */
void sim_check_told(const struct holder *h)
{
    const struct machine *m = &world.machines[h->machine];
    const struct record *r = world.records[h->record];
    if (!m->client || m->life != h->life || m->paused || m->dead || !r->hold || r->broken ||
        h->ttl_ms < 2000 || world.config.lag_ms > 10 || m->letters > 0) {
        return;
    }
    SIM_CHECK(r->hold->lost || r->hold->stage < SNIB__STAGE_HELD ||
                  r->hold->stage > SNIB__STAGE_LOST,
              "the lease of machine %d ends at the server and it was not told", m->index);
}

/* Those in use; of the others one may be kept for the next acquire. */
static size_t count_places(const snib *client)
{
    size_t all = 0, used = 0;
    const struct snib__entry *e = NULL;
    while ((e = snib__table_next(&client->lines, e)) != NULL) {
        const struct snib__line *p = SNIB__OF(e, struct snib__line, entry);
        all++;
        used += p->users > 0 || p->waiting.after != &p->waiting || p->holds.after != &p->holds;
    }
    SIM_CHECK(client->lines.count == all, "lines.count is %zu, %zu counted", client->lines.count,
              all);
    SIM_CHECK(all <= used + 1, "%zu places are kept that nobody uses", all - used);
    return used;
}

/* Nobody wants anything: nothing is left. */
void sim_check_idle(struct machine *m)
{
    const snib *client = m->client;
    SIM_CHECK(client->holds == 0, "%u holds are left", client->holds);
    SIM_CHECK(client->outstanding == 0, "%u answers are outstanding", client->outstanding);
    SIM_CHECK(client->agenda.after == &client->agenda, "the agenda is not empty");
    size_t timers = client->contact.awaited; /* nothing has been heard of the server yet */
    SIM_CHECK(client->timers.count == timers, "%zu timers are left", client->timers.count);
    SIM_CHECK(client->timers.owners == timers, "%zu owners of timers", client->timers.owners);
    SIM_CHECK(count_places(client) == 0, "%zu places are in use", count_places(client));
    SIM_CHECK(snib__list_empty(&client->requests) && client->tickets.count == 0,
              "a ticket is left");
    SIM_CHECK(client->calls.after == &client->calls, "a callback is due");
    SIM_CHECK(client->refs == 1, "the client has %u references", client->refs);
    SIM_CHECK(client->session.undoing == 0, "%d things are being undone", client->session.undoing);
    SIM_CHECK(m->live_count == 0, "the engine has %zu claims", m->live_count);
}
