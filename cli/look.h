/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_LOOK_H
#define SNIB_CLI_LOOK_H

#include "show.h"

#include <stdbool.h>

/* What status, list, break and engines were asked, and the client they ask. */
struct look {
    bool json, names, yes;
    uint64_t token;      /* 0: not given */
    const char *subject; /* NAME or PREFIX; NULL: not given */
    snib *client;
    char *url, *url_argument;
};

/* The options a command has beside --json and --help. */
enum {
    LOOK_URL = 1,
    LOOK_NAMES = 2,   /* --names */
    LOOK_YES = 4,     /* --yes and --token */
    LOOK_SUBJECT = 8, /* may have an argument */
    LOOK_NEEDS = 16   /* must have it */
};

/* Read the options. Answers -1 to go on, else the exit status. */
int look_read(struct look *, int argc, char *argv[], unsigned which, const char *help);
/* Open the client, if that was not yet done. Answers -1 to go on, else the exit status. */
int look_open(struct look *);
/* Close everything and make sure that all was written: `status`, or why not. */
int look_end(struct look *, int status);

/* The exit status that an error of the library stands for, its message said. */
int look_failed(const snib_error *);

/* The start of a document: its kind, version and URL. */
void look_json(struct json *, const struct look *, const char *kind);
/* "nightly: held, 2 waiting (file:/...)" and the table. */
void look_print(const struct look *, const struct sights *);

#endif
