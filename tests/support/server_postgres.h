/*
 * PostgreSQL as a child of the test: see server.h.
 */
#ifndef SNIB_TESTS_SERVER_POSTGRES_H
#define SNIB_TESTS_SERVER_POSTGRES_H

#include "server.h"

/* A server of its own at 127.0.0.1:port, user `snib`, database `postgres`, no password. `extra`:
 * more settings as "name=value", ended by NULL; may be NULL. SKIPs where there is none to be had;
 * $SNIB_TEST_POSTGRES names the folder of its programs. */
void server_postgres(struct server *server, const char *const extra[]);

/* The same in two steps, for those who want to add settings: prepare, server_argument, start. */
void server_postgres_prepare(struct server *server, const char *name);

/* The folder of PostgreSQL's programs. */
const char *server_postgres_programs(void);

#endif
