/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_SUPERVISE_H
#define SNIB_CLI_SUPERVISE_H

#include "guardian.h"
#include "job.h"
#include "lock.h"
#include "timeline.h"

/* Why the job was told to stop. */
enum stop_reason { STOP_NONE, STOP_DEADLINE, STOP_LOST, STOP_ORPHANED };

enum stop_stage { STAGE_RUNS, STAGE_TERMED, STAGE_KILLED };

struct supervision {
    const struct options *options;
    struct lock *lock;
    struct signals *signals;
    struct terminal *terminal;
    struct guardian *guardian;
    struct job *job;
    struct timeline timeline;
    pid_t witness; /* of what is typed while the job has the terminal; 0: none */
    int typed;     /* the last signal that was typed, as it says */
    int timer_fd;  /* -1: not made yet */

    enum stop_stage stage;
    enum stop_reason reason;
    int64_t kill_ns;     /* when TERM was not enough; and then when KILL comes again */
    int64_t pause_ns;    /* until it comes again */
    int64_t complain_ns; /* when not even KILL was enough */
    int64_t tidy_ns;     /* when what the command left behind has had its time to leave */
    int recheck_ms;      /* how long to wait before seeing again whether it has */
    int64_t listen_ns;   /* when a job has lasted long enough to listen for a break */
    int64_t refused_ns;  /* when it was last said that Ctrl-Z does not stop us */
    bool childless;      /* nobody is left, in whatever session */
    bool wants_terminal; /* the job is stopped until we are in the foreground */
    bool lost_in_time;   /* the loss was known while the command ran */
    bool late;           /* the command may have run past the deadline */
    bool max_hold;       /* the deadline was the end of the maximum hold */
};

/* The terminal is, or will be, lent to the job: somebody must see what is typed there. */
void supervise_typing(struct supervision *supervision);

/* From the start of the job until nobody of it lives. */
void supervise(struct supervision *supervision);

/* The signal of Ctrl-C or Ctrl-\ that ended the command; 0: none did. */
int supervise_interrupt(const struct supervision *supervision);

/* The exit status this makes, and the line that goes with it. `released`: see lock_release. */
int supervise_status(const struct supervision *supervision, int released);

#endif
