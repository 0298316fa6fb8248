/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_SECRET_H
#define SNIB_CLI_SECRET_H

/* A copy of a URL, which is hidden where it stood but for its scheme. NULL: out of memory. */
char *secret_take(char *argument);

/* Put back what may be seen of it. */
void secret_show(char *argument, const char *shown);

/* The variable's text is overwritten, and the variable removed. */
void secret_forget(const char *variable);

/* Wipes it; NULL is allowed. */
void secret_free(char *text);

#endif
