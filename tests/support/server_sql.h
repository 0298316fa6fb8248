/*
 * Database servers for tests: private, in a temporary folder, on a free port of 127.0.0.1, as a
 * user without privileges, with one user "snib" who needs no password, and a database "snib".
 */
#ifndef SNIB_TESTS_SERVER_SQL_H
#define SNIB_TESTS_SERVER_SQL_H

#include "server.h"

/* `extra`: more arguments, ended by NULL; may be NULL. */
void server_postgres(struct server *server, const char *const extra[]);
void server_mariadb(struct server *server, const char *const extra[]);

/* In transaction mode unless another one is named, before that server. */
void server_pgbouncer(struct server *server, const struct server *postgres, const char *mode);

/* Runs SQL as the superuser "snib"; answers what it prints, to be freed, without the last newline.
 */
char *postgres_sql(const struct server *server, const char *sql);
char *mariadb_sql(const struct server *server, const char *sql);

#endif
