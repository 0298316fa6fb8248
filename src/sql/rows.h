/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_SQL_ROWS_H
#define SNIB_SQL_ROWS_H

/* What statements answered, as text: one set of rows for each statement that has some. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sql_set {
    size_t rows, columns;
    char **cells; /* row by row; NULL where the database has NULL */
};

/* Zeroed is empty. */
struct sql_answer {
    struct sql_set *sets;
    size_t count;
};

/* NULL: no memory. The set has no cells yet. */
struct sql_set *sql_answer_add(struct sql_answer *, size_t rows, size_t columns);
bool sql_set_put(struct sql_set *, size_t row, size_t column, const char *bytes, size_t size);
void sql_answer_free(struct sql_answer *);

/* "" where there is none, or NULL. */
const char *sql_text(const struct sql_answer *, size_t set, size_t row, size_t column);
int64_t sql_number(const struct sql_answer *, size_t set, size_t row, size_t column);

/* What hexadecimal digits stand for, a "\x" before them or not; cut to fit, always ended. */
void sql_bytes(char *out, size_t size, const struct sql_answer *, size_t set, size_t row,
               size_t column);

#endif
