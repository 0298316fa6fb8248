/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_JOB_H
#define SNIB_CLI_JOB_H

#include "guardian.h"
#include "signals.h"
#include "terminal.h"

struct job {
    pid_t pid;   /* of its leader, and of the group */
    bool ended;  /* the leader was reaped */
    int status;  /* as waitpid(2) gives it */
    int stopped; /* by this signal; 0: it runs */
    struct guard_page *page;
};

struct job_plan {
    char *const *command;
    char *const *environment;
    const struct signals *signals;
    struct terminal *terminal;
    struct guard_page *page;
    int64_t not_after_ns; /* better not start than start then */
};

/* Answers 0 or, having said why, an exit status. */
int job_start(struct job *job, const struct job_plan *plan);

/* After its end: answers 0 or, if the command could not be executed, says why and answers an exit
 * status. */
int job_not_executed(const struct job *job, const char *name);

/* To the whole group. */
void job_signal(const struct job *job, int number);

/* TERM, and what makes a stopped process hear it. */
void job_terminate(const struct job *job);

/* Is anybody of the group left? Asked after the leader has ended. */
bool job_lives(const struct job *job);

#endif
