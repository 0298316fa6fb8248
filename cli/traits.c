/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traits by name: what --require asks of an engine.
 */
#include "traits.h"

#include "command.h"
#include "guess.h"
#include "say.h"

#include <stdio.h>
#include <string.h>

#define TRAITS_MOST 32

static const char *const *all_names(void)
{
    static const char *names[TRAITS_MOST + 1];
    size_t n = 0;
    for (unsigned bit = 0; bit < TRAITS_MOST; bit++) {
        const char *name = snib_trait_name(1U << bit);
        if (name) {
            names[n++] = name;
        }
    }
    names[n] = NULL;
    return names;
}

static unsigned by_name(const char *name)
{
    for (unsigned bit = 0; bit < TRAITS_MOST; bit++) {
        const char *known = snib_trait_name(1U << bit);
        if (known && strcmp(known, name) == 0) {
            return 1U << bit;
        }
    }
    return 0;
}

static int unknown(const char *word)
{
    const char *const *names = all_names();
    const char *meant = guess(word, names);
    if (meant) {
        return fail(STATUS_USAGE, "--require: no trait '%s'; did you mean '%s'?", word, meant);
    }
    char list[512] = "";
    for (size_t i = 0; names[i]; i++) {
        size_t used = strlen(list);
        (void)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    return fail(STATUS_USAGE, "--require: no trait '%s'; there are: %s", word, list);
}

int traits_read(unsigned *out, const char *text)
{
    for (;;) {
        char word[64];
        size_t length = strcspn(text, ",");
        (void)snprintf(word, sizeof word, "%.*s", (int)length, text);
        unsigned trait = by_name(word);
        if (!trait) {
            return unknown(word);
        }
        *out |= trait;
        if (text[length] == '\0') {
            return 0;
        }
        text += length + 1;
    }
}

int traits_check(const snib *client, unsigned wanted)
{
    unsigned missing = wanted & ~snib_traits(client);
    char list[512] = "";
    if (!missing) {
        return 0;
    }
    for (unsigned bit = 0; bit < TRAITS_MOST; bit++) {
        if (missing & (1U << bit)) {
            size_t used = strlen(list);
            (void)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                           snib_trait_name(1U << bit));
        }
    }
    return fail(STATUS_ENGINE, "%s does not promise: %s", snib_url(client), list);
}
