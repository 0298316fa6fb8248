/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_POSTGRES_EXAMINE_H
#define SNIB_POSTGRES_EXAMINE_H

#include "engines/engine.h"

void pg_examine(struct snib__query *);

/* See snib_rights. */
int pg_rights(const struct snib__session *, char *out, size_t size);

#endif
