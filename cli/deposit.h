/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_DEPOSIT_H
#define SNIB_CLI_DEPOSIT_H

#include "guardian.h"
#include "lock.h"

/* In the supervisor, when the locks are held: leave with the guardian what keeps them, or gives
 * them back, when the supervisor is dead. Answers 0 or, having said why, an exit status. */
int deposit_leave(struct guardian *guardian, const struct lock *lock);

/* In the guardian: take what has come. */
void deposit_take(const struct guardian *guardian);

/* In the guardian, when nothing of the job lives: give the locks of the dead supervisor back. */
void deposit_give_back(const struct guardian *guardian);

#endif
