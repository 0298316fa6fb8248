/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_WITNESS_H
#define SNIB_REDIS_WITNESS_H

/*
 * The witness: what was granted counts when enough replicas have it.
 */

#include "base/list.h"
#include "engines/engine.h"
#include "engines/redis/connection.h"
#include "engines/redis/greeting.h"

/* What a grant or a renewal is worth. */
enum snib__verdict {
    SNIB__VERDICT_PROVEN,
    SNIB__VERDICT_SHORT,       /* too few replicas acknowledged it in time */
    SNIB__VERDICT_QUARANTINED, /* the master is new, and leases of the one before may still run */
    SNIB__VERDICT_REFUSED,     /* `code` of the witness: asking again is of no use */
    SNIB__VERDICT_UNHEARD      /* no answer, or of another server than the one that granted it */
};

/* Something that was granted, and must be proven before it counts. Zeroed: nothing. */
struct snib__proof {
    struct snib__list in_witness; /* only while `pending` */
    bool pending;
    bool unasked; /* a renewal that only the engine wanted */
    enum snib__verb verb;
    uint64_t token;
    unsigned span;
    struct snib__instant since;
    int64_t lease_ms;
    char run[41]; /* of the server that granted it, which only that one can prove; "": unknown */
};

struct snib__witness;

/* What a witness says to its session. */
struct snib__witness_upcalls {
    void (*judged)(struct snib__witness *, struct snib__proof *, enum snib__verdict);
    const char *(*run)(const struct snib__witness *); /* of the server that grants; "": unknown */
    void (*elsewhere)(struct snib__witness *, const char *why); /* it is at another one than we */
};

/* All of it lives as long as the witness. */
struct snib__witness_rule {
    const char *word; /* "majority", for people */
    int needed;       /* replicas that must acknowledge */
    int servers;      /* a master and its replicas */
    bool guards;      /* promotions are waited out */
    int64_t timeout_ms, max_lease_ms, quarantine_ms;
    char epoch[128], tick[128]; /* keys */
};

enum snib__witness_standing {
    SNIB__WITNESS_UNKNOWN,
    SNIB__WITNESS_OPEN,
    SNIB__WITNESS_PENDING,    /* its epoch was not acknowledged by enough replicas */
    SNIB__WITNESS_QUARANTINE, /* until `until_ns` */
    SNIB__WITNESS_SHORT,      /* of replicas, when it was asked last */
    SNIB__WITNESS_CROWDED,    /* more replicas than there should be: renewals only */
    SNIB__WITNESS_CLOSED
};

struct snib__witness {
    const struct snib__witness_upcalls *upcalls;
    struct snib__witness_rule rule;
    const struct snib__credentials *credentials;
    int *attend; /* the session's: above 0, somebody drives */
    void *owner;
    struct snib__connection connection;
    struct snib__greeting greeting;
    struct snib__list waiting, batch; /* proofs: for the next batch, and in the present one */
    bool under_way;                   /* a batch, or a question without any */
    bool asking;                      /* it is being sent */
    bool again;                       /* it must be asked with the scripts' texts */
    bool by_text;
    enum snib__witness_standing standing, said; /* as it is, and as this batch was told */
    char rid[48];                               /* the replication id of the last tick */
    uint32_t epoch;                             /* how many of them there were */
    int64_t left_ms;                            /* that this batch was told */
    bool counts;                                /* what is renewed now */
    int surplus;      /* replicas that there should not be: so many more must acknowledge */
    int64_t until_ns; /* by our own clock nobody is granted anything before; 0: none */
    int code;         /* of a refusal */
    char why[240];    /* for people: the last verdict other than proven */
};

void snib__witness_init(struct snib__witness *, const struct snib__witness_upcalls *,
                        const struct snib__witness_rule *, const struct snib__address *,
                        const struct snib__credentials *, int *attend, void *owner);
void snib__witness_close(struct snib__witness *); /* silently */

/* It was granted just now, by the server that `run` names. Its verdict comes by `judged`, once; not
 * from inside this call. */
void snib__witness_prove(struct snib__witness *, struct snib__proof *);
void snib__witness_drop(struct snib__proof *); /* nobody wants to know any more */

/* Whoever granted what is to be proven is not the master any more. */
void snib__witness_other(struct snib__witness *);

/* How long it is of no use to ask for a grant; 0: it may be. `why` then tells. Asks the server, if
 * the answer depends on it. `again`: a grant was given back already, and the next one would be. */
int64_t snib__witness_blocked_ms(struct snib__witness *, bool again);

/* Driving, as of a node. */
int64_t snib__witness_keep_time(struct snib__witness *, int64_t now_ns);

#endif
