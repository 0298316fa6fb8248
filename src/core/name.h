/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_NAME_H
#define SNIB_NAME_H

#include "engines/engine.h"

/* 1 to 200 bytes of UTF-8 without control characters, else EINVAL saying what is wrong. */
int snib__name_check(const char *name, snib_error *err);

/* A label: the same, 0 to 60 bytes. */
int snib__label_check(const char *label, snib_error *err);

#endif
