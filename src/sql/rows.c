/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers are copied out of the client library at once, so that nothing above knows which it was.
 */
#include "sql/rows.h"

#include <stdlib.h>
#include <string.h>

struct sql_set *sql_answer_add(struct sql_answer *answer, size_t rows, size_t columns)
{
    struct sql_set *sets = realloc(answer->sets, (answer->count + 1) * sizeof *sets);
    if (!sets) {
        return NULL;
    }
    answer->sets = sets;
    struct sql_set *set = &sets[answer->count];
    *set = (struct sql_set){.rows = rows, .columns = columns};
    set->cells = calloc(rows * columns + 1, sizeof *set->cells);
    if (!set->cells) {
        return NULL;
    }
    answer->count++;
    return set;
}

bool sql_set_put(struct sql_set *set, size_t row, size_t column, const char *bytes, size_t size)
{
    char *copy = malloc(size + 1);
    if (!copy) {
        return false;
    }
    memcpy(copy, bytes, size);
    copy[size] = '\0';
    set->cells[row * set->columns + column] = copy;
    return true;
}

void sql_answer_free(struct sql_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++) {
        struct sql_set *set = &answer->sets[i];
        for (size_t k = 0; k < set->rows * set->columns; k++) {
            free(set->cells[k]);
        }
        free(set->cells);
    }
    free(answer->sets);
    *answer = (struct sql_answer){0};
}

const char *sql_text(const struct sql_answer *answer, size_t set, size_t row, size_t column)
{
    if (set >= answer->count || row >= answer->sets[set].rows ||
        column >= answer->sets[set].columns) {
        return "";
    }
    const char *cell = answer->sets[set].cells[row * answer->sets[set].columns + column];
    return cell ? cell : "";
}

int64_t sql_number(const struct sql_answer *answer, size_t set, size_t row, size_t column)
{
    return strtoll(sql_text(answer, set, row, column), NULL, 10);
}

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

void sql_bytes(char *out, size_t size, const struct sql_answer *answer, size_t set, size_t row,
               size_t column)
{
    const char *text = sql_text(answer, set, row, column);
    size_t n = 0;
    if (text[0] == '\\' && text[1] == 'x') {
        text += 2;
    }
    while (n + 1 < size && digit(text[0]) >= 0 && digit(text[1]) >= 0) {
        out[n++] = (char)(digit(text[0]) * 16 + digit(text[1]));
        text += 2;
    }
    out[n] = '\0';
}
