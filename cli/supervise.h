/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_SUPERVISE_H
#define SNIB_CLI_SUPERVISE_H

#include "job.h"
#include "lock.h"
#include "timeline.h"

/* Why the job was told to stop. */
enum stop_reason { STOP_NONE, STOP_DEADLINE, STOP_LOST };

enum stop_stage { STAGE_RUNS, STAGE_TERMED, STAGE_KILLED };

struct supervision {
    const struct options *options;
    struct lock *lock;
    struct signals *signals;
    struct terminal *terminal;
    struct guardian *guardian;
    struct job *job;
    struct timeline timeline;
    int timer_fd; /* -1: not made yet */

    enum stop_stage stage;
    enum stop_reason reason;
    int64_t kill_ns;     /* when TERM was not enough */
    int64_t tidy_ns;     /* when what the command left behind has had its time to leave */
    int look_ms;         /* how long to wait before looking again whether it has */
    int64_t listen_ns;   /* when a job has lasted long enough to listen for a break */
    bool wants_terminal; /* the job is stopped until we are in the foreground */
    bool lost_in_time;   /* the loss was known while the command ran */
    bool late;           /* the command may have run past the deadline */
    bool max_hold;       /* the deadline was the end of the maximum hold */
};

/* From the start of the job until nobody of its group lives. */
void supervise(struct supervision *supervision);

/* The signal of Ctrl-C or Ctrl-\ that ended the command; 0: none did. */
int supervise_interrupt(const struct supervision *supervision);

/* The exit status this makes, and the line that goes with it. `released`: see lock_release. */
int supervise_status(const struct supervision *supervision, int released);

#endif
