/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ENGINES_POSTGRES_H
#define SNIB_ENGINES_POSTGRES_H

/* What the files of this engine share; postgres.c says what it is. */

#include "sql/driver.h"

extern const struct sql_driver postgres_driver;

/* driver.c: what the server said about itself when we connected. */
int postgres_version(void *connection); /* 150002 */
int postgres_pid(void *connection);     /* of the process that serves us, as the protocol says */

/* greeting.c */
void postgres_greet(void *connection, const struct sql_target *, int64_t due_ns,
                    struct sql_welcome *);

/* findings.c */
extern const char postgres_examination[];
void postgres_examined(struct snib__query *, const struct sql_target *, const struct sql_answer *,
                       int64_t took_us);

#define POSTGRES_REMEDY                                                                            \
    "as the owner of the database, run: psql DATABASE -1 -f /usr/share/snib/postgres.sql; its "    \
    "end says what to grant"

#endif
