/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_TEXT_H
#define SNIB_SQL_TEXT_H

/*
 * Statements in the making. What comes from outside (names, labels, hosts) is written as
 * hexadecimal digits and never as itself: whatever it looks like, it cannot end a literal.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Stands for the number of the session that will send the statement. */
#define SQL_ME "@"

/* How an engine writes things. */
struct sql_style {
    const char *call; /* "SELECT * FROM snib.": what comes before the name of a routine */
    const char *blob, *blob_end;
    const char *begin, *commit; /* around several calls that are one transaction */
};

/* Zeroed is empty. */
struct sql_words {
    char *bytes;
    size_t used, room;
    bool failed; /* no memory: stays so */
};

void sql_say(struct sql_words *, const char *text);
void sql_say_number(struct sql_words *, int64_t number);
void sql_say_blob(struct sql_words *, const struct sql_style *, const void *bytes, size_t size);

/* A call: "c" its beginning, then per letter: b a text as blob, o an owner's 16 bytes, n an
 * int64_t, f a flag, m the session. */
void sql_say_call(struct sql_words *, const struct sql_style *, const char *mode,
                  const char *routine, const char *letters, ...);

/* Behind what is there, with the session's number in place of SQL_ME. */
void sql_say_as(struct sql_words *, const char *text, int64_t me);
void sql_words_free(struct sql_words *);

#endif
