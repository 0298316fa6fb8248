/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CONTACT_H
#define SNIB_CONTACT_H

/* Has the service ever answered this client? See contact.c. */

#include "base/timers.h"
#include "engines/engine.h"

struct snib__contact {
    bool made;
    bool awaited; /* the timer runs */
    bool excused; /* it has fired once, and we have looked again */
    int64_t limit_ms;
    int64_t due_ns; /* of the timer */
    struct snib__timer timer;
    char why[200]; /* what the engine last said about its silence */
};

void snib__contact_await(snib *);                              /* somebody waits for an answer */
void snib__contact_judge(snib *, const struct snib__result *); /* and answered: contact? */
void snib__contact_end(snib *);
void snib__contact_wait(snib *, int64_t due_ns); /* for the timer */
/* The timer has fired. Is it too late to say that it was the service who was silent? */
bool snib__contact_excuses(snib *, int64_t now_ns);

/* "no answer: ...", with what the engine last said. */
int snib__contact_fail(const snib *, const char *name, snib_error *err);

#endif
