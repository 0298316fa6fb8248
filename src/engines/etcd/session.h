/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ETCD_SESSION_H
#define SNIB_ETCD_SESSION_H

/*
 * What the files of the engine share: a session, a claim, a lease, a name that is watched.
 */

#include "base/list.h"
#include "base/table.h"
#include "engines/engine.h"
#include "engines/etcd/cluster.h"
#include "engines/etcd/keys.h"
#include <rpc.pb-c.h>

/* The places of the parameters in their table. */
enum {
    ETCD_CA,
    ETCD_CERT,
    ETCD_KEY_FILE,
    ETCD_PASSFILE,
    ETCD_TLS,
    ETCD_RETENTION,
    ETCD_STALL,
    ETCD_PARAMS
};

struct etcd_claim;

/* A lease at the cluster. One claim's at a time. */
struct etcd_lease {
    struct snib__entry entry;   /* by id */
    struct snib__list place;    /* in the stock, or among the doomed */
    int64_t id, ttl_s;          /* as asked for */
    int64_t granted_ms;         /* 0: not granted yet */
    struct snib__instant since; /* it lives for granted_ms from here, proven */
    struct snib__instant kept;  /* when the last keep-alive was sent */
    uint64_t kept_term;         /* what answered it; 0: nothing did yet */
    int64_t kept_ms;            /* the ttl of that answer */
    int keeping;                /* keep-alives under way */
    bool gone;                  /* the cluster does not know it */
    bool unclean; /* something may still be put under it: never used again, but revoked */
    bool doomed;  /* to be revoked; counted in session->undoing once its claim has been answered */
    bool undoing; /* it is */
    struct etcd_claim *claim;
    int64_t retry_ns, until_ns, pause_ms; /* of a revocation */
    int64_t idle_ns;                      /* since when it is in stock */
};

enum etcd_phase {
    ETCD_IDLE,
    ETCD_LEASING,  /* waits for a lease */
    ETCD_ASKED,    /* the transaction is under way */
    ETCD_WATCHING, /* in line; not told to the core yet */
    ETCD_QUEUED,
    ETCD_HELD_NOW,
    ETCD_RELEASING
};

/* A name with a watch. */
struct etcd_name {
    struct snib__entry entry;
    char base[ETCD_BASE_MAX];
    struct snib__list claims; /* of this session, that have or want a key there */
    int64_t watch_id;         /* 0: not asked for */
    int64_t created;          /* revision at which it began; 0: it has not */
    int64_t idle_ns;          /* since when nobody is in the list */
    bool wanted;
    struct etcd_gone {
        int64_t at, created; /* the revision of the deletion, and of the key */
        enum etcd_class class;
    } gone[64]; /* the last deletions, as a ring */
    size_t gone_count;
};

/* In claim->state. */
struct etcd_claim {
    struct snib__claim *claim;
    enum etcd_phase phase;
    struct etcd_lease *lease;
    struct etcd_lease *next; /* a renewal wants another ttl: the key is being put under this one */
    bool swapping;           /* ... and the transaction is under way */
    bool freed;              /* a release: the first of the two leases was there, and is revoked */
    char key[ETCD_KEY_MAX];
    int64_t mine; /* create revision; 0: not known */
    bool sent;    /* something may be at the cluster */
    bool was_held;
    bool loose;     /* go without the check of kinds: something alien is below the name */
    bool noted;     /* the last token is on record */
    bool with_keep; /* the attempt sent a keep-alive: wait for that, too */
    bool clear;     /* nobody is ahead: it is only that keep-alive that is waited for */
    bool asking;    /* the attempt is under way */
    bool listing;   /* somebody looks who is ahead */
    int64_t seen;   /* the revision that `ahead` is of, before deletions seen since */
    int64_t ahead;  /* how many must go before */
    uint64_t token;
    bool renewing, kept, proved; /* a renewal: its two halves */
    bool again;                  /* ... the second time: the leader had changed in between */
    int64_t renew_ns;            /* ... and when it was asked for */
    int64_t due_ns;              /* in line: the next keep-alive */
    struct etcd_name *name;
    struct snib__list in_name;
    bool listens;                /* it is in one of the two lists of breaks.c */
    int64_t listen_ns;           /* not watched before */
    int64_t own_watch;           /* of its key; 0: none */
    struct snib__list in_breaks; /* only while `listens` */
};

/* In session->state. */
struct etcd {
    struct snib__session *session;
    char prefix[ETCD_PREFIX_MAX + 2];
    char where[200];
    char *password;
    struct snib__tls *tls;
    struct etcd_cluster cluster;

    struct snib__table leases;
    struct snib__list stock, doomed;
    size_t stock_count;
    struct etcd_lease *record;  /* the lease of what is kept for `retention` */
    struct snib__instant proof; /* when the last answered linearizable request was sent, */
    uint64_t proof_term;        /* and the raft term of its answer */
    uint64_t releases;

    struct snib__table names;
    struct etcd_call *watch;
    int64_t watch_ids;
    struct snib__list queries;
    struct snib__list heard, unheard; /* holders that listen: whose keys are watched, and others */
    int watched;                      /* how many are */
};

static inline struct etcd *etcd_of(struct snib__session *session)
{
    return session->state;
}

#endif
