/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes names and labels against a second opinion, made another way: decode every character into
 * its number, look at the number, and encode it again; what comes out must be what went in.
 */
#include "core/name.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t encode(unsigned char out[4], uint32_t character)
{
    if (character < 0x80) {
        out[0] = (unsigned char)character;
        return 1;
    }
    size_t size = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 1; character >>= 6) {
        out[i] = (unsigned char)(0x80 | (character & 0x3f));
    }
    out[0] = (unsigned char)((0xf00U >> size) | character);
    return size;
}

static bool good(const unsigned char *text, size_t size)
{
    size_t i = 0;
    while (i < size) {
        static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
        size_t length = text[i] < 0x80 ? 1 : text[i] < 0xe0 ? 2 : text[i] < 0xf0 ? 3 : 4;
        uint32_t character = text[i] & masks[length];
        if (length > size - i) {
            return false;
        }
        for (size_t j = 1; j < length; j++) {
            character = character << 6 | (text[i + j] & 0x3fU);
        }
        unsigned char again[4];
        if (character < 0x20 || (character >= 0x7f && character < 0xa0) ||
            (character >= 0xd800 && character < 0xe000) || character > 0x10ffff ||
            encode(again, character) != length || memcmp(again, text + i, length) != 0) {
            return false;
        }
        i += length;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    assert(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    size = strlen(text);

    bool fine = good((const unsigned char *)text, size);
    snib_error error = {.code = 0};
    int rc = snib__name_check(text, &error);
    assert(rc == (fine && size >= 1 && size <= 200 ? SNIB_OK : SNIB_EINVAL));
    assert(error.code == rc);

    error.code = 0;
    rc = snib__label_check(text, &error);
    assert(rc == (fine && size <= 60 ? SNIB_OK : SNIB_EINVAL));
    assert(error.code == rc);
    free(text);
    return 0;
}
