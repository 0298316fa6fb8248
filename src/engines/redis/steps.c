/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps: what a script would do, without scripts.
 *
 *     WATCH lock fence        from now on, whoever touches them spoils what follows
 *     MGET, PTTL              what there is
 *     DEL of nothing          for an attempt: a server that has become a replica refuses that, and
 *                             what it has may be old (scripts/busy.lua)
 *     TIME                    and now the plan decides
 *     MULTI ... EXEC          all of it, or nothing
 *
 * One exchange at a time on a connection: EXEC ends every WATCH there is, so that two of them would
 * undo each other's protection. Others wait in line. An exchange whose connection was lost begins
 * anew: its WATCH went with it, and nothing of it is ever sent on another one. One that has found
 * nothing to write leaves its WATCH behind, which can only spoil the next one needlessly, once.
 *
 * EXEC is refused as a whole if one of its commands was. Those that are dispensable (a word that we
 * may not say, a note for which there is no memory) are then left out, and it begins anew.
 *
 * A server whose memory is full queues nothing for EXEC, not even what needs none: without scripts
 * no lease is extended then, and none is given back before its time is over.
 *
 * Two round trips instead of one, and locks of one client wait for each other: for servers that
 * leave no choice.
 */
#include "engines/redis/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MOST 200

/* In this order on the wire; what is written comes between MULTI and EXEC. */
enum step { WATCH, READ, LEFT, PROVE, TIME, MULTI, WRITE, EXEC };

struct snib__exchange {
    struct snib__list in_session;
    enum snib__plan_verb verb;
    struct snib__redis_call call; /* what was asked */
    struct snib__wish wish;
    char *texts[3]; /* its name, who and label */
    unsigned char id[SNIB__ID_SIZE];
    struct snib__sight sight;
    struct snib__decision decision;
    char error[256];  /* the first of this round; "": none */
    unsigned skipped; /* a bit for each of the commands that are left out */
    unsigned refused; /* of those that may be: in this round */
    unsigned rounds;
    unsigned under_way; /* calls that name it */
    bool begun, over;   /* over: it was answered */
};

static void go_on(struct snib__redis *r);

/* ---- Beginning and end ------------------------------------------------------------------ */

static void forget_sight(struct snib__exchange *x)
{
    free(x->sight.value);
    free(x->sight.fence);
    x->sight = (struct snib__sight){.held = false};
}

static void free_exchange(struct snib__exchange *x)
{
    for (size_t i = 0; i < sizeof x->texts / sizeof x->texts[0]; i++) {
        free(x->texts[i]);
    }
    forget_sight(x);
    free(x);
}

/* It has its answer; its memory stays while calls name it. */
static void retire(struct snib__redis *r, struct snib__exchange *x)
{
    x->over = true;
    snib__list_remove(&x->in_session);
    snib__list_append(&r->spent, &x->in_session);
}

static void end(struct snib__exchange *x)
{
    if (x->under_way == 0) {
        snib__list_remove(&x->in_session);
        free_exchange(x);
    }
}

static void answer(struct snib__redis *r, struct snib__exchange *x, int type, const char *text,
                   size_t size)
{
    struct snib__reply reply = {.type = type, .text = text, .size = size};
    struct snib__redis_call call = x->call;
    retire(r, x);
    r->node.upcalls->reply(&r->node, &call, &reply);
    end(x);
    go_on(r);
}

static void answer_error(struct snib__redis *r, struct snib__exchange *x, const char *text)
{
    char copy[sizeof x->error];
    snprintf(copy, sizeof copy, "%s", text);
    answer(r, x, REDIS_REPLY_ERROR, copy, strlen(copy));
}

static void lose(struct snib__redis *r, struct snib__exchange *x, enum snib__loss how)
{
    struct snib__redis_call call = x->call;
    retire(r, x);
    if (call.subject) {
        r->node.upcalls->lost(&r->node, &call, how);
    }
    end(x);
    go_on(r);
}

/* ---- Sending ---------------------------------------------------------------------------- */

static bool send_step(struct snib__redis *r, struct snib__exchange *x, enum step step,
                      const struct snib__command *command, unsigned index)
{
    struct snib__redis_call call = snib__node_call(&r->node, SNIB__CALL_STEP, x);
    call.due_ns = x->call.due_ns;
    call.step = (unsigned char)step;
    call.index = (unsigned char)index;
    bool sent = snib__node_ask(&r->node, &call, command);
    x->under_way += sent;
    return sent;
}

static void look(struct snib__redis *r, struct snib__exchange *x)
{
    char lock[SNIB__KEY_MAX], fence[SNIB__KEY_MAX];
    struct snib__command command;
    bool attempt = x->verb == SNIB__PLAN_ATTEMPT;
    forget_sight(x);
    x->error[0] = '\0';
    x->refused = 0;
    r->layout->plan->keys(lock, fence, &x->wish);
    snib__command_words(&command, "WATCH", lock, fence, (char *)NULL);
    bool sent = send_step(r, x, WATCH, &command, 0);
    snib__command_words(&command, "MGET", lock, fence, (char *)NULL);
    sent = sent && send_step(r, x, READ, &command, 0);
    snib__command_words(&command, "PTTL", lock, (char *)NULL);
    sent = sent && send_step(r, x, LEFT, &command, 0);
    snib__command_begin(&command);
    snib__command_text(&command, "DEL");
    snib__command_format(&command, "%s:snib-fence", fence);
    sent = sent && (!attempt || send_step(r, x, PROVE, &command, 0));
    snib__command_words(&command, "TIME", (char *)NULL);
    sent = sent && send_step(r, x, TIME, &command, 0);
    if (!sent) {
        answer_error(r, x, "ERR out of memory");
    }
}

static void write_all(struct snib__redis *r, struct snib__exchange *x)
{
    struct snib__command command;
    bool dispensable;
    snib__command_words(&command, "MULTI", (char *)NULL);
    bool sent = send_step(r, x, MULTI, &command, 0);
    for (unsigned i = 0;
         sent && r->layout->plan->write(&command, &x->decision, &x->wish, i, &dispensable); i++) {
        if (!(x->skipped & 1U << i)) {
            sent = send_step(r, x, WRITE, &command, dispensable ? i + 1 : 0);
        }
    }
    snib__command_words(&command, "EXEC", (char *)NULL);
    sent = sent && send_step(r, x, EXEC, &command, 0);
    if (!sent) { /* what was sent of it has no end: nothing else may follow there */
        snib__node_end(&r->node, "out of memory");
    }
    snib__node_flush(&r->node);
}

static void decide(struct snib__redis *r, struct snib__exchange *x)
{
    struct snib__decision *d = &x->decision;
    if (x->error[0]) {
        answer_error(r, x, x->error);
        return;
    }
    r->layout->plan->decide(d, x->verb, &x->wish, &x->sight);
    if (d->answer[0] == '-') {
        answer_error(r, x, d->answer + 1);
    } else if (d->takes || d->extends || d->deletes || d->touches) {
        write_all(r, x);
    } else {
        answer(r, x, REDIS_REPLY_STRING, d->answer, d->answer_size);
    }
}

static void begin_anew(struct snib__redis *r, struct snib__exchange *x)
{
    if (x->rounds++ >= ROUNDS_MOST) {
        answer_error(r, x, "BUSY others touch this lock all the time");
        return;
    }
    look(r, x);
    snib__node_flush(&r->node);
}

/* Whoever is first in line, if nobody is at it. */
static void go_on(struct snib__redis *r)
{
    if (snib__list_empty(&r->exchanges)) {
        return;
    }
    struct snib__exchange *x = SNIB__OF(r->exchanges.after, struct snib__exchange, in_session);
    if (!x->begun) {
        x->begun = true;
        look(r, x);
        snib__node_flush(&r->node);
    }
}

/* ---- Replies ---------------------------------------------------------------------------- */

static bool copy_text(struct snib__exchange *x, char **out, size_t *size,
                      const struct snib__reply *reply, size_t index)
{
    size_t length = 0;
    const struct snib__reply *item = index < reply->count ? reply->items[index] : NULL;
    if (!item || item->type != REDIS_REPLY_STRING) {
        return false;
    }
    const char *bytes = snib__reply_bytes(reply, index, &length);
    *out = calloc(1, length + 1);
    if (!*out) {
        snprintf(x->error, sizeof x->error, "ERR out of memory");
        return false;
    }
    memcpy(*out, bytes, length);
    *size = length;
    return true;
}

static void on_exec(struct snib__redis *r, struct snib__exchange *x,
                    const struct snib__reply *reply)
{
    const struct snib__decision *d = &x->decision;
    if (reply->type == REDIS_REPLY_NIL) {
        begin_anew(r, x); /* somebody was there */
    } else if (reply->type == REDIS_REPLY_ERROR && x->refused) {
        x->skipped |= x->refused;
        begin_anew(r, x);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        answer_error(r, x, x->error[0] ? x->error : reply->text);
    } else if (reply->type != REDIS_REPLY_ARRAY || reply->count == 0) {
        answer_error(r, x, "ERR EXEC answered something else");
    } else if (d->takes && reply->items[0]->type == REDIS_REPLY_NIL) {
        answer_error(r, x, "WRONGTYPE the key is no string"); /* MGET does not tell */
    } else if ((d->extends || d->deletes) && reply->items[0]->integer == 0) {
        begin_anew(r, x); /* its time was over just now */
    } else {
        answer(r, x, REDIS_REPLY_STRING, d->answer, d->answer_size);
    }
}

void snib__steps_reply(struct snib__redis *r, const struct snib__redis_call *call,
                       const struct snib__reply *reply)
{
    struct snib__exchange *x = call->subject;
    if (!x) {
        return;
    }
    x->under_way--;
    if (x->over) {
        end(x);
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR && call->step != EXEC) {
        if (call->index) { /* dispensable */
            x->refused |= 1U << (call->index - 1);
        } else if (!x->error[0]) {
            snprintf(x->error, sizeof x->error, "%.250s", reply->text);
        }
    }
    switch ((enum step)call->step) {
    case READ:
        x->sight.held = copy_text(x, &x->sight.value, &x->sight.value_size, reply, 0);
        x->sight.fenced = copy_text(x, &x->sight.fence, &x->sight.fence_size, reply, 1);
        break;
    case LEFT:
        x->sight.left_ms = reply->integer;
        break;
    case TIME:
        x->sight.now_us = snib__reply_number(reply, 0) * 1000000 + snib__reply_number(reply, 1);
        decide(r, x);
        break;
    case EXEC:
        on_exec(r, x, reply);
        break;
    default:
        break;
    }
}

/* The first loss ends it. The calls behind it that are there yet find nobody. */
void snib__steps_lost(struct snib__redis *r, struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__exchange *x = call->subject;
    call->subject = NULL;
    x->under_way--;
    if (x->over) {
        end(x);
    } else {
        lose(r, x, how);
    }
}

/* ---- Asking ----------------------------------------------------------------------------- */

static bool copy_wish(struct snib__exchange *x, const struct snib__wish *wish)
{
    const char *const given[] = {wish->name, wish->who, wish->label};
    x->wish = *wish;
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        x->texts[i] = strdup(given[i] ? given[i] : "");
        if (!x->texts[i]) {
            return false;
        }
    }
    x->wish.name = x->texts[0];
    x->wish.who = x->texts[1];
    x->wish.label = x->texts[2];
    if (wish->id) {
        memcpy(x->id, wish->id, sizeof x->id);
        x->wish.id = x->id;
    }
    return true;
}

static bool ask_steps(struct snib__redis *r, enum snib__plan_verb verb,
                      const struct snib__redis_call *call, const struct snib__wish *wish)
{
    struct snib__exchange *x = calloc(1, sizeof *x);
    if (!x || !copy_wish(x, wish)) {
        if (x) {
            free_exchange(x);
        }
        return false;
    }
    x->verb = verb;
    x->call = *call;
    snib__list_append(&r->exchanges, &x->in_session);
    if (r->exchanges.after == &x->in_session) {
        x->begun = true;
        look(r, x);
    }
    return true;
}

bool snib__steps_asking(struct snib__redis *r)
{
    struct snib__command asking;
    struct snib__redis_call call = snib__node_call(&r->node, SNIB__CALL_ASKING, NULL);
    snib__command_words(&asking, "ASKING", (char *)NULL);
    return snib__node_ask(&r->node, &call, &asking);
}

bool snib__steps_ask(struct snib__redis *r, enum snib__plan_verb verb,
                     const struct snib__redis_call *call, const struct snib__wish *wish)
{
    struct snib__command command;
    if (r->by_steps) {
        return ask_steps(r, verb, call, wish);
    }
    switch (verb) {
    case SNIB__PLAN_ATTEMPT:
        r->layout->attempt(&command, wish);
        break;
    case SNIB__PLAN_RENEW:
        r->layout->renew(&command, wish);
        break;
    case SNIB__PLAN_RELEASE:
        r->layout->release(&command, wish);
        break;
    default:
        r->layout->evict(&command, wish);
        break;
    }
    return (!call->asking || snib__steps_asking(r)) && snib__node_ask(&r->node, call, &command);
}

void snib__steps_drop(struct snib__redis *r, const void *subject)
{
    struct snib__list *all = &r->exchanges, *after;
    for (struct snib__list *l = all->after; l != all; l = after) {
        struct snib__exchange *x = SNIB__OF(l, struct snib__exchange, in_session);
        after = l->after;
        if (x->call.subject == subject) {
            x->call.subject = NULL; /* it goes on: what it began must have an end */
        }
    }
}

/* EVAL and EVALSHA are named in it: what a script may not do inside is another matter. */
bool snib__steps_switch(struct snib__redis *r, const char *error)
{
    if (!r->layout->plan || !(strstr(error, "'eval") || strstr(error, "'EVAL"))) {
        return false;
    }
    r->by_steps = true;
    return true;
}

static void free_all(struct snib__list *all)
{
    struct snib__list *after;
    for (struct snib__list *l = all->after; l != all; l = after) {
        after = l->after;
        free_exchange(SNIB__OF(l, struct snib__exchange, in_session));
    }
    snib__list_init(all);
}

void snib__steps_close(struct snib__redis *r)
{
    free_all(&r->exchanges);
    free_all(&r->spent);
}
