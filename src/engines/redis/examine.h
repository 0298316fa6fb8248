/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_EXAMINE_H
#define SNIB_REDIS_EXAMINE_H

#include "engines/redis/session.h"
#include "engines/redis/topology.h"

/* The engine's part of an examination, and what it found out. */
struct snib__examination {
    struct snib__query *query;
    struct snib__list in_session;
    char name[40]; /* of a lock that nobody else has */
    unsigned char id[SNIB__ID_SIZE];
    char channel[160];
    bool without_scripts, no_scripts; /* none were wanted; none are allowed */
    size_t asked, answered;           /* probes */
    bool met;                         /* the greeting was answered: `fitness` is known */
    struct snib__fitness fitness;
    int unchecked;     /* sections of INFO that were denied */
    char denied[160];  /* commands that locks need and this user may not use */
    char missing[160]; /* ... that only some need */
    char broken[160];  /* what a lock of our own met; "": it worked */
    struct snib__instant pinged;
    int64_t round_trip_ns;          /* 0: not measured */
    struct snib__topology topology; /* of a master with replicas, if the URL is for those */
    char wait_denied[160];          /* "": WAIT may be used, or is not */
    bool inbox_known;
    char inbox_broken[160]; /* "": it works */
    bool lost;              /* the server, or the way to it */
    enum snib__loss how;
    char why[260]; /* also: why it has no time for us now; "": none of that */
};

void snib__examine(struct snib__query *);

/* The same in two steps: the name of a lock; and at a server that whoever calls has chosen. */
void snib__examine_name(struct snib__examination *);
void snib__examine_at(struct snib__redis *, struct snib__query *);

void snib__examine_reply(struct snib__redis *, struct snib__redis_call *,
                         const struct snib__reply *);
void snib__examine_lost(struct snib__redis *, struct snib__redis_call *, enum snib__loss);
void snib__examine_inbox(struct snib__redis *); /* it is open, or cannot be opened */
void snib__examine_close(struct snib__redis *); /* ends all of them */

/* finding.c: tell one finding. */
void snib__finding_tell(const struct snib__examination *, int verdict, const char *about,
                        const char *remedy, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* findings.c: tell all that was found. */
void snib__findings_tell(struct snib__redis *, const struct snib__examination *);

#endif
