/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session at an ensemble.
 *
 * It begins with the first welcome and belongs to the ensemble, not to a server: when a connection
 * ends, the next server is asked to go on with it, by its id and password, and answers are never
 * mixed up because the numbers of requests go on, too. It is over when a server says so, and only
 * then is a new one asked for: so nothing of the old one can turn up later. Servers are tried in
 * turn from a random one on, with growing pauses after each round.
 *
 * Servers hang up on whoever has seen more than they know: they lag behind, or have lost their data
 * and never will know. After a whole session's time without a connection nothing is held any more,
 * and so every other round says nothing of what was seen: then they tell whether the session is
 * over. If it is not, it is resumed as usual; and ended, if they hang up on that again, because
 * what they show is too old to go on with.
 *
 * Safety: how long a session lives. The leader ends a session T after it last heard of it. What a
 * follower hears it tells the leader only when that asks, every half tick; an answered transaction,
 * a create or one that changes nothing, proves that the session lived at that moment, and that
 * whoever leads later begins to count later; not that the leader has heard of it at that moment. A
 * sync proves less: a leader answers it alone, also one that leads nobody any more. A session is at
 * least two ticks, unless the service was told otherwise, so half a tick is at most T/4: what was
 * answered here and sent T/4 before a proof has reached the leader when that proof has its answer.
 * So the lease of a proof counts from the latest such request, or from the latest welcome, which
 * comes from the leader itself. There is one every T/12, if need be a ping. The lease is 5/8 of T
 * at most: what is certain even if the link between follower and leader is cut the moment after the
 * answer.
 */
#include "engines/zookeeper/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS SNIB__MS
#define PAUSE_FIRST_MS 50
#define PAUSE_MOST_MS 2000
#define LIMIT_LEAST_MS 100

const char *snib__zk_session_host(const struct snib__zk_session *s, char out[300])
{
    const struct snib__url *url = s->core->url;
    const struct snib__host *host = &url->hosts[s->host];
    int port = url->host_count && host->port ? host->port : 2181;
    snprintf(out, 300, "%.260s:%d", url->host_count ? host->name : "127.0.0.1", port);
    return out;
}

/* ---- Leases ------------------------------------------------------------------------------- */

static void note_pulse(struct snib__zk_session *s, int64_t sent_ns)
{
    int64_t last = s->pulses[s->pulse];
    if (sent_ns - last >= s->granted_ms * MS / 48) {
        s->pulse = (s->pulse + 1) % SNIB__ZK_PULSES;
        s->pulses[s->pulse] = sent_ns;
    }
}

int64_t snib__zk_session_lease_ms(const struct snib__zk_session *s, struct snib__instant sent)
{
    int64_t whole_ns = s->granted_ms * MS;
    int64_t heard_ns = s->touched_ns; /* the leader has heard of us then, at least */
    for (size_t i = 0; i < SNIB__ZK_PULSES; i++) {
        if (s->pulses[i] <= sent.boot_ns - whole_ns / 4 && s->pulses[i] > heard_ns) {
            heard_ns = s->pulses[i];
        }
    }
    int64_t left_ns = whole_ns - (sent.boot_ns - heard_ns);
    int64_t most_ns = whole_ns / 8 * 5;
    left_ns = left_ns < most_ns ? left_ns : most_ns;
    return left_ns > 0 ? left_ns / MS : 0;
}

/* ---- Connecting --------------------------------------------------------------------------- */

int64_t snib__zk_session_patience_ms(const struct snib__zk_session *s)
{
    const struct snib__session *core = s->core;
    bool first = !s->connected_before && core->connect_ms < core->timeout_ms;
    return first ? core->connect_ms : core->timeout_ms;
}

/* A server that does not answer must not cost the session. */
static int64_t limit_ms(const struct snib__zk_session *s)
{
    int64_t limit = snib__zk_session_patience_ms(s);
    int64_t session_ms = s->id ? s->granted_ms : s->wanted_ms;
    size_t hosts = s->core->url->host_count;
    limit = session_ms / 3 < limit ? session_ms / 3 : limit;
    if (s->link.state == SNIB__ZK_LINK_DOWN && hosts > 1) {
        limit /= hosts < 3 ? (int64_t)hosts : 3;
    }
    return limit > LIMIT_LEAST_MS ? limit : LIMIT_LEAST_MS;
}

static void dial(struct snib__zk_session *s)
{
    const struct snib__url *url = s->core->url;
    size_t hosts = url->host_count ? url->host_count : 1;
    const struct snib__host *host = &url->hosts[s->host = (s->host + 1) % hosts];
    char name[300];
    s->tried++;
    if (!s->why[0]) { /* until more is known */
        snprintf(s->why, sizeof s->why, "%.100s is silent", snib__zk_session_host(s, name));
    }
    snib__zk_link_dial(&s->link, url->host_count ? host->name : "127.0.0.1",
                       url->host_count && host->port ? host->port : 2181, limit_ms(s));
}

static void on_connected(struct snib__zk_link *l)
{
    struct snib__zk_session *s = l->owner;
    struct snib__zk_hello hello = {
        .last_seen = s->id && !s->doubts ? l->zxid : 0,
        .timeout_ms = (int32_t)s->wanted_ms,
        .session = s->id,
        .password = s->password,
    };
    s->greeted_ns = snib__now().boot_ns;
    if (!snib__zk_put_hello(&l->out, &hello)) {
        snib__zk_link_end(l, 0, "out of memory");
    }
}

static void forget(struct snib__zk_session *s)
{
    s->id = 0;
    s->doubts = s->alive = false;
    s->link.zxid = 0;
    memset(s->password, 0, sizeof s->password);
    memset(s->pulses, 0, sizeof s->pulses);
}

static void be_over(struct snib__zk_session *s, bool ended, const char *why)
{
    s->tried = 0; /* the server is there: ask it for a new one */
    s->ended = ended;
    forget(s);
    s->upcalls->over(s, why);
}

static void on_welcomed(struct snib__zk_link *l, struct snib__zk_reader *r)
{
    struct snib__zk_session *s = l->owner;
    struct snib__zk_welcome welcome;
    if (!snib__zk_get_welcome(r, &welcome)) {
        snib__zk_link_end(l, 0, "the server does not speak ZooKeeper's protocol");
        return;
    }
    bool over = welcome.timeout_ms <= 0 || welcome.session == 0;
    if (!over && s->doubts && !s->alive) {
        s->doubts = false;
        s->alive = true;
        snib__zk_link_end(l, 0, "the session is not over");
        return;
    }
    /* Leases were counted by the longer time, and the leader counts by this one now. */
    bool shorter = s->id && welcome.timeout_ms < s->granted_ms;
    if (over || shorter || s->doubts) {
        if (!over && snib__zk_put_bare(&l->out, s->xid + 1, SNIB__ZK_CLOSE)) {
            snib__zk_link_flush(l);
        }
        snib__zk_link_end(l, 0, "the session is over");
        be_over(s, false,
                shorter && !over ? "the servers have shortened the session"
                                 : "the session at the servers is over");
        return;
    }
    if (welcome.read_only) {
        snib__zk_link_end(l, 0, "the server is cut off from the others and can only be read");
        return;
    }
    s->id = welcome.session;
    s->granted_ms = welcome.timeout_ms;
    memcpy(s->password, welcome.password, sizeof s->password);
    s->touched_ns = s->greeted_ns;
    s->said_ns = s->greeted_ns;
    s->pinged_ns = 0;
    s->tried = 0;
    s->pause_ms = 0;
    s->denied = s->alive = false;
    l->limit_ns = limit_ms(s) * MS;
    s->core->reconnects += s->connected_before ? 1U : 0U;
    s->connected_before = true;
    if (s->credentials && !snib__zk_put_auth(&l->out, "digest", s->credentials)) {
        snib__zk_link_end(l, 0, "out of memory");
        return;
    }
    s->ready = true;
    s->upcalls->ready(s);
}

/* "a: refused"; the next one of the round: "a, b: refused", or "a: refused; b: closed". */
static void explain(struct snib__zk_session *s)
{
    char host[300], reason[sizeof s->reason];
    const struct snib__zk_link *l = &s->link;
    size_t used = s->tried > 1 ? strlen(s->why) : 0;
    snprintf(reason, sizeof reason, "%s%s", l->why,
             l->closed_mute ? " before it said anything: no quorum there, or more connections from "
                              "this host than its maxClientCnxns"
                            : "");
    bool same = used > strlen(reason) + 2 && strcmp(reason, s->reason) == 0 &&
                strcmp(s->why + used - strlen(reason), reason) == 0;
    used -= same ? strlen(reason) + 2 : 0;
    snprintf(s->why + used, sizeof s->why - used, "%s%.100s: %s",
             used == 0 ? ""
             : same    ? ", "
                       : "; ",
             snib__zk_session_host(s, host), reason);
    strcpy(s->reason, reason);
}

static void on_down(struct snib__zk_link *l)
{
    struct snib__zk_session *s = l->owner;
    size_t hosts = s->core->url->host_count ? s->core->url->host_count : 1;
    int64_t now_ns = snib__now().boot_ns;
    bool was_ready = s->ready;
    s->ready = false;
    s->pinged_ns = 0;
    s->left_ns = was_ready ? now_ns : s->left_ns;
    explain(s);
    s->retry_ns = now_ns;
    if (s->tried >= hosts || s->denied) {
        s->tried = 0;
        s->doubts =
            s->id && !s->doubts && l->closed_mute && now_ns - s->left_ns > s->granted_ms * MS;
        s->pause_ms = s->pause_ms ? s->pause_ms * 2 : PAUSE_FIRST_MS;
        s->pause_ms = s->pause_ms > PAUSE_MOST_MS ? PAUSE_MOST_MS : s->pause_ms;
        s->retry_ns = now_ns + snib__jitter(s->pause_ms * MS);
        s->upcalls->down(s);
        s->upcalls->unreachable(s, s->denied ? SNIB_EDENIED : SNIB_EUNREACH);
    } else {
        if (!was_ready) {
            s->retry_ns = now_ns + snib__jitter(2 * MS);
        }
        s->upcalls->down(s);
    }
}

/* ---- Requests ----------------------------------------------------------------------------- */

static bool expect(struct snib__zk_session *s, enum snib__zk_kind kind, void *subject,
                   struct snib__instant sent)
{
    struct snib__zk_call call = {.kind = (int)kind, .subject = subject, .sent = sent};
    s->xid = s->xid == INT32_MAX ? 1 : s->xid + 1;
    call.xid = s->xid;
    return snib__zk_link_expect(&s->link, &call);
}

static bool appended(struct snib__zk_session *s, bool done, struct snib__instant sent)
{
    if (!done) {
        snib__zk_link_unexpect(&s->link);
        return false;
    }
    s->said_ns = sent.boot_ns;
    return true;
}

bool snib__zk_ask_since(struct snib__zk_session *s, enum snib__zk_kind kind, void *subject,
                        enum snib__zk_op op, const char *path, bool watch,
                        struct snib__instant sent)
{
    return expect(s, kind, subject, sent) &&
           appended(s, snib__zk_put_path(&s->link.out, s->xid, op, path, watch), sent);
}

bool snib__zk_ask(struct snib__zk_session *s, enum snib__zk_kind kind, void *subject,
                  enum snib__zk_op op, const char *path, bool watch)
{
    return snib__zk_ask_since(s, kind, subject, op, path, watch, snib__now());
}

bool snib__zk_ask_create(struct snib__zk_session *s, enum snib__zk_kind kind, void *subject,
                         const struct snib__zk_creation *creation)
{
    struct snib__instant now = snib__now();
    return expect(s, kind, subject, now) &&
           appended(s, snib__zk_put_create(&s->link.out, s->xid, creation), now);
}

bool snib__zk_ask_delete(struct snib__zk_session *s, enum snib__zk_kind kind, void *subject,
                         const char *path)
{
    struct snib__instant now = snib__now();
    return expect(s, kind, subject, now) &&
           appended(s, snib__zk_put_delete(&s->link.out, s->xid, path), now);
}

bool snib__zk_ask_set(struct snib__zk_session *s, enum snib__zk_kind kind, void *subject,
                      const char *path, const char *data, int32_t version)
{
    struct snib__instant now = snib__now();
    return expect(s, kind, subject, now) &&
           appended(s, snib__zk_put_set(&s->link.out, s->xid, path, data, version), now);
}

bool snib__zk_ask_set_and_delete(struct snib__zk_session *s, enum snib__zk_kind kind, void *subject,
                                 const char *path, const char *data, const char *removed)
{
    struct snib__instant now = snib__now();
    return expect(s, kind, subject, now) &&
           appended(s, snib__zk_put_set_and_delete(&s->link.out, s->xid, path, data, removed), now);
}

bool snib__zk_ask_proof(struct snib__zk_session *s, const char *path, struct snib__instant sent)
{
    return expect(s, SNIB__ZK_ASK_PROOF, NULL, sent) &&
           appended(s, snib__zk_put_proof(&s->link.out, s->xid, path), sent);
}

bool snib__zk_ask_trial(struct snib__zk_session *s, enum snib__zk_kind kind, void *subject,
                        const char *below, const struct snib__zk_right *rights)
{
    struct snib__instant now = snib__now();
    return expect(s, kind, subject, now) &&
           appended(s, snib__zk_put_trial(&s->link.out, s->xid, below, rights), now);
}

/* ---- Answers ------------------------------------------------------------------------------ */

/* Errors that are the session's: the connection is of no use any more. */
static bool ends_connection(int32_t error, enum snib__zk_kind kind)
{
    return error == SNIB__ZK_SESSION_EXPIRED || error == SNIB__ZK_SESSION_MOVED ||
           error == SNIB__ZK_CONNECTION_LOSS || error == SNIB__ZK_NOT_READ_ONLY ||
           error == SNIB__ZK_THROTTLED ||
           ((kind == SNIB__ZK_ASK_SYNC || kind == SNIB__ZK_ASK_PROOF) && error != SNIB__ZK_OK);
}

/* The servers say of a transaction that was carried out, and had nothing to do, what each part of
 * it met. A node that is not there, or not to be seen, is proof as well. */
static int32_t proof_error(struct snib__zk_answer *answer)
{
    int32_t error;
    int part;
    if (answer->error != SNIB__ZK_OK || !snib__zk_get_multi(&answer->body, &error, &part)) {
        return answer->error;
    }
    return error == SNIB__ZK_NO_NODE || error == SNIB__ZK_NO_AUTH ? SNIB__ZK_OK : error;
}

static void on_answered(struct snib__zk_link *l, const struct snib__zk_call *call,
                        struct snib__zk_answer *answer)
{
    struct snib__zk_session *s = l->owner;
    char why[80];
    if (call->kind == SNIB__ZK_ASK_PROOF) {
        answer->error = proof_error(answer);
    }
    if (ends_connection(answer->error, (enum snib__zk_kind)call->kind)) {
        snprintf(why, sizeof why, "the server ended the connection with error %d",
                 (int)answer->error);
        snib__zk_link_end(l, 0, why);
        s->upcalls->lost(s, call);
        return;
    }
    if (call->kind == SNIB__ZK_ASK_CLOSE) {
        snib__zk_link_end(l, 0, "the session is over");
        be_over(s, true, "the session at the servers was ended");
        return;
    }
    note_pulse(s, call->sent.boot_ns);
    s->upcalls->answered(s, call, answer);
}

static void on_ponged(struct snib__zk_link *l, const struct snib__zk_header *header)
{
    struct snib__zk_session *s = l->owner;
    if (header->xid == SNIB__ZK_XID_AUTH) {
        if (header->error != SNIB__ZK_OK) {
            s->denied = true;
            snib__zk_link_end(l, 0, "the server refuses user and password");
        }
        return;
    }
    if (s->pinged_ns) {
        note_pulse(s, s->pinged_ns);
        s->pinged_ns = 0;
    }
}

static void on_event(struct snib__zk_link *l, const struct snib__zk_event *event)
{
    struct snib__zk_session *s = l->owner;
    s->upcalls->event(s, event);
}

static void on_lost(struct snib__zk_link *l, const struct snib__zk_call *call)
{
    struct snib__zk_session *s = l->owner;
    s->upcalls->lost(s, call);
}

static const struct snib__zk_link_upcalls link_upcalls = {
    .connected = on_connected,
    .welcomed = on_welcomed,
    .answered = on_answered,
    .ponged = on_ponged,
    .event = on_event,
    .lost = on_lost,
    .down = on_down,
};

/* ---- Driving ------------------------------------------------------------------------------ */

void snib__zk_session_init(struct snib__zk_session *s,
                           const struct snib__zk_session_upcalls *upcalls,
                           struct snib__session *core, void *owner)
{
    unsigned char start;
    size_t hosts = core->url->host_count ? core->url->host_count : 1;
    *s = (struct snib__zk_session){.upcalls = upcalls, .core = core, .owner = owner};
    snib__zk_link_init(&s->link, &link_upcalls, s);
    snib__random(&start, sizeof start);
    s->host = start % hosts;
}

static int64_t ping_ns(const struct snib__zk_session *s)
{
    return s->said_ns + s->granted_ms * MS / (s->keeps ? 12 : 4);
}

/* Time that ran out while we slept proves nothing: what came meanwhile is in the socket. */
static void expire(struct snib__zk_link *l, int64_t now_ns)
{
    if (l->state != SNIB__ZK_LINK_DOWN && now_ns >= snib__zk_link_next(l)) {
        snib__zk_link_step(l, POLLIN);
        snib__zk_link_expire(l, now_ns);
    }
}

void snib__zk_session_tick(struct snib__zk_session *s, int64_t now_ns)
{
    struct snib__zk_link *l = &s->link;
    expire(l, now_ns);
    if (l->state == SNIB__ZK_LINK_DOWN) {
        if (!s->keeps) {
            forget(s); /* nothing is left of it: it may end by itself */
        } else if (now_ns >= s->retry_ns) {
            dial(s);
        }
    } else if (s->ready && !s->pinged_ns && now_ns >= ping_ns(s) && !l->ending) {
        if (snib__zk_put_bare(&l->out, SNIB__ZK_XID_PING, SNIB__ZK_PING)) {
            s->said_ns = s->pinged_ns = now_ns;
            l->asked_ns = l->asked_ns ? l->asked_ns : now_ns;
        }
    }
    snib__zk_link_flush(l);
}

int64_t snib__zk_session_next(const struct snib__zk_session *s)
{
    int64_t next = snib__zk_link_next(&s->link);
    if (s->link.state == SNIB__ZK_LINK_DOWN) {
        return s->keeps ? s->retry_ns : SNIB__NEVER;
    }
    if (s->ready && !s->pinged_ns && ping_ns(s) < next) {
        next = ping_ns(s);
    }
    return next;
}

void snib__zk_session_end(struct snib__zk_session *s)
{
    struct snib__instant now = snib__now();
    if (expect(s, SNIB__ZK_ASK_CLOSE, NULL, now) &&
        appended(s, snib__zk_put_bare(&s->link.out, s->xid, SNIB__ZK_CLOSE), now)) {
        s->ready = false;
        s->left_ns = now.boot_ns;
    } else {
        snib__zk_link_end(&s->link, 0, "out of memory");
    }
}

void snib__zk_session_close(struct snib__zk_session *s, bool silently)
{
    struct snib__zk_link *l = &s->link;
    if (!silently && s->ready && !l->ending) {
        s->xid++;
        snib__zk_put_bare(&l->out, s->xid, SNIB__ZK_CLOSE);
    }
    snib__zk_link_close(l, silently);
    forget(s);
    s->ready = false;
    if (s->credentials) {
        explicit_bzero(s->credentials, strlen(s->credentials));
        free(s->credentials);
        s->credentials = NULL;
    }
}
