/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of the file engine: a code, an errno and one line that says which file it is about. */
#include "engines/file/failure.h"

#include "snib.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int snib__file_fail(struct failure *why, int code, int sys, const char *format, ...)
{
    va_list args;
    why->code = code;
    why->sys = sys;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return code;
}

int snib__file_fail_memory(struct failure *why)
{
    return snib__file_fail(why, SNIB_ENOMEM, ENOMEM, "out of memory");
}

int snib__file_failure_code(int sys)
{
    switch (sys) {
    case EACCES:
    case EPERM:
    case EROFS:
        return SNIB_EDENIED;
    case ENOMEM:
        return SNIB_ENOMEM;
    default:
        return SNIB_ESYS;
    }
}
