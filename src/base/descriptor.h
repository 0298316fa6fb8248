/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_BASE_DESCRIPTOR_H
#define SNIB_BASE_DESCRIPTOR_H

/*
 * For descriptors that must not be 0, 1 or 2: 0 means "not made" in the core, and a program that
 * has closed one of these, and prints to it all the same, must not print into one of ours. The core
 * uses it for all of its own; engines and net/ do not yet.
 */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* The same descriptor, or a copy above 2 that replaces it; -1 stays -1, with errno as it was. */
static inline int snib__descriptor(int fd)
{
    if (fd < 0 || fd > 2) {
        return fd;
    }
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    int sys = errno;
    close(fd);
    errno = sys;
    return high;
}

#endif
