/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_SESSION_H
#define SNIB_SQL_SESSION_H

/*
 * What the files here share: a session, its strands (links, and who is on them), its bids (claims,
 * as far as a server knows them).
 */

#include "base/list.h"
#include "base/table.h"
#include "engines/engine.h"
#include "engines/sql/driver.h"

struct sql_bid;
struct sql_renewal;
struct sql_strand_upcalls;

/* A link, and the locks that live by it. */
struct sql_strand {
    struct sql_link link;
    struct sql *sql;
    struct snib__list place; /* among the session's */
    struct snib__list bids;  /* that have, or ask for, something there */
    bool ready;              /* greeted */
    bool lost;               /* it is over, and whoever was on it has been told */
    struct sql_request proof;
    bool proving;   /* that is under way */
    bool again;     /* one more when it is over: somebody rang meanwhile */
    bool owed;      /* renewals wait for it */
    int64_t due_ns; /* ... until then */
    /* mode=lease */
    struct sql_request enlisting;
    bool enlists, enlisted, tried; /* it is under way; done; the tables were made for it */
    char number[24];               /* of this session */
};

enum sql_phase {
    SQL_IDLE,     /* nothing at the server */
    SQL_WANTING,  /* wants a link */
    SQL_TRYING,   /* SQL_TRY is under way */
    SQL_UNDOING,  /* it failed: SQL_UNLOCK, to be sure */
    SQL_MAKING,   /* SQL_SETUP */
    SQL_ENTERING, /* SQL_ENTER */
    SQL_WAITING,  /* SQL_WAIT; the core was told QUEUED */
    SQL_TAKING,   /* SQL_TOOK or SQL_PROVE: the lock is ours, and proved by that */
    SQL_HOLDING,
    SQL_LEAVING /* SQL_UNLOCK */
};

/* A claim, and what outlives it. */
struct sql_bid {
    struct snib__claim *claim; /* NULL: it has had its last answer */
    struct sql *sql;
    struct sql_strand *strand;   /* NULL: on none */
    struct snib__entry entry;    /* by key, while on a strand */
    struct snib__list on_strand; /* or among those that want one */
    struct snib__list in_all;
    struct snib__list in_owing;  /* while something is owed, in the order it is due */
    struct snib__list in_broken; /* asked to give up, and not gone */
    enum sql_phase phase;
    struct sql_request request;
    bool asking;             /* it is under way */
    struct sql_request look; /* SQL_STANDS */
    bool looking, seen;      /* that is; and has found it */
    int looks;
    char number[24];
    bool owes_attempt, owes_renewal, owes_release;
    bool queued;   /* the last answer was QUEUED */
    bool sent;     /* something may be at the server, or may have been */
    bool was_held; /* the core was told so */
    bool undoing;  /* counted in session->undoing */
    int tries;
    int64_t due_ns;
    int64_t until_ns; /* broken: then it is given up */
    uint64_t token;
    struct snib__instant since;
    /* What the answer that is being read has said. */
    bool answered, got;
    char holder[120];
    uint64_t holder_token;
    /* Parameters. */
    char key[SQL_KEY_MAX], mode[4], ttl[24];
    char name[SNIB__NAME_MAX + 1], label[SNIB__LABEL_MAX + 1];
    /* mode=lease */
    char owner[33], permits[12], what[8];
    struct snib__list in_waiting;
    struct sql_renewal *renewal; /* that it is part of */
    size_t renewal_at;
    int64_t asked_ms; /* the ttl of the request that is under way */
    int64_t look_ns;  /* waits: asks again then */
    int64_t left_ms;  /* of the holder */
    int place;
    bool leaving;             /* to be given back */
    bool unsure;              /* an attempt was not answered, and may still come */
    bool repeated;            /* a release was not */
    enum sql_outcome failure; /* of what is being undone */
    int code;
    char reason[240];
};

/* In claim->state. */
struct sql_ticket {
    struct sql_bid *bid;
};

/* The first member of what is in session->state. */
struct sql {
    struct snib__session *session;
    const struct sql_driver *driver;
    void *settings; /* the dialect's */
    const char *name, *where;
    const struct sql_strand_upcalls *told;
    bool lease;   /* mode=lease */
    bool looks;   /* the dialect has SQL_STANDS */
    size_t hosts; /* that are tried in turn */
    size_t max_extra;

    struct snib__list strands;
    struct sql_strand *main; /* where all is tried first; NULL: none now */
    size_t extra;            /* the others */
    int64_t dial_ns, pause_ms;
    size_t failures;
    uint64_t greeted;
    int code, sys; /* of the last failure to open one */
    char why[240];

    struct snib__table keys;
    struct snib__list bids; /* all */
    struct snib__list owing, broken, wanting;
    size_t held;        /* bids that hold: the sockets are watched for them */
    int64_t stirred_ns; /* when that number last changed */
    struct snib__list queries;
    struct snib__list waiting, renewals; /* mode=lease */
};

static inline struct sql *sql_of(const struct snib__session *session)
{
    return session->state;
}

#endif
