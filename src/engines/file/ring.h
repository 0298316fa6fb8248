/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_RING_H
#define SNIB_FILE_RING_H

#include "engines/file/record.h"

#define RINGS_MAX 32 /* at a time */

/* Ring the first who waits behind that number in the queue; the next one too if that one is dead,
 * stopped or only reads. */
void snib__file_ring_behind(struct lock *, uint64_t order);
/* Something was let go: ring the first who waits, if anybody does. */
void snib__file_ring_first(struct lock *);

#endif
