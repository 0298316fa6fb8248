/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For `snib doctor`: each server by itself, then all of them beside each other, then what follows.
 *
 * At each one its clock is read and a lock of our own is taken and given back. What is about a
 * single server is a warning as long as the others are a majority.
 */
#include "engines/redlock/examine.h"

#include "engines/redis/errors.h"
#include "engines/redlock/servers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ASK_TIME, ASK_LOCK, ASK_UNLOCK, ASKS };

static void tell(const struct snib__checkup *c, int verdict, const char *about, const char *remedy,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

static void tell(const struct snib__checkup *c, int verdict, const char *about, const char *remedy,
                 const char *format, ...)
{
    char text[900];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snib_finding finding = {
        .size = sizeof finding,
        .verdict = verdict,
        .about = about,
        .text = text,
        .remedy = remedy,
    };
    snib__found(c->query, &finding);
}

/* ---- Findings --------------------------------------------------------------------------- */

/* Can this one vote at all? */
static bool votes(const struct snib__checkup *c, struct snib__server *s)
{
    const struct snib__checked *k = &c->servers[s->index];
    return !k->lost && !k->refused[0] && snib__server_votes(s);
}

static void tell_server(const struct snib__checkup *c, struct snib__server *s, int worst)
{
    const struct snib__checked *k = &c->servers[s->index];
    const struct snib__fitness *f = &s->node.greeting.fitness;
    const char *where = s->settings.where;
    if (k->lost) {
        tell(c, worst, "server", "start it, or correct its address in the URL", "%s: %s", where,
             k->why);
    } else if (k->refused[0]) {
        tell(c, worst, "server", "the line that `snib doctor --acl URL` prints", "%s: %s", where,
             k->refused);
    } else if (!snib__server_votes(s)) {
        tell(c, worst, "server", NULL, "%s does not vote: %s", where, s->trouble);
    } else {
        tell(c, SNIB_GOOD, "server", NULL, "%s votes: %s %s, %.2f ms away", where, f->product,
             f->version, (double)k->round_trip_ns / (double)SNIB__MS);
    }
}

static void tell_majority(const struct snib__checkup *c, struct snib__redlock *r, unsigned voting)
{
    unsigned quorum = snib__redlock_quorum(r);
    if (voting < quorum) {
        tell(c, SNIB_BAD, "majority", "see to the servers above",
             "%u of %u servers vote, %u are needed: nothing can be locked", voting, r->count,
             quorum);
    } else if (voting == quorum) {
        tell(c, SNIB_WARNING, "majority", "see to the servers above",
             "%u of %u servers vote, %u are needed: none can be spared, and all locks are in doubt",
             voting, r->count, quorum);
    } else {
        tell(c, voting < r->count ? SNIB_WARNING : SNIB_GOOD, "majority",
             voting < r->count ? "see to the servers above" : NULL,
             "%u of %u servers vote, %u are needed: %u can be spared", voting, r->count, quorum,
             voting - quorum);
    }
}

/* True: no two of them are one. */
static bool tell_twins(const struct snib__checkup *c, struct snib__redlock *r)
{
    bool apart = true;
    for (unsigned i = 0; i < r->count; i++) {
        struct snib__server *twin = snib__server_twin(&r->servers[i]);
        if (twin && twin->index > i && !c->servers[i].lost) {
            char why[400];
            snib__server_twin_text(why, sizeof why, &r->servers[i], twin);
            tell(c, SNIB_BAD, "twins", "name each server once", "%s", why);
            apart = false;
        }
    }
    return apart;
}

static void tell_versions(const struct snib__checkup *c, struct snib__redlock *r)
{
    const struct snib__fitness *first = NULL;
    for (unsigned i = 0; i < r->count; i++) {
        const struct snib__fitness *f = &r->servers[i].node.greeting.fitness;
        if (c->servers[i].lost || !f->version[0]) {
            continue;
        }
        first = first ? first : f;
        if (strcmp(first->version, f->version) != 0 || strcmp(first->product, f->product) != 0) {
            tell(c, SNIB_WARNING, "versions", NULL, "they differ: %s %s and %s %s", first->product,
                 first->version, f->product, f->version);
            return;
        }
    }
}

static void tell_clocks(const struct snib__checkup *c, struct snib__redlock *r)
{
    int64_t low_ms = INT64_MAX, high_ms = INT64_MIN;
    for (unsigned i = 0; i < r->count; i++) {
        const struct snib__checked *k = &c->servers[i];
        if (!k->lost && k->round_trip_ns) {
            low_ms = k->ahead_ms < low_ms ? k->ahead_ms : low_ms;
            high_ms = k->ahead_ms > high_ms ? k->ahead_ms : high_ms;
        }
    }
    if (high_ms < low_ms) {
        return;
    }
    bool far = high_ms - low_ms > 1000;
    tell(c, far ? SNIB_WARNING : SNIB_GOOD, "clocks",
         far ? "keep their clocks by NTP: one that is set later jumps" : NULL,
         "they differ by %.3f s at the most", (double)(high_ms - low_ms) / 1000);
}

static void tell_restarts(const struct snib__checkup *c, struct snib__redlock *r)
{
    unsigned durable = 0, asked = 0;
    const struct snib__quarantine_rule *rule = &r->servers[0].settings.quarantine;
    for (unsigned i = 0; i < r->count; i++) {
        const struct snib__node *node = &r->servers[i].node;
        asked += !c->servers[i].lost;
        durable += !c->servers[i].lost && snib__fitness_durable(&node->greeting.fitness);
    }
    if (rule->off) {
        tell(c, SNIB_WARNING, "restarts", "leave out quarantine=no, unless all keep their data",
             "quarantine=no: a server that lost locks in a restart votes at once, and they may be "
             "granted twice");
    } else if (durable == asked) {
        tell(c, SNIB_GOOD, "restarts", NULL,
             "all that answer keep what they answered (AOF, fsync always)");
    } else {
        tell(c, SNIB_GOOD, "restarts", NULL,
             "%u of %u that answer may lose locks in a restart; one that was restarted does not "
             "vote for %.0f s",
             asked - durable, asked, (double)rule->span_ms / 1000);
    }
}

static void finish(struct snib__redlock *r, struct snib__checkup *c)
{
    unsigned voting = 0;
    for (unsigned i = 0; i < r->count; i++) {
        snib__node_drop(&r->servers[i].node, c);
        voting += votes(c, &r->servers[i]);
    }
    int worst = voting >= snib__redlock_quorum(r) ? SNIB_WARNING : SNIB_BAD;
    for (unsigned i = 0; i < r->count; i++) {
        tell_server(c, &r->servers[i], worst);
    }
    bool apart = tell_twins(c, r);
    tell_majority(c, r, voting);
    tell_versions(c, r);
    tell_clocks(c, r);
    tell_restarts(c, r);
    if (voting >= snib__redlock_quorum(r) && apart) {
        tell(
            c, SNIB_GOOD, "promise", NULL,
            "one holder per lock while a majority of the %u servers keeps its data and its clocks, "
            "a tenth of a lease aside; a holder that stops can write late: guard with tokens%s",
            r->count,
            r->session->values[SNIB__REDLOCK_FENCING].number
                ? ""
                : ", which are as good as the clocks of the servers (fencing=no)");
    }
    snib__list_remove(&c->in_session);
    snib__finish(c->query, SNIB_OK, 0, NULL);
}

/* ---- Asking ----------------------------------------------------------------------------- */

static void ask(struct snib__server *s, struct snib__checkup *c, unsigned what)
{
    struct snib__command command;
    struct snib__redis_call call = snib__node_call(&s->node, SNIB__VOTE_EXAMINE, c);
    struct snib__wish wish = snib__redlock_wish(s->session, c->name, c->id);
    call.step = (unsigned char)what;
    wish.by_text = true;
    wish.mode = SNIB_EXCLUSIVE;
    wish.permits = wish.span = 1;
    wish.ttl_ms = 1000;
    wish.retention_ms = 1;
    wish.who = s->session->session->who;
    wish.label = "doctor";
    switch (what) {
    case ASK_TIME:
        snib__command_words(&command, "TIME", (char *)NULL);
        break;
    case ASK_LOCK:
        s->session->layout->attempt(&command, &wish);
        break;
    default:
        s->session->layout->release(&command, &wish);
        break;
    }
    c->servers[s->index].under_way += snib__node_ask(&s->node, &call, &command);
}

static void go_on(struct snib__redlock *r, struct snib__checkup *c)
{
    for (unsigned i = 0; i < r->count; i++) {
        if (c->servers[i].under_way > 0) {
            return;
        }
    }
    finish(r, c);
}

void snib__checkup_reply(struct snib__server *s, struct snib__redis_call *call,
                         const struct snib__reply *reply)
{
    struct snib__checkup *c = call->subject;
    if (!c) {
        return;
    }
    struct snib__checked *k = &c->servers[s->index];
    int64_t heard_ns = s->node.connection.heard_ns;
    k->under_way--;
    if (reply->type == REDIS_REPLY_ERROR && !k->refused[0]) {
        snib__error_say(k->refused, reply->text);
    } else if (call->step == ASK_TIME && reply->type == REDIS_REPLY_ARRAY) {
        int64_t server_ms =
            snib__reply_number(reply, 0) * 1000 + snib__reply_number(reply, 1) / 1000;
        k->round_trip_ns = heard_ns - call->sent.boot_ns;
        k->ahead_ms = server_ms - (call->sent.boot_ns / 2 + heard_ns / 2) / SNIB__MS;
    }
    go_on(s->session, c);
}

void snib__checkup_lost(struct snib__server *s, struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__checkup *c = call->subject;
    call->subject = NULL;
    if (!c) {
        return;
    }
    struct snib__checked *k = &c->servers[s->index];
    k->under_way--;
    if (!k->lost) {
        k->lost = true;
        snprintf(k->why, sizeof k->why, "%.239s", snib__node_why(&s->node, how));
        snib__server_unheard(s, k->why);
    }
    go_on(s->session, c);
}

void snib__checkup(struct snib__query *query)
{
    struct snib__redlock *r = snib__redlock_of(query->session);
    struct snib__checkup *c = query->state;
    c->query = query;
    snib__list_append(&r->examinations, &c->in_session);
    snib__random(c->id, sizeof c->id);
    snprintf(c->name, sizeof c->name, "snib-doctor-%02x%02x%02x%02x%02x%02x", c->id[0], c->id[1],
             c->id[2], c->id[3], c->id[4], c->id[5]);
    for (unsigned i = 0; i < r->count; i++) {
        for (unsigned what = 0; what < ASKS; what++) {
            ask(&r->servers[i], c, what);
        }
        snib__node_flush(&r->servers[i].node);
    }
    go_on(r, c);
}

void snib__checkup_close(struct snib__redlock *r)
{
    while (!snib__list_empty(&r->examinations)) {
        struct snib__checkup *c = SNIB__OF(r->examinations.after, struct snib__checkup, in_session);
        snib__list_remove(&c->in_session);
        for (unsigned i = 0; i < r->count; i++) {
            snib__node_drop(&r->servers[i].node, c);
        }
        snib__finish(c->query, SNIB_ECANCELED, 0, "closed");
    }
}
