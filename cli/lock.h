/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_LOCK_H
#define SNIB_CLI_LOCK_H

#include "options.h"
#include "signals.h"

/* The locks of one `run` or `hold`, as one. */
struct lock {
    const struct options *options;
    snib *client;
    int event_fd;  /* of the library */
    int listen_fd; /* an epoll of all there is to hear; -1: nothing but event_fd */
    bool leased;
    bool told;           /* the library calls us when something happens */
    snib_lease **leases; /* in the order of the names */
    int64_t held_since_ns;

    /* The acquire under way. */
    snib_ticket ticket;
    bool answered, granted;
    bool attended; /* somebody sits at a terminal, and did not ask for -v */
    bool noticed;  /* and was told that we wait */
    int64_t asked_ns;
    snib_error error;
    int ended_by; /* the signal that ended the wait; 0: none did */

    /* What was heard while holding. */
    bool *doubted;       /* in the order of the names */
    int64_t deadline_ns; /* ours until then, as far as we know; NEVER: no lease */
    bool lost;
    bool lost_early; /* not by the clock: the engine says so */
    char why[160];   /* of the loss; before that, behind whom we wait */
    const char *lost_name;
};

/* These answer 0 or, having said why, an exit status. */
int lock_open(struct lock *lock, struct options *options);
int lock_confirm(struct lock *lock); /* one round trip more: a job starts on proven ground */

/* True: all are ours. Else *status, which is 0 if a busy lock was asked to be (-E 0). */
bool lock_acquire(struct lock *lock, const struct signals *signals, int *status);

/* Take in what has happened, and say it with -v. */
void lock_hear(struct lock *lock);

/* Polls readable when lock_hear is due. */
int lock_fd(const struct lock *lock);

/* Is there more to hear, which costs a thread? From now on hear that too. */
bool lock_deaf(const struct lock *lock);
void lock_listen(struct lock *lock);

/* Give all back. Only what the engine says counts: a lease that ran out is no news. Answers
 * SNIB_OK, SNIB_ELOST or SNIB_EUNKNOWN, the worst of them. */
int lock_release(struct lock *lock);
void lock_close(struct lock *lock);

#endif
