/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and labels are any text: on the wire they are hexadecimal digits.
 */
#include "tcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *tcp_hex(struct hex *out, const void *bytes, size_t size)
{
    const unsigned char *b = bytes;
    size_t most = (sizeof out->digits - 1) / 2;
    size = size > most ? most : size;
    for (size_t i = 0; i < size; i++) {
        snprintf(out->digits + 2 * i, 3, "%02x", b[i]);
    }
    if (size == 0) {
        strcpy(out->digits, "-");
    }
    return out->digits;
}

const char *tcp_text_to_hex(struct hex *out, const char *text)
{
    return tcp_hex(out, text, strlen(text));
}

const char *tcp_from_hex(char *text)
{
    size_t size = strlen(text) / 2;
    for (size_t i = 0; i < size; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
        char *end;
        text[i] = (char)strtoul(pair, &end, 16);
        size = *end ? 0 : size;
    }
    text[size] = '\0';
    return text;
}
