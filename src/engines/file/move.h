/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_MOVE_H
#define SNIB_FILE_MOVE_H

#include "engines/file/claim.h"

#define MOVES_MAX 5 /* from file to file, for one claim */

/* The lock file was replaced: holders are told, and those who wait go to the file that the name
 * leads to now. Answers its lock, whose queue wants to be pumped; NULL: nobody had to go. */
struct lock *snib__file_move(struct lock *);

#endif
