/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens as text. Digits and nothing else: a sign, a blank or a hexadecimal number is a mistake in
 * somebody's script, and a wrong token is worse than none.
 */
#include "token.h"

bool token_read(uint64_t *out, const char *text)
{
    uint64_t token = 0;
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(token, 10U, &token) ||
            __builtin_add_overflow(token, (unsigned)(*p - '0'), &token)) {
            return false;
        }
    }
    *out = token;
    return token != 0;
}
