/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server's errors mean, in one table.
 *
 * An error starts with its word: "READONLY You can't write against a read only replica." One that a
 * command met inside a script is told in two ways, depending on the server:
 *
 *   Redis 6, KeyDB           ERR Error running script (call to f_SHA): @user_script:12:
 *                            @user_script: 12: -READONLY You can't write ...
 *   Redis 7 and 8, Valkey    READONLY You can't write ... script: SHA, on @user_script:12.
 *
 * so the word is looked for in front first, and then, but only in what a script met, further back.
 * In other errors a word further back is only what the server repeats of ours.
 *
 * Errors that are told before a command runs prove that nothing was executed. Those of a script do
 * not, in general; but ours begin with the command that would be refused, so that one which was
 * refused for the server's state has written nothing.
 */
#include "engines/redis/errors.h"

#include "snib.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct row {
    const char *word;
    enum snib__error_kind kind;
    int code;
    bool undone;
};

static const struct row words[] = {
    {"NOSCRIPT", SNIB__ERROR_NO_SCRIPT, SNIB_EPROTO, true},
    {"BUSY", SNIB__ERROR_LATER, SNIB_EUNREACH, true}, /* runs somebody's long script */
    {"UNKILLABLE", SNIB__ERROR_LATER, SNIB_EUNREACH, true},
    {"LOADING", SNIB__ERROR_LATER, SNIB_EUNREACH, true},
    {"MASTERDOWN", SNIB__ERROR_LATER, SNIB_EUNREACH, true},
    {"TRYAGAIN", SNIB__ERROR_LATER, SNIB_EUNREACH, true},
    {"CLUSTERDOWN", SNIB__ERROR_LATER, SNIB_EUNREACH, true},
    {"READONLY", SNIB__ERROR_MOVED, SNIB_EUNSAFE, true},
    {"MOVED", SNIB__ERROR_MOVED, SNIB_ENOTSUP, true},
    {"ASK", SNIB__ERROR_MOVED, SNIB_ENOTSUP, true},
    {"REDIRECT", SNIB__ERROR_MOVED, SNIB_EUNSAFE, true},
    {"NOAUTH", SNIB__ERROR_DENIED, SNIB_EDENIED, true},
    {"WRONGPASS", SNIB__ERROR_DENIED, SNIB_EDENIED, true},
    {"NOPERM", SNIB__ERROR_DENIED, SNIB_EDENIED, true},
    {"DENIED", SNIB__ERROR_DENIED, SNIB_EDENIED, true}, /* protected mode */
    {"WRONGTYPE", SNIB__ERROR_KIND, SNIB_EKIND, false},
    {"LAYOUT", SNIB__ERROR_REFUSED, SNIB_EKIND, false}, /* our scripts: of another version */
    {"OOM", SNIB__ERROR_REFUSED, SNIB_EUNSAFE, true},
    {"MISCONF", SNIB__ERROR_REFUSED, SNIB_EUNSAFE, true},
    {"NOREPLICAS", SNIB__ERROR_REFUSED, SNIB_EUNSAFE, true},
    {"CROSSSLOT", SNIB__ERROR_REFUSED, SNIB_ENOTSUP, true},
};

/* And some have only "ERR". */
static const struct row phrases[] = {
    {"unauthenticated", SNIB__ERROR_DENIED, SNIB_EDENIED, true}, /* too long without AUTH */
    {"without any password", SNIB__ERROR_DENIED, SNIB_EDENIED, true},
    {"invalid password", SNIB__ERROR_DENIED, SNIB_EDENIED, true},
    {"DB index is out of range", SNIB__ERROR_REFUSED, SNIB_EINVAL, true},
    {"SELECT is not allowed", SNIB__ERROR_REFUSED, SNIB_ENOTSUP, true},
    {"max number of clients", SNIB__ERROR_LATER, SNIB_EUNREACH, true},
    {"unknown command", SNIB__ERROR_DENIED, SNIB_ENOTSUP, true},
    {"unknown subcommand", SNIB__ERROR_DENIED, SNIB_ENOTSUP, true},
    {"Unknown subcommand", SNIB__ERROR_DENIED, SNIB_ENOTSUP, true},
    {"can't run this command", SNIB__ERROR_DENIED, SNIB_EDENIED, true},
};

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

static const struct row *by_word(const char *text)
{
    size_t size = strcspn(text, " \r\n.,");
    for (size_t i = 0; i < COUNT(words); i++) {
        if (strlen(words[i].word) == size && memcmp(words[i].word, text, size) == 0) {
            return &words[i];
        }
    }
    return NULL;
}

/* The word of what a command inside a script met. */
static const struct row *nested(const char *text)
{
    const struct row *found = NULL;
    const char *script = strstr(text, "Error running script");
    const char *blank = script ? strchr(script, ' ') : NULL;
    while (blank && !found) {
        const char *word = blank + 1;
        found = by_word(*word == '-' ? word + 1 : word);
        blank = strchr(word, ' ');
    }
    return found;
}

static const struct row *by_phrase(const char *text)
{
    for (size_t i = 0; i < COUNT(phrases); i++) {
        if (strstr(text, phrases[i].word)) {
            return &phrases[i];
        }
    }
    return NULL;
}

struct snib__error snib__error_read(const char *text)
{
    static const struct row unknown = {"ERR", SNIB__ERROR_REFUSED, SNIB_EPROTO, false};
    const struct row *row = by_word(text);
    row = row ? row : nested(text);
    const char *word = row ? row->word : "ERR";
    row = row ? row : by_phrase(text);
    row = row ? row : &unknown;
    struct snib__error error = {.kind = row->kind, .code = row->code, .undone = row->undone};
    snprintf(error.word, sizeof error.word, "%s", word);
    return error;
}

/* Some servers say of a script's command only that it may not be run. */
static bool lacks_right(const struct snib__error *error, const char *text)
{
    return strcmp(error->word, "NOPERM") == 0 || strstr(text, "can't run this command");
}

void snib__error_say(char out[SNIB__ERROR_SAID], const char *text)
{
    struct snib__error error = snib__error_read(text);
    const char *own = strcmp(error.word, "LAYOUT") == 0 ? strstr(text, "LAYOUT ") : NULL;
    text = own ? own + strlen("LAYOUT ") : text;
    size_t size = strcspn(text, "\r\n");
    const char *place = strstr(text, " script: "); /* "... script: SHA, on @user_script:12." */
    size = place && (size_t)(place - text) < size ? (size_t)(place - text) : size;
    bool denied = lacks_right(&error, text);
    snprintf(out, SNIB__ERROR_SAID, "%s%.*s%s",
             denied && strcmp(error.word, "NOPERM") != 0 ? "NOPERM: " : "",
             size < 200 ? (int)size : 200, text,
             denied ? " (`snib doctor --acl URL` prints the rights it needs)" : "");
}
