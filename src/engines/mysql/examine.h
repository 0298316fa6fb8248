/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_MYSQL_EXAMINE_H
#define SNIB_MYSQL_EXAMINE_H

#include "engines/engine.h"

/* The slots. */
void mysql_examine(struct snib__query *);
int mysql_rights(const struct snib__session *, char *out, size_t size);

#endif
