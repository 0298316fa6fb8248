/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The etcd engine: its table, and the loop that drives its cluster.
 *
 *   etcd://[user:password@]host[:port][,host...][/prefix]     default port 2379
 *   etcds://...                                                the same over TLS
 *
 * Calls go down only; words that go up go through a struct of functions.
 *
 *   engine.c   settings.c                      the slots, the loop; what the URL says
 *   queries.c  examine.c                       who asks; how is it
 *   claims.c   attempts.c                      attempt, renew, release
 *   breaks.c   watch.c    leases.c             who is asked to go; who went; how long we may stay
 *   requests.c keys.c   rpc.proto              what is asked, and of which keys
 *   errors.c   rights.c                        what a refusal means; what we must be allowed to do
 *   cluster.c  connection.c                    members in turn; gRPC over HTTP/2
 *
 * Safety
 * ------
 * A contender is a key under a lease. The one with the smallest create revision holds (exclusive);
 * those with no exclusive one before them (shared); the first `permits` (counted). Revisions are
 * given by raft, so there is one order, and it survives the loss of a minority of members, of
 * leaders and of connections. Go's concurrency package and `etcdctl lock` use the same keys and the
 * same order for exclusive locks, and exclude us and are excluded.
 *
 * A key is there as long as its lease is. A holder believes in it for the ttl, counted from before
 * the grant of the lease was sent, or a keep-alive that is proven (leases.c says how, and why one
 * that is only answered proves nothing). The cluster counts from later. That assumes that clocks of
 * members run as fast as ours, within what the core allows for; not that they agree.
 *
 * A hand-over is the deletion of all keys before ours, which a watch tells; it may come late, never
 * early. Nothing may be believed of our own key but what the lease proves: the core asks if that is
 * old.
 *
 * What may be executed twice or late does no harm. An attempt that comes late finds its key, or its
 * lease revoked; a deletion is on condition of the create revision; a revocation is of a lease that
 * nobody uses again. Who released and got no answer has its lease revoked until that is confirmed.
 *
 * What breaks it: keys deleted or leases revoked by hand (the holder is told at its next renewal;
 * at once if it listens); a cluster restored from a snapshot, which forgets holders and goes
 * back in revisions unless restored with --bump-revision; a holder that stops past its deadline and
 * then writes, against which the token is: the create revision, which a guarded write can also
 * compare in its own transaction (docs/fencing.md).
 */
#include "engines/etcd/attempts.h"
#include "engines/etcd/breaks.h"
#include "engines/etcd/claims.h"
#include "engines/etcd/examine.h"
#include "engines/etcd/leases.h"
#include "engines/etcd/queries.h"
#include "engines/etcd/rights.h"
#include "engines/etcd/settings.h"
#include "engines/etcd/watch.h"

#include <poll.h>

extern const struct snib__engine snib_engine_module;

union etcd_any_query {
    struct etcd_query query;
    struct etcd_examination examination;
};

enum { FAREWELL_MS = 250 };

static const struct snib__param params[] = {
    [ETCD_CA] = {"ca", SNIB__TEXT, NULL, 1, 4096, NULL, "authorities to trust, with etcds:"},
    [ETCD_CERT] = {"cert", SNIB__TEXT, NULL, 1, 4096, NULL, "a certificate to show"},
    [ETCD_KEY_FILE] = {"key", SNIB__TEXT, NULL, 1, 4096, NULL, "the key of the certificate"},
    [ETCD_PASSFILE] = {"passfile", SNIB__TEXT, NULL, 1, 1000, NULL,
                       "a file with the password, readable by its owner only"},
    [ETCD_TLS] = {"tls", SNIB__CHOICE, "verify", 0, 0, "verify|insecure",
                  "insecure: accept any certificate of the servers"},
    [ETCD_RETENTION] = {"retention", SNIB__DURATION, "1h", 60000, 30LL * 24 * 3600 * 1000, NULL,
                        "how long a free name's last token is kept, for shared locks"},
    [ETCD_STALL] = {"stall", SNIB__DURATION, "750ms", 10, 60000, NULL,
                    "a member that does not answer for so long: ask the next"},
    [ETCD_PARAMS] = {.name = NULL},
};

/* ---- Open and close --------------------------------------------------------------------- */

static void on_unreachable(void *owner)
{
    etcd_attempts_unreachable(owner);
}

static const struct etcd_cluster_upcalls cluster_upcalls = {.unreachable = on_unreachable};

static int open_session(struct snib__session *session, snib_error *err)
{
    struct etcd *e = etcd_of(session);
    e->session = session;
    snib__list_init(&e->stock);
    snib__list_init(&e->doomed);
    snib__list_init(&e->queries);
    snib__list_init(&e->heard);
    snib__list_init(&e->unheard);
    etcd_cluster_init(&e->cluster, &cluster_upcalls, e);
    int rc = etcd_settings_read(e, err);
    if (e->cluster.count < 3) { /* two of three must be left, and known to us */
        session->traits &= ~(unsigned)SNIB_TRAIT_SURVIVES_SERVER_LOSS;
    }
    return rc;
}

/* Leases in stock would be there for their ttl: whoever closes has a moment for them. */
static void say_farewell(struct etcd *e)
{
    int64_t until = snib__now().boot_ns + FAREWELL_MS * SNIB__MS;
    struct pollfd fd;
    if (!e->proof.boot_ns || !etcd_cluster_joined(&e->cluster)) {
        return; /* nobody listens */
    }
    etcd_leases_farewell(e);
    etcd_cluster_flush(&e->cluster);
    while (!etcd_leases_idle(e) && snib__now().boot_ns < until &&
           etcd_cluster_joined(&e->cluster) && etcd_cluster_poll(&e->cluster, &fd, 1) == 1) {
        if (poll(&fd, 1, 10) > 0) {
            etcd_cluster_step(&e->cluster);
        }
        etcd_cluster_flush(&e->cluster);
    }
}

static void close_session(struct snib__session *session)
{
    struct etcd *e = etcd_of(session);
    if (!e->session) {
        return;
    }
    if (!snib__forked(session)) {
        say_farewell(e);
    }
    etcd_queries_close(e);
    etcd_cluster_close(&e->cluster);
    snib__tls_close(e->tls);
    etcd_leases_close(e);
    etcd_watch_close(e);
    etcd_settings_free(e);
    e->session = NULL;
}

/* ---- Driving ---------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Whatever is due; when to come back. */
static int64_t keep_time(struct etcd *e, int64_t now_ns)
{
    int64_t watch = least(etcd_watch_keep_time(e, now_ns), etcd_breaks_keep_time(e, now_ns));
    int64_t stock = etcd_leases_next(e);
    int64_t next = etcd_attempts_keep_time(e, now_ns);
    next = least(next, etcd_leases_keep_time(e, now_ns));
    next = least(next, etcd_queries_keep_time(e, now_ns));
    next = least(next, etcd_cluster_keep_time(&e->cluster, now_ns));
    next = least(next, watch);
    e->session->reconnects = e->cluster.greetings > 1 ? e->cluster.greetings - 1 : 0;
    stock = stock ? least(stock, watch) : watch; /* these want to be driven by themselves */
    e->session->wake_ns = stock == SNIB__NEVER ? 0 : stock;
    return next;
}

static void drive(struct snib__session *session, int64_t until_ns)
{
    struct etcd *e = etcd_of(session);
    for (;;) {
        struct pollfd fd;
        int64_t now_ns = snib__now().boot_ns;
        int64_t next_ns = keep_time(e, now_ns);
        if (now_ns >= until_ns) {
            return;
        }
        size_t n = etcd_cluster_poll(&e->cluster, &fd, 1);
        if (snib__sleep(session, &fd, n, least(until_ns, next_ns))) {
            etcd_cluster_flush(&e->cluster);
            return;
        }
        etcd_cluster_step(&e->cluster);
    }
}

const struct snib__engine snib_engine_module = {
    .abi = SNIB__ENGINE_ABI,
    .scheme = "etcd",
    .aliases = "etcds",
    .summary = "an etcd cluster: a key per contender, leases, watches; with etcdctl lock and Go",
    .promise = "one holder while a majority of members lives and keeps its data",
    .traits = SNIB_TRAIT_FAIR | SNIB_TRAIT_SHARED | SNIB_TRAIT_COUNTED | SNIB_TRAIT_LEASED |
              SNIB_TRAIT_TTL_PER_LOCK | SNIB_TRAIT_CROSS_HOST | SNIB_TRAIT_SURVIVES_SERVER_LOSS |
              SNIB_TRAIT_BREAKS | SNIB_TRAIT_LISTS,
    .session_size = sizeof(struct etcd),
    .claim_size = sizeof(struct etcd_claim),
    .query_size = sizeof(union etcd_any_query),
    .params = params,
    .open = open_session,
    .close = close_session,
    .attempt = etcd_claims_attempt,
    .renew = etcd_claims_renew,
    .release = etcd_claims_release,
    .drive = drive,
    .inspect = etcd_queries_inspect,
    .evict = etcd_queries_evict,
    .examine = etcd_examine,
    .rights = etcd_rights,
};
