/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other people's text, character by character.
 *
 * Labels and the names of holders come out of an engine that others may write to, so nothing is
 * taken for granted: overlong forms, surrogates and numbers beyond Unicode are invalid, as RFC 3629
 * has it.
 */
#include "utf8.h"

uint32_t utf8_next(const char *text, size_t *size)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    unsigned char first = at[0];
    size_t length = first < 0x80                     ? 1
                    : first >= 0xc2 && first <= 0xdf ? 2
                    : first >= 0xe0 && first <= 0xef ? 3
                    : first >= 0xf0 && first <= 0xf4 ? 4
                                                     : 0;
    *size = 1;
    if (length < 2) {
        return length ? first : UTF8_INVALID;
    }
    uint32_t character = first & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) { /* also at the end of the text */
            return UTF8_INVALID;
        }
        character = character << 6 | (at[i] & 0x3fU);
    }
    if (character < least[length] || character > 0x10ffff ||
        (character >= 0xd800 && character <= 0xdfff)) {
        return UTF8_INVALID;
    }
    *size = length;
    return character;
}

int utf8_is_unsafe(uint32_t character)
{
    return character < 0x20 || (character >= 0x7f && character <= 0x9f) ||
           character == UTF8_INVALID;
}
