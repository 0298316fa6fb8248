/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ENGINES_MYSQL_H
#define SNIB_ENGINES_MYSQL_H

/* What the files of this engine share; mysql.c says what it is. */

#include "sql/driver.h"

extern const struct sql_driver mysql_driver;

/* driver.c */
void mysql_prepare_library(void);
int64_t mysql_served_by(void *connection);           /* its number, as the protocol says */
bool mysql_bell(void *connection, const char *text); /* on the second one; blocks */

/* greeting.c */
void mysql_greet(void *connection, const struct sql_target *, int64_t due_ns, struct sql_welcome *);

/* findings.c */
extern const char mysql_examination[];
void mysql_examined(struct snib__query *, const struct sql_target *, const struct sql_answer *,
                    int64_t took_us);

/* The value of a server variable in a set of SHOW VARIABLES; "" where it has none. */
const char *mysql_variable(const struct sql_answer *, size_t set, const char *name);

/* Before a session's number: a lock of its first connection that the second one sleeps on. */
#define MYSQL_PILLOW "snib.p."

#define MYSQL_REMEDY                                                                               \
    "as somebody who may create tables and routines there, run: mysql DATABASE "                   \
    "</usr/share/snib/mysql.sql; its end says what to grant"

#endif
