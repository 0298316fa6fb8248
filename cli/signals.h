/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_SIGNALS_H
#define SNIB_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct signals {
    int fd;           /* polls readable when one has come */
    sigset_t before;  /* the mask we were started with */
    sigset_t ignored; /* what we were started to ignore, and so do not hear */
};

/* From now on signals wait in line to be read. Answers 0 or, having said why, an exit status. */
int signals_take(struct signals *signals);

/* The next one that has come; 0: none. */
int signals_next(const struct signals *signals);

/* Is this one a wish that we end? */
bool signals_ends(int number);

/* As it was before signals_take. Safe between fork and exec. */
void signals_give_back(const struct signals *signals);

/* End by this signal instead of by exit; with `group` it goes to all of our process group. */
void signals_die(int number, bool group);

const char *signals_name(int number); /* "SIGTERM" */

#endif
