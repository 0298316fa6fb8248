/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_DISPATCH_H
#define SNIB_DISPATCH_H

/* Callbacks that are due, and the one that runs: see dispatch.c. */

#include "base/list.h"
#include "snib.h"

struct snib__request;

/* A callback that is due. Part of what it tells of, so that telling never needs memory. */
struct snib__call {
    struct snib__list link;           /* in client->calls while due */
    const void *about;                /* its lease or request */
    const struct snib__request *ends; /* the request whose end it tells; NULL: it tells an event */
    /* Entered and left with the mutex held; gives it up for the user's function. */
    void (*run)(snib *, struct snib__call *);
};

/* A callback that runs, on its stack: one that dispatches may have others inside. */
struct snib__running {
    const void *about;
    struct snib__running *outer;
};

/* An event of a lease or of a wait. News that nobody has fetched is overwritten by what is newer.
 */
struct snib__news {
    struct snib__call call;
    snib_event_fn *fn;
    void *arg;
    snib_event event;
    char why[160];
};

void snib__call_init(struct snib__call *, const void *about,
                     void (*run)(snib *, struct snib__call *));
void snib__call_due(snib *client, struct snib__call *);    /* anew if it is due already */
void snib__call_drop(struct snib__call *);                 /* not due any more */
bool snib__calls_many(const snib *client, unsigned least); /* are so many due? */
bool snib__calls_follow(const snib *client); /* is this thread in one, and are others due? */
void snib__calls_wait(snib *client, const void *about); /* until none runs about that */
void snib__calls_end(snib *client);                     /* run what is due, stop the thread */

void snib__news_init(struct snib__news *news, const void *about, snib_event_fn *fn, void *arg);
void snib__news_tell(snib *client, struct snib__news *, const snib_event *, const char *why);

#endif
