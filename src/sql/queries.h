/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_QUERIES_H
#define SNIB_SQL_QUERIES_H

#include "sql/sql.h"

void sql_queries_drop(struct sql *);

/* One finding. */
void sql_found(struct snib__query *, int verdict, const char *about, const char *remedy,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
