/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_OPTIONS_H
#define SNIB_CLI_OPTIONS_H

#include "client.h"

#include <getopt.h>
#include <stdbool.h>

enum on_lost { ON_LOST_KILL, ON_LOST_TERM, ON_LOST_IGNORE };

/* What `run` and `hold` were asked to do. Texts point into the arguments. */
struct options {
    const char **names; /* NAME, then those of --also */
    size_t name_count;
    struct client_url url;
    snib_options lock; /* mode, permits, wait, ttl, max-hold, label */
    unsigned require;  /* traits */
    int busy_status;
    int64_t min_hold_ms;
    int64_t grace_ms; /* -1: not given */
    enum on_lost on_lost;
    bool json;      /* of hold: commands on stdin, events on stdout; then names are optional */
    char **command; /* of run; ended by NULL */
    char *shell[4]; /* the command of -c */
};

enum { OPTIONS_RUN = 1, OPTIONS_HOLD = 2 };

/* Answers 0, or the exit status (0 too after --help, with *out.names NULL). */
int options_read(struct options *out, int argc, char *argv[], int which);
void options_free(struct options *options);

/* The arguments have moved: `size` bytes from `from` to `to`. Not the command: that is in argv. */
void options_move(struct options *options, const char *from, size_t size, const char *to);

/* What getopt_long (with a leading "+:" and opterr 0) did not understand; answers STATUS_USAGE. */
int options_complain(int answer, char *const argv[], const struct option known[]);

#endif
