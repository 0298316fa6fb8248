/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_RENEWAL_H
#define SNIB_RENEWAL_H

/* A renewal, from being wanted to its answer: see renewal.c. */

#include <stdbool.h>

struct snib;
struct snib__hold;

enum snib__renewal {
    SNIB__RENEWAL_NONE,
    SNIB__RENEWAL_IN_TURN, /* wanted, behind those of other holds */
    SNIB__RENEWAL_URGENT,  /* wanted, somebody waits for it */
    SNIB__RENEWAL_SENT,    /* ... one that was urgent */
    SNIB__RENEWAL_PACED    /* sent as one of those that take turns */
};

void snib__renewal_want(struct snib__hold *); /* in its turn, unless it is wanted or sent already */
void snib__renewal_press(struct snib__hold *); /* before all others, if it is time for that */
void snib__renewal_urge(struct snib__hold *);  /* now, unless it is sent already */
void snib__renewal_sent(struct snib__hold *);  /* the urgent one is about to be */
void snib__renewal_answered(struct snib__hold *);
void snib__renewal_unwant(struct snib__hold *); /* not to be sent, if it is not yet */
void snib__renewal_end(struct snib__hold *);    /* nothing of it is of interest any more */

/* Send some of those that take turns. */
bool snib__renewals_ready(const struct snib *);
void snib__renewals_send(struct snib *);

#endif
