/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_CLAIM_H
#define SNIB_FILE_CLAIM_H

#include "engines/file/lock.h"
#include "engines/file/path.h"

enum phase {
    PHASE_NONE,     /* not attempted, or answered BUSY or FAILED */
    PHASE_JOINING,  /* wants through the gate */
    PHASE_WAITING,  /* has a record in the queue */
    PHASE_FLOCKING, /* has the slot; somebody outside snib has flock on the path */
    PHASE_HELD
};

/* One claim, from its attempt to its end. */
struct file_claim {
    struct snib__claim *claim;
    struct lock *lock;
    enum phase phase;
    bool named;      /* found by its cookie */
    bool attends;    /* counted in session->attend */
    bool published;  /* its record says that it listens */
    bool told;       /* answered QUEUED since the attempt */
    bool behind;     /* its attempt found others holding or waiting */
    uint32_t record; /* its record; 0: none, or record 0 of an exclusive holder */
    uint32_t permit; /* of a counted holder */
    uint32_t nonce;  /* in the length of its slot lock */
    uint64_t order;  /* its number in the queue */
    uint64_t token;
    uint64_t cookie;      /* names it to whoever rings or asks */
    int64_t since_ms;     /* wall clock: of waiting, then of holding */
    int64_t give_up_ns;   /* a try that cannot get through the gate ends then */
    int moves;            /* from files that were replaced */
    struct snib__list in; /* one of the lists of its lock */
    struct snib__entry by_cookie;

    /* What is to be said about it. */
    struct snib__list news; /* in the session's outcomes */
    enum snib__status outcome;
    int place; /* QUEUED: from 1; 0: not known */
    struct failure *failure;

    /* A path. While somebody else has it: who that is, and when it is tried again. */
    struct path_lock path;
    struct watch *path_watch;
    struct snib__timer path_timer;
    int64_t path_pause_ms;
};

static inline struct file_session *snib__file_session_of(const struct snib__claim *claim)
{
    return claim->session->state;
}

/* The claim of a list's member. */
static inline struct file_claim *snib__file_claim_in(struct snib__list *in)
{
    return SNIB__OF(in, struct file_claim, in);
}

/* The first of a list; NULL: it is empty. */
static inline struct file_claim *snib__file_claim_first(const struct snib__list *list)
{
    return snib__list_empty(list) ? NULL : snib__file_claim_in(list->after);
}

/* The next of the same list; NULL: that was the last. */
static inline struct file_claim *snib__file_claim_next(const struct snib__list *list,
                                                       const struct file_claim *c)
{
    return c->in.after == list ? NULL : snib__file_claim_in(c->in.after);
}

#define EACH_CLAIM(c, list)                                                                        \
    struct file_claim *c = snib__file_claim_first(list);                                           \
    c;                                                                                             \
    c = snib__file_claim_next(list, c)

void snib__file_claim_number(struct file_claim *); /* numbers nobody else has */
void snib__file_claim_attach(struct file_claim *, struct lock *);
void snib__file_claim_detach(struct file_claim *); /* from lock and tables; holds nothing by now */
void snib__file_claim_enlist(struct file_claim *, struct snib__list *list, enum phase);

/* Decided: to be said when the layers below the engine have returned. It is in no list of its
 * lock any more, unless it is QUEUED. `why`: of FAILED, else NULL. */
void snib__file_claim_conclude(struct file_claim *, enum snib__status, const struct failure *why);

/* Can be rung and asked from now on; without memory for that it is found by looking. */
void snib__file_claim_name(struct file_claim *);
struct file_claim *snib__file_claim_by_cookie(const struct file_session *, uint64_t cookie);
/* Somebody wants the holder to give up. Anything that does not fit is late or forged. */
void snib__file_claim_ask(struct file_claim *, uint64_t token, const char *who);

#endif
