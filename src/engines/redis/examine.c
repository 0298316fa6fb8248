/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An examination of the server: what `snib doctor` shows.
 *
 * Everything that locks need is tried for real, on a lock with a name that nobody else has, which
 * is gone when this is over. Nobody else's key is touched. The probes are sent at once; when the
 * last is answered one PING more, alone, measures the way. Meanwhile the inbox is opened. What the
 * greeting found is part of it. findings.c puts all that into words.
 */
#include "engines/redis/examine.h"

#include "base/random.h"
#include "engines/redis/errors.h"
#include "engines/redis/replication.h"
#include "engines/redis/steps.h"

#include <stdio.h>
#include <string.h>

/* Then a lock: by text, which makes the scripts known, and the last one by its SHA-1. */
enum step { ATTEMPT, RENEW, RELEASE, RELEASE_BY_SHA1, CLEAN, STEPS };

static size_t count_probes(const struct snib__redis *r)
{
    size_t count = 0;
    while (r->layout->probes[count].words[0]) {
        count++;
    }
    return count;
}

/* A lock is tried by scripts, or not at all. */
static size_t count_own(const struct snib__redis *r, const struct snib__examination *e)
{
    return count_probes(r) + (e->without_scripts ? 0 : STEPS);
}

/* And what is asked of replicated servers. */
static size_t count_all(const struct snib__redis *r, const struct snib__examination *e)
{
    struct snib__command none;
    size_t more = 0;
    while (snib__replication_ask(&none, r, more)) {
        more++;
    }
    return count_own(r, e) + more;
}

/* ---- Asking ----------------------------------------------------------------------------- */

static bool ask(struct snib__redis *r, struct snib__examination *e,
                const struct snib__command *command)
{
    struct snib__redis_call call = snib__node_call(&r->node, SNIB__CALL_EXAMINE, e);
    e->pinged = call.sent;
    return snib__node_ask(&r->node, &call, command);
}

static struct snib__wish wish_of(const struct snib__redis *r, const struct snib__examination *e)
{
    struct snib__wish wish = snib__wish_for(r, e->name, e->id);
    wish.retention_ms = 1000;
    wish.ttl_ms = 1000;
    wish.permits = wish.span = 1;
    wish.who = r->session->who;
    wish.label = "doctor";
    wish.by_text = true;
    return wish;
}

static bool ask_probe(struct snib__redis *r, struct snib__examination *e,
                      const struct snib__probe *p)
{
    struct snib__command command;
    char key[SNIB__KEY_MAX];
    snib__command_begin(&command);
    for (size_t i = 0; i < sizeof p->words / sizeof p->words[0] && p->words[i]; i++) {
        const char *at = strchr(p->words[i], '@');
        if (at) {
            r->layout->key(key, r->settings.prefix, e->name);
            snib__command_format(&command, "%.*s%s%s", (int)(at - p->words[i]), p->words[i], key,
                                 at + 1);
        } else {
            snib__command_text(&command, p->words[i][0] == '#' ? e->channel : p->words[i]);
        }
    }
    return ask(r, e, &command);
}

static bool ask_step(struct snib__redis *r, struct snib__examination *e, enum step step)
{
    struct snib__command command;
    struct snib__wish wish = wish_of(r, e);
    switch (step) {
    case ATTEMPT:
        r->layout->attempt(&command, &wish);
        break;
    case RENEW:
        r->layout->renew(&command, &wish);
        break;
    case RELEASE_BY_SHA1:
        wish.by_text = false;
        r->layout->release(&command, &wish);
        break;
    case CLEAN:
        return ask_probe(r, e, &r->layout->clean);
    default:
        r->layout->release(&command, &wish);
        break;
    }
    return ask(r, e, &command);
}

static bool ask_all(struct snib__redis *r, struct snib__examination *e)
{
    bool asked = true;
    size_t probes = count_probes(r);
    for (size_t i = 0; asked && i < count_own(r, e); i++) {
        asked = i < probes ? ask_probe(r, e, &r->layout->probes[i])
                           : ask_step(r, e, (enum step)(i - probes));
        e->asked += asked;
    }
    struct snib__command command;
    for (size_t i = 0; asked && snib__replication_ask(&command, r, i); i++) {
        asked = ask(r, e, &command);
        e->asked += asked;
    }
    return asked;
}

/* ---- The end ---------------------------------------------------------------------------- */

static void end(struct snib__redis *r, struct snib__examination *e, int code, const char *why)
{
    snib__node_drop(&r->node, e);
    snib__list_remove(&e->in_session);
    if (code == SNIB_OK) {
        snib__findings_tell(r, e);
    }
    snib__finish(e->query, code, 0, why);
}

static void end_if_complete(struct snib__redis *r, struct snib__examination *e)
{
    if (!e->lost && e->round_trip_ns && e->inbox_known) {
        end(r, e, SNIB_OK, NULL);
    }
}

/* ---- Replies ---------------------------------------------------------------------------- */

static void append(char *list, size_t size, const char *word)
{
    size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", used ? ", " : "", word);
}

static void on_refused(struct snib__redis *r, struct snib__examination *e, size_t index,
                       const char *text)
{
    struct snib__error error = snib__error_read(text);
    const struct snib__probe *probes = r->layout->probes;
    if (error.kind == SNIB__ERROR_LATER) {
        snprintf(e->why, sizeof e->why, "%.190s", text);
    } else if (index >= count_probes(r)) {
        if (snib__steps_switch(r, text)) {
            e->no_scripts = true;
        } else if (!e->broken[0]) {
            char said[SNIB__ERROR_SAID];
            snib__error_say(said, text);
            snprintf(e->broken, sizeof e->broken, "%.150s", said);
        }
    } else if (r->settings.quarantine.off && strcmp(probes[index].words[0], "CONFIG") == 0) {
        /* what it would tell is of no use then */
    } else if (probes[index].optional) {
        append(e->missing, sizeof e->missing, probes[index].words[0]);
    } else {
        append(e->denied, sizeof e->denied, probes[index].words[0]);
    }
}

static void on_step(struct snib__redis *r, struct snib__examination *e, enum step step,
                    const struct snib__reply *reply)
{
    static const char *const names[] = {"attempt", "renewal", "release", "second release"};
    struct snib__layout_answer answer;
    bool right = r->layout->answer(&answer, reply);
    if (step == CLEAN || e->broken[0] || e->no_scripts) {
        return;
    }
    switch (step) {
    case ATTEMPT:
    case RENEW:
        right = right && answer.word == SNIB__ANSWER_HELD;
        break;
    case RELEASE:
        right = right && answer.word == SNIB__ANSWER_GONE;
        break;
    default:
        right = right && answer.word == SNIB__ANSWER_DONE;
        break;
    }
    if (!right) {
        snprintf(e->broken, sizeof e->broken, "the %s was answered by something else", names[step]);
    }
}

/* What CONFIG GET answered to two of the probes. */
static void note_setting(struct snib__examination *e, const struct snib__reply *reply)
{
    snib__fitness_setting(&e->fitness, snib__reply_text(reply, 0), snib__reply_text(reply, 1));
}

static void note_greeting(struct snib__redis *r, struct snib__examination *e)
{
    if (!e->met) {
        e->met = true;
        e->fitness = r->node.greeting.fitness;
        e->unchecked = r->node.greeting.denied;
    }
}

void snib__examine_reply(struct snib__redis *r, struct snib__redis_call *call,
                         const struct snib__reply *reply)
{
    struct snib__examination *e = call->subject;
    struct snib__command ping;
    if (!e) {
        return;
    }
    note_greeting(r, e);
    size_t index = e->answered++;
    if (index >= count_all(r, e)) {
        int64_t span_ns = snib__elapsed_ns(call->sent, snib__now());
        e->round_trip_ns = span_ns > 0 ? span_ns : 1;
        end_if_complete(r, e);
        return;
    }
    if (index >= count_own(r, e)) {
        snib__replication_reply(e, index - count_own(r, e), reply);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        on_refused(r, e, index, reply->text);
    } else if (index >= count_probes(r)) {
        on_step(r, e, (enum step)(index - count_probes(r)), reply);
    } else if (strcmp(r->layout->probes[index].words[0], "CONFIG") == 0) {
        note_setting(e, reply);
    }
    if (e->answered == count_all(r, e)) {
        snib__command_words(&ping, "PING", (char *)NULL);
        (void)ask(r, e, &ping); /* no memory: the inbox, or the close, ends this */
    }
}

void snib__examine_lost(struct snib__redis *r, struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__examination *e = call->subject;
    call->subject = NULL;
    if (!e->lost) {
        e->lost = true;
        e->how = how;
        snprintf(e->why, sizeof e->why, "%s", snib__node_why(&r->node, how));
    }
    if (++e->answered >= e->asked || how == SNIB__LOSS_TOO_LATE) {
        end(r, e, SNIB_OK, NULL);
    }
}

/* ---- The inbox -------------------------------------------------------------------------- */

static void note_inbox(struct snib__redis *r, struct snib__examination *e)
{
    e->inbox_known = true;
    if (!snib__node_inbox(&r->node)) {
        snprintf(e->inbox_broken, sizeof e->inbox_broken, "%.150s", r->node.inbox.connection.why);
    }
}

void snib__examine_inbox(struct snib__redis *r)
{
    struct snib__list *after;
    for (struct snib__list *l = r->examinations.after; l != &r->examinations; l = after) {
        struct snib__examination *e = SNIB__OF(l, struct snib__examination, in_session);
        after = l->after;
        if (!e->inbox_known) {
            note_inbox(r, e);
            end_if_complete(r, e);
        }
    }
}

/* ---- Submitting ------------------------------------------------------------------------- */

void snib__examine_name(struct snib__examination *e)
{
    unsigned char random[12];
    snib__random(random, sizeof random);
    snib__random(e->id, sizeof e->id);
    int n = snprintf(e->name, sizeof e->name, "doctor-");
    for (size_t i = 0; i < sizeof random; i++) {
        n += snprintf(e->name + n, sizeof e->name - (size_t)n, "%02x", random[i]);
    }
}

void snib__examine_at(struct snib__redis *r, struct snib__query *query)
{
    struct snib__examination *e = query->state;
    snprintf(e->channel, sizeof e->channel, "%.110s:inbox:%s", r->settings.root, e->name);
    e->query = query;
    e->without_scripts = e->no_scripts = r->by_steps;
    e->fitness.uptime_s = -1;
    snib__list_append(&r->examinations, &e->in_session);
    if (!ask_all(r, e)) {
        end(r, e, SNIB_ENOMEM, "out of memory");
        return;
    }
    if (!snib__node_open_inbox(&r->node) || snib__node_inbox(&r->node)) {
        note_inbox(r, e);
    }
    snib__node_flush(&r->node);
}

void snib__examine(struct snib__query *query)
{
    snib__examine_name(query->state);
    snib__examine_at(snib__redis_of(query->session), query);
}

void snib__examine_close(struct snib__redis *r)
{
    while (!snib__list_empty(&r->examinations)) {
        end(r, SNIB__OF(r->examinations.after, struct snib__examination, in_session),
            SNIB_ECANCELED, "closed");
    }
}
