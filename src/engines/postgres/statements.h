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

/* Whoever owns what is in the schema without being trusted; NULL: nobody. Its code would be
 * executed with our rights. A superuser is no member of anything here. */
#define PG_STRANGER                                                                                \
    "(SELECT pg_get_userbyid(o.owner) FROM (SELECT n.oid AS place, n.nspowner AS owner FROM "      \
    "pg_namespace n UNION ALL SELECT c.relnamespace, c.relowner FROM pg_class c WHERE c.relname "  \
    "IN ('token', 'seats', 'life', 'locks', 'stakes') UNION ALL SELECT p.pronamespace, "           \
    "p.proowner FROM pg_proc p WHERE p.proname IN ('revive', 'wake', 'attempt', 'release', "       \
    "'renew', 'ask')) o, pg_roles me WHERE me.rolname = current_user AND o.place = (SELECT n.oid " \
    "FROM pg_namespace n WHERE n.nspname = '^') AND o.owner <> me.oid AND o.owner NOT IN (SELECT " \
    "r.oid FROM pg_roles r WHERE r.rolsuper OR r.rolname = 'pg_database_owner' UNION ALL SELECT "  \
    "d.datdba FROM pg_database d WHERE d.datname = current_database()) AND (me.rolsuper OR NOT "   \
    "pg_has_role(o.owner, 'MEMBER')) LIMIT 1)"

/* A part of SQL_SETUP: this table is the other mode's. */
#define PG_NOT_BESIDE(table, mode)                                                                 \
    "IF to_regclass('@." table "') IS NOT NULL THEN RAISE EXCEPTION USING ERRCODE = 'SN001', "     \
    "MESSAGE = 'schema ^ is one of mode=" mode ": say another schema='; END IF; "

extern const char pg_greeting_lease[], pg_greeting[], pg_life[], pg_revive[];
extern const char *const pg_settings_first[]; /* in front of the greeting, ended by NULL */

#endif
