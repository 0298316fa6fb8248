/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_QUEUE_H
#define SNIB_FILE_QUEUE_H

#include "engines/file/claim.h"

/* Into the queue, granted, or refused. */
void snib__file_queue_join(struct file_claim *);
/* Everybody of ours whose turn it is gets what they wait for; others are rung; the rest is told
 * as far as it has not been, watches what it waits for, and has a timer. */
void snib__file_queue_pump(struct lock *);
void snib__file_queue_schedule(struct lock *); /* set its timer */

/* Somebody rang: pump soon. */
void snib__file_queue_poke(struct lock *);
void snib__file_queue_poke_all(struct file_session *); /* those that wait */
/* A process has ended: whoever waited for it must look. */
void snib__file_queue_bereave(struct file_session *, const struct watch *);

#endif
