/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands are put straight into the buffer that is sent. hiredis would make each in memory of its
 * own with a printf per argument, which is most of what a renewal costs.
 */
#include "engines/redis/command.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DIGITS_MAX 24

void snib__command_bytes(struct snib__command *c, const char *bytes, size_t size)
{
    assert(c->argc < SNIB__COMMAND_MOST);
    c->argv[c->argc] = bytes;
    c->sizes[c->argc++] = size;
}

void snib__command_text(struct snib__command *c, const char *text)
{
    snib__command_bytes(c, text, strlen(text));
}

/* The digits of a number, without a zero behind them. */
static size_t print(char *out, uint64_t number)
{
    char digits[DIGITS_MAX];
    size_t n = 0;
    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    for (size_t i = 0; i < n; i++) {
        out[i] = digits[n - 1 - i];
    }
    return n;
}

void snib__command_number(struct snib__command *c, int64_t number)
{
    assert(c->used + DIGITS_MAX <= sizeof c->room);
    char *start = c->room + c->used;
    size_t size = 0;
    if (number < 0) {
        start[size++] = '-';
    }
    size += print(start + size, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
    c->used += size;
    snib__command_bytes(c, start, size);
}

void snib__command_format(struct snib__command *c, const char *format, ...)
{
    va_list args;
    char *start = c->room + c->used;
    va_start(args, format);
    int n = vsnprintf(start, sizeof c->room - c->used, format, args);
    va_end(args);
    assert(n >= 0 && (size_t)n < sizeof c->room - c->used);
    c->used += (size_t)n;
    snib__command_bytes(c, start, (size_t)n);
}

char *snib__command_room(struct snib__command *c, size_t most)
{
    assert(c->used + most <= sizeof c->room);
    return c->room + c->used;
}

void snib__command_made(struct snib__command *c, size_t size)
{
    snib__command_bytes(c, c->room + c->used, size);
    c->used += size;
}

void snib__command_words(struct snib__command *c, ...)
{
    va_list args;
    const char *word;
    snib__command_begin(c);
    va_start(args, c);
    while ((word = va_arg(args, const char *))) {
        snib__command_text(c, word);
    }
    va_end(args);
}

/* "*3\r\n" or "$11\r\n" */
static char *put_count(char *to, char sort, size_t count)
{
    *to++ = sort;
    to += print(to, count);
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

bool snib__command_put(const struct snib__command *c, struct snib__buffer *buffer)
{
    size_t most = 32;
    for (int i = 0; i < c->argc; i++) {
        most += 32 + c->sizes[i];
    }
    if (!snib__buffer_reserve(buffer, most)) {
        return false;
    }
    char *start = buffer->bytes + buffer->to;
    char *to = put_count(start, '*', (size_t)c->argc);
    for (int i = 0; i < c->argc; i++) {
        to = put_count(to, '$', c->sizes[i]);
        memcpy(to, c->argv[i], c->sizes[i]);
        to += c->sizes[i];
        *to++ = '\r';
        *to++ = '\n';
    }
    buffer->to += (size_t)(to - start);
    return true;
}
