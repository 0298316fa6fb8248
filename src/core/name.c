/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of locks, and labels: what may be one.
 *
 * UTF-8 as RFC 3629 has it (nothing overlong, no surrogates, nothing above U+10FFFF), without the
 * control characters U+0000 to U+001F and U+007F to U+009F. So a name means the same bytes on
 * every engine, and can be shown in a log or on a terminal as it is.
 *
 * Names are compared byte by byte. They are not normalised: that would need tables which change
 * from one year to the next, and two hosts with different tables would lock two things. Engines
 * encode what their service cannot hold.
 *
 * Messages give positions, not the name: it may hold what must not reach a terminal.
 */
#include "core/name.h"

#include "engines/engine.h"

#include <string.h>

static bool is_tail(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

/* The bytes of the character at `p`, which ends with a NUL; 0 if they are none. The second byte
 * has a smaller range behind E0 (overlong), ED (surrogates), F0 (overlong) and F4 (too large). */
static size_t character_size(const unsigned char *p)
{
    if (p[0] < 0x80) {
        return 1;
    }
    if (p[0] < 0xc2 || p[0] > 0xf4) {
        return 0;
    }
    if (!is_tail(p[1]) || (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) {
        return 0;
    }
    size_t size = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    for (size_t i = 2; i < size; i++) {
        if (!is_tail(p[i])) {
            return 0;
        }
    }
    return size;
}

static bool is_control(const unsigned char *p)
{
    return p[0] < 0x20 || p[0] == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0);
}

static int check_characters(const char *what, const char *text, snib_error *err)
{
    const unsigned char *start = (const unsigned char *)text;
    const unsigned char *p = start;
    while (*p >= 0x20 && *p < 0x7f) { /* most names are nothing else */
        p++;
    }
    while (*p != '\0') {
        size_t size = character_size(p);
        if (size == 0) {
            return snib__fail(err, SNIB_EINVAL, 0, "%s is not UTF-8 at byte %zu", what,
                              (size_t)(p - start) + 1);
        }
        if (is_control(p)) {
            return snib__fail(err, SNIB_EINVAL, 0, "%s has a control character at byte %zu", what,
                              (size_t)(p - start) + 1);
        }
        p += size;
    }
    return 0;
}

int snib__name_check(const char *name, snib_error *err)
{
    if (name == NULL || *name == '\0') {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "the name of the lock is empty, allowed is 1 to %d bytes",
                          SNIB__NAME_MAX);
    }
    size_t size = strlen(name);
    if (size > SNIB__NAME_MAX) {
        return snib__fail(err, SNIB_EINVAL, 0,
                          "the name of the lock has %zu bytes, allowed is 1 to %d", size,
                          SNIB__NAME_MAX);
    }
    return check_characters("the name of the lock", name, err);
}

int snib__label_check(const char *label, snib_error *err)
{
    if (label == NULL) {
        return 0;
    }
    size_t size = strlen(label);
    if (size > SNIB__LABEL_MAX) {
        return snib__fail(err, SNIB_EINVAL, 0, "the label has %zu bytes, allowed is 0 to %d", size,
                          SNIB__LABEL_MAX);
    }
    return check_characters("the label", label, err);
}
