/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_FAILURE_H
#define SNIB_FILE_FAILURE_H

/* Why something was refused. */
struct failure {
    int code, sys;
    char text[400];
};

/* Fill it and answer `code`. */
int snib__file_fail(struct failure *, int code, int sys, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
int snib__file_fail_memory(struct failure *) __attribute__((cold));
int snib__file_failure_code(int sys); /* EDENIED, ENOMEM or ESYS */

#endif
