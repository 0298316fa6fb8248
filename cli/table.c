/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligned columns, and colour where somebody sees it.
 *
 * A column is as wide as its widest cell, counted in characters; double-width ones shift what
 * follows, which nobody has to parse: there is --json. Memory that runs out ends the program, as
 * everywhere in the command.
 */
#include "table.h"
#include "utf8.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *must_have(void *memory)
{
    if (!memory) {
        fputs("snib: out of memory\n", stderr);
        exit(70);
    }
    return memory;
}

void table_add(struct table *t, const char *format, ...)
{
    va_list args;
    char *cell = NULL;
    if (t->count == t->room) {
        t->room = t->room ? t->room * 2 : 64;
        t->cells = must_have(realloc(t->cells, t->room * sizeof *t->cells));
    }
    va_start(args, format);
    if (vasprintf(&cell, format, args) < 0) {
        cell = NULL;
    }
    va_end(args);
    t->cells[t->count++] = must_have(cell);
}

static size_t width_of(const char *text)
{
    size_t width = 0, size;
    for (; *text; text += size) {
        utf8_next(text, &size);
        width++;
    }
    return width;
}

void print_safe(FILE *out, const char *text)
{
    size_t size;
    for (; *text; text += size) {
        if (utf8_is_unsafe(utf8_next(text, &size))) {
            fputs("\xef\xbf\xbd", out);
        } else {
            fwrite(text, 1, size, out);
        }
    }
}

/* 0: nothing in that column. */
static size_t column_width(const struct table *t, size_t column)
{
    size_t most = 0;
    for (size_t i = column; i < t->count; i += t->columns) {
        size_t width = width_of(t->cells[i]);
        most = width > most ? width : most;
    }
    size_t head = width_of(t->heads[column]);
    return most == 0 ? 0 : most > head ? most : head;
}

static void print_row(const struct table *t, FILE *out, const char *indent, char *const cells[],
                      const size_t widths[])
{
    size_t owed = strlen(indent); /* blanks are paid when something follows: none at the end */
    for (size_t c = 0; c < t->columns; c++) {
        if (widths[c] == 0) {
            continue;
        }
        const char *text = cells ? cells[c] : t->heads[c];
        if (text[0]) {
            fprintf(out, "%*s", (int)owed, "");
            if (cells) {
                print_safe(out, text);
            } else {
                paint(out, PAINT_HEAD, text);
            }
            owed = 0;
        }
        owed += widths[c] - width_of(text) + 2;
    }
    putc('\n', out);
}

void table_print(const struct table *t, FILE *out, const char *indent)
{
    size_t widths[TABLE_COLUMNS_MAX];
    for (size_t c = 0; c < t->columns; c++) {
        widths[c] = column_width(t, c);
    }
    print_row(t, out, indent, NULL, widths);
    for (size_t i = 0; i + t->columns <= t->count; i += t->columns) {
        print_row(t, out, indent, t->cells + i, widths);
    }
}

void table_free(struct table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->cells[i]);
    }
    free(t->cells);
    t->cells = NULL;
    t->count = t->room = 0;
}

bool paint_wanted(FILE *out)
{
    const char *none = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return isatty(fileno(out)) && !(none && none[0]) && terminal && strcmp(terminal, "dumb") != 0;
}

void paint(FILE *out, enum paint colour, const char *text)
{
    static const char *const codes[] = {
        [PAINT_NONE] = "",
        [PAINT_HEAD] = "\033[2m",
        [PAINT_GOOD] = "\033[32m",
        [PAINT_WARN] = "\033[1;33m",
    };
    bool coloured = colour != PAINT_NONE && paint_wanted(out);
    fputs(coloured ? codes[colour] : "", out);
    print_safe(out, text);
    fputs(coloured ? "\033[0m" : "", out);
}
