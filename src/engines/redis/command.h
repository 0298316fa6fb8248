/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_COMMAND_H
#define SNIB_REDIS_COMMAND_H

/*
 * One command on its way to the server: its arguments, and how they are encoded.
 */

#include "net/buffer.h"

#include <stddef.h>
#include <stdint.h>

#define SNIB__COMMAND_MOST 20

/* Not initialised but by snib__command_begin: there is one on the stack for each thing asked. */
struct snib__command {
    int argc;
    const char *argv[SNIB__COMMAND_MOST];
    size_t sizes[SNIB__COMMAND_MOST];
    size_t used;
    char room[1600]; /* for arguments that are made here */
};

static inline void snib__command_begin(struct snib__command *c)
{
    c->argc = 0;
    c->used = 0;
}

/* Borrowed: it must live until the command was sent or put into a buffer. */
void snib__command_bytes(struct snib__command *, const char *bytes, size_t size);
void snib__command_text(struct snib__command *, const char *text);

/* Made in the command itself. */
void snib__command_number(struct snib__command *, int64_t number);
void snib__command_format(struct snib__command *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, byte by byte: room for `most` of them, and then how many they became. */
char *snib__command_room(struct snib__command *, size_t most);
void snib__command_made(struct snib__command *, size_t size);

/* All of a short command, ended by NULL: "CLIENT", "SETNAME", name, NULL. */
void snib__command_words(struct snib__command *, ...) __attribute__((sentinel));

/* Append it as the protocol wants it; false: no memory, nothing was appended. */
bool snib__command_put(const struct snib__command *, struct snib__buffer *);

#endif
