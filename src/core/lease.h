/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_LEASE_H
#define SNIB_LEASE_H

/* A user's handle on a granted hold, and how long it is valid: see lease.c. */

#include "core/dispatch.h"
#include "core/drive.h"
#include "engines/engine.h"

struct snib__hold;
struct snib__request;

enum { SNIB__NEWS_HELD, SNIB__NEWS_DOUBTFUL, SNIB__NEWS_LOST, SNIB__NEWS };

struct snib_lease {
    struct snib__hold *hold;
    struct snib__list link; /* in hold->leases */
    snib_ticket ticket;
    unsigned flags;
    int fd;                  /* -1 until asked for */
    struct snib__news *news; /* SNIB__NEWS of them; NULL without on_event */
    bool withheld;           /* not the user's yet: what is worth knowing waits in hold->note */
};

/* A call of snib_verify or snib_renew that waits for its answer. */
struct snib__verifier {
    struct snib__waiter waiter;
    struct snib__list link; /* in hold->verifiers */
    struct snib__instant asked;
    bool extends; /* what NO_RENEW allows begins anew */
    int code;
};

snib_lease *snib__lease_add(struct snib__hold *, const snib_options *, snib_ticket);
snib_lease *snib__lease_of(struct snib__hold *, const struct snib__request *); /* as it asked */
/* From now on the user is told about it, and of what is so now. False: out of memory. */
bool snib__lease_tell(snib_lease *, const snib_options *);
void snib__lease_free(snib_lease *);
void snib__lease_listen(struct snib__hold *); /* somebody reacts to what happens, from now on */
void snib__lease_begin(struct snib__hold *);
void snib__lease_tick(struct snib__hold *, struct snib__instant now);
void snib__lease_observe(struct snib__hold *); /* what the clock says by now, and no more */
void snib__lease_renewed(struct snib__hold *, const struct snib__result *);
void snib__lease_answer(struct snib__hold *, int code); /* whoever verifies */
void snib__lease_lose(struct snib__hold *, const char *why);
void snib__lease_doubt(struct snib__hold *, const char *why);
void snib__lease_note(struct snib__hold *, const char *what); /* worth knowing, and no more */
void snib__lease_show(const snib_lease *);                    /* its state, on its descriptor */
int snib__lease_state(const struct snib__hold *);             /* enum snib_state */
int64_t snib__lease_left_ms(const struct snib__hold *);       /* now */

#endif
