/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLIENT_H
#define SNIB_CLIENT_H

/*
 * The core's own structures. Read in this order:
 *
 *   request   a user's acquire, from the call to its answer
 *   place     a name in this process: requests in line, holds at the engine
 *   hold      one claim at the engine, from the first attempt to the answer of its release
 *   lease     a user's handle on a granted hold; several when an owner re-enters
 *   waiter    a thread that is blocked until something is answered
 *   client    all of it, behind one mutex
 *
 * Everything happens in settle (keeper.c): it performs what is on the agenda, fires the timers
 * that are due, and says when to come back. Whoever has the mutex may call it; threads that wait
 * and the keeper do nothing else. So the whole machine runs as well without any thread, on a
 * clock and an engine of a test's choice, which is what the simulation does.
 */

#include "base/hash.h"
#include "base/list.h"
#include "base/table.h"
#include "base/thread.h"
#include "base/timers.h"
#include "core/name.h"
#include "core/url.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- Waiter ----------------------------------------------------------------------------- */

/* A blocked call. `ready` is what it waits for. */
struct snib__waiter {
    bool ready;
    bool blocked; /* on cond */
    bool drives;  /* in engine->drive */
    bool has_cond;
    pthread_cond_t cond;
    struct snib__list link; /* in client->waiters while blocked */
};

/* ---- Call ------------------------------------------------------------------------------- */

struct snib__request;

/* A callback that is due. Part of what it tells of, so that telling never needs memory; news of
 * the same kind that nobody has fetched yet is overwritten by what is newer. */
struct snib__call {
    struct snib__list link;        /* in client->calls while due */
    struct snib__request *request; /* its end, or its wait */
    snib_lease *lease;
    bool ends; /* done, else on_event */
    int state;
    int64_t left_ms;
    char why[160];
};

/* A callback that runs, on its stack: one that dispatches may have others inside. */
struct snib__running {
    const void *about; /* its lease or request */
    struct snib__running *outer;
};

/* A call of snib_release, or of snib_verify, that waits for its answer. */
struct snib__releaser {
    struct snib__waiter waiter;
    enum snib__status status;
    char name[SNIB__NAME_MAX + 1]; /* of what was lost, when the hold may be gone */
};

struct snib__verifier {
    struct snib__waiter waiter;
    struct snib__list link; /* in hold->verifiers */
    struct snib__instant asked;
    int code;
};

/* ---- Request ---------------------------------------------------------------------------- */

struct snib__place;
struct snib__hold;

/* Who is in the way, as the engine last said. */
struct snib__rival {
    bool known;
    int place;
    int64_t left_ms;
    uint64_t token;
    char who[120];
};

struct snib__request {
    struct snib *client;
    struct snib__place *place;
    struct snib__list link;  /* in place->line while not at the engine */
    struct snib__hold *hold; /* its claim, once at the engine */
    const char *name;        /* the caller's, until the place is known */
    snib_options options;    /* completed: ttl and max_hold are what will be used */
    snib_ticket ticket;      /* 0: a blocking call */
    bool finished;
    bool timed; /* has joined the timers */
    struct snib__timer timer;
    struct snib__instant started;
    int64_t rest_ms; /* last pause between two attempts */
    struct snib__rival rival;

    int code;
    snib_lease *lease;
    snib_error *err; /* the caller's, or own_error */

    struct snib__waiter *waiter; /* blocking */
    snib_done_fn *done;          /* asynchronous */
    void *done_arg;
    struct snib__list in_client;  /* in client->requests until it is finished */
    struct snib__entry by_ticket; /* asynchronous: in client->tickets */
    struct snib__call news, end;
};

/* ---- Place ------------------------------------------------------------------------------ */

/* A name as this client uses it. Exists while anything is in line or at the engine, and the one
 * used last a little longer. */
struct snib__place {
    struct snib__entry entry; /* in client->places */
    struct snib__list line;   /* requests not yet at the engine, in order */
    struct snib__list holds;  /* oldest first; a lost one stays until its leases are gone */
    unsigned users;           /* holds that exist, also those only a lease still refers to */
    unsigned asking;          /* of holds, not yet granted and with a place in line */
    int asking_mode;
    bool line_held;            /* nobody goes for the moment */
    struct snib__hold *passer; /* will go to the next in line without the engine */
    char name[];
};

/* ---- Hold ------------------------------------------------------------------------------- */

/* One function moves it: snib__move in claim.c, which has the table of what may follow what. */
enum snib__stage {
    SNIB__STAGE_ASKED,     /* attempt submitted */
    SNIB__STAGE_PARKED,    /* the engine keeps our place in its queue */
    SNIB__STAGE_RESTING,   /* busy or unknown: attempt again when the timer fires */
    SNIB__STAGE_PROVING,   /* granted, but the news is old: one renewal before anybody is told */
    SNIB__STAGE_HELD,      /* leases exist from here on */
    SNIB__STAGE_DOUBTFUL,  /* the engine has been silent for two thirds of the ttl */
    SNIB__STAGE_LOST,      /* final; nothing but a release follows */
    SNIB__STAGE_RELEASING, /* release submitted; late answers to anything else are dropped */
    SNIB__STAGE_RELEASED   /* the engine has said its last word */
};

enum { SNIB__DO_ATTEMPT = 1, SNIB__DO_RENEW = 2, SNIB__DO_RELEASE = 4 };

struct snib_lease {
    struct snib__hold *hold;
    struct snib__list link; /* in hold->leases */
    snib_event_fn *on_event;
    void *arg;
    snib_ticket ticket;
    unsigned flags;
    int fd;                   /* -1 until asked for */
    struct snib__call *calls; /* one each for HELD, DOUBTFUL, LOST; NULL without on_event */
};

struct snib__hold {
    struct snib__claim claim; /* first: the engine gives it back */
    struct snib *client;
    struct snib__place *place;
    struct snib__list in_place;
    struct snib__list in_client; /* in client->all_holds */
    struct snib__list in_agenda; /* or in client->renewals */
    unsigned todo;               /* SNIB__DO_... */
    enum snib__stage stage;
    bool lost;     /* sticky */
    bool lined_up; /* counted in place->asking */
    bool renewing; /* wanted or submitted, not answered */
    bool paced;    /* counted in client->renewals_out */
    bool no_renew;
    bool started;                  /* the engine has seen it */
    bool counted;                  /* in client->outstanding */
    int proofs;                    /* renewals tried while PROVING */
    unsigned passes;               /* how often it may still be passed on */
    int64_t pass_until_ns;         /* and until when */
    struct snib__request *request; /* NULL once answered */

    const void *owner;
    uint64_t token;
    struct snib__instant granted;
    struct snib__instant since; /* of the last answered request; the lease is span_ns from it */
    int64_t span_ns;            /* SNIB__NEVER: no lease */
    int64_t max_hold_ns;        /* SNIB__NEVER: none */
    struct snib__instant renew_tried;
    struct snib__timer timer;

    struct snib__list leases;
    unsigned lease_count;
    struct snib_lease first; /* the lease of the acquire that was granted */
    bool first_used;

    struct snib__list verifiers;     /* calls of snib_verify waiting for a renewal */
    struct snib__releaser *releaser; /* the call of snib_release that waits, if one does */
    char label[SNIB__LABEL_MAX + 1];
    _Alignas(max_align_t) unsigned char state[]; /* the engine's */
};

/* ---- Client ----------------------------------------------------------------------------- */

/* Something one thread at a time sleeps on; descriptors are made on first use. */
struct snib__sleeper {
    atomic_int wake_fd; /* 0: not made; others rouse by it without the mutex */
    int timer_fd;
    atomic_bool roused; /* by a thread without the mutex */
    int64_t armed_ns;   /* what timer_fd is set to */
    int64_t until_ns;   /* how long the present sleep may last */
    bool asleep;
    bool nudged;
};

struct snib {
    struct snib__session session; /* first: the engine gives it back */
    unsigned refs;                /* the client, its holds, whoever dispatches or releases */
    pid_t pid;
    pthread_mutex_t lock;
    struct snib__url url;
    struct snib__settings settings;
    union snib__value *values; /* the engine's parameters */
    char *shown_url;
    char who[96];

    bool opened;                 /* engine->open succeeded */
    bool closing;                /* nothing new is taken */
    bool manual;                 /* no threads: the simulation turns the crank */
    bool used;                   /* an acquire has been made */
    unsigned inside;             /* threads in a call */
    struct snib__waiter *closer; /* snib_close waiting for holds and threads to go */
    struct snib__timer close_timer;

    struct snib__table places;  /* by name */
    struct snib__list agenda;   /* holds with something to do */
    struct snib__list renewals; /* holds to be renewed, some at a time */
    unsigned renewals_out;      /* of those sent, not answered */
    unsigned renewals_most;     /* so many */
    struct snib__list requests; /* all that are not finished */
    struct snib__table tickets; /* the asynchronous ones */
    snib_ticket last_ticket;
    struct snib__timers timers;
    unsigned holds; /* known to the engine */
    struct snib__list all_holds;
    unsigned possible;        /* traits after open; contact may find fewer */
    unsigned outstanding;     /* of them, those that wait for an answer, and open queries */
    struct snib__hold *spare; /* one kept for the next acquire */
    snib_lease *spare_lease;
    struct snib__place *last_place; /* may be unused */
    snib_options normal;            /* SNIB_OPTIONS, checked */

    bool driving;   /* a thread is in engine->drive */
    bool answered;  /* something was, since it is */
    bool submitted; /* something new went to the engine since the driver last looked */
    struct snib__sleeper sleeper; /* of the driver */
    struct snib__list waiters;    /* blocked threads */
    struct snib__list woken;      /* those of them that have their answer, and are not told yet */

    struct snib__list works; /* threads of the engine that may still run */
    unsigned work_count;

    pthread_t keeper;
    bool keeper_made, keeper_runs, keeper_stops;
    struct snib__sleeper keeper_sleeper;
    pthread_cond_t keeper_cond;
    bool keeper_blocked;

    struct snib__list calls; /* callbacks due */
    bool own_loop;           /* snib_events was called */
    int event_fd;            /* 0: not made */
    pthread_t caller;
    bool caller_runs, caller_stops;
    pthread_cond_t caller_cond, call_ended;
    struct snib__running *running; /* the callback that runs now, the innermost one first */
    pthread_t call_thread;         /* on which it does */
};

/* What the engine can do here; contact may have found less than was hoped for. */
static inline unsigned snib__traits_now(const struct snib *client)
{
    return __atomic_load_n(&client->session.traits, __ATOMIC_RELAXED);
}

static inline bool snib__leased(const struct snib *client)
{
    return (snib__traits_now(client) & SNIB_TRAIT_LEASED) != 0;
}

/* client.c */
int snib__open_engine(snib **out, const struct snib__engine *engine, const char *url, bool manual,
                      snib_error *err);
bool snib__usable(const snib *client, snib_error *err); /* this process, not closing */
void snib__enter(snib *client);                         /* takes the mutex */
void snib__leave(snib *client); /* hands over what must go on; gives it up */
void snib__leave_unref(snib *client);
void snib__unref(snib *client);        /* with the mutex and not the last; or in a child */
void snib__unlock_unref(snib *client); /* perhaps the last: not to be touched any more */
void snib__close_check(snib *client);  /* has everything left that snib_close waits for? */

/* places.c */
struct snib__place *snib__place_get(snib *client, const char *name);
struct snib__place *snib__place_find(snib *client, const char *name);
void snib__place_put(snib *client, struct snib__place *place);   /* perhaps nothing is left */
void snib__place_admit(snib *client, struct snib__place *place); /* send on who may go; put */
void snib__places_free(snib *client);

/* acquire.c */
int snib__options_read(snib_options *out, const snib *client, const snib_options *in,
                       snib_error *err);
void snib__request_finish(struct snib__request *, int code); /* answers it, once */
void snib__request_again(struct snib__request *);            /* with a new claim */
bool snib__request_reenter(struct snib__request *); /* by owner, without the engine: answered? */
void snib__request_news(struct snib__request *, const struct snib__result *);
int64_t snib__request_left_ns(const struct snib__request *, struct snib__instant now);
void snib__requests_cancel(snib *client);

/* claim.c */
struct snib__hold *snib__hold_make(struct snib__request *);
void snib__hold_own(struct snib__hold *);   /* its request is answered: a lease */
void snib__hold_leave(struct snib__hold *); /* give back whatever stage it is in */
void snib__hold_drop(struct snib__hold *);  /* free it if neither engine nor user has it */
void snib__move(struct snib__hold *, enum snib__stage);
void snib__count(struct snib__hold *);             /* does it wait for the engine? */
void snib__do(struct snib__hold *, unsigned what); /* put on the agenda */
void snib__renewal_answered(struct snib__hold *);  /* or given up: another may go */
void snib__hold_end(struct snib__hold *);          /* RELEASED; the memory may be gone after */

/* pass.c */
unsigned snib__pass_wanted(const struct snib__request *); /* tokens */
void snib__pass_begin(struct snib__hold *, unsigned span);
void snib__pass_end(struct snib__hold *);
bool snib__pass_awaited(const struct snib__place *, const struct snib__request *);
bool snib__pass(struct snib__hold *); /* released, and nobody has it: to the next in line? */

/* lease.c */
snib_lease *snib__lease_add(struct snib__hold *, const snib_options *, snib_ticket);
snib_lease *snib__lease_again(snib *client, const char *name, const snib_options *);
struct snib__hold *snib__lease_reenter(struct snib__place *, const snib_options *, bool *clash);
void snib__lease_begin(struct snib__hold *);
void snib__lease_tick(struct snib__hold *, struct snib__instant now);
void snib__lease_renewed(struct snib__hold *, const struct snib__result *);
void snib__lease_answer(struct snib__hold *, int code); /* whoever waits in snib_verify */
void snib__lease_lose(struct snib__hold *, const char *why);
void snib__lease_doubt(struct snib__hold *, const char *why);
void snib__lease_note(struct snib__hold *, const char *what); /* worth knowing, and no more */
void snib__lease_admit_owner(struct snib__hold *); /* its owner's other requests in line */
int64_t snib__lease_left_ns(const struct snib__hold *, struct snib__instant now);
int64_t snib__drift_ns(int64_t span_ns); /* what is taken off a lease for clocks that differ */

/* keeper.c */
static inline bool snib__unsettled(const snib *client) /* is there anything to do now? */
{
    return client->agenda.after != &client->agenda ||
           (client->renewals.after != &client->renewals &&
            client->renewals_out < client->renewals_most);
}
static inline bool snib__must_drive(const snib *client)
{
    const struct snib__session *s = &client->session;
    return client->outstanding > 0 || s->attend > 0 || s->undoing > 0 ||
           (s->wake_ns && s->wake_ns <= snib__now().boot_ns);
}
int64_t snib__settle(snib *client);
void snib__wait_for(snib *client, struct snib__waiter *);
void snib__wake(snib *client, struct snib__waiter *);
void snib__hand_over(snib *client); /* see to it that somebody drives, if anybody must */
void snib__keeper_stop(snib *client);
void snib__sleepers_free(snib *client);
void snib__waiter_init(struct snib__waiter *);
void snib__waiter_end(struct snib__waiter *);

static inline void snib__wait(snib *client, struct snib__waiter *w)
{
    if (!w->ready) {
        snib__wait_for(client, w);
    }
}

/* work.c */
void snib__works_join(snib *client); /* all that were ended before they were done */

/* dispatch.c */
void snib__tell(snib_lease *, int state, int64_t left_ms, const char *why);
void snib__tell_waiting(struct snib__request *, const char *why);
void snib__tell_done(struct snib__request *); /* takes the request over */
void snib__calls_forget(snib_lease *);
void snib__calls_wait(snib *client, const void *about); /* until none runs about that */
void snib__calls_end(snib *client);                     /* run what is due, stop the thread */

#endif
