/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_SPACE_H
#define SNIB_FILE_SPACE_H

#include <stdbool.h>
#include <stdint.h>

/* The number of this process's namespace of that kind ("pid", "net", "time"); 0: not known.
 * `network`: others may be on another host, where the same numbers mean something else. */
uint32_t snib__file_space(const char *kind, bool network);

#endif
