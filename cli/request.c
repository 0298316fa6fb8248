/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of a conversation: acquire<TAB>NAME<TAB>wait=5, release<TAB>NAME, and so on.
 *
 * Names and labels hold no control characters, so a tab separates and nothing is ever quoted.
 */
#include "request.h"

#include "value.h"

#include <stdio.h>
#include <string.h>

static bool wrong(struct request *r, const char *what, const char *text)
{
    (void)snprintf(r->wrong, sizeof r->wrong, "%s '%.60s'", what, text);
    return false;
}

/* The text up to the next tab, which it ends there; *rest is what follows, or NULL. */
static char *next_field(char **rest)
{
    char *field = *rest;
    char *tab = strchr(field, '\t');
    *rest = tab ? tab + 1 : NULL;
    if (tab) {
        *tab = '\0';
    }
    return field;
}

static bool set_wait(snib_options *o, const char *text)
{
    if (strcmp(text, "forever") == 0) {
        o->wait_ms = -1;
        return true;
    }
    return value_seconds_ms(&o->wait_ms, text);
}

static bool set_mode(snib_options *o, const char *text)
{
    bool shared = strcmp(text, "shared") == 0;
    o->mode = shared ? SNIB_SHARED : SNIB_EXCLUSIVE;
    o->permits = 1;
    return shared || strcmp(text, "exclusive") == 0;
}

static bool set_permits(snib_options *o, const char *text)
{
    o->mode = SNIB_COUNTED;
    return value_count(&o->permits, text, 1, 1000);
}

static bool set_ttl(snib_options *o, const char *text)
{
    return value_duration_ms(&o->ttl_ms, text) && o->ttl_ms > 0;
}

static bool set_max_hold(snib_options *o, const char *text)
{
    return value_duration_ms(&o->max_hold_ms, text) && o->max_hold_ms > 0;
}

static bool set_label(snib_options *o, const char *text)
{
    o->label = text;
    return true;
}

enum { WAIT, MODE, PERMITS, TTL, LABEL, MAX_HOLD, SETTINGS };

static const struct setting {
    const char *key;
    bool (*set)(snib_options *, const char *);
    const char *wants; /* what was not understood */
} settings[SETTINGS] = {
    [WAIT] = {"wait", set_wait, "wait is a time such as 5, 0.5 or 10m, or forever, not"},
    [MODE] = {"mode", set_mode, "mode is exclusive or shared, not"},
    [PERMITS] = {"permits", set_permits, "permits is 1 to 1000, not"},
    [TTL] = {"ttl", set_ttl, "ttl is a time such as 500ms, 30s or 5m, not"},
    [LABEL] = {"label", set_label, ""},
    [MAX_HOLD] = {"max-hold", set_max_hold, "max-hold is a time such as 500ms, 30s or 5m, not"},
};

/* One setting, as key=value. `seen` has a bit for each that came before. */
static bool read_setting(struct request *r, const char *field, unsigned *seen)
{
    size_t length = strcspn(field, "=");
    for (unsigned i = 0; i < SETTINGS && field[length]; i++) {
        if (strncmp(settings[i].key, field, length) != 0 || settings[i].key[length] != '\0') {
            continue;
        }
        if (*seen & 1U << i) {
            return wrong(r, "given twice:", settings[i].key);
        }
        *seen |= 1U << i;
        const char *value = field + length + 1;
        return settings[i].set(&r->lock, value) || wrong(r, settings[i].wants, value);
    }
    return wrong(r, "unknown setting", field);
}

static bool read_settings(struct request *r, char *rest)
{
    unsigned seen = 0;
    while (rest) {
        if (r->verb != REQUEST_ACQUIRE) {
            return wrong(r, "nothing may follow the name:", rest);
        }
        if (!read_setting(r, next_field(&rest), &seen)) {
            return false;
        }
    }
    bool both = (seen & 1U << MODE) && (seen & 1U << PERMITS);
    return !both || wrong(r, "mode and permits do not go together:", r->name);
}

#define BLANK "a tab separates the fields, not a blank (printf 'acquire\\tNAME\\twait=5\\n'):"

static bool blank_behind(const char *text, const char *const verbs[4])
{
    size_t length = strcspn(text, " ");
    for (size_t i = 0; i < 4 && text[length] == ' '; i++) {
        if (strlen(verbs[i]) == length && strncmp(text, verbs[i], length) == 0) {
            return true;
        }
    }
    return false;
}

/* Is this text one of the settings? */
static bool is_setting(const char *text)
{
    size_t length = strcspn(text, "= ");
    for (unsigned i = 0; i < SETTINGS && text[length] == '='; i++) {
        if (strlen(settings[i].key) == length && strncmp(settings[i].key, text, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Blanks belong to names, but not before a setting: that was meant to be a tab. */
static bool swallows_setting(const char *name)
{
    for (const char *blank = strchr(name, ' '); blank; blank = strchr(blank + 1, ' ')) {
        if (is_setting(blank + 1)) {
            return true;
        }
    }
    return false;
}

bool request_read(struct request *r, char *line, size_t length, const snib_options *usual)
{
    static const char *const verbs[] = {"acquire", "release", "cancel", "status"};
    char *rest = line;
    *r = (struct request){.lock = *usual};
    if (length == 0 || strlen(line) != length) {
        return wrong(r, length ? "a NUL byte behind" : "an empty line:", line);
    }
    const char *verb = next_field(&rest);
    size_t i = 0;
    while (i < 4 && strcmp(verb, verbs[i]) != 0) {
        i++;
    }
    if (i == 4) {
        return wrong(r, blank_behind(verb, verbs) ? BLANK : "unknown command", verb);
    }
    r->verb = (enum request_verb)i;
    if (!rest || *rest == '\0' || *rest == '\t') {
        return wrong(r, "no name behind", verb);
    }
    r->name = next_field(&rest);
    if (r->verb == REQUEST_ACQUIRE && swallows_setting(r->name)) {
        const char *taken = r->name;
        r->name = NULL; /* nobody's */
        return wrong(r, BLANK, taken);
    }
    return read_settings(r, rest);
}
