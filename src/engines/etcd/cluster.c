/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints in turn.
 *
 * One connection carries everything. When it breaks, when it cannot be made, when the member says
 * that it has no leader, or when a call is not answered for `stall_ms` although there are other
 * members, the next endpoint is used, and what was not answered is sent there again until its time
 * is over. A request to a cluster that is electing a leader is lost without a word in it: so it is
 * repeated instead of waited for. Whoever makes a call must therefore be able to stand that it is
 * executed twice, and also long after its answer; `repeated` says that this may happen.
 *
 * What was never sent fails as soon as every endpoint has been tried in vain; the rest at its time.
 */
#include "engines/etcd/cluster.h"

#include "base/random.h"
#include <rpc.pb-c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAUSE_FIRST_MS = 20,
    PAUSE_MOST_MS = 1000,
    AGAIN_MS = 100,
    TRIES_MOST = 1000,
    LOOK_AT = 64,
    UNDER_WAY_MOST = 500
};

enum { STATUS_INVALID = 3, STATUS_UNAVAILABLE = 14, STATUS_UNAUTHENTICATED = 16 };

static const struct etcd_method authenticate = {"/etcdserverpb.Auth/Authenticate",
                                                &pb__authenticate_response__descriptor};

static int64_t now_ns(void)
{
    return snib__now().boot_ns;
}

static struct etcd_connection *current(struct etcd_cluster *c)
{
    return &c->members[c->at];
}

struct etcd_connection *etcd_cluster_joined(struct etcd_cluster *c)
{
    return current(c)->state == ETCD_JOINED ? current(c) : NULL;
}

/* ---- Why there is no answer -------------------------------------------------------------- */

static void blame(struct etcd_cluster *c, struct etcd_connection *link, int sys, const char *why)
{
    snprintf(link->why, sizeof link->why, "%.159s", why);
    c->sys = sys;
    c->troubled = true;
}

/* There is an answer: what was before is of no interest any more. */
static void forgive(struct etcd_cluster *c)
{
    c->failures = 0;
    for (size_t i = 0; c->troubled && i < c->count; i++) {
        c->members[i].why[0] = '\0';
    }
    c->troubled = false;
}

/* The time of a call is over. */
static void blame_silence(struct etcd_cluster *c, const struct etcd_call *k)
{
    struct etcd_connection *link = k->connection ? k->connection : current(c);
    if (link->state == ETCD_APART || (!k->connection && link->why[0])) {
        return; /* it is known why it waits */
    }
    blame(c, link, 0, link->state == ETCD_JOINED ? "no answer in time" : "no connection in time");
}

/* The first member from `from` on, before `to`, of which that is said. */
static size_t blamed(const struct etcd_cluster *c, size_t from, size_t to, const char *why)
{
    while (from < to && strcmp(c->members[from].why, why) != 0) {
        from++;
    }
    return from;
}

void etcd_cluster_explain(const struct etcd_cluster *c, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < c->count; i++) {
        const char *why = c->members[i].why, *before = used > 0 ? "; " : "";
        if (!why[0] || blamed(c, 0, i, why) < i) {
            continue;
        }
        for (size_t m = i; m < c->count && used < size; m = blamed(c, m + 1, c->count, why)) {
            used += (size_t)snprintf(out + used, size - used, "%s%.60s:%d", before,
                                     c->members[m].host, c->members[m].port);
            before = ", ";
        }
        if (used < size) {
            used += (size_t)snprintf(out + used, size - used, ": %s", why);
        }
    }
}

/* ---- The end of a call ------------------------------------------------------------------ */

static void end(struct etcd_call *k, enum etcd_outcome outcome)
{
    snib__list_remove(&k->place);
    k->outcome = outcome;
    if (k->end) {
        k->end(k);
    }
    etcd_call_free(k);
}

static void end_unanswered(struct etcd_call *k)
{
    end(k, k->first_sent.boot_ns ? ETCD_LOST : ETCD_UNSENT);
}

/* Once more, on whatever connection there is then. */
static void put_back(struct etcd_cluster *c, struct etcd_call *k, int64_t pause_ms)
{
    k->connection = NULL;
    k->stream_id = -1;
    k->tries++;
    k->resend_ns = pause_ms ? now_ns() + snib__jitter(pause_ms * SNIB__MS) : 0;
    snib__list_remove(&k->place);
    snib__list_append(&c->waiting, &k->place);
}

/* ---- Moving on -------------------------------------------------------------------------- */

/* What was on a connection that is no more. */
static void recover(struct etcd_cluster *c, struct etcd_connection *link)
{
    struct snib__list *after;
    for (struct snib__list *l = link->calls.after; l != &link->calls; l = after) {
        struct etcd_call *k = SNIB__OF(l, struct etcd_call, place);
        after = l->after;
        if (k == c->authenticating) {
            c->authenticating = NULL;
            etcd_call_free(k);
        } else if (k->lasting) {
            end(k, ETCD_LOST);
            after = link->calls.after; /* it may have ended others */
        } else {
            k->repeated = true;
            put_back(c, k, 0);
        }
    }
}

static void fail_unsent(struct etcd_cluster *c)
{
    struct snib__list *after;
    for (struct snib__list *l = c->waiting.after; l != &c->waiting; l = after) {
        struct etcd_call *k = SNIB__OF(l, struct etcd_call, place);
        after = l->after;
        if (k->first_sent.boot_ns == 0) {
            end(k, ETCD_UNSENT);
            after = c->waiting.after;
        }
    }
}

static void on_lost(struct etcd_connection *link)
{
    struct etcd_cluster *c = link->owner;
    bool worked = c->greeted && link == current(c);
    c->sys = link->sys;
    c->troubled = c->lost = true;
    if (link == current(c)) {
        c->greeted = false;
        c->at = (c->at + 1) % c->count;
        if (worked) {
            c->failures = 0;
            c->pause_ms = 0;
            c->dial_ns = 0;
        } else if (++c->failures >= c->count) {
            c->pause_ms = c->pause_ms ? c->pause_ms * 2 : PAUSE_FIRST_MS;
            c->pause_ms = c->pause_ms < PAUSE_MOST_MS ? c->pause_ms : PAUSE_MOST_MS;
            c->dial_ns = now_ns() + snib__jitter(c->pause_ms * SNIB__MS);
        }
    }
    recover(c, link);
    if (c->failures >= c->count) {
        fail_unsent(c);
    }
    if (c->failures == c->count) {
        c->upcalls->unreachable(c->owner);
    }
}

/* ---- Answers ---------------------------------------------------------------------------- */

/* What lasts was begun with the token before, and is judged by it for as long as it does. */
static void end_lasting(struct etcd_cluster *c)
{
    struct snib__list *calls = &current(c)->calls, *after;
    for (struct snib__list *l = calls->after; l != calls; l = after) {
        struct etcd_call *k = SNIB__OF(l, struct etcd_call, place);
        after = l->after;
        if (k->lasting) {
            etcd_connection_forget(k->connection, k);
            end(k, ETCD_LOST);
        }
    }
}

static void on_token(struct etcd_cluster *c, struct etcd_call *k)
{
    const Pb__AuthenticateResponse *reply = (const Pb__AuthenticateResponse *)k->reply;
    c->authenticating = NULL;
    if (k->status == 0 && reply && reply->token) {
        free(c->token);
        c->token = strdup(reply->token);
        end_lasting(c);
    } else if (k->status != STATUS_UNAVAILABLE) { /* everybody hears it */
        struct snib__list *after;
        for (struct snib__list *l = c->waiting.after; l != &c->waiting; l = after) {
            struct etcd_call *other = SNIB__OF(l, struct etcd_call, place);
            other->status = k->status > 0 ? k->status : STATUS_UNAUTHENTICATED;
            memcpy(other->text, k->text, sizeof other->text);
            end(other, ETCD_ANSWERED);
            after = c->waiting.after;
        }
    } else {
        c->dial_ns = now_ns() + AGAIN_MS * SNIB__MS;
    }
    etcd_call_free(k);
}

static bool says(const struct etcd_call *k, const char *words)
{
    return strstr(k->text, words) != NULL;
}

/* The token is not, or no longer, good. */
static bool wants_token(const struct etcd_cluster *c, const struct etcd_call *k)
{
    return c->user && k->tries < 3 &&
           (k->status == STATUS_UNAUTHENTICATED ||
            (k->status == STATUS_INVALID &&
             (says(k, "auth: revision") || says(k, "revision of auth store") ||
              says(k, "user name is empty"))));
}

static void on_ended(struct etcd_connection *link, struct etcd_call *k)
{
    struct etcd_cluster *c = link->owner;
    if (k == c->authenticating) {
        on_token(c, k);
    } else if (k->lasting) {
        bool headless = k->status == STATUS_UNAVAILABLE && c->count > 1 && link == current(c);
        end(k, k->status >= 0 ? ETCD_ANSWERED : ETCD_LOST);
        if (headless) { /* a watch ends so when its member has lost the leader */
            etcd_connection_lose(link, 0, "the member has no leader");
        }
    } else if ((k->reset == NGHTTP2_REFUSED_STREAM || says(k, "too many requests")) &&
               k->tries < TRIES_MOST) {
        put_back(c, k, AGAIN_MS); /* not executed */
    } else if (wants_token(c, k)) {
        free(c->token);
        c->token = NULL;
        put_back(c, k, 0);
    } else if (k->status < 0 && k->text[0]) { /* HTTP, but not gRPC */
        k->status = 2;
        end(k, ETCD_ANSWERED);
    } else if (k->status < 0 || k->status == STATUS_UNAVAILABLE) {
        k->repeated = k->repeated || !says(k, "no leader");
        blame(c, link, 0, k->text[0] ? k->text : "the call was cut off");
        put_back(c, k, AGAIN_MS);
        if (c->count > 1 && link == current(c)) {
            etcd_connection_lose(link, 0, k->text[0] ? k->text : "the call was cut off");
        }
    } else {
        forgive(c);
        end(k, ETCD_ANSWERED);
    }
}

static const struct etcd_connection_upcalls connection_upcalls = {.ended = on_ended,
                                                                  .lost = on_lost};

/* A server refuses everybody when too much is asked of it at a time. */
static bool has_room(const struct etcd_connection *link)
{
    return link->call_count < UNDER_WAY_MOST;
}

/* ---- Submitting ------------------------------------------------------------------------- */

/* A cluster that has never answered has less time, if the user says so. */
static int64_t patience_ms(const struct etcd_cluster *c)
{
    bool first = c->greetings == 0 && c->connect_ms < c->timeout_ms;
    return first ? c->connect_ms : c->timeout_ms;
}

void etcd_cluster_submit(struct etcd_cluster *c, struct etcd_call *k)
{
    struct etcd_connection *link = etcd_cluster_joined(c);
    if (!k->due_ns) {
        k->due_ns = snib__later(now_ns(), patience_ms(c) * SNIB__MS);
    }
    snib__list_append(&c->waiting, &k->place);
    if (link && !link->leaving && (!c->user || c->token) && has_room(link)) {
        (void)etcd_connection_send(link, k, c->token); /* no memory: it waits */
    }
}

void etcd_cluster_drop(struct etcd_cluster *c, struct etcd_call *k)
{
    (void)c;
    if (k->connection) {
        etcd_connection_forget(k->connection, k);
    }
    etcd_call_free(k);
}

static bool log_in(struct etcd_cluster *c, struct etcd_connection *link)
{
    if (!c->user || c->token) {
        return true;
    }
    if (!c->authenticating && now_ns() >= c->dial_ns) {
        Pb__AuthenticateRequest request = PB__AUTHENTICATE_REQUEST__INIT;
        struct etcd_call *k = etcd_call_new(&authenticate, c);
        request.name = (char *)(uintptr_t)c->user;
        request.password = (char *)(uintptr_t)c->password;
        if (k && etcd_call_add(k, &request.base) && etcd_connection_send(link, k, NULL)) {
            k->due_ns = snib__later(now_ns(), c->timeout_ms * SNIB__MS);
            c->authenticating = k;
        } else if (k) {
            etcd_call_free(k);
        }
    }
    return false;
}

void etcd_cluster_flush(struct etcd_cluster *c)
{
    struct etcd_connection *link = current(c);
    struct snib__list *after;
    int64_t now = now_ns();
    if (link->state == ETCD_APART) {
        if (snib__list_empty(&c->waiting) || now < c->dial_ns) {
            return;
        }
        etcd_connection_dial(link);
        etcd_connection_step(link); /* may fail, and move on */
        link = current(c);
    }
    if (link->state != ETCD_JOINED) {
        return;
    }
    if (log_in(c, link)) {
        for (struct snib__list *l = c->waiting.after; l != &c->waiting && has_room(link);
             l = after) {
            struct etcd_call *k = SNIB__OF(l, struct etcd_call, place);
            after = l->after;
            if (now >= k->resend_ns) {
                (void)etcd_connection_send(link, k, c->token);
            }
        }
    }
    etcd_connection_flush(link);
}

/* ---- Time ------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Ends those of the list whose time is over; when the next one's is. */
static int64_t expire(struct etcd_cluster *c, struct snib__list *calls, int64_t now)
{
    int64_t next = SNIB__NEVER;
    int looked_at = 0; /* those that are due first stand first */
    for (struct snib__list *l = calls->after; l != calls && looked_at < LOOK_AT;) {
        struct etcd_call *k = SNIB__OF(l, struct etcd_call, place);
        l = l->after;
        if (k->lasting || k == c->authenticating) {
            continue;
        }
        if (now >= k->due_ns) {
            blame_silence(c, k);
            if (k->connection) {
                etcd_connection_forget(k->connection, k);
            }
            end_unanswered(k);
            l = calls->after; /* others may be gone, too */
            next = SNIB__NEVER;
            continue;
        }
        looked_at++;
        next = least(next, k->due_ns);
        if (!k->connection && k->resend_ns) {
            next = least(next, k->resend_ns);
        }
    }
    return next;
}

/* When the oldest call of a connection was sent; SNIB__NEVER: there is none. */
static int64_t oldest(const struct etcd_connection *link)
{
    int64_t at = SNIB__NEVER;
    for (const struct snib__list *l = link->calls.after; l != &link->calls; l = l->after) {
        const struct etcd_call *k = SNIB__OF(l, const struct etcd_call, place);
        if (!k->lasting) {
            at = least(at, k->sent.boot_ns);
            break; /* they are in the order they were sent */
        }
    }
    return at;
}

int64_t etcd_cluster_keep_time(struct etcd_cluster *c, int64_t now)
{
    struct etcd_connection *link = current(c);
    int64_t next = SNIB__NEVER;
    int64_t sent = oldest(link);
    c->lost = false;
    if (sent == SNIB__NEVER && c->authenticating) {
        sent = c->authenticating->sent.boot_ns;
    }
    if (link->state == ETCD_JOINED && link->greeted && !c->greeted) {
        c->greeted = true;
        c->greetings++;
    }
    if (link->state == ETCD_DIALLING || link->state == ETCD_STARTING) {
        int64_t limit_ms = c->count > 1 ? c->stall_ms : c->timeout_ms;
        int64_t until = snib__later(link->since_ns, limit_ms * SNIB__MS);
        if (now >= until) {
            etcd_connection_lose(link, 0, "no connection in time");
        } else {
            next = least(next, until);
        }
    } else if (link->state == ETCD_JOINED && sent != SNIB__NEVER) {
        int64_t limit_ms = c->count > 1 ? c->stall_ms : c->timeout_ms;
        int64_t until = snib__later(sent, limit_ms * SNIB__MS);
        if (now >= until) {
            etcd_connection_lose(link, 0, "no answer in time");
        } else {
            next = least(next, until);
        }
    }
    next = least(next, expire(c, &current(c)->calls, now));
    next = least(next, expire(c, &c->waiting, now));
    if (current(c)->state == ETCD_APART && !snib__list_empty(&c->waiting)) {
        next = least(next, c->dial_ns ? c->dial_ns : now);
    }
    etcd_cluster_flush(c);
    return c->lost ? now : next;
}

size_t etcd_cluster_poll(const struct etcd_cluster *c, struct pollfd *out, size_t most)
{
    (void)most;
    return etcd_connection_poll(&c->members[c->at], out) ? 1 : 0;
}

void etcd_cluster_step(struct etcd_cluster *c)
{
    etcd_connection_step(current(c));
}

/* ---- Beginning and end ------------------------------------------------------------------ */

void etcd_cluster_init(struct etcd_cluster *c, const struct etcd_cluster_upcalls *upcalls,
                       void *owner)
{
    c->upcalls = upcalls;
    c->owner = owner;
    snib__list_init(&c->waiting);
    for (size_t i = 0; i < SNIB__HOSTS_MAX; i++) {
        etcd_connection_init(&c->members[i], &connection_upcalls, c);
    }
}

static void free_calls(struct snib__list *calls)
{
    while (!snib__list_empty(calls)) {
        etcd_call_free(SNIB__OF(calls->after, struct etcd_call, place));
    }
}

void etcd_cluster_close(struct etcd_cluster *c)
{
    for (size_t i = 0; i < SNIB__HOSTS_MAX; i++) {
        etcd_connection_close(&c->members[i]);
        free_calls(&c->members[i].calls);
        free_calls(&c->members[i].over);
    }
    free_calls(&c->waiting);
    if (c->token) {
        explicit_bzero(c->token, strlen(c->token));
        free(c->token);
        c->token = NULL;
    }
}
