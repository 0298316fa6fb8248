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
 * Ownership of `arg`: what you pass with a callback must live until that callback cannot come any
 * more. For `done` that is when it has returned. For `on_event` it is when snib_release of the
 * lease has returned (or, called from inside a callback, when that callback returns), and for a
 * wait that failed, when its `done` has returned or snib_acquire has. After snib_close nothing
 * comes.
 *
 * Stability: the numbers here never change their meaning; structs that start with `size` grow at
 * the end only, and a shorter one from an older header is accepted: what it does not have is as in
 * SNIB_OPTIONS. Everything else in the library is private.
 */

/* The version of this header; snib_version() is that of the library. */
#define SNIB_VERSION_MAJOR 0
#define SNIB_VERSION_MINOR 2
#define SNIB_VERSION_PATCH 0
#define SNIB_VERSION_NUMBER                                                                        \
    (SNIB_VERSION_MAJOR * 10000 + SNIB_VERSION_MINOR * 100 + SNIB_VERSION_PATCH)

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#define SNIB__CHECKED __attribute__((warn_unused_result)) /* an answer that must be looked at */
#else
#define SNIB__CHECKED
#endif

typedef struct snib snib;             /* a client of one URL */
typedef struct snib_lease snib_lease; /* one grant; yours until snib_release, whatever happens */
typedef uint64_t snib_ticket;         /* a pending acquire: a number, never reused or freed */

/* ---- Answers ---------------------------------------------------------------------------- */

/* Every call that can fail answers 0 or one of these. Values are pinned; the list only grows.
 * EINVAL (a bad argument) and ENOMEM can come from each of them and are not named again below. */
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
const char *snib_version(void);      /* "0.2.0" */

/* ---- A client --------------------------------------------------------------------------- */

/*
 * Open a client of an engine. `url` NULL means: SNIB_URL, else the file ~/.config/snib.conf,
 * else /etc/snib.conf, else "file:". Answers EINVAL for a URL it does not understand (the
 * message names the part), ENOTSUP for a known engine that is not installed (and which package
 * has it) or a module of another version, EDENIED or EUNSAFE for a place that must not be trusted,
 * ESYS when the operating system refuses. Engines with a server are not contacted before the first
 * use.
 */
SNIB__CHECKED int snib_open(snib **out, const char *url, snib_error *err);

/*
 * End a client: waits end with ECANCELED, held leases are released, callbacks that are due are
 * run. Bounded in time. Leases not yet released stay valid handles in state RELEASED and still
 * want their snib_release. NULL is allowed.
 */
void snib_close(snib *client);

/* The URL in use, without secrets, and with the place that is really used: "file:///var/lib/snib"
 * for "file:". */
const char *snib_url(const snib *client);

/* Where that URL comes from: "given" to snib_open, "SNIB_URL", "/etc/snib.conf:3", "the default".
 */
const char *snib_origin(const snib *client);

/* ---- Acquire and release ---------------------------------------------------------------- */

enum snib_mode {
    SNIB_EXCLUSIVE, /* one holder */
    SNIB_SHARED,    /* any number, while nobody holds it exclusively */
    SNIB_COUNTED    /* at most `permits` holders */
};

enum {
    SNIB_ASYNC_RELEASE = 1, /* snib_release does not wait for the engine's answer */
    SNIB_NO_RENEW = 2,      /* the same as a max_hold_ms of one ttl, on every engine */
    SNIB_RETRY = 4 /* wait for a server that cannot be reached yet, as long as wait_ms says */
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
    void *arg;   /* for on_event */
    int stop_fd; /* blocking calls: the wait ends with ECANCELED when this polls readable; -1 */
    int reserved_too; /* 0 */
} snib_options;

#define SNIB_OPTIONS                                                                               \
    {                                                                                              \
        sizeof(snib_options), SNIB_EXCLUSIVE, 0, 1, 0, -1, 0, 0, 0, 0, 0, 0, 0, -1, 0              \
    }

/*
 * Acquire `name`: 1 to 200 bytes of UTF-8 without control characters. On `file:` a name that
 * starts with '/' also takes flock(2) on that path.
 *
 * Answers 0 and a lease; EBUSY when the wait ran out (who holds it is in `err`); EKIND when
 * others use the name as another kind of lock or with other permits; EDEADLK when `owner` holds
 * it shared and asks for exclusive; EUNKNOWN when the engine did not answer in time (what may
 * have been granted is given back as soon as the engine can be reached); ECANCELED when stop_fd
 * became readable or the client was closed; ELOST when less than min_left_ms was left, or the
 * owner's own was lost; ENOTSUP for a mode or ttl that the engine does not have; EUNREACH, EDENIED,
 * EPROTO, EUNSAFE or ESYS as the engine says; ESTATE in another process or after snib_close.
 * After a failure nothing of the attempt remains.
 *
 * A server that cannot be reached, or says nothing for the `connect=` of the URL, is EUNREACH, with
 * the cause, unless SNIB_RETRY is set. Once a client has been in contact, its waits outlast what
 * happens to the server.
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
SNIB__CHECKED int snib_acquire(snib_lease **out, snib *client, const char *name,
                               const snib_options *options, snib_error *err);

/*
 * Several names, all or none, one deadline for all; one lease per name in the order given.
 * Taken in the order of their bytes, so two callers with the names turned round do not dead-lock.
 * A name given twice is EINVAL; ELOST also when one was lost before all were there; else as
 * snib_acquire.
 */
SNIB__CHECKED int snib_acquire_all(snib_lease *out[], snib *client, const char *const names[],
                                   size_t n, const snib_options *options, snib_error *err);

/*
 * Give a lease back and free it; `*lease` is NULL afterwards whatever the answer, and a NULL
 * lease is OK. ELOST: it had been lost before. EUNKNOWN: no answer; it ends with its ttl at the
 * latest. Both are news, not failures. ESTATE in another process. Never touches the lock of a later
 * holder.
 */
int snib_release(snib_lease **lease, snib_error *err);

/* The answer of a release: a code as snib_release answers, and the story unless it is OK. */
typedef void snib_released_fn(int code, const snib_error *err, void *arg);

/*
 * The same without waiting, and with a word when it is over: if this answers 0, `*lease` is NULL
 * and `done` is called exactly once, like other callbacks (see snib_events); else never, and the
 * lease is still yours (ESTATE after snib_close: use snib_release), but for ESTATE in another
 * process.
 */
SNIB__CHECKED int snib_release_async(snib_lease **lease, snib_released_fn *done, void *arg,
                                     snib_error *err);

/*
 * A handle: a text with which another process of yours gives this lock back after this process has
 * died, before its ttl is over: a supervisor that has seen everything die which the lock protected.
 * A secret: whoever has it can take the lock away. ENOTSUP where locks end with their process.
 */
#define SNIB_HANDLE_SIZE 512
SNIB__CHECKED int snib_handle(const snib_lease *lease, char *out, size_t size, snib_error *err);

/* OK: free. ELOST: it was not held any more. EUNKNOWN: no answer. Else as snib_acquire. Only when
 * nobody acts under that lock any more: the holder itself is not told. */
SNIB__CHECKED int snib_give_back(snib *client, const char *handle, snib_error *err);

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

/* Why it is LOST: "broken by web3:4711"; cut to `size`, "" while it is not. ESTATE. */
int snib_reason(const snib_lease *lease, char *out, size_t size);

/* The fencing number: larger than that of every earlier exclusive grant of this name. Shared
 * holders have that of the last exclusive grant. Pass it on to what the lock protects. */
uint64_t snib_token(const snib_lease *lease);

/* Validity left on the local clock. Zero or less: behave as if lost. SNIB_FOREVER: no deadline. */
int64_t snib_left_ms(const snib_lease *lease);

/* How long the engine keeps it after the last renewal: what it granted, which may differ from the
 * ttl that was asked for. 0: no lease. */
int64_t snib_ttl_ms(const snib_lease *lease);

/* Ask the engine "still mine?", one round trip: OK, ELOST, EUNKNOWN, ESTATE. */
SNIB__CHECKED int snib_verify(snib_lease *lease, snib_error *err);

/*
 * Renew now, for `ttl_ms` from now on (0: as before), one round trip. The way to go on with
 * SNIB_NO_RENEW, whose one ttl begins anew; a max_hold_ms that you gave yourself is not moved. On
 * an engine without leases it is a verify. OK, ELOST, EUNKNOWN (the lease goes on as it was, but
 * for no longer than a shorter ttl that was asked for), ENOTSUP for another ttl where the engine
 * has one for all, EINVAL, ESTATE.
 */
SNIB__CHECKED int snib_renew(snib_lease *lease, int64_t ttl_ms, snib_error *err);

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
SNIB__CHECKED int snib_events(snib *client, int *fd, snib_error *err); /* ESTATE, ESYS */
int snib_dispatch(snib *client, int max); /* run at most `max` (0: all due); answers how many, or
                                             ESTATE without snib_events */

/* Start an acquire. If this answers 0, `done` is called exactly once, with what snib_acquire would
 * have answered; else never. */
SNIB__CHECKED int snib_acquire_async(snib_ticket *out, snib *client, const char *name,
                                     const snib_options *options, snib_done_fn *done, void *arg,
                                     snib_error *err);

/* The end of an asynchronous acquire of several: the leases in the order of the names, yours (the
 * array is not), or NULL and the error. */
typedef void snib_all_done_fn(snib_lease *const leases[], size_t n, const snib_error *err,
                              void *arg);

/* Several names, all or none, as snib_acquire_all. */
SNIB__CHECKED int snib_acquire_all_async(snib_ticket *out, snib *client, const char *const names[],
                                         size_t n, const snib_options *options,
                                         snib_all_done_fn *done, void *arg, snib_error *err);

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

/* Holders first, then waiters in order. A free name is OK without a call of `each`. EUNREACH,
 * EUNKNOWN, EDENIED, EPROTO, ENOTSUP, ESYS, ESTATE: so do the next three. */
int snib_inspect(snib *client, const char *name, snib_seen_fn *each, void *arg, snib_error *err);

/* All names that start with `prefix` ("" or NULL: all) and are held or waited for: each name's
 * holders and waiters together, as snib_inspect has them; the names in no particular order. ENOTSUP
 * without SNIB_TRAIT_LISTS. */
int snib_list(snib *client, const char *prefix, snib_seen_fn *each, void *arg, snib_error *err);

/* What the engine said, at the last inspect or list, that everybody should know: "quarantine for
 * another 40 s: ...". Cut to `size`; "" for nothing. ESTATE. */
int snib_notice(snib *client, char *out, size_t size);

/*
 * Ask a holder to give a lock up, if `token` is still the one seen. The holder is told LOST as soon
 * as it can be reached, at its next renewal at the latest; nobody else has the lock before it has
 * released it or its lease is over. OK: it is free of that holder. EBUSY: not yet, within the
 * timeout of the URL: the message says who it is and how long that can last (on `file:`, where the
 * kernel holds the lock for a process that does not listen, until that process ends). ENOTSUP: its
 * holder is another program, which cannot be asked. ELOST: that token holds no longer.
 */
int snib_break(snib *client, const char *name, uint64_t token, snib_error *err);

/*
 * Take a lock away now. The old holder may believe in it for as long as snib_inspect showed as its
 * left_ms (-1: snib_notice tells what is known): two may act at the same time, and only the token
 * tells them apart. EBUSY where the engine cannot do that (`file:`); else as snib_break.
 */
int snib_seize(snib *client, const char *name, uint64_t token, snib_error *err);

enum snib_verdict { SNIB_GOOD, SNIB_WARNING, SNIB_BAD };

/* What an examination found about one thing. Borrowed: valid during the call. */
typedef struct snib_finding {
    size_t size;
    int verdict;        /* enum snib_verdict */
    int reserved;       /* 0 */
    const char *about;  /* what was looked at: "eviction", "clock" */
    const char *text;   /* one line: what was found */
    const char *remedy; /* one line: what to do about it; NULL: nothing */
} snib_finding;

/* Non-zero ends the listing. */
typedef int snib_finding_fn(const snib_finding *, void *arg);

/*
 * Look at everything that decides what this engine promises here and now: reach, rights, settings,
 * clocks. Harmless for those who hold locks. Answers OK when the examination came to its end,
 * whatever it found; a server that cannot be reached is a finding, not a failure. Else EINVAL,
 * ESTATE, ENOMEM or EUNKNOWN.
 */
int snib_examine(snib *client, snib_finding_fn *each, void *arg, snib_error *err);

/*
 * What an administrator must allow so that this URL works, and nothing beyond it, as one line in
 * the service's own language (ACL SETUSER ..., etcdctl role add ...); a password is PASSWORD there.
 * Contacts nobody. EINVAL when it does not fit; ENOTSUP where there is nothing to allow.
 */
#define SNIB_RIGHTS_SIZE 4096
int snib_rights(snib *client, char *out, size_t size, snib_error *err);

/* What a service exports about its locks: counters since snib_open, and two of the moment. */
typedef struct snib_stats {
    size_t size;
    uint64_t acquired;      /* leases granted, re-entries too */
    uint64_t busy;          /* acquires that ended with EBUSY */
    uint64_t failed;        /* acquires that ended with another error */
    uint64_t waited;        /* acquires that did not have their answer at once, */
    uint64_t wait_us;       /* and how long they waited, together */
    uint64_t lost;          /* holds that were lost */
    uint64_t renewals;      /* that succeeded; */
    uint64_t renewals_late; /* of them, those that came when the lease was DOUBTFUL already */
    uint64_t reconnects;    /* connections to a server after the first one */
    uint64_t held;          /* now: claims known to the engine, held or asked for */
    uint64_t waiting;       /* now: acquires without an answer */
} snib_stats;

/* Set `size` to sizeof(snib_stats): no more than that is written. ESTATE. */
int snib_stats_read(snib *client, snib_stats *out);

/* ---- The resource's side, for files ----------------------------------------------------- */

/*
 * Admit `token` to `path` unless a larger one was admitted before: OK, or ELOST (the larger one
 * is in err->holder_token). Call it right before touching what the lock protects. The largest
 * token seen is kept in a file beside `path`, changed under a kernel lock; equal tokens are
 * admitted again, so that shared holders and repeated writes pass.
 */
SNIB__CHECKED int snib_guard(const char *path, uint64_t token, snib_error *err);

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
    X(BREAKS, 9, "a lock can be taken away from its holder")                                       \
    X(LISTS, 10, "the names in use can be listed")

#define SNIB__ENUM(name, bit, text) SNIB_TRAIT_##name = 1 << bit,
enum snib_trait { SNIB_TRAITS(SNIB__ENUM) SNIB__TRAIT_END = 0 };
#undef SNIB__ENUM

/* The traits of this URL. What an engine can do with its service may turn out at the first contact:
 * then some go. */
unsigned snib_traits(const snib *client);

/* "fair" for the bit SNIB_TRAIT_FAIR; NULL for none. */
const char *snib_trait_name(unsigned trait);

typedef struct snib_engine_info {
    size_t size;
    const char *scheme;  /* "file" */
    const char *summary; /* one line: how */
    const char *promise; /* one line: what holds, and what breaks it */
    const char *missing; /* what to do about it when it is not built: "install ..."; else "" */
    unsigned traits;
    int built;            /* usable now */
    const char *variants; /* since 0.2.0; a line for each way to use it that has other traits; "" */
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
