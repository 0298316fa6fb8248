/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_BASE_ERROR_H
#define SNIB_BASE_ERROR_H

#include "snib.h"

#pragma GCC visibility push(default)

/* Fill `err` (may be NULL) and answer `code`. */
int snib__fail(snib_error *err, int code, int sys, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));

#pragma GCC visibility pop

#endif
