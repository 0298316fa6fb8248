/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_TERMINAL_H
#define SNIB_CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

struct terminal {
    int fd;          /* -1: we have none */
    pid_t front;     /* the process group of whoever was started by the user */
    bool whole;      /* stdin and stdout are terminals */
    bool at_start;   /* lend it before the job starts */
    pid_t lent_to;   /* the job's group; 0: it never was */
    bool remembered; /* its modes, as they were when it was lent */
    struct termios modes;
};

void terminal_find(struct terminal *terminal);

/* Is that group in the foreground, so that the terminal is ours to give to somebody? */
bool terminal_is_ours(const struct terminal *terminal);

/* Lend it to the calling process, which leads a group. Safe between fork and exec. */
void terminal_take_in_child(const struct terminal *terminal);

/* Lend it to a group; with lend_noted, that it was done in the child. */
bool terminal_lend(struct terminal *terminal, pid_t pgid);
void terminal_lend_noted(struct terminal *terminal, pid_t pgid);

/* Lend it if we are in the foreground by now and it would have been lent at the start. */
bool terminal_lend_again(struct terminal *terminal, pid_t pgid);

/* Take it back for the group that was in front; `broken`: the borrower had no chance to tidy up. */
void terminal_take_back(struct terminal *terminal, bool broken);

#endif
