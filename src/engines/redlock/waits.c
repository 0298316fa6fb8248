/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches: locks that somebody waits for, and what the servers say about them.
 *
 * Whoever releases a lock says so at each server. A message proves nothing and grants nothing:
 * whoever waits asks. So it may get lost, come twice or be forged. A name that was waited for is
 * often waited for again, so that it is listened to for a second after the last one has left.
 */
#include "engines/redlock/waits.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define LINGER_NS (1000 * SNIB__MS)

struct snib__ear {
    struct snib__entry entry; /* by channel */
    struct snib__watch *watch;
    char *channel;
};

struct snib__watch {
    struct snib__list in_session;
    struct snib__list bids;
    struct snib__ear ears[SNIB__CHANNELS];
    size_t count; /* of ears */
    unsigned waiting;
    bool hears[SNIB__SERVERS_MOST]; /* the first channel, there */
    int64_t idle_ns;                /* until then, if nobody waits */
};

static void forget(struct snib__redlock *r, struct snib__watch *w)
{
    for (size_t i = 0; i < w->count; i++) {
        snib__table_remove(&r->ears, &w->ears[i].entry);
        free(w->ears[i].channel);
    }
    snib__list_remove(&w->in_session);
    free(w);
}

static void say(struct snib__server *s, const struct snib__watch *w, bool listen)
{
    for (size_t i = 0; i < w->count; i++) {
        snib__node_listen(&s->node, w->ears[i].channel, listen);
    }
}

static struct snib__watch *find(struct snib__redlock *r, const char *channel, size_t *which)
{
    struct snib__entry *e = snib__table_first(&r->ears, snib__hash_text(channel));
    for (; e; e = snib__entry_next(e)) {
        struct snib__ear *ear = SNIB__OF(e, struct snib__ear, entry);
        if (strcmp(ear->channel, channel) == 0) {
            *which = (size_t)(ear - ear->watch->ears);
            return ear->watch;
        }
    }
    return NULL;
}

static struct snib__watch *begin(struct snib__redlock *r, char names[][SNIB__KEY_MAX], size_t count)
{
    struct snib__watch *w = calloc(1, sizeof *w);
    if (!w) {
        return NULL;
    }
    snib__list_init(&w->bids);
    snib__list_append(&r->watches, &w->in_session);
    while (w->count < count) {
        struct snib__ear *ear = &w->ears[w->count];
        ear->watch = w;
        ear->channel = strdup(names[w->count]);
        if (!ear->channel ||
            !snib__table_add(&r->ears, &ear->entry, snib__hash_text(names[w->count]))) {
            free(ear->channel);
            forget(r, w);
            return NULL;
        }
        w->count++;
    }
    for (unsigned i = 0; i < r->count; i++) {
        say(&r->servers[i], w, true); /* if the inbox is open; else when it is */
    }
    return w;
}

void snib__waits_await(struct snib__redlock *r)
{
    bool wanted = r->listening > 0 || r->waiting > 0;
    for (unsigned i = 0; i < r->count; i++) {
        snib__node_await(&r->servers[i].node, wanted);
        if (wanted) {
            (void)snib__node_open_inbox(&r->servers[i].node);
        }
    }
}

void snib__waits_join(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    char names[SNIB__CHANNELS][SNIB__KEY_MAX];
    size_t which;
    if (b->watch) {
        return;
    }
    size_t count =
        r->layout->channels(names, r->servers[0].settings.prefix, r->database, b->claim->name);
    struct snib__watch *w = find(r, names[0], &which);
    w = w ? w : begin(r, names, count);
    if (w) {
        b->watch = w;
        snib__list_append(&w->bids, &b->in_watch);
        w->waiting++;
        if (r->waiting++ == 0) {
            snib__waits_await(r);
        }
    }
}

void snib__waits_leave(struct snib__redlock *r, struct snib__redlock_bid *b)
{
    struct snib__watch *w = b->watch;
    if (!w) {
        return;
    }
    snib__list_remove(&b->in_watch);
    b->watch = NULL;
    if (--r->waiting == 0) {
        snib__waits_await(r);
    }
    if (--w->waiting == 0) {
        w->idle_ns = snib__later(snib__now().boot_ns, LINGER_NS);
        if (!r->session->wake_ns || w->idle_ns < r->session->wake_ns) {
            r->session->wake_ns = w->idle_ns;
        }
    }
}

bool snib__waits_hears(const struct snib__redlock *r, const struct snib__redlock_bid *b)
{
    unsigned count = 0;
    for (unsigned i = 0; b->watch && i < r->count; i++) {
        count += b->watch->hears[i];
    }
    return count >= snib__redlock_quorum(r);
}

/* A new connection: nothing was heard meanwhile. */
void snib__waits_ready(struct snib__server *s)
{
    struct snib__list *all = &s->session->watches;
    for (struct snib__list *l = all->after; l != all; l = l->after) {
        struct snib__watch *w = SNIB__OF(l, struct snib__watch, in_session);
        w->hears[s->index] = false;
        say(s, w, true);
    }
}

static void tell(struct snib__server *s, struct snib__watch *w, snib__waits_told *told)
{
    for (struct snib__list *l = w->bids.after; l != &w->bids; l = l->after) {
        told(s->session, SNIB__OF(l, struct snib__redlock_bid, in_watch), s);
    }
}

void snib__waits_subscribed(struct snib__server *s, const char *channel, snib__waits_told *told)
{
    size_t which;
    struct snib__watch *w = find(s->session, channel, &which);
    if (w && which == 0) {
        w->hears[s->index] = true;
        tell(s, w, told);
    }
}

void snib__waits_heard(struct snib__server *s, const char *channel, const char *word,
                       snib__waits_told *told)
{
    size_t which;
    struct snib__watch *w = find(s->session, channel, &which);
    if (w && s->session->layout->frees(which, word)) {
        tell(s, w, told);
    }
}

int64_t snib__waits_keep_time(struct snib__redlock *r, int64_t now_ns)
{
    int64_t next_ns = SNIB__NEVER;
    struct snib__list *after;
    for (struct snib__list *l = r->watches.after; l != &r->watches; l = after) {
        struct snib__watch *w = SNIB__OF(l, struct snib__watch, in_session);
        after = l->after;
        if (w->waiting == 0 && w->idle_ns <= now_ns) {
            for (unsigned i = 0; i < r->count; i++) {
                say(&r->servers[i], w, false);
            }
            forget(r, w);
        } else if (w->waiting == 0 && w->idle_ns < next_ns) {
            next_ns = w->idle_ns;
        }
    }
    return next_ns;
}

void snib__waits_close(struct snib__redlock *r)
{
    struct snib__list *after;
    for (struct snib__list *l = r->watches.after; l != &r->watches; l = after) {
        after = l->after;
        forget(r, SNIB__OF(l, struct snib__watch, in_session));
    }
    snib__table_free(&r->ears);
}
