/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_INQUIRY_H
#define SNIB_CLI_INQUIRY_H

#include "client.h"
#include "show.h"

#include <stdbool.h>

/* What status, list, break and engines were asked, and the client they ask. */
struct inquiry {
    bool json, names, yes, force, acl;
    uint64_t token;      /* 0: not given */
    const char *subject; /* NAME or PREFIX; NULL: not given */
    snib *client;
    struct client_url url;
};

/* The options a command has beside --json and --help. */
enum {
    INQUIRY_URL = 1,
    INQUIRY_NAMES = 2,   /* --names */
    INQUIRY_YES = 4,     /* --yes, --force and --token */
    INQUIRY_SUBJECT = 8, /* may have an argument */
    INQUIRY_NEEDS = 16,  /* must have it */
    INQUIRY_PLACE = 32,  /* may have a URL as its argument */
    INQUIRY_ACL = 64     /* --acl */
};

/* Read the options. Answers -1 to go on, else the exit status. */
int inquiry_read(struct inquiry *, int argc, char *argv[], unsigned which, const char *help);
/* Open the client, if that was not yet done. Answers -1 to go on, else the exit status. */
int inquiry_open(struct inquiry *);
/* Close everything and make sure that all was written: `status`, or why not. */
int inquiry_end(struct inquiry *, int status);

/* The start of a document: its kind, version and URL. */
void inquiry_json(struct json *, const struct inquiry *, const char *kind);
/* "nightly: held, 2 waiting (file:/...)" and the table. */
void inquiry_print(const struct inquiry *, const struct parties *);
/* What the engine wants everybody to know, if there is such a thing; on stderr. */
void inquiry_notice(const struct inquiry *);

#endif
