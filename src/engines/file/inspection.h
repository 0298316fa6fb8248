/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_INSPECTION_H
#define SNIB_FILE_INSPECTION_H

#include "engines/file/lockfile.h"

/* Everybody at one name, as the kernel's locks prove it. */
struct inspection {
    struct header header;
    struct flock slot;      /* F_UNLCK: nobody has it */
    struct record holder;   /* of a slot held exclusively; pid only, when nothing else is proved */
    bool exclusive;         /* holder is one */
    bool unnoted;           /* holder shares it or has a permit, and its record was cut off */
    struct record *records; /* of the living: shared and counted holders, then waiters in order */
    size_t holders, count;
};

/* 0: seen; 1: there is no such file; or a code. To be ended in any case. */
int snib__file_inspection_begin(struct inspection *, struct cache *, const char *file_name,
                                struct failure *);
void snib__file_inspection_end(struct inspection *);

#endif
