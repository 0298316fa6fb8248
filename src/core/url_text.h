/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_URL_TEXT_H
#define SNIB_URL_TEXT_H

/* What the parser (url.c) and the redactor (redact.c) share: pieces of a text. */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* [from, to); from NULL: not there. */
struct snib__span {
    const char *from, *to;
};

static inline size_t snib__span_length(struct snib__span span)
{
    return span.from != NULL ? (size_t)(span.to - span.from) : 0;
}

static inline int snib__hex_value(char c)
{
    const char *digits = "0123456789abcdef0123456789ABCDEF";
    const char *found = c != '\0' ? strchr(digits, c) : NULL;
    return found != NULL ? (int)((found - digits) % 16) : -1;
}

/* The byte that the escape at `p` stands for; -1 if there is none before `end`. */
static inline int snib__escaped(const char *p, const char *end)
{
    if (end - p < 3 || *p != '%' || snib__hex_value(p[1]) < 0 || snib__hex_value(p[2]) < 0) {
        return -1;
    }
    return snib__hex_value(p[1]) * 16 + snib__hex_value(p[2]);
}

/* What the redactor hides before the query. */
struct snib__span snib__url_secret(const char *text);

/* Is that the key of a secret? */
bool snib__url_secret_key(struct snib__span key);

#endif
