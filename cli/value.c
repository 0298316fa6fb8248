/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers and times as people write them on a command line.
 *
 * Everything is done in integers: a number is its digits over a power of ten, so "0.1s" is
 * exactly 100 ms, and what is not a whole number of milliseconds is seen as such.
 */
#include "value.h"

#include <stddef.h>
#include <string.h>

#define YEAR_MS (365LL * 24 * 3600 * 1000)

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}, {"d", 24 * 3600 * 1000},
};

/* Digits, perhaps with a point among them: *digits / *scale. Answers what follows; NULL: none. */
static const char *number(const char *text, int64_t *digits, int64_t *scale)
{
    int64_t point = 0;
    int seen = 0;
    *digits = 0;
    *scale = 1;
    for (; (*text >= '0' && *text <= '9') || (*text == '.' && !point); text++) {
        if (*text == '.') {
            point = 1;
            continue;
        }
        if (*digits > 99999999999 || *scale > 999999) {
            return NULL;
        }
        *digits = *digits * 10 + (*text - '0');
        *scale *= point ? 10 : 1;
        seen++;
    }
    return seen > 0 ? text : NULL;
}

/* In the given unit. `up`: parts of a millisecond count as a whole one. */
static bool in_ms(int64_t *out, int64_t digits, int64_t scale, int64_t unit_ms, bool up)
{
    int64_t product;
    if (__builtin_mul_overflow(digits, unit_ms, &product) || product / scale > YEAR_MS) {
        return false;
    }
    bool exact = product % scale == 0;
    *out = product / scale + (up && !exact ? 1 : 0);
    return exact || up;
}

static bool duration(int64_t *out, const char *text, bool up)
{
    int64_t digits, scale;
    const char *rest = number(text, &digits, &scale);
    if (!rest) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(rest, units[i].name) == 0) {
            return in_ms(out, digits, scale, units[i].ms, up);
        }
    }
    *out = 0;
    return *rest == '\0' && digits == 0;
}

bool value_duration_ms(int64_t *out, const char *text)
{
    return duration(out, text, false);
}

bool value_seconds_ms(int64_t *out, const char *text)
{
    int64_t digits, scale;
    const char *rest = number(text, &digits, &scale);
    if (rest && *rest == '\0') {
        return in_ms(out, digits, scale, 1000, true);
    }
    return duration(out, text, true);
}

bool value_count(unsigned *out, const char *text, unsigned min, unsigned max)
{
    uint64_t n = 0;
    size_t length = strlen(text);
    if (length == 0 || length > 9 || strspn(text, "0123456789") != length) {
        return false;
    }
    for (const char *p = text; *p; p++) {
        n = n * 10 + (uint64_t)(*p - '0');
    }
    *out = (unsigned)n;
    return n >= min && n <= max;
}
