/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ZooKeeper engine: its table, and the loop that drives its session.
 *
 *   zookeeper://[user:password@]host[:port],host...[/base/path]      default port 2181
 *   zookeepers://...                                                 with TLS
 *
 * One session for all locks of a client, one ephemeral node for each of them. Calls go down only;
 * words that go up go through a struct of functions.
 *
 *   engine.c                                  the slots, the loop
 *   claims.c     queries.c    examine.c       attempt, renew, release; inspect, break; doctor
 *   steps.c      tokens.c     asks.c          what a contender does next; readers; what it asks for
 *   contender.c  place.c      data.c          a node of ours; who is before it; what is in it
 *   session.c                                 the session, over connections
 *   link.c                                    a connection
 *   wire.c       names.c      guid.c          bytes, names
 *
 * The protocol is ours to speak, because the library that there is blocks, hides when a request was
 * sent, and ends the process on an answer it does not expect. docs/zookeeper-protocol.md has what
 * other clients need to know.
 */
#include "engines/zookeeper/claims.h"
#include "engines/zookeeper/examine.h"
#include "engines/zookeeper/queries.h"
#include "engines/zookeeper/settings.h"
#include "net/tls.h"

#include <string.h>

extern const struct snib__engine snib__engine_zookeeper;

/* ---- What the session says ---------------------------------------------------------------- */

static void on_ready(struct snib__zk_session *at)
{
    snib__zk_claims_ready(at->owner);
    snib__zk_queries_ready(at->owner);
}

static bool of_query(const struct snib__zk_call *call)
{
    return call->kind >= SNIB__ZK_ASK_NAMES;
}

static void on_answered(struct snib__zk_session *at, const struct snib__zk_call *call,
                        struct snib__zk_answer *answer)
{
    if (of_query(call)) {
        snib__zk_look_answered(at->owner, call, answer);
    } else {
        snib__zk_claims_answered(at->owner, call, answer);
    }
}

static void on_lost(struct snib__zk_session *at, const struct snib__zk_call *call)
{
    if (of_query(call)) {
        snib__zk_look_lost(at->owner, call);
    } else {
        snib__zk_claims_lost(at->owner, call);
    }
}

static void on_event(struct snib__zk_session *at, const struct snib__zk_event *event)
{
    snib__zk_claims_event(at->owner, event);
    snib__zk_queries_event(at->owner, event);
}

static void on_down(struct snib__zk_session *at)
{
    snib__zk_claims_down(at->owner);
}

static void on_over(struct snib__zk_session *at, const char *why)
{
    snib__zk_claims_over(at->owner, why);
}

static void on_unreachable(struct snib__zk_session *at, int code)
{
    snib__zk_claims_unreachable(at->owner, code);
    snib__zk_queries_unreachable(at->owner, code);
}

static const struct snib__zk_session_upcalls session_upcalls = {
    .ready = on_ready,
    .answered = on_answered,
    .event = on_event,
    .lost = on_lost,
    .down = on_down,
    .over = on_over,
    .unreachable = on_unreachable,
};

/* ---- Open and close ----------------------------------------------------------------------- */

static int open_session(struct snib__session *session, snib_error *err)
{
    struct snib__zk *z = snib__zk_of(session);
    z->session = session;
    snib__list_init(&z->contenders);
    snib__list_init(&z->owed);
    snib__list_init(&z->queries);
    snib__zk_session_init(&z->at, &session_upcalls, session, z);
    if (session->url->host_count < 3) { /* two of three must be left, and known to us */
        session->traits &= ~(unsigned)SNIB_TRAIT_SURVIVES_SERVER_LOSS;
    }
    return snib__zk_settings_read(z, err);
}

static void close_session(struct snib__session *session)
{
    struct snib__zk *z = snib__zk_of(session);
    if (!z->session) {
        return;
    }
    snib__zk_examine_end(z);
    snib__zk_session_close(&z->at, snib__forked(session));
    snib__zk_claims_end(z);
    snib__tls_close(z->tls);
    z->tls = NULL;
    z->session = NULL;
}

/* ---- Driving ------------------------------------------------------------------------------ */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool wanted(const struct snib__zk *z)
{
    return !snib__list_empty(&z->contenders) || !snib__list_empty(&z->queries);
}

/* Does anything but the clock have to be waited for? */
static bool at_rest(const struct snib__zk *z)
{
    const struct snib__zk_session *at = &z->at;
    bool settled = at->ready ? at->link.count == 0 && !at->pinged_ns &&
                                   snib__buffer_left(&at->link.out) == 0 && !at->link.ending
                             : at->link.state == SNIB__ZK_LINK_DOWN && !at->keeps;
    return settled && snib__list_empty(&z->owed) && snib__list_empty(&z->queries) &&
           z->queued == 0 && z->session->attend == 0 && z->session->undoing == 0;
}

static int64_t keep_time(struct snib__zk *z, int64_t now_ns)
{
    z->at.keeps = wanted(z);
    snib__zk_claims_tick(z, now_ns);
    snib__zk_queries_tick(z, now_ns);
    snib__zk_examine_tick(z, now_ns);
    snib__zk_session_tick(&z->at, now_ns);
    return least(least(snib__zk_session_next(&z->at), snib__zk_claims_next(z)),
                 least(snib__zk_queries_next(z), snib__zk_examine_next(z)));
}

static void drive(struct snib__session *session, int64_t until_ns)
{
    struct snib__zk *z = snib__zk_of(session);
    int64_t next_ns;
    for (;;) {
        struct pollfd fds[2] = {{.fd = -1}, {.fd = -1}};
        int64_t now_ns = snib__now().boot_ns;
        next_ns = keep_time(z, now_ns);
        if (now_ns >= until_ns || at_rest(z)) {
            break;
        }
        bool dialled =
            !snib__zk_link_poll(&z->at.link, &fds[0]) && z->at.link.state == SNIB__ZK_LINK_DIALLING;
        (void)snib__zk_examine_poll(z, &fds[1]);
        if (dialled || z->at.link.ending) { /* known already */
            snib__zk_link_step(&z->at.link, 0);
            continue;
        }
        if (snib__sleep(session, fds, 2, least(until_ns, next_ns))) {
            next_ns = keep_time(z, snib__now().boot_ns);
            break;
        }
        if (fds[0].revents) {
            snib__zk_link_step(&z->at.link, fds[0].revents);
        }
        if (fds[1].revents) {
            snib__zk_examine_step(z);
        }
    }
    session->wake_ns = next_ns == SNIB__NEVER ? 0 : next_ns;
}

const struct snib__engine snib__engine_zookeeper = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "zookeeper",
    .aliases = "zookeepers",
    .summary = "a ZooKeeper ensemble: an ephemeral node per lock, beside Curator and kazoo",
    .promise = "one holder while a quorum keeps its data and the leader's clock runs true",
    .traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_LEASED |
              SNIB_TRAIT_CROSS_HOST | SNIB_TRAIT_SURVIVES_SERVER_LOSS | SNIB_TRAIT_BREAKS |
              SNIB_TRAIT_LISTS,
    .session_size = sizeof(struct snib__zk),
    .claim_size = sizeof(struct snib__zk_ticket),
    .query_size = sizeof(struct snib__zk_look),
    .params = snib__zk_params,
    .open = open_session,
    .close = close_session,
    .attempt = snib__zk_attempt,
    .renew = snib__zk_renew,
    .release = snib__zk_release,
    .drive = drive,
    .inspect = snib__zk_inspect,
    .evict = snib__zk_evict,
    .examine = snib__zk_examine,
};
