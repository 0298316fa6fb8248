/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_GROUP_H
#define SNIB_CLI_GROUP_H

#include <stdbool.h>
#include <sys/types.h>

/* Does a process of this group and session live? Zombies do not. No memory is allocated: safe
 * after fork in a program with threads. */
bool group_lives(pid_t pgid, pid_t session);

/* Is `pid` this process or an ancestor of it? True also when /proc cannot tell. */
bool process_is_above(pid_t pid);

/* Call fn for every name in a folder that is a number; same rules. False: cannot be read. */
bool each_number(const char *folder, bool (*fn)(int number, void *arg), void *arg);

#endif
