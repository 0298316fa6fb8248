/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_NAMES_H
#define SNIB_FILE_NAMES_H

#include <stdbool.h>

#define FILE_NAME_BYTES 256

void snib__file_name_encode(char out[FILE_NAME_BYTES], const char *name);
/* 0: `out` is the name; 1: the name is in the file's header; -1: not a lock file of ours. */
int snib__file_name_decode(char out[FILE_NAME_BYTES], const char *file_name);

/* Is it a file of its own, to be locked as flock(1) does it? */
static inline bool snib__file_name_is_path(const char *name)
{
    return name[0] == '/';
}

/* The one spelling of a name that is a path, in `room`: without empty and "." parts, and without a
 * slash at its end. Links and ".." are left alone, because what they mean can change. Any other
 * name as it is. */
const char *snib__file_name_canonical(char room[FILE_NAME_BYTES], const char *name);

#endif
