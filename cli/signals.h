/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_SIGNALS_H
#define SNIB_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* The death of the parent, if signals_watch_parent was called. */
#define SIGNAL_ORPHANED SIGRTMAX

struct signals {
    int fd;        /* polls readable when one has come */
    int parent_fd; /* a pidfd; -1: the parent is not watched, or there was none to be had */
    pid_t parent;
    sigset_t before;  /* the mask we were started with */
    sigset_t ignored; /* what we were started to ignore, and so do not hear */
};

/* From now on signals wait in line to be read. Answers 0 or, having said why, an exit status. */
int signals_take(struct signals *signals);

/* From now on the death of the parent comes as a signal too, also if it has happened already.
 * `parent_fd` is a pidfd of it, or -1. */
void signals_watch_parent(struct signals *signals, int parent_fd);

/* Is it dead, if it is watched? */
bool signals_orphaned(const struct signals *signals);

/* The next one that has come; 0: none. `by_key`, which may be NULL: was it the kernel's, for a key
 * on the terminal? */
int signals_next(const struct signals *signals, bool *by_key);

/* Is this one a wish that we end, or the end of whoever could have one? */
bool signals_ends(int number);

/* As it was before signals_take. Safe between fork and exec. */
void signals_give_back(const struct signals *signals);

/* End by this signal instead of by exit; with `group` it goes to all of our process group. */
void signals_die(int number, bool group);

const char *signals_name(int number); /* "SIGTERM" */

#endif
