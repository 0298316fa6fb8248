/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_EXAMINE_H
#define SNIB_FILE_EXAMINE_H

#include "engines/engine.h"

void snib__file_examine(struct snib__query *); /* the engine's slot */

#endif
