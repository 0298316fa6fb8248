/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_DETOUR_H
#define SNIB_FILE_DETOUR_H

#include "engines/file/claim.h"

/* The gate has been closed for too long: let those of ours who are first take the slot without it,
 * if it is free. True: the file was found to be replaced. */
bool snib__file_detour(struct lock *);

#endif
