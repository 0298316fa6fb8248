/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_WITNESS_H
#define SNIB_CLI_WITNESS_H

#include "signals.h"

#include <stdatomic.h>
#include <sys/types.h>

/* In memory that all processes share. */
struct witness_page {
    atomic_int group;  /* of the command; 0: it has none yet */
    atomic_bool ready; /* the witness is in it */
};

/* Start one, which joins the group as soon as there is one; answers its number, or 0. It sends
 * SIGTSTP to this process when somebody types Ctrl-Z. */
pid_t witness_start(struct witness_page *page, const struct signals *signals);

/* In the command, before it executes: wait until it is seen. Safe between fork and exec. */
void witness_await(const struct witness_page *page);

/* End it, and answer the last signal that somebody has typed: SIGINT, SIGQUIT, or 0. */
int witness_end(pid_t witness);

#endif
