/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Redlock engine: a majority of independent Redis servers, its table, and the loop that drives
 * them.
 *
 *   redlock://[[user][:password]@]host[:port],host[:port],host[:port][,...][/db]
 *   redlocks://...                                     the same with TLS
 *
 *   engine.c                               the slots, the loop
 *   queries.c   examine.c                  who asks; how is it
 *   claims.c                               what servers answer; releases
 *   attempts.c  renewals.c                 rounds; what is held
 *   bids.c      waits.c     debts.c        questions; who waits; what is to be undone
 *   servers.c                              who may vote
 *   round.c     clocks.c                   votes and leases, without any I/O; jumps of clocks
 *   engines/redis/                         a node for each server, the layouts, the scripts
 *
 * Safety. At most one holder at any time, as long as of the servers that said yes to a holder so
 * many keep its key for its lease that no other majority can be had: two majorities have a server
 * in common, and each server has one holder at a time (scripts are atomic). A holder's own
 * deadline, counted from before its requests were sent and a tenth shorter, ends before the leases
 * at the servers. That assumes that no more than the holder's margin of servers, in the time of one
 * lease,
 *
 *   forgets what it answered      a restart without its data (such a server does not vote for
 *                                 max-lease × 1.1 + 2 s, as far as somebody remembers its run),
 *                                 a FLUSHALL, an eviction (refused), a promoted replica
 *   has its clock set forward     by more than a tenth of the lease; seen at the next answer, and
 *                                 such a server does not vote for as long
 *
 * and that clocks run at rates that differ by less than a tenth. With a bare majority the margin is
 * 0: the holder is told that it is in doubt. A holder that stops past its deadline can still write
 * late, and then two may write: the token is for that.
 *
 * Tokens. Each server gives one larger than its last; the largest of a majority's is the grant's,
 * and it is granted when a majority has just that one. So the next holder's majority has a server
 * that gives a larger one. With fencing=no the last step is left out: then tokens grow as far as
 * the clocks of the servers agree.
 *
 * Not done. Shared and counted locks: a reader would need a majority too, and two readers with
 * different majorities know nothing of each other; layout=native, whose line is that of one server.
 */
#include "engines/redlock/bids.h"
#include "engines/redlock/claims.h"
#include "engines/redlock/debts.h"
#include "engines/redlock/attempts.h"
#include "engines/redlock/examine.h"
#include "engines/redlock/queries.h"
#include "engines/redlock/renewals.h"
#include "engines/redlock/servers.h"
#include "engines/redlock/settings.h"
#include "engines/redlock/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct snib__engine snib__engine_redlock;

#define DAY_MS (24LL * 3600 * 1000)
#define UNREAD_NS (5 * SNIB__MS) /* an answer that nobody waits for is read after this long */

union snib__redlock_query {
    struct snib__survey survey;
    struct snib__checkup checkup;
};

static const struct snib__param params[] = {
    [SNIB__REDLOCK_DB] = {"db", SNIB__COUNT, NULL, 0, 65535, NULL,
                          "the database; it may also be the path"},
    [SNIB__REDLOCK_PREFIX] = {"prefix", SNIB__TEXT, NULL, 1, 100, NULL,
                              "in front of the keys and channels"},
    [SNIB__REDLOCK_NAME] = {"name", SNIB__TEXT, "snib", 1, 60, NULL,
                            "the connections' name in CLIENT LIST"},
    [SNIB__REDLOCK_PASSFILE] = {"passfile", SNIB__TEXT, NULL, 1, 1000, NULL,
                                "a file with the password, readable by its owner only"},
    [SNIB__REDLOCK_EVICTION] = {"eviction", SNIB__CHOICE, "refuse", 0, 0, "refuse|allow",
                                "servers that evict keys when memory is short"},
    [SNIB__REDLOCK_QUARANTINE] = {"quarantine", SNIB__FLAG, "yes", 0, 1, NULL,
                                  "a restarted server does not vote until all leases that it may "
                                  "have lost are over; no: their data survives restarts"},
    [SNIB__REDLOCK_STATE] = {"state", SNIB__TEXT, NULL, 1, 1000, NULL,
                             "where to remember which runs of the servers were seen"},
    [SNIB__REDLOCK_RETENTION] = {"retention", SNIB__DURATION, "1h", 1000, 30 * DAY_MS, NULL,
                                 "how long a free name's last token is kept"},
    [SNIB__REDLOCK_CA] = {"ca", SNIB__TEXT, NULL, 1, 1000, NULL,
                          "authorities to trust instead of the system's: a PEM file or a folder"},
    [SNIB__REDLOCK_CERT] = {"cert", SNIB__TEXT, NULL, 1, 1000, NULL,
                            "our certificate, for servers that ask for one"},
    [SNIB__REDLOCK_KEY] = {"key", SNIB__TEXT, NULL, 1, 1000, NULL, "its key, if not in that file"},
    [SNIB__REDLOCK_TLS] = {"tls", SNIB__CHOICE, "verify", 0, 0, "verify|insecure",
                           "insecure: accept any certificate of the servers"},
    [SNIB__REDLOCK_LAYOUT] = {"layout", SNIB__CHOICE, "plain", 0, 0, "plain",
                              "what is in the keys, at each server"},
    [SNIB__REDLOCK_NODE_TIMEOUT] = {"node-timeout", SNIB__DURATION, "50ms", 1, 10000, NULL,
                                    "how long one server is waited for, far below the ttl"},
    [SNIB__REDLOCK_CLOCK_GUARD] = {"clock-guard", SNIB__FLAG, "yes", 0, 1, NULL,
                                   "a server whose clock jumped does not vote for a while"},
    [SNIB__REDLOCK_FENCING] = {"fencing", SNIB__FLAG, "yes", 0, 1, NULL,
                               "granted when a majority has the same token; no: tokens are as good "
                               "as the clocks of the servers"},
    [SNIB__REDLOCK_PARAMS] = {.name = NULL},
};

/* ---- What the nodes say ----------------------------------------------------------------- */

static void on_reply(struct snib__node *node, struct snib__redis_call *call,
                     const struct snib__reply *reply)
{
    struct snib__server *s = node->owner;
    snib__server_heard(s);
    switch (call->kind) {
    case SNIB__VOTE_DEBT:
        snib__redlock_debt_reply(s, call, reply);
        break;
    case SNIB__VOTE_SEARCH:
        snib__survey_reply(s, call, reply);
        break;
    case SNIB__VOTE_EXAMINE:
        snib__checkup_reply(s, call, reply);
        break;
    default:
        snib__redlock_reply(s, call, reply);
        break;
    }
}

static void on_lost(struct snib__node *node, struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__server *s = node->owner;
    switch (call->kind) {
    case SNIB__VOTE_DEBT:
        if (how != SNIB__LOSS_TOO_LATE) {
            snib__redlock_debt_lost(call, how);
        }
        break;
    case SNIB__VOTE_SEARCH:
        snib__survey_lost(s, call, how);
        break;
    case SNIB__VOTE_EXAMINE:
        snib__checkup_lost(s, call, how);
        break;
    default:
        snib__redlock_lost(s, call, how);
        break;
    }
}

static void on_down(struct snib__node *node)
{
    (void)node;
}

static void on_message(struct snib__node *node, const char *bytes, size_t size)
{
    (void)node; /* no layout of ours grants by message */
    (void)bytes;
    (void)size;
}

static void on_broken(struct snib__node *node, const char *text)
{
    snib__redlock_broken(node->owner, text);
}

static void on_subscribed(struct snib__node *node, const char *channel)
{
    snib__waits_subscribed(node->owner, channel, snib__redlock_told);
}

static void on_heard(struct snib__node *node, const char *channel, const char *text)
{
    snib__waits_heard(node->owner, channel, text, snib__redlock_told);
}

static void on_inbox_ready(struct snib__node *node)
{
    snib__waits_ready(node->owner);
}

static void on_inbox_hears(struct snib__node *node)
{
    struct snib__server *s = node->owner;
    struct snib__redlock *r = s->session;
    for (struct snib__list *l = r->bids.after; l != &r->bids; l = l->after) {
        struct snib__redlock_bid *b = SNIB__OF(l, struct snib__redlock_bid, in_session);
        if (b->phase == SNIB__REDLOCK_HELD && b->listens && b->claim->listens) {
            snib__redlock_renew(r, b, true);
            snib__redlock_rearm(r, b);
        }
    }
}

static void on_inbox_failed(struct snib__node *node)
{
    (void)node; /* whoever waits asks now and then */
}

static const struct snib__node_upcalls node_upcalls = {
    .reply = on_reply,
    .lost = on_lost,
    .down = on_down,
    .message = on_message,
    .broken = on_broken,
    .subscribed = on_subscribed,
    .heard = on_heard,
    .inbox_ready = on_inbox_ready,
    .inbox_hears = on_inbox_hears,
    .inbox_failed = on_inbox_failed,
};

/* ---- Open and close --------------------------------------------------------------------- */

static int open_session(struct snib__session *session, snib_error *err)
{
    static const enum snib__layout_row layouts[] = {SNIB__LAYOUT_PLAIN};
    struct snib__redlock *r = snib__redlock_of(session);
    r->session = session;
    r->layout = &snib__layouts[layouts[session->values[SNIB__REDLOCK_LAYOUT].number]];
    snib__list_init(&r->bids);
    snib__list_init(&r->watches);
    snib__list_init(&r->debts);
    snib__list_init(&r->owing);
    snib__list_init(&r->searches);
    snib__list_init(&r->examinations);
    session->why = "Redlock has one holder per lock: those who share it would need a majority each";
    int rc = snib__redlock_settings(r, err);
    for (unsigned i = 0; i < r->count; i++) {
        struct snib__server *s = &r->servers[i];
        s->session = r;
        s->index = i;
        snib__node_init(&s->node, &node_upcalls, &s->settings, s);
    }
    return rc;
}

static void close_session(struct snib__session *session)
{
    struct snib__redlock *r = snib__redlock_of(session);
    if (!r->session) {
        return;
    }
    if (!snib__forked(session)) {
        for (unsigned i = 0; i < r->count; i++) {
            snib__node_flush(&r->servers[i].node); /* releases that nobody waited for */
        }
        snib__survey_close(r);
        snib__checkup_close(r);
    }
    for (unsigned i = 0; i < r->count; i++) {
        if (r->servers[i].node.settings) {
            snib__node_close(&r->servers[i].node);
        }
    }
    snib__redlock_debts_close(r);
    snib__waits_close(r);
    snib__redlock_settings_free(r);
    free(r->timers.heap);
    r->session = NULL;
}

/* ---- Driving ---------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool idle(const struct snib__redlock *r)
{
    for (unsigned i = 0; i < r->count; i++) {
        if (!snib__node_idle(&r->servers[i].node)) {
            return false;
        }
    }
    return true;
}

/* Somebody must read answers that nobody waits for, and see to what is due. */
static void set_wake(struct snib__redlock *r, int64_t now_ns, int64_t next_ns)
{
    bool attends = r->listening > 0;
    r->session->attend += attends - r->attends;
    r->attends = attends;
    next_ns = idle(r) ? next_ns : least(next_ns, snib__later(now_ns, UNREAD_NS));
    r->session->wake_ns = next_ns == SNIB__NEVER ? 0 : next_ns;
}

/* Whatever is due; when to come back. */
static int64_t keep_time(struct snib__redlock *r, int64_t now_ns)
{
    int64_t next_ns = snib__redlock_claims_keep_time(r, now_ns);
    uint64_t greetings = 0;
    next_ns = least(next_ns, snib__redlock_debts_keep_time(r, now_ns));
    next_ns = least(next_ns, snib__survey_keep_time(r, now_ns));
    next_ns = least(next_ns, snib__waits_keep_time(r, now_ns));
    for (unsigned i = 0; i < r->count; i++) {
        struct snib__node *node = &r->servers[i].node;
        next_ns = least(next_ns, snib__node_keep_time(node, now_ns));
        next_ns = snib__node_ready(node) ? 0 : next_ns;
        greetings += node->greetings > 1 ? node->greetings - 1 : 0;
    }
    /* A connection that was given up just now has left things to do behind. */
    next_ns = least(next_ns, snib__redlock_debts_keep_time(r, now_ns));
    r->session->reconnects = greetings;
    return next_ns;
}

static void drive(struct snib__session *session, int64_t until_ns)
{
    struct snib__redlock *r = snib__redlock_of(session);
    int64_t next_ns = 0; /* first read what has arrived: it may be older than what is due */
    for (;;) {
        struct pollfd fds[SNIB__SERVERS_MOST * SNIB__NODE_FDS];
        size_t n = 0;
        for (unsigned i = 0; i < r->count; i++) {
            n += snib__node_poll(&r->servers[i].node, fds + n);
        }
        int64_t now_ns = snib__now().boot_ns;
        bool over = now_ns >= until_ns && next_ns != 0;
        if (over || snib__sleep(session, fds, n, least(until_ns, next_ns))) {
            set_wake(r, now_ns, next_ns);
            return;
        }
        r->polled_ns = snib__now().boot_ns;
        for (unsigned i = 0; i < r->count; i++) {
            snib__node_step(&r->servers[i].node, fds, n);
        }
        next_ns = keep_time(r, r->polled_ns);
    }
}

static void attempt(struct snib__claim *claim)
{
    snib__redlock_claim(claim);
}

const struct snib__engine snib__engine_redlock = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "redlock",
    .aliases = "redlocks",
    .summary = "a majority of independent Redis servers: a string per lock at each, scripts",
    .promise = "one holder while most servers keep their data and their clocks; restarts and jumps "
               "are seen and waited out",
    .traits = SNIB_TRAIT_LEASED | SNIB_TRAIT_TTL_PER_LOCK | SNIB_TRAIT_CROSS_HOST |
              SNIB_TRAIT_BREAKS | SNIB_TRAIT_LISTS | SNIB_TRAIT_SURVIVES_SERVER_LOSS,
    .session_size = sizeof(struct snib__redlock),
    .claim_size = sizeof(struct snib__redlock_bid),
    .query_size = sizeof(union snib__redlock_query),
    .params = params,
    .open = open_session,
    .close = close_session,
    .attempt = attempt,
    .renew = snib__redlock_claims_renew,
    .release = snib__redlock_release,
    .drive = drive,
    .inspect = snib__survey_inspect,
    .evict = snib__survey_evict,
    .examine = snib__checkup,
    .rights = snib__survey_rights,
};
