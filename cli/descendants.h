/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_DESCENDANTS_H
#define SNIB_CLI_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The process that supervises a job has this name, by which a supervisor around it knows it. */
#define SUPERVISOR_NAME "job-supervisor"
#define WITNESS_NAME "job-witness" /* no descendant in the sense of this file: see witness.h */

/* What such a one has to end its own job and give its lock back, before it is killed. */
#define SPARE_NS 1000000000LL

/* Which of the descendants of this process. */
struct descendants {
    bool session;     /* only those of our session */
    pid_t but_group;  /* not those of this process group, but those below them; 0: those too */
    bool spare;       /* not the supervisors of inner runs, nor what is below them */
    const pid_t *but; /* not these children, nor what is below them */
    size_t but_count;
};

/* Send a signal to each, parents before their children; 0 sends none. TERM is followed by CONT, so
 * that a stopped process hears it, and KILL goes to the process groups that they lead too. Answers
 * how many of them live, those that are spared included. */
int descendants_signal(const struct descendants *which, int number);

/* For people: "sleep (4711)" or "sleep (4711) and 2 more". Answers `out`. */
#define DESCENDANTS_TEXT 64
const char *descendants_text(char out[DESCENDANTS_TEXT], const struct descendants *which);

#endif
