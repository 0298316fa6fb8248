/* SPDX-License-Identifier: Apache-2.0 */
/* See text.h. */
#include "sql/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(struct sql_words *w, const char *bytes, size_t size)
{
    if (w->failed) {
        return;
    }
    if (w->used + size + 1 > w->room) {
        size_t room = 2 * (w->used + size) + 256;
        char *more = realloc(w->bytes, room);
        if (!more) {
            w->failed = true;
            return;
        }
        w->bytes = more;
        w->room = room;
    }
    memcpy(w->bytes + w->used, bytes, size);
    w->used += size;
    w->bytes[w->used] = '\0';
}

void sql_say(struct sql_words *w, const char *text)
{
    append(w, text, strlen(text));
}

void sql_say_number(struct sql_words *w, int64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, number);
    sql_say(w, digits);
}

void sql_say_blob(struct sql_words *w, const struct sql_style *style, const void *bytes,
                  size_t size)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = bytes;
    sql_say(w, style->blob);
    for (size_t i = 0; i < size; i++) {
        char two[2] = {digits[p[i] >> 4], digits[p[i] & 15]};
        append(w, two, 2);
    }
    sql_say(w, style->blob_end);
}

void sql_say_call(struct sql_words *w, const struct sql_style *style, const char *mode,
                  const char *routine, const char *letters, ...)
{
    va_list args;
    va_start(args, letters);
    sql_say(w, style->call);
    sql_say(w, mode);
    sql_say(w, "_");
    sql_say(w, routine);
    for (size_t i = 0; letters[i]; i++) {
        sql_say(w, i == 0 ? "(" : ",");
        switch (letters[i]) {
        case 'b': {
            const char *text = va_arg(args, const char *);
            sql_say_blob(w, style, text, strlen(text));
            break;
        }
        case 'o':
            sql_say_blob(w, style, va_arg(args, const unsigned char *), 16);
            break;
        case 'n':
            sql_say_number(w, va_arg(args, int64_t));
            break;
        case 'f':
            sql_say(w, va_arg(args, int) ? "true" : "false");
            break;
        default:
            sql_say(w, SQL_ME);
            break;
        }
    }
    sql_say(w, ");");
    va_end(args);
}

void sql_say_as(struct sql_words *w, const char *text, int64_t me)
{
    const char *mark;
    while ((mark = strstr(text, SQL_ME)) != NULL) {
        append(w, text, (size_t)(mark - text));
        sql_say_number(w, me);
        text = mark + strlen(SQL_ME);
    }
    sql_say(w, text);
}

void sql_words_free(struct sql_words *w)
{
    free(w->bytes);
    *w = (struct sql_words){0};
}
