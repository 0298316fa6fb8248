/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_PATH_H
#define SNIB_FILE_PATH_H

#include "engines/file/failure.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* flock on the file that a path leads to. */
struct path_lock {
    int fd; /* -1: not locked */
    dev_t dev;
    ino_t ino;
};

/* Somebody outside snib who has flock on a file. */
struct flocker {
    uint32_t pid; /* 0: not known */
    int mode;
};

enum flocked { FLOCKED, FLOCK_BUSY, FLOCK_FAILED };

/* One try. FLOCK_BUSY: `dev` and `ino` tell whose holder to look for. */
enum flocked snib__file_path_lock(struct path_lock *, const char *path, int mode, struct failure *);
void snib__file_path_unlock(struct path_lock *);
/* True also if nothing is locked; false: the path leads elsewhere now. */
bool snib__file_path_valid(const struct path_lock *, const char *path);
struct flocker snib__file_path_flocker(dev_t, ino_t);

#endif
