/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_DIRECTORY_H
#define SNIB_FILE_DIRECTORY_H

#include "engines/engine.h"
#include "engines/file/failure.h"

#include <sys/types.h>

/* The directory of the lock files, opened and trusted. */
struct directory {
    struct snib__session *session; /* its URL; its traits are fewer on a network file system */
    char *path;
    int fd;
    dev_t dev;
    ino_t ino;
    int64_t tick; /* coarse clock, when the path last led here */
    uid_t user;   /* ours, effective */
    bool grouped;
    gid_t group;
    const char *group_name; /* NULL: not shared */
    bool network;           /* a network file system is allowed */
};

/* `session`, `group_name` and `network` are set by the caller, `fd` is -1. */
int snib__file_directory_open(struct directory *, struct failure *);
/* Follow the path again. 0: it leads to what is open; 1: it does not, and was opened anew. */
int snib__file_directory_check(struct directory *, struct failure *);
void snib__file_directory_close(struct directory *);
const char *snib__file_directory_network(long magic); /* "NFS"; NULL: a local file system */

#endif
