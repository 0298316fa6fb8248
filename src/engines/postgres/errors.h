/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_POSTGRES_ERRORS_H
#define SNIB_POSTGRES_ERRORS_H

#include "engines/sql/driver.h"

/* What a refusal means: `state` is five letters of SQLSTATE, "" if there are none. */
enum sql_outcome pg_error_outcome(const char *state, int *code);

/* One line, without "FATAL: " and line ends. */
void pg_error_line(char *out, size_t size, const char *message);

/* Why a connection could not be made: enum snib_code. */
int pg_error_of_connection(const char *message);

#endif
