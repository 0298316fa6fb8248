/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Redis engine: its table, and the loop that drives its server.
 *
 *   redis://[[user][:password]@]host[:port][/db]      default port 6379
 *   rediss://...                                       the same with TLS
 *   unix:///path/of/redis.sock
 *   redis+sentinel://[[user][:password]@]sentinel[:port],.../master    default port 26379
 *   rediss+sentinel://...                              the same with TLS, to all of them
 *
 * Calls go down only; words that go up go through a struct of functions.
 *
 *   engine.c                                          the slots, the loop
 *   follow.c      proofs.c                            whichever is the master; what counts there
 *   handover.c    queries.c    examine.c findings.c   who waits; who asks; how is it
 *   replication.c topology.c   finding.c              (and its replicas)
 *   rights.c                                          what we must be allowed to do
 *   claims.c  attempts.c  breaks.c                    attempt, renew, release; who broke it
 *   asks.c    debts.c      bid.c       watches.c
 *   steps.c                                           by a script, or without any
 *   layout.c      native*.c    plain*.c               what is in the keys
 *   redisson*.c   rwlock.c     scripts/
 *   node.c                                            one server
 *   finder.c      witness.c                           sentinels; replicas
 *   inbox.c       greeting.c   quarantine.c ...       its parts: see node.h
 *   connection.c  command.c    reply.c    errors.c    bytes
 *
 * Nothing here blocks. The server is first contacted by the first attempt.
 */
#include "engines/redis/bid.h"
#include "engines/redis/breaks.h"
#include "engines/redis/claims.h"
#include "engines/redis/debts.h"
#include "engines/redis/examine.h"
#include "engines/redis/follow.h"
#include "engines/redis/handover.h"
#include "engines/redis/proofs.h"
#include "engines/redis/queries.h"
#include "engines/redis/rights.h"
#include "engines/redis/server.h"
#include "engines/redis/settings.h"
#include "engines/redis/steps.h"
#include "engines/redis/watches.h"

extern const struct snib__engine snib__engine_redis;

union snib__redis_query {
    struct snib__search search;
    struct snib__examination examination;
};

#define DAY_MS (24LL * 3600 * 1000)

const struct snib__param snib__redis_params[] = {
    [SNIB__REDIS_DB] = {"db", SNIB__COUNT, NULL, 0, 65535, NULL,
                        "the database; with redis: it may also be the path"},
    [SNIB__REDIS_PREFIX] =
        {"prefix", SNIB__TEXT, NULL, 1, 100, NULL,
         "in front of the keys and channels; snib with layout=native, else none"},
    [SNIB__REDIS_NAME] = {"name", SNIB__TEXT, "snib", 1, 60, NULL,
                          "the connection's name in CLIENT LIST"},
    [SNIB__REDIS_PASSFILE] = {"passfile", SNIB__TEXT, NULL, 1, 1000, NULL,
                              "a file with the password, readable by its owner only"},
    [SNIB__REDIS_EVICTION] = {"eviction", SNIB__CHOICE, "refuse", 0, 0, "refuse|allow",
                              "a server that evicts keys when memory is short"},
    [SNIB__REDIS_QUARANTINE] = {"quarantine", SNIB__FLAG, "yes", 0, 1, NULL,
                                "grant nothing on a restarted server until all leases that it "
                                "may have lost are over; no: its data survives restarts"},
    [SNIB__REDIS_STATE] = {"state", SNIB__TEXT, NULL, 1, 1000, NULL,
                           "where to remember which run of the server was seen"},
    [SNIB__REDIS_RETENTION] = {"retention", SNIB__DURATION, "1h", 1000, 30 * DAY_MS, NULL,
                               "how long a free name's last token is kept: the largest backward "
                               "step of the server's clock that tokens survive"},
    [SNIB__REDIS_PASSING] = {"passing", SNIB__FLAG, "yes", 0, 1, NULL,
                             "one grant serves several threads of a process, up to 100 and for "
                             "50 ms, before another process has its turn"},
    [SNIB__REDIS_CA] = {"ca", SNIB__TEXT, NULL, 1, 1000, NULL,
                        "authorities to trust instead of the system's: a PEM file or a folder"},
    [SNIB__REDIS_CERT] = {"cert", SNIB__TEXT, NULL, 1, 1000, NULL,
                          "our certificate, for servers that ask for one"},
    [SNIB__REDIS_KEY] = {"key", SNIB__TEXT, NULL, 1, 1000, NULL, "its key, if not in that file"},
    [SNIB__REDIS_TLS] = {"tls", SNIB__CHOICE, "verify", 0, 0, "verify|insecure",
                         "insecure: accept any certificate of the server"},
    [SNIB__REDIS_LAYOUT] = {"layout", SNIB__CHOICE, "native", 0, 0, SNIB__LAYOUT_CHOICES,
                            "what is in the keys: native, or as other programs have it"},
    [SNIB__REDIS_SCRIPTS] = {"scripts", SNIB__CHOICE, "auto", 0, 0, "auto|no",
                             "no: with layout=plain, by WATCH and MULTI; auto: only if scripts are "
                             "not allowed"},
    [SNIB__REDIS_WATCHDOG] = {"watchdog", SNIB__DURATION, "30s", 100, DAY_MS, NULL,
                              "layout=redisson-rw: the shortest lockWatchdogTimeout of those "
                              "Redissons, and the longest ttl of a shared lock"},
    [SNIB__REDIS_SENTINEL_USER] = {"sentinel-user", SNIB__TEXT, NULL, 1, 200, NULL,
                                   "redis+sentinel: who we are at the sentinels"},
    [SNIB__REDIS_SENTINEL_PASSFILE] = {"sentinel-passfile", SNIB__TEXT, NULL, 1, 1000, NULL,
                                       "redis+sentinel: a file with their password, readable by "
                                       "its owner only"},
    [SNIB__REDIS_WAIT] = {"wait", SNIB__TEXT, NULL, 1, 8, NULL,
                          "grants and renewals count when so many replicas have them: a number, "
                          "majority (which waits promotions out) or all"},
    [SNIB__REDIS_WAIT_TIMEOUT] = {"wait-timeout", SNIB__DURATION, NULL, 1, 60000, NULL,
                                  "how long replicas may take; 1s, or half of timeout= if less"},
    [SNIB__REDIS_REPLICAS] = {"replicas", SNIB__COUNT, NULL, 1, 15, NULL,
                              "how many replicas the master has when all is well; 2"},
    [SNIB__REDIS_PARAMS] = {.name = NULL},
};

/* ---- What the node says ----------------------------------------------------------------- */

static void on_reply(struct snib__node *node, struct snib__redis_call *call,
                     const struct snib__reply *reply)
{
    static const struct snib__reply no_scripts = {
        .type = REDIS_REPLY_ERROR, .text = "NOSCRIPT not allowed", .size = 20};
    struct snib__redis *r = node->owner;
    if (r->router && r->router->reply(r, call, &reply)) {
        return;
    }
    if (call->kind <= SNIB__CALL_EVICT && reply->type == REDIS_REPLY_ERROR &&
        snib__steps_switch(r, reply->text)) {
        call->by_text = false; /* it is asked once more, and then step by step */
        reply = &no_scripts;
    }
    switch (call->kind) {
    case SNIB__CALL_ATTEMPT:
    case SNIB__CALL_RENEW:
    case SNIB__CALL_RELEASE:
        snib__claims_reply(r, call, reply);
        break;
    case SNIB__CALL_DEBT:
        snib__debts_reply(r, call, reply, snib__claims_settled);
        break;
    case SNIB__CALL_EXAMINE:
        snib__examine_reply(r, call, reply);
        break;
    case SNIB__CALL_STEP:
        snib__steps_reply(r, call, reply);
        break;
    default:
        snib__queries_reply(r, call, reply);
        break;
    }
}

static void on_lost(struct snib__node *node, struct snib__redis_call *call, enum snib__loss how)
{
    struct snib__redis *r = node->owner;
    if (!call->subject || (r->router && r->router->lost(r, call, how))) {
        return;
    }
    switch (call->kind) {
    case SNIB__CALL_ATTEMPT:
    case SNIB__CALL_RENEW:
    case SNIB__CALL_RELEASE:
        snib__claims_lost(r, call, how);
        break;
    case SNIB__CALL_DEBT:
        snib__debts_lost(r, call, how);
        break;
    case SNIB__CALL_EXAMINE:
        snib__examine_lost(r, call, how);
        break;
    case SNIB__CALL_STEP:
        snib__steps_lost(r, call, how);
        break;
    default:
        snib__queries_lost(r, call, how);
        break;
    }
}

static void on_other(struct snib__node *node)
{
    snib__proofs_other(node->owner);
    snib__follow_other(node->owner);
}

static void on_down(struct snib__node *node)
{
    struct snib__redis *r = node->owner;
    snib__redis_line_hurry(r); /* those that stand in line ask where they are */
    if (r->router) {
        r->router->down(r);
    }
}

static void on_message(struct snib__node *node, const char *bytes, size_t size)
{
    snib__handover_message(node->owner, bytes, size);
}

static void on_broken(struct snib__node *node, const char *text)
{
    snib__breaks_message(node->owner, text);
}

static void on_subscribed(struct snib__node *node, const char *channel)
{
    snib__watches_subscribed(node->owner, channel);
}

static void on_heard(struct snib__node *node, const char *channel, const char *text)
{
    snib__watches_heard(node->owner, channel, text);
}

static void on_slot(struct snib__node *node, unsigned slot, bool hears)
{
    snib__handover_slot(node->owner, slot, hears);
}

static void on_inbox_ready(struct snib__node *node)
{
    snib__watches_ready(node->owner);
    snib__handover_ready(node->owner);
    snib__examine_inbox(node->owner);
}

static void on_inbox_hears(struct snib__node *node)
{
    snib__breaks_ready(node->owner);
}

static void on_inbox_failed(struct snib__node *node)
{
    snib__handover_failed(node->owner);
    snib__examine_inbox(node->owner);
}

static const struct snib__node_upcalls node_upcalls = {
    .reply = on_reply,
    .lost = on_lost,
    .other = on_other,
    .down = on_down,
    .message = on_message,
    .broken = on_broken,
    .subscribed = on_subscribed,
    .heard = on_heard,
    .slot = on_slot,
    .inbox_ready = on_inbox_ready,
    .inbox_hears = on_inbox_hears,
    .inbox_failed = on_inbox_failed,
};

/* ---- Open and close --------------------------------------------------------------------- */

void snib__redis_begin(struct snib__redis *r, struct snib__session *session)
{
    r->session = session;
    r->layout = &snib__layouts[session->values[SNIB__REDIS_LAYOUT].number];
    r->lineless = (r->layout->lacks & SNIB_TRAIT_FAIR) != 0;
    r->line.tick_ns = SNIB__NEVER;
    snib__list_init(&r->line.bids);
    snib__list_init(&r->watches.all);
    snib__list_init(&r->breaks.bids);
    snib__list_init(&r->exchanges);
    snib__list_init(&r->spent);
    snib__list_init(&r->debts);
    snib__list_init(&r->searches);
    snib__list_init(&r->examinations);
    r->by_steps = session->values[SNIB__REDIS_SCRIPTS].number != 0;
}

void snib__redis_meet(struct snib__redis *r)
{
    snib__node_init(&r->node, &node_upcalls, &r->settings, r);
}

int snib__redis_open(struct snib__session *session, snib_error *err)
{
    struct snib__redis *r = snib__redis_of(session);
    snib__redis_begin(r, session);
    if (!session->values[SNIB__REDIS_PASSING].number) {
        session->traits &= ~(unsigned)SNIB_TRAIT_TOKEN_SPAN;
    }
    session->traits &= ~r->layout->lacks;
    session->why = r->layout->why;
    int rc = snib__settings_read(r, err);
    snib__redis_meet(r);
    if (rc == SNIB_OK && r->by_steps && !r->layout->plan) {
        rc = snib__fail(err, SNIB_EINVAL, 0, "redis: layout=%s needs scripts", r->layout->name);
    }
    rc = rc < 0 ? rc : snib__proofs_open(r, err);
    return rc < 0 ? rc : snib__follow_open(r, err);
}

void snib__redis_part(struct snib__redis *r)
{
    if (!snib__forked(r->session)) {
        snib__node_flush(&r->node); /* releases that nobody waited for */
        snib__queries_close(r);
        snib__examine_close(r);
    }
    snib__node_close(&r->node);
    snib__proofs_close(r);
    snib__follow_close(r);
    snib__steps_close(r);
    snib__debts_close(r);
    snib__breaks_close(r);
    snib__watches_close(r);
    snib__table_free(&r->bids);
}

static void close_session(struct snib__session *session)
{
    struct snib__redis *r = snib__redis_of(session);
    if (r->session) {
        snib__redis_part(r);
        snib__settings_free(r);
        r->session = NULL;
    }
}

/* ---- Driving ---------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t snib__redis_keep_time(struct snib__redis *r, int64_t now_ns)
{
    snib__handover_keep_time(r, now_ns);
    int64_t next_ns = snib__debts_keep_time(r, now_ns, snib__claims_settled);
    next_ns = least(next_ns, snib__queries_keep_time(r, now_ns));
    next_ns = least(next_ns, snib__breaks_keep_time(r, now_ns));
    next_ns = least(next_ns, snib__watches_keep_time(r, now_ns));
    next_ns = least(next_ns, snib__node_keep_time(&r->node, now_ns));
    if (r->witness) {
        next_ns = least(next_ns, snib__witness_keep_time(r->witness, now_ns));
    }
    if (r->finder) {
        next_ns = least(next_ns, snib__finder_keep_time(r->finder, now_ns));
    }
    /* A connection that was given up just now has left its debts behind: when are they due? */
    next_ns = least(next_ns, snib__debts_keep_time(r, now_ns, snib__claims_settled));
    bool ready = snib__node_ready(&r->node) || (r->finder && snib__finder_ready(r->finder)) ||
                 (r->witness && snib__connection_ready(&r->witness->connection));
    return ready ? 0 : least(next_ns, r->line.tick_ns);
}

static void drive(struct snib__session *session, int64_t until_ns)
{
    struct snib__redis *r = snib__redis_of(session);
    for (;;) {
        struct pollfd fds[SNIB__NODE_FDS + SNIB__FINDER_FDS + 1];
        int64_t now_ns = snib__now().boot_ns;
        int64_t next_ns = snib__redis_keep_time(r, now_ns);
        session->reconnects = r->node.greetings > 1 ? r->node.greetings - 1 : 0;
        if (now_ns >= until_ns) {
            return;
        }
        size_t n = snib__node_poll(&r->node, fds);
        n += r->witness && snib__connection_poll(&r->witness->connection, &fds[n]);
        n += r->finder ? snib__finder_poll(r->finder, fds + n) : 0;
        if (snib__sleep(session, fds, n, least(until_ns, next_ns))) {
            return;
        }
        snib__node_step(&r->node, fds, n);
        if (r->witness) {
            snib__connection_poll_step(&r->witness->connection, fds, n);
        }
        if (r->finder) {
            snib__finder_step(r->finder, fds, n);
        }
    }
}

const struct snib__engine snib__engine_redis = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "redis",
    .aliases = "rediss unix redis+sentinel rediss+sentinel",
    .summary = "a Redis server, or the master that sentinels name: a hash per lock, scripts, "
               "direct hand-over",
    .promise = "one holder while the server keeps its data and its clock; restarts are waited out",
    .traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_LEASED |
              SNIB_TRAIT_TTL_PER_LOCK | SNIB_TRAIT_TOKEN_SPAN | SNIB_TRAIT_CROSS_HOST |
              SNIB_TRAIT_BREAKS | SNIB_TRAIT_LISTS,
    .session_size = sizeof(struct snib__redis),
    .claim_size = sizeof(struct snib__bid),
    .query_size = sizeof(union snib__redis_query),
    .params = snib__redis_params,
    .open = snib__redis_open,
    .close = close_session,
    .attempt = snib__claims_attempt,
    .renew = snib__claims_renew,
    .release = snib__claims_release,
    .drive = drive,
    .inspect = snib__queries_inspect,
    .evict = snib__queries_evict,
    .examine = snib__examine,
    .rights = snib__redis_rights,
    .flush = snib__claims_flush,
    .variants = SNIB__LAYOUT_VARIANTS,
};
