/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDLOCK_ROUND_H
#define SNIB_REDLOCK_ROUND_H

/*
 * One claim over several servers: what each of them said, and what follows from it. No I/O, no
 * clock, no memory of its own: events in, a verdict out.
 */

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define SNIB__SERVERS_MOST 16

/* What a server has of a claim, as far as we know. */
enum snib__seat_state {
    SNIB__SEAT_EMPTY,  /* nothing: not asked, or it said so */
    SNIB__SEAT_ASKED,  /* perhaps: asked, and its answer is waited for */
    SNIB__SEAT_SILENT, /* perhaps: asked, and its answer is not waited for */
    SNIB__SEAT_HAS,    /* the lock, under our id */
    SNIB__SEAT_BUSY,   /* another's */
    SNIB__SEAT_OUT     /* it may not vote, or could not be asked */
};

struct snib__seat {
    unsigned char state;
    bool proven;     /* HAS, and said so to whatever was asked last */
    bool pending;    /* a renewal is under way */
    unsigned flying; /* attempts that were sent and not answered */
    bool declines;   /* it has a larger token than the one to be agreed on */
    struct snib__instant since;
    int64_t lease_ms; /* from then on */
    uint64_t token;
    int64_t loose_ms; /* one of those may still arrive until then, by its clock; 0: none, -1: no
                       * end is known */
};

struct snib__round {
    unsigned servers;
    struct snib__seat seats[SNIB__SERVERS_MOST];
};

enum snib__verdict {
    SNIB__PENDING,
    SNIB__GRANTED, /* of a renewal: with at least one more than the majority */
    SNIB__BARELY,  /* of a renewal: by the majority, and not one more */
    SNIB__DENIED,  /* of a renewal: so many have lost it that it is lost */
    SNIB__UNSURE   /* of a renewal: too few answered */
};

/* More than half, of even numbers too. */
static inline unsigned snib__quorum(unsigned servers)
{
    return servers / 2 + 1;
}

void snib__round_begin(struct snib__round *, unsigned servers);
unsigned snib__round_count(const struct snib__round *, enum snib__seat_state);

/* An attempt: sent; answered, or it never left; answered yes; whoever has not answered is not
 * waited for any more. */
void snib__round_ask(struct snib__round *, unsigned server, bool waited_for, int64_t loose_ms);
void snib__round_landed(struct snib__round *, unsigned server);
void snib__round_yes(struct snib__round *, unsigned server, struct snib__instant since,
                     int64_t lease_ms, uint64_t token);
void snib__round_set(struct snib__round *, unsigned server, enum snib__seat_state);
void snib__round_late(struct snib__round *);
enum snib__verdict snib__round_verdict(const struct snib__round *);

/* The token: the largest that a server gave; granted, when a majority has it. */
uint64_t snib__round_token(const struct snib__round *);
enum snib__verdict snib__round_agreed(const struct snib__round *, uint64_t token);

/* The lease of the majority: of those who have it, as long as so many have it. False: so many do
 * not. */
bool snib__round_lease(const struct snib__round *, struct snib__instant *since, int64_t *lease_ms);

/* A renewal: whom it goes to is pending then; answered; not waited for any more. */
void snib__round_renew(struct snib__round *);
void snib__round_kept(struct snib__round *, unsigned server, struct snib__instant since,
                      int64_t lease_ms);
void snib__round_gone(struct snib__round *, unsigned server);
void snib__round_unheard(struct snib__round *, unsigned server);
enum snib__verdict snib__round_renewed(const struct snib__round *);

/* By how many those who have it, and said so last, are more than the majority. */
int snib__round_margin(const struct snib__round *);

/* May a server that has lost it, or never had it, be asked for it under the same id? Only while a
 * majority keeps everybody else out, by our own deadline. */
bool snib__round_may_retake(const struct snib__round *, struct snib__instant now);

#endif
