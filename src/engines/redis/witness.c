/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The witness: WAIT, and the epoch of the master.
 *
 * WAIT blocks the connection that it is sent on, so it has one of its own: one batch at a time, and
 * what is granted meanwhile is in the next. A batch is a script that writes something (tick.lua)
 * and a WAIT behind it. All that the batch is about was executed before the tick, by the same
 * server: replicas that have the tick have that, too. That it is the same server is seen by the
 * run that was greeted on the connection where it was granted, which each proof remembers: the
 * connection of now may be to another.
 *
 * The epoch (wait=majority). A master's data has the replication id under which it grants. A server
 * that finds another one there, or none, was promoted or restarted: its copy may lack leases that
 * still run.
 *
 *   PENDING      the new id is written, and WAIT counts who has it
 *   QUARANTINE   enough replicas have: from then on, and for longer than any lease, nobody is
 *                granted anything; what is held may be renewed
 *   OPEN
 *   CROWDED      there are more replicas than clients count on: renewals only, and only with so
 * many more acknowledgements that enough are of those that count
 *
 * Safety. One holder over failovers and partitions. With n servers and k = n/2 replicas that must
 * acknowledge: a replica acknowledges one master at a time, so that whatever the old master could
 * still get acknowledged was sent to it before k replicas of the *new* one had the epoch, and its
 * lease is over when the quarantine is. The clock must not start earlier: a replica may stay with
 * the old master for as long as it likes. A renewal counts after that, too, and only if the
 * holder's own deadline has not come: in a copy that lags, an entry that nobody seems to have
 * taken may have been taken at the old master.
 *
 * That assumes that all clients have the same number of servers, max-lease, prefix and database
 * (it is kept with the epoch, and others are refused); that no more than n servers acknowledge;
 * that a replica which followed the new master does not go back to an old one that was not
 * demoted; that nobody deletes keys; and that clocks run at about the same rate. Whoever saw a
 * quarantine also waits it out by its own clock, in case the server's is set.
 *
 * wait=N and wait=all have no epoch: what was acknowledged by the replica that is promoted is not
 * lost.
 *
 * Not done: a check in each script. It would cost the server's core more than the tick, and what it
 * would refuse is not believed anyway, and undone.
 */
#include "engines/redis/witness.h"

#include "engines/redis/script.h"

#include <stdio.h>
#include <string.h>

#define PROBE_MS 100    /* how often whoever waits asks whether the epoch is confirmed, */
#define SHORT_MS 250    /* or enough replicas are back, */
#define CROWDED_MS 1000 /* or surplus ones are gone */

enum kind { TICK, WAIT, CONFIRM };

/* ---- Asking ----------------------------------------------------------------------------- */

static bool ask(struct snib__witness *w, enum kind kind, const struct snib__command *command)
{
    struct snib__redis_call call = {.kind = (int)kind, .sent = snib__now()};
    call.due_ns = SNIB__NEVER; /* silence ends the connection, and with it this */
    return snib__connection_ask(&w->connection, &call, command);
}

static void put_script(struct snib__command *c, const struct snib__script *script, bool by_text)
{
    snib__command_begin(c);
    snib__command_text(c, by_text ? "EVAL" : "EVALSHA");
    if (by_text) {
        snib__command_bytes(c, script->text, script->size);
    } else {
        snib__command_bytes(c, script->sha1, sizeof script->sha1 - 1);
    }
}

static bool ask_batch(struct snib__witness *w)
{
    const struct snib__witness_rule *rule = &w->rule;
    struct snib__command c;
    put_script(&c, &snib__witness_tick_script, w->by_text);
    snib__command_text(&c, "2");
    snib__command_text(&c, rule->epoch);
    snib__command_text(&c, rule->tick);
    snib__command_number(&c, rule->guards ? rule->quarantine_ms : 0);
    snib__command_number(&c, rule->servers);
    snib__command_number(&c, rule->max_lease_ms);
    if (!ask(w, TICK, &c)) {
        return false;
    }
    snib__command_begin(&c);
    snib__command_text(&c, "WAIT");
    snib__command_number(&c, rule->needed + w->surplus);
    snib__command_number(&c, rule->timeout_ms);
    return ask(w, WAIT, &c);
}

/* Somebody must drive meanwhile, also if nobody waits for it: those who do were told "not yet". */
static void set_under_way(struct snib__witness *w, bool under_way)
{
    *w->attend += (int)under_way - (int)w->under_way;
    w->under_way = under_way;
}

/* ---- Verdicts --------------------------------------------------------------------------- */

static void judge(struct snib__witness *w, struct snib__proof *p, enum snib__verdict verdict)
{
    snib__witness_drop(p);
    w->upcalls->judged(w, p, verdict);
}

/* Those of the present batch. Until all are, nobody begins the next one. */
static void judge_all(struct snib__witness *w, enum snib__verdict verdict)
{
    while (!snib__list_empty(&w->batch)) {
        judge(w, SNIB__OF(w->batch.after, struct snib__proof, in_witness), verdict);
    }
    set_under_way(w, false);
}

static void unheard(struct snib__witness *w, const char *why)
{
    snprintf(w->why, sizeof w->why, "wait=%s: %.200s", w->rule.word, why);
    judge_all(w, SNIB__VERDICT_UNHEARD);
}

/* Once the WAIT behind it was answered. */
static void refuse(struct snib__witness *w, int code)
{
    w->said = SNIB__WITNESS_CLOSED;
    w->code = code;
}

/* Begin the next batch, if there is any. With none, `alone`: only to know how it stands. */
static void begin(struct snib__witness *w, bool alone)
{
    if (w->under_way || (snib__list_empty(&w->waiting) && !alone)) {
        return;
    }
    while (!snib__list_empty(&w->waiting)) {
        struct snib__list *l = w->waiting.after;
        snib__list_remove(l);
        snib__list_append(&w->batch, l);
    }
    set_under_way(w, true);
    w->again = false;
    w->said = SNIB__WITNESS_UNKNOWN;
    w->asking = true;
    bool asked = ask_batch(w);
    w->asking = false;
    if (!asked) {
        snib__connection_end(&w->connection, SNIB__LOSS_CUT, 0, "out of memory");
    }
    snib__connection_flush(&w->connection);
}

/* ---- Answers ---------------------------------------------------------------------------- */

static void on_error(struct snib__witness *w, enum kind kind, const char *text)
{
    struct snib__error error = snib__error_read(text);
    char said[SNIB__ERROR_SAID];
    snib__error_say(said, text);
    if (error.kind == SNIB__ERROR_NO_SCRIPT && !w->by_text) {
        w->by_text = w->again = true;
    } else if (error.kind == SNIB__ERROR_DENIED) {
        snprintf(w->why, sizeof w->why, "wait=%s: %.200s", w->rule.word, said);
        refuse(w, error.code);
        if (kind != TICK) {
            judge_all(w, SNIB__VERDICT_REFUSED);
        }
    } else {
        unheard(w, said);
        snib__connection_end(&w->connection, SNIB__LOSS_CUT, 0, said); /* the next one looks anew */
    }
}

static void on_tick(struct snib__witness *w, const struct snib__reply *reply)
{
    const char *word = snib__reply_text(reply, 0), *rid = snib__reply_text(reply, 2);
    w->by_text = false;
    w->left_ms = snib__reply_number(reply, 1);
    if (strcmp(word, "OTHER") == 0) {
        snprintf(w->why, sizeof w->why,
                 "wait=%s: others here have replicas=%lld and max-lease=%lldms: all must have the "
                 "same; delete %.60s if nobody has these any more",
                 w->rule.word, (long long)w->left_ms - 1, (long long)snib__reply_number(reply, 2),
                 w->rule.epoch);
        refuse(w, SNIB_EUNSAFE);
        return;
    }
    w->surplus = strcmp(word, "MANY") == 0 ? (int)w->left_ms - (w->rule.servers - 1) : 0;
    w->said = w->surplus > 0              ? SNIB__WITNESS_CROWDED
              : strcmp(word, "OPEN") == 0 ? SNIB__WITNESS_OPEN
              : strcmp(word, "QUAR") == 0 ? SNIB__WITNESS_QUARANTINE
                                          : SNIB__WITNESS_PENDING;
    w->counts = rid[0] || !w->rule.guards;
    if (w->counts && strcmp(w->rid, rid) != 0) {
        snprintf(w->rid, sizeof w->rid, "%.47s", rid);
        w->epoch++;
        w->until_ns = 0;
    }
}

/* A quarantine runs. The server's clock counts, and ours from when we first saw it. */
static void note_quarantine(struct snib__witness *w, int64_t left_ms)
{
    int64_t left_ns = w->until_ns - snib__now().boot_ns;
    if (left_ns <= 0) { /* the first time; or the server's clock was set back */
        w->until_ns = snib__later(snib__now().boot_ns, left_ms * SNIB__MS);
        left_ns = left_ms * SNIB__MS;
    }
    w->standing = SNIB__WITNESS_QUARANTINE;
    left_ms = left_ns > left_ms * SNIB__MS ? left_ns / SNIB__MS : left_ms;
    snprintf(w->why, sizeof w->why,
             "wait=%s: quarantine for another %.1f s: the master is new, and leases that it may "
             "not know may still run (at most max-lease=)",
             w->rule.word, (double)left_ms / 1000);
}

static void ask_confirm(struct snib__witness *w)
{
    struct snib__command c;
    put_script(&c, &snib__witness_confirm_script, true); /* once in a failover */
    snib__command_text(&c, "1");
    snib__command_text(&c, w->rule.epoch);
    snib__command_text(&c, w->rid);
    if (!ask(w, CONFIRM, &c)) {
        snib__connection_end(&w->connection, SNIB__LOSS_CUT, 0, "out of memory");
    }
}

static void too_few(struct snib__witness *w, int64_t acknowledged)
{
    snprintf(
        w->why, sizeof w->why,
        "wait=%s: %lld of the %d replicas that must have it have acknowledged it within %.1f s",
        w->rule.word, (long long)acknowledged, w->rule.needed, (double)w->rule.timeout_ms / 1000);
    w->standing = w->said == SNIB__WITNESS_OPEN ? SNIB__WITNESS_SHORT : w->standing;
    if (w->said == SNIB__WITNESS_PENDING) {
        w->standing = SNIB__WITNESS_PENDING;
        snprintf(w->why, sizeof w->why,
                 "wait=%s: the master is new, and only %lld of the %d replicas that must follow it "
                 "do so: nothing is granted before",
                 w->rule.word, (long long)acknowledged, w->rule.needed);
    }
    judge_all(w, SNIB__VERDICT_SHORT);
}

/* Grants are over; renewals count as soon as they come, if they may at all. */
static void judge_quarantined(struct snib__witness *w, bool renewals_count)
{
    struct snib__list *after;
    for (struct snib__list *l = w->batch.after; l != &w->batch; l = after) {
        struct snib__proof *p = SNIB__OF(l, struct snib__proof, in_witness);
        after = l->after;
        if (p->verb == SNIB__ATTEMPT) {
            judge(w, p, SNIB__VERDICT_QUARANTINED);
        } else if (renewals_count) {
            judge(w, p, SNIB__VERDICT_PROVEN);
        } else { /* in the next batch */
            snib__list_remove(l);
            snib__list_append(&w->waiting, l);
        }
    }
    set_under_way(w, false);
}

/* Whoever waits goes on waiting: the one too many may be there by mistake, or in passing. */
static void crowded(struct snib__witness *w, int64_t acknowledged)
{
    w->standing = SNIB__WITNESS_CROWDED;
    snprintf(w->why, sizeof w->why,
             "wait=%s: this master has %d replicas, and replicas=%d is what clients count on",
             w->rule.word, w->rule.servers - 1 + w->surplus, w->rule.servers - 1);
    if (w->counts && acknowledged >= w->rule.needed + w->surplus) {
        judge_quarantined(w, true);
    } else {
        judge_all(w, SNIB__VERDICT_QUARANTINED);
    }
}

static void on_acknowledged(struct snib__witness *w, int64_t acknowledged)
{
    if (w->said == SNIB__WITNESS_CLOSED || w->said == SNIB__WITNESS_UNKNOWN) {
        w->standing = w->said;
        judge_all(w,
                  w->said == SNIB__WITNESS_CLOSED ? SNIB__VERDICT_REFUSED : SNIB__VERDICT_UNHEARD);
    } else if (w->said == SNIB__WITNESS_CROWDED) {
        crowded(w, acknowledged);
    } else if (acknowledged < w->rule.needed) {
        too_few(w, acknowledged);
    } else if (w->said == SNIB__WITNESS_PENDING) {
        ask_confirm(w);
    } else if (w->said == SNIB__WITNESS_QUARANTINE) {
        note_quarantine(w, w->left_ms);
        judge_quarantined(w, true);
    } else if (w->until_ns > snib__now().boot_ns) {
        note_quarantine(w, 0);
        judge_quarantined(w, true);
    } else {
        w->standing = SNIB__WITNESS_OPEN;
        judge_all(w, SNIB__VERDICT_PROVEN);
    }
}

static void on_confirmed(struct snib__witness *w)
{
    note_quarantine(w, w->rule.quarantine_ms); /* or somebody else has confirmed it just now */
    judge_quarantined(w, false);
}

/* What another server granted, this one knows nothing of. */
static struct snib__proof *first_stranger(struct snib__witness *w)
{
    for (struct snib__list *l = w->batch.after; l != &w->batch; l = l->after) {
        struct snib__proof *p = SNIB__OF(l, struct snib__proof, in_witness);
        if (strcmp(p->run, w->greeting.fitness.run_id) != 0) {
            return p;
        }
    }
    return NULL;
}

static void judge_strangers(struct snib__witness *w)
{
    struct snib__proof *p;
    while ((p = first_stranger(w)) != NULL) {
        snprintf(w->why, sizeof w->why, "wait=%s: %s", w->rule.word,
                 p->run[0] ? "this is another server than the one that granted it"
                           : "it is not known which server granted it");
        judge(w, p, SNIB__VERDICT_UNHEARD);
    }
}

/* Is what this connection says about the server that grants? */
static bool is_elsewhere(struct snib__witness *w)
{
    const char *run = w->upcalls->run(w), *own = w->greeting.fitness.run_id;
    judge_strangers(w);
    if (run[0] && strcmp(run, own) == 0) {
        return false;
    }
    if (!run[0]) { /* it is being greeted, or may not be asked */
        unheard(w, "it is not known which server granted it");
        return true;
    }
    unheard(w, "this is another server than the one that granted it");
    snib__connection_end(&w->connection, SNIB__LOSS_CUT, 0, "another server than for commands");
    w->upcalls->elsewhere(w, "another server than for WAIT");
    return true;
}

static void on_reply(struct snib__connection *c, struct snib__redis_call *call,
                     const struct snib__reply *reply)
{
    struct snib__witness *w = c->owner;
    if (call->kind < 0) {
        snib__greeting_reply(&w->greeting, c, call, reply);
        return;
    }
    if (!w->under_way) {
        return; /* judged before */
    }
    if (w->again) { /* the answer to the WAIT behind a script that was not known */
        w->again = false;
        set_under_way(w, false);
        begin(w, true);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        on_error(w, (enum kind)call->kind, reply->text);
    } else if (call->kind == TICK) {
        on_tick(w, reply);
    } else if (!is_elsewhere(w)) {
        if (call->kind == WAIT) {
            on_acknowledged(w, reply->integer);
        } else {
            on_confirmed(w);
        }
    }
    begin(w, false);
}

static void greet(struct snib__connection *c)
{
    struct snib__witness *w = c->owner;
    w->by_text = false;
    snib__greeting_send(&w->greeting, c, w->credentials, SNIB__GREET_RUN);
}

static void on_lost(struct snib__connection *c, struct snib__redis_call *call, enum snib__loss how)
{
    (void)c;
    (void)call;
    (void)how; /* on_down follows */
}

static void on_down(struct snib__connection *c)
{
    struct snib__witness *w = c->owner;
    w->standing = SNIB__WITNESS_UNKNOWN;
    if (!w->asking) { /* else an idle one was found to be closed, and the next one is asked */
        unheard(w, c->why);
        begin(w, false);
    }
}

static const struct snib__connection_upcalls connection_upcalls = {
    .greet = greet,
    .reply = on_reply,
    .lost = on_lost,
    .down = on_down,
};

/* ---- From outside ----------------------------------------------------------------------- */

void snib__witness_init(struct snib__witness *w, const struct snib__witness_upcalls *upcalls,
                        const struct snib__witness_rule *rule, const struct snib__address *address,
                        const struct snib__credentials *credentials, int *attend, void *owner)
{
    *w = (struct snib__witness){.upcalls = upcalls,
                                .rule = *rule,
                                .credentials = credentials,
                                .attend = attend,
                                .owner = owner};
    snib__list_init(&w->waiting);
    snib__list_init(&w->batch);
    snib__connection_init(&w->connection, &connection_upcalls, address, w);
}

void snib__witness_close(struct snib__witness *w)
{
    snib__connection_close(&w->connection);
}

void snib__witness_prove(struct snib__witness *w, struct snib__proof *p)
{
    snib__witness_drop(p); /* a batch that is under way says nothing of what came after it */
    p->pending = true;
    snprintf(p->run, sizeof p->run, "%.40s", w->upcalls->run(w));
    snib__list_append(&w->waiting, &p->in_witness);
    begin(w, false);
}

void snib__witness_drop(struct snib__proof *p)
{
    if (p->pending) {
        snib__list_remove(&p->in_witness);
        p->pending = false;
    }
}

void snib__witness_other(struct snib__witness *w)
{
    while (!snib__list_empty(&w->waiting)) {
        struct snib__list *l = w->waiting.after;
        snib__list_remove(l);
        snib__list_append(&w->batch, l);
    }
    bool under_way = w->under_way;
    unheard(w, "the master is another server now");
    set_under_way(w, under_way);
    snib__connection_end(&w->connection, SNIB__LOSS_CUT, 0, "the master is another server now");
}

int64_t snib__witness_blocked_ms(struct snib__witness *w, bool again)
{
    int64_t left_ns = w->until_ns - snib__now().boot_ns;
    if (w->standing == SNIB__WITNESS_PENDING) {
        begin(w, true);
        return PROBE_MS;
    }
    if (w->standing == SNIB__WITNESS_SHORT && again) {
        begin(w, true);
        return SHORT_MS;
    }
    if (w->standing == SNIB__WITNESS_CROWDED) {
        begin(w, true);
        return CROWDED_MS;
    }
    if (w->standing == SNIB__WITNESS_QUARANTINE && left_ns > 0) {
        note_quarantine(w, left_ns / SNIB__MS + 1);
        return left_ns / SNIB__MS + 1;
    }
    return 0;
}

int64_t snib__witness_keep_time(struct snib__witness *w, int64_t now_ns)
{
    snib__connection_expire(&w->connection, now_ns);
    snib__connection_flush(&w->connection);
    return snib__connection_next(&w->connection);
}
