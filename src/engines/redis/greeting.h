/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_GREETING_H
#define SNIB_REDIS_GREETING_H

/*
 * The first words on a connection: who we are, and who is there.
 */

#include "engines/redis/connection.h"
#include "engines/redis/errors.h"
#include "engines/redis/fitness.h"

/* Who we are at the server. All but the password may be shown. */
struct snib__credentials {
    const char *user, *password; /* "" for none */
    const char *database;        /* "0" */
    const char *name;            /* in CLIENT LIST */
};

/* What is asked beside being let in. */
enum snib__curiosity {
    SNIB__GREET_RUN,     /* only which run this is */
    SNIB__GREET_FITNESS, /* everything that judges a server */
    SNIB__GREET_FSYNC    /* and whether it keeps what it answered */
};

/* What became of it. */
struct snib__greeting {
    struct snib__fitness fitness;
    int unanswered;             /* AUTH and SELECT; until then, nothing else is sent */
    int denied;                 /* sections of INFO that we may not ask for */
    struct snib__error error;   /* why we were not let in */
    char failed[120];           /* an error that says neither yes nor no; "": none */
    struct snib__instant timed; /* when its clock was asked */
    int64_t server_ms;          /* what it said; 0: nothing */
    bool done;                  /* the last reply is there */
};

/* A connection begins. What is asked after this waits until we were let in. */
void snib__greeting_send(struct snib__greeting *, struct snib__connection *,
                         const struct snib__credentials *, enum snib__curiosity);

/* The reply to one of its calls, which are those of a kind below 0. Ends the connection if we
 * were not let in: what waited is then lost as denied. */
void snib__greeting_reply(struct snib__greeting *, struct snib__connection *,
                          const struct snib__redis_call *, const struct snib__reply *);

#endif
