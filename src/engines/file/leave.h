/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_LEAVE_H
#define SNIB_FILE_LEAVE_H

#include "engines/file/claim.h"

void snib__file_leave_queue(struct file_claim *); /* joining or waiting */
/* Everything it holds, in reverse order; then whoever waited for it is served or rung. */
void snib__file_leave_lock(struct file_claim *);
/* The session closes: all that its claims hold here, and nobody of ours is served. */
void snib__file_leave_all(struct lock *);

#endif
