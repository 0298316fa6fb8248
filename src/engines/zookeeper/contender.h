/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ZOOKEEPER_CONTENDER_H
#define SNIB_ZOOKEEPER_CONTENDER_H

/*
 * A contender: one node of ours below a lock's node, as far as we know. It begins with the first
 * attempt of a claim and may outlive it: until the node is known to be gone, or never to have been.
 */

#include "base/list.h"
#include "base/table.h"
#include "base/timers.h"
#include "engines/zookeeper/place.h"
#include "engines/zookeeper/session.h"

/* ---- What is written into nodes (data.c) --------------------------------------------------- */

enum { SNIB__ZK_WHO_ROOM = 160 };

/* Of a contender: "WHO LABEL", and below it, if somebody wants it to give up, "broken by WHO". */
struct snib__zk_owner {
    char who[SNIB__ZK_WHO_ROOM];
    char label[64];
    char breaker[SNIB__ZK_WHO_ROOM];
    bool broken;
};

enum { SNIB__ZK_RECORD_SIZE = 42, SNIB__ZK_DATA_ROOM = 512 };

void snib__zk_owner_read(struct snib__zk_owner *, struct snib__zk_text data);
bool snib__zk_owner_mark(struct snib__zk_text data, const char *who, char out[SNIB__ZK_DATA_ROOM]);

/* Of a lock: the token of the last exclusive holder that gave it back, and its number. */
struct snib__zk_record {
    uint64_t token;
    int64_t sequence;
};

void snib__zk_record_write(const struct snib__zk_record *, char out[SNIB__ZK_RECORD_SIZE + 1]);
bool snib__zk_record_read(struct snib__zk_record *, struct snib__zk_text data);

/* ---- Contenders --------------------------------------------------------------------------- */

/* What is known of the node. */
enum snib__zk_presence {
    SNIB__ZK_ABSENT, /* it does not exist, and nothing on its way can make it exist */
    SNIB__ZK_MAKING, /* asked for, no answer yet */
    SNIB__ZK_ASTRAY, /* the answer was lost: to be looked for */
    SNIB__ZK_NAMED,  /* found, and not looked at yet */
    SNIB__ZK_PRESENT /* it exists */
};

/* What is wanted of it. */
enum snib__zk_aim { SNIB__ZK_IDLE, SNIB__ZK_HOLD, SNIB__ZK_LEAVE };

/* How far the present one is. */
enum snib__zk_standing {
    SNIB__ZK_UNPLACED, /* who is in the way must be asked */
    SNIB__ZK_BLOCKED,  /* somebody is: to be watched */
    SNIB__ZK_WAITING,  /* is watched */
    SNIB__ZK_FIRST,    /* nobody is; a reader may lack its token */
    SNIB__ZK_HELD
};

/* Who is in the way, for people. */
struct snib__zk_rival {
    uint64_t token;
    char who[SNIB__ZK_WHO_ROOM];
};

struct snib__zk;

struct snib__contender {
    struct snib__zk *zk;
    struct snib__claim *claim; /* NULL: it has its last answer; only the undoing is left */
    struct snib__list in_all;
    struct snib__list in_owed;
    struct snib__entry watched;
    enum snib__zk_presence presence;
    enum snib__zk_aim aim;
    enum snib__zk_standing standing;
    bool watches;       /* is in the table of those who watch */
    bool owed;          /* an answer to `verb` is */
    bool again;         /* attempted while it was on its way out */
    bool sent;          /* the service may have heard of the claim */
    bool was_held;      /* the core was told so, of this node */
    bool deleting;      /* a delete was sent, in this session, */
    bool recording;     /* together with a record */
    bool stuck;         /* and was refused */
    bool broken;        /* somebody asked for it to be given up */
    bool renewing;      /* a renewal is under way */
    bool listening;     /* counted in session->attend */
    bool needs_parents; /* the lock's node is not there, */
    bool denied;        /* and may not be made by us */
    bool foreign;       /* a dead process's: of another session */
    bool queued;        /* the core was told that it stands in line */
    enum snib__verb verb;
    int64_t due_ns;
    unsigned under_way; /* requests that the next step waits for */
    unsigned calls;     /* all that name it */
    unsigned trials;

    int mode;
    unsigned permits;
    int64_t sequence;
    uint64_t created; /* czxid */
    uint64_t token;
    struct snib__instant proved; /* before the last request that proved the session was sent */
    int64_t lease_ms;
    struct snib__timer over; /* the lease: the node goes then, whatever the session does; of one
                              * that is stuck: when it is tried again */

    bool recordable; /* the lock's node has no data of others */
    int64_t first_reader;
    struct snib__zk_record drawn; /* about to be written into the lock's node */
    enum snib__status end;        /* what the release will be answered with */
    unsigned in_the_way, before, holders;
    unsigned sorts; /* of the others, when they were last listed */
    enum snib__zk_sort next_sort;
    char next[SNIB__ZK_SIBLING_MOST + 1];  /* what is watched, if it is a sibling */
    char first[SNIB__ZK_SIBLING_MOST + 1]; /* the one that holds */
    enum snib__zk_sort first_sort;
    struct snib__zk_rival rival;
    struct snib__result refusal; /* the answer when it is gone; UNKNOWN: none */
    char reason[200];

    char stem[SNIB__ZK_NODE_MOST];
    char node[SNIB__ZK_NODE_MOST + 16];
    char lock[]; /* the path of the lock's node */
};

/* Of a claim: what its state is. */
struct snib__zk_ticket {
    struct snib__contender *contender;
};

struct snib__zk {
    struct snib__session *session;
    struct snib__zk_session at; /* the service */
    struct snib__tls *tls;
    char base[SNIB__ZK_BASE_MOST + 1]; /* "" for the root */
    enum snib__zk_dialect dialect;
    struct snib__zk_right rights[2];
    bool wished;        /* the URL says how long a session is to be */
    bool no_containers; /* the service has none */
    bool no_records;    /* writing into locks' nodes was refused */
    bool stuck;         /* a contender may be */
    unsigned warned;    /* sorts of contenders that were told of */
    struct snib__list contenders;
    struct snib__list owed; /* by due_ns */
    struct snib__table watched;
    struct snib__list queries;
    int queued; /* contenders that stand in line */
    struct snib__timers timers;
    char who[SNIB__ZK_WHO_ROOM];
};

static inline struct snib__zk *snib__zk_of(const struct snib__session *session)
{
    return session->state;
}

/* base + "/" + the node of this name; false: too long. */
bool snib__zk_lock_path(const struct snib__zk *, const char *name, char out[SNIB__ZK_PATH_ROOM]);

struct snib__contender *snib__contender_new(struct snib__zk *, struct snib__claim *);
void snib__contender_free(struct snib__contender *);
/* lock + "/" + node */
void snib__contender_path(const struct snib__contender *, const char *node,
                          char out[SNIB__ZK_PATH_ROOM]);

/* An answer is owed, from now on and until it is given or its time is over. */
void snib__contender_owe(struct snib__contender *, enum snib__verb);
void snib__contender_answer(struct snib__contender *, const struct snib__result *);
void snib__contender_queue(struct snib__contender *, bool queued);
/* To the verb that is owed; a release: detaches it. */
void snib__contender_answer_unknown(struct snib__contender *, const char *why);

/* Which contenders watch this path: one after the other, NULL at the end. */
void snib__contender_watch(struct snib__contender *, const char *node); /* "": the lock's own */
void snib__contender_unwatch(struct snib__contender *);
struct snib__contender *snib__contender_watching(struct snib__zk *, struct snib__zk_text path,
                                                 struct snib__contender *after);

/* Somebody reacts to news about it: be driven. */
void snib__contender_listen(struct snib__contender *, bool listens);

#endif
