/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_CLUSTER_H
#define SNIB_REDIS_CLUSTER_H

/*
 * A session with a Redis Cluster.
 *
 *   map      which server has which slot, as far as we were told
 *   shard    one master: all that a session with a single server has
 *   scout    a connection that asks any server for the map
 *   lodger   a bid, and the shard it is at home at
 */

#include "engines/redis/queries.h"
#include "engines/redis/server.h"
#include "engines/redis/slots.h"

/* Two descriptors each, and two of the scout, in one snib__sleep. */
#define SNIB__SHARDS (SNIB__SLEEP_MOST / SNIB__NODE_FDS - 1)

struct snib__cluster;

struct snib__shard {
    struct snib__redis redis; /* first: one is the other */
    struct snib__cluster *cluster;
    struct snib__place place;
};

enum snib__scout_state {
    SNIB__SCOUT_RESTS,
    SNIB__SCOUT_ASKS,
    SNIB__SCOUT_KNOWS,  /* it was told; the map is new */
    SNIB__SCOUT_REFUSED /* that server had none for us */
};

struct snib__scout {
    enum snib__scout_state state;
    struct snib__node node; /* of the server that is asked */
    struct snib__node_settings settings;
    struct snib__place place;
    size_t next;    /* of all servers that we know by name, which one to ask */
    size_t tried;   /* in this round */
    int64_t due_ns; /* of the next round; SNIB__NEVER: nobody wants one */
    int64_t asked_ns;
    int64_t pause_ms;
    /* Why the last one had none, if that was not just silence. */
    enum snib__loss how;
    int code;
    int sys;
    char why[256];
};

/* A bid, and where it is at home. */
struct snib__lodger {
    struct snib__bid bid; /* first: one is the other */
    struct snib__redis *home;
    struct snib__list in_cluster;  /* until its release */
    struct snib__list in_homeless; /* while it waits for a server to be asked: */
    struct snib__redis_call call;  /* this, */
    enum snib__loss how;           /* after that */
    bool homeless;
    unsigned char hops; /* from server to server, since it was last asked for */
};

/* A query that may have to wait for the map, and goes from master to master. */
struct snib__round {
    struct snib__search search; /* first: one is the other */
    struct snib__list in_cluster;
    size_t next;
    bool evict;
    int64_t due_ns;
};

struct snib__cluster {
    struct snib__redis common; /* first: what all shards have in common; it is asked nothing */
    const struct snib__redis_router *router;
    struct snib__shard *shards[SNIB__SHARDS];
    size_t count;
    struct snib__slot_map map, fresh;
    bool known; /* there is a map */
    struct snib__scout scout;
    struct snib__list lodgers, homeless;
    struct snib__list rounds; /* those that wait for the map */
    struct snib__list looks;  /* examinations of the whole cluster */
};

static inline struct snib__cluster *snib__cluster_of(const struct snib__session *session)
{
    return session->state;
}

/* ---- shards.c --------------------------------------------------------------------------- */

/* The shard there, made if need be; NULL: no memory, or there are too many. */
struct snib__redis *snib__shard_at(struct snib__cluster *, const struct snib__place *);
/* The shard that has this lock, by the map; NULL: nobody has. */
struct snib__redis *snib__shard_of(struct snib__cluster *, const char *name);
unsigned snib__slot_of_name(const struct snib__cluster *, const char *name);
/* Is it a master by the map? */
bool snib__shard_leads(const struct snib__cluster *, const struct snib__redis *);
void snib__shards_close(struct snib__cluster *);

/* ---- scout.c ---------------------------------------------------------------------------- */

void snib__scout_init(struct snib__cluster *);
void snib__scout_want(struct snib__cluster *);    /* a new map, soon */
void snib__scout_again(struct snib__cluster *);   /* after a pause, which grows */
void snib__scout_content(struct snib__cluster *); /* the pause is short again */
/* True: a round has ended, with a new map (which is `known` then) or without. */
bool snib__scout_keep_time(struct snib__cluster *, int64_t now_ns, int64_t *next_ns);
void snib__scout_close(struct snib__cluster *);

/* ---- lodgers.c -------------------------------------------------------------------------- */

void snib__lodgers_attempt(struct snib__claim *);
void snib__lodgers_renew(struct snib__claim *const claims[], size_t n);
void snib__lodgers_release(struct snib__claim *);

/* It is at home there from now on. Only while no call of it is under way. */
void snib__lodger_move(struct snib__bid *, struct snib__redis *to, bool asking);

/* A server says that another one has the slot; or could not be asked. False: go on as if there were
 * no other. */
bool snib__lodgers_redirect(struct snib__redis_call *, struct snib__redis *to, bool asking);
struct snib__redis *snib__lodger_whom(struct snib__redis *, struct snib__bid *);
bool snib__lodgers_lost(struct snib__cluster *, struct snib__redis *, struct snib__redis_call *,
                        enum snib__loss);

/* The scout has come back: everybody goes to where the map says. */
void snib__lodgers_settle(struct snib__cluster *);
/* Those whose time is over; when the next one's is. */
int64_t snib__lodgers_keep_time(struct snib__cluster *, int64_t now_ns);

/* ---- rounds.c --------------------------------------------------------------------------- */

void snib__rounds_inspect(struct snib__query *);
void snib__rounds_evict(struct snib__query *);
void snib__rounds_settle(struct snib__cluster *);
int64_t snib__rounds_keep_time(struct snib__cluster *, int64_t now_ns);
void snib__rounds_close(struct snib__cluster *);

#endif
