/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_GUARDIAN_H
#define SNIB_CLI_GUARDIAN_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum guard_verdict {
    GUARD_NOTHING, /* its hour has not come */
    GUARD_KILLED,  /* at the deadline it found the job alive */
    GUARD_EMPTY    /* at the deadline it found nobody: the job had ended in time */
};

/* Shared by the supervisor, the guardian and the job until it executes. */
struct guard_page {
    _Atomic int64_t kill_at_ns; /* NEVER: only if the supervisor dies */
    atomic_int pgid;            /* of the job; 0: there is none */
    atomic_int reaped;          /* its leader: the number may be a stranger's by now */
    atomic_int verdict;
    pid_t session;
    int exec_errno; /* why the job could not start */
};

struct guardian {
    struct guard_page *page;
    pid_t pid;
    int supervisor_fd; /* a pidfd of this process */
    int nudge_fd;      /* look at the page again */
    char *title;       /* memory of the arguments, for ps(1) */
    size_t title_size;
    int deaths;
    int64_t retry_ns; /* it could not be started; NEVER: it runs */
};

/* The page. Answers 0 or, having said why, an exit status. */
int guardian_prepare(struct guardian *guardian, char *title, size_t title_size);

/* Fork it. Answers 0 or an errno. */
int guardian_start(struct guardian *guardian);

/* It has died: start another, now or at retry_ns. */
void guardian_replace(struct guardian *guardian);

/* The job must be dead by then. */
void guardian_set(struct guardian *guardian, int64_t kill_at_ns);

/* The job is gone: dismiss it; then, when there is time, bury it. */
void guardian_dismiss(struct guardian *guardian);
void guardian_bury(struct guardian *guardian);

#endif
