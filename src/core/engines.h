/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_ENGINES_H
#define SNIB_ENGINES_H

#include "engines/engine.h"

/* Find the engine of a scheme, loading its module if it is one. */
int snib__engine_find(const struct snib__engine **out, const char *scheme, snib_error *err);

#endif
