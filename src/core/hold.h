/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_HOLD_H
#define SNIB_HOLD_H

/* One claim at the engine, from the first attempt to the answer of its release: see hold.c. */

#include "base/timers.h"
#include "core/agenda.h"
#include "core/lease.h"
#include "core/line.h"
#include "core/renewal.h"

/* One function moves it: snib__hold_move in hold.c, which has the table of what may follow what. */
enum snib__stage {
    SNIB__STAGE_ASKED,     /* attempt submitted */
    SNIB__STAGE_PARKED,    /* the engine keeps our place in its queue */
    SNIB__STAGE_RESTING,   /* busy or unknown: attempt again when the timer fires */
    SNIB__STAGE_PROVING,   /* granted, but the news is old: one renewal before anybody is told */
    SNIB__STAGE_HELD,      /* leases exist from here on */
    SNIB__STAGE_DOUBTFUL,  /* the engine has been silent for two thirds of the lease */
    SNIB__STAGE_LOST,      /* final; nothing but a release follows */
    SNIB__STAGE_RELEASING, /* release submitted; late answers to anything else are dropped */
    SNIB__STAGE_RELEASED   /* the engine has said its last word */
};

/* What is to be done at the engine; a release takes precedence over everything else. */
enum snib__todo { SNIB__TODO_NOTHING, SNIB__TODO_ATTEMPT, SNIB__TODO_RENEW, SNIB__TODO_RELEASE };

/* Whoever wants to know how a release ended. */
struct snib__releaser {
    enum snib__status status;
    char name[SNIB__NAME_MAX + 1]; /* of what was lost, when the hold may be gone */
    char why[200];                 /* UNKNOWN: what the engine said, or "" */
    void (*answered)(snib *, struct snib__releaser *);
};

struct snib__hold {
    struct snib__claim claim; /* first: the engine gives it back */
    snib *client;
    struct snib__line *line;
    struct snib__list in_line;   /* in line->holds */
    struct snib__list in_client; /* in client->all_holds */
    struct snib__action action;  /* performs `todo` */
    enum snib__todo todo;
    enum snib__renewal renewal;
    enum snib__stage stage;
    bool lost;     /* sticky */
    bool lined_up; /* counted in line->asking */
    bool no_renew;
    bool started;                  /* the engine has seen it */
    bool counted;                  /* in client->outstanding */
    int proofs;                    /* renewals tried while PROVING */
    unsigned passes;               /* how often it may still be passed on */
    int64_t pass_until_ns;         /* and until when */
    struct snib__request *request; /* NULL once answered */

    const void *owner;
    uint64_t token;
    struct snib__instant granted;
    struct snib__instant since;     /* of the last answered request; the lease is span_ns from it */
    int64_t span_ns;                /* SNIB__NEVER: no lease */
    int64_t lease_ns;               /* what the engine granted then: span_ns and the drift */
    int64_t max_hold_ns;            /* counted from `granted`; SNIB__NEVER: none */
    int64_t own_max_hold_ns;        /* of it, what the user said; NO_RENEW says one ttl besides */
    int64_t wanted_ttl_ms;          /* of the next renewal that is sent; 0: as before */
    struct snib__instant ttl_since; /* when the present ttl was first sent by hand; 0: never */
    uint64_t granted_token;         /* the first one of the grant; passing counts `token` up */
    struct snib__instant renew_tried;
    struct snib__timer timer;

    struct snib__list leases;
    unsigned lease_count;
    struct snib_lease first; /* the lease of the acquire that was granted */
    bool first_used;

    struct snib__list verifiers;     /* calls of snib_verify and snib_renew */
    struct snib__releaser *releaser; /* NULL: nobody wants to know */
    bool untold;                     /* released so: counted in the client */
    char *note; /* why it is lost; before that, what is worth knowing; NULL: none */
    char label[SNIB__LABEL_MAX + 1];
    _Alignas(max_align_t) unsigned char state[]; /* the engine's */
};

/* Granted, and neither lost nor given back. */
static inline bool snib__hold_valid(const struct snib__hold *h)
{
    return h->stage == SNIB__STAGE_HELD || h->stage == SNIB__STAGE_DOUBTFUL;
}

struct snib__hold *snib__hold_make(struct snib__request *);
/* A dead process's claim, on its way out. NULL: out of memory. */
struct snib__hold *snib__hold_adopt(snib *client, struct snib__line *, int mode, unsigned permits,
                                    const unsigned char owner[16]);
void snib__hold_own(struct snib__hold *);   /* its request is answered: a lease */
void snib__hold_leave(struct snib__hold *); /* give back whatever stage it is in */
void snib__hold_drop(struct snib__hold *);  /* free it if neither engine nor user has it */
void snib__hold_move(struct snib__hold *, enum snib__stage);
void snib__hold_end(struct snib__hold *); /* RELEASED; the memory may be gone after */

/* Does it wait for the engine? Keeps client->outstanding right: call it when stage or renewal
 * changed. */
void snib__hold_count(struct snib__hold *);
void snib__hold_do(struct snib__hold *, enum snib__todo); /* put on the agenda */

#endif
