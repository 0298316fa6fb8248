/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_QUARANTINE_H
#define SNIB_REDIS_QUARANTINE_H

#include "engines/redis/fitness.h"
#include "engines/redis/runid.h"

/* Where runs are remembered, and how long leases are that one may have lost. */
struct snib__quarantine_rule {
    bool off;           /* its data survives restarts, says the user */
    int64_t span_ms;    /* from the start of a run */
    const char *folder; /* NULL: the user's own */
    const char *where;  /* "host:port" */
};

/* Zeroed: no server was met. */
struct snib__quarantine {
    struct snib__run trusted; /* its data is known to be whole */
    struct snib__run present; /* of this connection; "" while that is not known */
    bool trusts;              /* they are one and the same */
    int64_t until_ns;         /* by BOOTTIME; 0: none */
    int64_t trusted_ns;       /* when the trusted run last answered; 0: not to us */
    int64_t up_ms;            /* of the present run, when it was met */
    bool young;               /* never seen before, and leases it may have lost may still run */
    bool noted;               /* the trusted run is remembered on disk */
};

/* A connection begins: nothing is known of what is at its other end. */
void snib__quarantine_begin(struct snib__quarantine *);

/* This is at the other end of the present connection. */
void snib__quarantine_meet(struct snib__quarantine *, const struct snib__quarantine_rule *,
                           const struct snib__fitness *);

/* It answered. */
void snib__quarantine_heard(struct snib__quarantine *, int64_t now_ns);

/* How long nobody is to be granted anything; 0: no quarantine, or no more. */
int64_t snib__quarantine_left_ms(struct snib__quarantine *);

/* Somebody holds a lock of the present run: it is worth remembering. */
void snib__quarantine_note(struct snib__quarantine *, const struct snib__quarantine_rule *);

/* For people: which server, how long, why, and how to do without. */
void snib__quarantine_text(char *out, size_t size, const char *where, int64_t left_ms);

#endif
