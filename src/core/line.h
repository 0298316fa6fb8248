/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_LINE_H
#define SNIB_LINE_H

/* The line of those of this process that want one name: see line.c. */

#include "base/table.h"
#include "core/request.h"

/* Exists while anything is in line or at the engine, and the one used last a little longer. */
struct snib__line {
    struct snib__entry entry;  /* in client->lines */
    struct snib__list waiting; /* requests not yet at the engine, in order */
    struct snib__list holds;   /* oldest first; a lost one stays until its leases are gone */
    unsigned users;            /* holds that exist, also those only a lease still refers to */
    unsigned asking;           /* of holds, those not yet granted that others of us wait behind */
    int asking_mode;
    bool closed;               /* nobody goes for the moment */
    struct snib__hold *passer; /* will go to the next in line without the engine */
    char name[];
};

struct snib__line *snib__line_get(snib *client, const char *name);
struct snib__line *snib__line_find(snib *client, const char *name);
void snib__line_put(snib *client, struct snib__line *);   /* perhaps nothing is left */
void snib__line_admit(snib *client, struct snib__line *); /* send on who may go; put */
void snib__lines_free(snib *client);

#endif
