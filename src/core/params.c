/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URL parameters: from the pairs of a query to typed, range checked values.
 *
 * An engine (and the core) has a table of rows; each row takes at most one setting. Defaults are
 * written as a user would write them and go through the same reader, so that a table cannot have
 * a default which its own users could not choose. What no table knows is refused at the end, with
 * the nearest known name.
 *
 * Durations need a unit: "30" for seconds in one program and milliseconds in the next is how a
 * lease of 30 ms comes about. Nothing is rounded or clamped: what is out of range is refused, with
 * both limits. A key without '=' is a flag that is set, and an error for every other type.
 *
 * Messages quote the values of numbers, flags and choices, never those of texts, which may be
 * secrets.
 */
#include "core/url.h"

#include "base/distance.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define QUOTED_MAX 40
#define LISTED_MAX 160 /* of the known names in a message */

struct unit {
    const char *name;
    int64_t ms;
};

/* The largest that divides a duration is used to show it. */
static const struct unit units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

#define UNITS (sizeof units / sizeof units[0])

/* ---- Errors ----------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static int
refuse(snib_error *err, const struct snib__param *row, const char *format, ...)
{
    char why[280];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return snib__fail(err, SNIB_EINVAL, 0, "URL parameter '%.40s' %s", row->name, why);
}

struct quoted {
    char text[QUOTED_MAX + sizeof "..."];
};

/* Short and printable. */
static struct quoted quote(const char *value)
{
    struct quoted out;
    size_t used = 0;
    for (; used < QUOTED_MAX && value[used] != '\0'; used++) {
        char c = value[used];
        out.text[used] = c >= 0x20 && c <= 0x7e ? c : '_';
    }
    const char *more = value[used] != '\0' ? "..." : "";
    memcpy(out.text + used, more, strlen(more) + 1);
    return out;
}

static struct quoted duration_text(int64_t ms)
{
    struct quoted out;
    size_t i = 0;
    while (i < UNITS - 1 && (ms % units[i].ms != 0 || ms == 0)) {
        i++;
    }
    (void)snprintf(out.text, sizeof out.text, "%lld%s", (long long)(ms / units[i].ms),
                   units[i].name);
    return out;
}

/* `fits`: the number could be held at all. */
static int check_range(const struct snib__param *row, bool fits, int64_t number, const char *value,
                       snib_error *err)
{
    if (fits && number >= row->min && number <= row->max) {
        return 0;
    }
    if (row->type == SNIB__DURATION) {
        return refuse(err, row, "is '%s', allowed is %s to %s", quote(value).text,
                      duration_text(row->min).text, duration_text(row->max).text);
    }
    return refuse(err, row, "is '%s', allowed is %lld to %lld", quote(value).text,
                  (long long)row->min, (long long)row->max);
}

/* ---- Reading ---------------------------------------------------------------------------- */

/* The digits at *text; moves *text behind them. False if the number does not fit. */
static bool take_number(int64_t *out, const char **text)
{
    bool fits = true;
    *out = 0;
    for (; **text >= '0' && **text <= '9'; ++*text) {
        int digit = **text - '0';
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, digit, out)) {
            fits = false;
        }
    }
    return fits;
}

static int read_duration(int64_t *out, const struct snib__param *row, const char *value,
                         snib_error *err)
{
    const char *rest = value;
    int64_t number;
    bool fits = take_number(&number, &rest);
    if (rest == value) {
        return refuse(err, row, "is '%s', not a duration such as 500ms, 30s, 5m or 1h",
                      quote(value).text);
    }
    if (*rest == '\0') {
        return refuse(err, row, "is '%s' without a unit: write ms, s, m or h behind the number",
                      quote(value).text);
    }
    for (size_t i = 0; i < UNITS; i++) {
        if (strcmp(rest, units[i].name) == 0) {
            fits = !__builtin_mul_overflow(number, units[i].ms, out) && fits;
            return check_range(row, fits, *out, value, err);
        }
    }
    return refuse(err, row, "is '%s', not a whole number with one unit of ms, s, m and h",
                  quote(value).text);
}

static int read_count(int64_t *out, const struct snib__param *row, const char *value,
                      snib_error *err)
{
    const char *rest = value;
    bool fits = take_number(out, &rest);
    if (rest == value || *rest != '\0') {
        return refuse(err, row, "is '%s', not a whole number", quote(value).text);
    }
    return check_range(row, fits, *out, value, err);
}

static int read_flag(int64_t *out, const struct snib__param *row, const char *value,
                     snib_error *err)
{
    static const char *const words[] = {"no", "yes", "false", "true", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(value, words[i]) == 0) {
            *out = (int64_t)(i % 2);
            return 0;
        }
    }
    return refuse(err, row, "is '%s', neither yes, true, 1 nor no, false, 0", quote(value).text);
}

static int read_choice(int64_t *out, const struct snib__param *row, const char *value,
                       snib_error *err)
{
    const char *choice = row->choices;
    for (int64_t index = 0;; index++) {
        size_t size = strcspn(choice, "|");
        if (strlen(value) == size && memcmp(choice, value, size) == 0) {
            *out = index;
            return 0;
        }
        if (choice[size] == '\0') {
            return refuse(err, row, "is '%s', not one of %s", quote(value).text, row->choices);
        }
        choice += size + 1;
    }
}

static int read_text(const char **out, const struct snib__param *row, const char *value,
                     snib_error *err)
{
    int64_t size = (int64_t)strlen(value);
    if (size < row->min || size > row->max) {
        return refuse(err, row, "has %lld bytes, allowed is %lld to %lld", (long long)size,
                      (long long)row->min, (long long)row->max);
    }
    *out = value;
    return 0;
}

/* `value` NULL: the key stands there without '='. */
static int read_value(union snib__value *out, const struct snib__param *row, const char *value,
                      snib_error *err)
{
    if (value == NULL && row->type != SNIB__FLAG) {
        return refuse(err, row, "has no value: write %.40s=VALUE", row->name);
    }
    switch (row->type) {
    case SNIB__DURATION:
        return read_duration(&out->number, row, value, err);
    case SNIB__COUNT:
        return read_count(&out->number, row, value, err);
    case SNIB__FLAG:
        return read_flag(&out->number, row, value != NULL ? value : "yes", err);
    case SNIB__TEXT:
        return read_text(&out->text, row, value, err);
    case SNIB__CHOICE:
        return read_choice(&out->number, row, value, err);
    }
    return refuse(err, row, "has a type that is not known");
}

static struct snib__setting *find(struct snib__settings *settings, const char *name)
{
    for (size_t i = 0; i < settings->count; i++) {
        if (strcmp(settings->list[i].key, name) == 0) {
            return &settings->list[i];
        }
    }
    return NULL;
}

bool snib__setting_given(struct snib__settings *settings, const char *name)
{
    return find(settings, name) != NULL;
}

int snib__params_read(union snib__value values[], const struct snib__param rows[],
                      struct snib__settings *settings, snib_error *err)
{
    for (size_t i = 0; rows[i].name != NULL; i++) {
        struct snib__setting *setting = find(settings, rows[i].name);
        int rc = 0;
        if (setting != NULL) {
            setting->used = true;
            rc = read_value(&values[i], &rows[i], setting->value, err);
        } else if (rows[i].normal != NULL) {
            rc = read_value(&values[i], &rows[i], rows[i].normal, err);
        } else if (rows[i].type == SNIB__TEXT) {
            values[i].text = NULL;
        } else {
            values[i].number = -1;
        }
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* ---- What nobody knows ------------------------------------------------------------------ */

struct guess {
    const char *nearest; /* NULL: nothing is near */
    size_t distance;
    char list[LISTED_MAX + 1]; /* "ttl, timeout"; "" if it would be too long */
    size_t listed;
};

static void add_known(struct guess *guess, const struct snib__param rows[], const char *key)
{
    for (; rows != NULL && rows->name != NULL; rows++) {
        size_t size = strlen(rows->name);
        if (guess->listed + size + 2 <= LISTED_MAX) {
            char *end = guess->list + guess->listed;
            end = stpcpy(end, guess->listed > 0 ? ", " : "");
            end = stpcpy(end, rows->name);
            guess->listed = (size_t)(end - guess->list);
        } else {
            guess->listed = LISTED_MAX;
        }
        size_t distance = snib__distance(key, rows->name);
        if (distance < guess->distance && distance < size) {
            guess->nearest = rows->name;
            guess->distance = distance;
        }
    }
}

int snib__params_all_used(const struct snib__settings *settings, const struct snib__param first[],
                          const struct snib__param second[], snib_error *err)
{
    size_t i = 0;
    while (i < settings->count && settings->list[i].used) {
        i++;
    }
    if (i == settings->count) {
        return 0;
    }

    const char *key = settings->list[i].key;
    struct guess guess = {.distance = 3};
    add_known(&guess, first, key);
    add_known(&guess, second, key);
    char nearest[SNIB__DISTANCE_MOST + 32] = "";
    if (guess.nearest != NULL) {
        (void)snprintf(nearest, sizeof nearest, "; did you mean '%s'?", guess.nearest);
    }
    bool list = guess.listed > 0 && guess.listed < LISTED_MAX;
    return snib__fail(err, SNIB_EINVAL, 0, "unknown URL parameter '%s'%s%s%s", quote(key).text,
                      nearest, list ? "; known: " : "", list ? guess.list : "");
}
