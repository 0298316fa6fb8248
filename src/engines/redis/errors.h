/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_ERRORS_H
#define SNIB_REDIS_ERRORS_H

/*
 * What the server's errors mean to us.
 */

#include <stdbool.h>

enum snib__error_kind {
    SNIB__ERROR_NO_SCRIPT, /* send its text */
    SNIB__ERROR_LATER,     /* may pass by itself */
    SNIB__ERROR_MOVED,     /* this server is not, or no more, the one to ask: look again */
    SNIB__ERROR_DENIED,    /* we may not, or it does not know how: asking again is of no use */
    SNIB__ERROR_KIND,      /* the key is not one of ours */
    SNIB__ERROR_REFUSED    /* it cannot do it as things are: `code` says why */
};

struct snib__error {
    enum snib__error_kind kind;
    int code;      /* enum snib_code */
    bool undone;   /* proof that nothing was executed */
    char word[16]; /* "READONLY"; "ERR" if the server has no word for it */
};

struct snib__error snib__error_read(const char *text);

#define SNIB__ERROR_SAID 300

/* The same for people: without our own words and without where in a script it was met; and of a
 * right that is missing, where to see which ones are needed. */
void snib__error_say(char out[SNIB__ERROR_SAID], const char *text);

#endif
