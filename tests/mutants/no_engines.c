/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of core/engines.c where the core is built apart: the simulation brings its own engine,
 * and a mutant needs no other.
 */
#include "core/engines.h"

int snib__engine_find(const struct snib__engine **out, const char *scheme, snib_error *err)
{
    *out = NULL;
    return snib__fail(err, SNIB_ENOTSUP, 0, "%s: no engines here", scheme);
}
