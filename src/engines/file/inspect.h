/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_INSPECT_H
#define SNIB_FILE_INSPECT_H

#include "engines/engine.h"

void snib__file_inspect(struct snib__query *); /* the engine's slot */

#endif
