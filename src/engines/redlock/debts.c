/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debts: what this session must still release at one of its servers.
 *
 * A round that was not granted, a vote that came too late, a release that was not answered. The
 * release goes down the same connection, behind the attempt; if that attempt was not answered, the
 * release leaves the id behind as dead, so that it cannot be granted later. It is asked for again,
 * with growing pauses, until the server has answered or the lease there must be over.
 *
 * One at a server that does not answer is nobody's to wait for: it is asked for now and then, and
 * does not keep snib_close.
 */
#include "engines/redlock/debts.h"

#include "engines/redis/errors.h"
#include "engines/redlock/servers.h"

#include <stdlib.h>
#include <string.h>

#define PAUSE_FIRST_MS 50
#define PAUSE_MOST_MS 1000
#define GONE_NS (500 * SNIB__MS)

struct snib__redlock_debt {
    struct snib__list in_session;
    struct snib__server *server;
    char *name;
    unsigned char id[SNIB__ID_SIZE];
    int64_t loose_ms;
    int64_t until_ns; /* then it is over by itself */
    int64_t retry_ns; /* when to ask again, if it is not under way */
    int64_t pause_ms;
    bool by_text;
    bool counted;  /* in session->undoing */
    bool repeated; /* it may have been done already, without an answer */
    struct snib__redlock_bid *bid;
    snib__redlock_freed *freed;
};

static bool is_waited_for(const struct snib__redlock_debt *d)
{
    return !snib__server_is_gone(d->server, GONE_NS);
}

static void count(struct snib__redlock_debt *d, bool counted)
{
    d->server->session->session->undoing += counted - d->counted;
    d->counted = counted;
}

static void forget(struct snib__redlock_debt *d)
{
    count(d, false);
    snib__list_remove(&d->in_session);
    free(d->name);
    free(d);
}

static void move(struct snib__redlock_debt *d, struct snib__list *list)
{
    snib__list_remove(&d->in_session);
    snib__list_append(list, &d->in_session);
}

static void postpone(struct snib__redlock_debt *d)
{
    d->pause_ms = d->pause_ms >= PAUSE_FIRST_MS ? d->pause_ms * 2 : PAUSE_FIRST_MS;
    d->pause_ms = d->pause_ms < PAUSE_MOST_MS ? d->pause_ms : PAUSE_MOST_MS;
    d->retry_ns = snib__now().boot_ns + snib__jitter(d->pause_ms * SNIB__MS);
    move(d, &d->server->session->owing);
    count(d, is_waited_for(d));
}

static void ask(struct snib__redlock_debt *d)
{
    struct snib__server *s = d->server;
    struct snib__command command;
    struct snib__wish wish = snib__redlock_wish(s->session, d->name, d->id);
    struct snib__redis_call call = snib__node_call(&s->node, SNIB__VOTE_DEBT, d);
    wish.loose_ms = d->loose_ms;
    wish.by_text = call.by_text = d->by_text;
    s->session->layout->release(&command, &wish);
    move(d, &s->session->debts);
    if (!snib__node_ask(&s->node, &call, &command)) {
        postpone(d);
    }
}

struct snib__redlock_debt *snib__redlock_owe(struct snib__server *s, const char *name,
                                             const unsigned char id[SNIB__ID_SIZE],
                                             int64_t loose_ms, int64_t ttl_ms)
{
    struct snib__redlock_debt *d = calloc(1, sizeof *d);
    char *copy = strdup(name);
    if (!d || !copy) {
        free(d);
        free(copy);
        return NULL;
    }
    d->server = s;
    d->name = copy;
    memcpy(d->id, id, sizeof d->id);
    d->loose_ms = loose_ms;
    d->until_ns = snib__later(snib__now().boot_ns, ttl_ms * SNIB__MS);
    snib__list_append(&s->session->debts, &d->in_session);
    ask(d);
    snib__node_flush(&s->node);
    count(d, is_waited_for(d));
    return d;
}

void snib__redlock_debt_tell(struct snib__redlock_debt *d, struct snib__redlock_bid *bid,
                             snib__redlock_freed *freed)
{
    d->bid = bid;
    d->freed = freed;
}

static void tell(struct snib__redlock_debt *d, bool loss, enum snib__answer_word word)
{
    struct snib__redlock_bid *bid = d->bid;
    d->bid = NULL;
    if (bid) {
        d->freed(bid, d->server->index, loss, word, d->repeated);
    }
}

void snib__redlock_debt_reply(struct snib__server *s, struct snib__redis_call *call,
                              const struct snib__reply *reply)
{
    struct snib__redlock_debt *d = call->subject;
    struct snib__layout_answer answer;
    if (!d) {
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        struct snib__error error = snib__error_read(reply->text);
        if (error.kind == SNIB__ERROR_NO_SCRIPT && !d->by_text) {
            d->by_text = true;
            ask(d);
        } else if (error.kind == SNIB__ERROR_KIND || error.kind == SNIB__ERROR_DENIED) {
            tell(d, true, SNIB__ANSWER_NONE);
            forget(d); /* it has nothing of ours, or we may not */
        } else {
            tell(d, true, SNIB__ANSWER_NONE);
            postpone(d);
        }
        return;
    }
    if (!s->session->layout->answer(&answer, reply)) {
        snib__node_end(&s->node, "the server answered something else than was asked");
        tell(d, true, SNIB__ANSWER_NONE);
        postpone(d);
        return;
    }
    tell(d, false, answer.word);
    forget(d);
}

void snib__redlock_debt_lost(struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__redlock_debt *d = call->subject;
    bool at_once = how == SNIB__LOSS_CUT || how == SNIB__LOSS_UNSENT;
    call->subject = NULL;
    if (!d) {
        return;
    }
    d->by_text = false;
    d->repeated = d->repeated || how >= SNIB__LOSS_CUT;
    if (at_once && d->pause_ms == 0) {
        d->pause_ms = 1; /* once more, on the next connection */
        ask(d);
        count(d, is_waited_for(d));
        return;
    }
    tell(d, true, SNIB__ANSWER_NONE);
    postpone(d);
}

int64_t snib__redlock_debts_keep_time(struct snib__redlock *r, int64_t now_ns)
{
    int64_t next_ns = SNIB__NEVER;
    struct snib__list *after;
    for (struct snib__list *l = r->owing.after; l != &r->owing; l = after) {
        struct snib__redlock_debt *d = SNIB__OF(l, struct snib__redlock_debt, in_session);
        after = l->after;
        count(d, is_waited_for(d));
        if (now_ns >= d->until_ns) {
            forget(d);
            continue;
        }
        if (now_ns >= d->retry_ns) {
            ask(d); /* if it is lost, the connection says so */
        } else {
            next_ns = d->retry_ns < next_ns ? d->retry_ns : next_ns;
        }
    }
    return next_ns;
}

void snib__redlock_debts_close(struct snib__redlock *r)
{
    struct snib__list *lists[] = {&r->debts, &r->owing};
    for (size_t i = 0; i < 2; i++) {
        struct snib__list *after;
        for (struct snib__list *l = lists[i]->after; l != lists[i]; l = after) {
            after = l->after;
            forget(SNIB__OF(l, struct snib__redlock_debt, in_session));
        }
    }
}
