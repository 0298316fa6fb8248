/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_LINES_H
#define SNIB_CLI_LINES_H

#include <stdbool.h>
#include <stddef.h>

#define LINES_LONGEST 4096

/* Input cut into lines. Zeroed memory is one that has read nothing. */
struct lines {
    char text[LINES_LONGEST + 1];
    size_t used;   /* bytes that are there */
    size_t taken;  /* of them, those that were answered already */
    bool skipping; /* inside of a line that is too long */
};

enum lines_answer { LINES_NONE, LINES_ONE, LINES_TOO_LONG };

/* Reads once what there is. False: the input is at its end. */
bool lines_read(struct lines *lines, int fd);

/* The next whole line, without its newline, valid until the next call of either. A line that is
 * too long is told once, and then skipped. */
enum lines_answer lines_next(struct lines *lines, char **line, size_t *length);

#endif
