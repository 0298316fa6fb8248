/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_ATTEMPT_H
#define SNIB_FILE_ATTEMPT_H

#include "engines/file/claim.h"

void snib__file_attempt(struct snib__claim *); /* the engine's slot, but for the outcomes */
/* Say everything that was decided. Each slot ends with it, and drive before it sleeps. */
void snib__file_attempt_answer_all(struct file_session *);
void snib__file_attempt_say_held(struct file_claim *, enum snib__verb);
void snib__file_attempt_listen(struct file_claim *); /* it can be asked to give up */

#endif
