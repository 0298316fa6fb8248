/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_MYSQL_STATEMENTS_H
#define SNIB_MYSQL_STATEMENTS_H

#include "engines/mysql/settings.h"
#include "engines/sql/driver.h"

/* What a text is made for, beside its parameters. */
struct mysql_text_place {
    const struct mysql_settings *settings;
    const char *link; /* what this link calls itself: hexadecimal digits */
    bool maria;
    int64_t idle_s, patience_s; /* of a greeting */
};

/* The text of a request, to be freed; NULL: no memory, or a number is none. */
char *mysql_text(const struct mysql_text_place *, enum sql_statement,
                 const char *const parameters[], size_t *size);

/* What every link says first; its rows: see driver.c. */
char *mysql_text_greeting(const struct mysql_text_place *, size_t *size);

/* Undoes what a try may have left: it was answered by an error. */
char *mysql_text_undo(const struct mysql_text_place *, const char *const parameters[],
                      size_t *size);

#endif
