/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_FILE_GRANT_H
#define SNIB_FILE_GRANT_H

#include "engines/file/view.h"

/* Give everybody of ours what it is their turn for; ring the others. */
void snib__file_grant_walk(struct view *);
void snib__file_grant_drop_permit(struct file_claim *);

#endif
