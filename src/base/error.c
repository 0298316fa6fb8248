/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error codes and messages.
 *
 * One list in snib.h gives the enum, the names and the texts, so that they cannot disagree. The
 * message lives in a struct of the caller's: it survives a failed open, and no other thread can
 * overwrite it.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(snib_error) == 512, "part of the ABI");

const char *snib_strerror(int code)
{
    switch (code) {
#define TEXT(name, value, text)                                                                    \
    case value:                                                                                    \
        return text;
        SNIB_ERRORS(TEXT)
#undef TEXT
    default:
        return "unknown code";
    }
}

const char *snib_errname(int code)
{
    switch (code) {
#define NAME(name, value, text)                                                                    \
    case value:                                                                                    \
        return #name;
        SNIB_ERRORS(NAME)
#undef NAME
    default:
        return "?";
    }
}

int snib__fail(snib_error *err, int code, int sys, const char *format, ...)
{
    if (err) {
        va_list args;
        err->code = code;
        err->sys = sys;
        err->holder_left_ms = -1;
        err->holder_token = 0;
        err->holder[0] = '\0';
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
        const char *cause = sys ? strerror(sys) : NULL;
        if (cause && !strstr(err->message, cause)) { /* an engine's reason may have said it */
            size_t used = strlen(err->message);
            snprintf(err->message + used, sizeof err->message - used, ": %s", cause);
        }
    }
    return code;
}
