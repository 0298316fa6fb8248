/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking a lock away: it cannot be done, so the holder is asked.
 *
 * The kernel gives a lock back when its holder lets go or dies, and for nothing else. A holder
 * that listens is told that its lock is lost; what it does then is its own affair (`snib run` stops
 * its command), and the lock is free when it releases. Until then, or until the time of one
 * request is over, we look every 20 ms. Who does not listen has to be stopped by a signal: the
 * answer says whom.
 */
#include "engines/file/evict.h"

#include "engines/file/inspection.h"
#include "engines/file/record.h"

#include <stdio.h>

#define PAUSE_NS (20 * SNIB__MS)

static void describe(char *out, size_t size, const struct record *r, const char *what)
{
    snprintf(out, size,
             "%s%s%s%s holds it and %s; the kernel takes it away only when process %u "
             "ends: stop or kill it",
             r->who, r->label[0] ? " (" : "", r->label, r->label[0] ? ")" : "", what, r->pid);
}

static void finish(struct snib__query *q, int code, const char *reason)
{
    snib__finish(q, code, 0, reason);
}

/* The next holder with that token, starting with `*at`. */
static const struct record *next_holder(const struct inspection *s, uint64_t token, size_t *at)
{
    if (*at == 0) {
        ++*at;
        if (s->exclusive && (s->holder.token == token || s->holder.token == 0)) {
            return &s->holder;
        }
    }
    while (*at <= s->holders) {
        const struct record *r = &s->records[(*at)++ - 1];
        if (r->token == token) {
            return r;
        }
    }
    return NULL;
}

/* Our own session hears it at once; everybody else by the bell. */
static bool ask(struct file_session *fs, const struct record *r, uint64_t token)
{
    if (!(r->flags & LISTENS)) {
        return false;
    }
    if (r->session != fs->self.session) {
        return snib__file_bell_ask(&fs->bell, snib__file_record_bell(r), r->cookie, token,
                                   fs->self.who);
    }
    struct file_claim *c = snib__file_claim_by_cookie(fs, r->cookie);
    if (c) {
        snib__file_claim_ask(c, token, fs->self.who);
    }
    return c != NULL;
}

static int see(struct inspection *s, const struct snib__query *q, struct failure *why)
{
    char file_name[FILE_NAME_BYTES];
    char room[FILE_NAME_BYTES];
    snib__file_name_encode(file_name, snib__file_name_canonical(room, q->name));
    struct file_session *fs = q->session->state;
    return snib__file_inspection_begin(s, &fs->cache, file_name, why);
}

static void on_timer(struct snib__timer *timer);

/* All have been asked: wait until they are gone. */
static void await(struct snib__query *q)
{
    struct file_session *fs = q->session->state;
    struct eviction *asked = q->state;
    int64_t now_ns = snib__now().boot_ns;
    if (!snib__timers_join(&fs->waking.timers)) {
        finish(q, SNIB_ENOMEM, "out of memory");
        return;
    }
    asked->query = q;
    asked->timer.fire = on_timer;
    asked->end_ns = now_ns + q->session->timeout_ms * SNIB__MS;
    snib__file_waking_at(&fs->waking, &asked->timer, now_ns);
}

void snib__file_evict(struct snib__query *q)
{
    struct failure why = {.code = 0};
    struct inspection s;
    size_t at = 0;
    int rc = see(&s, q, &why);
    const struct record *r = rc == 0 ? next_holder(&s, q->token, &at) : NULL;
    if (rc < 0) {
        snib__finish(q, rc, why.sys, why.text);
    } else if (!r) {
        finish(q, SNIB_ELOST, "nobody holds it with that token");
    } else {
        const struct record *deaf = NULL;
        for (; r; r = next_holder(&s, q->token, &at)) {
            deaf = ask(q->session->state, r, q->token) ? deaf : r;
        }
        if (deaf) {
            describe(why.text, sizeof why.text, deaf, "does not listen");
            finish(q, SNIB_EBUSY, why.text);
        } else {
            await(q);
        }
    }
    snib__file_inspection_end(&s);
}

/* Gone, kept for too long, or to be seen again. */
static void on_timer(struct snib__timer *timer)
{
    struct eviction *asked = SNIB__OF(timer, struct eviction, timer);
    struct snib__query *q = asked->query;
    struct file_session *fs = q->session->state;
    struct failure why = {.code = 0};
    struct inspection s;
    size_t at = 0;
    int64_t now_ns = snib__now().boot_ns;
    int rc = see(&s, q, &why);
    const struct record *r = rc == 0 ? next_holder(&s, q->token, &at) : NULL;
    if (r && now_ns < asked->end_ns) {
        snib__file_waking_at(&fs->waking, timer, now_ns + PAUSE_NS);
        snib__file_inspection_end(&s);
        return;
    }
    snib__timers_leave(&fs->waking.timers, timer);
    if (rc < 0) {
        finish(q, rc, why.text);
    } else if (!r) {
        finish(q, 0, NULL);
    } else {
        describe(why.text, sizeof why.text, r, "has not given it up when asked");
        finish(q, SNIB_EBUSY, why.text);
    }
    snib__file_inspection_end(&s);
}
