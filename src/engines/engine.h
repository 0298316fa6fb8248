/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ENGINE_H
#define SNIB_ENGINE_H

/*
 * The engine contract: everything an engine knows of the core, and the core of an engine.
 *
 * An engine turns "ask for this lock", "is it still mine", "give it back" into what its service
 * speaks. It never waits, never decides about deadlines, leases or users: the core does that,
 * once, for all engines. A new engine is one folder with one exported symbol, one row in
 * core/engines.c and a green conformance suite.
 *
 * Submit and answer
 * -----------------
 * attempt, renew, release, inspect and evict submit something and return at once. The answer
 * comes by snib__answer (or snib__seen, snib__finish), from inside the same call when it is
 * known already, else from drive. An engine bounds its own requests by session->timeout_ms and
 * then answers UNKNOWN; the core bounds users.
 *
 * Locking theory
 * --------------
 * A client is a monitor. Every slot is called with the client's mutex held, and every upcall is
 * made with it held; so an engine needs no lock of its own and is never entered twice at once,
 * with one exception: snib__sleep gives the mutex up while it sleeps, and anything may have been
 * submitted or released meanwhile. At most one thread is inside drive. Upcalls never enter the
 * engine again; what follows from an answer is submitted after the slot has returned or, if the
 * answer came from inside drive, after drive has returned.
 *
 * Life of a claim
 * ---------------
 *   attempt  ->  HELD | BUSY | QUEUED | UNKNOWN | FAILED
 *       BUSY: not ours, nothing left at the engine; the core attempts again later.
 *       QUEUED: the engine holds our place and will answer again: HELD, or QUEUED with news, or
 *       BUSY for "worth an attempt now", or UNKNOWN. Only if claim->may_queue.
 *       UNKNOWN: sent, no answer. The core attempts again or releases.
 *       FAILED: refused, with a code; nothing left at the engine.
 *     Attempts are idempotent: sent twice for one claim, they count once.
 *   renew    ->  HELD (with token, since and left) | GONE | UNKNOWN | FAILED
 *       Extend where there is a lease, verify where there is none. The token is that of the grant
 *       which was extended: one that ended unseen may have been followed by another for the same
 *       id. 0 only if that cannot happen.
 *   release  ->  GONE (freed it, or was only waiting) | LOST (it was not ours) | UNKNOWN
 *       Comes once per claim, in any phase after the first attempt: held, queued, or with the
 *       attempt still outstanding; a grant still on its way is given back too. Answered exactly
 *       once, always; that answer is the last word the engine says about the claim, whose memory
 *       may be gone when snib__answer returns. After a release nothing is sent for that owner id.
 */

#include "snib.h"

#include <poll.h>
#include <stdbool.h>

#pragma GCC visibility push(default) /* engines may be modules */

#define SNIB__ENGINE_ABI 1U

/* ---- Time ------------------------------------------------------------------------------- */

#define SNIB__NEVER INT64_MAX

/* A point in time on two clocks: CLOCK_BOOTTIME, which counts suspend, and CLOCK_MONOTONIC_RAW,
 * which is not slewed. What has elapsed between two instants is the larger of both differences. */
struct snib__instant {
    int64_t boot_ns;
    int64_t raw_ns;
};

struct snib__instant snib__now(void);
int64_t snib__elapsed_ns(struct snib__instant from, struct snib__instant to);
int64_t snib__wall_us(void); /* the wall clock: for tokens and for display, never for deadlines */

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
    unsigned traits;    /* starts as engine->traits; open may take some away */
    int attend;         /* the engine's: above 0, somebody must drive even if nobody waits */
    bool quiet;         /* set in a slot: a thread that sleeps in drive need not look at this */
    void *state;        /* engine->session_size bytes, zeroed before open */
};

/* One series of attempts under one owner id, and what comes of it. */
struct snib__claim {
    struct snib__session *session;
    const char *name;
    const char *label; /* "" if none */
    int mode;          /* enum snib_mode */
    unsigned permits;  /* of a counted lock, else 1 */
    int64_t ttl_ms;
    unsigned span;           /* tokens wanted: more than one only with SNIB_TRAIT_TOKEN_SPAN */
    bool may_queue;          /* false: answer BUSY rather than QUEUED */
    bool listens;            /* somebody reacts to snib__report; may become true while held */
    unsigned char owner[16]; /* random, never shown; zero if engine->nameless */
    void *state;             /* engine->claim_size bytes, zeroed before the first attempt */
};

/* One inspect, list or break. */
struct snib__query {
    struct snib__session *session;
    const char *name; /* or the prefix */
    bool prefix;
    uint64_t token; /* evict: only if this is still the holder's */
    int64_t due_ns; /* free for the engine, as is state */
    void *state;
    struct snib__query *next; /* free for the engine while the query is open */
};

/* ---- The slots: none optional ----------------------------------------------------------- */

struct snib__engine {
    unsigned abi; /* SNIB__ENGINE_ABI */
    const char *scheme;
    const char *summary; /* one line: how it locks */
    const char *promise; /* one line: what holds, and what breaks it */
    unsigned traits;
    size_t session_size, claim_size;
    bool nameless; /* locks end with the process: claims need no owner id */
    const struct snib__param *params;

    /* Check the URL and make ready; connecting can wait for the first attempt. */
    int (*open)(struct snib__session *, snib_error *);
    /* Accepts a session that is only half open. When snib__forked, close descriptors and send
     * nothing, unlock nothing. Claims still there are forgotten without an answer. */
    void (*close)(struct snib__session *);

    void (*attempt)(struct snib__claim *);
    void (*renew)(struct snib__claim *const claims[], size_t n);
    void (*release)(struct snib__claim *);

    /* Make progress, sleeping in snib__sleep, until something was answered or reported, or
     * `until` (on CLOCK_BOOTTIME, ns) has come, or snib__sleep said that somebody wants in. */
    void (*drive)(struct snib__session *, int64_t until_ns);

    void (*inspect)(struct snib__query *);
    void (*evict)(struct snib__query *);
};

/* ---- Upcalls ---------------------------------------------------------------------------- */

enum snib__verb { SNIB__ATTEMPT, SNIB__RENEW, SNIB__RELEASE };

enum snib__status {
    SNIB__HELD_NOW,
    SNIB__BUSY,
    SNIB__QUEUED,
    SNIB__UNKNOWN,
    SNIB__GONE,
    SNIB__LOST_BEFORE,
    SNIB__FAILED
};

struct snib__result {
    enum snib__status status;

    /* HELD_NOW: the token, and how long the engine keeps it: left_ms from `since`, the instant
     * before the request that this answer proves alive was sent. For a grant that comes by
     * itself, that is the last request answered "still queued"; for one that was made earlier
     * ("yours already"), when it was made. left_ms -1: for ever. */
    uint64_t token;
    unsigned span; /* so many tokens, from that one on, are the claim's; 0: just that one */
    struct snib__instant since;
    int64_t left_ms;

    /* BUSY, QUEUED: who is in the way, as far as known. */
    int64_t retry_ms;       /* BUSY: worth an attempt after this long; 0: the core decides */
    int64_t holder_left_ms; /* -1 unknown */
    uint64_t holder_token;  /* 0 unknown */
    const char *holder;     /* NULL unknown; borrowed */
    int place;              /* QUEUED: from 1; 0 unknown */

    /* FAILED, UNKNOWN; with HELD_NOW: what the holder may want to know */
    int code; /* FAILED: enum snib_code */
    int sys;
    const char *reason; /* NULL: none; borrowed */
};

void snib__answer(struct snib__claim *, enum snib__verb, const struct snib__result *);

/* What the engine notices by itself about a held claim: SNIB_DOUBTFUL or SNIB_LOST. */
void snib__report(struct snib__claim *, enum snib_state, const char *why);

void snib__seen(struct snib__query *, const snib_seen *);
void snib__finish(struct snib__query *, int code, int sys, const char *reason);

/* ---- Services --------------------------------------------------------------------------- */

/* Poll these descriptors (at most 16) until one is ready, `until` has come, or the core wants
 * the driver back; true in the last case: return from drive. Gives up the mutex meanwhile. */
bool snib__sleep(struct snib__session *, struct pollfd fds[], size_t n, int64_t until_ns);

/* Is this another process than the one that opened the session? */
bool snib__forked(const struct snib__session *);

/* Fill `err` (may be NULL) and answer `code`. */
int snib__fail(snib_error *err, int code, int sys, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));

/* Random bytes from the kernel; never fails, never repeats in a forked child. */
void snib__random(void *out, size_t size);

#pragma GCC visibility pop

#endif
