/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_SESSION_H
#define SNIB_REDIS_SESSION_H

/*
 * A session of the Redis engine: a node, a layout, and who wants something of them.
 *
 *   bid      the engine's part of a claim
 *   line     the bids that wait
 *   watches  channels of locks that somebody waits for
 *   breaks   the bids that are held and want to hear when somebody breaks them
 *   debt     something to be released at the server that is nobody's any more
 *   search   the engine's part of a query
 */

#include "base/list.h"
#include "base/table.h"
#include "engines/redis/finder.h"
#include "engines/redis/layout.h"
#include "engines/redis/node.h"
#include "engines/redis/witness.h"

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
    SNIB__REDIS_CA,
    SNIB__REDIS_CERT,
    SNIB__REDIS_KEY,
    SNIB__REDIS_TLS,
    SNIB__REDIS_LAYOUT,
    SNIB__REDIS_SCRIPTS,
    SNIB__REDIS_WATCHDOG,
    SNIB__REDIS_SENTINEL_USER,
    SNIB__REDIS_SENTINEL_PASSFILE,
    SNIB__REDIS_WAIT,
    SNIB__REDIS_WAIT_TIMEOUT,
    SNIB__REDIS_REPLICAS,
    SNIB__REDIS_PARAMS
};

/* What a call is about: whose subject it has. */
enum snib__call_kind {
    SNIB__CALL_ATTEMPT, /* these three: a bid */
    SNIB__CALL_RENEW,
    SNIB__CALL_RELEASE,
    SNIB__CALL_DEBT,  /* a debt */
    SNIB__CALL_EVICT, /* these three: a search */
    SNIB__CALL_SCAN,
    SNIB__CALL_INSPECT,
    SNIB__CALL_EXAMINE, /* an examination */
    SNIB__CALL_STEP,    /* an exchange: part of one of the first five */
    SNIB__CALL_ASKING,  /* nobody: what follows it was not asked of the wrong server */
    SNIB__CALL_LOOK     /* the router's own */
};

enum snib__bid_phase {
    SNIB__BID_IDLE,     /* the core decides what comes next */
    SNIB__BID_ASKED,    /* an attempt is under way */
    SNIB__BID_WANTS,    /* busy, and an inbox is needed to stand in line */
    SNIB__BID_QUEUED,   /* the server has our place */
    SNIB__BID_PROVING,  /* granted; do enough replicas have it? */
    SNIB__BID_HELD,     /* the core was told so */
    SNIB__BID_RELEASING /* the release is under way; nothing else is sent any more */
};

/* The engine's part of a claim. */
struct snib__bid {
    struct snib__claim *claim;
    struct snib__entry by_owner;
    struct snib__list in_line;   /* only while `waits` */
    struct snib__list in_breaks; /* only while `listens` */
    struct snib__list in_watch;  /* only with `watch`: what it listens to */
    struct snib__watch *watch;
    struct snib__proof proof;   /* what was granted last; with wait=: and is to be proven */
    struct snib__instant held;  /* with wait=: what the core believes counts from here, */
    int64_t held_ms;            /* for so long, */
    uint32_t epoch;             /* in the witness's epoch of that number */
    struct snib__instant asked; /* a grant by message counts from here; 0: never asked */
    uint32_t turn;              /* how many attempts were sent */
    uint32_t queued_turn;       /* the last that was answered "queued"; 0: none */
    uint32_t undone_turn;       /* the last of a former id: its answer is nobody's; 0: none */
    int place;                  /* in line, and what the holder had left, when it said so */
    int64_t holder_left_ms;
    uint64_t holder_token;
    int64_t recheck_ns;
    int64_t not_after_ms; /* of the last attempt */
    int64_t loose_ms; /* an attempt may still reach the server until then, by its clock; 0: none */
    unsigned char phase;
    uint16_t life;        /* how often the engine itself gave it back: part of the id */
    unsigned char rounds; /* answers "unfinished" since the last other one */
    bool patient;         /* stands far behind, and its ticket is for long */
    bool known;           /* by its owner's id */
    bool waits;           /* in the line */
    bool sent;            /* the server may have heard of it */
    bool was_held;        /* when its release was asked for */
    bool renewing;        /* one of the calls under way is a renewal */
    bool by_itself;       /* which the core has not asked for */
    bool doubts;          /* it must be asked for once more */
    bool listens;         /* for breaks */
    bool stranger;        /* the holder is another program's, and will not tell us */
    bool asking;          /* in a cluster: its slot is on its way to the server it is asked of */
    unsigned slot;        /* in a cluster */
    unsigned under_way;   /* calls that name it */
    char *breaker;        /* who says that he broke it; NULL: nobody, or it was not so */
};

/* Those that stand in line, or want to. */
struct snib__redis_line {
    struct snib__list bids;
    size_t count;
    int64_t tick_ns; /* when the first of them wants to ask again */
};

/* Channels of locks that somebody waits for, or did just now. */
struct snib__redis_watches {
    struct snib__list all;
    struct snib__table ears; /* by channel */
};

/* Those that are held and want to hear when they are broken. */
struct snib__redis_breaks {
    struct snib__list bids;
    size_t count;
    bool open;       /* the inbox is wanted for them */
    int64_t open_ns; /* when it will be */
};

struct snib__redis;

/* Where there are several servers: who knows which one to ask. `reply` and `lost` answer whether
 * that is all; if not, it goes on as if there were one server. */
struct snib__redis_router {
    bool (*reply)(struct snib__redis *, struct snib__redis_call *, const struct snib__reply **);
    bool (*lost)(struct snib__redis *, struct snib__redis_call *, enum snib__loss);
    void (*down)(struct snib__redis *);
    bool (*busy)(const struct snib__redis *); /* something is asked of one of them */
    /* Whom to ask next about a bid whose last question was asked with ASKING. */
    struct snib__redis *(*whom)(struct snib__redis *, struct snib__bid *);
};

struct snib__redis {
    struct snib__session *session;
    const struct snib__redis_router *router; /* NULL: there is one server */
    const struct snib__layout *layout;
    bool lineless; /* it has no line at the server: who waits listens, and asks */
    struct snib__node_settings settings;
    struct snib__node node;
    struct snib__witness *witness; /* NULL: what a master grants counts at once */
    struct snib__finder *finder;   /* NULL: the URL says where the server is */
    char *password;                /* "" for none */
    char *sentinel_password;
    struct snib__tls *tls;
    char database[12];
    struct snib__table bids; /* those that messages may be for, by owner id */
    struct snib__redis_line line;
    struct snib__redis_watches watches;
    struct snib__redis_breaks breaks;
    bool by_steps;               /* without scripts: */
    struct snib__list exchanges; /* one after the other; */
    struct snib__list spent;     /* those that have their answer, while calls name them */
    struct snib__list debts;
    struct snib__list searches; /* queries under way */
    struct snib__list examinations;
};

static inline struct snib__redis *snib__redis_of(const struct snib__session *session)
{
    return session->state;
}

/* What every wish of this session has. */
static inline struct snib__wish snib__wish_for(const struct snib__redis *r, const char *name,
                                               const unsigned char *id)
{
    return (struct snib__wish){
        .prefix = r->settings.prefix,
        .name = name,
        .id = id,
        .retention_ms = r->session->values[SNIB__REDIS_RETENTION].number,
    };
}

#endif
