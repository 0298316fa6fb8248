/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches: the channels of locks that somebody waits for, where the layout has no line at the
 * server.
 *
 * What is said there proves nothing and grants nothing: whoever waits asks, at once. So it may get
 * lost, come twice or be forged. What was said before the server confirmed the subscription is
 * found by asking once more after that. Whoever is asking already when it is told asks again: the
 * answer under way may be older. That answer and the message come on two connections, so that the
 * message may be read first.
 *
 * A name that was waited for once is often waited for again, so that it is listened to for a while
 * after the last one has left; not for long, because messages that nobody reads fill the server's
 * memory, and nobody drives an idle client but to end this.
 */
#include "engines/redis/watches.h"

#include "base/hash.h"
#include "engines/redis/bid.h"

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
    size_t count;    /* of ears */
    size_t waiting;  /* bids */
    bool hears;      /* the first channel: the server has confirmed it */
    int64_t told_ns; /* when it was last told that it may be free */
    int64_t idle_ns; /* until then, if nobody waits */
};

static struct snib__ear *find(const struct snib__redis *r, const char *channel)
{
    struct snib__entry *e = snib__table_first(&r->watches.ears, snib__hash_text(channel));
    for (; e; e = snib__entry_next(e)) {
        struct snib__ear *ear = SNIB__OF(e, struct snib__ear, entry);
        if (strcmp(ear->channel, channel) == 0) {
            return ear;
        }
    }
    return NULL;
}

static void forget(struct snib__redis *r, struct snib__watch *w)
{
    for (size_t i = 0; i < w->count; i++) {
        snib__table_remove(&r->watches.ears, &w->ears[i].entry);
        free(w->ears[i].channel);
    }
    snib__list_remove(&w->in_session);
    free(w);
}

static void say(struct snib__redis *r, const struct snib__watch *w, bool listen)
{
    for (size_t i = 0; i < w->count; i++) {
        snib__node_listen(&r->node, w->ears[i].channel, listen);
    }
}

static struct snib__watch *begin(struct snib__redis *r, char names[][SNIB__KEY_MAX], size_t count)
{
    struct snib__watch *w = calloc(1, sizeof *w);
    if (!w) {
        return NULL;
    }
    snib__list_init(&w->bids);
    snib__list_append(&r->watches.all, &w->in_session);
    for (size_t i = 0; i < count; i++) {
        struct snib__ear *ear = &w->ears[i];
        ear->watch = w;
        ear->channel = strdup(names[i]);
        if (!ear->channel ||
            !snib__table_add(&r->watches.ears, &ear->entry, snib__hash_text(names[i]))) {
            free(ear->channel);
            forget(r, w);
            return NULL;
        }
        w->count++;
    }
    say(r, w, true); /* if the inbox is open; else when it is */
    return w;
}

void snib__watches_join(struct snib__redis *r, struct snib__bid *b)
{
    char names[SNIB__CHANNELS][SNIB__KEY_MAX];
    if (b->watch) {
        return;
    }
    size_t count = r->layout->channels(names, r->settings.prefix, r->database, b->claim->name);
    if (count == 0) {
        return;
    }
    struct snib__ear *ear = find(r, names[0]);
    struct snib__watch *w = ear ? ear->watch : begin(r, names, count);
    if (w) {
        b->watch = w;
        w->waiting++;
        snib__list_append(&w->bids, &b->in_watch);
    }
}

void snib__watches_leave(struct snib__redis *r, struct snib__bid *b)
{
    struct snib__watch *w = b->watch;
    if (!w) {
        return;
    }
    snib__list_remove(&b->in_watch);
    b->watch = NULL;
    if (--w->waiting == 0) {
        int64_t idle_ns = snib__later(snib__now().boot_ns, LINGER_NS);
        w->idle_ns = idle_ns;
        if (!r->session->wake_ns || idle_ns < r->session->wake_ns) {
            r->session->wake_ns = idle_ns;
        }
    }
}

bool snib__watches_hears(const struct snib__bid *b)
{
    return b->watch && b->watch->hears;
}

bool snib__watches_told_since(const struct snib__bid *b, struct snib__instant sent)
{
    return b->watch && b->watch->told_ns >= sent.boot_ns;
}

/* ---- What the inbox says ---------------------------------------------------------------- */

static void wake(struct snib__redis *r, struct snib__watch *w)
{
    int64_t now_ns = snib__now().boot_ns;
    w->told_ns = now_ns;
    for (struct snib__list *l = w->bids.after; l != &w->bids; l = l->after) {
        struct snib__bid *b = SNIB__OF(l, struct snib__bid, in_watch);
        if (b->waits) {
            b->recheck_ns = now_ns;
            r->line.tick_ns = now_ns;
        }
    }
}

/* A new connection: nothing was heard meanwhile. */
void snib__watches_ready(struct snib__redis *r)
{
    struct snib__list *all = &r->watches.all, *after;
    for (struct snib__list *l = all->after; l != all; l = after) {
        struct snib__watch *w = SNIB__OF(l, struct snib__watch, in_session);
        after = l->after;
        w->hears = false;
        if (w->waiting == 0) {
            forget(r, w);
        } else {
            say(r, w, true);
        }
    }
}

void snib__watches_subscribed(struct snib__redis *r, const char *channel)
{
    struct snib__ear *ear = find(r, channel);
    if (ear && ear == &ear->watch->ears[0]) {
        ear->watch->hears = true;
        wake(r, ear->watch);
    }
}

void snib__watches_heard(struct snib__redis *r, const char *channel, const char *word)
{
    struct snib__ear *ear = find(r, channel);
    if (ear && r->layout->frees((size_t)(ear - ear->watch->ears), word)) {
        wake(r, ear->watch);
    }
}

/* ---- Time ------------------------------------------------------------------------------- */

int64_t snib__watches_keep_time(struct snib__redis *r, int64_t now_ns)
{
    int64_t next_ns = SNIB__NEVER;
    struct snib__list *all = &r->watches.all, *after;
    for (struct snib__list *l = all->after; l != all; l = after) {
        struct snib__watch *w = SNIB__OF(l, struct snib__watch, in_session);
        after = l->after;
        if (w->waiting == 0 && w->idle_ns <= now_ns) {
            say(r, w, false);
            forget(r, w);
        } else if (w->waiting == 0 && w->idle_ns < next_ns) {
            next_ns = w->idle_ns;
        }
    }
    if (next_ns != SNIB__NEVER && (!r->session->wake_ns || next_ns < r->session->wake_ns)) {
        r->session->wake_ns = next_ns;
    }
    return next_ns;
}

void snib__watches_close(struct snib__redis *r)
{
    struct snib__list *all = &r->watches.all, *after;
    for (struct snib__list *l = all->after; l != all; l = after) {
        after = l->after;
        forget(r, SNIB__OF(l, struct snib__watch, in_session));
    }
    snib__table_free(&r->watches.ears);
}
