/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_JOB_H
#define SNIB_CLI_JOB_H

#include "signals.h"
#include "terminal.h"
#include "witness.h"

#include <stdint.h>

/* The command, and everything that comes of it. */
struct job {
    pid_t pid;   /* of the command, which leads a group */
    bool ended;  /* the command was reaped */
    int status;  /* as waitpid(2) gives it */
    int stopped; /* by this signal; 0: it runs */

    bool whole;             /* sessions of their own count too: the lock is or may be lost */
    int64_t spare_until_ns; /* until then supervisors of inner runs end their jobs themselves */
};

struct job_plan {
    char *const *command;
    char *const *environment;
    const struct signals *signals;
    struct terminal *terminal;
    struct witness_page *witness;
    bool witnessed;       /* there is one */
    int *error;           /* in shared memory: why it could not be executed; 0: it was */
    int64_t not_after_ns; /* better not start than start then */
};

/* Answers 0 or, having said why, an exit status. */
int job_start(struct job *job, const struct job_plan *plan);

/* After its end, with the plan's error: say why the command was not executed and answer an exit
 * status, or 0. */
int job_report_error(int error, const char *name);

/* To the group of the command, and after its end to everybody. */
void job_signal(const struct job *job, int number);

/* TERM to everybody, and what makes a stopped process hear it. */
void job_terminate(const struct job *job);

/* KILL to everybody that is found. To be repeated until nobody lives. */
void job_kill(const struct job *job);

/* Is anybody left? Asked after the command has ended, if there are children at all. */
bool job_lives(const struct job *job);

/* Who: "sleep (4711) and 2 more". Answers `out`, which is DESCENDANTS_TEXT long. */
const char *job_text(char *out, const struct job *job);

#endif
