/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_REQUEST_H
#define SNIB_CLI_REQUEST_H

#include <snib.h>

#include <stdbool.h>
#include <stddef.h>

enum request_verb { REQUEST_ACQUIRE, REQUEST_RELEASE, REQUEST_CANCEL, REQUEST_STATUS };

/* A command of a conversation. Texts point into its line. */
struct request {
    enum request_verb verb;
    char *name;        /* NULL: it did not come so far */
    snib_options lock; /* of acquire */
    char wrong[160];   /* why it was not understood */
};

/* Takes a line apart: a verb, a name and settings, between tabs. `usual` is what a setting is that
 * was not given. False: `wrong` says why. */
bool request_read(struct request *out, char *line, size_t length, const snib_options *usual);

#endif
