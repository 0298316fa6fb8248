/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those that wait: their re-checks, and the grants that come by message.
 *
 * A ticket at the server has a short lease of its own. A re-check, the same script as the attempt,
 * renews it about once a second, with jitter; it also finds out what a lost message would have
 * said. Re-checks that are due close together travel together. They go on without an inbox while
 * one is being opened: nobody is kept in line then, but what is free is found.
 *
 * A grant by message counts from the sending of the last request that was answered "queued": the
 * server granted it after that, for at least as long as the message says. If that was long ago,
 * because we were stopped, the core asks before it believes.
 */
#include "engines/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void snib__waiting_add(struct snib__redis *r, struct snib__ticket *t, int64_t after_ms)
{
    t->recheck_ns = snib__now().boot_ns + snib__jitter(after_ms * SNIB__MS);
    if (!t->after) {
        t->before = r->waiting.before;
        t->after = &r->waiting;
        t->before->after = t;
        r->waiting.before = t;
        if (r->waiting_count++ == 0) {
            snib__inbox_rouse(r);
        }
    }
    if (t->recheck_ns < r->tick_ns) {
        r->tick_ns = t->recheck_ns;
    }
}

void snib__waiting_remove(struct snib__redis *r, struct snib__ticket *t)
{
    if (!t->after) {
        return;
    }
    t->before->after = t->after;
    t->after->before = t->before;
    t->before = t->after = NULL;
    if (--r->waiting_count == 0) {
        r->tick_ns = SNIB__NEVER;
    }
}

void snib__waiting_hurry(struct snib__redis *r)
{
    int64_t now_ns = snib__now().boot_ns;
    for (struct snib__ticket *t = r->waiting.after; t != &r->waiting; t = t->after) {
        t->recheck_ns = now_ns;
    }
    if (r->waiting_count > 0) {
        r->tick_ns = now_ns;
    }
}

void snib__waiting_tick(struct snib__redis *r, int64_t now_ns)
{
    struct snib__ticket *next;
    if (now_ns < r->tick_ns) {
        return;
    }
    r->tick_ns = SNIB__NEVER;
    for (struct snib__ticket *t = r->waiting.after; t != &r->waiting; t = next) {
        next = t->after;
        int64_t every_ns = snib__recheck_ms(t->claim) * SNIB__MS;
        bool waits = t->phase == SNIB__TICKET_QUEUED || t->phase == SNIB__TICKET_WANTS;
        if (waits && t->under_way == 0 && t->recheck_ns <= now_ns + every_ns / 8) {
            t->recheck_ns = now_ns + every_ns;
            if (t->phase == SNIB__TICKET_WANTS) {
                t->phase = SNIB__TICKET_ASKED; /* the inbox takes its time: is it free meanwhile? */
            }
            snib__ask_attempt(r, t, NULL); /* no memory: the next tick asks */
        } else if (t->recheck_ns <= now_ns) {
            t->recheck_ns = now_ns + every_ns; /* an answer, or the inbox, is awaited */
        }
        if (t->recheck_ns < r->tick_ns) {
            r->tick_ns = t->recheck_ns;
        }
    }
    snib__link_flush(&r->link);
}

/* ---- The inbox -------------------------------------------------------------------------- */

void snib__waiting_inbox_ready(struct snib__redis *r)
{
    struct snib__ticket *next;
    for (struct snib__ticket *t = r->waiting.after; t != &r->waiting; t = next) {
        next = t->after;
        if (t->phase == SNIB__TICKET_WANTS) {
            snib__waiting_remove(r, t);
            t->phase = SNIB__TICKET_ASKED;
            snib__redis_try(r, t);
        }
    }
    snib__waiting_hurry(r); /* tickets name the old inbox */
}

/* Without an inbox there is no line to stand in: those who wait try again, now and then. */
void snib__waiting_inbox_failed(struct snib__redis *r)
{
    static const struct snib__result busy = {.status = SNIB__BUSY};
    while (r->waiting.after != &r->waiting) {
        struct snib__ticket *t = r->waiting.after;
        snib__waiting_remove(r, t);
        t->phase = SNIB__TICKET_IDLE;
        snib__redis_answer(t, SNIB__ATTEMPT, &busy);
    }
}

/* ---- Messages --------------------------------------------------------------------------- */

static void accept_grant(struct snib__redis *r, struct snib__ticket *t, uint64_t token,
                         unsigned span, int64_t left_ms)
{
    snib__waiting_remove(r, t);
    t->phase = SNIB__TICKET_HELD;
    t->sent = true;
    struct snib__result held = {
        .status = SNIB__HELD,
        .token = token,
        .span = span,
        .since = t->asked,
        .lease_ms = left_ms,
    };
    snib__redis_answer(t, SNIB__ATTEMPT, &held);
}

/* "ID TOKEN TOKENS LEFT NOW KEY". Whoever can publish can forge this; but not the id, which is a
 * secret. Messages come on another connection than answers: one that is older than the last answer
 * "queued" is about a grant that has lapsed since. */
void snib__waiting_granted(struct snib__redis *r, const char *message)
{
    char id[SNIB__ID_MAX];
    const char *space = strchr(message, ' ');
    size_t size = space ? (size_t)(space - message) : 0;
    char *rest;
    if (size == 0 || size >= sizeof id) {
        return;
    }
    memcpy(id, message, size);
    id[size] = '\0';
    uint64_t token = strtoull(space + 1, &rest, 10);
    unsigned long span = *rest == ' ' ? strtoul(rest + 1, &rest, 10) : 0;
    int64_t left_ms = *rest == ' ' ? strtoll(rest + 1, &rest, 10) : 0;
    int64_t now_ms = *rest == ' ' ? strtoll(rest + 1, &rest, 10) : 0;
    if (token == 0 || span == 0 || left_ms <= 0 || now_ms <= 0 || *rest != ' ') {
        return;
    }
    if (r->birth.unfit || r->birth.denied || snib__quarantine_left_ms(r) > 0) {
        return; /* a server that may not grant; what it gave lapses */
    }
    struct snib__ticket *t = snib__owners_find(r, id);
    if (t) {
        /* While releasing, the release that is under way gives it back. */
        if (t->phase < SNIB__TICKET_HELD && t->asked.boot_ns != 0 && now_ms >= t->queued_ms) {
            accept_grant(r, t, token, (unsigned)span, left_ms);
        }
        return;
    }
    const char *prefix = r->session->values[SNIB__REDIS_PREFIX].text;
    if (strncmp(rest + 1, prefix, strlen(prefix)) == 0 &&
        snib__ask_clean_up(r, rest + 1, id, 0)) { /* nobody here wants it */
        snib__link_flush(&r->link);
    }
}
