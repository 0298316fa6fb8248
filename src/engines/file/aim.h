/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_AIM_H
#define SNIB_FILE_AIM_H

#include "engines/file/view.h"

/* Watch whom our waiters wait for. False: something has changed, walk again. */
bool snib__file_aim_watches(struct view *);

#endif
