/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One finding of an examination, told.
 */
#include "engines/redis/examine.h"

#include <stdarg.h>
#include <stdio.h>

void snib__finding_tell(const struct snib__examination *e, int verdict, const char *about,
                        const char *remedy, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snib_finding finding = {
        .size = sizeof finding,
        .verdict = verdict,
        .about = about,
        .text = text,
        .remedy = remedy,
    };
    snib__found(e->query, &finding);
}
