/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REQUEST_H
#define SNIB_REQUEST_H

/* A user's acquire, from the call to its answer: see request.c. */

#include "base/table.h"
#include "base/timers.h"
#include "core/dispatch.h"
#include "core/drive.h"
#include "core/stop.h"
#include "engines/engine.h"

struct snib__line;
struct snib__hold;

/* Who is in the way, as the engine last said. */
struct snib__rival {
    bool known;
    int code; /* what the wait ends with: EBUSY, or why nobody gets it for the moment */
    int place;
    int64_t left_ms;
    uint64_t token;
    char who[120];
    char reason[200]; /* if it is not EBUSY */
};

struct snib__request {
    snib *client;
    struct snib__line *line;
    struct snib__list in_line; /* in line->waiting while not at the engine */
    struct snib__hold *hold;   /* its claim, once at the engine */
    const char *name;          /* the caller's, until the line is known */
    snib_options options;      /* completed */
    snib_ticket ticket;        /* 0: a blocking call */
    bool withheld;             /* its lease is not the user's yet when it is answered: no events */
    bool finished;
    bool timed; /* has joined the timers */
    struct snib__timer timer;
    struct snib__instant started; /* if timed */
    struct snib__instant waits;   /* since when it is known to wait; 0: it is not */
    int64_t rest_ms;              /* last pause between two attempts */
    unsigned anew;                /* how often it had to begin with a new claim */
    int64_t begun_ns;             /* while the service was never heard of; 0: it was */
    struct snib__rival rival;
    struct snib__stop stop;

    int code;
    snib_lease *lease;
    snib_error *err; /* the caller's, or of the same piece of memory */

    /* It has its answer; the request is the other side's from here on. */
    void (*answered)(struct snib__request *);
    struct snib__waiter *waiter; /* blocking */

    struct snib__list in_client;  /* in client->requests until it is finished */
    struct snib__entry by_ticket; /* with a ticket: in client->tickets */
    struct snib__news news;       /* that it waits */
};

/* All but client, name, options, ticket, withheld, err and answered. */
void snib__request_init(struct snib__request *);
int snib__request_start(struct snib__request *); /* 0: `answered` will be called; else never */
void snib__request_finish(struct snib__request *, int code); /* answers it, once */
void snib__request_again(struct snib__request *);            /* with a new claim */
void snib__request_news(struct snib__request *, const struct snib__result *);
void snib__request_silence(struct snib__request *, const char *reason); /* and it goes on waiting */
void snib__request_refuse(struct snib__request *); /* not to be had, as the news said */
int64_t snib__request_left_ns(const struct snib__request *, struct snib__instant now);
void snib__requests_cancel(snib *client);

/* Its owner has the lock now: so have the owner's other requests in line. */
void snib__requests_reenter(struct snib__hold *);

#endif
