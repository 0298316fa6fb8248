/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_TABLE_H
#define SNIB_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 10

/* Rows of text, printed with aligned columns; a column that is empty in all rows is left out. */
struct table {
    size_t columns;
    const char *heads[TABLE_COLUMNS_MAX];
    char **cells; /* row by row */
    size_t count, room;
};

enum paint { PAINT_NONE, PAINT_HEAD, PAINT_GOOD, PAINT_WARN };

/* The next cell, left to right, row by row. */
void table_add(struct table *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_print(const struct table *, FILE *out, const char *indent);
void table_free(struct table *);

/* Only on a terminal, and not where NO_COLOR or TERM=dumb asks for none. */
bool paint_wanted(FILE *out);
void paint(FILE *out, enum paint, const char *text);

/* Other people's text: what a terminal would obey is shown as U+FFFD. */
void print_safe(FILE *out, const char *text);

#endif
