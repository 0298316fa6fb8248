/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_INBOX_H
#define SNIB_REDIS_INBOX_H

/*
 * The inbox: one subscription to one server, where grants are delivered, and what is said to all.
 */

#include "engines/redis/connection.h"
#include "engines/redis/ears.h"
#include "engines/redis/greeting.h"

enum snib__inbox_state { SNIB__INBOX_NONE, SNIB__INBOX_OPENING, SNIB__INBOX_READY };

struct snib__inbox;

struct snib__inbox_upcalls {
    void (*message)(struct snib__inbox *, const char *bytes, size_t size);
    void (*broken)(struct snib__inbox *, const char *text);        /* what was said to everybody */
    void (*subscribed)(struct snib__inbox *, const char *channel); /* another one, asked for */
    void (*heard)(struct snib__inbox *, const char *channel, const char *text); /* there */
    void (*slot)(struct snib__inbox *, unsigned slot, bool hears); /* there; or no more */
    void (*ready)(struct snib__inbox *);
    void (*hears)(struct snib__inbox *);  /* and what is said to everybody, from now on */
    void (*failed)(struct snib__inbox *); /* it could not be opened; tried again after a pause */
};

struct snib__inbox {
    const struct snib__inbox_upcalls *upcalls;
    const struct snib__credentials *credentials;
    const char *root; /* in front of our channels */
    void *owner;
    struct snib__connection connection;
    struct snib__greeting greeting;
    struct snib__ears ears; /* in a cluster */
    enum snib__inbox_state state;
    bool wanted;     /* somebody waits, or wants to hear of breaks */
    char run_id[48]; /* of the server that commands go to; "": not known at the moment */
    char name[160], broken[120]; /* the channels: our own, and everybody's */
    int64_t retry_ns;            /* not before */
    int64_t pause_ms;            /* grows with each failure */
    int64_t ready_ns, pinged_ns, ponged_ns;
};

void snib__inbox_init(struct snib__inbox *, const struct snib__inbox_upcalls *,
                      const struct snib__address *, const struct snib__credentials *,
                      const char *root, void *owner);

/* Somebody wants messages, or nobody does any more. */
void snib__inbox_want(struct snib__inbox *, bool wanted);

/* Open it, unless it is or the last failure was just now. */
void snib__inbox_open(struct snib__inbox *);

/* Commands go to this run of a server from now on: an inbox elsewhere is of no use. "": it does not
 * say which run it is; then the inbox is opened anew, to be sure. */
void snib__inbox_follow(struct snib__inbox *, const char *run_id);
void snib__inbox_lead_lost(struct snib__inbox *); /* they go nowhere at the moment */

/* Listen to another channel too, or no more; nothing if it is not ready. */
void snib__inbox_listen(struct snib__inbox *, const char *channel, bool listen);

void snib__inbox_keep_time(struct snib__inbox *, int64_t now_ns);
int64_t snib__inbox_next(const struct snib__inbox *);

/* In a cluster: the channel for locks in that slot, NULL while there is none; and have one: false
 * if that cannot be now. */
const char *snib__inbox_of_slot(struct snib__inbox *, unsigned slot);
bool snib__inbox_open_slot(struct snib__inbox *, unsigned slot);
void snib__inbox_close(struct snib__inbox *);

#endif
