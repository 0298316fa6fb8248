/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_FLOCKING_H
#define SNIB_FILE_FLOCKING_H

#include "engines/file/claim.h"

/* Keep the slot and wait for whoever has flock on the path; `fire` then tries again. Answers who
 * that is. Once more while it waits: a longer pause. */
bool snib__file_flocking_wait(struct file_claim *, snib__timer_fn *fire, struct flocker *out);
void snib__file_flocking_end(struct file_claim *); /* nothing if it does not wait */
/* A process has ended: whoever waited for its flock tries again now. */
void snib__file_flocking_bereave(struct file_session *, const struct watch *);

#endif
