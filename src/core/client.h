/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLIENT_H
#define SNIB_CLIENT_H

/*
 * A client: everything of the core, behind one mutex. Its nouns, in the order of a reader:
 *
 *   request.h   a user's acquire, from the call to its answer
 *   line.h      a name in this process: requests in line, holds at the engine
 *   hold.h      one claim at the engine, from the first attempt to the answer of its release
 *   lease.h     a user's handle on a granted hold; several when an owner re-enters
 *   drive.h     a thread that is blocked until something is answered; who drives, who sleeps
 *   dispatch.h  a callback that is due
 *
 * Everything happens in snib__settle (drive.c): it performs what is on the agenda, fires the timers
 * that are due, and says when to come back. Whoever has the mutex may call it; threads that wait
 * and the keeper do nothing else. So the whole machine runs as well without any thread, on a
 * clock and an engine of a test's choice, which is what the simulation does.
 */

#include "base/table.h"
#include "base/thread.h"
#include "base/timers.h"
#include "core/contact.h"
#include "core/dispatch.h"
#include "core/drive.h"
#include "core/hold.h"
#include "core/line.h"
#include "core/monitor.h"
#include "core/request.h"
#include "core/url.h"

struct snib {
    struct snib__session session; /* first: the engine gives it back */
    unsigned refs;                /* the client, its holds, whoever dispatches or releases */
    pid_t pid;
    void (*destroy)(snib *); /* when nobody refers to it any more */
    pthread_mutex_t lock;
    struct snib__url url;
    struct snib__settings settings;
    union snib__value *values; /* the engine's parameters */
    char *shown_url;
    char *origin; /* where the URL comes from; NULL: given */
    char who[96];

    bool opened;                 /* engine->open succeeded */
    bool closing;                /* nothing new is taken */
    bool manual;                 /* no threads: the simulation turns the crank */
    bool used;                   /* an acquire has been made */
    unsigned inside;             /* threads in a call */
    unsigned inside_for_calls;   /* of them, those that want nothing but a callback's end */
    bool left_behind;            /* closed with some inside: the last one's to free */
    struct snib__waiter *closer; /* snib_close waiting for holds and threads to go */
    struct snib__timer close_timer;

    struct snib__table lines;   /* by name */
    struct snib__list agenda;   /* actions */
    struct snib__list renewals; /* those that take turns */
    unsigned renewals_out;      /* of those sent, not answered */
    unsigned renewals_most;     /* so many */
    struct snib__list requests; /* all that are not finished */
    struct snib__list inquiries;
    struct snib__table tickets; /* the asynchronous ones */
    snib_ticket last_ticket;
    struct snib__timers timers;
    unsigned holds; /* known to the engine */
    struct snib__list all_holds;
    unsigned possible;        /* traits after open; contact may find fewer */
    unsigned outstanding;     /* of them, those that wait for an answer, and open queries */
    unsigned untold;          /* of these, releases that nobody wants to hear of */
    struct snib__hold *spare; /* one kept for the next acquire */
    snib_lease *spare_lease;
    struct snib__line *last_line; /* may be unused */
    snib_options normal;          /* SNIB_OPTIONS, checked */

    bool driving;            /* a thread is in engine->drive */
    int64_t driven_until_ns; /* that it was told */
    bool resting;            /* sleeps, and does not poll what the engine would */
    bool answered;           /* something was, since it is */
    bool submitted;          /* something new went to the engine since the driver last looked */
    struct snib__sleeper sleeper; /* of the driver */
    struct snib__list waiters;    /* blocked threads */
    struct snib__list woken;      /* those of them that have their answer, and are not told yet */

    unsigned coming; /* threads that were told, and are not here yet */
    bool stirred;  /* somebody was told, or a callback began, since the driver last went to sleep */
    bool patrols;  /* the driver's present sleep is short because of that */
    unsigned kept; /* so much that was asked for may not have left yet: more was to come */
    bool kept_here; /* and it is of the call that has the mutex */

    struct snib__list works; /* threads of the engine that may still run */
    unsigned work_count;

    pthread_t keeper;
    bool keeper_made, keeper_runs, keeper_stops;
    struct snib__sleeper keeper_sleeper;
    int64_t called_for_ns; /* what the keeper was last called for: a date, or 0 */
    int64_t unread_ns; /* until when what nobody wants to hear of may stay unread; 0: not at all */
    bool lingers;      /* there was such a thing since the keeper last looked */

    int stop_set;        /* epoll: the users' descriptors that end waits; 0: not made */
    unsigned stop_count; /* of them */
    snib_stats stats;
    struct snib__contact contact;

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

static inline bool snib__must_drive(const snib *client)
{
    const struct snib__session *s = &client->session;
    return client->outstanding > 0 || s->attend > 0 || s->undoing > 0 ||
           (s->wake_ns && s->wake_ns <= snib__now().boot_ns);
}

int snib__open_engine(snib **out, const struct snib__engine *engine, const char *url, bool manual,
                      snib_error *err);

/* inspect.c: those the engine has not finished, once it is closed */
void snib__inquiries_end(snib *client);

/* work.c: all that were ended before they were done */
void snib__works_join(snib *client);

#endif
