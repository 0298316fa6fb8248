/* SPDX-License-Identifier: Apache-2.0 */
#include "engines/redis/layout.h"

#include <string.h>

void snib__pattern_escape(char *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("*?[]^\\", *text)) {
            *out++ = '\\';
        }
        *out++ = *text;
    }
    *out = '\0';
}
