/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_NODE_H
#define SNIB_REDIS_NODE_H

/*
 * A node: one Redis server, as far as a session knows it.
 *
 *   connection   commands and their replies
 *   greeting     who we are there, who is there; begins every connection
 *   fitness      may it keep locks: role, eviction, width
 *   quarantine   may it have lost leases; which run of the server this is
 *   clock        the server's, against ours
 *   inbox        the subscription, on a connection of its own
 *
 * A node knows nothing of locks, of sessions or of other nodes: a session has as many as it
 * needs, and drives them together.
 */

#include "engines/redis/connection.h"
#include "engines/redis/greeting.h"
#include "engines/redis/inbox.h"
#include "engines/redis/quarantine.h"
#include "engines/redis/server_clock.h"

struct snib__node;

/* What a node says to its session. */
struct snib__node_upcalls {
    void (*reply)(struct snib__node *, struct snib__redis_call *, const struct snib__reply *);
    void (*lost)(struct snib__node *, struct snib__redis_call *, enum snib__loss);
    void (*other)(
        struct snib__node *);          /* another run than before was met, and may grant; or NULL */
    void (*down)(struct snib__node *); /* the connection has ended; its calls were told before */
    void (*message)(struct snib__node *, const char *bytes, size_t size); /* in the inbox */
    void (*broken)(struct snib__node *, const char *text);                /* who broke what */
    void (*subscribed)(struct snib__node *, const char *channel);         /* that we asked for */
    void (*heard)(struct snib__node *, const char *channel, const char *text); /* there */
    void (*slot)(struct snib__node *, unsigned slot, bool hears); /* of a cluster, or no more */
    void (*inbox_ready)(struct snib__node *);
    void (*inbox_hears)(struct snib__node *); /* of breaks, from now on */
    void (*inbox_failed)(struct snib__node *);
};

/* All of it lives as long as the node. */
struct snib__node_settings {
    struct snib__address address;
    struct snib__credentials credentials;
    struct snib__quarantine_rule quarantine;
    const char *prefix;
    char root[120]; /* of the inbox's name */
    bool may_evict;
    bool unverified; /* TLS, with whatever certificate */
    char where[300]; /* "host:port", for people */
};

enum snib__node_standing {
    SNIB__NODE_UNKNOWN,  /* the greeting was not answered yet */
    SNIB__NODE_FIT,      /* may grant, unless in quarantine */
    SNIB__NODE_UNFIT,    /* may not, for good: `why` */
    SNIB__NODE_UNCHECKED /* may not, now: it could not be asked what it is: `why` */
};

struct snib__node {
    const struct snib__node_upcalls *upcalls;
    const struct snib__node_settings *settings;
    void *owner;
    struct snib__connection connection;
    struct snib__greeting greeting;
    struct snib__quarantine quarantine;
    struct snib__server_clock clock;
    struct snib__inbox inbox;
    enum snib__node_standing standing;
    char why[200];
    char note[200];     /* for the next holder: what was found, or could not be; "": nothing */
    uint64_t greetings; /* connections that were begun */
    char met[48];       /* the last run that was fit; "": none, or not known */
    bool was_fit;       /* once: if it is a replica now, there will be a master again */
};

void snib__node_init(struct snib__node *, const struct snib__node_upcalls *,
                     const struct snib__node_settings *, void *owner);
void snib__node_close(struct snib__node *); /* silently; nobody is told */

/* The address is another server's: what was known of the one before says nothing. */
void snib__node_moved(struct snib__node *);

/* Ask, connecting if need be. False: no memory. A kind is 0 or more. Nothing leaves before the next
 * flush, or step. */
struct snib__redis_call snib__node_call(const struct snib__node *, int kind, void *subject);
bool snib__node_ask(struct snib__node *, const struct snib__redis_call *,
                    const struct snib__command *);
void snib__node_flush(struct snib__node *);
void snib__node_drop(struct snib__node *, void *subject); /* wants no more replies */
bool snib__node_idle(const struct snib__node *);          /* nothing was asked */
bool snib__node_up(const struct snib__node *);            /* what is asked now can be sent */
bool snib__node_clear(const struct snib__node *);         /* all that was asked is sent */

/* Replace the connection: once what was sent is answered, and nothing more is sent; or as soon as
 * the reply that is being handed out was dealt with, and whatever else was asked is lost. */
void snib__node_leave(struct snib__node *, const char *why);
void snib__node_end(struct snib__node *, const char *why);

/* Is it known to be a replica? Then what it has not may be at its master. */
bool snib__node_is_replica(const struct snib__node *);

/* An answer brought the server's time along. */
void snib__node_learn_time(struct snib__node *, const struct snib__redis_call *, int64_t server_ms);

/* How long nobody is to be granted anything; 0: no quarantine. */
int64_t snib__node_quarantine_left_ms(struct snib__node *);

/* Somebody holds a lock there now. Answers what is worth telling, once, or NULL. */
const char *snib__node_held(struct snib__node *, char out[200]);

/* What became of calls that were lost: one line for people. */
const char *snib__node_why(const struct snib__node *, enum snib__loss);

/* Is anybody waiting for messages? The name of the inbox, NULL while there is none. */
void snib__node_await(struct snib__node *, bool somebody);
const char *snib__node_inbox(const struct snib__node *);
bool snib__node_open_inbox(struct snib__node *); /* true: it is being opened, or open */

/* Listen to another channel, or no more. Nothing if there is no inbox: ask again when it is ready.
 */
void snib__node_listen(struct snib__node *, const char *channel, bool listen);

/* Driving: keep time, and learn when to be called again; then poll SNIB__NODE_FDS descriptors at
 * most, and step with what became ready. */
#define SNIB__NODE_FDS 2
int64_t snib__node_keep_time(struct snib__node *, int64_t now_ns);
size_t snib__node_poll(const struct snib__node *, struct pollfd fds[SNIB__NODE_FDS]);
bool snib__node_ready(const struct snib__node *); /* step at once */
void snib__node_step(struct snib__node *, const struct pollfd fds[], size_t n);

#endif
