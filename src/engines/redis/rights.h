/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_REDIS_RIGHTS_H
#define SNIB_REDIS_RIGHTS_H

#include "engines/engine.h"

int snib__redis_rights(const struct snib__session *, char *out, size_t size);

#endif
