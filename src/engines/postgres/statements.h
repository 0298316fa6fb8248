/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_POSTGRES_STATEMENTS_H
#define SNIB_POSTGRES_STATEMENTS_H

#include "engines/postgres/settings.h"

/* Fills settings->texts. False: no memory. */
bool pg_statements_make(struct pg_settings *);
void pg_statements_free(struct pg_settings *);

/* The one to send; *number is its name's. */
const char *pg_statement(const struct pg_settings *, const struct sql_request *, int *number);

/* For the greeting: `text` with the schema in it; free it. NULL: no memory. */
char *pg_with_schema(const struct pg_settings *, const char *text);

/* statements_lease.c */
extern const char *const pg_lease_statements[SQL_STATEMENTS];
extern const char *const pg_lease_tables[]; /* parts of SQL_SETUP there, ended by NULL */

extern const char pg_greeting[], pg_life[], pg_revive[];
extern const char *const pg_settings_first[]; /* in front of the greeting, ended by NULL */

#endif
