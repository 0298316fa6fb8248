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
#include "engines/file/file.h"

#include <stdio.h>

#define LOOK_NS (20 * SNIB__MS)

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
static const struct record *next_holder(const struct sight *s, uint64_t token, size_t *at)
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
        return snib__file_ask_to_quit(fs, r, token);
    }
    struct file_claim *c = snib__file_by_cookie(fs, r->cookie);
    if (c) {
        snib__file_asked_to_quit(c, token, fs->self.who);
    }
    return c != NULL;
}

static int see(struct sight *s, const struct snib__query *q, struct failure *why)
{
    char file_name[FILE_NAME_BYTES];
    snib__file_encode(file_name, q->name);
    return snib__file_sight(s, q->session->state, file_name, why);
}

void snib__file_evict(struct snib__query *q)
{
    struct file_session *fs = q->session->state;
    struct failure why = {.code = 0};
    struct sight s;
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
            deaf = ask(fs, r, q->token) ? deaf : r;
        }
        if (deaf) {
            describe(why.text, sizeof why.text, deaf, "does not listen");
            finish(q, SNIB_EBUSY, why.text);
        } else {
            int64_t now_ns = snib__now().boot_ns;
            struct file_query *asked = q->state;
            *asked = (struct file_query){.query = q, .next = fs->queries};
            asked->due_ns = now_ns + q->session->timeout_ms * SNIB__MS;
            fs->queries = asked;
            fs->evict_ns = now_ns;
            snib__file_kick(fs, now_ns);
        }
    }
    snib__file_sight_end(&s);
}

/* True: it has its answer. */
static bool look(struct file_query *asked, int64_t now_ns)
{
    struct snib__query *q = asked->query;
    struct failure why = {.code = 0};
    struct sight s;
    size_t at = 0;
    int rc = see(&s, q, &why);
    const struct record *r = rc == 0 ? next_holder(&s, q->token, &at) : NULL;
    bool over = true;
    if (rc < 0) {
        finish(q, rc, why.text);
    } else if (!r) {
        finish(q, 0, NULL);
    } else if (now_ns >= asked->due_ns) {
        describe(why.text, sizeof why.text, r, "has not given it up when asked");
        finish(q, SNIB_EBUSY, why.text);
    } else {
        over = false;
    }
    snib__file_sight_end(&s);
    return over;
}

int64_t snib__file_evict_check(struct file_session *fs, int64_t now_ns)
{
    if (now_ns < fs->evict_ns) {
        return fs->evict_ns;
    }
    struct file_query **at = &fs->queries;
    while (*at) {
        struct file_query *q = *at;
        struct file_query *next = q->next;
        if (look(q, now_ns)) {
            *at = next; /* q may be gone */
        } else {
            at = &q->next;
        }
    }
    fs->evict_ns = now_ns + LOOK_NS;
    return fs->queries ? fs->evict_ns : SNIB__NEVER;
}
