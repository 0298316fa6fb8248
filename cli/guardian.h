/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_GUARDIAN_H
#define SNIB_CLI_GUARDIAN_H

#include "options.h"
#include "signals.h"
#include "terminal.h"
#include "witness.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum verdict {
    VERDICT_NONE,   /* the instant has not come */
    VERDICT_KILLED, /* the guardian found the job alive at the deadline */
    VERDICT_EMPTY   /* it found nobody: the job had ended in time */
};

/* Shared by the guardian and the supervisor. */
struct guardian_page {
    _Atomic int64_t kill_at_ns; /* the job must be dead by then; NEVER: there is no deadline */
    _Atomic int64_t margin_ns;  /* what is left from then to the end of the lease */
    atomic_int verdict;
    struct terminal terminal;
    struct witness_page witness;
    int exec_error; /* why the command could not be executed; 0: it was */

    atomic_bool over;     /* the supervisor has come to its end; what follows is its report */
    int interrupt;        /* the signal of a key that ended the command or the wait; 0: none did */
    bool interrupt_group; /* the processes around us have not seen it */

    atomic_bool opened;               /* the client: */
    char shown[2048];                 /* its URL without secrets */
    atomic_size_t handle_count;       /* with which the locks can be given back by another */
    char handles[][SNIB_HANDLE_SIZE]; /* one for each name */
};

/* What both processes know of each other. */
struct guardian {
    struct guardian_page *page;
    size_t page_size;
    struct options *options;
    struct signals *signals;
    bool shows_url;     /* one stands in the arguments, and what may be seen of it is to be shown */
    int guardian_fd;    /* a pidfd of the guardian */
    int nudge_fd;       /* look at the page again */
    int deposit_fds[2]; /* for the guardian, for the supervisor: see deposit.h */
    pid_t supervisor;   /* its number, in the guardian; 0: it is dead */
    int status;         /* and this is how it ended, as waitpid(2) gives it */
    char *variable;     /* SNIB_URL as it was; NULL: it was not set */
    pid_t strangers[64]; /* children we had before, which are none of our business */
    size_t stranger_count;
};

/* Answers 0 or, having said why, an exit status. */
int guardian_prepare(struct guardian *guardian, struct options *options, struct signals *signals);

/* In the guardian, once the supervisor was forked: until that has ended. Answers the exit status,
 * or ends by a signal. */
int guardian_watch(struct guardian *guardian);

/* In the supervisor: the job must be dead by then. */
void guardian_set(struct guardian *guardian, int64_t kill_at_ns);

/* In the supervisor: something else of the page has changed. */
void guardian_nudge(struct guardian *guardian);

void guardian_free(struct guardian *guardian);

#endif
