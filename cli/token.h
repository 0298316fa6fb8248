/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_TOKEN_H
#define SNIB_CLI_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

/* A token in decimal, all of `text`, 1 to 2^64 - 1; else false. */
bool token_read(uint64_t *out, const char *text);

#endif
