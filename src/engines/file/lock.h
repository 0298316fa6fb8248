/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_LOCK_H
#define SNIB_FILE_LOCK_H

#include "engines/file/session.h"

#define WATCHES_MAX 64

struct file_claim;

#define CALLS_MAX 8

/* A waiter that was called by somebody with another clock, and when we first saw that. */
struct foreign_call {
    uint64_t cookie, rung_at;
    int64_t seen_ms;
};

/* Who is in the way, for others to read. */
struct rival {
    char who[120]; /* "": not known */
    uint64_t token;
};

/*
 * A name as this session sees it. All its kernel locks on that name are on the one descriptor of
 * the lock file, so who of us has what is kept here: the kernel would grant us what we already
 * have.
 */
struct lock {
    struct lockfile file; /* first: the cache makes the whole */
    struct file_session *session;

    struct file_claim *exclusive;
    unsigned shared;                        /* claims under our one read lock */
    struct snib__list joining, waiting;     /* wants through the gate; has a record */
    struct snib__list flocking;             /* has the slot, and waits for flock on the path */
    struct snib__list holding;              /* shared and counted */
    uint64_t own_records[RECORDS_MAX / 64]; /* whose alive byte is ours */
    uint64_t own_permits[(PERMITS_MAX + 63) / 64];
    uint32_t kept; /* the record our exclusive holder waited in: free, its alive byte still ours */

    /* Waiting. */
    bool timed;               /* has joined the timers */
    struct snib__timer timer; /* of the queue */
    int64_t check_ns;         /* when to look at the queue again, */
    int64_t check_ms;         /* and how long after the last time that is */
    bool poked;               /* rung, or somebody died: go through the gate */
    bool bereaved;            /* somebody we watched died: if he left it to somebody, come soon */
    bool missed;              /* the last pass did not get in */
    int64_t closed_ns;        /* when the gate was first found closed since we were last inside */
    int gate_misses;          /* in a row */
    uint64_t rang;            /* the cookie of whom we rang last, outside the gate */
    struct rival rival;
    struct foreign_call calls[CALLS_MAX]; /* the latest ones */
    size_t next_call;
    struct watch *watches[WATCHES_MAX];
    size_t watch_count;
};

struct lock *snib__file_lock_find(struct file_session *, const char *name, struct failure *);
struct lock *snib__file_lock_next(const struct file_session *, const struct lock *); /* all */
bool snib__file_lock_join_timers(struct lock *); /* before somebody waits; false: no memory */
void snib__file_lock_rest(struct lock *);        /* before nobody uses it: no timer, no watches */
/* Watch these processes and no others. They are the lock's from now on. */
void snib__file_lock_watch(struct lock *, struct watch *const set[], size_t count);

static inline void snib__file_lock_use(struct lock *lock)
{
    snib__file_lockfile_use(&lock->file);
}

static inline void snib__file_lock_unuse(struct lock *lock)
{
    if (lock->timed && lock->file.uses == 1) {
        snib__file_lock_rest(lock);
    }
    snib__file_lockfile_unuse(&lock->file);
}

/* ---- Sets of records and permits -------------------------------------------------------- */

static inline bool bit_get(const uint64_t *bits, uint32_t i)
{
    return (bits[i / 64] >> (i % 64) & 1) != 0;
}

static inline void bit_set(uint64_t *bits, uint32_t i, bool on)
{
    uint64_t mask = (uint64_t)1 << (i % 64);
    bits[i / 64] = on ? bits[i / 64] | mask : bits[i / 64] & ~mask;
}

#endif
