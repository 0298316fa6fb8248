/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDLOCK_SESSION_H
#define SNIB_REDLOCK_SESSION_H

/*
 * A session of the Redlock engine: several servers, each a node of the Redis engine, under one
 * layout, and who wants something of them.
 *
 *   server   a node, and whether it may vote
 *   bid      the engine's part of a claim: one round at a time
 *   watch    a lock that somebody waits for
 *   debt     something to be released at one server that is nobody's any more
 *   search   the engine's part of a query
 */

#include "base/list.h"
#include "base/table.h"
#include "base/timers.h"
#include "engines/redis/layout.h"
#include "engines/redis/node.h"
#include "engines/redlock/clocks.h"
#include "engines/redlock/round.h"

/* The rows of the parameter table in engine.c. */
enum {
    SNIB__REDLOCK_DB,
    SNIB__REDLOCK_PREFIX,
    SNIB__REDLOCK_NAME,
    SNIB__REDLOCK_PASSFILE,
    SNIB__REDLOCK_EVICTION,
    SNIB__REDLOCK_QUARANTINE,
    SNIB__REDLOCK_STATE,
    SNIB__REDLOCK_RETENTION,
    SNIB__REDLOCK_CA,
    SNIB__REDLOCK_CERT,
    SNIB__REDLOCK_KEY,
    SNIB__REDLOCK_TLS,
    SNIB__REDLOCK_LAYOUT,
    SNIB__REDLOCK_NODE_TIMEOUT,
    SNIB__REDLOCK_CLOCK_GUARD,
    SNIB__REDLOCK_FENCING,
    SNIB__REDLOCK_PARAMS
};

/* What a call is about: whose subject it has. */
enum snib__redlock_call {
    SNIB__VOTE_ATTEMPT, /* these four: a bid */
    SNIB__VOTE_AGREE,
    SNIB__VOTE_RENEW,
    SNIB__VOTE_RELEASE,
    SNIB__VOTE_DEBT,   /* a debt */
    SNIB__VOTE_SEARCH, /* a search */
    SNIB__VOTE_EXAMINE /* an examination */
};

struct snib__redlock;

struct snib__server {
    struct snib__redlock *session;
    unsigned index;
    struct snib__node_settings settings;
    struct snib__node node;
    struct snib__clock_guard clock;
    int64_t jumped_ms;       /* its clock, last; */
    int64_t jumped_until_ns; /* it does not vote before this */
    int64_t silent_ns;       /* since when it is silent */
    bool silent;             /* it let the last question pass unanswered: nobody waits for it */
    char trouble[240];       /* why it did not vote last; "": it did */
};

enum snib__redlock_phase {
    SNIB__REDLOCK_IDLE,     /* the core decides what comes next */
    SNIB__REDLOCK_ASKING,   /* a round is under way */
    SNIB__REDLOCK_AGREEING, /* a majority has it, and not yet the same token */
    SNIB__REDLOCK_WAITING,  /* another has it */
    SNIB__REDLOCK_HELD,
    SNIB__REDLOCK_RELEASING
};

/* The engine's part of a claim. */
struct snib__redlock_bid {
    struct snib__claim *claim;
    struct snib__list in_session; /* as long as it is not idle */
    struct snib__timer timer;
    struct snib__list in_watch; /* only with `watch` */
    struct snib__watch *watch;
    struct snib__round round;
    uint64_t token;       /* of the grant, or the one to be agreed on */
    uint64_t least_token; /* that this round asks for */
    uint32_t turn;        /* which round: answers to earlier ones do not count */
    int64_t due_ns;       /* then those who have not answered are not waited for; NEVER: nothing */
    int64_t again_ns;     /* ask once more those who may have it by then; NEVER: no */
    int64_t began_ns;     /* this round */
    int64_t told_ns;      /* when it was last told that it may be free */
    int64_t listen_ns;    /* held, and wants to hear of breaks from then on */
    int64_t holder_left_ms;
    uint64_t holder_token, known_token; /* in the way; the one the core was told of */
    char holder[120];
    unsigned char phase;
    unsigned char agains; /* how often that was done */
    unsigned holder_votes;
    unsigned char splits; /* rounds in a row where several had a part */
    unsigned lead;        /* whom it has asked alone; r->count: all at once */
    unsigned first;       /* whom everybody asks first */
    bool extended;        /* servers are waited for for longer: there is no majority without */
    bool listed;          /* in the session */
    bool spent;           /* its id was given back: the next round has another */
    bool sent;            /* a server may have heard of it */
    bool owes;            /* the core waits for an answer to its attempt */
    int code;             /* why a server refused it for good; 0: none has */
    bool was_held;        /* when its release was asked for */
    bool renewing;        /* the core waits for an answer, */
    bool by_itself;       /* or nobody does */
    bool doubtful;        /* and told so */
    bool listens;         /* for breaks */
    char breaker[120];    /* who says that he broke it; "": nobody */
    struct snib__redlock_debt *owed[SNIB__SERVERS_MOST]; /* its releases, while it is told */
    unsigned freed, unfreed, unheard;                    /* answers to them */
    bool submitting;                                     /* they are being sent */
    bool repeated;                                       /* one may have been executed twice */
};

struct snib__redlock {
    struct snib__session *session;
    const struct snib__layout *layout;
    struct snib__server servers[SNIB__SERVERS_MOST];
    unsigned count;
    unsigned order[SNIB__SERVERS_MOST]; /* the same for all clients: who is asked first */
    char *password;                     /* "" for none */
    struct snib__tls *tls;
    char database[12];
    struct snib__list bids;
    struct snib__timers timers; /* of the bids */
    struct snib__list watches;
    struct snib__table ears; /* the same by channel */
    unsigned waiting;        /* bids that have a watch */
    struct snib__list debts; /* under way, */
    struct snib__list owing; /* and to be asked for again */
    struct snib__list searches;
    struct snib__list examinations;
    int64_t polled_ns;  /* what had arrived by then was read */
    unsigned listening; /* bids that want to hear of breaks */
    bool attends;
};

static inline struct snib__redlock *snib__redlock_of(const struct snib__session *session)
{
    return session->state;
}

static inline unsigned snib__redlock_quorum(const struct snib__redlock *r)
{
    return snib__quorum(r->count);
}

/* What every wish of this session has. */
static inline struct snib__wish snib__redlock_wish(const struct snib__redlock *r, const char *name,
                                                   const unsigned char *id)
{
    return (struct snib__wish){
        .prefix = r->servers[0].settings.prefix,
        .name = name,
        .id = id,
        .retention_ms = r->session->values[SNIB__REDLOCK_RETENTION].number,
    };
}

#endif
