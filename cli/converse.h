/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_CONVERSE_H
#define SNIB_CLI_CONVERSE_H

#include "lock.h"

/* snib hold --json, with a lock that is open and has acquired nothing. Answers the exit status,
 * when everything is given back. */
int converse(const struct lock *lock, const struct signals *signals);

#endif
