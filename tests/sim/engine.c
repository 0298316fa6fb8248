/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's half of the engine: turns slots into messages and messages into upcalls.
 *
 * It is also the strictest reader of engine.h: every slot checks what the core owes an engine
 * (the mutex held, nothing entered from inside an upcall, one release per claim and no word
 * after it, an owner id that nobody had before), and the upcalls keep what an engine owes the
 * core, no more: answers come late, twice, several at a time, or from inside the slot.
 */
#include "sim.h"

#include <errno.h>
#include <stdio.h>

struct session {
    int machine;
    unsigned life;
    bool open;
};

/* ---- Records ---------------------------------------------------------------------------- */

static struct machine *machine_of(struct snib__session *s)
{
    const struct session *own = s->state;
    return &world.machines[own->machine];
}

/* Every slot: called as promised? */
static struct machine *enter_slot(struct snib__session *s)
{
    struct machine *m = machine_of(s);
    SIM_CHECK(world.current == m, "a slot of machine %d is called by another", m->index);
    SIM_CHECK(((const struct session *)s->state)->open, "a slot is called after close");
    SIM_CHECK(m->in_upcall == 0, "an upcall has entered the engine again");
    SIM_CHECK(m->in_slot == 0, "the engine is entered twice at once");
    SIM_CHECK(pthread_mutex_trylock(&SNIB__OF(s, struct snib, session)->lock) == EBUSY,
              "a slot is called without the mutex");
    m->in_slot++;
    return m;
}

static void leave_slot(struct machine *m)
{
    m->in_slot--;
}

struct record *sim_record_of(const struct snib__hold *h)
{
    size_t index;
    memcpy(&index, h->claim.state, sizeof index);
    return index ? world.records[index - 1] : NULL;
}

static size_t index_of(const struct snib__claim *claim)
{
    size_t index;
    memcpy(&index, claim->state, sizeof index);
    SIM_CHECK(index > 0 && index <= world.record_count, "the state of a claim is not the engine's");
    return index - 1;
}

static struct record *find(const struct snib__claim *claim)
{
    struct record *r = world.records[index_of(claim)];
    SIM_CHECK(r->claim == claim, "the engine is asked about a claim it has ended");
    return r;
}

static uint64_t owner_of(const struct snib__claim *claim)
{
    uint64_t owner;
    memcpy(&owner, claim->owner, sizeof owner);
    return owner;
}

static void add_live(struct machine *m, size_t index)
{
    if (m->live_count == m->live_room) {
        m->live_room = m->live_room ? m->live_room * 2 : 16;
        m->live = sim_memory(m->live, m->live_room * sizeof *m->live);
    }
    m->live[m->live_count++] = index;
}

static void remove_live(struct machine *m, size_t index)
{
    for (size_t i = 0; i < m->live_count; i++) {
        if (m->live[i] == index) {
            m->live[i] = m->live[--m->live_count];
            return;
        }
    }
}

static size_t add_record(struct machine *m, struct snib__claim *claim)
{
    if (world.record_count == world.record_room) {
        world.record_room = world.record_room ? world.record_room * 2 : 64;
        world.records = sim_memory(world.records, world.record_room * sizeof *world.records);
    }
    struct record *r = sim_memory(NULL, sizeof *r);
    *r = (struct record){.number = world.record_count};
    size_t index = world.record_count++;
    world.records[index] = r;
    r->claim = claim;
    r->hold = SNIB__OF(claim, struct snib__hold, claim);
    r->machine = m->index;
    r->life = m->life;
    r->owner = owner_of(claim);
    r->ticket = r->hold->request ? r->hold->request->ticket : 0;
    r->name = claim->name[strlen(claim->name) - 1] - '0';
    for (int i = 0; i < 3; i++) {
        r->due_ns[i] = SNIB__NEVER;
    }
    for (size_t i = 0; i < index; i++) {
        SIM_CHECK(world.records[i]->owner != r->owner, "claim %zu has the owner id of claim %zu%s",
                  index, i, world.records[i]->released ? ", which was released" : "");
        if (r->ticket && world.records[i]->ticket == r->ticket &&
            world.records[i]->machine == m->index && world.records[i]->life == m->life) {
            sim_reach(PATH_CLAIMED_ANEW);
        }
    }
    add_live(m, index);
    size_t stored = index + 1;
    memcpy(claim->state, &stored, sizeof stored);
    return index;
}

/* ---- To the server ---------------------------------------------------------------------- */

static enum snib__verb verb_of(enum sim_kind kind)
{
    return kind == ATTEMPT ? SNIB__ATTEMPT : kind == RENEW ? SNIB__RENEW : SNIB__RELEASE;
}

static void submit(struct machine *m, size_t index, enum sim_kind kind)
{
    struct record *r = world.records[index];
    enum snib__verb verb = verb_of(kind);
    struct message message = {
        .kind = kind,
        .machine = m->index,
        .life = m->life,
        .record = index,
        .request = ++world.last_request,
        .owner = owner_of(r->claim),
        .name = r->name,
        .mode = r->claim->mode,
        .permits = r->claim->permits,
        .span = r->claim->span,
        .may_queue = r->claim->may_queue,
        .ttl_ms = r->claim->ttl_ms,
        .sent = sim_clock(m),
    };
    r->open[verb] = message.request;
    r->due_ns[verb] = m->boot_ns + world.config.timeout_ms * MS;
    sim_send(&message);
}

/* ---- To the core ------------------------------------------------------------------------ */

static bool renewal_wanted(const struct snib__hold *h)
{
    return h->renewal == SNIB__RENEWAL_IN_TURN || h->renewal == SNIB__RENEWAL_URGENT;
}

static void tell(struct machine *m, size_t index, enum snib__verb verb,
                 const struct snib__result *result)
{
    struct record *r = world.records[index];
    struct snib__claim *claim = r->claim;
    sim_note(NOTE_UPCALL, m->index, (int64_t)index, result->status);
    sim_note(NOTE_UPCALL_VERB, m->index, verb, result->lease_ms);
    if (verb == SNIB__RELEASE) { /* the last word: the claim may be gone after */
        r->claim = NULL;
        r->hold = NULL;
        remove_live(m, index);
    } else if (verb == SNIB__ATTEMPT) {
        r->asked = false;
    }
    r->said_busy = r->said_busy || result->status == SNIB__BUSY;
    r->said_gone = r->said_gone || (verb == SNIB__RENEW && result->status == SNIB__LOST);
    if (verb != SNIB__RELEASE && r->released) {
        sim_reach(result->status == SNIB__QUEUED ? PATH_LATE_QUEUED_DROPPED
                  : verb == SNIB__RENEW          ? PATH_LATE_RENEWAL_DROPPED
                  : result->status == SNIB__HELD ? PATH_LATE_GRANT_DROPPED
                                                 : PATH_ANSWER_AFTER_UNKNOWN);
    }
    const struct snib__hold *h = SNIB__OF(claim, struct snib__hold, claim);
    bool wanted = verb == SNIB__RENEW && renewal_wanted(h);
    m->in_upcall++;
    m->said++;
    snib__answer(claim, verb, result);
    m->in_upcall--;
    if (wanted && (h->stage == SNIB__STAGE_PROVING || snib__hold_valid(h))) {
        sim_reach(PATH_LATE_ANSWER_WHILE_WANTED);
        SIM_CHECK(renewal_wanted(h), "a late answer has cancelled the renewal that is wanted");
    }
}

void sim_reach_report(enum snib__stage stage)
{
    sim_reach(stage == SNIB__STAGE_PARKED      ? PATH_REPORTED_PARKED
              : stage == SNIB__STAGE_PROVING   ? PATH_REPORTED_PROVING
              : stage == SNIB__STAGE_RELEASING ? PATH_REPORTED_RELEASING
                                               : PATH_REPORTED_OTHERWISE);
}

void sim_report(struct record *r, enum snib_state state)
{
    struct machine *m = &world.machines[r->machine];
    sim_note(NOTE_REPORTS, m->index, (int64_t)r->number, state);
    if (state == SNIB_LOST) {
        r->reported = true;
        r->said_gone = r->said_gone || r->granted;
        sim_reach_report(r->hold->stage);
    }
    m->in_upcall++;
    m->said++;
    snib__report(r->claim, state, "the engine has noticed something");
    m->in_upcall--;
}

static void tell_unknown(struct machine *m, size_t index, enum snib__verb verb)
{
    static const enum sim_path paths[] = {PATH_UNKNOWN_ATTEMPT, PATH_UNKNOWN_RENEWAL,
                                          PATH_UNKNOWN_RELEASE};
    struct snib__result result = {.status = SNIB__UNKNOWN};
    sim_reach(paths[verb]);
    if (verb == SNIB__RELEASE) {
        sim_undo(m, index);
    }
    tell(m, index, verb, &result);
}

static void remember_place(struct machine *m, struct record *r, const struct message *message)
{
    if (r->granted || r->released) {
        return;
    }
    r->parked = true;
    r->recheck_ns = m->boot_ns + world.config.recheck_ms * MS;
    if (message->entry >= r->entry && message->sent.boot_ns >= r->queued_since.boot_ns) {
        r->entry = message->entry;
        r->queued_since = message->sent;
    }
}

/* Pushed by the server. Old news about another entry in the queue must not count. */
static bool take_push(struct record *r, const struct message *message, struct snib__result *result)
{
    if (message->kind == WORTH_IT) {
        r->parked = false;
        return true;
    }
    if (message->entry < r->entry) {
        sim_reach(PATH_GRANT_OF_ANOTHER_ENTRY);
        return false;
    }
    if (message->entry > r->entry) {
        sim_reach(PATH_GRANT_BEFORE_QUEUED);
    }
    sim_reach(PATH_GRANTED_BY_MESSAGE);
    r->parked = false;
    r->granted = true;
    result->since = r->queued_since;
    return true;
}

/* The answer to a request. False: an abandoned one, to be drained. */
static bool take_answer(struct machine *m, struct record *r, const struct message *message,
                        enum snib__verb verb)
{
    bool awaited = r->open[verb] == message->request;
    if (!awaited && (!world.config.late || verb == SNIB__RELEASE)) {
        return false;
    }
    if (!awaited) {
        sim_reach(r->open[verb] || r->granted ? PATH_ANSWER_TWICE : PATH_ANSWER_AFTER_UNKNOWN);
    } else {
        r->open[verb] = 0;
        r->due_ns[verb] = SNIB__NEVER;
        r->parked = verb == SNIB__ATTEMPT ? false : r->parked;
    }
    if (verb == SNIB__ATTEMPT && message->status == SNIB__QUEUED) {
        remember_place(m, r, message);
    }
    if (verb == SNIB__ATTEMPT && message->status == SNIB__HELD) {
        r->parked = false;
        r->granted = true;
    }
    return true;
}

/* Said before the session ended, and heard after. */
static bool outdated(const struct machine *m, const struct message *message)
{
    bool old = message->session < m->heard && message->status == SNIB__HELD;
    if (old) {
        sim_reach(PATH_GRANT_OF_AN_OLD_SESSION);
    }
    return old;
}

/* Not about a claim. */
static bool deliver_other(struct machine *m, const struct message *message)
{
    if (message->life != m->life) {
        return true;
    }
    sim_make_contact(m);
    if (message->kind == SESSION_OVER) {
        m->heard = message->session;
        sim_report_session(m, SNIB_LOST);
        return true;
    }
    return message->kind == ANSWER && message->about == RELEASE && sim_undone(m, message);
}

void sim_deliver(struct machine *m, const struct message *message)
{
    if (deliver_other(m, message)) {
        return;
    }
    struct record *r = world.records[message->record];
    if (!r->claim || r->life != m->life) {
        return;
    }
    struct message unclear = *message;
    if (outdated(m, message)) {
        if (message->kind != ANSWER) {
            return;
        }
        unclear.status = SNIB__UNKNOWN;
        message = &unclear;
    }
    struct snib__result result = {
        .status = message->status,
        .token = message->token,
        .span = message->span,
        .since = message->sent,
        .lease_ms = message->left_ms,
        .retry_ms = message->retry_ms,
        .holder_left_ms = message->holder_left_ms,
        .holder_token = message->holder_token,
        .holder = message->holder_token ? "somebody" : NULL,
        .place = message->place,
        .code = message->code,
    };
    int64_t gone_ns = (r->claim->ttl_ms - message->left_ms) * MS;
    if (message->kind == ANSWER && message->about == ATTEMPT && message->left_ms > 0 &&
        gone_ns > 0) { /* "yours already": that lease began earlier */
        result.since.boot_ns -= gone_ns;
        result.since.raw_ns -= gone_ns;
        result.lease_ms = r->claim->ttl_ms;
    }
    if (message->kind == EVICTED) {
        sim_report(r, SNIB_LOST);
    } else if (message->kind != ANSWER) {
        if (take_push(r, message, &result)) {
            tell(m, message->record, SNIB__ATTEMPT, &result);
        }
    } else if (take_answer(m, r, message, verb_of(message->about))) {
        tell(m, message->record, verb_of(message->about), &result);
    }
}

/* ---- Time ------------------------------------------------------------------------------- */

int64_t sim_engine_due(const struct machine *m)
{
    int64_t due = sim_undo_due(m);
    for (size_t i = 0; i < m->live_count; i++) {
        const struct record *r = world.records[m->live[i]];
        for (int verb = 0; verb < 3; verb++) {
            due = r->due_ns[verb] < due ? r->due_ns[verb] : due;
        }
        if (r->parked && !r->open[SNIB__ATTEMPT]) {
            due = r->recheck_ns < due ? r->recheck_ns : due;
        }
    }
    return due;
}

static void expire_one(struct machine *m, size_t index)
{
    struct record *r = world.records[index];
    for (int verb = SNIB__RELEASE; verb >= SNIB__ATTEMPT && r->claim; verb--) {
        if (r->due_ns[verb] > m->boot_ns) {
            continue;
        }
        r->due_ns[verb] = SNIB__NEVER;
        r->open[verb] = 0;
        if (verb == SNIB__ATTEMPT && r->parked && sim_chance(50)) {
            r->recheck_ns = m->boot_ns; /* a re-check without an answer: once more */
        } else {
            r->parked = verb == SNIB__ATTEMPT ? false : r->parked;
            tell_unknown(m, index, (enum snib__verb)verb);
        }
    }
    if (r->claim && r->parked && !r->open[SNIB__ATTEMPT] && r->recheck_ns <= m->boot_ns) {
        submit(m, index, ATTEMPT);
    }
}

void sim_expire(struct machine *m)
{
    size_t due[64];
    size_t count = 0;
    sim_undo_again(m);
    for (size_t i = 0; i < m->live_count && count < 64; i++) {
        due[count++] = m->live[i];
    }
    for (size_t i = 0; i < count; i++) {
        if (world.records[due[i]]->claim) {
            expire_one(m, due[i]);
        }
    }
}

/* ---- The slots -------------------------------------------------------------------------- */

static int engine_open(struct snib__session *s, snib_error *err)
{
    struct session *own = s->state;
    (void)err;
    own->machine = world.current->index;
    own->life = world.current->life;
    own->open = true;
    world.current->contact = false;
    world.current->heard = world.current->session;
    if (!world.config.leased) {
        s->traits &= ~(unsigned)SNIB_TRAIT_LEASED;
    }
    if (!world.config.span) {
        s->traits &= ~(unsigned)SNIB_TRAIT_TOKEN_SPAN;
    }
    return SNIB_OK;
}

/* Whoever closes waits for all answers and all undoing, for as long as a request may take. */
static void check_patience(const struct machine *m)
{
    if (!m->patient) {
        return;
    }
    bool busy = m->live_count > 0 || m->undoing_count > 0;
    int64_t waited_ms = (m->boot_ns - m->closing_ns) / MS;
    sim_reach(busy ? PATH_CLOSED_AT_THE_BOUND : PATH_CLOSED_PATIENTLY);
    SIM_CHECK(!busy || waited_ms >= world.config.timeout_ms + 500,
              "closed after %lld ms: %zu claims and %d things to undo are left",
              (long long)waited_ms, m->live_count, m->undoing_count);
}

static void engine_close(struct snib__session *s)
{
    struct machine *m = enter_slot(s);
    ((struct session *)s->state)->open = false;
    check_patience(m);
    sim_undo_forget(m);
    while (m->live_count > 0) {
        struct record *r = world.records[m->live[--m->live_count]];
        SIM_CHECK(r->released, "the client closes with a claim that it has not released");
        r->claim = NULL;
        r->hold = NULL;
    }
    if (!world.config.leased) {
        struct message message = {.kind = LEAVE, .machine = m->index, .life = m->life};
        sim_send(&message);
    }
    leave_slot(m);
}

static bool refuse(struct machine *m, size_t index, enum snib__verb verb)
{
    struct record *r = world.records[index];
    if (world.calm || !sim_chance(world.config.refused)) {
        return false;
    }
    r->due_ns[verb] = SNIB__NEVER;
    r->open[verb] = 0;
    struct snib__result result = {.status = SNIB__FAILED, .code = SNIB_EDENIED};
    tell(m, index, verb, &result);
    return true;
}

static void engine_attempt(struct snib__claim *claim)
{
    struct machine *m = enter_slot(claim->session);
    const struct snib__hold *h = SNIB__OF(claim, struct snib__hold, claim);
    size_t stored;
    memcpy(&stored, claim->state, sizeof stored);
    size_t index = stored ? index_of(claim) : add_record(m, claim);
    struct record *r = find(claim);
    sim_note(NOTE_ATTEMPTS, m->index, (int64_t)index, r->name);
    SIM_CHECK(!r->released, "attempt after release");
    SIM_CHECK(r->owner == owner_of(claim), "the owner id of a claim has changed");
    SIM_CHECK(h->stage == SNIB__STAGE_ASKED, "attempt in stage %d", (int)h->stage);
    SIM_CHECK(strcmp(claim->label, sim_name(r->name)) == 0 || strcmp(claim->label, "several") == 0,
              "the label is '%s'", claim->label);
    SIM_CHECK(world.config.late || !r->asked, "attempt while one is unanswered");
    r->asked = true;
    r->attempts++;
    if (r->attempts == 1) {
        r->queued_since = sim_clock(m);
        if (refuse(m, index, SNIB__ATTEMPT)) {
            leave_slot(m);
            return;
        }
    }
    submit(m, index, ATTEMPT);
    leave_slot(m);
}

static void engine_renew(struct snib__claim *const claims[], size_t n)
{
    SIM_CHECK(n >= 1 && n <= 500, "renew of %zu claims", n);
    struct machine *m = enter_slot(claims[0]->session);
    world.renew_calls++;
    for (size_t i = 0; i < n; i++) {
        struct record *r = find(claims[i]);
        enum snib__stage stage = SNIB__OF(claims[i], struct snib__hold, claim)->stage;
        sim_note(NOTE_RENEWS, m->index, (int64_t)index_of(claims[i]), (int64_t)n);
        SIM_CHECK(!r->released, "renewal after release");
        SIM_CHECK(r->granted, "renewal of a claim that was not granted");
        SIM_CHECK(stage >= SNIB__STAGE_PROVING && stage < SNIB__STAGE_LOST, "renewal in stage %d",
                  (int)stage);
        SIM_CHECK(world.config.late || !r->open[SNIB__RENEW], "renewal while one is unanswered");
        for (size_t k = 0; k < i; k++) {
            SIM_CHECK(claims[k] != claims[i], "the same claim twice in one renewal");
        }
    }
    for (size_t i = 0; i < n; i++) {
        size_t index = index_of(claims[i]);
        world.records[index]->renewals++;
        if (!refuse(m, index, SNIB__RENEW)) {
            submit(m, index, RENEW);
        }
    }
    leave_slot(m);
}

static void engine_release(struct snib__claim *claim)
{
    struct machine *m = enter_slot(claim->session);
    size_t index = index_of(claim);
    struct record *r = find(claim);
    sim_note(NOTE_LEAVES, m->index, (int64_t)index, r->name);
    SIM_CHECK(!r->released, "a claim is released twice");
    SIM_CHECK(r->attempts > 0, "a claim is released that was never attempted");
    SIM_CHECK(!sim_believes(r->hold, m), "a claim is released that is still believed in");
    r->released = true;
    r->parked = false;
    r->due_ns[SNIB__ATTEMPT] = r->due_ns[SNIB__RENEW] = SNIB__NEVER;
    submit(m, index, RELEASE);
    leave_slot(m);
}

/* How long a machine that is inside drive may sleep; 0: not at all. */
static int64_t sleep_until(const struct machine *m, const snib *client, int64_t until_ns)
{
    if (m->paused) {
        return m->resume_ns;
    }
    bool roused = m->said > 0 || client->sleeper.nudged;
    if (roused || m->boot_ns >= until_ns || snib__timers_next(&client->timers) < until_ns) {
        return 0;
    }
    return until_ns == SNIB__NEVER ? SNIB__NEVER : sim_true_time(m, until_ns);
}

/* A blocking call: the world goes on until this machine has heard something, or is to look at its
 * timers. The mutex is free meanwhile, as in snib__sleep, and others come in. */
static void engine_drive(struct snib__session *s, int64_t until_ns)
{
    struct machine *m = enter_slot(s);
    snib *client = SNIB__OF(s, struct snib, session);
    leave_slot(m);
    SIM_CHECK(world.config.scripted || world.blocking, "a blocking call that nobody made");
    m->driven = true;
    m->said = 0;
    client->sleeper.wake_fd = -1; /* it is nudged without one */
    client->sleeper.asleep = true;
    client->sleeper.until_ns = until_ns;
    snib__close_check(client);
    int64_t limit;
    while ((limit = sleep_until(m, client, until_ns)) != 0) {
        pthread_mutex_unlock(&client->lock);
        bool stepped = sim_step(limit);
        pthread_mutex_lock(&client->lock);
        SIM_CHECK(stepped || limit != SNIB__NEVER,
                  "a blocking call waits and nothing is going to happen");
        snib__close_check(client);
    }
    client->sleeper.asleep = client->sleeper.nudged = false;
    m->driven = false;
    sim_enter(m);
}

static void engine_ask(struct snib__query *query)
{
    snib__finish(query, SNIB_ENOTSUP, 0, NULL);
}

static const struct snib__param no_params[] = {{.name = NULL}};

const struct snib__engine sim_engine = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "sim",
    .aliases = "",
    .summary = "a simulated server",
    .promise = "whatever the dice say",
    .traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_LEASED |
              SNIB_TRAIT_TTL_PER_LOCK | SNIB_TRAIT_TOKEN_SPAN,
    .session_size = sizeof(struct session),
    .claim_size = sizeof(size_t),
    .params = no_params,
    .open = engine_open,
    .close = engine_close,
    .attempt = engine_attempt,
    .renew = engine_renew,
    .release = engine_release,
    .drive = engine_drive,
    .inspect = engine_ask,
    .evict = engine_ask,
    .examine = engine_ask,
};
