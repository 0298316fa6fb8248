/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer of JSON, pretty enough to be read by people, or on one line for programs.
 *
 * Whatever bytes come in, a valid document goes out, and one that may be shown on a terminal:
 * control characters are escaped, those of C1 and DEL too, and every byte that is not UTF-8 becomes
 * U+FFFD. Errors of the stream are left in the stream, for whoever closes it.
 */
#include "json.h"
#include "utf8.h"

#include <assert.h>
#include <inttypes.h>

static void escape(FILE *out, uint32_t character)
{
    switch (character) {
    case '"':
    case '\\':
        fprintf(out, "\\%c", (int)character);
        break;
    case '\n':
        fputs("\\n", out);
        break;
    case '\t':
        fputs("\\t", out);
        break;
    case UTF8_INVALID:
        fputs("\\ufffd", out);
        break;
    default:
        fprintf(out, "\\u%04" PRIx32, character);
    }
}

/* U+2028 and U+2029 end a line in some readers. */
static bool must_escape(uint32_t character)
{
    return utf8_is_unsafe(character) || character == '"' || character == '\\' ||
           character == 0x2028 || character == 0x2029;
}

static void quote(FILE *out, const char *text)
{
    size_t size;
    putc('"', out);
    for (; *text; text += size) {
        uint32_t character = utf8_next(text, &size);
        if (must_escape(character)) {
            escape(out, character);
        } else {
            fwrite(text, 1, size, out);
        }
    }
    putc('"', out);
}

static void line(struct json *j)
{
    if (j->compact) {
        return;
    }
    putc('\n', j->out);
    for (unsigned i = 0; i < j->depth; i++) {
        fputs("  ", j->out);
    }
}

static void start(struct json *j, const char *key)
{
    if (j->inside) {
        fputs(j->compact ? ", " : ",", j->out);
    }
    if (j->depth > 0) {
        line(j);
    }
    if (key) {
        quote(j->out, key);
        fputs(": ", j->out);
    }
    j->inside = true;
}

void json_open(struct json *j, const char *key, char bracket)
{
    start(j, key);
    putc(bracket, j->out);
    j->depth++;
    j->inside = false;
}

void json_close(struct json *j, char bracket)
{
    assert(j->depth > 0);
    j->depth--;
    if (j->inside) {
        line(j);
    }
    putc(bracket, j->out);
    j->inside = true;
    if (j->depth == 0) {
        putc('\n', j->out);
    }
}

void json_text(struct json *j, const char *key, const char *value)
{
    if (!value) {
        json_null(j, key);
        return;
    }
    start(j, key);
    quote(j->out, value);
}

void json_integer(struct json *j, const char *key, int64_t value)
{
    start(j, key);
    fprintf(j->out, "%" PRId64, value);
}

void json_boolean(struct json *j, const char *key, bool value)
{
    start(j, key);
    fputs(value ? "true" : "false", j->out);
}

void json_null(struct json *j, const char *key)
{
    start(j, key);
    fputs("null", j->out);
}

void json_token(struct json *j, const char *key, uint64_t value)
{
    if (value == 0) {
        json_null(j, key);
        return;
    }
    start(j, key);
    fprintf(j->out, "\"%" PRIu64 "\"", value);
}
