/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ZOOKEEPER_SESSION_H
#define SNIB_ZOOKEEPER_SESSION_H

/*
 * A session at an ensemble: kept over connections to any of its servers until the service says that
 * it is over, or it is closed.
 */

#include "engines/engine.h"
#include "engines/zookeeper/link.h"

/* Who asks what: for the answer to find its way. */
enum snib__zk_kind {
    SNIB__ZK_ASK_PARENT, /* a contender's */
    SNIB__ZK_ASK_CREATE,
    SNIB__ZK_ASK_LIST,
    SNIB__ZK_ASK_RECORD,
    SNIB__ZK_ASK_DRAW,
    SNIB__ZK_ASK_FIND,
    SNIB__ZK_ASK_OWN,
    SNIB__ZK_ASK_SELF, /* a holder's: nothing waits for it */
    SNIB__ZK_ASK_RIVAL,
    SNIB__ZK_ASK_WATCH,
    SNIB__ZK_ASK_DELETE,
    SNIB__ZK_ASK_RENEW,
    SNIB__ZK_ASK_SYNC,  /* nobody's: an error ends the connection */
    SNIB__ZK_ASK_PROOF, /* the same */
    SNIB__ZK_ASK_CLOSE,
    SNIB__ZK_ASK_NAMES, /* a query's */
    SNIB__ZK_ASK_NODES,
    SNIB__ZK_ASK_NODE,
    SNIB__ZK_ASK_TOKEN,
    SNIB__ZK_ASK_MARK,
    SNIB__ZK_ASK_TAKE,
    SNIB__ZK_ASK_STAYS,
    SNIB__ZK_ASK_PROBE,
    SNIB__ZK_ASK_TRIAL
};

#define SNIB__ZK_PULSES 32

struct snib__zk_session;

/* What a session says to whoever has it. */
struct snib__zk_session_upcalls {
    void (*ready)(struct snib__zk_session *); /* connected, new or resumed: go on */
    void (*answered)(struct snib__zk_session *, const struct snib__zk_call *,
                     struct snib__zk_answer *);
    void (*event)(struct snib__zk_session *, const struct snib__zk_event *);
    void (*lost)(struct snib__zk_session *, const struct snib__zk_call *);
    void (*down)(struct snib__zk_session *);
    void (*over)(struct snib__zk_session *, const char *why); /* with all that belonged to it */
    void (*unreachable)(struct snib__zk_session *, int code); /* none of the servers: `why` */
};

struct snib__zk_session {
    const struct snib__zk_session_upcalls *upcalls;
    struct snib__session *core;
    void *owner;
    struct snib__zk_link link;
    char *credentials; /* "user:password" for digest; NULL: none */
    int64_t wanted_ms; /* of the session, as asked for */
    bool ready;

    int64_t id; /* 0: none */
    unsigned char password[SNIB__ZK_PASSWORD];
    int64_t granted_ms;
    int32_t xid; /* of the last request: goes on over connections */

    size_t host;  /* the one that is tried, or connected */
    size_t tried; /* in this round */
    int64_t retry_ns, pause_ms;
    bool connected_before;
    bool keeps;       /* somebody wants it: contenders, queries */
    bool denied;      /* credentials were refused */
    bool doubts;      /* all hang up on it: ask whether it is over */
    bool alive;       /* it was not, when that was asked last */
    bool ended;       /* the last one was over because we ended it */
    char why[400];    /* of this round: each server, and what was wrong with it */
    char reason[300]; /* the last of these without its server */

    int64_t said_ns;   /* the last request */
    int64_t pinged_ns; /* an answer is waited for; 0: none */
    int64_t greeted_ns, touched_ns;
    int64_t left_ns;                 /* when the last connection that was welcomed had ended */
    int64_t pulses[SNIB__ZK_PULSES]; /* sending times of requests that were answered */
    size_t pulse;
};

void snib__zk_session_init(struct snib__zk_session *, const struct snib__zk_session_upcalls *,
                           struct snib__session *core, void *owner);

/* How long the leader keeps a session that was heard of by this request, at least. */
int64_t snib__zk_session_lease_ms(const struct snib__zk_session *, struct snib__instant sent);

/* How long a question may take: no longer than connect= while nobody has ever answered. */
int64_t snib__zk_session_patience_ms(const struct snib__zk_session *);

const char *snib__zk_session_host(const struct snib__zk_session *, char out[300]);

/* ---- Requests: false, no memory and nothing asked; only while it is ready ------------------ */

bool snib__zk_ask(struct snib__zk_session *, enum snib__zk_kind, void *subject, enum snib__zk_op,
                  const char *path, bool watch);
/* With a sending time that is shared with an earlier request. */
bool snib__zk_ask_since(struct snib__zk_session *, enum snib__zk_kind, void *subject,
                        enum snib__zk_op, const char *path, bool watch, struct snib__instant sent);
bool snib__zk_ask_create(struct snib__zk_session *, enum snib__zk_kind, void *subject,
                         const struct snib__zk_creation *);
bool snib__zk_ask_delete(struct snib__zk_session *, enum snib__zk_kind, void *subject,
                         const char *path);
bool snib__zk_ask_set(struct snib__zk_session *, enum snib__zk_kind, void *subject,
                      const char *path, const char *data, int32_t version);
bool snib__zk_ask_set_and_delete(struct snib__zk_session *, enum snib__zk_kind, void *subject,
                                 const char *path, const char *data, const char *removed);
/* That the session lives: a majority of the servers answers this, or nobody. What is asked behind
 * it knows of everything that was done before. */
bool snib__zk_ask_proof(struct snib__zk_session *, const char *path, struct snib__instant sent);
bool snib__zk_ask_trial(struct snib__zk_session *, enum snib__zk_kind, void *subject,
                        const char *below, const struct snib__zk_right *);

/* ---- Driving ------------------------------------------------------------------------------ */

void snib__zk_session_tick(struct snib__zk_session *, int64_t now_ns);
int64_t snib__zk_session_next(const struct snib__zk_session *);

/* End it, with all that belongs to it: `over` comes when the servers have said that it is. Until
 * then it is not ready. */
void snib__zk_session_end(struct snib__zk_session *);

/* Ends it where it can be told, else it ends by itself. */
void snib__zk_session_close(struct snib__zk_session *, bool silently);

#endif
