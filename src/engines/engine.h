/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ENGINE_H
#define SNIB_ENGINE_H

/*
 * The engine contract: everything an engine knows of the core, and the core of an engine.
 *
 * An engine turns "ask for this lock", "is it still mine", "give it back" into what its service
 * speaks. It never waits, never decides about deadlines, leases or users: the core does that,
 * once, for all engines. A new engine is one folder with one exported symbol, one row in
 * core/engines.c and a green conformance suite. It may use base/ and net/; so may a module.
 *
 * Submit and answer
 * -----------------
 * attempt, renew, release, inspect, evict and examine submit something and return at once. The
 * answer comes by snib__answer (or snib__seen, snib__found, snib__finish), from inside the same
 * call when it is known already, else from drive. An engine bounds its own requests by
 * session->timeout_ms and then answers UNKNOWN; the core bounds users.
 *
 * Locking theory
 * --------------
 * A client is a monitor. Every slot is called with the client's mutex held, and every upcall is
 * made with it held; so an engine needs no lock of its own and is never entered twice at once,
 * with one exception: snib__sleep gives the mutex up while it sleeps, and anything may have been
 * submitted or released meanwhile. At most one thread is inside drive. Upcalls never enter the
 * engine again; what follows from an answer is submitted after the slot has returned or, if the
 * answer came from inside drive, after drive has returned. Only snib__rouse may be called by a
 * thread that does not have the mutex.
 *
 * Life of a claim
 * ---------------
 *   attempt  ->  HELD | BUSY | QUEUED | UNKNOWN | FAILED
 *       BUSY: not ours, nothing left at the engine; the core attempts again later.
 *       QUEUED: the engine holds our place and will answer again: HELD, or QUEUED with news, or
 *       BUSY for "worth an attempt now", or UNKNOWN. Only if claim->may_queue.
 *       UNKNOWN: sent, no answer. The core attempts again or releases.
 *       FAILED: refused, with a code; nothing left at the engine, of earlier attempts either: who
 *       cannot be sure of that answers UNKNOWN.
 *     Attempts are idempotent: sent twice for one claim, they count once.
 *   renew    ->  HELD (with token, since and lease_ms) | LOST | UNKNOWN | FAILED
 *       Extend where there is a lease, verify where there is none. The token is that of the grant
 *       which was extended: one that ended unseen may have been followed by another for the same
 *       id. 0 only if that cannot happen. One request may prove a whole batch: `since` is then
 *       the instant before that request was sent, for each of them. The next renewal is due when
 *       a third of what was granted here is over, whatever ttl was asked for. lease_ms is what
 *       this request asked for and got: claim->ttl_ms may be another one when the answer comes. A
 *       renewal may shorten a lease.
 *   release  ->  FREED (gave it back, or was only waiting) | LOST (it was not ours) | UNKNOWN
 *       Comes once per claim, in any phase after the first attempt: held, queued, or with the
 *       attempt still outstanding; a grant still on its way is given back too. Answered exactly
 *       once, always; that answer is the last word the engine says about the claim, whose memory
 *       may be gone when snib__answer returns. After it nothing is sent for that owner id but its
 *       undoing: what may be left at the service is destroyed from a record of the engine's own,
 *       which outlives the claim and is counted in session->undoing.
 *
 * Tokens
 * ------
 * Every exclusive grant of a name has a larger token than every earlier one, over crashes and
 * restarts as far as the engine's promise says. A shared grant carries the token of the last
 * exclusive grant of that name, or one that was drawn for the name's first use; all shared holders
 * at a time have the same. A counted grant draws a token of its own, as an exclusive one does.
 *
 * Names
 * -----
 * 1 to SNIB__NAME_MAX bytes of UTF-8 without control characters, compared byte by byte: case and
 * normal form matter, '/' is a letter like any other. What a service cannot hold, its engine
 * encodes, so that two names never become one, and inspect shows the original. Labels are the
 * same, 0 to SNIB__LABEL_MAX bytes. A name that an engine cannot serve is FAILED with EINVAL.
 *
 * Growth
 * ------
 * Structs here grow at their ends, enums by values; a module of another SNIB__ENGINE_ABI is
 * refused. Zero means "unknown" or "none" in every field of a result.
 */

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "snib.h"

#include <poll.h>
#include <stdbool.h>

#pragma GCC visibility push(default) /* engines may be modules */

#define SNIB__ENGINE_ABI 2U

#define SNIB__NAME_MAX 200
#define SNIB__LABEL_MAX 60

/* ---- URL and parameters ----------------------------------------------------------------- */

#define SNIB__HOSTS_MAX 16

struct snib__host {
    char *name;
    int port; /* 0: the engine's default */
};

struct snib__url {
    char *scheme;
    char *user;
    char *password; /* "" for none; never shown */
    struct snib__host hosts[SNIB__HOSTS_MAX];
    size_t host_count;
    char *path; /* decoded; "" or starts with '/' */
};

enum snib__param_type { SNIB__DURATION, SNIB__COUNT, SNIB__FLAG, SNIB__TEXT, SNIB__CHOICE };

/* A URL parameter: `file:///srv/locks?group=staff`. Durations are "500ms", "30s", "5m", "1h". */
struct snib__param {
    const char *name; /* NULL ends the table */
    enum snib__param_type type;
    const char *normal;  /* the default, as it would be written; NULL: none */
    int64_t min, max;    /* of a duration (in ms) or count; of a text: its length */
    const char *choices; /* "a|b|c" */
    const char *help;
};

union snib__value {
    int64_t number;   /* duration in ms, count, flag 0 or 1, index of the choice; -1: not given */
    const char *text; /* NULL: not given */
};

/* ---- Session, claim, query -------------------------------------------------------------- */

/* A client, as its engine sees it. */
struct snib__session {
    const struct snib__engine *engine;
    const struct snib__url *url;
    const union snib__value *values; /* one per row of engine->params */
    const char *who;                 /* "host:pid", for others to read */
    int64_t ttl_ms, max_lease_ms;
    int64_t timeout_ms; /* bound of one request to the engine */
    unsigned traits;    /* starts as engine->traits; open may take some away, and snib__traits */
    void *state;        /* engine->session_size bytes, zeroed before open */

    /* The engine's word to the core. */
    int attend;      /* above 0, somebody must drive even if nobody waits */
    int undoing;     /* things still to be destroyed at the service: driven, and waited for at
                      * snib_close as long as a request may take */
    int64_t wake_ns; /* be driven at this moment, by CLOCK_BOOTTIME, even if nobody waits; 0: no */
    uint64_t reconnects; /* connections made after the first one, for snib_stats_read */
    const char *where;   /* set in open: the path that is really used, where the URL names none or
                          * another; shown to people, and what a child of ours uses */

    char notice[240]; /* what everybody who inspects should know now; "" for nothing */

    /* For speed only. */
    bool quiet; /* set in a slot: a thread that sleeps in drive need not look at this */

    int64_t connect_ms; /* how long a service that has never answered may be silent: the core bounds
                         * claims by it, an engine its queries */
    bool ttl_given;     /* ttl_ms is in the URL */
    const char *why; /* set in open: why it has not all of the engine's traits; NULL or "": no word
                      * about that */

    /* For speed only. */
    bool afloat; /* set in a slot: whatever was asked for has left, and an answer that nobody waits
                  * for may be read a moment later */
    bool more;   /* set by the core, only where there is a `flush`: that or drive comes within a
                  * millisecond, and more may be asked for before; no need to send this by itself */
};

/* One series of attempts under one owner id, and what comes of it. */
struct snib__claim {
    struct snib__session *session;
    const char *name;
    const char *label; /* "" if none */
    int mode;          /* enum snib_mode */
    unsigned permits;  /* of a counted lock, else 1 */
    int64_t ttl_ms;    /* wanted; a renewal may want another one than the attempt */
    bool may_queue;    /* false: answer BUSY rather than QUEUED */
    bool adopted; /* a dead process's, known by its owner id: a release follows, and nothing else */
    /* Somebody reacts to snib__report. Where others can ask a holder to give up (evict), they can
     * ask this one; it may become true while held, and then a renewal follows at once. When the
     * lock is lost it becomes false: an engine that renews by itself keeps nothing alive. */
    bool listens;
    /* Random, never shown; zero if engine->nameless. An engine that starts over inside of a claim,
     * because it gave back what it had, draws another one here. What is derived from it and does
     * not give it away (a hash, the name of a node) may be shown. */
    unsigned char owner[16];
    void *state; /* engine->claim_size bytes, zeroed before the first attempt */

    /* For speed only. */
    unsigned span; /* tokens wanted: more than one only with SNIB_TRAIT_TOKEN_SPAN */
};

/* One inspect, list, break or examination. */
struct snib__query {
    struct snib__session *session;
    const char *name; /* or the prefix; "" for examine */
    bool prefix;
    uint64_t token; /* evict: only if this is still the holder's */
    bool force;     /* evict: take it away now, see there */
    void *state;    /* engine->query_size bytes, zeroed */
};

/* ---- The slots: none optional ----------------------------------------------------------- */

struct snib__engine {
    unsigned abi;        /* SNIB__ENGINE_ABI */
    const char *scheme;  /* "redis": its name in messages, and the first of its schemes */
    const char *aliases; /* "rediss unix": its other schemes; "" for none */
    const char *summary; /* one line: how it locks */
    const char *promise; /* one line: what holds, and what breaks it */
    unsigned traits;     /* what it has at best; see snib__traits */
    size_t session_size, claim_size, query_size;
    const struct snib__param *params;

    /* For speed only. */
    bool nameless; /* locks end with the process: claims need no owner id */

    /* Check the URL and make ready; connecting can wait for the first attempt. */
    int (*open)(struct snib__session *, snib_error *);
    /* Accepts a session that is only half open. When snib__forked, close descriptors and send
     * nothing, unlock nothing. Claims and queries still there are forgotten without an answer.
     * Before it the core has driven until nothing was outstanding or being undone, or for as long
     * as a request may take. */
    void (*close)(struct snib__session *);

    void (*attempt)(struct snib__claim *);
    void (*renew)(struct snib__claim *const claims[], size_t n);
    void (*release)(struct snib__claim *);

    /* Make progress until snib__sleep says "return", or `until` (CLOCK_BOOTTIME, ns) has come:
     *
     *     do {
     *         handle what is ready, keep time;
     *     } while (snib__now().boot_ns < until_ns && !snib__sleep(session, fds, n, until_ns));
     *
     * It is not called, and may return early, while nothing is asked of the engine: no answer is
     * owed, `attend` and `undoing` are 0, `wake_ns` has not come. The core then sleeps by itself.
     */
    void (*drive)(struct snib__session *, int64_t until_ns);

    /* Holders first, then waiters in their order, to snib__seen; a prefix: name by name. */
    void (*inspect)(struct snib__query *);
    /* Break a lock. A request at first: the holder is told that it has lost the lock (at once where
     * it can be reached, else its next renewal is answered LOST, with who broke it as the reason),
     * and keeps others out until it has released it or its lease is over, which no renewal moves
     * any more. Finished with OK when it is free of that holder; EBUSY when that is not so within
     * session->timeout_ms, with who and how long still in the reason; ELOST when that token holds
     * no longer. With `force` it is taken away at once, whatever the holder believes; EBUSY where
     * the service cannot do that. */
    void (*evict)(struct snib__query *);
    /* For `snib doctor`: look at everything that decides what is promised here, and tell each
     * finding to snib__found. Harmless for those who hold locks. */
    void (*examine)(struct snib__query *);
    /* See snib_rights: the line, cut to `size`, and how long it is. NULL: nothing to allow. */
    int (*rights)(const struct snib__session *, char *out, size_t size);
    /* For `snib engines`: a line for each way to use it that has other traits; NULL: there is one.
     * Read of built-in engines only. */
    const char *variants;

    /* For speed only: send what was kept back because of `more`. NULL: nothing ever is. */
    void (*flush)(struct snib__session *);
};

/* ---- Upcalls ---------------------------------------------------------------------------- */

enum snib__verb { SNIB__ATTEMPT, SNIB__RENEW, SNIB__RELEASE };

/* What an engine answers: the words of "Life of a claim". */
enum snib__status {
    SNIB__UNKNOWN,
    SNIB__HELD,
    SNIB__BUSY,
    SNIB__QUEUED,
    SNIB__LOST,
    SNIB__FREED,
    SNIB__FAILED
};

/* Zero means "unknown" or "none" in every field. */
struct snib__result {
    enum snib__status status;

    /* HELD: the token, and how long the engine keeps it: lease_ms from `since`, the instant
     * before the request that this answer proves alive was sent. For a grant that comes by
     * itself, that is the last request answered "still queued"; for one that was made earlier
     * ("yours already"), when it was made. lease_ms 0: no lease, it is kept for ever; on an engine
     * that is LEASED: it is over. */
    uint64_t token;
    struct snib__instant since;
    int64_t lease_ms;

    /* BUSY, QUEUED: who is in the way. Where it is not a holder (a quarantine), `code` is what a
     * request ends with instead of EBUSY, and `reason` tells. */
    int64_t retry_ms;       /* BUSY: worth an attempt after this long; 0: the core decides */
    int64_t holder_left_ms; /* until its lease ends */
    uint64_t holder_token;
    const char *holder; /* borrowed */
    int place;          /* QUEUED: from 1 */

    /* FAILED, UNKNOWN: why; with HELD: what the holder may want to know. FAILED with EUNREACH means
     * that the service cannot be reached: who was in contact before tries again. */
    int code; /* FAILED, BUSY, QUEUED: enum snib_code; HELD, to a renewal: not 0, it is kept and yet
               * in doubt, because of `reason` */
    int sys;
    const char *reason; /* borrowed */

    /* For speed only. */
    unsigned span; /* so many tokens, from that one on, are the claim's; 0: just that one */
};

void snib__answer(struct snib__claim *, enum snib__verb, const struct snib__result *);

/* What the engine notices by itself about a claim that is held or queued: SNIB_DOUBTFUL or
 * SNIB_LOST. A queued one that is lost is attempted again. */
void snib__report(struct snib__claim *, enum snib_state, const char *why);

/* The same about every claim of the session: its lease was revoked, its server is gone. */
void snib__report_session(struct snib__session *, enum snib_state, const char *why);

/* What this service can do turned out at contact: these traits, of those engine->traits names.
 * Acquires that want more are refused from now on; the engine itself answers FAILED with ENOTSUP
 * to claims it has already. */
void snib__traits(struct snib__session *, unsigned traits);

void snib__seen(struct snib__query *, const snib_seen *);
void snib__found(struct snib__query *, const snib_finding *);
void snib__finish(struct snib__query *, int code, int sys, const char *reason);

/* ---- Services --------------------------------------------------------------------------- */

#define SNIB__SLEEP_MOST 64

/* Poll these descriptors until one is ready, `until` has come, or drive is to return; true in the
 * last case, which is so without any sleep as soon as something was answered or reported since
 * drive began. Gives up the mutex meanwhile. At most SNIB__SLEEP_MOST descriptors: an engine that
 * has more puts them into an epoll descriptor of its own, which polls like any other. */
bool snib__sleep(struct snib__session *, struct pollfd fds[], size_t n, int64_t until_ns);

/* From any thread, with the mutex or without: whoever sleeps in snib__sleep wakes up, and the next
 * who would does not. Between open and the end of close, and from work until it is joined; of use
 * while somebody drives: see `attend` in the session. */
void snib__rouse(struct snib__session *);

/*
 * Work that must block (a library's TLS handshake): on a thread of its own, without the mutex.
 * `run` touches nothing but its argument, and should end soon after it is abandoned. The
 * descriptor polls readable when it is done; then take what is wanted out of the argument, and end
 * the work, which frees it. Ended before it is done it is abandoned: nobody waits for it, but
 * snib_close does. `drop` gets the argument when both sides are done with it, exactly once. An
 * engine's close ends all that is left. NULL: no memory, no thread to be had, or SNIB__WORK_MOST
 * of them already; then `drop` is not called.
 */
#define SNIB__WORK_MOST 8
struct snib__work;
struct snib__work *snib__work_begin(struct snib__session *,
                                    void (*run)(struct snib__work *, void *arg),
                                    void (*drop)(void *arg), void *arg);
int snib__work_fd(const struct snib__work *);
bool snib__work_done(const struct snib__work *);      /* false as long as `run` runs */
bool snib__work_abandoned(const struct snib__work *); /* for the thread: nobody wants it now */
void snib__work_end(struct snib__work *);

/* Is this another process than the one that opened the session? */
bool snib__forked(const struct snib__session *);

#pragma GCC visibility pop

#endif
