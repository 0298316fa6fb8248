/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_ENVIRONMENT_H
#define SNIB_CLI_ENVIRONMENT_H

#include "lock.h"

/* What the job gets; environment_free ends it. NULL: out of memory. */
char **environment_make(const struct lock *lock);
void environment_free(char **environment);

/* Would this wait for a lock that a process above us holds until we are done? Answers 0 or,
 * having said so, an exit status. */
int environment_check_nested(const struct lock *lock);

#endif
