/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_H
#define SNIB_REDIS_H

/*
 * The Redis engine's own structures. Read engine.c first, then native.c; the protocol is in
 * docs/redis-protocol.md.
 *
 *   redis     a session: its connections, what is known of the server, who waits
 *   ticket    the engine's part of a claim
 */

#include "engines/redis/link.h"
#include "engines/redis/scripts.h"

/* The rows of the parameter table in engine.c. */
enum {
    SNIB__REDIS_DB,
    SNIB__REDIS_PREFIX,
    SNIB__REDIS_NAME,
    SNIB__REDIS_PASSFILE,
    SNIB__REDIS_EVICTION,
    SNIB__REDIS_QUARANTINE,
    SNIB__REDIS_STATE,
    SNIB__REDIS_RETENTION,
    SNIB__REDIS_PASSING,
    SNIB__REDIS_PARAMS
};

/* What a request on the command connection is about. */
enum snib__redis_kind {
    SNIB__ASK_AUTH,
    SNIB__ASK_SELECT,
    SNIB__ASK_SETNAME,
    SNIB__ASK_INFO,
    SNIB__ASK_TIME,
    SNIB__ASK_ATTEMPT, /* these three: the subject is a ticket */
    SNIB__ASK_RENEW,
    SNIB__ASK_RELEASE,
    SNIB__ASK_CLEAN_UP, /* a release nobody waits for */
    SNIB__ASK_EVICT,    /* these three: the subject is a query */
    SNIB__ASK_SCAN,
    SNIB__ASK_LOOK
};

enum snib__ticket_phase {
    SNIB__TICKET_IDLE,     /* the core decides what comes next */
    SNIB__TICKET_ASKED,    /* an attempt is under way */
    SNIB__TICKET_WANTS,    /* busy, and an inbox is needed to stand in line */
    SNIB__TICKET_QUEUED,   /* the server has our place */
    SNIB__TICKET_HELD,     /* the core was told so */
    SNIB__TICKET_RELEASING /* the release is under way; nothing else is sent any more */
};

/* The engine's part of a claim. */
struct snib__ticket {
    struct snib__claim *claim;
    struct snib__ticket *next;           /* in the bucket of owners.c */
    struct snib__ticket *before, *after; /* among those that wait; NULL: not there */
    struct snib__instant asked;          /* a grant by message counts from here; 0: never asked */
    int64_t queued_ms; /* the server's time when it last said that we stand in line */
    int64_t recheck_ns;
    int64_t loose_ms; /* an attempt may still reach the server until then, by its clock; 0: none */
    unsigned char phase;
    unsigned char life; /* how often the engine itself gave it back: part of the id */
    bool known;         /* in owners.c */
    bool sent;          /* the server may have heard of it */
    bool was_held;      /* when its release was asked for */
    bool renewing;      /* one of these is a renewal */
    unsigned under_way; /* requests that name it */
};

#define SNIB__KEY_MAX 512 /* prefix and name are at most 300 */
#define SNIB__ID_MAX 40   /* 32 hexadecimal digits, "-255" */

enum snib__inbox_state { SNIB__INBOX_NONE, SNIB__INBOX_OPENING, SNIB__INBOX_READY };

struct snib__inbox {
    struct snib__redis_link link;
    enum snib__inbox_state state;
    char name[160];
    int64_t retry_ns; /* not before */
    int64_t pause_ms; /* grows with each failure */
    int64_t pinged_ns, ponged_ns;
};

/* What the last connection's greeting found. */
struct snib__birth {
    bool unfit;
    bool denied; /* AUTH or SELECT was refused */
    bool replica, evicts, narrow;
    int unchecked;         /* INFO sections that were refused */
    int64_t uptime_s;      /* -1 unknown */
    int64_t quarantine_ns; /* until then, by BOOTTIME, nobody is granted anything */
    bool trusts;           /* this connection is to the trusted run, */
    int64_t trusted_ns;    /* which last answered then; 0: not to us */
    char policy[32];
    char run_id[48];  /* of this connection */
    char trusted[48]; /* the run_id whose data is known to be whole */
    char why[200];
    char note[160]; /* for the next holder: what was found, or could not be looked at */
};

/* The server's wall clock against our BOOTTIME, as an interval. */
struct snib__server_clock {
    bool known;
    int64_t low_ms, high_ms;
    int64_t jump_ms; /* the last jump that was seen and not yet told */
};

/* A query under way: inspect, list, evict. */
struct snib__look {
    struct snib__query *query;
    struct snib__look *next; /* in r->looks */
    char **keys;
    size_t count, room;
    size_t asked, answered; /* of the keys */
    char cursor[24];        /* of the SCAN that is under way; "" for none */
    unsigned under_way;
    bool cut;      /* some of what was asked was lost with a connection */
    bool repeated; /* and asked for again, once */
    int code, sys;
    char why[200];
};

struct snib__redis {
    struct snib__session *session;
    struct snib__redis_peer peer;
    struct snib__redis_link link; /* commands */
    struct snib__inbox inbox;
    struct snib__birth birth;
    struct snib__server_clock clock;
    char *password; /* "" for none */
    char db[12];
    char retention[24]; /* as the scripts want it */
    char where[300];    /* "host:port", for people */
    int64_t quarantine_ms;

    struct snib__ticket **buckets;
    size_t bucket_count, owner_count;
    struct snib__ticket waiting; /* head of a ring */
    size_t waiting_count;
    int64_t tick_ns;          /* when to look at those that wait */
    struct snib__look *looks; /* queries under way */
};

static inline struct snib__redis *snib__redis_of(const struct snib__session *session)
{
    return session->state;
}

/* owners.c: who is meant by an id in a message */
void snib__ticket_id(const struct snib__ticket *, char out[SNIB__ID_MAX]);
bool snib__owners_add(struct snib__redis *, struct snib__ticket *);
void snib__owners_remove(struct snib__redis *, struct snib__ticket *);
struct snib__ticket *snib__owners_find(struct snib__redis *, const char *id);

/* command.c: what goes over the wire */
void snib__redis_key(const struct snib__redis *, const char *name, char out[SNIB__KEY_MAX]);
bool snib__redis_command(struct snib__redis *, enum snib__redis_kind, void *subject, int argc,
                         const char **argv);
bool snib__ask_attempt(struct snib__redis *, struct snib__ticket *,
                       const struct snib__redis_request *before);
bool snib__ask_renew(struct snib__redis *, struct snib__ticket *,
                     const struct snib__redis_request *before);
bool snib__ask_release(struct snib__redis *, struct snib__ticket *,
                       const struct snib__redis_request *before);
bool snib__ask_clean_up(struct snib__redis *, const char *key, const char *id, int64_t loose_ms);
bool snib__ask_evict(struct snib__redis *, struct snib__query *,
                     const struct snib__redis_request *before);
int64_t snib__recheck_ms(const struct snib__claim *);

/* native.c: claims, and what the server says about them */
extern const struct snib__redis_link_calls snib__redis_calls;
void snib__redis_attempt_claim(struct snib__claim *);
void snib__redis_renew_claims(struct snib__claim *const claims[], size_t n);
void snib__redis_release_claim(struct snib__claim *);
void snib__redis_try(struct snib__redis *, struct snib__ticket *); /* submit an attempt */
void snib__redis_answer(struct snib__ticket *, enum snib__verb, const struct snib__result *);

/* waiting.c: those that stand in line, or want to */
void snib__waiting_add(struct snib__redis *, struct snib__ticket *, int64_t after_ms);
void snib__waiting_remove(struct snib__redis *, struct snib__ticket *);
void snib__waiting_tick(struct snib__redis *, int64_t now_ns); /* re-checks */
void snib__waiting_hurry(struct snib__redis *);                /* re-check all, soon */
void snib__waiting_inbox_ready(struct snib__redis *);
void snib__waiting_inbox_failed(struct snib__redis *);
void snib__waiting_granted(struct snib__redis *, const char *message);

/* errors.c: what the server's errors mean */
enum snib__error_kind {
    SNIB__NO_SCRIPT, /* send the text */
    SNIB__LATER,     /* not executed; may pass */
    SNIB__REFUSED    /* not executed; `code` says why */
};
enum snib__error_kind snib__redis_error(const char *error, int *code);

/* birth.c: the greeting of a connection, and what the server is */
void snib__birth_greet(struct snib__redis *, struct snib__redis_link *);
void snib__birth_reply(struct snib__redis *, const struct snib__redis_request *,
                       const struct snib__reply *);
int64_t snib__quarantine_left_ms(struct snib__redis *); /* 0: none */
void snib__clock_learn(struct snib__redis *, struct snib__instant sent, int64_t server_ms);
int64_t snib__clock_not_after(const struct snib__redis *, struct snib__instant sent);

/* runid.c: which server was here last time */
void snib__runid_recall(struct snib__redis *, char out[48]);
void snib__runid_note(struct snib__redis *, const char *run_id);

/* inbox.c: the subscription */
void snib__inbox_init(struct snib__redis *);
void snib__inbox_want(struct snib__redis *);
void snib__inbox_rouse(struct snib__redis *); /* somebody waits again */
void snib__inbox_tick(struct snib__redis *, int64_t now_ns);
int64_t snib__inbox_next(const struct snib__redis *);

/* look.c: inspect, list, evict */
void snib__redis_inspect(struct snib__query *);
void snib__redis_evict_query(struct snib__query *);
void snib__redis_examine(struct snib__query *);
void snib__look_reply(struct snib__redis *, struct snib__redis_request *,
                      const struct snib__reply *);
void snib__look_lost(struct snib__redis *, struct snib__redis_request *, enum snib__redis_loss);
void snib__look_end(struct snib__redis *); /* forget all queries */

#endif
