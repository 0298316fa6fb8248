/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_H
#define SNIB_H

/*
 * snib: one lock, over the engine you already run.
 *
 *     snib *client;
 *     snib_lease *lease;
 *     snib_error error;
 *
 *     if (snib_open(&client, "file:", &error) < 0 ||
 *         snib_acquire(&lease, client, "nightly-report", NULL, &error) < 0) {
 *         fprintf(stderr, "%s\n", error.message);
 *         ...
 *     }
 *     work(snib_token(lease));
 *     snib_release(&lease, &error);
 *     snib_close(client);
 *
 * What a lock cannot promise
 * --------------------------
 *
 * - On every engine but `file:` a lock is a lease: the engine takes it back when it has not heard
 *   from the holder for the ttl. A holder that is paused (SIGSTOP, a swapped page, a sleeping
 *   laptop) between its last look at the clock and its write can therefore write late. No lock
 *   service can prevent that. The token can: it grows with every grant, so a resource that
 *   refuses a token smaller than the largest it has seen refuses the late write.
 * - A holder learns that its lease runs out before the engine can give it to somebody else, as
 *   long as clocks run within 10 % of each other. A deletion behind the engine's back (an
 *   administrator, a lost data set) is learnt at the next renewal, a third of the ttl later.
 * - `file:` excludes the processes of one host and is only as good as the file system: see
 *   snib-engines(7) for network file systems.
 * - "Sent, no answer" is a result of its own, SNIB_EUNKNOWN. It is neither success nor failure.
 * - Tokens are comparable within one engine and its data. Moving to another engine starts anew.
 *
 * Threads, fork, ownership
 * ------------------------
 *
 * Threads: every call may come from any thread. Do not free a handle another thread is using.
 * A thread that waits does the waiting itself; the library adds at most two threads to a client,
 * and only when somebody must renew, time or call back while nobody waits: the keeper, and one
 * for callbacks unless you use snib_events; and one while a host name is looked up. Your code never
 * runs on the keeper.
 *
 * Fork: a handle works only in the process that opened it. Elsewhere every call answers
 * SNIB_ESTATE, sends nothing and frees what is freeable. All descriptors are close-on-exec. On
 * `file:`, a child that neither calls exec nor snib_close keeps its parent's kernel locks alive
 * until it ends.
 *
 * Ownership: what comes through a `**` is yours, and has one call that ends it. A returned
 * `const char *` is borrowed from the handle. Arguments are copied. `*out` is NULL on failure.
 *
 * Stability: the numbers here never change their meaning; structs that start with `size` grow at
 * the end only. Everything else in the library is private.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

typedef struct snib snib;             /* a client of one URL */
typedef struct snib_lease snib_lease; /* one grant; yours until snib_release, whatever happens */
typedef uint64_t snib_ticket;         /* a pending acquire: a number, never reused or freed */

/* ---- Answers ---------------------------------------------------------------------------- */

/* Every call that can fail answers 0 or one of these. Values are pinned; the list only grows. */
#define SNIB_ERRORS(X)                                                                             \
    X(OK, 0, "done")                                                                               \
    X(EINVAL, -1, "bad argument")                                                                  \
    X(ENOMEM, -2, "out of memory")                                                                 \
    X(EBUSY, -3, "held by another")                                                                \
    X(ELOST, -4, "no longer ours")                                                                 \
    X(EUNKNOWN, -5, "sent, no answer")                                                             \
    X(EUNREACH, -6, "engine unreachable")                                                          \
    X(EDENIED, -7, "permission denied")                                                            \
    X(EPROTO, -8, "bad answer from the engine")                                                    \
    X(ENOTSUP, -9, "not supported by the engine")                                                  \
    X(ESTATE, -10, "handle not usable here")                                                       \
    X(EDEADLK, -11, "would wait for itself")                                                       \
    X(ECANCELED, -12, "cancelled")                                                                 \
    X(EUNSAFE, -13, "engine not fit for locking")                                                  \
    X(EKIND, -14, "name is another kind of lock")                                                  \
    X(ESYS, -15, "operating system error")

#define SNIB__ENUM(name, value, text) SNIB_##name = value,
enum snib_code { SNIB_ERRORS(SNIB__ENUM) SNIB__CODE_END = 1 };
#undef SNIB__ENUM

/*
 * The story behind a failure; the caller's, last argument, NULL if you do not care. Written only
 * on failure. 512 bytes for ever. `message` names the engine, the lock and the cause, and never
 * a password. The holder fields are filled with SNIB_EBUSY as far as the engine knows them.
 */
typedef struct snib_error {
    int code;               /* what the call answered */
    int sys;                /* errno behind it, or 0 */
    int64_t holder_left_ms; /* until the holder's lease ends if it is not renewed; -1 unknown */
    uint64_t holder_token;  /* 0 unknown */
    char holder[120];       /* "web3:4711 nightly", or "" */
    char message[368];
} snib_error;

const char *snib_strerror(int code); /* "held by another" */
const char *snib_errname(int code);  /* "EBUSY" */
const char *snib_version(void);      /* "0.1.0" */

/* ---- A client --------------------------------------------------------------------------- */

/*
 * Open a client of an engine. `url` NULL means: SNIB_URL, else the file ~/.config/snib.conf,
 * else /etc/snib.conf, else "file:". Answers EINVAL for a URL it does not understand (the
 * message names the part), ENOTSUP for a known engine that is not installed (and which package
 * has it), EDENIED or EUNSAFE for a place that must not be trusted. Engines with a server are
 * not contacted before the first use.
 */
int snib_open(snib **out, const char *url, snib_error *err);

/*
 * End a client: waits end with ECANCELED, held leases are released, callbacks that are due are
 * run. Bounded in time. Leases not yet released stay valid handles in state RELEASED and still
 * want their snib_release. NULL is allowed.
 */
void snib_close(snib *client);

/* The URL in use, without secrets. */
const char *snib_url(const snib *client);

/* ---- Acquire and release ---------------------------------------------------------------- */

enum snib_mode {
    SNIB_EXCLUSIVE, /* one holder */
    SNIB_SHARED,    /* any number, while nobody holds it exclusively */
    SNIB_COUNTED    /* at most `permits` holders */
};

enum {
    SNIB_ASYNC_RELEASE = 1, /* snib_release does not wait for the engine's answer */
    SNIB_NO_RENEW = 2       /* the same as a max_hold_ms of one ttl, on every engine */
};

#define SNIB_FOREVER INT64_MAX /* snib_left_ms of a lock that has no deadline */

typedef struct snib_event snib_event;
typedef void snib_event_fn(const snib_event *, void *arg);

/*
 * How to acquire. Start from SNIB_OPTIONS and change what you need; NULL means SNIB_OPTIONS.
 * A value out of its range is EINVAL, never rounded.
 */
typedef struct snib_options {
    size_t size;
    int mode;
    unsigned flags;
    unsigned permits;    /* capacity of a counted lock, 1 to 1000; all users of a name agree */
    unsigned reserved;   /* 0 */
    int64_t wait_ms;     /* -1: for ever; 0: try once */
    int64_t ttl_ms;      /* 0: the URL's */
    int64_t max_hold_ms; /* 0: as long as it is renewed; else LOST after this long */
    int64_t min_left_ms; /* give it back, ELOST, if less validity is left on arrival */
    const void *owner;   /* NULL: never re-entrant. Equal owners re-enter: see snib_thread */
    const char *label;   /* shown to others: why it is held; at most 60 bytes */
    snib_event_fn *on_event;
    void *arg; /* for on_event */
} snib_options;

#define SNIB_OPTIONS                                                                               \
    {                                                                                              \
        sizeof(snib_options), SNIB_EXCLUSIVE, 0, 1, 0, -1, 0, 0, 0, 0, 0, 0, 0                     \
    }

/*
 * Acquire `name`: 1 to 200 bytes of UTF-8 without control characters. On `file:` a name that
 * starts with '/' also takes flock(2) on that path.
 *
 * Answers 0 and a lease; EBUSY when the wait ran out (who holds it is in `err`); EKIND when
 * others use the name as another kind of lock or with other permits; EDEADLK when `owner` holds
 * it shared and asks for exclusive; EUNKNOWN when the engine did not answer in time (what may
 * have been granted is given back as soon as the engine can be reached); or another error.
 * After a failure nothing of the attempt remains.
 *
 * An `owner` that already holds the name gets it again at once: another lease with the same
 * token and no word to the engine; what its max_hold_ms says counts only for the first. The lock is
 * free when all of them are released. Exclusive covers shared. An owner whose lease was lost, and
 * is not released yet, gets ELOST. Without an owner a second acquire waits, for ever if it must.
 *
 * Those who wait are served in the order they came, where the engine is fair: threads of one client
 * among each other; clients, each with the first of its threads, among each other. With
 * SNIB_TRAIT_TOKEN_SPAN a client may let a few of its threads go one after the other.
 */
int snib_acquire(snib_lease **out, snib *client, const char *name, const snib_options *options,
                 snib_error *err);

/*
 * Several names, all or none, one deadline for all; one lease per name in the order given.
 * Taken in the order of their bytes, so two callers with the names turned round do not dead-lock.
 * A name given twice is EINVAL.
 */
int snib_acquire_all(snib_lease *out[], snib *client, const char *const names[], size_t n,
                     const snib_options *options, snib_error *err);

/*
 * Give a lease back and free it; `*lease` is NULL afterwards whatever the answer, and a NULL
 * lease is OK. ELOST: it had been lost before. EUNKNOWN: no answer; it ends with its ttl at the
 * latest. Both are news, not failures. Never touches the lock of a later holder.
 */
int snib_release(snib_lease **lease, snib_error *err);

/* An owner that means "the calling thread". Never equal for two threads, even one after another. */
const void *snib_thread(void);

/* ---- While holding ---------------------------------------------------------------------- */

enum snib_state {
    SNIB_WAITING,  /* not yet granted; in events only */
    SNIB_HELD,     /* ours */
    SNIB_DOUBTFUL, /* still ours, but the engine is silent, or max_hold nearly over: stop soon */
    SNIB_LOST,     /* the deadline passed, or the engine said so; final */
    SNIB_RELEASED  /* the client was closed, or this is another process */
};

int snib_state(const snib_lease *lease);

/* The fencing number: larger than that of every earlier exclusive grant of this name. Shared
 * holders have that of the last exclusive grant. Pass it on to what the lock protects. */
uint64_t snib_token(const snib_lease *lease);

/* Validity left on the local clock. Zero or less: behave as if lost. SNIB_FOREVER: no deadline. */
int64_t snib_left_ms(const snib_lease *lease);

/* Ask the engine "still mine?", one round trip: OK, ELOST, EUNKNOWN. */
int snib_verify(snib_lease *lease, snib_error *err);

/* A descriptor that polls readable while the lease is DOUBTFUL or LOST; made on the first call,
 * closed with the lease; do not read it. Negative: an error code. */
int snib_fd(snib_lease *lease);

const char *snib_name(const snib_lease *lease);

/* ---- Without waiting -------------------------------------------------------------------- */

/* What happens to a lease or to a wait. HELD comes after DOUBTFUL, and with what is worth knowing
 * although nothing is lost: "the server's clock jumped by +20.0 s". Borrowed: valid during the
 * call. */
struct snib_event {
    size_t size;
    int state;          /* enum snib_state */
    int reserved;       /* 0 */
    snib_ticket ticket; /* of snib_acquire_async, else 0 */
    snib_lease *lease;  /* NULL while WAITING */
    int64_t left_ms;    /* as snib_left_ms; while WAITING that of the holder, -1 unknown */
    const char *why;    /* "behind web3:4711, place 2"; "no answer of the engine for 20.0 s" */
};

/* The end of an asynchronous acquire: a lease, yours, or NULL and the error. */
typedef void snib_done_fn(snib_lease *lease, const snib_error *err, void *arg);

/*
 * Callbacks run on a thread of the library, one at a time, unless snib_events was called before
 * the first acquire: then they run only inside snib_dispatch, which you call when `*fd` polls
 * readable. One at a time, then too: while a callback runs on another thread, snib_dispatch answers
 * 0 at once. A callback may call any function, also release its own lease and close the client.
 */
int snib_events(snib *client, int *fd, snib_error *err);
int snib_dispatch(snib *client, int max); /* run at most `max` (0: all due); answers how many */

/* Start an acquire. If this answers 0, `done` is called exactly once; else never. */
int snib_acquire_async(snib_ticket *out, snib *client, const char *name,
                       const snib_options *options, snib_done_fn *done, void *arg, snib_error *err);

/* Stop one. OK: `done` gets ECANCELED. ESTATE: it has its answer already, or never was. */
int snib_cancel(snib *client, snib_ticket ticket);

/* ---- See and mend ----------------------------------------------------------------------- */

/* A holder or waiter. Borrowed: valid during the call. */
typedef struct snib_seen {
    size_t size;
    const char *name;
    const char *who;   /* "web3:4711" */
    const char *label; /* "" if none */
    uint64_t token;    /* 0 for a waiter, and where unknown */
    int mode;
    int place;             /* 0 holds; else its place among the waiters, from 1 */
    unsigned permits;      /* of a counted lock */
    unsigned reserved;     /* 0 */
    int64_t since_unix_ms; /* by the wall clock of whoever wrote it; 0 unknown */
    int64_t left_ms;       /* -1 unknown; SNIB_FOREVER without a lease */
} snib_seen;

/* Non-zero ends the listing. */
typedef int snib_seen_fn(const snib_seen *, void *arg);

/* Holders first, then waiters in order. A free name is OK without a call of `each`. */
int snib_inspect(snib *client, const char *name, snib_seen_fn *each, void *arg, snib_error *err);

/* All names that start with `prefix` ("" or NULL: all) and are held or waited for. */
int snib_list(snib *client, const char *prefix, snib_seen_fn *each, void *arg, snib_error *err);

/*
 * Take a lock away from its holder, who loses it if `token` is still the one seen: OK when it is
 * free of that holder, ELOST when that token holds no longer, EBUSY when the engine cannot take
 * it away (on `file:` the kernel holds it: a holder that listens is asked to give up, and the
 * message names the process).
 */
int snib_break(snib *client, const char *name, uint64_t token, snib_error *err);

/* ---- The resource's side, for files ----------------------------------------------------- */

/*
 * Admit `token` to `path` unless a larger one was admitted before: OK, or ELOST (the larger one
 * is in err->holder_token). Call it right before touching what the lock protects. The largest
 * token seen is kept in a file beside `path`, changed under a kernel lock; equal tokens are
 * admitted again, so that shared holders and repeated writes pass.
 */
int snib_guard(const char *path, uint64_t token, snib_error *err);

/* ---- What an engine promises ------------------------------------------------------------ */

/* Traits: pinned bits, the list only grows. name, bit, what it means. */
#define SNIB_TRAITS(X)                                                                             \
    X(FAIR, 0, "waiters are served in the order they came")                                        \
    X(SHARED, 1, "shared locks")                                                                   \
    X(COUNTED, 2, "counted locks")                                                                 \
    X(LEASED, 3, "the lock ends by itself when the holder falls silent")                           \
    X(TTL_PER_LOCK, 4, "each lock may have its own ttl")                                           \
    X(TOKEN_SPAN, 5, "a grant may carry several tokens")                                           \
    X(CROSS_HOST, 6, "excludes processes on different hosts")                                      \
    X(AT_ONCE, 7, "a killed holder's lock is free at once")                                        \
    X(SURVIVES_SERVER_LOSS, 8, "goes on when one server is lost")                                  \
    X(BREAKS, 9, "a lock can be taken away from its holder")

#define SNIB__ENUM(name, bit, text) SNIB_TRAIT_##name = 1 << bit,
enum snib_trait { SNIB_TRAITS(SNIB__ENUM) SNIB__TRAIT_END = 0 };
#undef SNIB__ENUM

/* The traits of this URL. */
unsigned snib_traits(const snib *client);

/* "fair" for the bit SNIB_TRAIT_FAIR; NULL for none. */
const char *snib_trait_name(unsigned trait);

typedef struct snib_engine_info {
    size_t size;
    const char *scheme;  /* "file" */
    const char *summary; /* one line: how */
    const char *promise; /* one line: what holds, and what breaks it */
    const char *package; /* Debian package that has it */
    unsigned traits;
    int built; /* usable now */
} snib_engine_info;

/* The engines in the order of their table; NULL ends it. Also those known but not installed. */
const snib_engine_info *snib_engine_at(size_t index);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
