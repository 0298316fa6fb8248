/*
 * MariaDB as a child of the test: see server.h.
 */
#ifndef SNIB_TESTS_SERVER_MARIADB_H
#define SNIB_TESTS_SERVER_MARIADB_H

#include "server.h"

/* At 127.0.0.1:port and on the Unix socket folder/socket, with a database "snib" and a user "snib"
 * (password "secret") who has all rights there and no other; "open" is the same without a password;
 * root has no password and all rights.
 * `extra`: more arguments, ended by NULL; may be NULL. */
void server_mariadb(struct server *server, const char *const extra[]);

/* One or more statements as root, by the mariadb command; fails the case when one of them fails.
 * The first line that they print, without its end; "" if none. */
const char *server_mariadb_ask(struct server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
