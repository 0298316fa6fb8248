/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_MYSQL_ERRORS_H
#define SNIB_MYSQL_ERRORS_H

#include "engines/sql/driver.h"

/* The server refused a statement with this error. *code: enum snib_code, if REFUSED. */
enum sql_outcome mysql_outcome(unsigned error, int *code);

/* A connection was not made, or broke, with this error of the server or of the library. */
int mysql_lost_code(unsigned error);

/* Somebody killed the statement, not the connection. */
bool mysql_interrupted(unsigned error);

#endif
