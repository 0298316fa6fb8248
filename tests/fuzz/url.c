/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes URLs: parser, parameters and redactor, and above all that no password is shown.
 *
 * Whatever the text, what is shown of it is printable. Of a URL that parses: written anew from its
 * parts it parses to the same parts; what is shown has stars for the password, is the same with
 * any other password, and is shown the same again. Of any text into which a password was put
 * between ':' and '@': neither the redacted text nor any message has it.
 */
#include "core/url.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST 4096

static const struct snib__param core_rows[] = {
    {.name = "ttl", .type = SNIB__DURATION, .normal = "30s", .min = 100, .max = 60000},
    {.name = "wait", .type = SNIB__DURATION, .min = 0, .max = INT64_MAX},
    {.name = "n", .type = SNIB__COUNT, .normal = "3", .min = 1, .max = 16},
    {.name = NULL},
};

static const struct snib__param engine_rows[] = {
    {.name = "tls", .type = SNIB__FLAG},
    {.name = "group", .type = SNIB__TEXT, .min = 1, .max = 8},
    {.name = "layout", .type = SNIB__CHOICE, .normal = "plain", .choices = "native|plain"},
    {.name = NULL},
};

static bool holds(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static char *redact(const char *text)
{
    char *shown = snib__url_redact(text);
    assert(shown != NULL);
    return shown;
}

static void check_printable(const char *text)
{
    char *shown = redact(text);
    for (const char *p = shown; *p != '\0'; p++) {
        assert(*p >= 0x20 && *p <= 0x7e);
    }
    free(shown);
}

static void check_parts(const struct snib__url *url, const struct snib__settings *settings)
{
    assert(url->scheme[0] >= 'a' && url->scheme[0] <= 'z');
    assert(url->user != NULL && url->password != NULL);
    assert(url->path[0] == '\0' || url->path[0] == '/');
    assert(url->host_count <= SNIB__HOSTS_MAX);
    for (size_t i = 0; i < url->host_count; i++) {
        assert(url->hosts[i].name[0] != '\0');
        assert(url->hosts[i].port >= 0 && url->hosts[i].port <= 65535);
    }
    for (size_t i = 0; i < settings->count; i++) {
        assert(settings->list[i].key[0] != '\0');
        for (size_t j = 0; j < i; j++) {
            assert(strcmp(settings->list[i].key, settings->list[j].key) != 0);
        }
    }
}

/* A message, unless the text itself has the password in a second place. */
static void check_silent(const char *message, const char *password, bool only_there)
{
    assert(strlen(message) < sizeof((snib_error *)0)->message);
    if (only_there) {
        assert(!holds(message, password));
    }
}

static void check_params(struct snib__settings *settings, const char *password, bool only_there)
{
    union snib__value values[4];
    snib_error error = {.code = 0};
    if (snib__params_read(values, core_rows, settings, &error) == 0) {
        assert(values[0].number >= 100 && values[0].number <= 60000);
        assert(values[1].number >= -1);
        assert(values[2].number >= 1 && values[2].number <= 16);
    } else {
        check_silent(error.message, password, only_there);
    }
    if (snib__params_read(values, engine_rows, settings, &error) == 0) {
        assert(values[0].number >= -1 && values[0].number <= 1);
        assert(values[1].text == NULL || strlen(values[1].text) - 1 < 8);
        assert(values[2].number >= 0 && values[2].number <= 1);
    } else {
        check_silent(error.message, password, only_there);
    }
    if (snib__params_all_used(settings, core_rows, engine_rows, &error) < 0) {
        check_silent(error.message, password, only_there);
    }
}

/* ---- Written anew ----------------------------------------------------------------------- */

static char *put(char *out, const char *text)
{
    for (; *text != '\0'; text++) {
        bool plain = *text >= 'a' && *text <= 'z';
        out += sprintf(out, plain ? "%c" : "%%%02X", (unsigned char)*text);
    }
    return out;
}

static void write_url(char *out, const struct snib__url *url, const struct snib__settings *settings)
{
    out += sprintf(out, "%s:", url->scheme);
    if (url->host_count > 0 || url->path[0] != '\0') {
        out = stpcpy(out, "//");
    }
    out = put(out, url->user);
    if (url->password[0] != '\0') {
        *out++ = ':';
        out = put(out, url->password);
    }
    if (url->password[0] != '\0' || url->user[0] != '\0') {
        *out++ = '@';
    }
    for (size_t i = 0; i < url->host_count; i++) {
        bool ipv6 = holds(url->hosts[i].name, ":");
        out += sprintf(out, "%s%s%s%s", i > 0 ? "," : "", ipv6 ? "[" : "", url->hosts[i].name,
                       ipv6 ? "]" : "");
        if (url->hosts[i].port > 0) {
            out += sprintf(out, ":%d", url->hosts[i].port);
        }
    }
    if (url->path[0] != '\0') {
        *out++ = '/';
        out = put(out, url->path + 1);
    }
    for (size_t i = 0; i < settings->count; i++) {
        out += sprintf(out, "%c%s", i > 0 ? '&' : '?', settings->list[i].key);
        if (settings->list[i].value != NULL) {
            *out++ = '=';
            out = put(out, settings->list[i].value);
        }
    }
    *out = '\0';
}

static void check_same(const struct snib__url *a, const struct snib__url *b)
{
    assert(strcmp(a->scheme, b->scheme) == 0);
    assert(strcmp(a->user, b->user) == 0);
    assert(strcmp(a->password, b->password) == 0);
    assert(strcmp(a->path, b->path) == 0);
    assert(a->host_count == b->host_count);
    for (size_t i = 0; i < a->host_count; i++) {
        assert(strcmp(a->hosts[i].name, b->hosts[i].name) == 0);
        assert(a->hosts[i].port == b->hosts[i].port);
    }
}

static void check_round_trip(const struct snib__url *url, const struct snib__settings *settings)
{
    static char text[4 * MOST];
    struct snib__url again;
    struct snib__settings more;

    write_url(text, url, settings);
    if (strlen(text) > 2048) {
        return;
    }
    assert(snib__url_parse(&again, &more, text, NULL) == 0);
    check_same(url, &again);
    assert(more.count == settings->count);
    for (size_t i = 0; i < more.count; i++) {
        const char *value = settings->list[i].value;
        assert(strcmp(more.list[i].key, settings->list[i].key) == 0);
        assert((value == NULL) == (more.list[i].value == NULL));
        assert(value == NULL || strcmp(value, more.list[i].value) == 0);
    }
    snib__url_free(&again, &more);
}

/* ---- Passwords -------------------------------------------------------------------------- */

/* Of a URL that parses: another password in the same place shows the same. (With an '&' it
 * may look like a query, and more is hidden.) Answers whether the text has the password only there.
 */
static bool check_password(const char *text, const char *password)
{
    static char other[MOST + 64];
    const char *colon = strchr(strstr(text, "://") + 3, ':');
    const char *at = strchr(colon, '@');
    int before = (int)(colon + 1 - text);
    bool odd = memchr(text, '&', (size_t)(at - text)) != NULL;

    (void)snprintf(other, sizeof other, "%.*sCorrect%%20Horse%s", before, text, at);
    char *shown = redact(text);
    char *shown_other = redact(other);
    char *again = redact(shown);
    assert(odd || strcmp(shown, shown_other) == 0);
    assert(odd || strcmp(shown, again) == 0);
    assert(odd || strncmp(shown, text, (size_t)before) == 0);
    assert(odd || strncmp(shown + before, "***@", 4) == 0);

    (void)snprintf(other, sizeof other, "%.*s%s", before, text, at);
    bool only_there = strlen(password) >= 4 && !holds(other, password) && !holds("***@", password);
    if (only_there) {
        assert(!holds(shown, password));
    }
    free(shown);
    free(shown_other);
    free(again);
    return only_there;
}

static void check_url(const char *text)
{
    struct snib__url url;
    struct snib__settings settings;
    snib_error error = {.code = 0};
    if (snib__url_parse(&url, &settings, text, &error) < 0) {
        assert(error.code == SNIB_EINVAL && error.message[0] != '\0');
        assert(url.scheme == NULL && settings.list == NULL);
        return;
    }
    bool only_there = false;
    if (url.password[0] != '\0') {
        only_there = check_password(text, url.password);
    }
    check_parts(&url, &settings);
    check_round_trip(&url, &settings);
    check_params(&settings, url.password, only_there);
    snib__url_free(&url, &settings);
}

/* A password with all that can go wrong in one, put between any two texts. */
static void check_planted(const char *before, const char *after)
{
    static const char *const secrets[] = {"Zq7Qz", "Zq7Qz@/?#&=:%Zq7Qz", "Zq7Qz&password=Zq7Qz"};
    static char text[2 * MOST];
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++) {
        struct snib__url url;
        struct snib__settings settings;
        snib_error error = {.code = 0};

        (void)snprintf(text, sizeof text, "redis://%s:%s@%s", before, secrets[i], after);
        char *shown = redact(text);
        assert(!holds(shown, "Zq7Qz"));
        free(shown);
        if (snib__url_parse(&url, &settings, text, &error) < 0) {
            assert(!holds(error.message, "Zq7Qz"));
        }
        snib__url_free(&url, &settings);

        (void)snprintf(text, sizeof text, "redis://%s?password=%s", before, secrets[i]);
        shown = redact(text);
        assert(!holds(shown, "Zq7Qz"));
        free(shown);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > MOST) {
        return 0;
    }
    char *text = malloc(size + 1);
    assert(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';

    check_printable(text);
    check_url(text);

    char *half = strchr(text, '^'); /* what stands before and behind the password */
    if (half != NULL) {
        *half++ = '\0';
    }
    if (!holds(text, "Zq7Qz") && (half == NULL || !holds(half, "Zq7Qz"))) {
        check_planted(text, half != NULL ? half : "");
    }
    free(text);
    return 0;
}
