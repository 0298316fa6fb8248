/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_UTF8_H
#define SNIB_CLI_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_INVALID UINT32_MAX

/* The character at `text`, which is not at its end, and its length in `*size`. Bytes that are no
 * UTF-8 come one by one as UTF8_INVALID. */
uint32_t utf8_next(const char *text, size_t *size);

/* Would a terminal or a log obey it instead of showing it? C0, DEL, C1, and what is invalid. */
int utf8_is_unsafe(uint32_t character);

#endif
