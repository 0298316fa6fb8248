/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_URL_H
#define SNIB_URL_H

#include "engines/engine.h"

/* The query part of a URL: decoded pairs in the order written. */
struct snib__setting {
    char *key;
    char *value;
    bool used;
};

struct snib__settings {
    struct snib__setting *list;
    size_t count;
};

/* Take a URL apart. Nothing is guessed or dropped: what is not understood is EINVAL, naming it. */
int snib__url_parse(struct snib__url *out, struct snib__settings *settings, const char *text,
                    snib_error *err);

/* Both may be half filled; secrets are wiped. */
void snib__url_free(struct snib__url *url, struct snib__settings *settings);

/* A copy fit for logs: no password, whatever the text looks like. NULL: out of memory. */
char *snib__url_redact(const char *text);

/* Read the rows an engine (or the core) knows from the settings, typed and range checked.
 * Texts stay owned by the settings. */
int snib__params_read(union snib__value values[], const struct snib__param rows[],
                      struct snib__settings *settings, snib_error *err);

bool snib__setting_given(struct snib__settings *settings, const char *name);

/* EINVAL if a setting was not used by anybody; suggests the nearest known name. */
int snib__params_all_used(const struct snib__settings *settings, const struct snib__param first[],
                          const struct snib__param second[], snib_error *err);

#endif
